"""Threads out of the database file and into it: read without a change, put in all or none."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from local_agent.errors import ThreadError, TransferError
from local_agent.lock import thread_lock
from local_agent.memory import Memory, open_memory
from local_agent.memory.entries import tables_of
from local_agent.memory.sealed import serializer
from local_agent.threads.listing import reading
from local_agent.transfer.collect import collect
from local_agent.transfer.document import Document
from local_agent.transfer.read import Found
from local_agent.transfer.rows import rows_of


def read_thread(db: Path, thread: str, key: str = "") -> Document:
    """The thread as a document. The file is not changed, and only this thread is read.

    Raises ThreadError where there is none of that name, StorageError for what cannot be read.
    """
    with reading(db, key) as conn:
        if conn is None or "checkpoints" not in tables_of(conn):  # killed while it was made
            raise ThreadError(f"There is no thread '{thread}'.", "No thread is saved yet.")
        return collect(conn, thread, serializer(db, conn.cipher).loads_typed)


async def bring_in(
    db: Path, found: Sequence[Found], name: str | None, key: str = ""
) -> list[Document]:
    """Put the threads of a file into the database, under `name` if that is given; all or none.

    Raises ThreadError where there is a thread of that name, or another agent is about to make one.
    """
    async with open_memory(db, key=key) as memory:
        return await put_in(memory, found, name)


async def put_in(memory: Memory, found: Sequence[Found], name: str | None) -> list[Document]:
    """The same in an open database."""
    documents = _named([one.document for one in found], name)
    # Looked at before the locks: one of them may be this very process's own thread.
    if (taken := await memory.threads.taken([one.name for one in documents])) is not None:
        raise taken_name(taken)
    with ExitStack() as stack:
        for document in documents:
            if memory.path is not None:
                stack.enter_context(thread_lock(memory.path, document.name))
        serde = memory.saver.serde
        rows = [(document.name, rows_of(document, serde)) for document in documents]
        if (taken := await memory.threads.put(rows)) is not None:
            raise taken_name(taken)
    return documents


async def read_open(memory: Memory, thread: str) -> Document:
    """The thread of an open database as a document; raises as `read_thread`."""
    loads = memory.saver.serde.loads_typed
    return await memory.statements.look(lambda conn: collect(conn, thread, loads))


def taken_name(name: str) -> ThreadError:
    """The error that says that there is such a thread."""
    return ThreadError(
        f"There is a thread '{name}' already; nothing was imported.",
        "Give another name: agent threads import FILE --thread NAME",
    )


def _named(documents: list[Document], name: str | None) -> list[Document]:
    if name is not None and len(documents) == 1:
        documents = [replace(documents[0], name=name)]
    elif name is not None:
        documents = [replace(one, name=f"{name} {n}") for n, one in enumerate(documents, 1)]
    twice = {one.name for one in documents if sum(x.name == one.name for x in documents) > 1}
    if twice:
        raise TransferError(f"It holds two threads of the name '{min(twice)}'.")
    return documents
