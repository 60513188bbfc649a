"""What can be wrong with a database file, found before it is opened or told from an exception."""

from __future__ import annotations

import errno
import itertools
import os
import shlex
import sqlite3
import sys
from contextlib import suppress
from pathlib import Path

from local_agent.errors import StorageError
from local_agent.memory.tables import VERSION

MAGIC = b"SQLite format 3\0"
OLDEST_SQLITE = (3, 35, 0)  # before 3.32 a statement takes 999 variables; a long thread needs more
_USER_VERSION, _APPLICATION_ID = slice(60, 64), slice(68, 72)  # www.sqlite.org/fileformat2.html
_WAL_MAGIC = (0x377F0682, 0x377F0683)


class Unreadable(StorageError):
    """A stored value cannot be read; whoever knows which thread it is of says so."""

    def of(self, thread: str) -> StorageError:
        """The same as an error of that thread alone."""
        why = self.message.rstrip(".")
        why = why[0].lower() + why[1:]
        return StorageError(
            f"The thread '{thread}' cannot be read: {why}.",
            "The other threads can: take another with --thread.",
        )


def _move_away(path: Path | str) -> str:
    """What to do with a file that cannot be used: the command that keeps it under a free name."""
    names = itertools.chain([".damaged"], (f".damaged{n}" for n in itertools.count(2)))
    free = next(f"{path}{name}" for name in names if not Path(f"{path}{name}").exists())
    if sys.platform == "win32":
        command = f'ren "{path}" "{Path(free).name}"'
    else:
        command = f"mv {shlex.quote(str(path))} {shlex.quote(free)}"
    also = " (and -wal, -shm beside it)" if Path(f"{path}-wal").exists() else ""
    return f"Move it away to start anew{also}: {command}; or restore a copy of it."


def not_a_database(path: Path) -> StorageError:
    return StorageError(f"{path} is not a database of this program.", _move_away(path))


def damaged(path: Path | str, detail: str = "") -> StorageError:
    more = f" ({detail})" if detail else ""
    return StorageError(f"The database {path} is damaged{more}.", _move_away(path))


def too_new(path: Path, version: int) -> StorageError:
    return StorageError(
        f"{path} was written by a newer version of this program "
        f"(its tables have version {version}, this program knows {VERSION}).",
        "Update the program, or use another file with --db.",
    )


def check_file(path: Path) -> None:
    """Raise StorageError where `path` must not be opened. Only reads; a missing file is fine."""
    try:
        if path.is_dir():
            raise StorageError(f"{path} is a folder, not a database.", "Name a file with --db.")
        if not path.exists():
            return
        with path.open("rb") as file:
            header = file.read(100)
    except OSError as exc:
        raise _of_os(exc, path) from exc
    if not header:
        return
    if len(header) < 100 or header[:16] != MAGIC:
        raise not_a_database(path)
    version = int.from_bytes(header[_USER_VERSION], "big")
    if version > VERSION:
        raise too_new(path, version)
    _check_wal(path, header)
    _check_size(path, header)


def _check_size(path: Path, header: bytes) -> None:
    """Refuse a file that was cut short: SQLite would read zeros for what is missing of a page.

    The header's count of pages is true while two counters beside it are the same. With a log, the
    pages may still stand there.
    """
    if header[24:28] != header[92:96] or _has_content(path.with_name(path.name + "-wal")):
        return
    size = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big")
    try:
        there = path.stat().st_size  # looked at last: it may grow
    except OSError as exc:
        raise _of_os(exc, path) from exc
    if there < pages * (65536 if size == 1 else size):
        raise damaged(path, "it was cut short")


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def _check_wal(path: Path, header: bytes) -> None:
    """Refuse a write-ahead log that another database left here.

    SQLite would play it over this one. Each of our files has a number of its own in the header's
    application id, which the log repeats wherever it holds the first page.
    """
    wal = path.with_name(path.name + "-wal")
    try:
        found = _id_in_wal(wal, int.from_bytes(header[16:18], "big"))
    except FileNotFoundError:
        return
    except OSError as exc:
        raise _of_os(exc, wal) from exc
    own = header[_APPLICATION_ID]
    if found is None or (found and own != bytes(4) and found != own):
        raise StorageError(
            f"{wal} belongs to another database than {path}.",
            f"Move {wal.name} away and start again.",
        )


def _id_in_wal(wal: Path, page_size: int) -> bytes | None:
    """The application id in the log's newest first page, b"" without one.

    None: its pages have another size than those of the database.
    """
    found = b""
    with wal.open("rb") as file:
        head = file.read(32)
        if len(head) < 32 or int.from_bytes(head[:4], "big") not in _WAL_MAGIC:
            return found  # empty or half written: SQLite passes over it
        size = int.from_bytes(head[8:12], "big")
        if size != (65536 if page_size == 1 else page_size):
            return None
        salt = head[16:24]
        while len(frame := file.read(24)) == 24 and frame[8:16] == salt:
            if frame[:4] == b"\0\0\0\1":
                page = file.read(size)
                if len(page) == size:
                    found = page[_APPLICATION_ID]
            else:
                file.seek(size, 1)
    return found


def translate(exc: BaseException, path: Path | str = "memory.db") -> StorageError | None:
    """`exc` as a StorageError, or None where it does not come from the database."""
    if isinstance(exc, StorageError):
        return exc
    if isinstance(exc, sqlite3.Error):
        return _of_sqlite(exc, path)
    if isinstance(exc, ValueError) and str(exc) in ("no active connection", "Connection closed"):
        return StorageError(f"The database {path} was closed before all was saved.")
    return None


def _of_sqlite(exc: sqlite3.Error, path: Path | str) -> StorageError:
    code, text = getattr(exc, "sqlite_errorcode", 0) & 0xFF, " ".join(str(exc).split())
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or "is locked" in text:
        return StorageError(
            f"The database {path} is locked by another program; nothing was saved.",
            "End that program, or wait until it is done, and try again.",
        )
    if code == sqlite3.SQLITE_FULL:
        return StorageError(
            f"The disk is full: {path} could not be saved.", "Free some space and try again."
        )
    if code == sqlite3.SQLITE_IOERR:
        return StorageError(
            f"Reading or writing {path} failed ({text}).",
            "Check the disk, the space on it, and limits on file sizes.",
        )
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return damaged(path, text)
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return StorageError(
            f"The database {path} cannot be written ({text}).",
            "Check the rights of the file and its folder, or use another with --db.",
        )
    # The first names the column and what it holds; the second is of a text for `opened`.
    if "decode to UTF-8" in text or text.startswith("user-defined function"):
        return Unreadable(f"The database {path} holds a text that is damaged", _move_away(path))
    if "no such column" in text or "no column named" in text or "no such table" in text:
        return StorageError(
            f"The tables in {path} are not those of this program ({text}).", _move_away(path)
        )
    return StorageError(f"The database {path} failed: {text}.")


def _of_os(exc: OSError, path: Path) -> StorageError:
    if exc.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)):
        return StorageError(f"The disk is full: {path} could not be made.", "Free some space.")
    return StorageError(
        f"The database {path} cannot be used: {exc.strerror or exc}.",
        "Check the rights of its folder, or use another with --db.",
    )


def create_private(path: Path) -> None:
    """Make an empty file of mode 0600 where there is none, and its folders.

    SQLite gives -wal and -shm the mode of the file, so they are private too.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as exc:
        raise _of_os(exc, path) from exc
