"""Machine-readable output: one JSON object a prompt, or one event a line. ASCII, nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, TextIO

from local_agent.events import (
    ApprovalRequested,
    Event,
    Notice,
    PendingCall,
    RouteChosen,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from local_agent.ui.plain import NotesRenderer
from local_agent.ui.sanitize import safe_write

SCHEMA_VERSION = 1
_ENDED_EARLY = {"cancelled": "interrupted", "timeout": "the turn took longer than --timeout"}


class _Renderer:
    """What both forms have: JSON goes to `out`; with `err`, the notes go there."""

    def __init__(
        self,
        out: TextIO | None,
        err: TextIO | None = None,
        *,
        quiet: bool = False,
        options: str = "",
    ) -> None:
        self._out = out
        self._notes = NotesRenderer(err, quiet=quiet, options=options)


class JsonRenderer(_Renderer):
    """`--output json`: one object on `out` when a turn is over; with `err`, the notes there.

    Raises BrokenPipeError when nobody reads `out` any more.
    """

    def show(self, event: Event) -> None:
        """Write the object, if this event is the last of its turn."""
        if isinstance(event, TurnFinished):
            _write_line(self._out, result_object(event))
        self._notes.show(event)


class StreamJsonRenderer(_Renderer):
    """`--output stream-json`: one event a line on `out`; with `err`, the notes there.

    The model's reasoning has no type of its own in the format and is left out.
    Raises BrokenPipeError when nobody reads `out` any more.
    """

    def init(self, *, thread: str, tools: int, model: str) -> None:
        """The first line: the thread's name, how many tools are loaded, and the model's name."""
        line = {"type": "init", "schema_version": SCHEMA_VERSION}
        _write_line(self._out, {**line, "thread": thread, "tools": tools, "model": model})

    def show(self, event: Event) -> None:
        """Write the lines of this event."""
        for line in _event_objects(event):
            _write_line(self._out, line)
        self._notes.show(event)


def result_object(event: TurnFinished) -> dict[str, Any]:
    """The object of `--output json` for one prompt.

    `approval_id` is there only while an approval waits. A turn that was interrupted or ran out of
    time has the status "error" and says so in `error`.
    """
    result: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "thread": event.thread,
        "route": event.route,
        "answer": event.answer,
        "tool_calls": [
            {"name": call.name, "args": call.args, "status": call.status}
            for call in event.tool_calls
        ],
        "usage": {"input_tokens": event.input_tokens, "output_tokens": event.output_tokens},
        "steps": event.steps,
        "status": "error" if event.status in _ENDED_EARLY else event.status,
        "error": event.error or _ENDED_EARLY.get(event.status),
    }
    if event.approval_id:
        result["approval_id"] = event.approval_id
    return result


def _event_objects(event: Event) -> list[dict[str, Any]]:
    match event:
        case RouteChosen():
            return [{"type": "route", "name": event.name}]
        case TextDelta():
            return [{"type": "text", "text": event.text}] if event.text else []
        case ToolStarted():
            return [{"type": "tool_use", **_call(event)}]
        case ToolFinished():
            head = {"type": "tool_result", "id": event.call_id, "name": event.name}
            return [{**head, "status": event.status, "text": event.text}]
        case ApprovalRequested():
            calls = [
                {**_call(call), "why": call.why, "repaired": call.repaired} for call in event.calls
            ]
            return [{"type": "approval", "id": event.id, "thread": event.thread, "calls": calls}]
        case Notice(level="error"):
            return [{"type": "error", "message": event.text}]
        case Notice():
            head = {"type": "message", "role": "system", "level": event.level}
            return [{**head, "text": event.text}]
        case TurnFinished():
            return _ending_objects(event)
        case _:
            return []


def _ending_objects(event: TurnFinished) -> list[dict[str, Any]]:
    result = result_object(event)
    objects: list[dict[str, Any]] = []
    if event.answer:
        objects.append({"type": "message", "role": "assistant", "text": event.answer})
    if result["status"] == "error":
        objects.append({"type": "error", "message": result["error"] or "the turn failed"})
    return [*objects, {"type": "result", **result}]


def _call(call: ToolStarted | PendingCall) -> dict[str, Any]:
    return {
        "id": call.call_id,
        "name": call.name,
        "server": call.server,
        "tool": call.tool,
        "args": call.args,
    }


def _write_line(out: TextIO | None, value: Mapping[str, Any]) -> None:
    safe_write(out, json.dumps(_plain(value), ensure_ascii=True, allow_nan=False) + "\n")


def _plain(value: Any) -> Any:
    """`value` as JSON can say it: a NaN or an infinity as its name, an unknown kind as text."""
    match value:
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case float() if not math.isfinite(value):
            return str(value)
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)
