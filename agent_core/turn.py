"""One turn of a thread, read from and written as messages; pure functions, no graph.

A turn is a prompt and all that follows it up to the next. How it ended is kept on its last answer,
`additional_kwargs["status"]`: missing or "ok", "step_limit", "loop", "error" (with "error": why),
"cancelled". A result keeps what became of its call in `additional_kwargs["outcome"]`: "success",
"error", "denied", "cancelled" or "unknown".

Every call of a thread has a number, in the order in which the model wrote them, and its result the
handle `r` and that number in `additional_kwargs["handle"]`. A message with calls keeps the number
of its first one in `additional_kwargs["first_call"]`. A call whose message another program wrote
has none, and is counted.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from context import text_of

BAD_REPLIES = 3  # replies in a row with nothing but broken calls end the turn
REPEATS = 3  # the same call with the same arguments is not run at this count
_BLANKS = re.compile(r"\\[nrt]|\s+")
AGAIN = "again"  # among a result's additional_kwargs: its call was made before, and not run
NOT_A_NAME = re.compile(r"[^A-Za-z0-9_-]")
_RESULT_CHARS = 1_000  # of the result that is shown where the model gave no answer
_NOT_MEANT = (
    "The model wrote a tool call into its text twice, in a way that leaves open whether it is "
    "meant. It was not run, and what the text says of a result is no result. "
    "Ask again in other words."
)
_MORE_ROOM = (
    "Raise reply_reserve in [context], ask for a smaller piece, or turn the model's reasoning off."
)


def current_turn(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The messages since the last prompt, that prompt first."""
    for at in range(len(messages) - 1, -1, -1):
        if isinstance(messages[at], HumanMessage):
            return list(messages[at:])
    return list(messages)


def route_before(messages: Sequence[AnyMessage], default: str) -> str:
    """The route of the last reply, `default` before the first one."""
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            return str(message.additional_kwargs.get("route", default))
    return default


def open_calls(messages: Sequence[AnyMessage]) -> tuple[str, list[dict[str, Any]]]:
    """Id of the last message with tool calls, and its calls without a result, in call order."""
    done: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            done.add(message.tool_call_id)
        elif isinstance(message, AIMessage) and message.tool_calls:
            first = message.additional_kwargs.get("first_call")
            repaired = message.additional_kwargs.get("repaired") or {}
            calls = [
                {
                    **call,
                    "handle": f"r{first + i}" if first else "",
                    "repaired": repaired.get(call["id"], ""),
                }
                for i, call in enumerate(message.tool_calls)
            ]
            return message.id or "", [call for call in calls if call["id"] not in done]
        else:
            break
    return "", []


def next_number(messages: Sequence[AnyMessage]) -> int:
    """The number of the first call that is not written yet."""
    behind = 0
    for message in reversed(messages):
        if isinstance(message, AIMessage) and message.tool_calls:
            behind += len(message.tool_calls)
            if first := message.additional_kwargs.get("first_call"):
                return int(first) + behind
    return 1 + behind


def handles_of(messages: Sequence[AnyMessage]) -> dict[str, ToolMessage]:
    """The results of a thread by their handles, in call order."""
    found: dict[str, ToolMessage] = {}
    numbers: dict[str, int] = {}
    number = 1
    for message in messages:
        if isinstance(message, AIMessage):
            number = int(message.additional_kwargs.get("first_call") or number)
            for call in message.tool_calls:
                numbers[call["id"] or ""] = number
                number += 1
        elif isinstance(message, ToolMessage) and message.tool_call_id in numbers:
            found[f"r{numbers[message.tool_call_id]}"] = message
    return found


def is_blank(text: str) -> bool:
    """Whether there is nothing to read in a text: white space, and signs that nobody sees."""
    return not any(sign.isprintable() and not sign.isspace() for sign in text)


def steps_of(turn: Sequence[AnyMessage]) -> int:
    """How many model calls the turn has taken."""
    return sum(isinstance(m, AIMessage) for m in turn)


def _signature(call: Mapping[str, Any]) -> str:
    """What two calls have in common that ask for the same; white space makes no difference."""
    args = json.dumps(call["args"], sort_keys=True, default=str)
    return f"{call['name']} {_BLANKS.sub('', args)}"


def call_key(call: Mapping[str, Any]) -> str:
    """A short text that is the same for calls of one name with the same arguments."""
    return hashlib.sha256(_signature(call).encode("utf-8", "replace")).hexdigest()[:16]


def keys_of(turn: Sequence[AnyMessage]) -> set[str]:
    """The `call_key` of each call of a turn."""
    return {call_key(c) for m in turn if isinstance(m, AIMessage) for c in m.tool_calls}


def _repeats(turn: Sequence[AnyMessage]) -> Counter[str]:
    calls = (c for m in turn if isinstance(m, AIMessage) for c in m.tool_calls)
    return Counter(map(_signature, calls))


