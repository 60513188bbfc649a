"""Whether what was read is a checkpoint, or messages: what it cannot build LangGraph lets pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import CheckpointTuple

from local_agent.memory.faults import Unreadable

_SHAPE: Mapping[str, type] = {
    "id": str,
    "channel_values": dict,
    "channel_versions": dict,
    "versions_seen": dict,
}


def check_shape(found: object) -> None:
    """Raise Unreadable for what is no checkpoint, or no list of messages: a flipped bit does that.

    All that LangGraph cannot build it leaves as plain values, and stumbles over them later.
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
            items = value if isinstance(value, list) else [value]
            # A list of another program may hold tables, of messages of its own classes.
            kinds = (dict,) if n == 0 else ()
            if value is not None and not all(_is_message(m) or isinstance(m, kinds) for m in items):
                raise Unreadable("a message of it is damaged")


def check_messages(found: Sequence[object]) -> None:
    """Raise Unreadable unless all are messages."""
    if not all(map(_is_message, found)):
        raise Unreadable("a message of it is damaged")


def _is_message(value: object) -> bool:
    return isinstance(value, BaseMessage) and isinstance(
        getattr(value, "content", None), str | list
    )
