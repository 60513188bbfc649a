"""Search over all threads of a file, also those that the index does not hold yet."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from local_agent.errors import AgentError
from local_agent.lock import thread_lock
from local_agent.memory import BUSY_TIMEOUT
from local_agent.memory.connection import open_plain, transact
from local_agent.memory.crypt import plain_of
from local_agent.memory.entries import stored_threads, tables_of
from local_agent.memory.index import Hit, as_hits, behind, find, look_through, sync
from local_agent.memory.replay import DAMAGE, is_damage, plain_messages
from local_agent.memory.sums import verify
from local_agent.memory.words import Phrase
from local_agent.threads.listing import reading
from local_agent.threads.names import check_known

NO_FTS5 = "There is no index of words (SQLite without FTS5, or a damaged one): a slow search."


@dataclass(frozen=True, slots=True)
class Found:
    """What a search came to: the best `hits`, how many there were, what should be known of it."""

    hits: list[Hit]
    total: int
    notes: tuple[str, ...] = ()


def search_threads(
    db_path: Path,
    phrases: Sequence[Phrase],
    *,
    thread: str | None = None,
    limit: int = 20,
    key: str = "",
) -> Found:
    """The texts that have all `phrases`, the best first, of all threads or of one.

    A thread that the index does not hold as it stands now (an older version wrote it, its turn was
    killed, it was turned back) is taken in first; one that cannot be, because another agent works
    on it or the file cannot be written, is looked through. In a file that is encrypted, by `key`,
    there is no index, and all threads are looked through.

    Raises ThreadError for a `thread` that does not exist, StorageError for a file that cannot be
    read.
    """
    missing, index = _missing(db_path, thread, key)
    if index and missing:
        missing = _take_in(db_path, missing)
    with reading(db_path, key) as conn:
        if conn is None:
            return Found([], 0)
        hits: list[Hit] = []
        total, used = 0, True
        if index and "agent_texts" in tables_of(conn):
            hits, total, used = find(conn, phrases, limit, thread, missing)
        notes = [] if used else [NO_FTS5]
        others = look_through(_texts(conn, missing, notes), phrases)
    both = sorted([*hits, *others], key=lambda hit: hit.rank)
    return Found(both[:limit], total + len(others), tuple(notes))


def _missing(db_path: Path, thread: str | None, key: str) -> tuple[list[str], bool]:
    """The threads that are searched and not in the index as they stand; whether there is one."""
    with reading(db_path, key) as conn:
        if thread is not None:
            check_known(conn, thread)
        if conn is None or "checkpoints" not in tables_of(conn):
            return [], True
        index = not key and conn.cipher is None
        threads = stored_threads(conn) if thread is None else [thread]
        return (behind(conn, threads) if index else threads), index


def _take_in(db_path: Path, threads: Iterable[str]) -> list[str]:
    """Bring the index up to date with `threads`; gives those that could not be taken in."""
    left: list[str] = []
    try:
        with closing(open_plain(db_path, BUSY_TIMEOUT)) as conn:
            for thread in threads:
                try:
                    with thread_lock(db_path, thread):
                        transact(conn, partial(_sync, thread=thread))
                except (AgentError, sqlite3.Error, *DAMAGE):
                    left.append(thread)
    except AgentError:
        return list(threads)
    return left


def _sync(conn: sqlite3.Connection, thread: str) -> None:
    plain = plain_of(conn)
    verify(conn, thread, lambda stored: plain(*stored) or {})  # what is lost stays in the index
    sync(conn, thread, plain_messages(conn, thread, plain))


def _texts(conn: sqlite3.Connection, threads: Iterable[str], notes: list[str]) -> Iterator[Hit]:
    """The texts of all `threads`; one that cannot be read is left out, and `notes` say so."""
    for thread in threads:
        try:
            texts = list(as_hits(conn, thread, plain_messages(conn, thread, plain_of(conn))))
        except (sqlite3.Error, *DAMAGE) as exc:
            if not is_damage(exc):
                raise
            notes.append(f"Thread '{thread}' cannot be read; it was left out.")
            continue
        yield from texts
