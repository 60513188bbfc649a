"""What a turn emits, as frozen values: the one interface between a session and whoever shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Status = Literal["ok", "approval_required", "step_limit", "error", "cancelled", "timeout"]
ToolStatus = Literal["success", "error", "denied", "cancelled", "unknown"]


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer as it streams in. A reply that turns into tool calls may stream too."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """A piece of the model's reasoning; never part of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class RouteChosen:
    """The router chose (or kept) a route for this turn."""

    name: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool call is about to run. `name` is what the model saw, `tool` the server's own name."""

    call_id: str
    name: str
    server: str
    tool: str
    args: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """The result of a call (also of one that was refused and never ran)."""

    call_id: str
    name: str
    status: ToolStatus
    text: str


@dataclass(frozen=True, slots=True)
class PendingCall:
    """One call that waits for a person. `why` is "write", "unknown_outcome" or "ran".

    "unknown_outcome": the call was started before a crash and may already have run. "ran": the
    same call has run already, on a course of the thread that was left since. `repaired` says what
    was changed in a call that the model did not write in this form; else it is empty.
    """

    call_id: str
    name: str
    server: str
    tool: str
    args: Mapping[str, Any]
    why: Literal["write", "unknown_outcome", "ran"] = "write"
    repaired: str = ""


WHYS = ("write", "unknown_outcome", "ran")


def pending_calls(value: object) -> tuple[PendingCall, ...]:
    """The calls of an approval as it is stored. ValueError for anything that is none."""
    rows = value.get("calls") if isinstance(value, Mapping) else None
    if not isinstance(rows, list) or not rows:
        raise ValueError("no calls")
    calls = []
    for row in rows:
        texts = ("call_id", "name", "server", "tool", "why")
        if not isinstance(row, Mapping) or set(row) - {"repaired"} != {*texts, "args"}:
            raise ValueError("not a call")
        if not all(isinstance(row[key], str) for key in {*texts, *row} - {"args"}):
            raise ValueError("not a call")
        if not isinstance(row["args"], Mapping) or row["why"] not in WHYS:
            raise ValueError("not a call")
        calls.append(PendingCall(**row))
    return tuple(calls)


@dataclass(frozen=True, slots=True)
class ApprovalRequested:
    """All calls of one message that need a yes. `id` is what `agent approvals` takes."""

    id: str
    thread: str
    calls: Sequence[PendingCall]


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A turn that the end of the program broke off; no event of a stream, but what one finds.

    `doing` is "model" (its answer was awaited), "tools" (`tools` had started and not ended) or
    "between" (two steps). `may_have_run`: there is a write among the tools.
    """

    prompt: str
    doing: Literal["model", "tools", "between"]
    tools: tuple[str, ...] = ()
    may_have_run: bool = False


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the user should know that is no part of the answer."""

    text: str
    level: Literal["info", "warning", "error"] = "info"


@dataclass(frozen=True, slots=True)
class ToolCallSummary:
    """One line of the `tool_calls` of a result."""

    name: str
    args: Mapping[str, Any]
    status: ToolStatus


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """The last event of a turn. Tokens are summed over all model calls of the turn.

    `cached_tokens` is the part of `input_tokens` that the server says it did not read anew.
    """

    thread: str
    route: str
    answer: str
    status: Status
    tool_calls: Sequence[ToolCallSummary] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    steps: int = 0
    error: str | None = None
    approval_id: str | None = None


Event = (
    TextDelta
    | ThinkingDelta
    | RouteChosen
    | ToolStarted
    | ToolFinished
    | ApprovalRequested
    | Notice
    | TurnFinished
)


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's answer to one pending call. What has no decision is a no."""

    approve: bool
    reason: str = ""
    scope: Literal["once", "thread"] = "once"


Decisions = Mapping[str, Decision]
__all__ = [
    "ApprovalRequested",
    "Decision",
    "Decisions",
    "Event",
    "Interrupted",
    "Notice",
    "PendingCall",
    "RouteChosen",
    "Status",
    "TextDelta",
    "ThinkingDelta",
    "ToolCallSummary",
    "ToolFinished",
    "ToolStarted",
    "ToolStatus",
    "TurnFinished",
    "pending_calls",
]
