"""Pruning: the past goes, every state that stays is what it was, and the thread goes on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import aiosqlite
import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph

from context import text_of
from local_agent.cli import run
from local_agent.errors import ThreadError
from local_agent.events import ApprovalRequested, Decision
from local_agent.memory.chain import read_chain, turns_of
from local_agent.memory.prune import plan_of
from local_agent.memory.words import parse
from local_agent.session import Session
from local_agent.threads.prune import plans_of, prune_threads
from local_agent.threads.search import search_threads
from local_agent.timeline.edits import edit_result
from tests.graph_kit import ScriptedModel, ScriptedTool, call, collect, open_session, say
from tests.test_lock import holder
from tests.timeline_kit import answer, open_line, send, texts

TURNS = 6


class Killed(BaseException):
    """Stands for kill -9: nothing of the program runs after it."""


class BigTool(ScriptedTool):
    """A read with a result that takes some pages."""

    async def __call__(self, args: Any) -> tuple[str, str]:
        return f"{args} " + "result " * 1000, "success"


@asynccontextmanager
async def opened(path: Path, *replies: Any) -> AsyncIterator[Session]:
    tools = [BigTool("look"), ScriptedTool("book", read_only=False)]
    async with open_session(path, ScriptedModel(list(replies)), tools) as session:
        yield session


async def converse(path: Path) -> None:
    """Six turns: parallel reads, an allowed write, a course that was left, a removed message."""
    replies: list[Any] = []
    for n in range(TURNS + 1):
        calls = [("look", {"n": n, "i": i}) for i in range(3)] if n % 2 else [("book", {"n": n})]
        replies += [call(*calls), say(f"answer {n}")]
    async with opened(path, *replies) as session:
        graph, config = session._graph, session._config
        for n in range(TURNS):
            await play(session, session.send(f"prompt {n}"))
            if n == 2:
                before = (await graph.aget_state(config)).config
            if n == 3:  # this turn is left
                await graph.aupdate_state(before, {"route": "all"}, as_node="agent")
        removed = RemoveMessage(id=(await session.messages())[1].id or "")
        await graph.aupdate_state(config, {"messages": [removed]}, as_node="agent")


async def play(session: Session, events: Any) -> Any:
    last = (await collect(events))[-1]
    while isinstance(last, ApprovalRequested):
        yes = {c.call_id: Decision(True) for c in last.calls}
        last = (await collect(session.resume(last.id, yes)))[-1]
    return last


async def states(path: Path, thread: str = "t") -> dict[str, Any]:
    """What each checkpoint of the current course holds, as bytes, and what comes next."""
    with closing(sqlite3.connect(path)) as conn:
        steps = [step.checkpoint_id for step in read_chain(conn, thread)]
    found = {}
    async with open_session(path, ScriptedModel([]), [], thread=thread) as session:
        for step in steps:
            config: Any = {"configurable": {"thread_id": thread, "checkpoint_id": step}}
            state = await session._graph.aget_state(config)
            kind, blob = session._graph.checkpointer.serde.dumps_typed(state.values)
            tasks = [(task.id, task.name) for task in state.tasks]
            found[step] = (kind, blob, state.next, tasks, state.metadata)
    return found


def rows(path: Path) -> tuple[int, int]:
    with closing(sqlite3.connect(path)) as conn:
        counts = [conn.execute(f"SELECT count(*) FROM {t}") for t in ("checkpoints", "writes")]
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return counts[0].fetchone()[0], counts[1].fetchone()[0]


@pytest.mark.parametrize("keep", [0, 1, 2, TURNS, 100])
async def test_what_stays_is_as_it_was(tmp_path: Path, keep: int) -> None:
    """Every state that is kept is equal byte for byte, and the thread goes on from the last."""
    path = tmp_path / "m.db"
    await converse(path)
    before, size = await states(path), path.stat().st_size
    (plan,) = plans_of(path, "t", keep)
    done = await prune_threads(path, ["t"], keep)
    after = await states(path)

    assert (done.threads, done.refused) == (("t",), ())
    assert after == {step: before[step] for step in plan.kept}
    with closing(sqlite3.connect(path)) as conn:
        chain = read_chain(conn, "t")
        count = conn.execute("SELECT count(*) FROM checkpoints").fetchone()[0]
    assert count == len(chain) == len(plan.kept)  # nothing lies beside the course
    assert len(turns_of(chain)) == min(keep, 5)
    assert all(turn.is_reachable for turn in turns_of(chain))
    assert path.stat().st_size == size - done.freed
    assert done.freed > 0
    assert plans_of(path, "t", keep) == []

    async with opened(path, say("more")) as session:
        texts = [text_of(m.content) for m in await session.messages()]
        assert (await play(session, session.send("go on"))).answer == "more"
        now = [text_of(m.content) for m in await session.messages()]
    assert now == [*texts, "go on", "more"]
    assert [t for t in now if t.startswith("prompt")] == [f"prompt {n}" for n in (0, 1, 2, 4, 5)]


async def test_a_dry_run_says_what_goes_and_touches_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Turns, branches and about how many bytes; within a third of what is given back."""
    path = tmp_path / "m.db"
    await converse(path)
    content = path.read_bytes()
    assert run(["threads", "prune", "--db", str(path), "--keep", "2", "--dry-run", "--json"]) == 0
    (said,) = json.loads(capsys.readouterr().out)["threads"]
    assert (said["thread"], said["turns"]) == ("t", 3)
    assert run(["threads", "prune", "t", "--db", str(path), "--keep", "2", "--dry-run"]) == 0
    assert "'t': the way back to 3 turns" in capsys.readouterr().out
    assert path.read_bytes() == content
    done = await prune_threads(path, ["t"], 2)
    assert said["size"] == pytest.approx(done.freed, rel=0.35)


