"""Threads read out whole and put in whole: checkpoint by checkpoint, each as what it adds.

Plain reads and one transaction; values are read and written by the serializer that is handed in.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from local_agent.memory.branches import Branch, put_branch
from local_agent.memory.faults import Unreadable

Loads = Callable[[tuple[str, bytes]], Any]
# (the messages before, the stored updates in their order) -> the messages after
Replay = Callable[[list[Any], list[Any]], list[Any]]

_STEPS = """
    SELECT checkpoint_id, parent_checkpoint_id, json_extract(CAST(metadata AS TEXT), '$.source'),
        rowid
    FROM checkpoints {all} WHERE thread_id = ? AND checkpoint_ns = ''
"""
_STORED = "SELECT type, checkpoint FROM checkpoints WHERE rowid = ?"
_UPDATES = """
    SELECT checkpoint_id, type, value FROM writes {all}
    WHERE thread_id = ? AND checkpoint_ns = '' {one} AND channel = 'messages'
    ORDER BY {path}task_id, idx
"""
_ONE = "AND checkpoint_id = ?"
_ALL = "NOT INDEXED"  # through the whole table
_HAS_PATHS = "SELECT 1 FROM pragma_table_info('writes') WHERE name = 'task_path'"
_MESSAGES = "messages"
_NODE = 24  # where the random part of a checkpoint's id begins
# LangGraph's channels that lead to a next step.
_ASKS = "branch:to:agent"
_NEXT, _TASKS = ("branch:to:", "__start__"), "__pregel_tasks"


class _Log:
    """A list of messages that steps append to; each step knows how many were there at it."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items
        self.ids = {getattr(item, "id", None) for item in items}

    def append(self, new: list[Any]) -> bool:
        """Whether all of `new` have ids that are new here; they are appended then."""
        ids = [getattr(item, "id", None) for item in new]
        removes = any(getattr(item, "type", "remove") == "remove" for item in new)
        if removes or None in ids or len(set(ids)) < len(ids) or not self.ids.isdisjoint(ids):
            return False
        self.items.extend(new)
        self.ids.update(ids)
        return True


@dataclass(frozen=True, slots=True)
class Point:
    """A checkpoint as it is stored. `source` is LangGraph's, "input" where a turn starts.

    `fresh` is how many messages it has more than its parent, behind all of that; None where its
    list is another one. `values` are the other channels.
    """

    id: str
    parent: str | None
    source: str
    log: _Log
    count: int
    fresh: int | None
    values: Mapping[str, Any]

    @property
    def messages(self) -> list[Any]:
        """All messages at this point."""
        return self.log.items[: self.count]

    @property
    def added(self) -> list[Any]:
        """The messages that it has more than its parent, where those are its last ones."""
        return self.log.items[self.count - (self.fresh or 0) : self.count]

    @property
    def asks(self) -> bool:
        """Whether the model is asked next."""
        return _ASKS in self.values

    @property
    def is_open(self) -> bool:
        """Whether a step of the turn is still to come."""
        return any(key.startswith(_NEXT) for key in self.values) or bool(self.values.get(_TASKS))


def next_to(point: Point, messages: list[Any]) -> Point:
    """A point behind another one with these messages, and an id that comes right behind its own."""
    time, node = point.id[:_NODE], point.id[_NODE:]
    following = f"{time}{int(node, 16) + 1:0{len(node)}x}"[: len(point.id)]
    log = _Log(messages)
    return Point(following, point.id, "loop", log, len(messages), None, point.values)


