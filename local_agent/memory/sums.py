"""Whether a thread still holds what was saved last: a sum over its stored rows is kept.

A disk that flips a bit in a key hides a row from every query, and nothing would be missed. So what
is kept with each thread is the checkpoint that it stood on, how many there were on the way to it,
and a sum over what led there. It is made of rows that are read anyway when a thread is loaded. What
was saved behind that checkpoint, in a turn that was killed, has no sum yet.
"""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

from local_agent.errors import StorageError
from local_agent.memory.back import Loads, Place, Row, Way, holds_value, updates_on, way_back
from local_agent.memory.faults import Unreadable

_KEPT = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'agent_sums'"
_SAVED = "SELECT head, steps, digest, messages FROM agent_sums WHERE thread = ?"
_ENTER = """
    INSERT OR REPLACE INTO agent_sums (head, steps, digest, thread, messages)
    SELECT ?, ?, ?, thread, coalesce(?, messages) FROM agent_threads
    WHERE thread = ? AND messages IS NOT NULL
"""
_FORGET = "DELETE FROM agent_sums WHERE thread = ?"
_ENTRY = """
    SELECT messages FROM agent_threads WHERE thread = :thread AND messages > 0 AND NOT EXISTS
        (SELECT 1 FROM checkpoints WHERE thread_id = :thread AND checkpoint_ns = '')
"""
_NEWEST = "SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ?"
_PARENTS = """
    SELECT checkpoint_id, parent_checkpoint_id FROM checkpoints
    WHERE thread_id = ? AND checkpoint_ns = ?
"""
_STORED = """
    SELECT type, checkpoint FROM checkpoints
    WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?
"""
CHANNEL = "messages"


class Lost(Unreadable):
    """A thread does not hold what was saved of it: `messages`, where it is known how many."""

    def __init__(self, messages: int | None) -> None:
        number = "" if messages is None else f"{messages} "
        super().__init__(
            f"it does not hold the {number}messages that were saved last as they were: "
            "the file was damaged, or another program changed it"
        )

    def of(self, thread: str) -> StorageError:
        name = shlex.quote(thread)
        return StorageError(
            f"The thread '{thread}' cannot be read: {self.message.rstrip('.')}.",
            "Nothing was changed. Keep a copy of the file; "
            f"`agent threads export {name} -o FILE.json` takes out what is left, "
            "and `agent threads import` makes a new thread of it.",
        )


@dataclass(frozen=True, slots=True)
class Sum:
    """What led to the checkpoint `head`: `steps` checkpoints, and a sum over them and their rows.

    The head itself is in the sum, what was written to it is not.
    """

    head: str
    steps: int
    digest: int


@dataclass(frozen=True, slots=True)
class Saved:
    """The sum that was kept, and how many messages there were."""

    sum: Sum
    messages: int


@dataclass(frozen=True, slots=True)
class Running:
    """A sum up to a checkpoint, that goes on with what follows it."""

    steps: int = 0
    crc: int = 0

    def at(self, head: str, mark: int) -> Sum:
        """The sum at the checkpoint; `mark` is that of the checkpoint alone."""
        return Sum(head, self.steps, crc32(f"{head} {mark}".encode(), self.crc))


def sums_on(
    way: Way, rows: Sequence[Row], start: Running, wanted: str | None
) -> tuple[Running, Sum | None]:
    """The running sum at the head of the way, and the sum at the checkpoint `wanted` on it.

    `rows` are the updates on the way, oldest first; `start` counts where the way reached its base.
    """
    running, found = start if way.reached else Running(), None
    if way.is_whole:
        running = Running()
        return running, running.at(way.head, way.marks[way.head]) if way.head == wanted else None
    steps, crc, number, last = running.steps, running.crc, 0, len(rows)
    if way.has_seed:
        seed = f"{way.marks[way.ids[-1]]}".encode()
    for at in reversed(way.ids):
        if at == wanted:
            found = Running(steps, crc).at(at, way.marks[at])
        if way.has_seed and not steps:
            crc = crc32(seed, crc)
        crc = crc32(at.encode(), crc)
        while number < last and rows[number][0] == at:
            _, task, kind, value, _, order = rows[number]
            crc = crc32(value, crc32(f"{task}{order}{kind}".encode(), crc))
            number += 1
        steps += 1
    running = Running(steps, crc)
    if way.head == wanted:
        found = running.at(way.head, way.marks[way.head])
    return running, found