async def test_nothing_to_prune(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A thread of few turns and one course stays as it is, and that is said."""
    path = tmp_path / "m.db"
    async with opened(path, say("a")) as session:
        await play(session, session.send("p"))
    content = path.read_bytes()
    assert run(["threads", "prune", "--db", str(path)]) == 0
    assert run(["threads", "prune", "--db", str(tmp_path / "no.db")]) == 0
    assert capsys.readouterr().err.count("nothing to prune") == 2
    assert path.read_bytes() == content


async def test_a_waiting_approval_survives(tmp_path: Path) -> None:
    """Its question is the same, a yes runs the call once, and the thread goes on."""
    path = tmp_path / "m.db"
    book = ScriptedTool("book", read_only=False)
    replies: list[Any] = [say("a"), call(("book", {}))]
    async with open_session(path, ScriptedModel(replies), [book]) as session:
        await collect(session.send("first"))
        asked = (await collect(session.send("second")))[-1]
    await prune_threads(path, ["t"], 0)
    assert rows(path)[0] == 1
    async with open_session(path, ScriptedModel([say("done")]), [book]) as session:
        pending = await session.pending()
        assert pending == asked
        assert (
            await play(session, session.resume(asked.id, {"c1": Decision(True)}))
        ).status == "ok"
        texts = [text_of(m.content) for m in await session.messages()]
    assert len(book.ran) == 1
    assert texts == ["first", "a", "second", "", "book done", "done"]


async def test_an_unfinished_turn_goes_on(tmp_path: Path) -> None:
    """What was killed between parallel calls goes on after a pruning to the last state."""
    path = tmp_path / "m.db"

    async def die(args: Any) -> None:
        if args["n"] == 2:
            raise Killed

    tool = ScriptedTool("look", run=die)
    replies = [call(*(("look", {"n": n}) for n in range(3)))]
    with pytest.raises(Killed):
        async with open_session(path, ScriptedModel(list(replies)), [tool]) as session:
            await collect(session.send("go"))
    await prune_threads(path, ["t"], 0)
    tool.run = None
    async with open_session(path, ScriptedModel([say("done")]), [tool]) as session:
        assert await session.is_unfinished()
        assert (await collect(session.proceed()))[-1].answer == "done"
        assert len(await session.messages()) == 6


async def test_a_thread_of_the_plain_saver(tmp_path: Path) -> None:
    """D07: a file that another program made, with all messages at each step, becomes small.

    It has no way to give single pages back, so it is written anew once, which is said.
    """
    path = tmp_path / "m.db"
    graph = StateGraph(MessagesState)
    graph.add_node("agent", lambda state: {"messages": [AIMessage("x" * 3000)]})
    graph.add_edge(START, "agent")
    graph.add_edge("agent", END)
    config: Any = {"configurable": {"thread_id": "t"}}
    async with aiosqlite.connect(path) as conn:
        plain = graph.compile(checkpointer=AsyncSqliteSaver(conn))
        for n in range(20):
            await plain.ainvoke({"messages": [HumanMessage(f"p{n}")]}, config)
        wanted = [m.content for m in (await plain.aget_state(config)).values["messages"]]
    done = await prune_threads(path, ["t"], 1)
    assert "written anew as a whole" in done.notes[0]
    assert done.freed > 1_000_000
    async with aiosqlite.connect(path) as conn:  # the other program reads on
        plain = graph.compile(checkpointer=AsyncSqliteSaver(conn))
        state = await plain.aget_state(config)
    assert [m.content for m in state.values["messages"]] == wanted
    async with opened(path, say("more")) as session:
        await play(session, session.send("go on"))
    assert (await prune_threads(path, ["t"], 1)).notes == ()


async def test_a_thread_that_is_open_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It stays as it is, its process is named; pruning all leaves it out and is no failure."""
    path = tmp_path / "m.db"
    await converse(path)
    before = rows(path)
    options = ["--keep", "1", "--db", str(path)]
    with holder(path, "t") as process:
        assert await asyncio.to_thread(run, ["threads", "prune", "t", *options]) == 1
        assert await asyncio.to_thread(run, ["threads", "prune", *options]) == 0
        text = f"thread 't' is open in another agent (pid {process.pid})"
        assert [line.partition(text)[0] for line in capsys.readouterr().err.splitlines()] == [
            "error: ",
            "",
        ]
        assert rows(path) == before
    assert await asyncio.to_thread(run, ["threads", "prune", *options]) == 0
    assert rows(path) < before


async def test_branches_go_and_redo_with_them(tmp_path: Path) -> None:
    """What was rewound is dropped for good; where the thread stands is kept, and can be undone."""
    path = tmp_path / "m.db"
    replies: list[Any] = [say(f"answer {n}") for n in range(4)]
    async with open_line(path, [*replies, say("other")]) as (session, timeline, _):
        for n in range(4):
            await send(session, f"prompt {n}")
        await timeline.rewind(4)
        await send(session, "instead")
        await timeline.undo()
        assert len(await timeline.branches()) == 2
    (plan,) = plans_of(path, None, 20)
    assert (plan.turns, plan.branches, plan.rewrite) == (0, 2, False)
    before = await states(path)
    done = await prune_threads(path, ["t"], 20)
    assert done.threads == ("t",)
    assert await states(path) == before
    async with open_line(path, [say("more")]) as (session, timeline, _):
        assert await timeline.branches() == []
        with pytest.raises(ThreadError, match="nothing to bring back"):
            await timeline.redo()
        assert [turn.prompt for turn in await timeline.turns()] == [f"prompt {n}" for n in range(3)]
        assert (await timeline.rewind(2)).draft == "prompt 1"
        await send(session, "go on")
        assert texts(await session.messages())[-2:] == ["human: go on", "ai: more"]
        assert b"instead" not in path.read_bytes()


async def test_older_turns_are_listed_and_cannot_be_turned_back_to(tmp_path: Path) -> None:
    """After a pruning the turns keep their numbers; those that are gone say so."""
    path = tmp_path / "m.db"
    await converse(path)
    await prune_threads(path, ["t"], 2)
    async with open_line(path, [say("more")]) as (session, timeline, _):
        turns = await timeline.turns()
        assert [(t.number, t.prompt, t.is_reachable) for t in turns] == [
            (1, "prompt 0", False),
            (2, "prompt 1", False),
            (3, "prompt 2", False),
            (4, "prompt 4", True),
            (5, "prompt 5", True),
        ]
        await timeline.rewind(4)
        await send(session, "go on")
        assert texts(await session.messages())[-2:] == ["human: go on", "ai: more"]
        with pytest.raises(ThreadError):
            await timeline.rewind(3)
    assert search_threads(path, parse('"prompt 4"')).total == 0
    assert [h.turn for h in search_threads(path, parse('"go on"')).hits] == [4]


LONG = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 30)]


