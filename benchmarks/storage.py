"""How the database grows and how long a turn takes: our message channel beside `add_messages`.

    python benchmarks/storage.py [--turns N] [--long N]

Both run the agent's own graph and session on a database of our own settings; only the channel of
`messages` differs. Each turn is a prompt, a tool call, a result of 4 KB and an answer; the model
answers at once, so all time is our own. The index of words is kept in both, and what it costs is
measured apart, on texts of this repository. Prints numbers and ratios of one run; exit 1 when a
ratio is over its limit.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.graph.message import add_messages

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agent_core.toolset import OneRoute
from agent_graph import State, build_graph
from context import Window
from local_agent.approval import decide
from local_agent.memory import Memory, open_memory
from local_agent.repair import repair
from local_agent.seal import open_seal
from local_agent.session import Session

RESULT_BYTES = 4096
GROWTH_LIMIT = 0.5  # of what a turn's own time grows with add_messages
SIZE_LIMIT = 10e6  # bytes after 200 turns
TURN_LIMIT = 1.5  # bytes of a turn around turn 1,000 against turn 100
INDEX_LIMIT = 1.25  # bytes of the index of words against those of the texts
INDEXED_TURNS = 300


class PlainState(State, total=False):
    """The state with the channel that stores the whole list at every step."""

    messages: Annotated[list[AnyMessage], add_messages]  # type: ignore[misc]


class Model:
    """Calls the tool once a turn, then answers."""

    overflow: type[Exception] = ArithmeticError

    async def reply(self, messages: Sequence[AnyMessage], **options: Any) -> AIMessage:
        if isinstance(messages[-1], ToolMessage):
            return AIMessage("b" * 200, id=uuid.uuid4().hex)
        call = {"id": "call_1", "name": "read", "args": json.dumps({"path": "file"})}
        return AIMessage("", id=uuid.uuid4().hex, additional_kwargs={"raw_tool_calls": [call]})


class Tool:
    """A read with a result of 4 KB."""

    name = original = "read"
    server = "files"
    identity = "files 1"
    description = "Read a file."
    schema: Mapping[str, Any] = {"type": "object", "properties": {"path": {"type": "string"}}}
    read_only = True

    async def __call__(self, args: Mapping[str, Any]) -> tuple[str, Literal["success", "error"]]:
        return os.urandom(RESULT_BYTES // 2).hex(), "success"


def build(state: type[Any], memory: Memory) -> Session:
    graph = build_graph(
        Model(),
        [Tool()],
        routes={"all": ["read"]},
        route=OneRoute(),
        policy=decide,
        repair=repair,
        journal=memory.journal,
        seal=open_seal(None),
        window=Window(8192),
        system_prompt="You are a benchmark.",
        checkpointer=memory.saver,
        state=state,
    )
    return Session(
        graph,
        "benchmark",
        journal=memory.journal,
        threads=memory.threads,
        model_name=lambda: "none",
        translate=memory.translate,
        index=memory.index,
    )


@dataclass
class Thread:
    """One growing thread: bytes of its database and milliseconds of each turn, turn 1 first."""

    name: str
    session: Session
    memory: Memory
    sizes: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    async def turn(self) -> None:
        start = time.perf_counter()
        async for event in self.session.send("q" * 100):
            last = event
        if last.status != "ok":
            raise SystemExit(f"a turn failed: {last}")
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
                session = build(State if self.name == "ours" else PlainState, memory)
                start = time.perf_counter()
                await session.messages()
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


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=200, help="turns of both channels")
    parser.add_argument("--long", type=int, default=1050, help="turns of ours in all")
    args = parser.parse_args()
    turns = max(args.turns, 40)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))

        async def start(name: str, state: type[Any]) -> Thread:
            memory = await stack.enter_async_context(open_memory(folder / f"{name}.db"))
            return Thread(name, build(state, memory), memory)

        ours = await start("ours", State)
        plain = await start("add_messages", PlainState)
        for _ in range(turns):  # by turns, so that what else the machine does meets both
            await ours.turn()
            await plain.turn()
        good = compare(ours, plain, turns)
        good = await index_cost(folder / "index.db") and good
        for _ in range(args.long - turns):
            await ours.turn()
        return 0 if growth(ours) and good else 1


async def index_cost(path: Path) -> bool:
    """What the index of words adds to a file, against the texts that it holds."""
    root = Path(__file__).resolve().parents[1]
    files = sorted([*root.glob("*.md"), *root.glob("*.py"), *root.glob("local_agent/*/*.py")])
    whole = "".join(file.read_text(encoding="utf-8") for file in files)
    messages: list[AnyMessage] = []
    async with open_memory(path) as memory:
        assert memory.index is not None
        before = await _bytes(memory)
        for turn in range(INDEXED_TURNS):
            start = turn * RESULT_BYTES % (len(whole) - RESULT_BYTES)
            prompt, answer = whole[start : start + 100], whole[start + 500 : start + 700]
            result = whole[start : start + RESULT_BYTES]
            messages += [
                HumanMessage(prompt, id=uuid.uuid4().hex),
                ToolMessage(result, id=uuid.uuid4().hex, tool_call_id="c"),
                AIMessage(answer, id=uuid.uuid4().hex),
            ]
            await memory.index.sync("benchmark", messages)
        added = await _bytes(memory) - before
    size = sum(len(str(message.content).encode()) for message in messages)
    print(
        f"index of words, {INDEXED_TURNS} turns: {added:,.0f} bytes for {size:,} of text:"
        f" {added / size:.2f}  (limit {INDEX_LIMIT})"
    )
    return added / size <= INDEX_LIMIT


def compare(ours: Thread, plain: Thread, turns: int) -> bool:
    print(
        f"bytes after {turns} turns: {ours.sizes[-1]:,.0f} against {plain.sizes[-1]:,.0f}:"
        f" 1/{plain.sizes[-1] / ours.sizes[-1]:.0f}  (limit {SIZE_LIMIT:,.0f} at 200)"
    )
    grown = [around(t.times, turns) - around(t.times, 20) for t in (ours, plain)]
    ratio = grown[0] / grown[1]
    print(
        f"own time of a turn grows from turn 20 to {turns} by {grown[0]:.1f} ms"
        f" against {grown[1]:.1f} ms: {ratio:.2f}  (limit {GROWTH_LIMIT})"
    )
    return ratio <= GROWTH_LIMIT and (turns > 200 or ours.sizes[-1] < SIZE_LIMIT)


def growth(ours: Thread) -> bool:
    width = 50
    last = min(1000, len(ours.sizes) - width)
    if last <= 100 + 2 * width:
        return True
    early, late = (per_turn(ours.sizes, turn, width) for turn in (100, last))
    print(
        f"bytes a turn around {last} against 100 (±{width} turns):"
        f" {late:,.0f} / {early:,.0f} = {late / early:.2f}  (limit {TURN_LIMIT})"
    )
    return late / early <= TURN_LIMIT


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
