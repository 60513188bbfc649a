"""Threads renamed and deleted, in every table that knows them, inside the caller's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from local_agent.memory.entries import note_others, stored_threads, tables_of
from local_agent.memory.index import forget, merge
from local_agent.memory.tables import NAMED_BY_THREAD

_OWN_ROWS = """
    SELECT count(*), coalesce(sum(length(checkpoint) + length(metadata)), 0)
    FROM checkpoints WHERE thread_id = ?
"""
_OWN_WRITES = "SELECT coalesce(sum(length(value)), 0) FROM writes WHERE thread_id = ?"
ROW = 250  # bytes that a row takes beside its values, in the table and the index: measured


def rename(conn: sqlite3.Connection, old: str, new: str) -> None:
    """Give all that is stored of the thread `old` the name `new`, which no thread may have."""
    for table, column in _known(conn):
        # What a deletion by another program left of an earlier thread of this name.
        conn.execute(f"DELETE FROM {table} WHERE {column} = ?", (new,))
        conn.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (new, old))
    conn.execute("UPDATE agent_threads SET parent = ? WHERE parent = ?", (new, old))
    note_others(conn)


def delete(conn: sqlite3.Connection, thread: str) -> None:
    """Remove all that is stored of the thread, also the words from the index."""
    conn.execute("PRAGMA secure_delete=ON")  # what was in a page must not stay in it
    forget(conn, thread)
    merge(conn)
    for table, column in _known(conn):
        conn.execute(f"DELETE FROM {table} WHERE {column} = ?", (thread,))
    conn.execute("UPDATE agent_threads SET parent = NULL WHERE parent = ?", (thread,))
    if not stored_threads(conn):  # nobody names them any more
        conn.execute("DELETE FROM agent_bases")
    note_others(conn)


def size_of(conn: sqlite3.Connection, thread: str) -> int:
    """About how many bytes of the file the thread takes."""
    rows, size = conn.execute(_OWN_ROWS, (thread,)).fetchone()
    (writes,) = conn.execute(_OWN_WRITES, (thread,)).fetchone()
    return int(size + writes + rows * ROW)


def _known(conn: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    tables = tables_of(conn)
    return ((table, column) for table, column in NAMED_BY_THREAD if table in tables)
