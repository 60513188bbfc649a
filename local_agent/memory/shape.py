"""Whether what was read is a checkpoint, or messages: what it cannot build LangGraph lets pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.base import CheckpointTuple

from local_agent.memory.faults import Unreadable

_SHAPE: Mapping[str, type] = {
    "id": str,
    "channel_values": dict,
    "channel_versions": dict,
    "versions_seen": dict,
}
_USUAL = {HumanMessage, AIMessage, ToolMessage, SystemMessage}


def check_shape(found: object) -> None:
    """Raise Unreadable for what is no checkpoint, or no list of messages: a flipped bit does that.

    Asked at every load of a thread, so messages of the usual classes are only counted: that they
    are whole `check_built` saw when they were read.
    """
    if isinstance(found, CheckpointTuple):
        checkpoint: Any = found.checkpoint
        if not isinstance(checkpoint, dict) or any(
            not isinstance(checkpoint.get(key), kind) for key, kind in _SHAPE.items()
        ):
            raise Unreadable("a checkpoint of it is damaged")
    for history in found.values() if isinstance(found, Mapping) else ():
        seed = history.get("seed")
        values = [getattr(seed, "value", seed), *(write[2] for write in history["writes"])]
        for n, value in enumerate(values):
            value = getattr(value, "value", value)  # of an Overwrite
            # A list of another program may hold tables, of messages of its own classes.
            if value is not None and not _are_messages(value, (dict,) if n == 0 else ()):
                raise Unreadable("a message of it is damaged")


def _are_messages(value: Any, others: tuple[type, ...]) -> bool:
    items = value if isinstance(value, list) else [value]
    if set(map(type, items)) <= _USUAL:
        return True
    return all(_is_message(m) or isinstance(m, others) for m in items)


def check_messages(found: Sequence[object]) -> None:
    """Raise Unreadable unless all are messages."""
    if not all(map(_is_message, found)):
        raise Unreadable("a message of it is damaged")


def check_built(value: Any) -> None:
    """Raise Unreadable for a message without its content, at whatever depth of a value.

    LangGraph leaves such a one where it could not build it; it has the class of a message.
    """
    level = [value]
    while level:
        inner: list[Any] = []
        for item in level:
            if isinstance(item, BaseMessage):
                if not _is_message(item):
                    raise Unreadable("a message of it is damaged")
            elif isinstance(item, Mapping):
                inner += item.values()
            elif isinstance(item, list | tuple):
                inner += item
            elif hasattr(item, "value"):  # a snapshot, an Overwrite
                inner.append(item.value)
        level = inner


def _is_message(value: object) -> bool:
    return isinstance(value, BaseMessage) and isinstance(
        getattr(value, "content", None), str | list
    )
