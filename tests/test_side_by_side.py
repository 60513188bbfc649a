"""Several processes on one database: each on a thread of its own, and two that want the same."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from local_agent.testing import Call, Reply, Say, ScriptedServer
from tests.graph_kit import ScriptedModel, open_session
from tests.program_kit import Done, Program, finish, side_by_side
from tests.test_program_crash import is_sound

pytestmark = pytest.mark.process
Start = Callable[..., ScriptedServer]


def answer(body: dict[str, Any]) -> Reply:
    """An echo of the prompt, in every third turn by a tool."""
    last = body["messages"][-1]["content"]
    number = int(re.findall(r"\d+", last)[-1])
    if number % 3 == 0 and body["messages"][-1]["role"] == "user":
        return Call("echo", {"text": f"echo {number}"}, f"call_{number}")
    return Say(f"got {number}")


async def stored(program: Program, thread: str) -> list[tuple[str, str]]:
    async with open_session(program.db, ScriptedModel([]), [], thread=thread) as session:
        assert not await session.is_unfinished()
        return [(m.type, str(m.content)) for m in await session.messages()]


def expected(turns: int) -> list[tuple[str, str]]:
    found = []
    for n in range(turns):
        found.append(("human", f"prompt {n}"))
        if n % 3 == 0:
            found += [("ai", ""), ("tool", f"echo {n}")]
        found.append(("ai", f"got {n}"))
    return found


async def run_all(folder: Path, scripted: Start, processes: int, turns: int) -> None:
    """So many processes at once, each with its own model server, thread and pipe of prompts."""
    servers = [scripted(answer) for _ in range(processes)]
    programs = [Program(folder / str(n), s.base_url) for n, s in enumerate(servers)]
    prompts = "".join(f"prompt {n}\n" for n in range(turns))
    db, (first, *_) = programs[0].db, programs
    given = folder / "prompts"
    given.write_text(prompts, encoding="utf-8")

    def start(number: int, program: Program) -> subprocess.Popen[bytes]:
        out, err = ((folder / f"{number}.{name}").open("wb") for name in ("out", "err"))
        with given.open() as source, closing(out), closing(err):
            args = ("-q", "--db", db, "--thread", f"thread {number}")
            return program.start(*args, stdin=source, stdout=out, stderr=err)

    started = [start(number, program) for number, program in enumerate(programs)]
    codes = [process.wait(60 + 5 * processes * turns) for process in started]
    errs = [(folder / f"{n}.err").read_text("utf-8") for n in range(processes)]
    said = {
        line
        for err in errs
        for line in err.splitlines()
        if not re.fullmatch(r"warning: The \d+ oldest turns do not fit .*", line)
    }
    assert (codes, said) == ([0] * processes, set())
    for number, server in enumerate(servers):
        out = (folder / f"{number}.out").read_text("utf-8")
        assert out == "".join(f"got {n}\n" for n in range(turns))
        assert await stored(first, f"thread {number}") == expected(turns)
        assert server.refused == []
    assert is_sound(db)


async def test_processes_on_threads_of_one_file(tmp_path: Path, scripted: Start) -> None:
    """D01, D02: nothing is lost, and nobody is told of an error."""
    await run_all(tmp_path, scripted, 4, 10)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_many_processes_on_threads_of_one_file(tmp_path: Path, scripted: Start) -> None:
    """The same with 8 processes and 100 turns each."""
    await run_all(tmp_path, scripted, 8, 100)


async def test_two_that_start_at_the_same_time(tmp_path: Path, scripted: Start) -> None:
    """D02: of two runs on one thread one is refused with the other's pid, or comes after it."""
    server = scripted(lambda body: Say("hi"), delay=0.05)
    program = Program(tmp_path, server.base_url, servers="")

    def run(name: str) -> Callable[[], Done]:
        def one() -> Done:
            process = program.start("-q", "-p", name)
            done = finish(process)
            pids[name] = process.pid
            return done

        return one

    pids: dict[str, int] = {}
    kept: list[str] = []
    for number in range(3):
        names = [f"{name} {number}" for name in "ab"]
        for name, done in zip(names, side_by_side(*map(run, names)), strict=True):
            if done.code == 0:
                kept.append(name)
                assert (done.out, done.err) == ("hi\n", "")
            else:
                (other,) = (pids[one] for one in names if one != name)
                assert (done.code, done.out) == (1, "")
                assert f"is open in another agent (pid {other})" in done.err
        assert len(kept) > number
    found = [text for kind, text in await stored(program, "default") if kind == "human"]
    assert sorted(found) == sorted(kept)
    assert server.refused == []
