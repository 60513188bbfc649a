"""The one SQLite connection of a process: how it is opened, shared, and always closed."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import aiosqlite

from local_agent.errors import StorageError
from local_agent.memory.backup import Say, back_up_foreign, log
from local_agent.memory.crypt import Opened, begin_cipher, check_installed, read_cipher
from local_agent.memory.faults import (
    OLDEST_SQLITE,
    check_file,
    create_private,
    damaged,
    not_a_database,
    too_new,
    translate,
)
from local_agent.memory.tables import MIGRATIONS, VERSION, WORDS

T = TypeVar("T")
Row = tuple[Any, ...]
Values = Sequence[Any] | Mapping[str, Any]
CHECKED_BYTES = 16 * 1024 * 1024  # looked through at the start (5 ms a MB); larger ones as read


class Connection(aiosqlite.Connection):
    """aiosqlite's, which also gives the connection itself: for several statements in one go."""

    def __init__(self, opened: Opened) -> None:
        super().__init__(lambda: opened, 64)
        self.opened = opened
        self.is_held = False  # several changes are to be one; see `Statements.together`

    async def commit(self) -> None:
        """Commit, where this is not a part of something larger."""
        if not self.is_held:
            await super().commit()


async def connect(
    path: Path | None, busy_timeout: float, key: str = "", say: Say = log
) -> Connection:
    """Open `path` (None: in memory) with our settings and tables; seconds to wait for a lock.

    With a `key` what is written to a file from now on is encrypted. `say` gets what a person should
    know: that a file of another program was copied first. Raises StorageError, and then has left an
    existing file as it was.
    """
    gone, lines = threading.Event(), list[str]()
    try:
        opened = await asyncio.to_thread(open_plain, path, busy_timeout, key, gone, lines.append)
    except BaseException:
        gone.set()  # cancelled: the thread closes what it is still opening
        raise
    finally:
        for line in lines:
            say(line)
    # Handed over open, because aiosqlite does not wait for its thread after a failed start.
    conn = Connection(opened)
    start = asyncio.ensure_future(conn)
    try:
        await asyncio.shield(start)
    except asyncio.CancelledError:
        await start
        await conn.close()
        raise
    return conn


def open_plain(
    path: Path | None,
    busy_timeout: float,
    key: str = "",
    gone: threading.Event | None = None,
    say: Say = log,
) -> Opened:
    """The same for code that waits itself; `gone` is set when nobody waits any more."""
    try:
        return _open(path, busy_timeout, key, gone or threading.Event(), say)
    except sqlite3.Error as exc:
        raise translate(exc, path or ":memory:") or exc from exc


def _open(
    path: Path | None, busy_timeout: float, key: str, gone: threading.Event, say: Say
) -> Opened:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StorageError(
            f"SQLite {sqlite3.sqlite_version} is too old.",
            f"Use a Python with SQLite {'.'.join(map(str, OLDEST_SQLITE))} or newer.",
        )
    if path is not None:
        if key:
            check_installed()
        check_file(path)
        create_private(path)
    conn: Opened = sqlite3.connect(
        path or ":memory:", timeout=busy_timeout, check_same_thread=False, factory=Opened
    )
    try:
        conn.use(None)
        _prepare(conn, path, key, say)
        if gone.is_set():
            raise sqlite3.OperationalError("nobody waits for this connection any more")
    except BaseException:
        conn.close()
        raise
    return conn


def _prepare(conn: Opened, path: Path | None, key: str, say: Say) -> None:
    if path is not None:
        _check_content(conn, path)
        conn.use(read_cipher(conn, path, key))
        back_up_foreign(conn, path, say)
    else:
        conn.execute("PRAGMA temp_store=MEMORY")  # large sorts would go to a file
    conn.execute("PRAGMA auto_vacuum=INCREMENTAL")  # takes effect before the first table only
    conn.execute("PRAGMA synchronous=FULL")
    if conn.execute("PRAGMA application_id").fetchone() == (0,):
        transact(conn, _name)  # before the file has a log, which repeats the number
    conn.execute("PRAGMA journal_mode=WAL").fetchone()
    if conn.execute("PRAGMA user_version").fetchone() != (VERSION,):
        transact(conn, _migrate)
    if path is not None and key and conn.cipher is None:
        conn.use(transact(conn, lambda conn: begin_cipher(conn, path, key)))


def _check_content(conn: sqlite3.Connection, path: Path) -> None:
    (version,) = conn.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise too_new(path, version)
    tables = {name for (name,) in conn.execute("SELECT name FROM sqlite_master")}
    if tables and not tables & {"checkpoints", "agent_threads"}:
        raise not_a_database(path)  # it is another program's
    active = "SELECT count(*) FROM sqlite_master WHERE type IN ('trigger', 'view')"
    if conn.execute(active).fetchone() != (0,):
        raise not_a_database(path)  # ours has neither, and they could answer for the person
    if path.stat().st_size <= CHECKED_BYTES:
        # From 3.44 on it looks into the index of words too. That is made anew where it is damaged.
        rows = [" ".join(str(row).split()) for (row,) in conn.execute("PRAGMA quick_check(10)")]
        if faults := [row for row in rows if row != "ok" and "FTS5" not in row]:
            raise damaged(path, faults[0])


