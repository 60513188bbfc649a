"""What a long thread costs a new process: one of 1,000 turns beside one of 10.

    python benchmarks/open_thread.py [--turns N] [--rounds N]

Each turn of both is a prompt, a tool call, a result of 4 KB and an answer. In either thread every
fifteenth or so makes the prompt short again; the turn that is measured is none of those: a thread
that is about to have one gets it before. For each round a new process opens the database,
loads the thread and answers one more prompt, by turns for the short and the long thread, so that
what else the machine does meets both. Two things are measured, in milliseconds of processor time
(waiting for a disk is not the length of the thread), medians of all rounds:

    program  all of `agent -p`, from its start to its end; the model answers over HTTP
    inside   open the database, load the thread, run the turn, close; the libraries are loaded,
             and a turn has run before, on another thread

Exit 1 when the long thread takes more than 3 times what the short one takes, inside.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from storage import State, build

from local_agent.cli.opening import finish_open_turn
from local_agent.memory import open_memory
from local_agent.session import Session
from local_agent.testing import Say, ScriptedServer

ROOT = Path(__file__).resolve().parents[1]
SHORT = 10
LIMIT = 3.0
PROGRAM = "from local_agent.cli import main; main()"


async def grow(path: Path, turns: int) -> None:
    """A thread of that many turns at `path`."""
    async with open_memory(path) as memory:
        await send(build(State, memory), turns)


async def send(session: Session, turns: int) -> bool:
    """Run so many turns; whether the last one has made the prompt short again."""
    before = await marks(session)
    for _ in range(turns):
        before = await marks(session)
        async for event in session.send("q" * 100):
            last = event
        if last.status != "ok":
            raise SystemExit(f"a turn failed: {last}")
    return before != await marks(session)


async def marks(session: Session) -> tuple[Any, ...]:
    """What stands for the older messages of the prompt."""
    values = await session.values()
    return tuple(values.get(name) for name in ("compacted_upto", "stubbed_upto", "summary_upto"))


async def grow_past_a_step(path: Path) -> None:
    """One turn more at `path` where the next one would make the prompt short again."""
    copy = path.with_suffix(".copy")
    shutil.copy(path, copy)
    async with open_memory(copy) as memory:
        is_step = await send(build(State, memory), 1)
    if is_step:
        await grow(path, 1)


async def answer(path: Path) -> dict[str, float]:
    """Open the thread at `path` as a run does and answer one prompt; milliseconds of each part."""

    async def unasked(approval: object) -> None:
        raise SystemExit(f"nothing should be asked: {approval}")

    times = [("", time.process_time())]
    async with open_memory(path) as memory:
        session = build(State, memory)
        times.append(("open", time.process_time()))
        await session.messages()
        await finish_open_turn(session, print, unasked, None)
        times.append(("load", time.process_time()))
        async for _ in session.send("q" * 100):
            pass
        times.append(("turn", time.process_time()))
    times.append(("close", time.process_time()))
    took = {name: 1000 * (at - times[i][1]) for i, (name, at) in enumerate(times[1:])}
    return {**took, "inside": sum(took.values())}


async def inside(path: Path) -> None:
    """Print the parts for the thread at `path` as JSON, measured in this process."""
    with tempfile.TemporaryDirectory() as folder:
        await grow(Path(folder) / "other.db", 1)
    gc.collect()
    gc.freeze()  # as `import_stack` does
    print(json.dumps(await answer(path)))


def measure(command: list[str]) -> tuple[float, str]:
    """Milliseconds of processor time of a process and its children, and what it wrote."""
    before = os.times()
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, env=_environment()
    )
    after = os.times()
    spent = after.children_user - before.children_user
    spent += after.children_system - before.children_system
    return 1000 * spent, done.stdout


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def one_round(path: Path, config: Path) -> dict[str, float]:
    """One measurement of both kinds, each on a copy of the database at `path`."""
    copy = path.with_suffix(".copy")
    shutil.copy(path, copy)
    _, text = measure([sys.executable, __file__, "--inside", str(copy)])
    shutil.copy(path, copy)
    options = ["--config", str(config), "--db", str(copy), "--thread", "benchmark", "-q"]
    program, _ = measure([sys.executable, "-c", PROGRAM, *options, "-p", "hello"])
    return {**json.loads(text), "program": program}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=1000, help="turns of the long thread")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        asyncio.run(inside(args.inside))
        return 0
    found: dict[int, list[dict[str, float]]] = {SHORT: [], args.turns: []}
    with tempfile.TemporaryDirectory() as name, ScriptedServer([Say("hi")], repeat=True) as server:
        folder = Path(name)
        config = folder / "agent.toml"
        config.write_text(f'[model]\nbase_url = "{server.base_url}"\n', encoding="utf-8")
        for turns in found:
            asyncio.run(grow(folder / f"{turns}.db", turns))
            asyncio.run(grow_past_a_step(folder / f"{turns}.db"))
        for _ in range(args.rounds):
            for turns, rounds in found.items():
                rounds.append(one_round(folder / f"{turns}.db", config))
    ratios = {}
    for part in found[SHORT][0]:
        few, many = (median(one[part] for one in rounds) for rounds in found.values())
        ratios[part] = many / few
        print(f"{part:<8} {few:7.1f} ms  {many:7.1f} ms  {many / few:6.2f}")
    pairs = zip(*found.values(), strict=True)
    each = sorted(long["inside"] / short["inside"] for short, long in pairs)
    spread = f"{each[0]:.2f} to {each[-1]:.2f} in {len(each)} rounds"
    print(f"inside, {args.turns} turns against {SHORT}: {ratios['inside']:.2f}  (limit {LIMIT})")
    print(f"the same, round by round: {spread}")
    return 0 if ratios["inside"] <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
