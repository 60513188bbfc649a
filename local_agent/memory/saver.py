"""The checkpointer: LangGraph's for SQLite, reading strictly and writing whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    writes_sort_key,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from local_agent.errors import StorageError
from local_agent.memory.connection import Statements
from local_agent.memory.faults import damaged

RESUME = "__resume__"  # LangGraph's channel of answers to interrupts; it has no public name
_READ = frozenset({"null", "bytes", "bytearray", "msgpack"})

KEPT_HISTORIES = 2  # of threads that were used last; each is as large as its thread
_Histories = Mapping[str, DeltaChannelHistory]
_Key = tuple[str, str, tuple[str, ...]]
_Known = tuple[str, _Histories]

# From a checkpoint back to an earlier one, by parents; a turn takes some ten steps.
_ANCESTORS = """
    WITH RECURSIVE up(id, parent, depth) AS (
        SELECT checkpoint_id, parent_checkpoint_id, 0 FROM checkpoints
        WHERE thread_id = :thread AND checkpoint_ns = :namespace AND checkpoint_id = :head
        UNION ALL
        SELECT c.checkpoint_id, c.parent_checkpoint_id, depth + 1 FROM up CROSS JOIN checkpoints c
        ON c.checkpoint_id = up.parent
        WHERE c.thread_id = :thread AND c.checkpoint_ns = :namespace AND up.id != :base
        LIMIT 300
    )
"""
_PATH = f"""{_ANCESTORS}
    SELECT up.id, c.type, c.checkpoint FROM up CROSS JOIN checkpoints c
    ON c.thread_id = :thread AND c.checkpoint_ns = :namespace AND c.checkpoint_id = up.id
    WHERE up.id != :head ORDER BY depth
"""
_WRITES = f"""{_ANCESTORS}
    SELECT w.checkpoint_id, w.channel, w.task_id, w.type, w.value, w.task_path, w.idx
    FROM up CROSS JOIN writes w
    ON w.thread_id = :thread AND w.checkpoint_ns = :namespace AND w.checkpoint_id = up.id
    WHERE up.id != :head
"""


class StrictSerializer(JsonPlusSerializer):
    """Reads back messages and plain values only, whatever LANGGRAPH_STRICT_MSGPACK says.

    The variable is looked at when LangGraph is imported; a list of allowed types that is passed
    (None: the built-in one) comes before it. The older "json" rows can name any class: not read.
    """

    def __init__(self, path: Path | str) -> None:
        super().__init__(allowed_msgpack_modules=None)
        self._path = path

    def with_msgpack_allowlist(
        self, extra_allowlist: Iterable[tuple[str, ...] | type]
    ) -> JsonPlusSerializer:
        """Itself: the list never grows by what a graph's state declares."""
        return self

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        if data[0] not in _READ:
            raise StorageError(f"{self._path} holds values of a kind that is not read: {data[0]}.")
        try:
            return super().loads_typed(data)
        except ValueError as exc:  # what ormsgpack raises for bytes that are no msgpack
            raise damaged(self._path, "a stored value cannot be read") from exc


class Saver(AsyncSqliteSaver):
    """AsyncSqliteSaver on our connection. Raises StorageError for what the database raises."""

    def __init__(self, statements: Statements) -> None:
        super().__init__(statements.conn, serde=StrictSerializer(statements.path))
        self.lock = statements.lock
        self._statements = statements
        self._known: dict[_Key, _Known] = {}

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
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

    async def adelete_thread(self, thread_id: str) -> None:
        self._known.clear()
        await self._statements.finish(super().adelete_thread(thread_id))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As LangGraph's, without answers to interrupts: those count in the run they are given to.

        One that was stored may come from elsewhere, or be of a run that did not get to use it.
        """
        found = await self._statements.finish(super().aget_tuple(config))
        if found is None or not found.pending_writes:
            return found
        return found._replace(pending_writes=[w for w in found.pending_writes if w[1] != RESUME])

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """The stored updates of the channels, oldest first, up to the checkpoint of `config`.

        LangGraph asks for them whenever it loads a thread, several times a turn, and would read
        all of them each time. Here those that an earlier call read are not read again.
        """
        return await self._statements.finish(self._history(config, tuple(channels)))

    async def _history(
        self, config: RunnableConfig, channels: tuple[str, ...]
    ) -> Mapping[str, DeltaChannelHistory]:
        where = config["configurable"]
        head = where.get("checkpoint_id")
        key = (str(where["thread_id"]), str(where.get("checkpoint_ns", "")), channels)
        known = self._known.pop(key, None)
        found = await self._since(key, known, head) if known and head else None
        if found is None:
            found = await super().aget_delta_channel_history(config=config, channels=channels)
        if head and all(history["writes"] for history in found.values()):
            self._known[key] = (head, found)  # the newest last
            while len(self._known) > KEPT_HISTORIES:
                self._known.pop(next(iter(self._known)))
        return {name: _copy(history) for name, history in found.items()}

    async def _since(self, key: _Key, known: _Known, head: str) -> _Histories | None:
        """`known` and what came after it up to `head`; None where it must be read anew.

        That is when `known` is not a near ancestor of `head`, or a snapshot lies between them.
        """
        (thread, namespace, channels), (base, histories) = key, known
        if base == head:
            return histories
        where = {"thread": thread, "namespace": namespace, "head": head, "base": base}
        async with self.lock:
            async with self.conn.execute(_PATH, where) as cursor:
                path = list(await cursor.fetchall())
            if not path or path[-1][0] != base:
                return None
            for _, kind, blob in path:
                if not channels_free(self.serde.loads_typed((kind, blob)), channels):
                    return None
            async with self.conn.execute(_WRITES, where) as cursor:
                rows = list(await cursor.fetchall())
        order = {row[0]: -i for i, row in enumerate(path)}  # the path is newest first
        rows = [row for row in rows if row[0] in order]
        rows.sort(key=lambda row: (order[row[0]], writes_sort_key(row[5], row[2], row[6])))
        found = {name: _copy(history) for name, history in histories.items()}
        for _, name, task, kind, blob, *_ in rows:
            if name in found:
                value = self.serde.loads_typed((kind, blob))
                found[name]["writes"].append((task, name, value))
        return found


def channels_free(checkpoint: Mapping[str, Any], channels: Sequence[str]) -> bool:
    """Whether a checkpoint holds a value of none of the channels."""
    values = checkpoint.get("channel_values") or {}
    return not any(name in values for name in channels)


def _copy(history: DeltaChannelHistory) -> DeltaChannelHistory:
    copied: DeltaChannelHistory = {"writes": list(history["writes"])}
    if "seed" in history:
        copied["seed"] = history["seed"]
    return copied