def is_looping(turn: Sequence[AnyMessage]) -> bool:
    """Whether some call was asked for as often as it may be; broken calls are counted apart."""
    whole = [m for m in turn if not m.additional_kwargs.get("bad_calls")]
    return any(count >= REPEATS for count in _repeats(whole).values())


def bad_in_a_row(turn: Sequence[AnyMessage]) -> int:
    """How many of the last replies had nothing but broken calls."""
    count = 0
    for message in reversed(turn):
        if isinstance(message, AIMessage):
            if not message.additional_kwargs.get("bad_calls"):
                break
            count += 1
    return count


def result_of(call: Mapping[str, Any], text: str, outcome: str) -> ToolMessage:
    """The result of `call` as it is stored; anything but "success" has the status "error"."""
    return ToolMessage(
        text,
        tool_call_id=call["id"],
        name=call["name"],
        id=uuid.uuid4().hex,
        status="success" if outcome == "success" else "error",
        additional_kwargs={"outcome": outcome, "handle": call.get("handle", "")},
    )


def split_calls(
    reply: AIMessage, messages: Sequence[AnyMessage]
) -> tuple[AIMessage, list[ToolMessage]]:
    """A repaired reply to `messages` as it is stored, and the results of its calls that cannot run.

    Broken calls stay in the message, with empty arguments, because each result needs its call;
    a call that was made twice in this turn already is refused at the third time.
    """
    calls, refused, seen = list(reply.tool_calls), [], _repeats(current_turn(messages))
    first = next_number(messages)
    for number, call in enumerate(reply.tool_calls, first):
        if seen[_signature(call)] >= REPEATS - 1:
            text = "Not run: the same call was made twice already. Use the results above."
            result = result_of({"handle": f"r{number}"} | dict(call), text, "error")
            result.additional_kwargs[AGAIN] = True
            refused.append(result)
        seen[_signature(call)] += 1
    for broken in reply.invalid_tool_calls:
        name = NOT_A_NAME.sub("_", broken["name"] or "")[:64] or "unknown"
        handle = f"r{first + len(calls)}"
        unread: dict[str, Any] = {"name": name, "args": {}, "id": broken["id"], "handle": handle}
        calls.append({"name": name, "args": {}, "id": broken["id"], "type": "tool_call"})
        refused.append(result_of(unread, broken["error"] or "The call could not be read.", "error"))
    kwargs = {**reply.additional_kwargs, "first_call": first}
    if not reply.tool_calls:
        kwargs["bad_calls"] = True
    update = {"tool_calls": calls, "invalid_tool_calls": [], "additional_kwargs": kwargs}
    return reply.model_copy(update=update), refused


def closing(reply: AIMessage, status: str, error: str = "") -> AIMessage:
    """`reply` as the end of a turn: text only, with how the turn ended."""
    kwargs = {k: v for k, v in reply.additional_kwargs.items() if k == "route"}
    if status != "ok":
        kwargs["status"] = status
    if error:
        kwargs["error"] = error
    update = {"tool_calls": [], "invalid_tool_calls": [], "additional_kwargs": kwargs}
    return reply.model_copy(update=update)


def last_answer(reply: AIMessage, why: str, turn: Sequence[AnyMessage]) -> AIMessage:
    """The reply that had to be the last of its turn, marked with `why`; with the last result that
    is there, one of success before others, where a model that only wants to call said nothing."""
    every = [m for m in turn if isinstance(m, ToolMessage)]
    results = [m for m in every if m.status == "success"] or [
        m for m in every if not m.additional_kwargs.get(AGAIN)
    ]
    if not is_blank(text_of(reply.content)) or not results:
        return closing(reply, why)
    text = text_of(results[-1].content).strip()
    shown = text if len(text) <= _RESULT_CHARS else f"{text[:_RESULT_CHARS]}…"
    said = f"[The model gave no answer. The last result, of {results[-1].name}:]\n{shown}"
    return closing(reply.model_copy(update={"content": said}), why)


def answer_of(reply: AIMessage) -> AIMessage:
    """A reply without calls as the end of its turn; an empty one is an error that says so, and one
    that had calls in its text which are left out of it."""
    if "beside" in reply.additional_kwargs:
        return closing(reply, "error", _NOT_MEANT)
    if not is_blank(text_of(reply.content)):
        return closing(reply, "ok")
    reply = reply.model_copy(update={"content": ""})
    said = reply.response_metadata
    if said.get("finish_reason") == "length":
        spent = "for its reasoning" if said.get("only_thinking") else "before it answered"
        return closing(reply, "error", f"The model used up its output limit {spent}. {_MORE_ROOM}")
    if said.get("only_thinking"):
        error = "The model gave only its reasoning and no answer, twice."
    else:
        error = "The model gave an empty answer twice."
    return closing(reply, "error", f"{error} Ask again in other words, or try another model.")
