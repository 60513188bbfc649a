"""The prompt: line editing and history by prompt_toolkit, or plain lines where escapes may not be.

Importing this module is cheap; prompt_toolkit (some 0.15 s) is imported when a prompt is built.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from local_agent.ui.commands import COMMANDS
from local_agent.ui.keyboard import (
    PlainLines,
    flush_keyboard,
    is_terminal,
    message_stream,
    without_echo,
)
from local_agent.ui.sanitize import safe_write

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

_LEAVE_HINT = "(Ctrl-C again or Ctrl-D leaves.)\n"


class ChatPrompt:
    """Reads from the terminal, a prompt or an answer at a time; satisfies `approval.Asker`.

    `history` is the file of earlier prompts (made with mode 0600; None, or a folder that cannot
    be written: in memory only). What background tasks print while a line is typed appears above
    it, if they write to sys.stdout or sys.stderr as they are at that moment.

    While it reads, SIGINT is its own; afterwards the handler of before is back, except one of
    `loop.add_signal_handler`, which is to be set for each turn.
    """

    def __init__(
        self,
        *,
        history: Path | None = None,
        message: str = "> ",
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._message = message
        self._lines: _Lines
        if can_edit_lines(os.environ if environ is None else environ):
            self._lines = _EditedLines(history)
        else:
            self._lines = PlainLines()

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows of the screen, as they are now."""
        columns, rows = shutil.get_terminal_size()
        return columns, rows

    def write(self, text: str) -> None:
        """Print text that is already harmless; on stderr when stdout is redirected."""
        safe_write(message_stream(), text)

    def discard_typed(self) -> None:
        """Forget keys that were typed and not read yet."""
        self._lines.discard_typed()

    @property
    def draft(self) -> str:
        """What stood on the line when a `read` was cancelled."""
        return self._lines.draft

    @property
    def edits(self) -> bool:
        """Whether lines can be edited; if not, a `read` has no use for a draft."""
        return isinstance(self._lines, _EditedLines)

    def silent(self) -> contextlib.AbstractContextManager[None]:
        """While open, keys are kept for the next `read`, but not shown in what is printed.

        Without line editing they are shown: nothing would show them later.
        """
        return without_echo() if self.edits else contextlib.nullcontext()

    async def read(self, draft: str = "") -> str | None:
        """The next prompt, newlines in it included; None when the user leaves.

        `draft` stands on the line already, where lines can be edited. Ctrl-C empties the line; at
        an empty one it takes two to leave. Ctrl-D there leaves.
        """
        text = await self._lines.read_prompt(self._message, self._say_how_to_leave, draft)
        return None if text is None else _without_surrogates(text)

    def _say_how_to_leave(self) -> None:
        self.write(_LEAVE_HINT)

    async def answer(self, question: str) -> str | None:
        """One line, kept out of the history; None at end of input. Ctrl-C: KeyboardInterrupt.

        The interrupt must be caught in the task that awaits this; out of a task it would end the
        event loop.
        """
        try:
            return _without_surrogates(await self._lines.read_line(question))
        except EOFError:
            self._end_line()
            return None
        except KeyboardInterrupt:
            self._end_line()
            raise

    def _end_line(self) -> None:
        """What follows begins a line: the terminal's own lines end with Enter only."""
        if not self.edits:
            self.write("\n")

    async def confirm(self, question: str, default: bool = False) -> bool:
        """A yes or no; Enter alone is `default`, end of input is no. Keys typed before don't count.

        `question` is printed as it is: make foreign text visible first.
        """
        self.discard_typed()
        while True:
            answer = await self.answer(f"{question} [{'Y/n' if default else 'y/N'}] ")
            match (answer or "").strip().lower():
                case "y" | "yes":
                    return True
                case "n" | "no":
                    return False
                case "":
                    return default and answer is not None


def can_edit_lines(environ: Mapping[str, str]) -> bool:
    """Whether the terminal may be sent the escape sequences that line editing needs.

    NO_COLOR and TERM=dumb promise output without any, so lines are then read as the terminal
    itself edits them.
    """
    if environ.get("NO_COLOR") or environ.get("TERM", "").lower() in {"dumb", "unknown"}:
        return False
    return is_terminal(sys.stdin) and is_terminal(sys.stdout)


class _Lines(Protocol):
    @property
    def draft(self) -> str: ...

    async def read_prompt(
        self, message: str, hint: Callable[[], None], draft: str
    ) -> str | None: ...

    async def read_line(self, message: str) -> str: ...  # EOFError, KeyboardInterrupt

    def discard_typed(self) -> None: ...


