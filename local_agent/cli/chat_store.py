"""The commands of the chat over stored threads: search, rename, delete, prune."""

from __future__ import annotations

import asyncio
import os
from contextlib import nullcontext

from local_agent.app import App
from local_agent.cli.reply import Reply
from local_agent.cli.threads_search import found_lines, notes_on, phrases_of
from local_agent.cli.threads_store import done_text, plan_text, renamed_line, size_text
from local_agent.config import check_thread_name
from local_agent.errors import ThreadError, UsageError
from local_agent.lock import thread_lock
from local_agent.memory.prune import plan_of
from local_agent.memory.space import size_of_file
from local_agent.session import Session
from local_agent.threads.change import (
    Cleaned,
    check_free,
    clean_up,
    delete_threads,
    rename_rows,
    sizes_of,
    writing,
)
from local_agent.threads.names import is_known
from local_agent.threads.prune import KEEP, prune_open
from local_agent.threads.search import Found, search_threads
from local_agent.ui.keyboard import message_stream
from local_agent.ui.lines import one_line
from local_agent.ui.marks import marks_for
from local_agent.ui.sanitize import visible

FOUND = 10  # results that /search shows; more scroll the best off the screen
YES = "--yes"


async def search(app: App, session: Session, query: str) -> Reply:
    """`/search QUERY`: words and "phrases" in all threads."""
    phrases = phrases_of(query)
    if app.settings.ephemeral:
        assert app.memory.index is not None
        found = Found(*await app.memory.index.find(phrases, FOUND))
    else:
        found = await asyncio.to_thread(
            search_threads,
            app.settings.db,
            phrases,
            limit=FOUND,
            key=app.settings.memory.key,
        )
    marks = marks_for(message_stream(), os.environ)
    more = "agent threads search shows more."
    return Reply(
        "\n".join([*found_lines(found.hits, phrases, marks), *notes_on(query, found, more)])
    )


async def rename(app: App, session: Session, new: str) -> Reply:
    """`/rename NEW`: give this thread another name, and go on in it."""
    check_thread_name(new, "/rename")
    old, memory = session.thread, app.memory
    if not await memory.statements.look(lambda conn: is_known(conn, old)):
        raise ThreadError("Nothing is saved in this thread yet.", "/new NAME starts one.")
    await memory.statements.look(lambda conn: check_free(conn, new))
    held = nullcontext() if app.settings.ephemeral else thread_lock(app.settings.db, new)
    with held:
        await memory.statements.change(lambda conn: rename_rows(conn, old, new))
    return Reply(renamed_line(old, new), thread=new)


async def delete(app: App, session: Session, arg: str) -> Reply:
    """`/delete NAME`: say what would go; `/delete NAME --yes` does it."""
    name = arg.removesuffix(YES).strip()
    _check_on_disk(app)
    if name == session.thread:
        raise ThreadError("This thread is open here.", "/new starts another; then delete this one.")
    size = (await asyncio.to_thread(sizes_of, app.settings.db, [name]))[name]
    if name == arg:
        text = f"'{one_line(name)}' takes about {size_text(size)}. /delete {one_line(name)} {YES}"
        return Reply(f"{text} deletes it.", draft=f"/delete {name} {YES}")
    key = app.settings.memory.key
    done = await asyncio.to_thread(delete_threads, app.settings.db, [name], key=key)
    if done.refused:
        raise ThreadError(done.refused[0])
    return Reply(_text(done, "deleted"))


async def prune(app: App, session: Session, arg: str) -> Reply:
    """`/prune`, `/prune N`: drop branches and the way back to all but the last N turns."""
    _check_on_disk(app)
    if arg and not arg.isdecimal():
        raise UsageError(f"/prune takes a number of turns, not '{visible(arg)}'.")
    thread, keep, path = session.thread, int(arg or KEEP), app.settings.db
    plan = await app.memory.statements.look(lambda conn: plan_of(conn, thread, keep))
    if plan is None or plan.is_empty:
        return Reply("There is nothing to prune.")
    size = await app.memory.statements.look(size_of_file)
    files = await prune_open(app.memory, thread, keep)

    def give_back() -> Cleaned:
        with writing(path, app.settings.memory.key) as conn:
            removed, notes = clean_up(conn, path, files)
            return Cleaned((thread,), (), removed, max(0, size - size_of_file(conn)), notes)

    done = await asyncio.to_thread(give_back)
    return Reply(f"{plan_text(plan)}.\n{_text(done, 'pruned')}")


def _text(done: Cleaned, what: str) -> str:
    return "\n".join(visible(line) for line in (done_text(done, what), *done.notes))


def _check_on_disk(app: App) -> None:
    if app.settings.ephemeral:
        raise ThreadError("This conversation is not on the disk.", "It ends with the program.")
