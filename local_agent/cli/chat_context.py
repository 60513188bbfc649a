"""The chat's commands over what the model sees: the ledger, compaction, the summary, pins."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agent_core import compaction
from agent_core.ledger import Entry
from context import PromptTooLong
from local_agent.app import App
from local_agent.cli.chat_tools import offered
from local_agent.cli.reply import Reply
from local_agent.cli.timeline_text import summary_lines
from local_agent.errors import ThreadError, UsageError
from local_agent.session import Session
from local_agent.ui.editor import edited
from local_agent.ui.lines import one_line
from local_agent.ui.sanitize import visible

PURGE = "--purge"
YES = "--yes"
OFF = "off"
STILL = "The way back (/rewind) and whole exports still have them until /prune 0."
_HANDLE = re.compile(r"r[0-9]+")
_KINDS = {"stub": "as stubs", "clipped": "clipped", "cut": "cut"}


# -- /context -------------------------------------------------------------------------------------


async def context(app: App, session: Session, arg: str) -> Reply:
    """`/context`: what the next prompt would hold, and what became of the last one."""
    values = await session.values()
    if not values.get("messages"):
        return Reply("Nothing was said yet, so there is nothing in the prompt.")
    try:
        request = app.maintainer.composer.compose(values, offered(app, values))
    except PromptTooLong as exc:
        raise ThreadError(f"The prompt does not fit: {exc}.", "/compact makes it shorter.") from exc
    now = app.ledger.preview(session.thread, request, app.window)
    lines = [*_parts(now, app.window.size), *_shortened(now)]
    last = app.ledger.last(session.thread)
    lines += [*(_last(last) if last else []), *_changes(*app.ledger.changes(session.thread))]
    return Reply("\n".join(map(visible, lines)))


def _parts(entry: Entry, size: int) -> list[str]:
    """The parts of a request with their tokens, and what is free."""
    tools = ", ".join(f"{one_line(name)} {tokens:,}" for name, tokens in entry.tools.items())
    rows = [
        ("system", entry.system, ""),
        ("tools", sum(entry.tools.values()), tools),
        ("summary", entry.summary, ""),
        ("history", entry.history, ""),
        ("last turn", entry.turn, ""),
        ("reply", entry.reply_reserve, "kept free for it"),
        ("free", max(size - entry.total - entry.reply_reserve, 0), ""),
    ]
    head = f"{size:,} tokens"
    if size != entry.context_length:
        head += f" of the {entry.context_length:,} that are loaded (max_tokens)"
    parts = [f"  {name:<10} {tokens:>7,}  {more}".rstrip() for name, tokens, more in rows]
    return [f"The next prompt, in {head}, by estimate:", *parts]


def _shortened(entry: Entry) -> list[str]:
    """Which results and other messages are not whole, by what they are shown as."""
    lines = []
    for kind, how in _KINDS.items():
        names = [name for name, is_so in entry.shortened.items() if is_so == kind]
        results = [name for name in names if _HANDLE.fullmatch(name)]
        more = len(names) - len(results)  # prompts and answers, which have ids alone
        shown = [*results, *([f"{more} other message{'s' * (more > 1)}"] if more else [])]
        if shown:
            where = " /show has results whole." if results else ""
            lines.append(f"Shown {how}: {', '.join(shown)}.{where}")
    return lines


def _last(entry: Entry) -> list[str]:
    """What the last request had in common with the one before, and what the server said."""
    share = 100 * entry.unchanged // max(entry.total, 1)
    lines = [f"Last prompt: {entry.unchanged:,} of {entry.total:,} tokens ({share} %) as before."]
    if entry.changed_by:
        lines[0] += f" What ended that: {entry.changed_by}."
    if entry.between:
        lines.append(f"The server read in between: {', '.join(map(one_line, entry.between))}.")
    if entry.read is not None:
        cached = "" if entry.cached is None else f" and had {entry.cached:,}"
        lines.append(f"The server says it read {entry.read:,} tokens{cached}.")
    elif entry.input_tokens is not None:
        lines.append(f"The server counted {entry.input_tokens:,} tokens.")
    return lines


def _changes(times: int, tokens: int) -> list[str]:
    """What it cost that other tools came into the prompt."""
    if not times:
        return []
    often = "once" if times == 1 else f"{times} times"
    return [f"The tools changed {often}; {tokens:,} tokens were read anew for it."]


# -- /compact -------------------------------------------------------------------------------------


async def compact(app: App, session: Session, arg: str) -> Reply:
    """`/compact`, `/compact preview`, `/compact undo`, `/compact --purge [--yes]`."""
    values = await _settled(session)
    match arg.split():
        case []:
            return await _compact_now(app, session, values)
        case ["preview"]:
            return Reply(_preview(app, values))
        case ["undo"]:
            update = compaction.undo(values)
            if update is None:
                raise ThreadError("There is no compaction to take back.")
            await session.update(update)
            return Reply("The last compaction is taken back; it comes again when the room is used.")
        case ["--purge", *more] if more in ([], [YES]):
            return await _purge(session, values, is_sure=bool(more))
    raise UsageError(f"/compact knows preview, undo and {PURGE}, not '{one_line(arg)}'.")


async def _compact_now(app: App, session: Session, values: Mapping[str, Any]) -> Reply:
    tools, said = offered(app, values), list[str]()
    before = app.maintainer.composer.measure(values, tools)[0]
    await app.model.connect()
    outcome = await app.maintainer.maintain(
        values, tools, thread=session.thread, before=tools, say=said.append, by_hand=True
    )
    if not outcome.update:
        return Reply("There is nothing to shorten.")
    await session.update(outcome.update)
    after = app.maintainer.composer.measure({**values, **outcome.update}, tools)[0]
    done = f"The messages take {after:,} tokens instead of {before:,}. /compact undo takes it back."
    return Reply("\n".join(filter(None, [outcome.notice, done])))


def _preview(app: App, values: Mapping[str, Any]) -> str:
    found = compaction.preview(values, offered(app, values), app.maintainer.composer)
    if not found.stubs and not found.turns:
        return "There is nothing to shorten."
    parts = []
    if found.stubs:
        parts.append(f"{', '.join(map(one_line, found.stubs))} as stubs")
    if found.turns:
        parts.append(f"{found.turns} turn{'' if found.turns == 1 else 's'} folded")
    what = " and ".join(parts)
    sizes = f"{found.before:,} tokens of messages become {found.after:,}"
    return f"/compact would show {what}: {sizes}, {found.saved:,} less. Nothing was changed."


async def _purge(session: Session, values: Mapping[str, Any], *, is_sure: bool) -> Reply:
    found = compaction.purge(values)
    if found is None:
        raise ThreadError("No turn is folded, so there is nothing to remove.", "See: /compact")
    what = (
        f"{found.messages} messages of {found.turns} turns, with {found.results} tool results, "
        "which only the summary stands for"
    )
    if not is_sure:
        command = f"/compact {PURGE} {YES}"
        return Reply(f"{command} removes {what}. There is no undo. {STILL}", draft=command)
    await session.update(found.update)
    return Reply(f"Removed: {what}. {STILL}")


# -- /summary and /pin ----------------------------------------------------------------------------


async def summary(app: App, session: Session, arg: str) -> Reply:
    """`/summary` shows the summary and the facts beside it, `/summary edit` changes it."""
    if arg == "edit":
        if app.settings.ephemeral:
            raise UsageError("The editor needs a file, and this run writes none.")
        values = await _settled(session)
        text = await edited(str(values.get("summary", "")))
        if text is None:
            return Reply("Nothing was changed.")
        await session.update(compaction.with_summary(values, text))
        return Reply("The summary is changed. /compact undo takes it back.")
    if arg:
        raise UsageError(f"/summary shows it and /summary edit changes it; not '{one_line(arg)}'.")
    return Reply("\n".join(summary_lines(await session.values())))


async def pin(app: App, session: Session, arg: str) -> Reply:
    """`/pin` lists the pinned results, `/pin r7` keeps one whole, `/pin r7 off` ends that."""
    values = await _settled(session)
    handle, _, more = arg.lower().partition(" ")
    if not handle:
        pinned = ", ".join(map(one_line, values.get("pinned", ())))
        return Reply(f"Kept whole: {pinned}." if pinned else "No result is pinned.")
    if more.strip() not in ("", OFF):
        raise UsageError(f"/pin {one_line(handle)} takes {OFF} or nothing after it.")
    if more:
        update, done = compaction.unpin(values, handle), "may be shortened again"
        why = f"{one_line(handle)} is not pinned."
    else:
        update, done = compaction.pin(values, handle), "is kept whole"
        why = f"There is no result {one_line(handle)}."
    if update is None:
        raise ThreadError(why, "/pin lists what is pinned; results are named r1, r2 and so on.")
    await session.update(update)
    return Reply(f"{one_line(handle)} {done}.")


# -- shared ---------------------------------------------------------------------------------------


async def _settled(session: Session) -> Mapping[str, Any]:
    """The state, between two turns. Raises `ThreadError` in the middle of one."""
    if await session.is_unfinished() or await session.pending():
        raise ThreadError("The last turn is not finished.", "Finish it first: send a prompt.")
    values = await session.values()
    if not values.get("messages"):
        raise ThreadError("Nothing was said yet.")
    return values
