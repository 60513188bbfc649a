"""The course of a thread in words and as JSON: turns, branches, checkpoints, one moment."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from local_agent.cli.threads import local_time
from local_agent.ui.lines import call_line, one_line, result_line
from local_agent.ui.sanitize import visible

if TYPE_CHECKING:
    from langchain_core.messages import AnyMessage

    from local_agent.timeline import Branch, Moved, Turn
    from local_agent.timeline.looking import Moment, Place

PROMPT_WIDTH = 60


def shortened(text: str) -> str:
    """The start of a text on one line."""
    line = one_line(" ".join(text.split()))
    return line if len(line) <= PROMPT_WIDTH else f"{line[: PROMPT_WIDTH - 1]}…"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows as lines, each column but the last as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def turn_lines(turns: Sequence[Turn]) -> list[str]:
    """The turns, newest first."""
    rows = []
    for turn in reversed(turns):
        when = local_time(turn.time) if turn.time else "not reachable"
        tools = f"[{one_line(', '.join(turn.tools))}]" if turn.tools else ""
        rows.append((f"{turn.number:>4}", when, f"{shortened(turn.prompt)}  {tools}".rstrip()))
    return aligned(rows)


def branch_lines(branches: Sequence[Branch]) -> list[str]:
    """The branches, newest first."""
    rows = []
    for one in branches:
        count = f"{one.turns} turn{'' if one.turns == 1 else 's'} from {one.first_turn} on"
        about = f"({one_line(one.why)}) {shortened(one.prompt)}"
        rows.append((one.id, local_time(one.created), count, about))
    return aligned(rows)


def place_lines(places: Sequence[Place]) -> list[str]:
    """The checkpoints, newest first, under the names of the columns."""
    rows = [("ID", "TIME", "TURN", "STEP", "NODE", "NEXT")]
    for one in places:
        following = one_line(", ".join(one.next)) or "-"
        when = one.time.astimezone().strftime("%Y-%m-%d %H:%M:%S %z")
        node = one_line(one.node)
        rows.append((one.id, when, str(one.turn), str(one.step), node, following))
    return aligned(rows)


def transcript(messages: Sequence[AnyMessage], turns: Sequence[Turn]) -> list[str]:
    """The conversation to be read: prompts, calls with the start of their results, answers."""
    times = {turn.number: turn.time for turn in turns}
    lines: list[str] = []
    number = 0
    for message in messages:
        if message.type == "human":
            number += 1
            when = times.get(number)
            lines += ["", f"── {number}{f' · {local_time(when)}' if when else ''}", ""]
            lines += [f"> {line}" for line in visible(_text(message)).split("\n")]
        elif message.type == "ai":
            lines += _reply_lines(message)
        elif message.type == "tool":
            lines.append(result_line(_text(message)) + _marks(message))
    return lines[1:]


def _reply_lines(message: AnyMessage) -> list[str]:
    calls = getattr(message, "tool_calls", ())
    lines = [call_line(call["name"], call["args"]) for call in calls]
    if text := _text(message):
        lines = ["", visible(text), *lines]
    status, error = _kwarg(message, "status"), _kwarg(message, "error")
    if status and status != "ok":
        lines.append(f"({one_line(status)}{f': {one_line(error)}' if error else ''})")
    return lines


def _marks(message: AnyMessage) -> str:
    marks = [_kwarg(message, "handle"), "edited" if _kwarg(message, "edited") else ""]
    shown = ", ".join(one_line(mark) for mark in marks if mark)
    return f"  [{shown}]" if shown else ""


def message_lines(messages: Sequence[AnyMessage]) -> list[str]:
    """Every message whole, under a line that says what it is."""
    lines: list[str] = []
    for message in messages:
        status = _kwarg(message, "outcome") or _kwarg(message, "status")
        name = getattr(message, "name", None)
        words = [message.type, name, _kwarg(message, "handle"), status]
        words += ["edited"] if _kwarg(message, "edited") else []
        words.append(message.id)
        lines.append(f"── {' · '.join(one_line(str(word)) for word in words if word)}")
        if text := _text(message):
            lines.append(visible(text))
        lines += [call_line(c["name"], c["args"]) for c in getattr(message, "tool_calls", ())]
    return lines


def field_lines(fields: Mapping[str, Any]) -> list[str]:
    """The fields of a state, those that are empty left out."""
    lines = []
    for name, value in fields.items():
        if value in ("", [], {}, None):
            continue
        if isinstance(value, str):
            lines.append(f"{name}: {visible(value)}")
        elif isinstance(value, Mapping):
            lines.append(f"{name}: {one_line(', '.join(map(str, value)))}")
        else:
            lines.append(f"{name}: {one_line(str(value))}")
    return lines


def moment_lines(moment: Moment) -> list[str]:
    """What was known at a checkpoint, and the request of the answer after it, whole."""
    following = ", ".join(moment.next) or "nothing: the turn was over"
    lines = [
        f"checkpoint {one_line(moment.checkpoint_id)}, {local_time(moment.time)}",
        f"next: {one_line(following)}",
        *field_lines(moment.fields),
        f"messages: {len(moment.messages)}",
    ]
    for call in moment.pending:
        lines.append(f"waits for approval: {call_line(str(call['name']), call['args'])[2:]}")
    sent = moment.sent
    if sent is None:
        return [*lines, "", "No answer of the model came after it in its turn."]
    where = "" if moment.sent_at == moment.checkpoint_id else f" at {moment.sent_at}"
    what = "exactly as it was sent" if sent.is_exact else f"not certain: {sent.why}"
    model = f"to {sent.model}" if sent.model else "to the model"
    length = f", {sent.context_length:,} tokens of context" if sent.context_length else ""
    lines += ["", f"== the request {one_line(model)}{one_line(where)} ({what}{length})"]
    lines += message_lines(sent.messages)
    for tool in sent.tools:
        function = tool.get("function", tool)
        about = f"{function.get('name')}: {function.get('description')}"
        lines.append(f"tool {one_line(about)}")
    if moment.answer is not None:
        lines += ["", "== what came of it", *message_lines([moment.answer])]
    return lines


def stands_line(moved: Moved, thread: str) -> str:
    """How a thread stands."""
    turns = f"{moved.turns} turn{'' if moved.turns == 1 else 's'}" if moved.turns else "no turn"
    tail = " The last one is not finished." if moved.is_open else ""
    return f"Thread '{one_line(thread)}' has {turns} now.{tail}"


def kept_line(branch: str, thread: str, options: str) -> str:
    """How to get back to what was left; `options` are those that lead to the same database."""
    command = f"agent threads rewind {shlex.quote(thread)} --branch {branch} {options}".rstrip()
    return f"What was left is kept: {one_line(command)}"


def moved_lines(moved: Moved, thread: str, options: str) -> list[str]:
    """What was done, and how to get back."""
    lines = [stands_line(moved, thread)]
    return [*lines, kept_line(moved.branch, thread, options)] if moved.branch else lines


# -- JSON -----------------------------------------------------------------------------------------


def turn_object(turn: Turn) -> dict[str, Any]:
    return {
        "number": turn.number,
        "time": turn.time.isoformat() if turn.time else None,
        "prompt": turn.prompt,
        "tools": list(turn.tools),
        "reachable": turn.is_reachable,
        "checkpoint_before": turn.checkpoint_before,
        "checkpoint_end": turn.checkpoint_end,
    }


def branch_object(branch: Branch) -> dict[str, Any]:
    return {
        "id": branch.id,
        "checkpoint_id": branch.checkpoint_id,
        "created": branch.created.isoformat(),
        "first_turn": branch.first_turn,
        "turns": branch.turns,
        "prompt": branch.prompt,
        "why": branch.why,
    }


def place_object(place: Place) -> dict[str, Any]:
    return {
        "id": place.id,
        "checkpoint_id": place.checkpoint_id,
        "time": place.time.isoformat(),
        "turn": place.turn,
        "step": place.step,
        "node": place.node,
        "next": list(place.next),
    }


def moved_object(moved: Moved, thread: str) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "thread": thread,
        "turns": moved.turns,
        "draft": moved.draft,
        "branch": moved.branch or None,
        "open": moved.is_open,
    }


def message_object(message: AnyMessage) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": message.type,
        "id": message.id,
        "content": message.content,
    }
    if calls := getattr(message, "tool_calls", None):
        found["tool_calls"] = [
            {"id": call["id"], "name": call["name"], "args": call["args"]} for call in calls
        ]
    if message.type == "tool":
        found |= {"name": message.name, "tool_call_id": getattr(message, "tool_call_id", "")}
    for name in ("handle", "outcome", "status", "error", "edited", "route"):
        if value := _kwarg(message, name):
            found[name] = value
    return found


def moment_object(moment: Moment, thread: str) -> dict[str, Any]:
    sent = moment.sent and {
        "checkpoint_id": moment.sent_at,
        "exact": moment.sent.is_exact,
        "why": moment.sent.why or None,
        "model": moment.sent.model or None,
        "context_length": moment.sent.context_length,
        "messages": objects(moment.sent.messages),
        "tools": list(moment.sent.tools),
    }
    return {
        "schema_version": 1,
        "thread": thread,
        "checkpoint_id": moment.checkpoint_id,
        "time": moment.time.isoformat(),
        "next": list(moment.next),
        "state": dict(moment.fields),
        "messages": objects(moment.messages),
        "pending": [dict(call) for call in moment.pending],
        "sent": sent,
        "answer": message_object(moment.answer) if moment.answer else None,
    }


def objects(messages: Iterable[AnyMessage]) -> list[dict[str, Any]]:
    return [message_object(message) for message in messages]


def _kwarg(message: AnyMessage, name: str) -> Any:
    return message.additional_kwargs.get(name) or ""


def _text(message: AnyMessage) -> str:
    from context import text_of

    return text_of(message.content)


def summary_lines(values: Mapping[str, Any]) -> list[str]:
    """The summary and the facts in the state `values`, a line each, harmless for the terminal."""
    text, facts = str(values.get("summary") or ""), values.get("facts") or ()
    if not text and not facts:
        return ["No turn is summarised yet; all of them are in the prompt."]
    lines = visible(text).split("\n") if text else []
    return [*lines, *(f"- {visible(str(fact), newlines=False)}" for fact in facts)]
