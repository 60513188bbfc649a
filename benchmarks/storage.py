"""How the database grows and how long a turn takes: our message channel beside `add_messages`.

    python benchmarks/storage.py [--turns N] [--long N]

Both run the same graph of the agent's shape on a database of our own settings: each turn is a
prompt, a tool call, a result of 4 KB and an answer; the model answers at once. So all time is our
own. Prints numbers and ratios of one run, and asserts nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agent_graph import messages_channel
from local_agent.memory import Memory, open_memory

RESULT_BYTES = 4096
CONFIG: Any = {"configurable": {"thread_id": "benchmark"}}


def build(channel: Any, memory: Memory) -> Any:
    """router -> agent -> collect -> tools -> collect -> agent: seven checkpoints a turn."""
    state_type = TypedDict(  # noqa: UP013  # the annotation is a value of this call
        "State", {"messages": Annotated[list[Any], channel], "route": str}
    )

    def new_id() -> str:
        return uuid.uuid4().hex

    async def router(state: Any) -> Any:
        return {"route": "general"}

    async def agent(state: Any) -> Any:
        if isinstance(state["messages"][-1], ToolMessage):
            return {"messages": [AIMessage("b" * 200, id=new_id())]}
        call = {"name": "read", "args": {"path": "file"}, "id": new_id()}
        return {"messages": [AIMessage("", id=new_id(), tool_calls=[call])]}

    async def collect(state: Any) -> Any:
        last = state["messages"][-1]
        if isinstance(last, ToolMessage):
            return Command(goto="agent")
        return Command(goto=[Send("tools", {"call": call}) for call in last.tool_calls])

    async def tools(task: Mapping[str, Any]) -> Any:
        text = os.urandom(RESULT_BYTES // 2).hex()
        return {"messages": [ToolMessage(text, tool_call_id=task["call"]["id"], id=new_id())]}

    graph = StateGraph(state_type)
    graph.add_node("router", router)
    graph.add_node("agent", agent)
    graph.add_node("collect", collect, destinations=("tools", "agent"))
    graph.add_node("tools", tools)
    graph.add_edge(START, "router")
    graph.add_edge("router", "agent")
    graph.add_conditional_edges(
        "agent", lambda s: "collect" if s["messages"][-1].tool_calls else END, ["collect", END]
    )
    graph.add_edge("tools", "collect")
    return graph.compile(checkpointer=memory.saver)


@dataclass
class Thread:
    """One growing thread: bytes of its database and milliseconds of each turn, turn 1 first."""

    name: str
    graph: Any
    memory: Memory
    sizes: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    async def turn(self) -> None:
        prompt = HumanMessage("q" * 100, id=uuid.uuid4().hex)
        start = time.perf_counter()
        await self.graph.ainvoke({"messages": [prompt]}, CONFIG, durability="sync")
        self.times.append(1000 * (time.perf_counter() - start))
        self.sizes.append(await _bytes(self.memory))
        if len(self.sizes) in (10, 100, 200, 1000):
            print(
                f"  {self.name}: turn {len(self.sizes):>4}: {self.sizes[-1] / 1e6:7.2f} MB,"
                f" turn {around(self.times, len(self.times)):6.1f} ms,"
                f" loaded by a new process {await self.load():6.1f} ms"
            )

    async def load(self) -> float:
        """Milliseconds to load the thread where nothing of it is in memory yet."""
        took = []
        for _ in range(5):
            assert self.memory.path is not None
            async with open_memory(self.memory.path) as memory:
                graph = build(messages_channel() if self.name == "ours" else add_messages, memory)
                start = time.perf_counter()
                await graph.aget_state(CONFIG)
                took.append(1000 * (time.perf_counter() - start))
        return median(took)


async def _bytes(memory: Memory) -> float:
    numbers = []
    for name in ("page_count", "page_size"):
        async with memory.saver.conn.execute(f"PRAGMA {name}") as cursor:
            row = await cursor.fetchone()
            numbers.append(row[0] if row else 0)
    return float(numbers[0] * numbers[1])


def around(values: list[float], turn: int, width: int = 10) -> float:
    """The median of the values at the turns next to `turn`."""
    return median(values[max(0, turn - width) : turn + width])


def per_turn(sizes: list[float], turn: int, width: int) -> float:
    """Bytes that a turn added, on average from `width` turns before `turn` to `width` after."""
    first, last = turn - width, min(turn + width, len(sizes))
    return (sizes[last - 1] - sizes[first - 1]) / (last - first)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=200, help="turns of both channels")
    parser.add_argument("--long", type=int, default=1050, help="turns of ours in all")
    args = parser.parse_args()
    turns = max(args.turns, 40)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))

        async def start(name: str, channel: Any) -> Thread:
            memory = await stack.enter_async_context(open_memory(folder / f"{name}.db"))
            return Thread(name, build(channel, memory), memory)

        ours = await start("ours", messages_channel())
        plain = await start("add_messages", add_messages)
        for _ in range(turns):  # by turns, so that what else the machine does meets both
            await ours.turn()
            await plain.turn()
        compare(ours, plain, turns)
        for _ in range(args.long - turns):
            await ours.turn()
        growth(ours)


def compare(ours: Thread, plain: Thread, turns: int) -> None:
    print(
        f"bytes after {turns} turns: {ours.sizes[-1]:,.0f} against {plain.sizes[-1]:,.0f}:"
        f" 1/{plain.sizes[-1] / ours.sizes[-1]:.0f}"
    )
    grown = [around(t.times, turns) - around(t.times, 20) for t in (ours, plain)]
    print(
        f"own time of a turn grows from turn 20 to {turns} by {grown[0]:.1f} ms"
        f" against {grown[1]:.1f} ms: {grown[0] / grown[1]:.2f}"
    )


def growth(ours: Thread) -> None:
    for width in (10, 50):
        last = min(1000, len(ours.sizes) - width)
        if last > 100 + 2 * width:
            early, late = (per_turn(ours.sizes, turn, width) for turn in (100, last))
            print(
                f"bytes a turn around {last} against 100 (±{width} turns):"
                f" {late:,.0f} / {early:,.0f} = {late / early:.2f}"
            )


if __name__ == "__main__":
    asyncio.run(main())
