"""Which threads the file holds, told from our own list of them and a look at what is newer.

Each turn of ours ends with an entry. A thread can be without one: its first turn was killed, or
another program wrote it. To look for those through all checkpoints takes 110 ms in a file of 1 GB
that is not in the system's cache (1,000 places of the index), so those that were found are noted,
and up to which row of the checkpoints was looked: what came behind it is all that is looked at.
"""

from __future__ import annotations

import sqlite3

FEW = 2_000  # rows that are looked at one by one; from more on, the index is quicker
_NEWEST_ROW = "SELECT max(rowid) FROM checkpoints"
_SINCE = "SELECT DISTINCT thread_id FROM checkpoints WHERE rowid > ?"
# All threads, each found by one step in the index: the rows, with their blobs, are not touched.
_ALL = """
    WITH RECURSIVE ids(thread) AS (
        SELECT min(thread_id) FROM checkpoints
        UNION ALL
        SELECT (SELECT min(thread_id) FROM checkpoints WHERE thread_id > ids.thread)
        FROM ids WHERE ids.thread IS NOT NULL
    )
    SELECT thread FROM ids WHERE thread IS NOT NULL
"""
_ENDS = """
    SELECT (SELECT min(checkpoint_id) FROM checkpoints WHERE thread_id = :t),
           (SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = :t)
"""


def tables_of(conn: sqlite3.Connection) -> set[str]:
    """The names of all tables in the file."""
    return {name for (name,) in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def stored_threads(conn: sqlite3.Connection) -> list[str]:
    """All threads that have checkpoints, by name."""
    return [name for (name,) in conn.execute(_ALL)]


def ends_of(conn: sqlite3.Connection, thread: str) -> tuple[str, str]:
    """The ids of the oldest and the newest checkpoint of a thread; empty if it has none."""
    oldest, newest = conn.execute(_ENDS, {"t": thread}).fetchone()
    return oldest or "", newest or ""


def others(conn: sqlite3.Connection, tables: set[str]) -> list[str]:
    """The threads that have checkpoints and no entry; `tables` are those of the file."""
    if "checkpoints" not in tables:
        return []
    names = set(_new(conn, _looked_up_to(conn) if "agent_meta" in tables else None))
    if "agent_others" in tables:
        names |= {name for (name,) in conn.execute("SELECT thread FROM agent_others")}
    if "agent_threads" in tables:
        has = "SELECT 1 FROM agent_threads WHERE thread = ?"
        names = {name for name in names if conn.execute(has, (name,)).fetchone() is None}
    return sorted(names)


def _new(conn: sqlite3.Connection, looked: int | None) -> list[str]:
    """The threads of the rows of checkpoints behind the row `looked`."""
    (newest,) = conn.execute(_NEWEST_ROW).fetchone()
    if newest is None or newest == looked:
        return []
    # Rows that are fewer than before were deleted by another program, or numbered anew.
    if looked is not None and looked < newest <= looked + FEW:
        return [name for (name,) in conn.execute(_SINCE, (looked,))]
    return stored_threads(conn)


def _looked_up_to(conn: sqlite3.Connection) -> int | None:
    row = conn.execute("SELECT value FROM agent_meta WHERE name = 'looked'").fetchone()
    return None if row is None else int(row[0])


def note_others(conn: sqlite3.Connection) -> None:
    """Note the threads without an entry as they are now, inside the caller's transaction."""
    names = others(conn, tables_of(conn))
    conn.execute("DELETE FROM agent_others")
    conn.executemany("INSERT INTO agent_others VALUES (?)", [(name,) for name in names])
    conn.execute(
        "INSERT OR REPLACE INTO agent_meta SELECT 'looked', coalesce(max(rowid), 0)"
        " FROM checkpoints"
    )
