"""What we keep beside the checkpoints: the journal of tool calls and the list of threads."""

from __future__ import annotations

from local_agent.memory.connection import Statements
from local_agent.memory.tables import THREAD_COLUMNS, Run, ThreadInfo, now, thread_of

_CALL = "thread = ? AND message_id = ? AND call_id = ?"


class Journal:
    """Which tool calls were started and which ended, committed before and after each."""

    def __init__(self, statements: Statements) -> None:
        self._db = statements

    async def begin(
        self, thread: str, message_id: str, call_id: str, tool: str, is_write: bool
    ) -> None:
        """Note that the call starts now, once more if it was started before; on disk at return."""
        await self._db.write(
            "INSERT INTO tool_runs (thread, message_id, call_id, tool, is_write, starts, started)"
            " VALUES (?, ?, ?, ?, ?, 1, ?) ON CONFLICT DO UPDATE SET starts = starts + 1,"
            " started = excluded.started, finished = NULL, outcome = NULL, result = NULL",
            (thread, message_id, call_id, tool, int(is_write), now()),
        )

    async def end(
        self, thread: str, message_id: str, call_id: str, outcome: str, result: str | None = None
    ) -> None:
        """Note how the call ended. `result` is kept until `settle`, for a crash before then."""
        await self._db.write(
            f"UPDATE tool_runs SET finished = ?, outcome = ?, result = ? WHERE {_CALL}",
            (now(), outcome, result, thread, message_id, call_id),
        )

    async def find(self, thread: str, message_id: str, call_id: str) -> Run | None:
        """What is known of the call; None if it was never started."""
        row = await self._db.row(
            f"SELECT outcome, result, is_write, starts FROM tool_runs WHERE {_CALL}",
            (thread, message_id, call_id),
        )
        return None if row is None else Run(row[0], row[1], bool(row[2]), row[3])

    async def settle(self, thread: str) -> None:
        """The turn is over: drop the kept results, which the checkpoints have now."""
        await self._db.write(
            "UPDATE tool_runs SET result = NULL WHERE thread = ? AND result IS NOT NULL", (thread,)
        )


class Threads:
    """The list of threads, written at the end of a turn."""

    def __init__(self, statements: Statements) -> None:
        self._db = statements

    async def touch(
        self,
        thread: str,
        *,
        title: str | None = None,
        messages: int | None = None,
        turns: int | None = None,
        model: str | None = None,
        parent: str | None = None,
    ) -> None:
        """Enter the thread, or set it to used just now. What is None stays as it was."""
        await self._db.write(
            f"INSERT INTO agent_threads ({THREAD_COLUMNS})"
            " VALUES (:thread, coalesce(:title, ''), :now, :now, :messages, :turns,"
            " coalesce(:model, ''), :parent)"
            " ON CONFLICT DO UPDATE SET updated = :now, title = coalesce(:title, title),"
            " messages = coalesce(:messages, messages), turns = coalesce(:turns, turns),"
            " model = coalesce(:model, model), parent = coalesce(:parent, parent)",
            {
                "thread": thread,
                "title": title,
                "now": now(),
                "messages": messages,
                "turns": turns,
                "model": model,
                "parent": parent,
            },
        )

    async def info(self, thread: str) -> ThreadInfo | None:
        """The entry of the thread; None if it has none."""
        row = await self._db.row(
            f"SELECT {THREAD_COLUMNS} FROM agent_threads WHERE thread = ?", (thread,)
        )
        return None if row is None else thread_of(row)

    async def keep_basis(self, key: str, text: str) -> None:
        """Keep a text that replies name by `key`."""
        await self._db.write("INSERT OR IGNORE INTO agent_bases VALUES (?, ?)", (key, text))

    async def basis(self, key: str) -> str | None:
        """The text that was kept under `key`."""
        row = await self._db.row("SELECT text FROM agent_bases WHERE key = ?", (key,))
        return None if row is None else str(row[0])
