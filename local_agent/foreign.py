"""Takes over a thread that another program wrote: its messages go on, what it left open does not.

Such a thread has no entry in our table. Its nodes may have our names and mean something else, so
none of its open steps is run and none of its questions is asked: a call that has no result is said
not to have been run, and the turn is over.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, Protocol

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
from langchain_core.messages.utils import convert_to_messages
from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Overwrite

from agent_core.turn import open_calls, result_of
from context import text_of
from local_agent.errors import StorageError

NOT_RUN = "Not run here: the program that wrote this call ended before it had a result."


class ThreadTable(Protocol):
    """The table of threads, as far as it is needed here."""

    async def info(self, thread: str) -> Any | None: ...

    async def touch(self, thread: str, *, title: str | None, messages: int, turns: int) -> None: ...


async def adopt(
    graph: CompiledStateGraph[Any, None, Any, Any], threads: ThreadTable, thread: str
) -> None:
    """Make `thread` one of ours, if it has been another program's until now.

    Raises StorageError where its messages cannot be read; nothing is written then.
    """
    if await threads.info(thread) is not None:
        return
    config: RunnableConfig = {"configurable": {"thread_id": thread}}
    state = await graph.aget_state(config)
    if not state.values or "decisions" in state.values:
        return  # a new thread, or ours, killed in its first turn
    stored = state.values.get("messages", [])
    messages = _readable(stored, thread)
    update: dict[str, Any] = {}
    # Our own first step runs whatever wrote the prompt; any other open step is not ours to run.
    if state.tasks and (state.next != ("router",) or state.interrupts):
        update["messages"] = _ending(messages)
    if not all(isinstance(m, BaseMessage) and m.id for m in stored):
        update["messages"] = Overwrite([*messages, *update.get("messages", [])])
    if update:
        await graph.aupdate_state(config, update, as_node="agent")
        messages = (await graph.aget_state(config)).values["messages"]
    turns = sum(isinstance(m, HumanMessage) for m in messages)
    await threads.touch(thread, title=_title(messages), messages=len(messages), turns=turns)


def _readable(stored: Any, thread: str) -> list[AnyMessage]:
    """`stored` as messages. Their own subclasses are read back as plain tables of values."""
    try:
        messages = convert_to_messages(stored) if isinstance(stored, list) else None
    except (ValueError, TypeError, NotImplementedError) as exc:
        raise _unreadable(thread) from exc
    if messages is None or not all(isinstance(m, BaseMessage) for m in messages):
        raise _unreadable(thread)
    named = [m if m.id else m.model_copy(update={"id": uuid.uuid4().hex}) for m in messages]
    return named  # type: ignore[return-value]  # every kind of message is one of AnyMessage


def _unreadable(thread: str) -> StorageError:
    return StorageError(
        f"The thread '{thread}' was written by another program and cannot be read.",
        "Take another one with --thread.",
    )


def _ending(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """A result for each open call, and an end of the turn."""
    _, calls = open_calls(messages)
    results: list[AnyMessage] = [result_of(call, NOT_RUN, "cancelled") for call in calls]
    kwargs = {"status": "cancelled"}
    return [*results, AIMessage("", id=uuid.uuid4().hex, additional_kwargs=kwargs)]


def _title(messages: Sequence[AnyMessage]) -> str | None:
    first = next((m for m in messages if isinstance(m, HumanMessage)), None)
    return " ".join(text_of(first.content).split())[:80] if first else None
