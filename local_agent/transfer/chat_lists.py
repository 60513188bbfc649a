"""Lists of chat messages as the OpenAI interface has them, [{"role": …}, …], as a document.

Every call gets its result behind it and every result has its call, whatever the list has: servers
refuse anything else. Ids of messages are made here, and those of calls where they are missing or
come twice, as some servers number them anew in every reply.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolCall, ToolMessage
from langgraph.checkpoint.base.id import uuid6

from local_agent.errors import TransferError
from local_agent.transfer.check import LONGEST_ID, Place
from local_agent.transfer.document import Document, Step
from local_agent.transfer.plain import NotPlain, from_plain, storable

NO_RESULT = "[no result of this call in the imported conversation]"
_ROLES = ("user", "assistant", "tool", "function", "system", "developer")


@dataclass(slots=True)
class _List:
    """A list as it is read. `said` are warnings, each once."""

    messages: list[AnyMessage] = field(default_factory=list)
    said: dict[str, int] = field(default_factory=dict)
    open: list[tuple[str, str]] = field(default_factory=list)  # ids in the file, ours; no result
    names: dict[str, str] = field(default_factory=dict)  # our id -> name of the tool
    used: set[str] = field(default_factory=set)

    def say(self, what: str) -> None:
        self.said[what] = self.said.get(what, 0) + 1

    def close(self) -> None:
        """Give each open call a result that says there is none."""
        for _, ours in self.open:
            self.say("calls without a result, which got one that says so")
            self._result(ours, NO_RESULT, "unknown")
        self.open.clear()

    def _result(self, ours: str, text: str, outcome: str) -> None:
        self.messages.append(
            ToolMessage(
                text,
                id=uuid.uuid4().hex,
                tool_call_id=ours,
                name=self.names.get(ours),
                status="success" if outcome == "success" else "error",
                additional_kwargs={"outcome": outcome},
            )
        )

    def add_call(self, given: str, name: str, args: dict[str, Any]) -> ToolCall:
        ours = given if given and given not in self.used else f"call_{uuid.uuid4().hex}"
        self.used.add(ours)
        self.names[ours] = name
        self.open.append((given, ours))
        return ToolCall(name=name, args=args, id=ours, type="tool_call")

    def add_result(self, given: str | None, text: str) -> None:
        """Note the result of the call with that id; None: of the first one that has none."""
        found = next((pair for pair in self.open if given in (None, pair[0])), None)
        if found is None:
            self.say("results without a call, left out")
            return
        self.open.remove(found)
        self._result(found[1], text, "success")


def document_of(values: Sequence[Any], name: str, at: Place) -> tuple[Document, list[str]]:
    """The thread of a list of messages, and what of it could not be taken over.

    Raises TransferError, with the place, for what is no such message.
    """
    if not values:
        raise at.wrong("has no message")
    read = _List()
    for i, value in enumerate(values):
        _add(read, value, at[i])
    read.close()
    if not read.messages:
        raise at.wrong("has no message of a conversation")
    steps = _steps(read.messages)
    prompt = next((m for m in read.messages if isinstance(m, HumanMessage)), None)
    title = " ".join(str(prompt.content).split())[:80] if prompt else ""
    said = [f"{what}: {count}" for what, count in read.said.items()]
    return Document(name, title, datetime.now(UTC), steps), said


def _add(read: _List, value: Any, at: Place) -> None:
    table: dict[str, Any] = at.of(value, dict)
    role = at.need(table, "role", str)
    if role not in _ROLES:
        raise at["role"].wrong(f"is '{role[:20]}'; roles are {', '.join(_ROLES)}")
    text = _text(read, table.get("content"), at["content"])
    if role in ("system", "developer"):
        read.say("system messages, left out as this program has its own")
    elif role == "user":
        read.close()
        read.messages.append(HumanMessage(text, id=uuid.uuid4().hex))
    elif role == "assistant":
        read.close()
        calls = _calls(read, table, at)
        text = text or storable(at.get(table, "refusal", str, "") if table.get("refusal") else "")
        read.messages.append(AIMessage(text, id=uuid.uuid4().hex, tool_calls=calls))
    elif role == "tool":
        read.add_result(_id(at.need(table, "tool_call_id", str)), text)
    else:  # "function", the form before there were tools: one call at a time, without an id
        read.add_result(None, text)


def _text(read: _List, content: Any, at: Place) -> str:
    """The text of a message: a text, nothing, or a list of parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return storable(content)
    parts = []
    items: list[Any] = at.of(content, list)
    for i, item in enumerate(items):
        part: dict[str, Any] = at[i].of(item, dict)
        if part.get("type") in ("text", "input_text", "output_text"):
            parts.append(at[i].need(part, "text", str))
        elif part.get("type") == "refusal":
            parts.append(at[i].need(part, "refusal", str))
        else:
            kind = storable(str(part.get("type")))[:30]
            read.say("parts that are no text, left out")
            parts.append(f"[{kind} left out]")
    return storable("\n".join(parts))


def _calls(read: _List, table: Mapping[str, Any], at: Place) -> list[ToolCall]:
    found = []
    place = at["tool_calls"]
    items: list[Any] = (
        [] if table.get("tool_calls") is None else place.of(table["tool_calls"], list)
    )
    for i, item in enumerate(items):
        call: dict[str, Any] = place[i].of(item, dict)
        function: dict[str, Any] = place[i].need(call, "function", dict)
        given = _id(place[i].get(call, "id", str, "") if call.get("id") else "")
        found.append(_call(read, given, function, place[i]["function"]))
    if table.get("function_call"):
        function = at["function_call"].of(table["function_call"], dict)
        found.append(_call(read, "", function, at["function_call"]))
    return found


def _call(read: _List, given: str, function: dict[str, Any], at: Place) -> ToolCall:
    name = storable(at.need(function, "name", str))
    raw = function.get("arguments", "{}")
    args = raw
    if isinstance(raw, str):
        try:
            args = json.loads(raw or "{}")
        except (ValueError, RecursionError):
            args = None
    if not isinstance(args, dict):
        read.say("calls whose arguments are no object, kept as a text")
        args = {"arguments": raw if isinstance(raw, str) else json.dumps(raw)}
    try:
        return read.add_call(given, name, from_plain(args, marks=False))
    except NotPlain as exc:
        raise at.wrong(str(exc)) from exc


def _id(text: str) -> str:
    """An id as it may be stored; one that cannot be is as good as none."""
    return text if len(text) <= LONGEST_ID and text.isprintable() else ""


def _steps(messages: Sequence[AnyMessage]) -> tuple[Step, ...]:
    """A step for each message, results of one reply together; a prompt starts a turn."""
    steps: list[Step] = []

    def add(**fields: Any) -> None:
        number = len(steps)
        parent = steps[-1].id if steps else None
        steps.append(Step(str(uuid6(clock_seq=number % 16384)), parent, **fields))

    at = 0
    while at < len(messages):
        end = at + 1
        while end < len(messages) and isinstance(messages[at], ToolMessage):
            if not isinstance(messages[end], ToolMessage):
                break
            end += 1
        if isinstance(messages[at], HumanMessage):
            add(is_start=True)
        add(added=tuple(messages[at:end]))
        at = end
    if not steps:
        raise TransferError("There is no message.")
    return tuple(steps)
