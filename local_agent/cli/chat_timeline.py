"""The chat's commands that turn the thread back, copy it, correct it and look into it."""

from __future__ import annotations

from contextlib import nullcontext

from local_agent.app import App
from local_agent.cli.reply import Reply
from local_agent.cli.threads import local_time
from local_agent.cli.timeline_text import branch_lines, field_lines, stands_line, turn_lines
from local_agent.config import check_thread_name
from local_agent.errors import ThreadError, UsageError
from local_agent.lock import thread_lock
from local_agent.memory.heads import config_of
from local_agent.session import Session
from local_agent.timeline import Moved, Timeline
from local_agent.timeline.edits import edit_result, result_of
from local_agent.ui.editor import edited
from local_agent.ui.lines import call_line, one_line
from local_agent.ui.sanitize import visible

LISTED = 30  # turns that /rewind shows; the whole list scrolls the newest off the screen
TO_BRANCH = "/rewind --branch"


def _timeline(app: App, session: Session) -> Timeline:
    return Timeline(app.graph, app.memory, session.thread)


async def rewind(app: App, session: Session, arg: str) -> Reply:
    """`/rewind`, `/rewind all`, `/rewind N`, `/rewind --branch ID`."""
    timeline = _timeline(app, session)
    word, _, rest = arg.partition(" ")
    if word == "--branch":
        if not rest.strip():
            raise UsageError("/rewind --branch needs an ID.", "/rewind lists the branches.")
        return _moved(session, await timeline.go_to(rest.strip()))
    if arg in ("", "all"):
        return Reply(await _listed(timeline, whole=arg == "all"))
    if not arg.isdecimal():
        raise UsageError(f"/rewind takes the number of a turn, not '{arg}'.", "/rewind lists them.")
    return _moved(session, await timeline.rewind(int(arg)))


async def _listed(timeline: Timeline, *, whole: bool) -> str:
    turns = await timeline.turns()
    if not turns:
        lines = ["There is no turn to go back to."]
    else:
        shown = turns if whole else turns[-LISTED:]
        lines = turn_lines(shown)
        if len(shown) < len(turns):
            lines.append(f"and {len(turns) - len(shown)} earlier; /rewind all lists them too.")
        lines.append("/rewind N goes to before turn N.")
    if branches := await timeline.branches():
        lines += ["Branches:", *branch_lines(branches), f"{TO_BRANCH} ID goes there."]
    return "\n".join(lines)


async def undo(app: App, session: Session, arg: str) -> Reply:
    """`/undo`."""
    moved = await _timeline(app, session).undo()
    text = f"Turn {moved.turns + 1} is taken back; /redo brings it back until you say something."
    return Reply(text, draft=moved.draft)


async def redo(app: App, session: Session, arg: str) -> Reply:
    """`/redo`."""
    moved = await _timeline(app, session).redo()
    return Reply(_stands(session, moved), draft=moved.draft, look=moved.is_open)


def _moved(session: Session, moved: Moved) -> Reply:
    return Reply(_stands(session, moved), draft=moved.draft, look=moved.is_open)


def _stands(session: Session, moved: Moved) -> str:
    kept = f" What was left is kept: {TO_BRANCH} {moved.branch}" if moved.branch else ""
    return f"{stands_line(moved, session.thread)}{kept}"


async def fork(app: App, session: Session, arg: str) -> Reply:
    """`/fork NEW [TURN]`."""
    name, _, last = arg.rpartition(" ")
    at = int(last) if name.strip() and last.isdecimal() else None
    new = arg if at is None else name.strip()
    check_thread_name(new, "/fork")
    if new == session.thread:
        raise ThreadError(f"There is a thread '{new}' already.", "Choose another name.")
    with nullcontext() if app.settings.ephemeral else thread_lock(app.settings.db, new):
        forked = await _timeline(app, session).fork(new, at)
    text = f"Copied {forked.turns} turn{'' if forked.turns == 1 else 's'} into '{new}'."
    if forked.left_out:
        text += f" The turn that is not finished stays with '{session.thread}' alone."
    return Reply(visible(text, newlines=False), thread=new, draft=forked.left_out)


async def edit(app: App, session: Session, arg: str) -> Reply:
    """`/edit r7`."""
    arg = arg.lower()
    if app.settings.ephemeral:
        raise UsageError("/edit needs a file for the editor, and this run writes none.")
    timeline = _timeline(app, session)
    message = await result_of(timeline, arg)
    text = await edited(str(message.text))
    if text is None:
        return Reply("Nothing was changed.")
    moved = await edit_result(timeline, arg, text)
    line = f"{arg} is corrected; what follows it runs again."
    if moved.branch:
        line += f" The course before is kept: {TO_BRANCH} {moved.branch}"
    return Reply(line, turn=session.proceed())


async def show(app: App, session: Session, arg: str) -> Reply:
    """`/show r7`."""
    message = await result_of(_timeline(app, session), arg.lower())
    return Reply(visible(str(message.text)) or "(empty)")


async def state(app: App, session: Session, arg: str) -> Reply:
    """`/state`."""
    found = await app.graph.aget_state(config_of(session.thread))
    if not found.config["configurable"].get("checkpoint_id"):
        return Reply("Nothing is stored yet.")
    head = found.config["configurable"]["checkpoint_id"]
    turns = await _timeline(app, session).turns()
    fields = {name: value for name, value in found.values.items() if name != "messages"}
    lines = [
        f"thread: {one_line(session.thread)}, turn {len(turns)}",
        f"messages: {len(found.values.get('messages', []))}",
        *field_lines(fields),
        f"checkpoint: {one_line(head)}",
        f"next: {one_line(', '.join(found.next)) or 'your prompt'}",
    ]
    if found.created_at and turns and turns[-1].time:
        lines.insert(1, f"last turn: {local_time(turns[-1].time)}")
    pending = await session.pending()
    for call in pending.calls if pending else ():
        lines.append(f"waits for approval: {call_line(call.name, call.args)[2:]}")
    return Reply("\n".join(lines))