def transact(conn: sqlite3.Connection, change: Callable[[sqlite3.Connection], T]) -> T:
    """What `change` gives, done in one transaction that is there whole or not at all."""
    conn.execute("BEGIN IMMEDIATE")
    try:
        result = change(conn)
        conn.commit()
    except BaseException:
        conn.rollback()
        raise
    return result


def _name(conn: sqlite3.Connection) -> None:
    if conn.execute("PRAGMA application_id").fetchone() == (0,):
        conn.execute(f"PRAGMA application_id={secrets.randbelow(2**31 - 1) + 1}")


def _migrate(conn: sqlite3.Connection) -> None:
    (version,) = conn.execute("PRAGMA user_version").fetchone()  # another process may have done it
    for statements in MIGRATIONS[version:]:
        for statement in statements:
            if statement != WORDS or has_fts5(conn):
                conn.execute(statement)
    conn.execute(f"PRAGMA user_version={max(version, VERSION)}")


def has_fts5(conn: sqlite3.Connection) -> bool:
    """Whether this SQLite can make an index of words."""
    modules = conn.execute("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'")
    return modules.fetchone() is not None


class Statements:
    """Runs statements on the shared connection, each write whole even if its caller is cancelled.

    A cancellation between a statement and its commit would leave a transaction open, and every
    other process locked out, until the next write. So a write, once begun, runs to its end.
    """

    def __init__(self, conn: Connection, path: Path | None) -> None:
        self.conn = conn
        self.cipher = conn.opened.cipher
        self.path: Path | str = path or ":memory:"
        self.lock = asyncio.Lock()  # one transaction at a time; the saver takes it too
        self._running: set[asyncio.Task[Any]] = set()

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work`, which goes on if this is cancelled. Database errors as StorageError."""
        task = asyncio.ensure_future(self._translated(work))
        self._running.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # whoever was cancelled does not ask for it

    async def _translated(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await work
        except (sqlite3.Error, ValueError) as exc:
            with suppress(sqlite3.Error, ValueError):
                async with self.lock:
                    await self.conn.rollback()
            if fault := translate(exc, self.path):
                raise fault from exc
            raise

    async def write(self, sql: str, values: Values) -> None:
        """Run and commit one statement; it is on disk when this returns."""
        await self.finish(self._write(sql, values))

    async def _write(self, sql: str, values: Values) -> None:
        async with self.lock:
            async with self.conn.execute(sql, values):
                pass
            await self.conn.commit()

    async def row(self, sql: str, values: Values) -> Row | None:
        """The first row of a query."""
        return await self._translated(self._row(sql, values))

    async def _row(self, sql: str, values: Values) -> Row | None:
        async with self.lock, self.conn.execute(sql, values) as cursor:
            found = await cursor.fetchone()
            return tuple(found) if found is not None else None

    async def look(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What `work` reads from the connection, in a thread; nothing else runs on it meanwhile."""
        return await self.finish(self._alone(work))

    async def change(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in one transaction; it is on disk when this returns, or nothing of it is."""
        if self.conn.is_held:  # then it is a part of that one
            return await self.look(work)
        return await self.finish(self._alone(lambda conn: transact(conn, work)))

    @asynccontextmanager
    async def together(self) -> AsyncIterator[None]:
        """Make all that is written inside one transaction: it is on disk at the end, or none is.

        For changes of several steps that a kill must not part, some of them LangGraph's. Nothing
        else may write on this connection meanwhile: the thread is held, and runs nothing.
        """
        if self.conn.is_held:
            yield
            return
        await self.finish(self._alone(lambda conn: conn.execute("BEGIN IMMEDIATE")))
        self.conn.is_held = True
        try:
            yield
        except BaseException:
            await self._end(self.conn.rollback)
            raise
        await self._end(self.conn.commit)

    async def _end(self, how: Callable[[], Awaitable[None]]) -> None:
        """Wait for what still writes, and end the transaction."""
        if self._running:
            await asyncio.wait(self._running)
        self.conn.is_held = False
        await self.finish(self._ended(how))

    async def _ended(self, how: Callable[[], Awaitable[None]]) -> None:
        async with self.lock:
            await how()

    async def _alone(self, work: Callable[[sqlite3.Connection], T]) -> T:
        async with self.lock:
            return await asyncio.to_thread(work, self.conn.opened)

    async def close(self) -> None:
        """Let writes that run come to their end, then close. The process can only end after it."""
        try:
            if self._running:
                await asyncio.wait(self._running)
        finally:
            await self.conn.close()
