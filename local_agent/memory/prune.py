"""What of a thread's past can go: abandoned branches, and all before the last turns.

A checkpoint holds no messages: they are put together from the updates that are stored with its
ancestors. So the first checkpoint that stays gets the whole list of messages, as LangGraph itself
stores it where it takes a snapshot, and only rows before it go; those behind it hold updates.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from local_agent.errors import StorageError
from local_agent.memory.chain import Step, read_chain, turns_of
from local_agent.memory.change import ROW
from local_agent.memory.crypt import plain_of
from local_agent.memory.entries import tables_of
from local_agent.memory.index import merge, sync
from local_agent.memory.replay import plain_messages

_GONE = "checkpoint_id NOT IN (SELECT value FROM json_each(:kept))"
# Those of a graph within a graph have chains of their own; ours has none.
_INNER = "thread_id = :thread AND checkpoint_ns != '' AND checkpoint_id < :root"
_OWN = f"thread_id = :thread AND checkpoint_ns = '' AND {_GONE}"
_SIZE = f"""
    SELECT (SELECT count(*) FROM checkpoints WHERE {_OWN}),
           (SELECT coalesce(sum(length(checkpoint) + length(metadata)), 0)
            FROM checkpoints WHERE {_OWN}),
           (SELECT count(*) FROM writes WHERE {_OWN}),
           (SELECT coalesce(sum(length(value)), 0) FROM writes WHERE {_OWN})
"""
_BRANCHES = f"SELECT count(*) FROM agent_branches WHERE thread = :thread AND {_GONE}"
_MOVED = f"""
    SELECT coalesce(sum(length(value)), 0) FROM writes
    WHERE {_OWN} AND channel = 'messages'
        AND checkpoint_id IN (SELECT value FROM json_each(:before))
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """What would go from a thread, and what would stay.

    `root` is the first checkpoint that stays; `rewrite` says whether it must get the messages.
    `turns` can no longer be turned back to, `branches` were left behind, `checkpoints` are all that
    would go; `size` is about how many bytes would be free.
    """

    thread: str
    root: str
    kept: tuple[str, ...]
    rewrite: bool
    turns: int
    branches: int
    checkpoints: int
    size: int

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.rewrite or self.checkpoints)


def plan_of(conn: sqlite3.Connection, thread: str, keep: int) -> Plan | None:
    """What keeping the last `keep` turns would leave; 0 leaves the last state alone.

    None for a thread without checkpoints.
    """
    chain = read_chain(conn, thread)
    if not chain:
        return None
    first, turns = _first_kept(chain, keep)
    kept = [step.checkpoint_id for step in chain[first:]]
    where = {
        "thread": thread,
        "kept": json.dumps(kept),
        "before": json.dumps([step.checkpoint_id for step in chain[:first]]),
    }
    checkpoints, states, writes, values = conn.execute(_SIZE, where).fetchone()
    (moved,) = conn.execute(_MOVED, where).fetchone()
    size = max(0, states + values + ROW * (checkpoints + writes) - moved)
    branches = 0
    if "agent_branches" in tables_of(conn):
        (branches,) = conn.execute(_BRANCHES, where).fetchone()
    return Plan(thread, kept[0], tuple(kept), first > 0, turns, branches, checkpoints, size)


def _first_kept(chain: Sequence[Step], keep: int) -> tuple[int, int]:
    """Where on the chain the kept part begins, and how many turns lie before it."""
    turns = turns_of(chain)
    if keep == 0:
        return len(chain) - 1, len(turns)
    at = {step.checkpoint_id: i for i, step in enumerate(chain)}
    before = turns[-keep].checkpoint_before if len(turns) > keep else None
    return (at[before], len(turns) - keep) if before in at else (0, 0)


def dropped_values(conn: sqlite3.Connection, plan: Plan) -> Iterator[tuple[str, bytes]]:
    """The stored values, as type and bytes, that would go."""
    where = {"thread": plan.thread, "kept": json.dumps(plan.kept)}
    for table, column in (("checkpoints", "checkpoint"), ("writes", "value")):
        yield from conn.execute(f"SELECT type, {column} FROM {table} WHERE {_OWN}", where)


def prune(
    conn: sqlite3.Connection,
    plan: Plan,
    root: tuple[str, bytes] | None,
) -> int:
    """Do as planned, inside the caller's transaction. Gives how many messages the thread has.

    `root` is the first checkpoint that stays, with its messages in it, as type and bytes; None
    where it stays as it is. Raises StorageError, for the caller to undo all, if the thread would
    not read as it did before.
    """
    plain = plain_of(conn)
    before = plain_messages(conn, plan.thread, plain)
    where = {"thread": plan.thread, "kept": json.dumps(plan.kept), "root": plan.root}
    conn.execute("PRAGMA secure_delete=ON")
    for table in ("checkpoints", "writes"):
        conn.execute(f"DELETE FROM {table} WHERE ({_OWN}) OR ({_INNER})", where)
    conn.execute(f"DELETE FROM agent_branches WHERE thread = :thread AND {_GONE}", where)
    if root is not None:
        conn.execute(
            "UPDATE checkpoints SET parent_checkpoint_id = NULL, type = ?, checkpoint = ?"
            " WHERE thread_id = ? AND checkpoint_ns = '' AND checkpoint_id = ?",
            (*root, plan.thread, plan.root),
        )
    if "agent_texts" in tables_of(conn) and getattr(conn, "cipher", None) is None:
        sync(conn, plan.thread, before)  # a branch that went may have been the last thing said
        merge(conn)
    if plain_messages(conn, plan.thread, plain) != before:
        raise StorageError(
            f"Pruning thread '{plan.thread}' would change its messages; nothing was changed.",
            "This is a fault of the program: please report it.",
        )
    return len(before)
