"""Writes tests/data/foreign.db: threads as a plain LangGraph program leaves them, whole and broken.

usage: python -m tests.foreign [FILE]

The program has nothing of ours: `AsyncSqliteSaver`, `add_messages`, nodes that share their names
with ours and mean something else, and state that we do not have.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import warnings
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt

FILE = Path(__file__).parent / "data" / "foreign.db"
WHOLE = ("chat", "dangling", "extra", "metadata", "asked", "died")
BROKEN = ("pickled", "torn")


@dataclass
class Mood:
    """A class of that program, which nobody else can import."""

    word: str


class Remark(AIMessage):
    """A message of a class of its own."""


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    route: str
    budget: int
    mood: Mood


def calls(*names: str) -> AIMessage:
    """A reply that calls tools side by side."""
    listed = [{"name": n, "args": {"path": n}, "id": f"call_{n}"} for n in names]
    return AIMessage("", tool_calls=listed)


async def _agent(state: State) -> State:
    last = state["messages"][-1]
    if isinstance(last, ToolMessage):
        return {"messages": [AIMessage(f"answer to {state['messages'][0].content}")]}
    text = str(last.content)
    if text.startswith("read"):
        return {"messages": [calls("a", "b")]}
    if text.startswith(("write", "die")):
        return {"messages": [calls("write")]}
    return {"messages": [AIMessage(f"answer to {text}")], "mood": Mood("fine")}


async def _approve(state: State) -> State:
    if str(state["messages"][0].content).startswith("write"):
        interrupt({"question": "may I?", "tool": "write"})
    return {}


async def _tools(state: State) -> State:
    if str(state["messages"][-2].content).startswith("die"):
        raise RuntimeError("the program died here")
    last = state["messages"][-1]
    assert isinstance(last, AIMessage)
    results = [ToolMessage(f"{c['name']} is 42", tool_call_id=c["id"]) for c in last.tool_calls]
    return {"messages": list(results)}


def plain_graph(saver: Any) -> Any:
    """The program: agent, approve and tools, with the names that everybody gives them."""
    graph = StateGraph(State)
    graph.add_node("agent", _agent)
    graph.add_node("approve", _approve)
    graph.add_node("tools", _tools)
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", _has_calls, {True: "approve", False: END})
    graph.add_edge("approve", "tools")
    graph.add_edge("tools", "agent")
    return graph.compile(checkpointer=saver)


def _has_calls(state: Mapping[str, Any]) -> bool:
    return bool(getattr(state["messages"][-1], "tool_calls", ()))


async def _write(path: Path) -> None:
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        graph = plain_graph(saver)

        async def say(thread: str, *messages: AnyMessage | str, **more: Any) -> None:
            new = [HumanMessage(m) if isinstance(m, str) else m for m in messages]
            config: Any = {"configurable": {"thread_id": thread}}
            with suppress(RuntimeError):  # as the program that died
                await graph.ainvoke({"messages": new, **more}, config)

        await say("chat", SystemMessage("You are somebody else."), "read two files")
        await say("chat", "and now?")
        await say("dangling", "read", calls("c", "d"), ToolMessage("c is 1", tool_call_id="call_c"))
        await say("dangling", "after the crash")
        await say("extra", "hello", budget=7)
        await say("extra", Remark("a remark"), "and on", budget=8)
        await say("metadata", "hello")
        await say("asked", "write it down")
        await say("died", "die here")
        await say("pickled", "hello")
        await say("torn", "hello")


def write_foreign(path: Path) -> None:
    """Write the file anew: `metadata` has what older releases put there, `BROKEN` is unreadable."""
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    asyncio.run(_write(path))
    old = {"source": "loop", "step": 1, "writes": {"agent": {"messages": _old_message()}}}
    with closing(sqlite3.connect(path)) as conn, conn:
        of = "WHERE thread_id = ?"
        conn.execute(f"UPDATE checkpoints SET metadata = ? {of}", (json.dumps(old), "metadata"))
        conn.execute(f"UPDATE checkpoints SET type = 'pickle' {of}", ("pickled",))
        conn.execute(f"UPDATE checkpoints SET checkpoint = x'c1ff00' {of}", ("torn",))
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("PRAGMA journal_mode=DELETE")
        conn.execute("VACUUM")


def _old_message() -> dict[str, Any]:
    """A message as releases before 2025 wrote it into the metadata of a checkpoint."""
    name = ["langchain", "schema", "messages", "AIMessage"]
    return {"lc": 1, "type": "constructor", "id": name, "kwargs": {"content": "hello"}}


if __name__ == "__main__":
    warnings.simplefilter("error")
    write_foreign(Path(sys.argv[1]) if len(sys.argv) > 1 else FILE)
