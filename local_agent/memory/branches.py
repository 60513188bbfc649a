"""What was cut from threads and stays reachable, and copies of threads: the SQL of both."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from local_agent.memory.tables import instant

# Where the random part of a checkpoint id begins; what stands before it is the time, which is
# nearly the same for checkpoints of one day.
_RANDOM = 24
SHORT_ID = 8  # digits of the random part that are shown


@dataclass(frozen=True, slots=True)
class Branch:
    """A course of a thread that was left; `checkpoint_id` is its end.

    `first_turn` is the number of the first turn that is on it and not where the thread went on,
    `turns` how many there are, `prompt` that of the first. `left_for` is the checkpoint where the
    thread stood when this was left, and `stops` the numbers of turns at which it stood before,
    the newest last: what redo goes back to, as long as nothing else came.
    """

    checkpoint_id: str
    created: datetime
    first_turn: int
    turns: int
    prompt: str
    why: str
    left_for: str | None = None
    stops: tuple[int, ...] = ()

    @property
    def id(self) -> str:
        """The short id that a person types."""
        return short_id(self.checkpoint_id)


def short_id(checkpoint_id: str) -> str:
    """The digits of a checkpoint id that tell it from others."""
    return checkpoint_id[_RANDOM : _RANDOM + SHORT_ID] or checkpoint_id


def is_named(checkpoint_id: str, typed: str) -> bool:
    """Whether `typed` begins the checkpoint's id, or the random part of it."""
    typed = typed.lower()
    return checkpoint_id.startswith(typed) or checkpoint_id[_RANDOM:].startswith(typed)


def read_branches(conn: sqlite3.Connection, thread: str) -> list[Branch]:
    """The branches of a thread, the one that was left last first."""
    rows = conn.execute(
        "SELECT checkpoint_id, created, first_turn, turns, opened(prompt), why, left_for, stops"
        " FROM agent_branches b WHERE thread = ? AND EXISTS (SELECT 1 FROM checkpoints c WHERE"
        " c.thread_id = b.thread AND c.checkpoint_ns = '' AND c.checkpoint_id = b.checkpoint_id)"
        " ORDER BY created DESC, checkpoint_id DESC",
        (thread,),
    )
    return [
        Branch(row[0], instant(row[1]), row[2], row[3], row[4], row[5], row[6], _numbers(row[7]))
        for row in rows
    ]


def _numbers(stored: str) -> tuple[int, ...]:
    return tuple(int(number) for number in json.loads(stored))


def put_branch(conn: sqlite3.Connection, thread: str, branch: Branch) -> None:
    """Enter the branch, or change its entry."""
    conn.execute(
        "INSERT OR REPLACE INTO agent_branches (thread, checkpoint_id, created, first_turn, turns,"
        " prompt, why, left_for, stops) VALUES (?, ?, ?, ?, ?, sealed(?), ?, ?, ?)",
        (
            thread,
            branch.checkpoint_id,
            branch.created.isoformat(timespec="microseconds"),
            branch.first_turn,
            branch.turns,
            branch.prompt,
            branch.why,
            branch.left_for,
            json.dumps(branch.stops),
        ),
    )


def drop_branch(conn: sqlite3.Connection, thread: str, checkpoint_id: str) -> None:
    """Forget the entry; the checkpoints stay."""
    where = (thread, checkpoint_id)
    conn.execute("DELETE FROM agent_branches WHERE thread = ? AND checkpoint_id = ?", where)


def is_there(conn: sqlite3.Connection, thread: str) -> bool:
    """Whether the database has anything of the thread."""
    row = conn.execute(
        "SELECT EXISTS (SELECT 1 FROM checkpoints WHERE thread_id = :thread)"
        " OR EXISTS (SELECT 1 FROM agent_threads WHERE thread = :thread)",
        {"thread": thread},
    ).fetchone()
    return bool(row[0])


def copy_steps(
    conn: sqlite3.Connection, thread: str, new: str, checkpoint_ids: Sequence[str]
) -> None:
    """Copy these checkpoints, a chain with the oldest first, into the thread `new`.

    Their writes too, but for those of the last: they belong to what followed it.
    """
    where = {"thread": thread, "new": new, "ids": json.dumps(checkpoint_ids)}
    conn.execute(
        "INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id,"
        " type, checkpoint, metadata) SELECT :new, checkpoint_ns, checkpoint_id,"
        " parent_checkpoint_id, type, checkpoint, metadata FROM checkpoints WHERE"
        " thread_id = :thread AND checkpoint_ns = '' AND"
        " checkpoint_id IN (SELECT value FROM json_each(:ids))",
        where,
    )
    conn.execute(
        "INSERT INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx,"
        " channel, type, value) SELECT :new, checkpoint_ns, checkpoint_id, task_id, task_path,"
        " idx, channel, type, value FROM writes WHERE thread_id = :thread AND checkpoint_ns = ''"
        " AND checkpoint_id IN (SELECT value FROM json_each(:ids))",
        where | {"ids": json.dumps(checkpoint_ids[:-1])},
    )