def saved_of(conn: sqlite3.Connection, thread: str) -> Saved | None:
    """The sum that is kept of the thread; None where it has none."""
    if conn.execute(_KEPT).fetchone() is None:  # of an older version, or another program
        return None
    row = conn.execute(_SAVED, (thread,)).fetchone()
    return Saved(Sum(*row[:3]), row[3]) if row else None


def check(
    conn: sqlite3.Connection,
    place: Place,
    head: str,
    saved: Saved | None,
    found: Sum | None,
    begins: str | None = None,
) -> None:
    """Raise `Lost` where the thread at `head` is not what was saved.

    `found` is the sum at the checkpoint that was saved; None where the way from `head` does not
    have it. That is as it should be on another course, and behind `begins`, the checkpoint that
    holds the whole value: another program put that there, and may have taken older ones away.
    """
    if saved is None or found == saved.sum:
        return
    if found is None:
        (newest,) = conn.execute(_NEWEST, place[:2]).fetchone()
        if head != newest or saved.sum.head < (begins or ""):
            return
        if saved.sum.head in ancestors(conn, place, head):
            return
    raise Lost(saved.messages)


def check_chain(
    conn: sqlite3.Connection, place: Place, head: str, saved: Saved | None, loads: Loads
) -> None:
    """The same for a chain of `head` on which no way back was found.

    That is as it should be where ids do not stand in the order of their parents (a clock went
    back), or where it ends behind a checkpoint with the value in it. Else `Lost` is raised, also
    where no sum is kept.
    """
    check(conn, place, head, saved, None)
    chain = ancestors(conn, place, head)
    parents = [parent for parent in chain.values() if parent is not None]
    if all(parent in chain for parent in parents):
        if any(parent > at for at, parent in chain.items() if parent is not None):
            return
    else:
        for at in chain:
            row = conn.execute(_STORED, (*place[:2], at)).fetchone()
            if row is not None and at != head and holds_value(row, loads, place[2]):
                return
    raise Lost(saved.messages if saved else None)


def ancestors(conn: sqlite3.Connection, place: Place, head: str) -> dict[str, str | None]:
    """The checkpoints on the chain of `head`, each with its parent, in whatever order of ids."""
    parents = dict(conn.execute(_PARENTS, place[:2]).fetchall())
    found: dict[str, str | None] = {}
    at: str | None = head
    while at is not None and at in parents and at not in found:
        at = found.setdefault(at, parents[at])
    return found


def check_there(conn: sqlite3.Connection, thread: str) -> None:
    """Raise the error of a thread that has an entry and no checkpoint any more."""
    row = conn.execute(_ENTRY, {"thread": thread}).fetchone()
    if row is not None:
        raise Lost(row[0]).of(thread)


def measured(conn: sqlite3.Connection, thread: str, loads: Loads) -> Sum | None:
    """The sum at the head of the thread, read for it.

    None where its checkpoints do not stand in the order of their ids, or it has none.
    """
    place = (thread, "", CHANNEL)
    (head,) = conn.execute(_NEWEST, place[:2]).fetchone()
    way = way_back(conn, place, head, loads, own=True) if head else None
    return _on(conn, place, way, head) if way else None


def verify(conn: sqlite3.Connection, thread: str, loads: Loads) -> None:
    """Raise `Lost` where the thread is not what was saved of it. Reads all of it."""
    saved, place = saved_of(conn, thread), (thread, "", CHANNEL)
    wanted = saved.sum.head if saved else None
    (head,) = conn.execute(_NEWEST, place[:2]).fetchone()
    way = way_back(conn, place, head, loads, mark=wanted, own=True) if head else None
    if way is None:
        check_chain(conn, place, head or "", saved, loads)
    elif saved is not None:
        found = _on(conn, place, way, saved.sum.head)
        check(conn, place, head, saved, found, way.begins)


def _on(conn: sqlite3.Connection, place: Place, way: Way, wanted: str) -> Sum | None:
    rows = [] if way.is_whole else updates_on(conn, place, way.ids)
    return sums_on(way, rows, Running(), wanted)[1]


def enter(
    conn: sqlite3.Connection, thread: str, found: Sum | None, messages: int | None = None
) -> None:
    """Keep the sum of a thread that has an entry, inside the caller's transaction; None: none.

    `messages` is how many there are at its head; None where the entry says so.
    """
    if found is None:
        conn.execute(_FORGET, (thread,))
    else:
        conn.execute(_ENTER, (found.head, found.steps, found.digest, messages, thread))


def renew(conn: sqlite3.Connection, thread: str, loads: Loads, messages: int | None = None) -> None:
    """Keep the sum of the thread as it stands now; inside the caller's transaction, as `enter`."""
    enter(conn, thread, measured(conn, thread, loads), messages)