class _EditedLines:
    """Lines edited by prompt_toolkit."""

    def __init__(self, history: Path | None) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.application import get_app
        from prompt_toolkit.filters import Condition
        from prompt_toolkit.key_binding import KeyBindings
        from prompt_toolkit.output import create_output

        output = create_output(stdout=sys.stdout)
        # The cursor is never asked for its place: a terminal's late reply would be read as typed.
        if hasattr(output, "enable_cpr"):
            output.enable_cpr = False
        self._armed = False
        self._hint: Callable[[], None] = lambda: None
        self._prompts: PromptSession[str] = PromptSession(
            history=_history(history),
            multiline=True,
            prompt_continuation="· ",
            key_bindings=self._bindings(),
            completer=_command_completer(),
            # Room for the menu is taken below the line only while a command is typed.
            complete_while_typing=Condition(lambda: get_app().current_buffer.text.startswith("/")),
            enable_open_in_editor=False,
            output=output,
        )
        self._prompts.default_buffer.on_text_changed += self._disarm
        answer_keys = KeyBindings()
        _bind_early_end(answer_keys)
        self._answers: PromptSession[str] = PromptSession(output=output, key_bindings=answer_keys)

    @property
    def draft(self) -> str:
        return self._prompts.default_buffer.text

    async def read_prompt(self, message: str, hint: Callable[[], None], draft: str) -> str | None:
        from prompt_toolkit.patch_stdout import patch_stdout

        self._hint, self._armed = hint, False
        try:
            with patch_stdout(raw=True):
                return await self._prompts.prompt_async(message, default=draft)
        except EOFError:
            return None

    async def read_line(self, message: str) -> str:
        from prompt_toolkit.patch_stdout import patch_stdout

        with patch_stdout(raw=True):
            return await self._answers.prompt_async(message)

    def discard_typed(self) -> None:
        from prompt_toolkit.input.typeahead import clear_typeahead

        clear_typeahead(self._prompts.input)
        flush_keyboard()

    def _disarm(self, _: object) -> None:
        self._armed = False

    def _bindings(self) -> KeyBindings:
        from prompt_toolkit.enums import DEFAULT_BUFFER
        from prompt_toolkit.filters import has_focus
        from prompt_toolkit.key_binding import KeyBindings

        bindings = KeyBindings()
        at_prompt = has_focus(DEFAULT_BUFFER)

        # Enter typed while the program still starts arrives as a line feed (Ctrl-J), which
        # prompt_toolkit takes for Enter; so Ctrl-J cannot be the key for a new line.
        @bindings.add("enter", filter=at_prompt)
        def send(event: KeyPressEvent) -> None:
            event.current_buffer.validate_and_handle()

        @bindings.add("escape", "enter", filter=at_prompt)
        @bindings.add("escape", "c-j", filter=at_prompt)
        def insert_newline(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @bindings.add("c-c", filter=at_prompt)
        @bindings.add("<sigint>")
        def interrupt(event: KeyPressEvent) -> None:
            if event.current_buffer.text:
                event.current_buffer.reset()
                self._armed = False
            elif self._armed:
                event.app.exit(exception=EOFError())
            else:
                self._armed = True
                self._hint()

        _bind_early_end(bindings)
        _bind_whole_characters(bindings)
        return bindings


def _history(path: Path | None) -> History:
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    class PrivateHistory(FileHistory):
        """A history whose loss is no reason to lose the prompt that was typed."""

        def store_string(self, string: str) -> None:
            with contextlib.suppress(OSError):
                super().store_string(string)

    if path is None:
        return InMemoryHistory()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_RDWR, 0o600))
    except OSError:
        return InMemoryHistory()
    return PrivateHistory(str(path))


def _bind_early_end(bindings: KeyBindings) -> None:
    """Take a NUL on an empty line for Ctrl-D.

    That is what the kernel makes of a Ctrl-D which was typed just before the terminal was put
    into raw mode.
    """

    @bindings.add("c-@")
    def end(event: KeyPressEvent) -> None:
        if not event.current_buffer.text:
            event.app.exit(exception=EOFError())


def _bind_whole_characters(bindings: KeyBindings) -> None:
    """Make moving and deleting go by what a reader takes for a character, not by code point."""
    from prompt_toolkit.enums import DEFAULT_BUFFER
    from prompt_toolkit.filters import has_focus, has_selection

    at_prompt = has_focus(DEFAULT_BUFFER) & ~has_selection

    @bindings.add("left", filter=at_prompt)
    def left(event: KeyPressEvent) -> None:
        document = event.current_buffer.document
        event.current_buffer.cursor_left(_characters(document.text_before_cursor)[-1])

    @bindings.add("right", filter=at_prompt)
    def right(event: KeyPressEvent) -> None:
        document = event.current_buffer.document
        event.current_buffer.cursor_right(_characters(document.text_after_cursor)[0])

    @bindings.add("backspace", filter=at_prompt)
    def delete_before(event: KeyPressEvent) -> None:
        document = event.current_buffer.document
        event.current_buffer.delete_before_cursor(_characters(document.text_before_cursor)[-1])

    @bindings.add("delete", filter=at_prompt)
    def delete_after(event: KeyPressEvent) -> None:
        document = event.current_buffer.document
        event.current_buffer.delete(_characters(document.text_after_cursor)[0])


def _characters(text: str) -> list[int]:
    """How many code points the characters of `text` have, one after the other; [1] if none."""
    import wcwidth

    # Early versions of wcwidth, which prompt_toolkit allows, cannot tell.
    split = getattr(wcwidth, "iter_graphemes", iter)
    return [len(part) for part in split(text)] or [1]


def _command_completer() -> Any:
    from prompt_toolkit.completion import Completer, Completion

    class Commands(Completer):
        def get_completions(self, document: Any, complete_event: Any) -> Iterator[Completion]:
            typed = document.text
            if not typed.startswith("/") or " " in typed or "\n" in typed:
                return
            for spec in COMMANDS:
                if f"/{spec.name}".startswith(typed.lower()):
                    yield Completion(
                        f"/{spec.name}", start_position=-len(typed), display_meta=spec.help
                    )

    return Commands()


def _without_surrogates(text: str) -> str:
    """Bytes that are no UTF-8 arrive as lone surrogates, which no JSON or database can hold."""
    return re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text)
