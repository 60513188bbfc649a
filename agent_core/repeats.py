"""Calls that a turn makes again though the first one said all: the stutter of a small model.

What such a call adds to the prompt makes the next one likelier still, and a write that is done, or
that the person did not allow, would be asked about once more. So that one is not asked about, and a
call with its result that says the same again is left out of the view. A line behind the last
result says that one was made again: the prompt is then the one before with that line behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from agent_core.calls import NOT_ALLOWED
from agent_core.turn import AGAIN, call_key, current_turn
from agent_core.view import MADE_AGAIN, REPEATED
from context import text_of

DONE = "Not run again: this very call was carried out in this turn already. Its result is above."
DENIED = "Not run: the user did not allow this very call in this turn. Do not repeat it; answer."


def answer_to_repeat(
    call: Mapping[str, Any], message_id: str, messages: Sequence[AnyMessage], read_only: bool
) -> str:
    """What the model is told of `call` in the message `message_id`, if its turn has it before.

    That is where it was not allowed, or is a write that was carried out, and no other call was
    since: a build may be run again after an edit. Else empty.
    """
    wanted, keys = call_key(call), dict[str, str]()
    last = ""
    for message in current_turn(messages):
        if message.id == message_id:
            break
        if isinstance(message, AIMessage):
            keys = {one["id"] or "": call_key(one) for one in message.tool_calls}
        elif isinstance(message, ToolMessage) and not message.additional_kwargs.get(AGAIN):
            outcome = str(message.additional_kwargs.get("outcome"))
            if keys.get(message.tool_call_id) == wanted:
                last = outcome
            elif outcome == "success":
                last = ""
    if last == "denied":
        return DENIED
    return DONE if last == "success" and not read_only else ""


def marks_of_next(
    turn: Sequence[AnyMessage], values: Mapping[str, Any], *, last: str, drops: bool
) -> dict[str, Any]:
    """The marks `cuts` and `nudged` for the next model call of a turn, where that changes them.

    With `drops` repeats are left out. Where it is the last call of the turn, for the reason `last`,
    a line behind the last result says that it is.
    """
    cuts, nudged = dict(values.get("cuts") or {}), list(values.get("nudged") or [])
    repeats = list(_repeats(turn)) if drops else []
    cuts |= dict.fromkeys(repeats, REPEATED)
    end = _last_shown(turn, cuts)
    is_again = bool(repeats) and repeats[-1] == _last_reply(turn)
    for mark, is_wanted in ((end + MADE_AGAIN, is_again), (end, bool(last))):
        if is_wanted and end and mark not in nudged:
            nudged.append(mark)
    changed = {"cuts": cuts, "nudged": nudged}
    return {name: new for name, new in changed.items() if new != (values.get(name) or type(new)())}


def wants_words(turn: Sequence[AnyMessage]) -> Literal["again", "denied", ""]:
    """Why the last calls of a turn leave nothing to do but to answer; empty where they do not.

    They say what those just before them say, or the person allowed none of them and gave no reason
    that would ask for others.
    """
    before: dict[str, ToolMessage] = {}
    why: Literal["again", "denied", ""] = ""
    for reply, results in _exchanges(turn):
        if reply.additional_kwargs.get("bad_calls"):
            why = ""
            continue
        pairs = [(call_key(c), results.get(c["id"] or "")) for c in reply.tool_calls]
        told = {key: one for key, one in pairs if one is not None}
        if told and not any(_says_more(one, before.get(key)) for key, one in pairs):
            why = "again"
            continue
        is_denied = told and all(map(_is_bare_no, told.values()))
        why, before = "denied" if is_denied else "", told
    return why


def _is_bare_no(result: ToolMessage) -> bool:
    """Whether a person said no and no more; a tool that says the same text is none."""
    is_denied = result.additional_kwargs.get("outcome") == "denied"
    return is_denied and text_of(result.content) == NOT_ALLOWED


def _last_shown(turn: Sequence[AnyMessage], cuts: Mapping[str, int]) -> str:
    """The id of the last result that the view has."""
    found, is_shown = "", True
    for message in turn:
        if isinstance(message, AIMessage):
            is_shown = cuts.get(message.id or "") != REPEATED
        elif is_shown and isinstance(message, ToolMessage):
            found = message.id or ""
    return found


def _last_reply(turn: Sequence[AnyMessage]) -> str:
    return next((m.id or "" for m in reversed(turn) if isinstance(m, AIMessage)), "")


def _repeats(turn: Sequence[AnyMessage]) -> Iterator[str]:
    """Ids of replies all of whose results say what results before them say."""
    first: dict[str, ToolMessage] = {}
    for reply, results in _exchanges(turn):
        if reply.additional_kwargs.get("bad_calls"):
            continue
        pairs = [(call_key(c), results.get(c["id"] or "")) for c in reply.tool_calls]
        if pairs and not any(_says_more(one, first.get(key)) for key, one in pairs):
            yield reply.id or ""
            continue
        first |= {key: one for key, one in pairs if one is not None}


def _exchanges(turn: Sequence[AnyMessage]) -> Iterator[tuple[AIMessage, dict[str, ToolMessage]]]:
    """Replies with their results by the ids of calls, which may come again in the next reply."""
    reply: AIMessage | None = None
    results: dict[str, ToolMessage] = {}
    for message in turn:
        if isinstance(message, AIMessage):
            if reply is not None:
                yield reply, results
            reply, results = message, {}
        elif isinstance(message, ToolMessage):
            results[message.tool_call_id] = message
    if reply is not None:
        yield reply, results


def _says_more(result: ToolMessage | None, before: ToolMessage | None) -> bool:
    """Whether a result is not that of a repeat, or not the same as the one before it."""
    if result is None or before is None:
        return True
    is_again = bool(result.additional_kwargs.get(AGAIN))
    return not is_again and text_of(result.content) != text_of(before.content)