@pytest.mark.parametrize("seed", [*range(3), *LONG])
async def test_any_order_of_turns_and_prunings(tmp_path: Path, seed: int) -> None:
    """Turns, steps back, corrections and prunings as they come: nothing that stands is changed.

    After each step the messages are those that were, and the search finds just the prompts that
    stand in the thread.
    """
    path, chance = tmp_path / "m.db", random.Random(seed)
    tools = [ScriptedTool("look"), ScriptedTool("book", read_only=False)]
    said: list[str] = []
    for step in range(14):
        kind = chance.choice(["turn", "turn", "turn", "undo", "redo", "edit", "prune", "fork"])
        replies: list[Any] = [call(("look", {"n": step}), ("book", {})), say(f"answer{step}")]
        async with open_line(path, replies, tools) as (session, timeline, _):
            before = texts(await session.messages())
            kind = kind if before else "turn"
            with contextlib.suppress(ThreadError):
                if kind == "turn":
                    said.append(f"prompt{step}")
                    await send(session, said[-1], True)
                elif kind == "undo":
                    await timeline.undo()
                elif kind == "redo":
                    await timeline.redo()
                elif kind == "edit":
                    await edit_result(timeline, f"r{chance.randrange(1, 6)}", f"corrected{step}")
                    await answer(session, (await collect(session.proceed()))[-1])
                elif kind == "fork":
                    end = (await timeline.turns())[-1].checkpoint_end
                    await timeline.memory.heads.fork("t", f"copy{step}", end or "")
        if kind == "prune":
            old = await states(path)
            await prune_threads(path, ["t"], chance.choice([0, 1, 2, 3, 20]))
            assert (await states(path)).items() <= old.items()
        rows(path)
        async with open_line(path) as (session, _, _):
            stands = [text_of(m.content) for m in await session.messages() if m.type == "human"]
            assert kind != "prune" or texts(await session.messages()) == before
        for prompt in said:
            hits = search_threads(path, parse(prompt), thread="t").hits if stands else []
            assert [hit.turn for hit in hits] == [
                n for n, text in enumerate(stands, 1) if text == prompt
            ]


