"""The list that /rewind shows, at 10 and at 1,000 turns, and what a step back stores.

    python benchmarks/threads_rewind.py [--turns N]

Each turn is a prompt, a tool call, a result of 4 KB and an answer, run by the agent's own graph.
The list (turns with prompts, times and tools, and the branches) is compared with the bare SQL that
fetches the same rows and looks at none; a step back with `update_state` on the same checkpoint, by
the bytes that each adds to the rows. Exit 1 when a ratio is over its limit.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sqlite3
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agent_core.toolset import OneRoute
from agent_graph import build_graph
from context import Window
from local_agent.approval import decide
from local_agent.memory import Memory, open_memory
from local_agent.memory.branches import read_branches
from local_agent.memory.chain import read_turns
from local_agent.memory.crypt import Opened
from local_agent.memory.heads import config_of
from local_agent.repair import repair
from local_agent.seal import open_seal
from local_agent.session import Session
from local_agent.timeline import Timeline

SHORT = 10
RESULT_BYTES = 4096
RUNS = 15
BARE_LIMIT = 8.0  # the list against the bare SQL, at the long thread
STEP_LIMIT = 0.05  # what a step back adds, of what `update_state` adds at the long thread
BARE = (
    "SELECT checkpoint_id, parent_checkpoint_id, metadata FROM checkpoints"
    " WHERE thread_id = ? AND checkpoint_ns = ''",
    "SELECT checkpoint_id, value FROM writes"
    " WHERE thread_id = ? AND checkpoint_ns = '' AND channel = 'messages'"
    " AND task_path NOT LIKE '~__pregel_push%'",
)


class Model:
    """Calls the tool once a turn, then answers."""

    overflow: type[Exception] = ArithmeticError

    async def reply(self, messages: Sequence[AnyMessage], **options: Any) -> AIMessage:
        if isinstance(messages[-1], ToolMessage):
            return AIMessage("b" * 200, id=uuid.uuid4().hex)
        call = {"id": "call_1", "name": "read", "args": '{"path": "file"}'}
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


def session_of(memory: Memory, thread: str) -> tuple[Session, Timeline]:
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
    )
    session = Session(
        graph,
        thread,
        journal=memory.journal,
        threads=memory.threads,
        model_name=lambda: "none",
        translate=memory.translate,
    )
    return session, Timeline(graph, memory, thread)


async def fill(memory: Memory, thread: str, turns: int) -> None:
    session, _ = session_of(memory, thread)
    for number in range(turns):
        async for event in session.send(f"question {number} " + "q" * 80):
            last = event
        if last.status != "ok":
            raise SystemExit(f"a turn failed: {last}")


def took(work: Callable[[], Any]) -> float:
    """The median milliseconds of some runs, of this process alone: others may run beside it."""
    times = []
    for _ in range(RUNS):
        start = time.process_time()
        work()
        times.append(1000 * (time.process_time() - start))
    return median(times)


def lists(path: Path, turns: int) -> bool:
    with closing(sqlite3.connect(path, factory=Opened)) as conn:
        conn.use(None)  # nothing in it is encrypted

        def listed(thread: str) -> None:
            read_turns(conn, thread)
            read_branches(conn, thread)

        def bare(thread: str) -> None:
            for sql in BARE:
                conn.execute(sql, (thread,)).fetchall()

        if len(read_turns(conn, "long")) != turns:
            raise SystemExit("turns are missing in the list")
        short, long = took(lambda: listed("short")), took(lambda: listed("long"))
        rows = took(lambda: bare("long"))
    per_turn = (long / turns) / (short / SHORT)
    print(f"list of {SHORT} turns: {short:.1f} ms; of {turns:,}: {long:.1f} ms")
    print(f"a turn of the long list against one of the short: {per_turn:.2f}")
    ratio = f"{long / rows:.1f}  (limit {BARE_LIMIT:g})"
    print(f"the long list against the bare SQL ({rows:.1f} ms): {ratio}")
    return long / rows <= BARE_LIMIT


def stored(path: Path) -> int:
    with closing(sqlite3.connect(path, factory=Opened)) as conn:
        sql = (
            "SELECT (SELECT sum(length(checkpoint) + length(metadata)) FROM checkpoints)"
            " + (SELECT sum(length(value)) FROM writes)"
        )
        return int(conn.execute(sql).fetchone()[0])


async def steps(memory: Memory, path: Path) -> bool:
    _, timeline = session_of(memory, "long")
    turns = await timeline.turns()
    before = stored(path)
    start = time.perf_counter()
    await timeline.rewind(len(turns))
    ms = 1000 * (time.perf_counter() - start)
    ours = stored(path) - before
    await timeline.redo()
    base = config_of("long", turns[-1].checkpoint_before)
    before = stored(path)
    await timeline.graph.aupdate_state(base, {"messages": []}, as_node="agent")
    theirs = stored(path) - before
    print(
        f"a step back adds {ours:,} bytes ({ms:.0f} ms), update_state {theirs:,}:"
        f" {ours / theirs:.4f}  (limit {STEP_LIMIT})"
    )
    return ours / theirs <= STEP_LIMIT


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=1000, help="turns of the long thread")
    turns = max(parser.parse_args().turns, SHORT)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        async with open_memory(path) as memory:
            await fill(memory, "short", SHORT)
            await fill(memory, "long", turns)
            good = lists(path, turns)
            return 0 if await steps(memory, path) and good else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
