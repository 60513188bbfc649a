"""What we keep beside the checkpoints: the journal of tool calls, the threads, the index."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from local_agent.memory.connection import Statements
from local_agent.memory.courses import Rows, is_there, put_thread
from local_agent.memory.entries import note_others
from local_agent.memory.index import Hit, find, is_unusable, rebuild, sync
from local_agent.memory.saver import Saver
from local_agent.memory.sums import enter, renew
from local_agent.memory.tables import THREAD_COLUMNS, THREAD_VALUES, Run, ThreadInfo, now, thread_of
from local_agent.memory.words import Phrase

_TOUCH = (
    f"INSERT INTO agent_threads ({THREAD_COLUMNS})"
    " VALUES (:thread, coalesce(sealed(:title), ''), :now, :now, :messages, :turns,"
    " coalesce(:model, ''), :parent)"
    " ON CONFLICT DO UPDATE SET updated = :now, title = coalesce(sealed(:title), title),"
    " messages = coalesce(:messages, messages), turns = coalesce(:turns, turns),"
    " model = coalesce(:model, model), parent = coalesce(:parent, parent)"
)
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
            f"UPDATE tool_runs SET finished = ?, outcome = ?, result = sealed(?) WHERE {_CALL}",
            (now(), outcome, result, thread, message_id, call_id),
        )

    async def find(self, thread: str, message_id: str, call_id: str) -> Run | None:
        """What is known of the call; None if it was never started."""
        row = await self._db.row(
            f"SELECT outcome, opened(result), is_write, starts FROM tool_runs WHERE {_CALL}",
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

    def __init__(self, statements: Statements, saver: Saver) -> None:
        self._db = statements
        self._saver = saver

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
        values = {
            "thread": thread,
            "title": title,
            "now": now(),
            "messages": messages,
            "turns": turns,
            "model": model,
            "parent": parent,
        }

        def change(conn: sqlite3.Connection) -> None:
            conn.execute(_TOUCH, values)
            enter(conn, thread, self._saver.sum_of(conn, thread))
            note_others(conn)

        await self._db.change(change)

    async def info(self, thread: str) -> ThreadInfo | None:
        """The entry of the thread; None if it has none."""
        row = await self._db.row(
            f"SELECT {THREAD_VALUES} FROM agent_threads WHERE thread = ?", (thread,)
        )
        return None if row is None else thread_of(row)

    async def taken(self, names: Sequence[str]) -> str | None:
        """The first of the names that the database has anything of; None if it has of none."""
        return await self._db.look(
            lambda conn: next((name for name in names if is_there(conn, name)), None)
        )

    async def put(self, threads: Sequence[tuple[str, Rows]]) -> str | None:
        """Put threads in whole, all or none; the name of one that is there already, or None."""

        def change(conn: sqlite3.Connection) -> str | None:
            taken = next((name for name, _ in threads if is_there(conn, name)), None)
            if taken is None:
                for name, rows in threads:
                    put_thread(conn, name, rows, now())
                    renew(conn, name, self._saver.serde.loads_typed)
            return taken

        return await self._db.change(change)

    async def keep_basis(self, key: str, text: str) -> None:
        """Keep a text that replies name by `key`."""
        await self._db.write("INSERT OR IGNORE INTO agent_bases VALUES (?, ?)", (key, text))

    async def basis(self, key: str) -> str | None:
        """The text that was kept under `key`."""
        row = await self._db.row("SELECT text FROM agent_bases WHERE key = ?", (key,))
        return None if row is None else str(row[0])


class Index:
    """The index of words, brought up to date at the end of a turn."""

    def __init__(self, statements: Statements) -> None:
        self._db = statements

    async def sync(self, thread: str, messages: Sequence[Any]) -> None:
        """Bring the index to just these messages of the thread. Never raises.

        What could not be written now (a full disk, a lock) is written by a later call, or found
        missing by the next search: a turn that is saved must not fail for it.
        """

        def change(conn: sqlite3.Connection) -> None:
            sync(conn, thread, messages)

        try:
            await self._db.change(change)
        except Exception as exc:  # noqa: BLE001 - see above; the search says what is missing
            if is_unusable(exc.__cause__ or exc):
                await self._rebuild()

    async def find(self, phrases: Sequence[Phrase], limit: int) -> tuple[list[Hit], int]:
        """The `limit` texts that fit best, and how many there are in all."""
        hits, count, _ = await self._db.look(lambda conn: find(conn, phrases, limit))
        return hits, count

    async def _rebuild(self) -> None:
        try:
            await self._db.change(rebuild)
        except Exception:  # noqa: BLE001 - a search looks through the texts without it
            return
