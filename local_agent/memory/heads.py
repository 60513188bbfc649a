"""Where a thread stands, put onto a copy of an earlier checkpoint; and threads copied whole.

A copy has the parent of the original, and no writes of its own yet. So the messages up to it are
found by the same way back, nothing of the conversation is stored again, and what follows it does
not mix with what followed the original. (`update_state` on an old checkpoint stores all messages
up to it once more, because its writes are taken; measured in benchmarks/threads_rewind.py.)
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, CheckpointTuple, copy_checkpoint
from langgraph.checkpoint.base import empty_checkpoint as empty
from langgraph.checkpoint.base.id import uuid6

from local_agent.errors import ThreadError
from local_agent.memory.branches import (
    Branch,
    copy_steps,
    is_there,
    put_branch,
    read_branches,
)
from local_agent.memory.chain import (
    Plain,
    Step,
    Turn,
    head_of,
    read_chain,
    read_next,
    read_steps,
    read_turns,
    read_written,
)
from local_agent.memory.connection import Statements
from local_agent.memory.order import ahead
from local_agent.memory.raw import plain_value
from local_agent.memory.saver import Saver
from local_agent.memory.sums import check_there, enter

_WRITE_RUNS = """
    SELECT message_id, call_id, coalesce(finished, started) FROM tool_runs
    WHERE thread = ? AND is_write = 1
"""
# What a read gave on the course that is left does not stand in for running it again.
_DROP_READS = """
    UPDATE tool_runs SET result = NULL
    WHERE thread = ? AND is_write = 0 AND result IS NOT NULL
