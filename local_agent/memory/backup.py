"""A copy of a database that another program wrote, made before anything in it is changed."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

from local_agent.errors import StorageError
from local_agent.memory.faults import translate

Say = Callable[[str], None]
_HAS = "SELECT name FROM sqlite_master WHERE type = 'table'"


def log(line: str) -> None:
    """Say a line where nobody was named to say it to: on the error output, as Python does."""
    logging.getLogger(__name__).warning(line)


def back_up_foreign(conn: sqlite3.Connection, path: Path, say: Say = log) -> None:
    """Copy the open database at `path` where another program wrote it and we never changed it.

    The copy lies beside it, with the time when the file was last written in its name, and mode
    0600; `say` gets a line about it. One that is there already is not made again. Raises
    StorageError where it cannot be made; the file is as it was then.
    """
    tables = {name for (name,) in conn.execute(_HAS)}
    if "checkpoints" not in tables or "agent_threads" in tables:
        return
    if conn.execute("SELECT 1 FROM checkpoints LIMIT 1").fetchone() is None:
        return
    written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    copy = path.with_name(f"{path.name}.backup-{written:%Y%m%d-%H%M%S}")
    if copy.exists():
        return
    part = copy.with_name(f"{copy.name}.part{os.getpid()}")
    try:
        _copy(conn, part)
        part.replace(copy)
    except (OSError, sqlite3.Error) as exc:
        raise _failed(exc, path, copy) from exc
    finally:
        for left in (part, part.with_name(part.name + "-journal")):
            with suppress(OSError):
                left.unlink()
    say(f"{path} is another program's; a copy of it as it was is now in {copy.name} beside it.")


def _copy(conn: sqlite3.Connection, part: Path) -> None:
    """Copy the database into the new file `part`, on disk when this returns."""
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    with closing(sqlite3.connect(part)) as target:
        target.execute("PRAGMA synchronous=FULL")
        conn.backup(target)


def _failed(exc: OSError | sqlite3.Error, path: Path, copy: Path) -> StorageError:
    why = exc.strerror if isinstance(exc, OSError) else None
    if isinstance(exc, sqlite3.Error) and (known := translate(exc, copy)) is not None:
        why = known.message.rstrip(".")
    return StorageError(
        f"{path} is another program's and was not changed: no copy of it could be made ({why}).",
        "Make room for a copy in its folder, or copy it elsewhere and name that with --db.",
    )
