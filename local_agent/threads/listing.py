"""Lists what is stored, by plain reads of the database file: threads and waiting approvals."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from local_agent.errors import StorageError
from local_agent.memory import ThreadInfo, check_file, translate
from local_agent.memory.chain import head_of, time_of
from local_agent.memory.crypt import Cipher, Opened, bytes_of, is_sealed, read_cipher
from local_agent.memory.entries import ends_of, others, stored_threads, tables_of
from local_agent.memory.faults import Unreadable
from local_agent.memory.tables import THREAD_COLUMNS, THREAD_VALUES, thread_of

SHORTEST_ID = 8
READ_TIMEOUT = 5.0  # seconds to wait while another process closes or repairs the file

# An interrupt waits while its task has no result. An answer alone does not end it: its node may
# have died on it, and is asked again. A second question of a task replaces the first.
_WAITING = """
    SELECT q.type, q.value FROM writes q
    WHERE q.thread_id = :thread AND q.checkpoint_ns = '' AND q.checkpoint_id = :checkpoint
      AND q.channel = '__interrupt__'
      AND NOT EXISTS (
        SELECT 1 FROM writes w
        WHERE w.thread_id = :thread AND w.checkpoint_ns = '' AND w.checkpoint_id = :checkpoint
          AND w.task_id = q.task_id
          AND w.channel NOT IN ('__interrupt__', '__resume__', '__error__')
      )
    ORDER BY q.rowid
"""


_STEP = """
    SELECT type, checkpoint FROM checkpoints
    WHERE thread_id = :thread AND checkpoint_ns = '' AND checkpoint_id = :checkpoint