KILLED = """
import asyncio, os, pathlib, signal, sys
from local_agent.memory import open_memory
from local_agent.threads.prune import prune_open
left = iter(range(int(sys.argv[2]), -1, -1))
def step():
    if next(left, -1) == 0:
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
async def main():
    async with open_memory(pathlib.Path(sys.argv[1])) as memory:
        memory.statements.conn.opened.set_progress_handler(step, 100)
        await prune_open(memory, "t", 2)
asyncio.run(main())
"""


@pytest.mark.process
async def test_a_kill_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    """Killed with -9 after ever more of SQLite's steps: all is as before, or all is pruned."""
    original = tmp_path / "original.db"
    await converse(original)
    old = await states(original)
    with closing(sqlite3.connect(original)) as conn:
        plan = plan_of(conn, "t", 2)
    assert plan is not None
    steps, ended = 1, False
    seen = set()
    while not ended:
        path = tmp_path / f"{steps}.db"
        shutil.copy(original, path)
        command = [sys.executable, "-c", KILLED, str(path), str(steps)]
        ended = subprocess.run(command, timeout=60, check=False).returncode == 0
        after = await states(path)
        rows(path)
        seen.add(after == old)
        assert after in (old, {step: old[step] for step in plan.kept})
        steps *= 3
    assert seen == {True, False}
