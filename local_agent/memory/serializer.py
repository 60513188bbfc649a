"""Reads stored values back: messages and plain values only, the usual messages without detours."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import ormsgpack
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from local_agent.memory.faults import Unreadable
from local_agent.memory.shape import check_built

_READ = frozenset({"null", "bytes", "bytearray", "msgpack"})
# Kinds of LangGraph's extension to msgpack.
_MODEL, _SNAPSHOT = 5, 7

# It says of each class in a file that it was not built. That is as it should be, and no news.
logging.getLogger("langgraph").addHandler(logging.NullHandler())

Values = dict[str, Any]


class StrictSerializer(JsonPlusSerializer):
    """Reads back messages and plain values only, whatever LANGGRAPH_STRICT_MSGPACK says.

    The variable is looked at when LangGraph is imported; a list of allowed types that is passed
    (None: the built-in one) comes before it. The older "json" rows can name any class: not read.
    """

    def __init__(self, path: Path | str) -> None:
        super().__init__(allowed_msgpack_modules=None)
        self._path = path

    def with_msgpack_allowlist(
        self, extra_allowlist: Iterable[tuple[str, ...] | type]
    ) -> JsonPlusSerializer:
        """Itself: the list never grows by what a graph's state declares."""
        return self

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        if data[0] not in _READ:
            raise Unreadable(f"{self._path} holds a value of a kind that is not read: {data[0]}.")
        try:
            if data[0] == "msgpack":
                try:
                    return _usual(data[1])
                except ValueError:  # not a usual value, or damaged
                    pass
            value = super().loads_typed(data)
            check_built(value)
            return value
        except ValueError as exc:  # what ormsgpack raises for bytes that are no msgpack
            raise Unreadable(f"A value in {self._path} is damaged.") from exc


# -- the usual values -----------------------------------------------------------------------------
#
# LangGraph builds each message by its class, which checks every field: most of the time of opening
# a long thread. A message whose fields are exactly as its class would leave them is put together
# here from what was stored; for anything else the whole value is left to LangGraph.


def _usual(blob: bytes) -> Any:
    """The value of `blob`. ValueError for one that is not usual, and for what is no msgpack."""
    return ormsgpack.unpackb(blob, ext_hook=_extension, option=ormsgpack.OPT_NON_STR_KEYS)


def _extension(code: int, blob: bytes) -> Any:
    if code == _SNAPSHOT:
        return _DeltaSnapshot(_usual(blob))
    if code == _MODEL:
        for head, kind, is_usual in _KINDS:
            if blob.startswith(head):
                # An extension inside a message is not usual: without a hook it is an error.
                values = ormsgpack.unpackb(blob, option=ormsgpack.OPT_NON_STR_KEYS)[2]
                if is_usual(values):
                    return _message(kind, values)
    raise ValueError("not a usual value")


def _message(kind: type[BaseMessage], values: Values) -> BaseMessage:
    """A message as its class leaves it, by the four parts that a pydantic object has."""
    message = kind.__new__(kind)
    _put(message, "__dict__", values)
    _put(message, "__pydantic_fields_set__", set(values))
    _put(message, "__pydantic_extra__", {})
    _put(message, "__pydantic_private__", None)
    return message


_put = object.__setattr__
_BASE = frozenset({"content", "additional_kwargs", "response_metadata", "type", "name", "id"})
_PROMPT = _BASE
_REPLY = _BASE | {"tool_calls", "invalid_tool_calls", "usage_metadata"}
_RESULT = _BASE | {"tool_call_id", "artifact", "status"}
_CALL = frozenset({"name", "args", "id", "type"})
_TOKENS = frozenset({"input_tokens", "output_tokens", "total_tokens"})
_DETAILS = {
    "input_token_details": frozenset(InputTokenDetails.__annotations__),
    "output_token_details": frozenset(OutputTokenDetails.__annotations__),
}


def _is_base(values: Values, kind: str) -> bool:
    return (
        type(values["content"]) is str
        and values["type"] == kind
        and type(values["additional_kwargs"]) is dict
        and type(values["response_metadata"]) is dict
        and _is_text(values["id"])
        and _is_text(values["name"])
    )


def _is_text(value: Any) -> bool:
    return value is None or type(value) is str


def _is_prompt(values: Values) -> bool:
    return values.keys() == _PROMPT and _is_base(values, "human")


def _is_system(values: Values) -> bool:
    return values.keys() == _PROMPT and _is_base(values, "system")


def _is_result(values: Values) -> bool:
    return (
        values.keys() == _RESULT
        and _is_base(values, "tool")
        and type(values["tool_call_id"]) is str
        and values["status"] in ("success", "error")
    )


def _is_reply(values: Values) -> bool:
    return (
        values.keys() == _REPLY
        and _is_base(values, "ai")
        and values["invalid_tool_calls"] == []
        and type(values["tool_calls"]) is list
        and all(map(_is_call, values["tool_calls"]))
        and "tool_calls" not in values["additional_kwargs"]  # LangChain would read them
        and _is_usage(values["usage_metadata"])
    )


def _is_call(call: Any) -> bool:
    return (
        type(call) is dict
        and call.keys() == _CALL
        and type(call["name"]) is str
        and type(call["args"]) is dict
        and all(type(name) is str for name in call["args"])
        and _is_text(call["id"])
        and call["type"] == "tool_call"
    )


def _is_usage(usage: Any) -> bool:
    if usage is None:
        return True
    if type(usage) is not dict or not usage.keys() >= _TOKENS:
        return False
    for name, value in usage.items():
        if name in _TOKENS:
            if type(value) is not int:
                return False
        elif name not in _DETAILS or not _is_counts(value, _DETAILS[name]):
            return False
    return True


def _is_counts(value: Any, names: frozenset[str]) -> bool:
    return type(value) is dict and all(
        name in names and type(count) is int for name, count in value.items()
    )


def _head(kind: type[BaseMessage]) -> bytes:
    """How a message of this class begins: four parts, its module, its name."""
    return b"\x94" + ormsgpack.packb(kind.__module__) + ormsgpack.packb(kind.__name__)


_KINDS: tuple[tuple[bytes, type[BaseMessage], Callable[[Values], bool]], ...] = (
    (_head(ToolMessage), ToolMessage, _is_result),
    (_head(AIMessage), AIMessage, _is_reply),
    (_head(HumanMessage), HumanMessage, _is_prompt),
    (_head(SystemMessage), SystemMessage, _is_system),
)
