"""Stored values as plain data, read without LangChain: a message is the mapping of its fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ormsgpack

# LangGraph's kinds of packed objects (langgraph.checkpoint.serde.jsonplus has no public names for
# them): all but these two are a list whose third item is what the object was made from.
_SNAPSHOT = 7
_ARRAY = 6


def plain_value(kind: str, blob: bytes | None) -> Any:
    """The value of a stored pair of type and bytes; objects as what they were made from.

    None for what cannot be read so: another serializer wrote it, or it is damaged. Nothing that
    the bytes name is imported or called.
    """
    if kind != "msgpack" or blob is None:
        return None
    try:
        return ormsgpack.unpackb(blob, ext_hook=_unpack, option=ormsgpack.OPT_NON_STR_KEYS)
    except (ValueError, RecursionError):
        return None


def _unpack(code: int, data: bytes) -> Any:
    value = ormsgpack.unpackb(data, ext_hook=_unpack, option=ormsgpack.OPT_NON_STR_KEYS)
    if code == _SNAPSHOT:
        return value
    if code == _ARRAY or not isinstance(value, list) or len(value) < 3:
        return None
    return value[2]


def messages_in(value: Any) -> list[Mapping[str, Any]]:
    """The messages of a plain value as mappings with "type" ("human", "ai", …) and "content".

    Programs hand in messages also as texts, as pairs of role and text, and as chat API objects.
    """
    if isinstance(value, Mapping) and "messages" in value:
        value = value["messages"]
    if _is_one(value):
        value = [value]
    if not isinstance(value, Sequence) or isinstance(value, str):
        return []
    return [message for item in value if (message := _message(item)) is not None]


def _is_one(value: Any) -> bool:
    if isinstance(value, (str, Mapping)):
        return True
    return isinstance(value, list) and len(value) == 2 and all(isinstance(v, str) for v in value)


_TYPES = {"user": "human", "assistant": "ai"}


def _message(item: Any) -> Mapping[str, Any] | None:
    if isinstance(item, str):
        return {"type": "human", "content": item}
    if isinstance(item, Mapping):
        role = str(item.get("type") or item.get("role") or "")
        return {**item, "type": _TYPES.get(role, role)}
    if isinstance(item, list) and len(item) == 2:
        role, content = item
        return {"type": _TYPES.get(str(role), str(role)), "content": content}
    return None


def text_in(message: Mapping[str, Any]) -> str:
    """The text of a message's content, blocks joined by newlines."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    parts = [
        b if isinstance(b, str) else b.get("text") for b in blocks if isinstance(b, (str, dict))
    ]
    return "\n".join(part for part in parts if isinstance(part, str) and part)
