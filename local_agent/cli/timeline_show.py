"""What `agent threads show|rewind|fork` do, on the database alone: no model, no servers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from langchain_core.messages import AnyMessage

from local_agent.cli import timeline_text as text
from local_agent.cli.options import Place
from local_agent.errors import ThreadError
from local_agent.lock import thread_lock
from local_agent.memory import open_memory
from local_agent.memory.heads import config_of
from local_agent.timeline import Timeline
from local_agent.timeline.bare import bare_graph
from local_agent.timeline.edits import result_of
from local_agent.timeline.looking import moment, places
from local_agent.ui.sanitize import visible


@asynccontextmanager
async def open_timeline(
    place: Place, thread: str, *, hold: str | None = None
) -> AsyncIterator[Timeline]:
    """The timeline of a thread; `hold` is the thread to lock meanwhile.

    Raises `ThreadError` where there is no database, or another process has the thread to lock.
    """
    if not place.db.exists():
        raise ThreadError(f"There is no thread '{thread}'.", "See: agent threads list")
    async with AsyncExitStack() as stack:
        if hold is not None:
            stack.enter_context(thread_lock(place.db, hold))
        memory = await stack.enter_async_context(open_memory(place.db, key=place.key))
        yield Timeline(bare_graph(memory), memory, thread)


async def show(place: Place, thread: str, what: str, arg: str, as_json: bool) -> list[str]:
    """The lines of `agent threads show`; `what` names its option, `arg` is what it was given."""
    async with open_timeline(place, thread) as timeline:
        await timeline.head()
        if what in ("turns", "branches"):
            return await _lists(timeline, what, as_json)
        if what == "checkpoints":
            found = await places(timeline)
            if as_json:
                return _json(thread, checkpoints=[text.place_object(one) for one in found])
            return text.place_lines(found)
        if what == "at":
            there = await moment(timeline, arg)
            if as_json:
                return [json.dumps(text.moment_object(there, thread), indent=2)]
            return text.moment_lines(there)
        if what == "summary":
            values = (await timeline.graph.aget_state(config_of(thread))).values
            if as_json:
                fields = {"summary": values.get("summary", ""), "facts": values.get("facts", [])}
                return _json(thread, **fields)
            return text.summary_lines(values)
        if what == "result":
            message = await result_of(timeline, arg)
            if as_json:
                return _json(thread, result=text.message_object(message))
            return visible(str(message.text)).split("\n")
        return await _messages(timeline, what, as_json)


async def _lists(timeline: Timeline, what: str, as_json: bool) -> list[str]:
    branches = await timeline.branches()
    turns = await timeline.turns() if what == "turns" else []
    if as_json:
        lists: dict[str, Any] = {"branches": [text.branch_object(one) for one in branches]}
        if what == "turns":
            lists["turns"] = [text.turn_object(turn) for turn in turns]
        return _json(timeline.thread, **lists)
    lines = text.turn_lines(turns)
    if what == "turns" and not turns:
        lines.append("There is no turn to go back to.")
    if branches:
        lines += [*(["Branches:"] if what == "turns" else []), *text.branch_lines(branches)]
    elif what == "branches":
        lines.append("There are no branches.")
    return lines


async def _messages(timeline: Timeline, what: str, as_json: bool) -> list[str]:
    state = await timeline.graph.aget_state(config_of(timeline.thread))
    messages: list[AnyMessage] = state.values.get("messages", [])
    if as_json:
        return _json(timeline.thread, messages=text.objects(messages))
    if what == "messages":
        return text.message_lines(messages)
    lines = text.transcript(messages, await timeline.turns())
    if state.interrupts:
        lines += ["", "The last turn waits for an approval; see: agent approvals list"]
    elif state.tasks:
        lines += ["", "The last turn is not finished."]
    return lines


async def rewind(
    place: Place, thread: str, to: int | None, branch: str | None, as_json: bool, given: str
) -> list[str]:
    """Go to before turn `to`, or to the branch; what there is to say.

    `given` are the options that lead a later command to the same database.
    """
    async with open_timeline(place, thread, hold=thread) as timeline:
        await timeline.head()
        moved = await (timeline.rewind(to) if to is not None else timeline.go_to(branch or ""))
    if as_json:
        return [json.dumps(text.moved_object(moved, thread))]
    return text.moved_lines(moved, thread, given)


async def fork(place: Place, thread: str, new: str, at: int | None, as_json: bool) -> list[str]:
    """Copy the thread; what there is to say. The original may be in use meanwhile."""
    async with open_timeline(place, thread, hold=new) as timeline:
        await timeline.head()
        forked = await timeline.fork(new, at)
    if as_json:
        return _json(new, parent=thread, turns=forked.turns, left_out=forked.left_out or None)
    count = f"{forked.turns} turn{'' if forked.turns == 1 else 's'}"
    line = f"Copied {count} of '{thread}' into '{new}'."
    if forked.left_out:
        line += f" The turn that is not finished stays with '{thread}' alone."
    return [visible(line, newlines=False)]


def _json(thread: str, **values: Any) -> list[str]:
    return [json.dumps({"schema_version": 1, "thread": thread, **values}, indent=2)]
