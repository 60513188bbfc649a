"""The turn on a terminal: the answer as it streams, tool lines, and a line while nothing comes.

Text is written once and never repainted, so scrollback, resizing and copying work as with any
program; the terminal wraps. The one line that is taken back is the waiting line, and it stands
only where the cursor is at the start of a line.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable
from typing import TextIO

from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style

from local_agent.events import (
    ApprovalRequested,
    Event,
    Notice,
    RouteChosen,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from local_agent.ui import lines
from local_agent.ui.plain import ending_lines
from local_agent.ui.sanitize import StreamSanitizer, safe_write, visible

_CLEAR_LINE = "\r\x1b[K"
_TICK_SECONDS = 0.5
_QUIET_SECONDS = 1.0  # shorter silences are not worth a line
_NOTICE_STYLES = {"info": "dim", "warning": "yellow", "error": "red"}
_RESULT_STYLES = {"success": "dim", "error": "red", "denied": "yellow"}


def make_console(stream: TextIO | None = None) -> Console:
    """A console on `stream`, or on whatever sys.stdout is at the time of each write.

    NO_COLOR, TERM=dumb and a stream that is no terminal mean no escape sequence at all, not only
    no colour; FORCE_COLOR does not change that.
    """
    target = stream or sys.stdout
    # rich takes an empty NO_COLOR for unset, as the convention has it.
    console = Console(file=stream, markup=False, highlight=False, emoji=False, soft_wrap=True)
    if not target.isatty() or console.no_color or console.is_dumb_terminal:
        return Console(file=stream, color_system=None, force_terminal=False, soft_wrap=True)
    return console


class TerminalRenderer:
    """Shows the events of a session on a console.

    `asks`: an approval is asked for by `ui.approval.ask`, which shows the calls itself; without,
    they are listed. `clock` gives seconds. Raises BrokenPipeError when the terminal is gone.
    """

    def __init__(
        self,
        console: Console,
        *,
        asks: bool = True,
        quiet: bool = False,
        options: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console
        self._asks = asks
        self._quiet = quiet
        self._options = options
        self._clock = clock
        self._escapes = console.color_system is not None and not console.legacy_windows
        self._text = StreamSanitizer()
        self._kind = ""  # what streams now: "", "answer" or "thinking"
        self._said: list[str] = []  # the text of the reply that streams now
        self._at_start = True  # of a line
        self._doing = ""  # what a silence is explained with; "" while a person is asked
        self._since = self._wrote = 0.0
        self._waiting = False  # the waiting line stands on the screen
        self._ticker: asyncio.Task[None] | None = None

    def begin_turn(self, doing: str = "reading the prompt") -> None:
        """A prompt or a decision was sent: from here a silence is explained, by `doing`.

        Needs a running event loop; `end_turn` must follow.
        """
        self._phase(doing)
        if self._escapes and self._ticker is None:
            self._ticker = asyncio.get_running_loop().create_task(self._tick())

    def end_turn(self) -> None:
        """No more events, however the turn ended; safe to call twice, and after an exception."""
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        self._doing = ""
        self._take_back()
        self._end_stream()

    def show(self, event: Event) -> None:
        """Write what this event brings."""
        match event:
            case TextDelta():
                self._said.append(event.text)
                self._stream("answer", event.text)
            case ThinkingDelta():
                self._stream("thinking", event.text)
            case TurnFinished():
                self._finish(event)
            case _:
                self._show_line(event)

    def show_status(self) -> None:
        """Draw or renew the waiting line, if there is a silence to explain and a place for it."""
        now = self._clock()
        possible = self._escapes and self._doing and self._at_start
        if not possible or now - self._wrote < _QUIET_SECONDS:
            return
        line = f"… {self._doing} ({int(now - self._since)} s)"
        # The last column stays free: some terminals wrap when it is written.
        line = line[: max(1, self._console.width - 1)]
        self._waiting = True
        safe_write(self._console.file, _CLEAR_LINE + self._styled(line, "dim"))

    def _show_line(self, event: Event) -> None:
        match event:
            case RouteChosen():
                self._line(lines.route_line(event.name), "cyan", note=True)
            case ToolStarted():
                self._line(lines.call_line(event.name, event.args), "cyan", note=True)
                self._phase(f"running {lines.one_line(event.name)}")
            case ToolFinished():
                style = _RESULT_STYLES.get(event.status, "yellow")
                self._line(_shortened(event.text), style, note=True)
                self._phase("reading the prompt")
            case ApprovalRequested():
                self._end_stream()
                self._phase("")
                self._take_back()
                for call in () if self._asks else event.calls:
                    self._line(
                        lines.approval_line(call.name, call.args, call.repaired), "bold yellow"
                    )
            case Notice():
                style = _NOTICE_STYLES[event.level]
                # The word, too: colour says nothing where there is none, and to some eyes.
                mark = "" if event.level == "info" else f"{event.level}: "
                self._line(mark + visible(event.text), style, note=event.level == "info")

    def _finish(self, event: TurnFinished) -> None:
        said = "".join(self._said).strip()
        if event.answer.strip() and event.answer.strip() not in said:
            self._end_stream()
            self._stream("answer", event.answer)
        self.end_turn()
        self._said.clear()
        for line in ending_lines(event, self._options):
            self._line(line, "red" if event.status in {"error", "timeout"} else "yellow")

    def _stream(self, kind: str, text: str) -> None:
        if self._kind != kind:
            self._end_stream()
            self._kind = kind
        self._put(self._text.feed(text), "dim italic" if kind == "thinking" else "")

    def _end_stream(self) -> None:
        """Close what streams: what was held back comes out, and the line is ended."""
        if self._kind:
            self._put(self._text.end(), "")
            self._kind = ""
        if not self._at_start:
            self._put("\n", "")

    def _line(self, text: str, style: str, *, note: bool = False) -> None:
        self._end_stream()
        if not (note and self._quiet):
            self._put(text, style)
            self._put("\n", "")

    def _put(self, text: str, style: str) -> None:
        if not text:
            return
        self._take_back()
        self._at_start = text.endswith("\n")
        self._wrote = self._clock()
        safe_write(self._console.file, self._styled(text, style))

    def _take_back(self) -> None:
        if self._waiting:
            self._waiting = False
            safe_write(self._console.file, _CLEAR_LINE)

    def _phase(self, doing: str) -> None:
        self._doing = doing
        self._since = self._wrote = self._clock()
        self._said.clear()

    def _styled(self, text: str, style: str) -> str:
        if not (style and self._escapes):
            return text
        parsed = Style.parse(style)
        # Each line by itself: a style must not run on into a line that others write.
        return "\n".join(
            parsed.render(part, color_system=ColorSystem.STANDARD) if part else ""
            for part in text.split("\n")
        )

    async def _tick(self) -> None:
        with contextlib.suppress(OSError):  # a terminal that is gone shows at the next event
            while True:
                await asyncio.sleep(_TICK_SECONDS)
                self.show_status()


def _shortened(text: str) -> str:
    line = lines.result_line(text)
    left = len(text) - lines.RESULT_CHARACTERS
    return f"{line} … ({len(text):,} characters)" if left > 0 else line
