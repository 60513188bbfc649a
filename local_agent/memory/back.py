"""The way back from a checkpoint to where the value of a channel began, and the updates on it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from ormsgpack import packb

from local_agent.memory.faults import Unreadable

NEAR, FAR = 50, 250  # rows that are fetched at a time: a turn takes some ten

# Newest first. Ids grow with time, so that a parent usually stands behind its children.
_BACK = """
    SELECT checkpoint_id, parent_checkpoint_id, type, checkpoint FROM checkpoints
    WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id <= ?
    ORDER BY checkpoint_id DESC
"""
_IDS = """
    SELECT checkpoint_id FROM checkpoints
    WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id <= ?
    ORDER BY checkpoint_id DESC LIMIT ?
"""
_STORED = """
    SELECT type, checkpoint FROM checkpoints
    WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?
"""
_WRITES = """
    SELECT checkpoint_id, task_id, type, value, {path}, idx FROM writes
    WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id BETWEEN ? AND ? AND channel = ?
"""
_HAS_PATHS = "SELECT 1 FROM pragma_table_info('writes') WHERE name = 'task_path'"
NO_SEED = object()
# Keys as they stand in the bytes of a checkpoint.
_VALUES, _VERSIONS = packb("channel_values"), packb("channel_versions")
_INPUT = packb("__start__") + b"\x81"  # and the beginning of a map with one key

Place = tuple[str, str, str]  # thread, namespace, channel
Loads = Callable[[tuple[str, bytes]], Any]
Row = tuple[str, str, str, bytes, str, int]  # checkpoint, task, type, value, path, number


@dataclass(slots=True)
class Way:
    """The checkpoints behind `head`, newest first, as far as they were needed.

    `seed` is the value at the last of them, `NO_SEED` without one. `reached`: that one is the
    checkpoint that was looked for. `marks` are sums over the head as it is stored, over the last
    of the way where it has the seed, and over the one that was asked for. `is_whole`: the head
    holds the value itself.
    """

    head: str
    ids: list[str] = field(default_factory=list)
    seed: Any = NO_SEED
    reached: bool = False
    is_whole: bool = False
    marks: dict[str, int] = field(default_factory=dict)

    @property
    def has_seed(self) -> bool:
        """Whether it ends at a checkpoint that holds the value."""
        return self.seed is not NO_SEED

    @property
    def begins(self) -> str | None:
        """The checkpoint that holds the value whole, if one was met."""
        if self.is_whole:
            return self.head
        return self.ids[-1] if self.has_seed else None


def way_back(
    conn: sqlite3.Connection,
    place: Place,
    head: str,
    loads: Loads,
    base: str | None = None,
    mark: str | None = None,
    *,
    own: bool = False,
) -> Way | None:
    """The way from `head` back to `base`, or to the next stored value, or to the root.

    With `own` a value that the head holds itself is the end of it too.

    None where it does not lead there: a checkpoint on it is gone, or stands before its parent.
    Raises Unreadable.
    """
    way, wanted, key = Way(head), head, packb(place[2])
    for at, parent, kind, blob in _rows_back(conn, place, head, NEAR if base else FAR):
        if at != wanted:
            if at < wanted:
                return None
            continue  # of another branch
        if not isinstance(kind, str) or not isinstance(blob, bytes):
            raise Unreadable("a checkpoint of it is damaged")
        holds = kind != "msgpack" or may_hold(blob, key)
        value = _value(loads, (kind, blob), place[2]) if holds else NO_SEED
        if at in (head, mark) or value is not NO_SEED:
            way.marks[at] = crc32(blob, crc32(kind.encode()))
        if at == head:
            way.is_whole = value is not NO_SEED
            ends = own and way.is_whole
        else:
            way.ids.append(at)
            way.seed = value
            way.reached = value is NO_SEED and at == base
            ends = value is not NO_SEED or way.reached
        if ends or parent is None:
            return way
        wanted = parent
    return None


def straight_back(
    conn: sqlite3.Connection, place: Place, head: str, steps: int, loads: Loads
) -> Way | None:
    """The way back over the `steps` checkpoints before `head`, as if there were no other course.

    A twentieth of the work: their ids stand in the index, and no other of their rows is read than
    the first and the last. It is for the caller to see, by a sum, that this is the way. None where
    there are not so many. Raises Unreadable.
    """
    ids = [at for (at,) in conn.execute(_IDS, (*place[:2], head, steps + 1))]
    if steps < 1 or len(ids) <= steps or ids[0] != head:
        return None
    way = Way(head, ids[1:])
    for at in (head, ids[-1]):
        # A damaged key can stand in the index where a search for it does not come by.
        kind, blob = conn.execute(_STORED, (*place[:2], at)).fetchone() or (None, None)
        if not isinstance(kind, str) or not isinstance(blob, bytes):
            raise Unreadable("a checkpoint of it is damaged")
        way.marks[at] = crc32(blob, crc32(kind.encode()))
        if at != head:
            way.seed = _value(loads, (kind, blob), place[2])
    return way


def _rows_back(
    conn: sqlite3.Connection, place: Place, head: str, size: int
) -> Iterator[tuple[str, str | None, str, bytes]]:
    cursor = conn.execute(_BACK, (*place[:2], head))
    while rows := cursor.fetchmany(size):
        yield from rows


def holds_value(stored: tuple[str, bytes], loads: Loads, channel: str) -> bool:
    """Whether a stored checkpoint has the value of the channel in it."""
    return _value(loads, stored, channel) is not NO_SEED


def _value(loads: Loads, stored: tuple[str, bytes], channel: str) -> Any:
    values = loads(stored).get("channel_values") or {}
    return values.get(channel, NO_SEED)


def updates_on(conn: sqlite3.Connection, place: Place, way: Sequence[str]) -> list[Row]:
    """The rows of the updates on a way, oldest first, those of one step in its order."""
    if not way:
        return []
    path = "task_path" if conn.execute(_HAS_PATHS).fetchone() else "''"  # older files have none
    order = {at: number for number, at in enumerate(reversed(way))}
    where = (*place[:2], min(way), max(way), place[2])
    rows = conn.execute(_WRITES.format(path=path), where).fetchall()
    found = [row for row in rows if row[0] in order]
    if not all(isinstance(row[2], str) and isinstance(row[3], bytes) for row in found):
        raise Unreadable("an update of it is damaged")
    found.sort(key=lambda row: (order[row[0]], row[4], row[1], row[5]))  # LangGraph's order
    return found


def may_hold(blob: bytes, key: bytes) -> bool:
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
