"""How a thread's messages are stored: as updates, joined to the list again when they are read."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from langchain_core.messages import BaseMessage, RemoveMessage
from langgraph.graph.message import add_messages

# Snapshots copy the whole conversation. Measured with 4 KB results: each fixed period makes the
# file grow with the square of the turns, and one is worth little, because building the messages is
# most of what loading a long thread costs. So none is taken, but for those LangGraph takes by
# itself: at a fork, at an `Overwrite`, after 5,000 supersteps.
NEVER = 1_000_000_000
_id = attrgetter("id")


def messages_channel() -> Any:
    """What stands in `Annotated[list[AnyMessage], messages_channel()]`.

    A channel that stores each update once and builds the list again from the stored updates.
    Where this LangGraph has no such channel: the reducer that stores the list at every step.
    Either reads what the other wrote.
    """
    try:
        # The reducer has no public name yet; the channel is marked beta.
        from langgraph.channels.delta import DeltaChannel
        from langgraph.graph.message import _messages_delta_reducer
    except ImportError:
        return add_messages

    ids = _Ids()

    def join(messages: list[Any], updates: Sequence[Any]) -> list[Any]:
        """LangGraph's reducer, without its index of all ids where messages are only appended."""
        joined = appended(messages, updates, ids)
        return _messages_delta_reducer(messages, list(updates)) if joined is None else joined

    reducer: Any = join
    return DeltaChannel(reducer, snapshot_frequency=NEVER)


class _Ids:
    """The ids of the list that was joined last: a turn joins the same one a dozen times.

    To ask each of 4,000 messages for its id takes 0.3 ms, to see that they are the same ones 0.02.
    """

    def __init__(self) -> None:
        self._messages: list[Any] = []
        self._ids: set[str] = set()

    def of(self, messages: Sequence[Any]) -> set[str]:
        """The ids of `messages`."""
        known = len(self._messages)
        if known > len(messages) or self._messages != messages[:known]:  # by identity, if the same
            self._messages, self._ids, known = [], set(), 0
        self._messages += messages[known:]
        self._ids.update(map(_id, messages[known:]))
        return self._ids


def appended(
    messages: Sequence[Any], updates: Sequence[Any], known: _Ids | None = None
) -> list[Any] | None:
    """`messages` and behind them those of `updates`; None where an update does anything else."""
    new: list[Any] = []
    for update in updates:
        if isinstance(update, list):
            new += update
        else:
            new.append(update)
    ids: set[str] = set()
    for message in new:
        if not isinstance(message, BaseMessage) or isinstance(message, RemoveMessage):
            return None
        if message.id is None:
            return None
        ids.add(message.id)
    if messages and not isinstance(messages[0], BaseMessage):
        return None  # as another program stored it
    if len(ids) != len(new) or not ids.isdisjoint((known or _Ids()).of(messages)):
        return None
    return [*messages, *new]