"""


@dataclass(frozen=True, slots=True)
class PendingApproval:
    """A question that a thread waits with. `value` is what the graph passed to `interrupt`.

    `id` is LangGraph's, 32 hexadecimal digits; at least `SHORTEST_ID` of them tell one from
    others. `created` is an instant in UTC.
    """

    id: str
    thread: str
    value: Any
    created: datetime


def list_threads(db_path: Path, limit: int | None = None, key: str = "") -> list[ThreadInfo]:
    """The threads of the database, the one used last first; none if there is no file.

    Titles that are encrypted are empty without their `key`.

    Reads our own table, and of the checkpoints no more than the index. Those that have no entry of
    ours, because another program wrote them, have no title and counts. Raises StorageError for a
    file that cannot be read.
    """
    with reading(db_path, key or None) as conn:
        if conn is None:
            return []
        try:
            found = _listed(conn, limit)
        except sqlite3.OperationalError as exc:
            if not isinstance(translate(exc, db_path), Unreadable):
                raise
            conn.text_factory = lambda text: text.decode("utf-8", "replace")  # slower
            found = _listed(conn, limit, THREAD_COLUMNS)
            found = [info._replace(title="") if is_sealed(info.title) else info for info in found]
    found.sort(key=lambda info: (info.updated, info.thread), reverse=True)
    return found[:limit]


def _listed(conn: Opened, limit: int | None, columns: str = THREAD_VALUES) -> list[ThreadInfo]:
    tables = tables_of(conn)
    found = _entries(conn, limit, columns) if "agent_threads" in tables else []
    return found + [
        ThreadInfo(thread, time_of(oldest), time_of(newest))
        for thread in others(conn, tables)
        for oldest, newest in [ends_of(conn, thread)]
        if newest
    ]


def _entries(conn: sqlite3.Connection, limit: int | None, columns: str) -> list[ThreadInfo]:
    sql = f"SELECT {columns} FROM agent_threads"
    if limit is None:  # sorted later, which costs less than to step through the index
        return [thread_of(row) for row in conn.execute(sql)]
    newest = "ORDER BY updated DESC, thread DESC LIMIT ?"
    return [thread_of(row) for row in conn.execute(f"{sql} {newest}", (limit,))]


def pending_approvals(db_path: Path, key: str = "") -> list[PendingApproval]:
    """What waits for a person in any thread, oldest first; nothing if there is no file.

    Raises StorageError for a file that cannot be read.
    """
    found: list[PendingApproval] = []
    with reading(db_path, key) as conn:
        if conn is None or not {"checkpoints", "writes"} <= tables_of(conn):
            return found
        for thread in stored_threads(conn):
            newest = head_of(conn, thread) or ""
            rows = conn.execute(_WAITING, {"thread": thread, "checkpoint": newest}).fetchall()
            for row in rows:
                found.extend(_approvals(row, db_path, thread, newest, conn.cipher))
    return sorted(found, key=lambda approval: approval.created)


def _approvals(
    row: tuple[str, bytes],
    db_path: Path,
    thread: str,
    checkpoint: str,
    cipher: Cipher | None,
) -> Iterator[PendingApproval]:
    # Imported here, because listing threads must not wait for LangGraph.
    from local_agent.memory.sealed import serializer

    try:
        values = serializer(db_path, cipher).loads_typed(row)
    except StorageError:  # of this thread; those of the others are still to be listed
        yield PendingApproval("", thread, None, time_of(checkpoint))
        return
    for interrupt in values if isinstance(values, (list, tuple)) else ():
        if hasattr(interrupt, "value"):  # other content is no interrupt of LangGraph
            yield PendingApproval(interrupt.id, thread, interrupt.value, time_of(checkpoint))


def has_open_turn(db_path: Path, thread: str, key: str = "") -> bool:
    """Whether a turn of the thread was broken off or waits for an approval; nothing is loaded.

    False also where that cannot be seen without loading. Raises StorageError for a file that
    cannot be read.
    """
    with reading(db_path, key) as conn:
        if conn is None or not {"checkpoints", "writes"} <= tables_of(conn):
            return False
        newest = head_of(conn, thread)
        if newest is None:
            return False
        where = {"thread": thread, "checkpoint": newest}
        if conn.execute(_WAITING, where).fetchone() is not None:
            return True
        return _leads_on(conn, conn.execute(_STEP, where).fetchone())


def _leads_on(conn: Opened, step: tuple[str, bytes]) -> bool:
    """Whether a stored step starts another: its values say which nodes or tasks come next."""
    if step[0].partition("+")[0] != "msgpack":
        return False
    import ormsgpack

    options = ormsgpack.OPT_NON_STR_KEYS
    try:
        blob = bytes_of(conn)(*step)
        checkpoint = ormsgpack.unpackb(blob, ext_hook=lambda *_: True, option=options)
        values = checkpoint["channel_values"]
        named = any(name.startswith(("branch:to:", "__start__")) for name in values)
    except (ValueError, LookupError, TypeError, AttributeError):
        return False  # damaged: who loads it says so
    return named or bool(values.get("__pregel_tasks"))


@contextmanager
def reading(db_path: Path, key: str | None = None) -> Iterator[Opened | None]:
    """A connection that cannot change the file, None where there is none.

    None as `key`: what is encrypted cannot be read, and texts of ours are empty. Otherwise
    StorageError is raised for a file that is encrypted with another key, or with one where `key` is
    empty.
    """
    check_file(db_path)
    if not db_path.exists():
        yield None
        return
    try:
        with closing(_connect(db_path.resolve())) as conn:
            conn.use(None if key is None else read_cipher(conn, db_path, key))
            yield conn
    except sqlite3.Error as exc:
        raise translate(exc, db_path) or exc from exc


def _connect(path: Path) -> Opened:
    # "rw" with query_only, because a connection of mode "ro" leaves -wal and -shm behind. Where
    # the folder cannot be written there is no other writer to look out for without a -wal.
    uri = path.as_uri()
    for options in ("mode=rw", "mode=ro", "mode=ro&immutable=1"):
        if "immutable" in options and path.with_name(path.name + "-wal").exists():
            break
        conn: Opened = sqlite3.connect(
            f"{uri}?{options}", uri=True, timeout=READ_TIMEOUT, factory=Opened
        )
        try:
            conn.execute("PRAGMA query_only=ON")
            conn.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as exc:
            conn.close()
            if exc.sqlite_errorcode & 0xFF not in (
                sqlite3.SQLITE_CANTOPEN,
                sqlite3.SQLITE_READONLY,
            ):
                raise
            failed = exc
        except BaseException:
            conn.close()
            raise
        else:
            return conn
    raise failed
