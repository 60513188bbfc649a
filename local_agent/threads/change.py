"""Threads renamed and deleted: held for it, in one transaction each, the space given back."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from local_agent.errors import ThreadError
from local_agent.lock import thread_lock
from local_agent.memory import BUSY_TIMEOUT, ThreadInfo, files_dir, translate
from local_agent.memory.attachments import named_by, remove_unnamed
from local_agent.memory.change import delete, rename, size_of
from local_agent.memory.connection import open_plain, transact
from local_agent.memory.entries import note_others
from local_agent.memory.space import give_back, needs_rewriting, size_of_file
from local_agent.threads.listing import list_threads, reading
from local_agent.threads.names import check_known, is_known

REWRITTEN = "Another program made this file, so it was written anew as a whole to make it smaller."


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What came of a deletion or a pruning: `freed` are bytes of the file, `files` those beside it.

    `refused` says why others stay as they are, a line each; `notes` what else is to be known.
    """

    threads: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    files: int = 0
    freed: int = 0
    notes: tuple[str, ...] = ()


def rename_thread(db_path: Path, old: str, new: str, key: str = "") -> None:
    """Give the thread `old` the name `new`.

    What a person allowed in it is bound to its name: it is asked about anew. Raises ThreadError
    where there is no `old`, where there is a `new`, and while an agent has one of them open;
    StorageError for a file that cannot be written.
    """
    with reading(db_path) as seen:
        check_known(seen, old)
        if seen is not None:
            check_free(seen, new)
    with thread_lock(db_path, old), thread_lock(db_path, new), writing(db_path, key) as conn:
        transact(conn, lambda conn: rename_rows(conn, old, new))


def rename_rows(conn: sqlite3.Connection, old: str, new: str) -> None:
    """The same on an open database whose threads are held, inside the caller's transaction."""
    check_known(conn, old)
    check_free(conn, new)
    rename(conn, old, new)


def check_free(conn: sqlite3.Connection, name: str) -> None:
    """Raise ThreadError where there is a thread of that name."""
    if is_known(conn, name):
        raise ThreadError(f"There is a thread '{name}' already.", "Choose another name.")


def sizes_of(db_path: Path, names: Sequence[str]) -> dict[str, int]:
    """About how many bytes each of the threads takes. Raises ThreadError for one that is none."""
    with reading(db_path) as conn:
        for name in names:
            check_known(conn, name)
        return {} if conn is None else {name: size_of(conn, name) for name in names}


def unused_since(db_path: Path, moment: datetime) -> list[ThreadInfo]:
    """The threads that were used last before `moment`, the newest first."""
    return [info for info in list_threads(db_path) if info.updated < moment]


def delete_threads(
    db_path: Path,
    names: Sequence[str],
    *,
    unused: datetime | None = None,
    key: str = "",
) -> Cleaned:
    """Delete the threads with all that belongs to them, and give the space back.

    One that is open in an agent stays, and so does one that was used since `unused`. `key` is that
    of a file that is encrypted. Raises ThreadError for a name that is none, and then deletes
    nothing; StorageError for a file that cannot be written.
    """
    sizes_of(db_path, names)
    done: list[str] = []
    refused: list[str] = []
    files: set[str] = set()
    with writing(db_path, key) as conn:
        size = size_of_file(conn)
        for name in names:
            try:
                with thread_lock(db_path, name):
                    if unused is not None and not _is_unused(db_path, name, unused):
                        continue
                    named = named_by(conn, name)
                    transact(conn, partial(delete, thread=name))
                    files |= named
                    done.append(name)
            except ThreadError as exc:
                refused.append(str(exc))
        removed, notes = clean_up(conn, db_path, files)
        freed = max(0, size - size_of_file(conn))
    return Cleaned(tuple(done), tuple(refused), removed, freed, notes)


def _is_unused(db_path: Path, name: str, moment: datetime) -> bool:
    return any(info.thread == name for info in unused_since(db_path, moment))


def clean_up(
    conn: sqlite3.Connection, db_path: Path, files: Collection[str]
) -> tuple[int, tuple[str, ...]]:
    """Remove those of `files` that nothing names any more, and give the space of the file back.

    Gives how many files went, and what is to be said. Raises nothing for space that cannot be
    given back now: what was to go is gone, and the next time does it.
    """
    removed = remove_unnamed(conn, files_dir(db_path), files)
    rewritten = needs_rewriting(conn)
    try:
        give_back(conn)
        transact(conn, note_others)  # the rows may have new numbers
    except sqlite3.Error as exc:
        why = translate(exc, db_path) or exc
        return removed, (f"The space in the file could not be given back now: {why}",)
    return removed, (REWRITTEN,) if rewritten else ()


@contextmanager
def writing(db_path: Path, key: str = "") -> Iterator[sqlite3.Connection]:
    """A connection that may change the file. Raises StorageError."""
    try:
        with closing(open_plain(db_path, BUSY_TIMEOUT, key)) as conn:
            yield conn
    except sqlite3.Error as exc:
        raise translate(exc, db_path) or exc from exc
