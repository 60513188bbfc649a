"""A thread out of the database as a document; nothing is written, and no other thread is read."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_type_hints

from langchain_core.messages import AnyMessage, BaseMessageChunk, message_chunk_to_message
from langchain_core.messages.utils import convert_to_messages

from agent_core.messages import messages_channel
from agent_graph import State
from local_agent.errors import ThreadError
from local_agent.memory.branches import Branch, read_branches
from local_agent.memory.chain import time_of
from local_agent.memory.courses import Loads, Point, Reader, next_to, read_bases
from local_agent.memory.faults import Unreadable
from local_agent.memory.shape import check_messages, check_shape
from local_agent.memory.sums import saved_of, verify
from local_agent.memory.tables import THREAD_VALUES, ThreadInfo, thread_of
from local_agent.transfer.document import Course, Document, Step, basis_keys

# What a person allowed and what was started: it counts here, and a file could claim anything.
NOT_TAKEN = frozenset({"decisions", "allowed", "unknown"})
FIELDS = {k: v for k, v in get_type_hints(State).items() if k not in {"messages", *NOT_TAKEN}}
_CHANNEL = messages_channel()


def collect(conn: sqlite3.Connection, thread: str, loads: Loads) -> Document:
    """The thread with all its courses. `loads` reads a stored value.

    Raises ThreadError where there is none of that name, StorageError where it cannot be read.
    """
    damage = _damage(conn, thread, loads)
    reader = Reader(conn, thread, loads, _replay, damaged=bool(damage))
    if reader.head is None:
        raise ThreadError(f"There is no thread '{thread}'.", "See: agent threads list")
    try:
        if not damage and _is_short(conn, thread, reader.course(reader.head)):
            damage = "rows of it cannot be found"
            reader = Reader(conn, thread, loads, _replay, damaged=True)
        return replace(_collect(conn, thread, reader, reader.head or ""), damage=damage)
    except Unreadable as exc:
        raise exc.of(thread) from exc


def _is_short(conn: sqlite3.Connection, thread: str, course: Sequence[Point]) -> bool:
    """Whether the course has other messages, where the thread was last saved, than there were.

    A damaged index gives for one query what it does not give for another.
    """
    saved = saved_of(conn, thread)
    if saved is None:
        return False
    head = saved.sum.head
    at_it = any(point.count != saved.messages for point in course if point.id == head)
    return at_it or not course or course[-1].id < head


def _damage(conn: sqlite3.Connection, thread: str, loads: Loads) -> str:
    """What is wrong with the thread as a whole; each of its values can be read."""
    try:
        verify(conn, thread, loads)
    except Unreadable as exc:
        return exc.message
    except sqlite3.Error as exc:
        return str(exc)
    return ""


def _collect(conn: sqlite3.Connection, thread: str, reader: Reader, head: str) -> Document:
    main = reader.course(head)
    left = sorted(_branches(conn, thread), key=lambda one: (one.created, one.checkpoint_id))
    is_open = main[-1].is_open
    courses = [_settled(reader, main)]
    courses += [_settled(reader, reader.course(one.checkpoint_id)) for one in left]
    steps = _Steps(courses)
    taken = [steps.new_on(course) for course in courses]
    info = _info(conn, thread)
    return Document(
        name=thread,
        title=info.title if info else "",
        created=info.created if info else time_of(main[0].id),
        steps=taken[0],
        branches=tuple(
            Course(
                course[-1].id,
                new,
                one.created,
                one.first_turn,
                one.turns,
                one.prompt,
                one.why,
                one.left_for == head,
                one.stops,
            )
            for one, course, new in zip(left, courses[1:], taken[1:], strict=True)
        ),
        model=info.model if info else "",
        parent=info.parent if info else None,
        is_open=is_open,
        bases=read_bases(conn, basis_keys(step for course in taken for step in course)),
    )


def _settled(reader: Reader, course: list[Point]) -> list[Point]:
    """The course with a step more, where results or a prompt wait beside its last one."""
    messages = reader.unfinished(course) if course else None
    return course if messages is None else [*course, next_to(course[-1], messages)]


class _Steps:
    """Turns points into steps: each once, and none at which nothing changed."""

    def __init__(self, courses: Sequence[Sequence[Point]]) -> None:
        self._steps: dict[str, Step] = {}  # also those that are passed over
        self._at: dict[str, str | None] = {}  # a point -> the step at or before it that is kept
        self._sisters: dict[str, list[Point]] = {}  # points with their own parent's messages
        children: dict[str | None, set[str]] = {}
        for course in courses:
            for point in course:
                children.setdefault(point.parent, set()).add(point.id)
        # The ends, and where courses part.
        self._needed = {course[-1].id for course in courses}
        self._needed |= {at for at, ids in children.items() if at and len(ids) > 1}
        self._states: dict[str | None, dict[str, Any]] = {None: {}}

    def new_on(self, course: Sequence[Point]) -> tuple[Step, ...]:
        """The steps of a course that no earlier one had."""
        found = []
        before: Point | None = None
        for point in course:
            if point.id not in self._at:
                step = self._step(point, before)
                is_kept = point.id in self._needed or not step.is_empty
                self._at[point.id] = point.id if is_kept else step.parent
                if is_kept:
                    found.append(step)
            before = point
        return tuple(found)

    def _step(self, point: Point, before: Point | None) -> Step:
        state = {key: value for key, value in point.values.items() if key in FIELDS}
        self._states[point.id] = state
        old = self._states[before.id if before else None]
        changed = {k: v for k, v in state.items() if k not in old or old[k] != v}
        parent = self._at[before.id] if before else None
        keep, added = _difference(point, before)
        like = self._like(point, keep, added)
        if like is not None:
            keep, added = None, ()
        own = _ours(added, point.id)
        is_start = point.source == "input"
        return Step(point.id, parent, is_start, point.asks, keep, own, like, changed)

    def _like(self, point: Point, keep: int | None, added: Sequence[Any]) -> str | None:
        """The sister that has these messages: a copy of it, as a thread stands on turned back."""
        if point.parent is None or (keep is None and not added):
            return None
        sisters = self._sisters.setdefault(point.parent, [])
        same = (s.id for s in sisters if s.count == point.count and s.messages == point.messages)
        found = next(same, None)
        if found is None:
            sisters.append(point)
        return found


def _difference(point: Point, before: Point | None) -> tuple[int | None, Sequence[Any]]:
    """How many messages of the point before stay (None: all), and which come behind them."""
    if point.fresh is not None:
        return None, point.added
    old, new = before.messages if before else [], point.messages
    pairs = enumerate(zip(old, new, strict=False))
    keep = next((i for i, (a, b) in pairs if a is not b and a != b), min(len(old), len(new)))
    return (keep if keep < len(old) else None), new[keep:]


def _ours(messages: Sequence[Any], step_id: str) -> tuple[AnyMessage, ...]:
    """The messages as ours: of the usual classes, each with an id. Other programs have others."""
    try:
        known = convert_to_messages(messages)
    except (ValueError, TypeError, NotImplementedError) as exc:
        raise Unreadable("a message of it is damaged") from exc
    check_messages(known)
    ours: list[Any] = []
    for n, message in enumerate(known):
        if isinstance(message, BaseMessageChunk):
            message = message_chunk_to_message(message)
        if not message.id:
            message = message.model_copy(update={"id": f"{step_id}-{n}"})
        ours.append(message)
    return tuple(ours)


def _replay(old: list[Any], updates: list[Any]) -> list[Any]:
    """As LangGraph does when it loads a thread."""
    writes = [("", "messages", update) for update in updates]
    check_shape({"messages": {"writes": writes}})
    channel = _CHANNEL.from_checkpoint(old)
    channel.replay_writes(writes)
    value: list[Any] = channel.get()
    return value


def _info(conn: sqlite3.Connection, thread: str) -> ThreadInfo | None:
    tables = {name for (name,) in conn.execute("SELECT name FROM sqlite_master")}
    if "agent_threads" not in tables:
        return None
    sql = f"SELECT {THREAD_VALUES} FROM agent_threads WHERE thread = ?"
    row = conn.execute(sql, (thread,)).fetchone()
    return None if row is None else thread_of(row)


def _branches(conn: sqlite3.Connection, thread: str) -> list[Branch]:
    tables = {name for (name,) in conn.execute("SELECT name FROM sqlite_master")}
    return read_branches(conn, thread) if "agent_branches" in tables else []
