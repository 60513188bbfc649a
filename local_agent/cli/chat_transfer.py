"""`/export` and `/import` in the chat."""

from __future__ import annotations

import re
from pathlib import Path

from local_agent.app import App
from local_agent.cli.reply import Reply
from local_agent.errors import TransferError
from local_agent.session import Session
from local_agent.ui.sanitize import visible


async def export(app: App, session: Session, arg: str) -> Reply:
    """Write the thread to a file: JSON where its name ends so, else Markdown."""
    from local_agent.transfer.database import read_open
    from local_agent.transfer.files import write_file
    from local_agent.transfer.out import Wish, take_out

    if not await session.messages():
        raise TransferError(f"Thread '{session.thread}' has nothing to export yet.")
    path = Path(arg or _file_name(session.thread)).expanduser()
    wish = Wish("json" if path.suffix.lower() == ".json" else "md")
    files = app.memory.files_dir
    taken = take_out(
        await read_open(app.memory, session.thread), wish, visible, files=str(files or "")
    )
    write_file(path, taken.text, hint="Name another file: /export FILE")
    rows = [f"Written to {path}.", *taken.notes]
    return Reply("\n".join(visible(row, newlines=False) for row in rows))


async def import_(app: App, session: Session, arg: str) -> Reply:
    """Make a thread of a file, and go to it."""
    from local_agent.transfer.database import put_in
    from local_agent.transfer.files import read_file
    from local_agent.transfer.read import documents_in

    path = Path(arg).expanduser()
    try:
        found = documents_in(read_file(str(path)), path.stem)
    except TransferError as exc:
        raise TransferError(f"{path} cannot be imported. {exc.message}", exc.hint) from exc
    documents = await put_in(app.memory, found, None)
    rows = [f"Thread '{one.name}': {len(one.messages)} messages imported." for one in documents]
    rows += [f"{line}." for one in found for line in one.said]
    only = documents[0].name if len(documents) == 1 else None
    return Reply("\n".join(visible(row, newlines=False) for row in rows), thread=only)


def _file_name(thread: str) -> str:
    """A name for the file of a thread that every system can have."""
    return (re.sub(r"[^\w.-]+", "-", thread).strip("-.") or "thread")[:100] + ".md"
