"""Plain text for pipes and files: the answer on stdout, everything else on stderr, no escapes."""

from __future__ import annotations

from typing import TextIO

from local_agent.events import (
    ApprovalRequested,
    Event,
    Notice,
    RouteChosen,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from local_agent.ui import lines
from local_agent.ui.sanitize import safe_write, visible


class NotesRenderer:
    """The stderr side of a turn, one line an event.

    `quiet` leaves what must be known: approvals, warnings and errors. Raises BrokenPipeError
    when nobody reads `err` any more.
    """

    def __init__(self, err: TextIO | None, *, quiet: bool = False, options: str = "") -> None:
        self._err = err
        self._quiet = quiet
        self._options = options

    def show(self, event: Event) -> None:
        """Write the lines that belong to this event, if any."""
        match event:
            case RouteChosen():
                self._note(lines.route_line(event.name))
            case ToolStarted():
                self._note(lines.call_line(event.name, event.args))
            case ToolFinished():
                self._note(lines.result_line(event.text))
            case ApprovalRequested():
                for call in event.calls:
                    self._write(lines.approval_line(call.name, call.args, call.repaired))
            case Notice(level="info"):
                self._note(visible(event.text))
            case Notice():
                self._write(f"{event.level}: {visible(event.text)}")
            case TurnFinished():
                for line in ending_lines(event, self._options):
                    self._write(line)
            case _:
                pass

    def _note(self, line: str) -> None:
        if not self._quiet:
            self._write(line)

    def _write(self, line: str) -> None:
        safe_write(self._err, line + "\n")


class PlainRenderer:
    """Text output when stdout is not a terminal.

    The answer is written once, when the turn is over: what streams before may still turn out to
    be the words around a tool call. Raises BrokenPipeError when nobody reads `out` any more; the
    caller ends quietly then, after `sanitize.discard_output(sys.stdout)`.
    """

    def __init__(
        self,
        out: TextIO | None,
        err: TextIO | None,
        *,
        quiet: bool = False,
        options: str = "",
    ) -> None:
        self._out = out
        self._notes = NotesRenderer(err, quiet=quiet, options=options)

    def show(self, event: Event) -> None:
        """Write what this event brings."""
        if isinstance(event, TurnFinished) and event.answer:
            text = visible(event.answer)
            safe_write(self._out, text if text.endswith("\n") else text + "\n")
        self._notes.show(event)


def ending_lines(event: TurnFinished, options: str = "") -> list[str]:
    """What is said at the end of a turn beside its answer; nothing for one that went well.

    `options` are those that a later command on the same thread needs.
    """
    match event.status:
        case "error":
            return [f"error: {visible(event.error or 'the turn failed')}"]
        case "timeout":
            return [f"error: {visible(event.error or 'the turn took longer than --timeout')}"]
        case "cancelled":
            return [visible(event.error or "Stopped. What was there is kept.")]
        case "approval_required" if event.approval_id:
            return [lines.approval_help(event.approval_id, options)]
        case "step_limit":
            return [f"warning: {visible(event.error or 'stopped at the step limit')}"]
        case _:
            return []
