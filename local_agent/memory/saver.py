"""The checkpointer: LangGraph's for SQLite, reading strictly and writing whole."""

from __future__ import annotations

import sqlite3
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from local_agent.memory.connection import Statements
from local_agent.memory.faults import Unreadable
from local_agent.memory.history import Histories
from local_agent.memory.order import ahead, go_on_behind
from local_agent.memory.sealed import serializer
from local_agent.memory.serializer import StrictSerializer
from local_agent.memory.shape import check_shape
from local_agent.memory.sums import CHANNEL, Lost, Sum, check_there, measured, verify

__all__ = ["RESUME", "Saver", "StrictSerializer"]

T = TypeVar("T")
_HEAD = "SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ''"
RESUME = "__resume__"  # LangGraph's channel of answers to interrupts; it has no public name


class Saver(AsyncSqliteSaver):
    """AsyncSqliteSaver on our connection. Raises StorageError for what the database raises."""

    def __init__(self, statements: Statements) -> None:
        super().__init__(statements.conn, serde=serializer(statements.path, statements.cipher))
        self.lock = statements.lock
        self._statements = statements
        self._histories = Histories(statements, self.serde)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        where = config["configurable"]
        before = str(where.get("checkpoint_id") or "")
        if checkpoint["id"] <= before:
            raise ahead(str(where["thread_id"]), before)
        return await self._statements.finish(
            super().aput(config, checkpoint, metadata, new_versions)
        )

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        await self._statements.finish(super().aput_writes(config, writes, task_id, task_path))

    def get_next_version(self, current: str | None, channel: None) -> str:
        """As LangGraph's, without its random digits: a third of what a checkpoint takes.

        They tell versions of different branches apart where values lie apart from checkpoints,
        which is not so here. Versions of either kind go on with the other.
        """
        number = int(str(current).partition(".")[0]) if current else 0
        return f"{number + 1:032}"

    async def adelete_thread(self, thread_id: str) -> None:
        self.forget()
        await self._statements.finish(super().adelete_thread(thread_id))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As LangGraph's, without answers to interrupts: those count in the run they are given to.

        One that was stored may come from elsewhere, or be of a run that did not get to use it.
        """
        found = await self._reading(config, super().aget_tuple(config))
        if not config["configurable"].get("checkpoint_id"):
            await self._check(config, found)
            if found is not None:
                go_on_behind(str(found.config["configurable"]["checkpoint_id"]))
        if found is None or not found.pending_writes:
            return found
        return found._replace(pending_writes=[w for w in found.pending_writes if w[1] != RESUME])

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """The stored updates of the channels up to the checkpoint of `config`, oldest first.

        What only appends messages comes as one value, which LangGraph takes as it is.
        """
        return await self._reading(config, self._history(config, list(channels)))

    async def _check(self, config: RunnableConfig, found: CheckpointTuple | None) -> None:
        """Raise StorageError where the newest checkpoint is not what a history would tell of."""
        thread = str(config["configurable"]["thread_id"])
        if found is None:
            await self._statements.look(lambda conn: check_there(conn, thread))
        elif found.config["configurable"]["thread_id"] != thread:  # a damaged index leads there
            raise Lost(None).of(thread)
        elif CHANNEL in found.checkpoint["channel_values"]:  # then no history is asked for
            loads = self.serde.loads_typed
            whole = self._statements.look(lambda conn: verify(conn, thread, loads))
            await self._reading(config, whole)

    async def check_thread(self, thread: str) -> None:
        """Raise StorageError where the thread is not what was saved of it. No file is changed."""
        found = await self.aget_tuple({"configurable": {"thread_id": thread}})
        if found is not None and CHANNEL not in found.checkpoint["channel_values"]:
            await self.aget_delta_channel_history(config=found.config, channels=[CHANNEL])

    def sum_of(self, conn: sqlite3.Connection, thread: str) -> Sum | None:
        """The sum over what led to where the thread stands; None where it has none."""
        (head,) = conn.execute(_HEAD, (thread,)).fetchone()
        known = self._histories.sum_at((thread, "", CHANNEL), head)
        return known or measured(conn, thread, self.serde.loads_typed)

    def forget(self) -> None:
        """Read all threads anew, because rows were changed."""
        self._histories.forget()

    async def _reading(self, config: RunnableConfig, work: Coroutine[Any, Any, T]) -> T:
        """`work`, whose unreadable values are of the thread of `config` and no other."""
        thread = str(config["configurable"]["thread_id"])
        try:
            found = await self._statements.finish(work)
            check_shape(found)
            return found
        except Unreadable as exc:
            raise exc.of(thread) from exc
        except ValueError as exc:  # metadata that are no JSON, or no text
            raise Unreadable("a checkpoint of it is damaged").of(thread) from exc

    async def _history(
        self, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        where = config["configurable"]
        head = where.get("checkpoint_id")
        if not head:
            return await super().aget_delta_channel_history(config=config, channels=channels)
        found: dict[str, DeltaChannelHistory] = {}
        for name in channels:
            place = (str(where["thread_id"]), str(where.get("checkpoint_ns", "")), name)

            async def read_anew(name: str = name) -> DeltaChannelHistory:
                whole = await AsyncSqliteSaver.aget_delta_channel_history(
                    self, config=config, channels=[name]
                )
                return whole[name]

            found[name] = await self._histories.read(place, head, read_anew)
        return found