"""
Change = Callable[[sqlite3.Connection, str], None]


class Heads:
    """Reads the chains of threads and puts their heads elsewhere."""

    def __init__(self, statements: Statements, saver: Saver, plain: Plain = plain_value) -> None:
        self._db = statements
        self._saver = saver
        self._plain = plain

    async def head(self, thread: str) -> str | None:
        """As `chain.head_of`. Raises `StorageError` for a thread whose checkpoints are gone."""

        def look(conn: sqlite3.Connection) -> str | None:
            check_there(conn, thread)
            return head_of(conn, thread)

        return await self._db.look(look)

    async def chain(self, thread: str, head: str | None = None) -> list[Step]:
        """As `chain.read_chain`."""
        return await self._db.look(lambda conn: read_chain(conn, thread, head))

    async def turns(self, thread: str, head: str | None = None) -> list[Turn]:
        """As `chain.read_turns`."""
        return await self._db.look(lambda conn: read_turns(conn, thread, head, self._plain))

    async def steps(self, thread: str) -> dict[str, Step]:
        """As `chain.read_steps`."""
        return await self._db.look(lambda conn: read_steps(conn, thread))

    async def following(self, thread: str) -> dict[str, tuple[str, ...]]:
        """As `chain.read_next`."""
        return await self._db.look(lambda conn: read_next(conn, thread, self._plain))

    async def written(
        self, thread: str, *, results: bool = False
    ) -> list[tuple[str, list[Mapping[str, Any]]]]:
        """As `chain.read_written`."""
        return await self._db.look(
            lambda conn: list(read_written(conn, thread, self._plain, results=results))
        )

    async def write_runs(self, thread: str) -> dict[tuple[str, str], str]:
        """When each write of the thread ended or began, by the ids of its message and its call."""

        def read(conn: sqlite3.Connection) -> dict[tuple[str, str], str]:
            return {(row[0], row[1]): str(row[2]) for row in conn.execute(_WRITE_RUNS, (thread,))}

        return await self._db.look(read)

    async def branches(self, thread: str) -> list[Branch]:
        """As `branches.read_branches`."""
        return await self._db.look(lambda conn: read_branches(conn, thread))

    async def enter(self, thread: str, branch: Branch) -> None:
        """As `branches.put_branch`."""
        await self._db.change(lambda conn: put_branch(conn, thread, branch))

    async def put(
        self, thread: str, base: str | None, values: Mapping[str, Any], also: Change
    ) -> str:
        """Let the thread stand on a copy of its checkpoint `base`; the id of the copy.

        None as base: on an empty one. `values` are put into its channels. `also` is run in the
        same transaction, with the id of the copy. Raises `ThreadError` when there is no `base`, and
        `StorageError` when the thread is far ahead of the clock: its newest checkpoint is its head.
        """
        await self._saver.check_thread(thread)  # what is lost must stay to be seen
        saved = await self._saver.aget_tuple(config_of(thread, base)) if base else None
        if base and saved is None:
            raise ThreadError(f"Thread '{thread}' has no checkpoint {base} any more.")
        copy, metadata, parent = _copied(saved)
        for name, value in values.items():
            versions = copy["channel_versions"]
            copy["channel_values"][name] = value
            versions[name] = self._saver.get_next_version(str(versions.get(name) or "0"), None)
        kind, blob = self._saver.serde.dumps_typed(copy)
        row = (thread, copy["id"], parent, kind, blob, json.dumps(metadata).encode())

        def change(conn: sqlite3.Connection) -> None:
            newest = head_of(conn, thread)
            if newest is not None and newest >= copy["id"]:
                raise ahead(thread, newest)
            conn.execute(
                "INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id,"
                " parent_checkpoint_id, type, checkpoint, metadata)"
                " VALUES (?, '', ?, ?, ?, ?, ?)",
                row,
            )
            enter(conn, thread, None)  # whoever put it there says what it is now
            conn.execute(_DROP_READS, (thread,))
            also(conn, copy["id"])

        await self._db.change(change)
        return copy["id"]

    async def put_writes(
        self, thread: str, old: str, new: str, tasks: Mapping[str, str], interrupts: Sequence[Any]
    ) -> None:
        """Give `new`, a copy of `old`, what the tasks of `old` wrote; `tasks` maps their ids.

        Questions are not copied: `interrupts` are (task of `new`, the question), as its own.
        """
        asked = [(task, *self._saver.serde.dumps_typed([one])) for task, one in interrupts]

        def change(conn: sqlite3.Connection) -> None:
            for before, after in tasks.items():
                conn.execute(
                    "INSERT OR IGNORE INTO writes (thread_id, checkpoint_ns, checkpoint_id,"
                    " task_id, task_path, idx, channel, type, value) SELECT thread_id, '', :new,"
                    " :after, task_path, idx, channel, type, value FROM writes WHERE"
                    " thread_id = :thread AND checkpoint_ns = '' AND checkpoint_id = :old AND"
                    " task_id = :before AND channel NOT IN ('__interrupt__', '__resume__')",
                    {"new": new, "after": after, "thread": thread, "old": old, "before": before},
                )
            for task, kind, blob in asked:
                conn.execute(
                    "INSERT OR IGNORE INTO writes (thread_id, checkpoint_ns, checkpoint_id,"
                    " task_id, idx, channel, type, value)"
                    " VALUES (?, '', ?, ?, -3, '__interrupt__', ?, ?)",
                    (thread, new, task, kind, blob),
                )

        await self._db.change(change)

    async def fork(self, thread: str, new: str, head: str) -> bool:
        """Copy the chain up to `head` into the thread `new`; False if that is there already."""
        await self._saver.check_thread(thread)

        def change(conn: sqlite3.Connection) -> bool:
            if is_there(conn, new):
                return False
            steps = read_chain(conn, thread, head)
            copy_steps(conn, thread, new, [step.checkpoint_id for step in steps])
            return True

        return await self._db.change(change)


def config_of(thread: str, checkpoint_id: str | None = None) -> RunnableConfig:
    """The configuration that names a checkpoint, or the newest of the thread."""
    where = {"thread_id": thread, "checkpoint_ns": ""}
    if checkpoint_id is not None:
        where["checkpoint_id"] = checkpoint_id
    return {"configurable": where}


def _copied(saved: CheckpointTuple | None) -> tuple[Checkpoint, dict[str, Any], str | None]:
    """The copy of a checkpoint with an id of its own, its metadata, and its parent's id."""
    if saved is None:
        copy, parent = empty(), None
        metadata: dict[str, Any] = {}
    else:
        copy, metadata = copy_checkpoint(saved.checkpoint), {**saved.metadata}
        above = saved.parent_config
        parent = above["configurable"]["checkpoint_id"] if above else None
        metadata["copy_of"] = saved.checkpoint["id"]
    metadata["step"] = metadata.get("step", -2) + 1
    if metadata.get("source") != "input":  # that one starts a turn, and its copy does too
        metadata["source"] = "fork"
    copy["id"] = str(uuid6(clock_seq=metadata["step"]))
    copy["ts"] = datetime.now(UTC).isoformat()
    copy["updated_channels"] = None
    return copy, metadata, parent
