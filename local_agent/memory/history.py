"""The stored updates of a channel, read once: what opening a long thread costs.

LangGraph keeps a conversation as the updates that made it, and asks for all of them whenever it
loads a thread, several times a turn. Here the way back from a checkpoint is read in one pass over
the thread's rows, and what was read is kept: later calls add what came since.
"""

from __future__ import annotations

import gc
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.base import DeltaChannelHistory, PendingWrite
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from local_agent.memory.back import (
    NO_SEED,
    Loads,
    Place,
    Row,
    Way,
    straight_back,
    updates_on,
    way_back,
)
from local_agent.memory.connection import Statements
from local_agent.memory.faults import Unreadable
from local_agent.memory.sums import CHANNEL, Running, Sum, check, check_chain, saved_of, sums_on

KEPT = 2  # threads that were used last; each is as large as its conversation
_PLAIN = {HumanMessage, AIMessage, ToolMessage, SystemMessage}  # others may do more than append

ReadAnew = Callable[[], Awaitable[DeltaChannelHistory]]


@dataclass(slots=True)
class _Known:
    """A channel's history at checkpoint `head`.

    Updates that only append messages are `messages` already, with their `ids`; `writes` are the
    first other one and all behind it. `running` is the sum over what led to the head, and `mark`
    that of the head alone; None where they are not known.
    """

    head: str
    messages: list[BaseMessage] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    seed: Any = NO_SEED  # where the value begins with something else than messages
    writes: list[PendingWrite] = field(default_factory=list)
    running: Running | None = None
    mark: int | None = None

    def start(self, seed: Any) -> None:
        if seed is not NO_SEED:
            self.seed = seed.value if isinstance(seed, _DeltaSnapshot) else seed
            if self._append([self.seed]):
                self.seed = NO_SEED

    def add(self, writes: list[PendingWrite]) -> None:
        if self.seed is NO_SEED and not self.writes:
            if self._append([value for _, _, value in writes]):
                return
            while writes and self._append([writes[0][2]]):
                writes = writes[1:]
        self.writes += writes

    def _append(self, values: list[Any]) -> bool:
        """Whether `values` are nothing but new messages, which are then appended."""
        if not all(type(value) is list for value in values):
            return False
        new = list(chain.from_iterable(values))
        if not {type(message) for message in new} <= _PLAIN:
            return False
        ids = {message.id for message in new}
        if len(ids) < len(new) or None in ids or not ids.isdisjoint(self.ids):
            return False
        self.ids |= ids
        self.messages += new
        return True

    def history(self) -> DeltaChannelHistory:
        """What LangGraph gets; its lists are its own."""
        found: DeltaChannelHistory = {"writes": list(self.writes)}
        if self.seed is not NO_SEED or self.messages:
            found["seed"] = copy(self.messages if self.seed is NO_SEED else self.seed)
        return found


class Histories:
    """The histories of one database's channels."""

    def __init__(self, statements: Statements, serde: SerializerProtocol) -> None:
        self._db = statements
        self._serde = serde
        self._known: dict[Place, _Known] = {}

    def forget(self) -> None:
        """Read all anew, because rows were taken away."""
        self._known.clear()

    async def read(self, place: Place, head: str, read_anew: ReadAnew) -> DeltaChannelHistory:
        """The updates of the channel at `place` up to the checkpoint `head`.

        Where an order of ids is not that of parents (a clock went back, another program wrote) it
        is `read_anew`.
        """
        known = self._known.pop(place, None)
        if known is None or known.head != head:
            known = await self._since(place, head, known)
        if known is None:
            whole, known = await read_anew(), _Known(head)
            known.start(whole.get("seed", NO_SEED))
            known.add(whole["writes"])
        self._known[place] = known  # the newest last
        while len(self._known) > KEPT:
            self._known.pop(next(iter(self._known)))
        return known.history()

    def sum_at(self, place: Place, head: str) -> Sum | None:
        """The sum over what led to `head`, if that was read last."""
        known = self._known.get(place)
        if known is None or known.head != head or known.running is None or known.mark is None:
            return None
        return known.running.at(head, known.mark)

    async def _since(self, place: Place, head: str, known: _Known | None) -> _Known | None:
        """`known` with what came after it, or all of it where that is not behind `head`."""
        base = known.head if known and known.running else None
        start = known.running if known and known.running else Running()
        read = partial(_read, place=place, head=head, base=base, start=start)
        with _no_collections():
            found = await self._db.look(lambda conn: read(conn, loads=self._serde.loads_typed))
        if found is None:
            return None
        way, rows, running = found
        if known is None or not way.reached:
            known = _Known(head)
            known.start(way.seed)
        known.head, known.running, known.mark = head, running, way.marks[head]
        loads, name = self._serde.loads_typed, place[2]
        with _no_collections():
            known.add([(task, name, loads((kind, blob))) for _, task, kind, blob, *_ in rows])
        return known


def _read(
    conn: sqlite3.Connection,
    place: Place,
    head: str,
    base: str | None,
    start: Running,
    loads: Loads,
) -> tuple[Way, list[Row], Running] | None:
    """The way to `head` and the updates on it, with the sum over them; `Lost` is raised."""
    saved = saved_of(conn, place[0]) if place[1:] == ("", CHANNEL) else None
    if base is None and saved is not None and saved.sum.head == head:
        quick = _read_straight(conn, place, saved.sum, loads)
        if quick is not None:
            return quick
    wanted = saved.sum.head if saved else None
    way = way_back(conn, place, head, loads, base, wanted)
    if way is None:
        check_chain(conn, place, head, saved, loads)
        return None
    rows = updates_on(conn, place, way.ids)
    running, found = sums_on(way, rows, start, wanted)
    if not way.reached:  # what it goes on from was looked at before
        check(conn, place, head, saved, found, way.begins)
    return way, rows, running


def _read_straight(
    conn: sqlite3.Connection, place: Place, saved: Sum, loads: Loads
) -> tuple[Way, list[Row], Running] | None:
    """The same for a thread that is as it was saved, with no other course beside its own.

    The sum says so: it is over the ids on the way and all that was written there.
    """
    try:
        way = straight_back(conn, place, saved.head, saved.steps, loads)
        if way is None:
            return None
        rows = updates_on(conn, place, way.ids)
    except (Unreadable, sqlite3.DatabaseError):  # perhaps of another course
        return None
    running, found = sums_on(way, rows, Running(), saved.head)
    return (way, rows, running) if found == saved else None


@contextmanager
def _no_collections() -> Iterator[None]:
    """Without the collector of cycles: all that is read is kept, and it would look at all of it."""
    is_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_on:
            gc.enable()
