"""Corrects a thread at one place; what followed it becomes a branch, and only that runs again.

Each leaves the thread inside a turn, whose next step follows the correction: whoever edits runs it
on, or leaves that to the next start. What a person allowed behind the place is asked for again. A
kill leaves the thread as it was, or corrected.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage

from agent_core.turn import call_key, handles_of, open_calls
from local_agent.errors import ThreadError, UsageError
from local_agent.memory.branches import put_branch
from local_agent.memory.chain import Step, Turn
from local_agent.memory.heads import config_of
from local_agent.timeline.course import Moved, Timeline, now
from local_agent.timeline.pending import bring_back

EDITED = "edited"  # when a person did it, in `additional_kwargs` of what was changed
STATE_FIELDS: Mapping[str, type] = {"summary": str, "route": str, "facts": list, "pinned": list}


async def edit_result(timeline: Timeline, handle: str, text: str) -> Moved:
    """Put `text` in place of the result `handle`, as the thread stood just after that call."""
    graph, thread = timeline.graph, timeline.thread
    message = await result_of(timeline, handle)
    chain, turns = await timeline.chain(), await timeline.turns()
    place = await _place_of(timeline, chain, message, handle)
    state = await graph.aget_state(config_of(thread, chain[place].checkpoint_id))
    branch = await timeline.left(turns, _turn_at(turns, chain, place), f"edit {handle}")
    behind = await _behind(timeline, state.values["messages"])
    kwargs = {**message.additional_kwargs, EDITED: now().isoformat(), "outcome": "success"}
    update = {"content": text, "additional_kwargs": kwargs, "status": "success"}
    messages = [message.model_copy(update=update), *_after(state.values["messages"], message)]
    async with timeline.memory.statements.together():
        new = await timeline.stand_on(
            chain[place].checkpoint_id,
            lambda conn, _: put_branch(conn, thread, branch),
            {"decisions": {}, **behind},
        )
        await graph.aupdate_state(config_of(thread, new), {"messages": messages}, as_node="tools")
    return Moved(branch.first_turn, branch=branch.id, is_open=True)


async def edit_prompt(timeline: Timeline, number: int, text: str) -> Moved:
    """Put `text` in place of the prompt of turn `number`."""
    if not text.strip():
        raise UsageError("The new prompt is empty.")
    kwargs = {EDITED: now().isoformat()}
    prompt = HumanMessage(text, id=uuid.uuid4().hex, additional_kwargs=kwargs)
    where = config_of(timeline.thread)
    async with timeline.memory.statements.together():
        moved = await timeline.rewind(number, f"edit prompt {number}")
        await timeline.graph.aupdate_state(where, {"messages": [prompt]}, as_node="__input__")
    return Moved(number, branch=moved.branch, is_open=True)


async def edit_call(timeline: Timeline, name: str, args: Mapping[str, Any]) -> Moved:
    """Put `args` in place of those of the waiting call `name`: its handle, or its id."""
    graph, where = timeline.graph, config_of(timeline.thread)
    state = await graph.aget_state(where)
    messages = state.values.get("messages", [])
    call = waiting_call(messages, name) if state.interrupts else None
    if call is None:
        raise ThreadError(
            f"No call '{name}' waits for approval in thread '{timeline.thread}'.",
            "See: agent approvals list",
        )
    message = next(m for m in reversed(messages) if isinstance(m, AIMessage) and m.tool_calls)
    calls = [
        {**one, "args": dict(args)} if one["id"] == call["id"] else one
        for one in message.tool_calls
    ]
    edited = {**message.additional_kwargs.get(EDITED, {}), call["id"]: now().isoformat()}
    kwargs = {**message.additional_kwargs, EDITED: edited}
    changed = message.model_copy(update={"tool_calls": calls, "additional_kwargs": kwargs})
    async with timeline.memory.statements.together():
        await graph.aupdate_state(where, {"messages": [changed]}, as_node="tools")
    return Moved(len(await timeline.turns()), is_open=True)


async def edit_state(timeline: Timeline, values: Mapping[str, Any]) -> Moved:
    """Set fields of the state, at the end of a turn or at a question, which is then put again.

    Raises `UsageError` for a field that cannot be set or a value that it cannot have.
    """
    check_fields(values)
    graph, where = timeline.graph, config_of(timeline.thread)
    head = await timeline.head()
    state = await graph.aget_state(where)
    if state.tasks and not state.interrupts:
        raise ThreadError(
            f"The last turn of thread '{timeline.thread}' is not finished.",
            f"Finish it first: agent --thread {timeline.thread}",
        )
    if not state.values.get("messages"):
        raise ThreadError(f"Thread '{timeline.thread}' is empty.")
    if values.get("summary") and not state.values.get("summary_upto"):
        raise ThreadError("There is no summary yet: nothing of this thread is folded.")
    turns = len(await timeline.turns())
    if values.get("summary") == "":  # then nothing stands for the folded turns: they come back
        values = {**values, "summary_upto": ""}
    if not state.interrupts:
        await graph.aupdate_state(where, dict(values), as_node="agent")
        return Moved(turns)
    async with timeline.memory.statements.together():
        new = await timeline.stand_on(head, lambda conn, _: None, values)
        await bring_back(graph, timeline.memory.heads, timeline.thread, head, new)
    return Moved(turns, is_open=True)


def check_fields(values: Mapping[str, Any]) -> None:
    """Raise `UsageError` where one of the fields cannot be set so, or there is none."""
    if not values:
        raise UsageError(
            "No field of the state is named.", f"There are: {', '.join(STATE_FIELDS)}."
        )
    for name, value in values.items():
        kind = STATE_FIELDS.get(name)
        if kind is None:
            raise UsageError(
                f"The field '{name}' of the state cannot be set.",
                f"These can: {', '.join(STATE_FIELDS)}.",
            )
        is_text = isinstance(value, str)
        is_texts = isinstance(value, list) and all(isinstance(item, str) for item in value)
        if not (is_text if kind is str else is_texts):
            raise UsageError(f"'{name}' must be {'a text' if kind is str else 'a list of texts'}.")


def waiting_call(messages: Sequence[AnyMessage], name: str) -> dict[str, Any] | None:
    """The open call of that handle or id, if there is one."""
    _, calls = open_calls(messages)
    return next((call for call in calls if name in (call["handle"], call["id"])), None)


async def result_of(timeline: Timeline, handle: str) -> ToolMessage:
    """The result with that handle. Raises `ThreadError`."""
    state = await timeline.graph.aget_state(config_of(timeline.thread))
    messages = state.values.get("messages", [])
    found = handles_of(messages)
    if handle in found:
        return found[handle]
    if waiting_call(messages, handle):
        raise ThreadError(
            f"{handle} has no result yet.", "Its call waits; see: agent approvals list"
        )
    has = f"It has {', '.join(found)}." if len(found) < 3 else f"It has r1 to {list(found)[-1]}."
    text = f"Thread '{timeline.thread}' has no result '{handle}'."
    raise ThreadError(text, has if found else "It has none at all.")


async def _place_of(
    timeline: Timeline, chain: Sequence[Step], message: ToolMessage, handle: str
) -> int:
    """Where in the chain the message came in. Raises `ThreadError` where that is gone."""
    written = {
        checkpoint_id
        for checkpoint_id, messages in await timeline.memory.heads.written(
            timeline.thread, results=True
        )
        if any(one.get("id") == message.id for one in messages)
    }
    places = [i for i, step in enumerate(chain[:-1], 1) if step.checkpoint_id in written]
    if not places:
        raise ThreadError(f"{handle} cannot be edited any more: the steps of its turn are gone.")
    return places[-1]


def _turn_at(turns: Sequence[Turn], chain: Sequence[Step], place: int) -> Turn:
    before = {step.checkpoint_id for step in chain[: place + 1]}
    return [turn for turn in turns if turn.checkpoint_start in before][-1]


async def _behind(timeline: Timeline, messages: Sequence[AnyMessage]) -> dict[str, Any]:
    """What the state says of the calls of the same message that come after it and ran already.

    They run again, where a person says so; the journal alone would take them for done.
    """
    message_id, calls = open_calls(messages)
    unknown: dict[str, int] = {}
    ran: dict[str, str] = {}
    for call in calls:
        run = await timeline.memory.journal.find(timeline.thread, message_id, call["id"])
        if run is not None and run.is_write:
            unknown[call["id"]] = run.starts
            ran[call_key(call)] = now().isoformat()
    return {"unknown": unknown, "ran": ran}


def _after(messages: Sequence[AnyMessage], message: ToolMessage) -> list[RemoveMessage]:
    """Removes what was said behind the results that `message` belongs to: the end of a turn."""
    at = next(i for i, one in enumerate(messages) if one.id == message.id)
    behind = [one for one in messages[at:] if not isinstance(one, ToolMessage)]
    return [RemoveMessage(id=one.id or "") for one in behind]
