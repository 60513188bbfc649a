"""Storage: `open_memory()` gives the checkpointer and our own tables, in one SQLite file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from local_agent.errors import StorageError
from local_agent.memory.backup import Say, log
from local_agent.memory.faults import check_file, translate
from local_agent.memory.tables import Run, ThreadInfo

if TYPE_CHECKING:
    from local_agent.memory.connection import Statements
    from local_agent.memory.heads import Heads
    from local_agent.memory.records import Index, Journal, Threads
    from local_agent.memory.saver import Saver

BUSY_TIMEOUT = 15.0  # seconds that a statement waits while another process writes

__all__ = [
    "BUSY_TIMEOUT",
    "Memory",
    "Run",
    "ThreadInfo",
    "check_file",
    "files_dir",
    "open_memory",
    "translate",
]


@dataclass(frozen=True, slots=True)
class Memory:
    """An open database. `path` and `files_dir` are None when it is held in memory only.

    `files_dir` is where files beside the database go; it is not made before one is written.
    `index` is None where texts must not be kept in the clear; `statements` is for changes that
    touch several tables at once.
    """

    saver: Saver
    journal: Journal
    threads: Threads
    heads: Heads
    index: Index | None
    path: Path | None
    files_dir: Path | None
    statements: Statements

    def translate(self, exc: BaseException) -> StorageError | None:
        """`exc` as a StorageError that names this file, None if it has another cause."""
        return translate(exc, self.path or ":memory:")


def files_dir(path: Path) -> Path:
    """The folder beside the database `path` for what is no row: `memory.db.files`."""
    real = path.resolve()
    return real.with_name(real.name + ".files")


@asynccontextmanager
async def open_memory(
    path: Path,
    *,
    ephemeral: bool = False,
    busy_timeout: float = BUSY_TIMEOUT,
    key: str = "",
    say: Say = log,
) -> AsyncIterator[Memory]:
    """Open the database at `path`, or one in memory that leaves nothing; closed at the end.

    A missing or empty file becomes a new database of mode 0600. One that another program wrote is
    copied before it is changed, and `say` gets a line about that. Raises StorageError for a file
    that cannot be used, which is then left as it was: no database, damaged, of a newer version,
    locked for longer than `busy_timeout` seconds, beside a log of another database, encrypted with
    another key than `key`.

    With a `key` what is written to a file from now on is encrypted; what was written before stays
    as it is, and is read as before. The index of words would hold all texts in the clear: none is
    written then, one that is there is emptied, and a search has to go through the threads.
    """
    # Imported here, because `agent threads list` must not wait for LangGraph.
    from local_agent.memory.connection import Statements, connect
    from local_agent.memory.crypt import plain_of
    from local_agent.memory.heads import Heads
    from local_agent.memory.index import empty
    from local_agent.memory.records import Index, Journal, Threads
    from local_agent.memory.saver import Saver

    real = None if ephemeral else path.resolve()
    statements = Statements(await connect(real, busy_timeout, key, say), real)
    try:
        saver = Saver(statements)
        await statements.finish(saver.setup())
        if statements.cipher is not None:
            await statements.change(empty)
        yield Memory(
            saver=saver,
            journal=Journal(statements),
            threads=Threads(statements, saver),
            heads=Heads(statements, saver, plain_of(statements.conn.opened)),
            index=None if statements.cipher else Index(statements),
            path=real,
            files_dir=None if real is None else files_dir(real),
            statements=statements,
        )
    finally:
        await statements.close()
