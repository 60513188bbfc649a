"""The message channel over our saver gives what `add_messages` gives, read anew or kept."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Overwrite, Send, interrupt

from agent_graph import messages_channel
from local_agent.memory import open_memory

CONFIG: Any = {"configurable": {"thread_id": "t"}}
KINDS = ["turn"] * 5 + ["resume"] * 3 + ["replace", "remove", "fork", "overwrite"]


def build(channel: Any, saver: Any, step: Mapping[str, Any]) -> Any:
    """A graph whose reply in this step makes `calls` calls, which it asks about or runs at once."""
    state_type = TypedDict(  # noqa: UP013  # the annotation is a value of this call
        "State", {"messages": Annotated[list[Any], channel]}
    )

    def agent(state: Any) -> Any:
        if isinstance(state["messages"][-1], ToolMessage):
            return {"messages": [AIMessage("done", id=f"a{step['n']}")]}
        calls = [{"name": "t", "args": {}, "id": f"{step['n']}-{i}"} for i in range(step["calls"])]
        return {"messages": [AIMessage("", id=f"c{step['n']}", tool_calls=calls)]}

    def sends(state: Any) -> list[Send]:
        return [Send("tools", call) for call in state["messages"][-1].tool_calls]

    def after(state: Any) -> Any:
        if not state["messages"][-1].tool_calls:
            return END
        return "approve" if step["asks"] else sends(state)

    def approve(state: Any) -> Any:
        interrupt("run them?")
        return Command(goto=sends(state))

    def tools(call: Any) -> Any:
        return {"messages": [ToolMessage("r", tool_call_id=call["id"], id=f"r{call['id']}")]}

    graph = StateGraph(state_type)
    graph.add_node("agent", agent)
    graph.add_node("approve", approve, destinations=("tools",))
    graph.add_node("tools", tools)
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", after, ["tools", "approve", END])
    graph.add_edge("tools", "agent")
    return graph.compile(checkpointer=saver)


async def shown(graph: Any) -> Any:
    state = await graph.aget_state(CONFIG)
    messages = [(type(m).__name__, m.id, m.content) for m in state.values.get("messages", [])]
    return messages, state.next, [i.value for i in state.interrupts]


async def take(graph: Any, step: Mapping[str, Any]) -> Any:
    """One step of the given kind; what the thread shows after it."""
    state = await graph.aget_state(CONFIG)
    messages = state.values.get("messages", [])
    chosen = messages[step["pick"] % len(messages)] if messages else None
    prompt = {"messages": [HumanMessage("q", id=f"h{step['n']}")]}
    match step["kind"]:
        case "turn":
            await graph.ainvoke(prompt, CONFIG, durability="sync")
        case "resume" if state.interrupts:
            await graph.ainvoke(Command(resume="yes"), CONFIG, durability="sync")
        case "replace" if chosen:
            await update(graph, [chosen.model_copy(update={"content": f"new {step['n']}"})])
        case "remove" if chosen:
            await update(graph, [RemoveMessage(id=chosen.id)])
        case "overwrite" if chosen:
            await update(graph, Overwrite(messages[len(messages) // 2 :]))
        case "fork":
            ends = [
                h
                async for h in graph.aget_state_history(CONFIG, limit=30)
                if h.next == () and h.values.get("messages")
            ]
            if ends:
                config = ends[step["pick"] % len(ends)].config
                await graph.ainvoke(prompt, config, durability="sync")
    return await shown(graph)


async def update(graph: Any, messages: Any) -> None:
    await graph.aupdate_state(CONFIG, {"messages": messages}, as_node="tools")


@pytest.mark.parametrize("seed", range(4))
async def test_same_as_add_messages(tmp_path: Path, seed: int) -> None:
    """Turns, parallel results, questions, replacements, removals and forks, in random order.

    The database that stays open loads the thread as one that is opened anew does.
    """
    chance = random.Random(seed)
    async with (
        open_memory(tmp_path / "ours.db") as ours,
        open_memory(tmp_path / "plain.db", ephemeral=True) as plain,
    ):
        for n in range(25):
            step = {
                "n": n,
                "kind": chance.choice(KINDS),
                "calls": chance.randrange(4),
                "asks": chance.random() < 0.4,
                "pick": chance.randrange(10**6),
            }
            got = await take(build(messages_channel(), ours.saver, step), step)
            assert got == await take(build(add_messages, plain.saver, step), step), step
            async with open_memory(tmp_path / "ours.db") as anew:
                assert await shown(build(messages_channel(), anew.saver, step)) == got, step


@pytest.mark.parametrize("kind", ["turn", "overwrite", "remove"])
async def test_a_loaded_list_is_the_callers_own(tmp_path: Path, kind: str) -> None:
    """Changing a list that was loaded does not change what is loaded next."""
    step: dict[str, Any] = {"n": 0, "calls": 1, "asks": False, "kind": "turn", "pick": 0}
    async with open_memory(tmp_path / "memory.db") as memory:
        graph = build(messages_channel(), memory.saver, step)
        await take(graph, step)
        step |= {"kind": kind, "n": 1}
        before = await take(graph, step)
        for _ in range(2):
            (await graph.aget_state(CONFIG)).values["messages"].clear()
            assert await shown(graph) == before


async def test_a_clock_that_went_back(tmp_path: Path) -> None:
    """A step whose id is above that of the step behind it is not lost, nor what comes after it."""
    step: dict[str, Any] = {"n": 0, "calls": 1, "asks": False, "kind": "turn", "pick": 0}
    path = tmp_path / "memory.db"
    async with open_memory(path) as memory:
        for step["n"] in (1, 2, 3):
            before = await take(build(messages_channel(), memory.saver, step), step)
    with closing(sqlite3.connect(path)) as conn:
        query = "SELECT checkpoint_id FROM checkpoints ORDER BY checkpoint_id"
        ids = [row[0] for row in conn.execute(query)]
        for table, column in (
            ("checkpoints", "checkpoint_id"),
            ("checkpoints", "parent_checkpoint_id"),
            ("writes", "checkpoint_id"),
        ):
            change = f"UPDATE {table} SET {column} = ? WHERE {column} = ?"
            conn.execute(change, (f"{ids[5]}0", ids[4]))
        conn.commit()
    async with open_memory(path) as memory, open_memory(path) as plain:
        assert await shown(build(messages_channel(), memory.saver, step)) == before
        for step["n"] in (4, 5):
            after = await take(build(messages_channel(), memory.saver, step), step)
            assert after[0][: len(before[0])] == before[0]
            assert len(after[0]) == len(before[0]) + 4 * (step["n"] - 3)
        assert await shown(build(messages_channel(), plain.saver, step)) == after


async def test_a_deleted_thread_begins_anew(tmp_path: Path) -> None:
    """Nothing of a thread is kept when it is deleted."""
    step = {"n": 0, "calls": 0, "asks": False}
    async with open_memory(tmp_path / "memory.db") as memory:
        graph = build(messages_channel(), memory.saver, step)
        for step["n"] in (1, 2):
            prompt = HumanMessage("q", id=f"h{step['n']}")
            await graph.ainvoke({"messages": [prompt]}, CONFIG)
        await memory.saver.adelete_thread("t")
        assert (await graph.aget_state(CONFIG)).values.get("messages", []) == []
        state = await graph.ainvoke({"messages": [HumanMessage("q", id="h3")]}, CONFIG)
        assert [m.id for m in state["messages"]] == ["h3", "c2"]