class Reader:
    """Reads the courses of one thread. A point that two courses share is read once.

    `damaged`: keys in the index may be wrong, so that rows are also looked for without it.
    """

    def __init__(
        self,
        conn: sqlite3.Connection,
        thread: str,
        loads: Loads,
        replay: Replay,
        *,
        damaged: bool = False,
    ) -> None:
        self._conn, self._thread, self._loads, self._replay = conn, thread, loads, replay
        path = "task_path, " if conn.execute(_HAS_PATHS).fetchone() else ""
        self._updates = _UPDATES.format(path=path, all="", one=_ONE)
        self._rows: dict[str, tuple[str | None, str, int]] = {}
        for way in (_ALL, "") if damaged else ("",):
            for row in conn.execute(_STEPS.format(all=way), (thread,)):
                self._rows[row[0]] = (row[1], row[2] or "", row[3])
        self._found: dict[str, list[Any]] = {}  # updates that were found without the index
        if damaged:
            sql = _UPDATES.format(path=path, all=_ALL, one="")
            for at, kind, blob in conn.execute(sql, (thread,)):
                self._found.setdefault(at, []).append((kind, blob))
        self._points: dict[str, Point] = {}

    @property
    def head(self) -> str | None:
        """The newest checkpoint, which is where the thread stands."""
        return max(self._rows, default=None)

    def course(self, head: str) -> list[Point]:
        """The points up to `head`, oldest first. Raises Unreadable."""
        way: list[str] = []
        at: str | None = head if head in self._rows else None
        seen: set[str] = set()
        while at is not None and at not in seen:
            way.append(at)
            seen.add(at)
            at = self._before(at)
        before: Point | None = None
        points = []
        for checkpoint_id in reversed(way):
            point = self._points.get(checkpoint_id) or self._read(checkpoint_id, before)
            points.append(point)
            self._points[checkpoint_id] = before = point
        return points

    def unfinished(self, course: Sequence[Point]) -> list[Any] | None:
        """The messages behind the end of a course: what tasks of its last step have come to.

        They wait beside that step until all its tasks have ended, as a prompt waits to be taken.
        None where there are none, or where the course went on.
        """
        end = course[-1]
        if any(parent == end.id for parent, *_ in self._rows.values()):
            return None
        given = end.values.get("__start__")
        prompt = given.get("messages") if isinstance(given, Mapping) else None
        updates = self._written(end.id) or ([prompt] if prompt else [])
        return _list_of(self._replay(end.messages, updates)) if updates else None

    def _before(self, checkpoint_id: str) -> str | None:
        """The parent of a checkpoint; where that is gone, the newest that is older than this one.

        A damaged file is read so as far as it goes; `sums` know whether all of it is there.
        """
        parent = self._rows[checkpoint_id][0]
        if parent is None or parent in self._rows:
            return parent
        return max((one for one in self._rows if one < checkpoint_id), default=None)

    def _read(self, checkpoint_id: str, before: Point | None) -> Point:
        number = self._rows[checkpoint_id][2]
        stored = self._loads(self._conn.execute(_STORED, (number,)).fetchone())
        values = stored.get("channel_values") if isinstance(stored, dict) else None
        if not isinstance(values, dict):
            raise Unreadable("a checkpoint of it is damaged")
        source = self._rows[checkpoint_id][1]
        parent = before.id if before else None
        rest = {key: value for key, value in values.items() if key != _MESSAGES}
        if _MESSAGES in values:
            kept = values[_MESSAGES]
            log = _Log(_list_of(getattr(kept, "value", kept)))
            return Point(checkpoint_id, parent, source, log, len(log.items), None, rest)
        log, count = (before.log, before.count) if before else (_Log([]), 0)
        updates = self._written(parent) if parent else []
        new = [m for update in updates for m in (update if isinstance(update, list) else [update])]
        if new and count < len(log.items):  # another course went on with this list
            log = _Log(log.items[:count])
        if log.append(new):
            return Point(checkpoint_id, parent, source, log, count + len(new), len(new), rest)
        log = _Log(_list_of(self._replay(log.items[:count], updates)))
        return Point(checkpoint_id, parent, source, log, len(log.items), None, rest)

    def _written(self, checkpoint_id: str) -> list[Any]:
        rows = self._conn.execute(self._updates, (self._thread, checkpoint_id)).fetchall()
        found = [(kind, blob) for _, kind, blob in rows]
        more = self._found.get(checkpoint_id, ())
        return [self._loads(row) for row in (more if len(more) > len(found) else found)]


def _list_of(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise Unreadable("its messages are no list")
    return list(value)


def read_bases(conn: sqlite3.Connection, keys: Iterable[str]) -> dict[str, str]:
    """What is kept under the keys, as far as it is."""
    has = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'agent_bases'"
    if conn.execute(has).fetchone() is None:
        return {}
    sql = "SELECT key, text FROM agent_bases WHERE key = ?"
    return dict(row for key in sorted(keys) for row in conn.execute(sql, (key,)))


# -- putting in -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rows:
    """A thread as rows of `checkpoints` and `writes`, without the thread's name, and branches.

    `entry` is that of `agent_threads`: title, created, messages, turns, model, parent.
    """

    checkpoints: Sequence[tuple[str, str | None, str, bytes, bytes]]
    writes: Sequence[tuple[str, str, int, str, str, bytes]]
    branches: Sequence[Branch]
    entry: tuple[str, str, int, int, str, str | None]
    bases: Mapping[str, str]


_CHECKPOINT = """
    INSERT INTO checkpoints (checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata,
        thread_id, checkpoint_ns) VALUES (?, ?, ?, ?, ?, ?, '')
"""
_WRITE = """
    INSERT INTO writes (checkpoint_id, task_id, idx, channel, type, value, thread_id,
        checkpoint_ns) VALUES (?, ?, ?, ?, ?, ?, ?, '')
"""
_ENTRY = """
    INSERT INTO agent_threads (title, created, messages, turns, model, parent, thread, updated)
    VALUES (sealed(?), ?, ?, ?, ?, ?, ?, ?)
"""
# What the database can have of a thread; the journal of one that is gone counts too.
_THERE = """
    SELECT EXISTS (SELECT 1 FROM checkpoints WHERE thread_id = :t)
        OR EXISTS (SELECT 1 FROM agent_threads WHERE thread = :t)
        OR EXISTS (SELECT 1 FROM tool_runs WHERE thread = :t)
"""


def is_there(conn: sqlite3.Connection, thread: str) -> bool:
    """Whether the database has anything of the thread."""
    return bool(conn.execute(_THERE, {"t": thread}).fetchone()[0])


def put_thread(conn: sqlite3.Connection, thread: str, rows: Rows, updated: str) -> None:
    """Put in a thread that is not there, inside the caller's transaction."""
    conn.executemany(_CHECKPOINT, [(*row, thread) for row in rows.checkpoints])
    conn.executemany(_WRITE, [(*row, thread) for row in rows.writes])
    conn.execute(_ENTRY, (*rows.entry, thread, updated))
    for branch in rows.branches:
        put_branch(conn, thread, branch)
    conn.executemany("INSERT OR IGNORE INTO agent_bases VALUES (?, ?)", rows.bases.items())
