"""Files beside the database that tools returned: which of them no thread names any more."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path

from local_agent.memory.crypt import bytes_of

# What gives the bytes in which a name stands as it is: type and stored bytes -> bytes.
Read = Callable[[str, bytes], bytes]

# As they are written: 32 digits of the hash of their content, and the ending of their kind.
_NAME = re.compile(rb"[0-9a-f]{32}\.[a-z0-9]{1,10}")
_AT_ONCE = 20  # names that one pass through the file looks for
_VALUES = (("checkpoints", "checkpoint"), ("writes", "value"))


def names_in(rows: Iterable[tuple[str, bytes | None]], read: Read) -> set[str]:
    """What can be names of such files in stored pairs of type and value."""
    found: set[str] = set()
    for kind, value in rows:
        if value:
            found |= {name.decode() for name in _NAME.findall(read(kind, value))}
    return found


def named_by(conn: sqlite3.Connection, thread: str) -> set[str]:
    """What can be names of such files in the rows of a thread."""
    found: set[str] = set()
    for table, column in _VALUES:
        sql = f"SELECT type, {column} FROM {table} WHERE thread_id = ?"
        found |= names_in(conn.execute(sql, (thread,)), bytes_of(conn))
    return found


def remove_unnamed(conn: sqlite3.Connection, folder: Path, names: Collection[str]) -> int:
    """Remove those files of `names` in `folder` that no row names any more; how many that were.

    Goes through the whole file, but only where there is a file in question. One that cannot be
    removed is left.
    """
    there = sorted(name for name in names if (folder / name).is_file())
    removed = 0
    for start in range(0, len(there), _AT_ONCE):
        asked = there[start : start + _AT_ONCE]
        for name in set(asked) - _named(conn, asked):
            with suppress(OSError):
                (folder / name).unlink()
                removed += 1
    with suppress(OSError):  # it is not empty, or there is none
        folder.rmdir()
    return removed


def _named(conn: sqlite3.Connection, names: Collection[str]) -> set[str]:
    found: set[str] = set()
    for table, column in _VALUES:
        # What another serializer wrote cannot be looked into here: it is all read.
        tests = " OR ".join([f"instr({column}, ?)"] * len(names))
        sql = f"SELECT type, {column} FROM {table} WHERE type != 'msgpack' OR {tests}"
        found |= names_in(conn.execute(sql, [name.encode() for name in names]), bytes_of(conn))
    return found
