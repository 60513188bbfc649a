"""A stored message as JSON, and back as exactly that message; what is left out has its default."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    SystemMessage,
    ToolCall,
    ToolMessage,
)
from langchain_core.messages.ai import UsageMetadata

from agent_core.sent import SENT
from local_agent.errors import StorageError
from local_agent.transfer.check import Place
from local_agent.transfer.plain import NotPlain, from_plain, to_plain

_CLASSES: Mapping[str, type[BaseMessage]] = {
    "human": HumanMessage,
    "ai": AIMessage,
    "tool": ToolMessage,
    "system": SystemMessage,
}
_COMMON = ("type", "id", "name", "content", "additional_kwargs", "response_metadata")
_OWN: Mapping[str, tuple[str, ...]] = {
    "human": (),
    "system": (),
    "ai": ("tool_calls", "invalid_tool_calls", "usage_metadata"),
    "tool": ("tool_call_id", "status", "artifact"),
}
_TOKENS = ("input_tokens", "output_tokens", "total_tokens")
_HANDLE = re.compile(r"(r[0-9]{1,9})?")
_LAST_NUMBER = 10**9  # of a call; nobody makes so many

# What the program itself reads of `additional_kwargs`: of another type it would stumble over it.
_READ: Mapping[str, Callable[[Any], bool]] = {
    "first_call": lambda value: type(value) is int and 0 < value < _LAST_NUMBER,
    "handle": lambda value: isinstance(value, str) and bool(_HANDLE.fullmatch(value)),
    "outcome": lambda value: isinstance(value, str),
    "status": lambda value: isinstance(value, str),
    "error": lambda value: value is None or isinstance(value, str),
    "route": lambda value: isinstance(value, str),
    "bad_calls": lambda value: isinstance(value, bool),
    "shown": lambda value: type(value) is int and value >= 0,
    "edited": lambda value: isinstance(value, str | dict),
}


def message_to_json(
    message: BaseMessage, as_text: Callable[[Any], None] = lambda value: None
) -> dict[str, Any]:
    """The fields of `message` that are not at their default. Raises StorageError for other kinds.

    `as_text` is told of each value that JSON cannot hold and that is written as its text.
    """
    kind = next((k for k, cls in _CLASSES.items() if type(message) is cls), None)
    if kind is None:
        raise StorageError(
            f"A message of the kind '{message.type}' cannot be exported.",
            "Another program wrote it; this one has no such messages.",
        )
    given: dict[str, Any] = {"type": kind, "id": message.id, "content": message.content}
    for key in ("name", "additional_kwargs", "response_metadata", *_OWN[kind]):
        value = getattr(message, key)
        if value not in (None, {}, []) and (key, value) != ("status", "success"):
            given[key] = value
    for key in ("tool_calls", "invalid_tool_calls"):  # their "type" follows from the key
        if key in given:
            given[key] = [{k: v for k, v in call.items() if k != "type"} for call in given[key]]
    plain: dict[str, Any] = {key: to_plain(value, as_text) for key, value in given.items()}
    return plain


def message_from_json(value: Any, at: Place) -> AnyMessage:
    """The message of `message_to_json`. Raises TransferError, with the place, for anything else."""
    table: dict[str, Any] = at.of(value, dict)
    kind = at.need(table, "type", str)
    if kind not in _CLASSES:
        raise at["type"].wrong(f"is '{kind[:20]}'; messages are {', '.join(_CLASSES)}")
    at.known(table, (*_COMMON, *_OWN[kind]))
    try:
        fields = {key: from_plain(item) for key, item in table.items() if key != "type"}
    except NotPlain as exc:
        raise at.wrong(str(exc)) from exc
    _check_common(fields, at)
    if kind == "ai":
        _check_reply(fields, at)
    if kind == "tool":
        _check_result(fields, at)
    try:
        message: Any = _CLASSES[kind](**fields)
    except ValueError as exc:  # pydantic's; what it says has many lines
        raise at.wrong("is no message") from exc
    return message  # type: ignore[no-any-return]  # one of the classes above


def _check_common(fields: dict[str, Any], at: Place) -> None:
    at["id"].ident(fields.get("id"))
    content = fields.get("content")
    if isinstance(content, list):
        for i, block in enumerate(content):
            if not isinstance(block, str | dict):
                raise at["content"][i].wrong("must be a text or an object")
    else:
        at["content"].of(content, str)
    if fields.get("name") is not None:
        at["name"].of(fields["name"], str)
    said: dict[str, Any] = at.get(fields, "response_metadata", dict, {})
    if SENT in said and not _is_sent(said[SENT]):
        raise at["response_metadata"][SENT].wrong("has a value that it cannot have")
    for key, item in at.get(fields, "additional_kwargs", dict, {}).items():
        if key in _READ and not _READ[key](item):
            raise at["additional_kwargs"][key].wrong("has a value that it cannot have")


def _is_sent(facts: Any) -> bool:
    """Whether these can be the facts of a request, as `agent_core.sent` makes them."""
    if not isinstance(facts, dict) or not {"basis", "digest", "scale", "part"} <= facts.keys():
        return False
    texts, numbers = (facts["basis"], facts["digest"]), (facts["scale"], facts["part"])
    return all(isinstance(text, str) for text in texts) and all(
        type(number) in (int, float) and 0 < number < 100 for number in numbers
    )


def _check_reply(fields: dict[str, Any], at: Place) -> None:
    calls: list[Any] = at.get(fields, "tool_calls", list, [])
    fields["tool_calls"] = [_call(call, at["tool_calls"][i]) for i, call in enumerate(calls)]
    broken: list[Any] = at.get(fields, "invalid_tool_calls", list, [])
    place = at["invalid_tool_calls"]
    fields["invalid_tool_calls"] = [_broken(call, place[i]) for i, call in enumerate(broken)]
    # LangChain would make calls of them, unchecked.
    if "tool_calls" in fields.get("additional_kwargs", {}):
        raise at["additional_kwargs"].wrong('may not have "tool_calls"')
    if "usage_metadata" in fields:
        fields["usage_metadata"] = _usage(fields["usage_metadata"], at["usage_metadata"])


def _call(value: Any, at: Place) -> ToolCall:
    call: dict[str, Any] = at.of(value, dict)
    at.known(call, ("name", "args", "id"))
    name, args = at.need(call, "name", str), at.need(call, "args", dict)
    if not all(isinstance(key, str) for key in args):
        raise at["args"].wrong("must have texts as keys")
    if call.get("id") is not None:
        at["id"].ident(call["id"])
    return ToolCall(name=name, args=args, id=call.get("id"), type="tool_call")


def _broken(value: Any, at: Place) -> InvalidToolCall:
    call: dict[str, Any] = at.of(value, dict)
    at.known(call, ("name", "args", "id", "error"))
    for key, item in call.items():
        if item is not None:
            at[key].of(item, str)
    return InvalidToolCall(
        name=call.get("name"),
        args=call.get("args"),
        id=call.get("id"),
        error=call.get("error"),
        type="invalid_tool_call",
    )


def _usage(value: Any, at: Place) -> UsageMetadata:
    usage: dict[str, Any] = at.of(value, dict)
    for key in _TOKENS:
        at.need(usage, key, int)
    for key in ("input_token_details", "output_token_details"):
        for name, count in at.get(usage, key, dict, {}).items():
            at[key][name].of(count, int)
    return usage  # type: ignore[return-value]  # just checked


def _check_result(fields: dict[str, Any], at: Place) -> None:
    at.need(fields, "tool_call_id", str)
    if fields.get("status", "success") not in ("success", "error"):
        raise at["status"].wrong('must be "success" or "error"')
