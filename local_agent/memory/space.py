"""Space of the file that is not used any more, given back to the file system."""

from __future__ import annotations

import sqlite3

PATIENCE = 1000  # milliseconds to wait for readers
_INCREMENTAL = 2  # of PRAGMA auto_vacuum
_OFF = 0


def needs_rewriting(conn: sqlite3.Connection) -> bool:
    """Whether only a copy of the whole file makes it smaller: another program made it."""
    return bool(conn.execute("PRAGMA auto_vacuum").fetchone()[0] == _OFF)


def give_back(conn: sqlite3.Connection) -> None:
    """Make the file as small as what it holds; outside of a transaction.

    Where another program made the file, the whole of it is copied once (about a second for 150 MB,
    and as much free space on the disk); later deletions then cost no more than what they free.
    Raises sqlite3.Error: nothing is lost then, and the file stays as large as it was.
    """
    if needs_rewriting(conn):
        conn.execute(f"PRAGMA auto_vacuum={_INCREMENTAL}")
        conn.execute("VACUUM")
    else:
        conn.executescript("PRAGMA incremental_vacuum")  # `execute` would stop after one page
    # The file itself gets smaller when its log is taken in. While another process reads, that is
    # left to whoever closes the file last.
    (patience,) = conn.execute("PRAGMA busy_timeout").fetchone()
    conn.execute(f"PRAGMA busy_timeout={PATIENCE}")
    conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    conn.execute(f"PRAGMA busy_timeout={patience}")


def size_of_file(conn: sqlite3.Connection) -> int:
    """Bytes of the database, as they are on the disk once its log is taken in."""
    numbers = [conn.execute(f"PRAGMA {n}").fetchone()[0] for n in ("page_count", "page_size")]
    return int(numbers[0] * numbers[1])
