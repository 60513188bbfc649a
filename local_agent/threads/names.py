"""Names of threads: whether there is one, and which one may have been meant."""

from __future__ import annotations

import difflib
import sqlite3

from local_agent.errors import ThreadError
from local_agent.memory.entries import stored_threads, tables_of

_HAS = {
    "agent_threads": "SELECT 1 FROM agent_threads WHERE thread = ?",
    "checkpoints": "SELECT 1 FROM checkpoints WHERE thread_id = ? LIMIT 1",
}


def is_known(conn: sqlite3.Connection, thread: str) -> bool:
    """Whether the file holds anything of the thread."""
    known = tables_of(conn) & set(_HAS)
    return any(conn.execute(_HAS[table], (thread,)).fetchone() for table in known)


def check_known(conn: sqlite3.Connection | None, thread: str) -> None:
    """Raise ThreadError, with the names that are nearest, where there is no such thread."""
    if conn is None:
        raise ThreadError(f"There is no thread '{thread}'.", "No thread is saved yet.")
    if is_known(conn, thread):
        return
    near = " or ".join(f"'{name}'" for name in _near(thread, names_of(conn)))
    hint = f"Did you mean {near}?" if near else "See: agent threads list"
    raise ThreadError(f"There is no thread '{thread}'.", hint)


def _near(thread: str, names: list[str]) -> list[str]:
    """Up to three names that have the typed one in them or are written much like it."""
    typed, folded = thread.casefold(), {name.casefold(): name for name in names}
    inside = [name for low, name in folded.items() if typed in low]
    close = difflib.get_close_matches(typed, list(folded), n=3, cutoff=0.5)
    return list(dict.fromkeys([*inside, *(folded[low] for low in close)]))[:3]


def names_of(conn: sqlite3.Connection) -> list[str]:
    """The names of all threads."""
    tables, names = tables_of(conn), set[str]()
    if "agent_threads" in tables:
        names |= {name for (name,) in conn.execute("SELECT thread FROM agent_threads")}
    if "checkpoints" in tables:
        names |= set(stored_threads(conn))
    return sorted(names)
