"""The stored updates of a channel, read once: what opening a long thread costs.

LangGraph keeps a conversation as the updates that made it, and asks for all of them whenever it
loads a thread, several times a turn. Here the way back from a checkpoint is read in one pass over
the thread's rows, and what was read is kept: later calls add what came since.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from copy import copy
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.base import DeltaChannelHistory, PendingWrite, writes_sort_key
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from ormsgpack import packb

from local_agent.memory.connection import Statements

KEPT = 2  # threads that were used last; each is as large as its conversation
NEAR, FAR = 50, 250  # rows that are fetched at a time: a turn takes some ten

# Newest first. Ids grow with time, so that a parent usually stands behind its children.
_BACK = """
    SELECT checkpoint_id, parent_checkpoint_id, type, checkpoint FROM checkpoints
    WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id <= ?
    ORDER BY checkpoint_id DESC
"""
_WRITES = """
    SELECT checkpoint_id, task_id, type, value, task_path, idx FROM writes
    WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id BETWEEN ? AND ? AND channel = ?
"""
_NO_SEED = object()
_PLAIN = {HumanMessage, AIMessage, ToolMessage, SystemMessage}  # others may do more than append
# Keys as they stand in the bytes of a checkpoint.
_VALUES, _VERSIONS = packb("channel_values"), packb("channel_versions")
_INPUT = packb("__start__") + b"\x81"  # and the beginning of a map with one key

Place = tuple[str, str, str]  # thread, namespace, channel
ReadAnew = Callable[[], Awaitable[DeltaChannelHistory]]


@dataclass(slots=True)
class _Known:
    """A channel's history at checkpoint `head`.

    Updates that only append messages are `messages` already, with their `ids`; `writes` are the
    first other one and all behind it.
    """

    head: str
    messages: list[BaseMessage] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    seed: Any = _NO_SEED  # where the value begins with something else than messages
    writes: list[PendingWrite] = field(default_factory=list)

    def start(self, seed: Any) -> None:
        if seed is not _NO_SEED:
            self.seed = seed.value if isinstance(seed, _DeltaSnapshot) else seed
            if self._append([self.seed]):
                self.seed = _NO_SEED

    def add(self, writes: list[PendingWrite]) -> None:
        if self.seed is _NO_SEED and not self.writes:
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
        if self.seed is not _NO_SEED or self.messages:
            found["seed"] = copy(self.messages if self.seed is _NO_SEED else self.seed)
        return found


@dataclass(frozen=True, slots=True)
class _Path:
    """The checkpoints behind a head, newest first, as far as they were needed."""

    ids: list[str]
    seed: Any  # the value at the last of them, _NO_SEED without one
    reached: bool  # the last of them is the checkpoint that was looked for


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
            known.start(whole.get("seed", _NO_SEED))
            known.add(whole["writes"])
        self._known[place] = known  # the newest last
        while len(self._known) > KEPT:
            self._known.pop(next(iter(self._known)))
        return known.history()

    async def _since(self, place: Place, head: str, known: _Known | None) -> _Known | None:
        """`known` with what came after it, or all of it where that is not behind `head`."""
        async with self._db.lock:
            path = await self._path(place, head, known.head if known else None)
            if path is None:
                return None
            rows = await self._writes(place, path.ids)
        if known is None or not path.reached:
            known = _Known(head)
            known.start(path.seed)
        known.head = head
        loads, name = self._serde.loads_typed, place[2]
        known.add([(task, name, loads((kind, blob))) for _, task, kind, blob, *_ in rows])
        return known

    async def _path(self, place: Place, head: str, base: str | None) -> _Path | None:
        """The way from `head` back to `base`, or to the next stored value, or to the root."""
        ids: list[str] = []
        wanted: str | None = head
        where, key = (*place[:2], head), packb(place[2])
        async with self._db.conn.execute(_BACK, where) as cursor:
            while rows := await cursor.fetchmany(NEAR if base else FAR):
                for at, parent, kind, blob in rows:
                    if at != wanted:
                        if at < wanted:
                            return None
                        continue  # of another branch
                    if at != head:
                        ids.append(at)
                        if kind != "msgpack" or _may_hold(blob, key):
                            value = self._value((kind, blob), place[2])
                            if value is not _NO_SEED:
                                return _Path(ids, value, reached=False)
                        if at == base:
                            return _Path(ids, _NO_SEED, reached=True)
                    if parent is None:
                        return _Path(ids, _NO_SEED, reached=False)
                    wanted = parent
        return None

    def _value(self, stored: tuple[str, bytes], channel: str) -> Any:
        values = self._serde.loads_typed(stored).get("channel_values") or {}
        return values.get(channel, _NO_SEED)

    async def _writes(self, place: Place, path: list[str]) -> list[Any]:
        """The rows of the updates on the path, oldest first, those of one step in its order."""
        if not path:
            return []
        order = {at: number for number, at in enumerate(reversed(path))}
        where = (*place[:2], min(path), max(path), place[2])
        async with self._db.conn.execute(_WRITES, where) as cursor:
            found = [row for row in await cursor.fetchall() if row[0] in order]
        found.sort(key=lambda row: (order[row[0]], writes_sort_key(row[4], row[1], row[5])))
        return found


def _may_hold(blob: bytes, key: bytes) -> bool:
    """Whether a checkpoint may hold a value under `key`, by a look at its bytes; False is certain.

    Its values stand before the versions of its channels, where the last "channel_versions" is a
    key: behind that there are only names of channels and nodes, and versions. A graph's input is
    kept as one value, whose only key may be this one.
    """
    versions = blob.rfind(_VERSIONS)
    if blob.find(_VALUES, 0, max(versions, 0)) < 0:
        return True  # not in the order in which LangGraph writes them
    if blob.find(key, 0, versions) < 0:
        return False
    return blob.count(key, 0, versions) != blob.count(_INPUT + key, 0, versions)
