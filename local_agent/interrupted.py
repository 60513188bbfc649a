"""A turn that was broken off: what it was doing, and the messages that close it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateSnapshot

from agent_core.calls import RESULT_LOST, UNKNOWN_OUTCOME
from agent_core.ports import Journal
from agent_core.turn import open_calls, result_of
from context import text_of
from local_agent.events import Interrupted

Call = dict[str, Any]


async def untaken_input(
    graph: CompiledStateGraph[Any, None, Any, Any], config: RunnableConfig, state: StateSnapshot
) -> list[AnyMessage]:
    """The messages of a turn that died before its first step; they are in no state yet."""
    saver = graph.checkpointer
    is_untaken = any(task.name == START and task.result is None for task in state.tasks)
    if not is_untaken or not isinstance(saver, BaseCheckpointSaver):
        return []
    saved = await saver.aget_tuple(config)
    given = saved.checkpoint["channel_values"].get(START) if saved else None
    return list(given.get("messages", [])) if isinstance(given, dict) else []


async def interrupted_turn(
    state: StateSnapshot, untaken: Sequence[AnyMessage], thread: str, journal: Journal
) -> Interrupted | None:
    """The turn that `state` of the thread stands in; None where it has ended or waits for a yes.

    A step that has run and whose end is not on disk yet has tasks, but no name in `next`.
    """
    if not state.tasks or state.interrupts:
        return None
    messages: list[AnyMessage] = [*state.values.get("messages", []), *untaken]
    prompt = next((m for m in reversed(messages) if isinstance(m, HumanMessage)), None)
    text = text_of(prompt.content) if prompt else ""
    message_id, calls = open_calls(messages)
    started, is_write = await _started(calls, (thread, message_id), journal)
    if started:
        return Interrupted(text, "tools", started, may_have_run=is_write)
    return Interrupted(text, "model" if "agent" in state.next else "between")


async def _started(
    calls: Sequence[Call], place: tuple[str, str], journal: Journal
) -> tuple[tuple[str, ...], bool]:
    """Names of the calls that had started and not ended, and whether one of them is a write."""
    names: list[str] = []
    is_write = False
    for call in calls:
        run = await journal.find(*place, call["id"])
        if run is not None and run.outcome is None:
            names.append(call["name"])
            is_write = is_write or run.is_write
    return tuple(names), is_write


async def closing_messages(
    state: StateSnapshot,
    untaken: Sequence[AnyMessage],
    thread: str,
    journal: Journal,
    text: str,
    why: Mapping[str, Any],
    *,
    is_crash: bool,
) -> list[AnyMessage]:
    """What ends a turn where it stands: a result for each open call, and an answer with `text`.

    `why` is kept on the answer: its "status", "error" and "route". `is_crash`: it was not stopped
    by this process, so what had started may have been carried out.
    """
    # What ended tasks of the last step wrote is lost with the step unless it is written again,
    # all at once; the state may show it already.
    ended = list(untaken)
    ended += [
        message
        for task in state.tasks
        if isinstance(task.result, dict)
        for message in task.result.get("messages", [])
    ]
    messages = {m.id: m for m in [*state.values.get("messages", []), *ended]}
    message_id, calls = open_calls(list(messages.values()))
    who = "by the user" if why["status"] == "cancelled" else "because the turn ended"
    place = (thread, message_id)
    results = [await _result(call, place, journal, who, is_crash) for call in calls]
    update: list[AnyMessage] = [*ended, *results]
    last = update[-1] if update else None
    if not isinstance(last, AIMessage) or last.tool_calls:
        update.append(AIMessage(text, id=uuid.uuid4().hex, additional_kwargs=dict(why)))
    return update


async def _result(
    call: Call, place: tuple[str, str], journal: Journal, who: str, is_crash: bool
) -> AnyMessage:
    """The result of a call that has none: what the journal knows of it."""
    run = await journal.find(*place, call["id"])
    if run is None:
        return result_of(call, f"Cancelled {who} before it ran.", "cancelled")
    if run.outcome is not None:
        return result_of(call, run.result or RESULT_LOST, run.outcome)
    outcome = "unknown" if is_crash else "cancelled"
    await journal.end(*place, call["id"], outcome)
    if is_crash:
        return result_of(call, UNKNOWN_OUTCOME, outcome)
    text = f"Cancelled {who} while it ran; it may have been carried out."
    return result_of(call, text, outcome)
