"""Lists of threads and of waiting approvals, from files that we and others wrote."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, TypedDict

import aiosqlite
import pytest
from click.testing import CliRunner
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt

from agent_graph import messages_channel
from local_agent.cli.threads import local_time, table
from local_agent.cli.threads import threads as app
from local_agent.errors import StorageError
from local_agent.memory import open_memory
from local_agent.threads import ThreadInfo, list_threads, pending_approvals


class State(TypedDict):
    messages: Annotated[list[Any], messages_channel()]


class PlainState(TypedDict):
    messages: Annotated[list[Any], add_messages]


def asking_graph(saver: Any, state: Any = State, *, questions: int = 1, crash: bool = False) -> Any:
    """Asks `questions` times in one node before it answers; `crash`: dies after the answer."""

    def ask(state: Mapping[str, Any]) -> Any:
        answers = [interrupt({"question": i}) for i in range(questions)]
        if crash:
            raise RuntimeError("crash")
        return {"messages": [AIMessage(str(answers))]}

    graph = StateGraph(state)
    graph.add_node("ask", ask)
    graph.add_node("after", lambda state: {"messages": [AIMessage("after")]})
    graph.add_edge(START, "ask")
    graph.add_edge("ask", "after")
    graph.add_edge("after", END)
    return graph.compile(checkpointer=saver)


def config_of(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


async def ask(saver: Any, thread: str, **options: Any) -> Any:
    graph = asking_graph(saver, **options)
    await graph.ainvoke({"messages": [HumanMessage("do")]}, config_of(thread), durability="sync")
    return graph


# -- threads --------------------------------------------------------------------------------------


def test_no_file_is_no_thread(tmp_path: Path) -> None:
    """A missing file lists nothing and is not made."""
    assert list_threads(tmp_path / "memory.db") == []
    assert pending_approvals(tmp_path / "memory.db") == []
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_no_thread(tmp_path: Path) -> None:
    """An empty file lists nothing."""
    (tmp_path / "memory.db").touch()
    assert list_threads(tmp_path / "memory.db") == []
    assert pending_approvals(tmp_path / "memory.db") == []


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    """A text file is one clear error."""
    (tmp_path / "memory.db").write_text("hello")
    with pytest.raises(StorageError, match="is not a database"):
        list_threads(tmp_path / "memory.db")


async def test_used_last_comes_first(tmp_path: Path) -> None:
    """Threads come by their last use, with what was entered, cut at the limit."""
    path = tmp_path / "memory.db"
    async with open_memory(path) as memory:
        for name in ("a", "b", "c"):
            await memory.threads.touch(name, title=name.upper(), messages=4, turns=1, model="m")
        await memory.threads.touch("a", turns=2)
        assert [t.thread for t in list_threads(path)] == ["a", "c", "b"]  # beside the open one
    first, second = list_threads(path, limit=2)
    assert (first.title, first.turns, first.messages, first.model) == ("A", 2, 4, "m")
    assert second.thread == "c"
    assert first.updated - datetime.now(UTC) < timedelta(0)
    assert [p.name for p in tmp_path.iterdir()] == ["memory.db"]


async def test_threads_of_the_plain_saver(tmp_path: Path) -> None:
    """A file of the plain checkpointer is listed by its checkpoints and stays as it is."""
    path = tmp_path / "memory.db"
    before = datetime.now(UTC) - timedelta(seconds=1)
    async with aiosqlite.connect(path) as conn:
        for thread in ("one", "two"):
            await ask(AsyncSqliteSaver(conn), thread, state=PlainState)
    content = path.read_bytes()
    found = list_threads(path)
    assert [t.thread for t in found] == ["two", "one"]
    assert all(before < t.created < t.updated <= datetime.now(UTC) for t in found)
    assert (found[0].title, found[0].turns) == ("", None)
    assert path.read_bytes() == content


async def test_both_kinds_together(tmp_path: Path) -> None:
    """A thread that has an entry and checkpoints is listed once."""
    path = tmp_path / "memory.db"
    async with open_memory(path) as memory:
        await ask(memory.saver, "old")
        await ask(memory.saver, "new")
        await memory.threads.touch("new", title="N")
    assert [(t.thread, t.title) for t in list_threads(path)] == [("new", "N"), ("old", "")]


async def test_blobs_are_not_read(tmp_path: Path) -> None:
    """Listing needs no checkpoint that can be read."""
    path = tmp_path / "memory.db"
    async with open_memory(path) as memory:
        await ask(memory.saver, "t")
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("UPDATE checkpoints SET checkpoint = x'c1', metadata = x'c1'")
        conn.execute("UPDATE writes SET value = x'c1'")
        conn.commit()
    assert [t.thread for t in list_threads(path)] == ["t"]


# -- approvals ------------------------------------------------------------------------------------


async def test_a_question_waits(tmp_path: Path) -> None:
    """A waiting question is listed with LangGraph's id, the thread and the value."""
    path = tmp_path / "memory.db"
    async with open_memory(path) as memory:
        graph = await ask(memory.saver, "t")
        (shown,) = (await graph.aget_state(config_of("t"))).interrupts
        (found,) = pending_approvals(path)
    assert (found.id, found.thread, found.value) == (shown.id, "t", {"question": 0})
    assert timedelta(0) < datetime.now(UTC) - found.created < timedelta(minutes=1)
    assert len(found.id) == 32


async def test_an_answered_question_does_not_wait(tmp_path: Path) -> None:
    """After the answer nothing waits, in this thread only."""
    path = tmp_path / "memory.db"
    async with open_memory(path) as memory:
        graph = await ask(memory.saver, "a")
        await ask(memory.saver, "b")
        await graph.ainvoke(Command(resume="yes"), config_of("a"), durability="sync")
    assert [p.thread for p in pending_approvals(path)] == ["b"]


async def test_a_crash_after_the_answer(tmp_path: Path) -> None:
    """A question whose node died on the answer waits again, as LangGraph itself says."""
    path = tmp_path / "memory.db"
    async with open_memory(path) as memory:
        await ask(memory.saver, "t")
        graph = asking_graph(memory.saver, crash=True)
        with pytest.raises(RuntimeError, match="crash"):
            await graph.ainvoke(Command(resume="yes"), config_of("t"), durability="sync")
        (shown,) = (await graph.aget_state(config_of("t"))).interrupts
    assert [p.id for p in pending_approvals(path)] == [shown.id]


async def test_a_question_whose_result_is_stored(tmp_path: Path) -> None:
    """Between the result of the node and the next checkpoint nothing waits."""
    path = tmp_path / "memory.db"
    async with open_memory(path) as memory:
        graph = await ask(memory.saver, "t")
        head = (await graph.aget_state(config_of("t"))).config
        await graph.ainvoke(Command(resume="yes"), config_of("t"), durability="sync")
    with closing(sqlite3.connect(path)) as conn:  # as a kill at that moment leaves it
        conn.execute(
            "DELETE FROM checkpoints WHERE checkpoint_id > ?",
            (head["configurable"]["checkpoint_id"],),
        )
        conn.commit()
    assert pending_approvals(path) == []


async def test_a_question_left_behind_does_not_wait(tmp_path: Path) -> None:
    """A question of an earlier checkpoint is over when the thread went on without it."""
    path = tmp_path / "memory.db"
    async with open_memory(path) as memory:
        graph = await ask(memory.saver, "t")
        await graph.aupdate_state(config_of("t"), {"messages": [AIMessage("no")]}, as_node="after")
    assert pending_approvals(path) == []


# -- the command ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "shown"),
    [
        ("America/Los_Angeles", "2026-10-31 16:30 -0700"),
        ("Asia/Kolkata", "2026-11-01 05:00 +0530"),
        ("UTC", "2026-10-31 23:30 +0000"),
    ],
)
def test_d13_times_are_local(tmp_path: Path, zone: str, shown: str) -> None:
    """D13: a list shows the user's time with its offset; what is stored is the instant."""
    path = tmp_path / "memory.db"

    async def write() -> None:
        async with open_memory(path) as memory:
            await memory.threads.touch("t", title="T", turns=1)

    asyncio.run(write())
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("UPDATE agent_threads SET updated = '2026-10-31T23:30:00.000000+00:00'")
        conn.commit()
    code = "import sys; from local_agent.cli.threads import threads as app; app(sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", code, "list", "--db", str(path)],
        env=os.environ | {"TZ": zone},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1] == f"t       {shown}      1  T"


@pytest.mark.skipif(os.name == "nt", reason="TZ is POSIX")
def test_d13_around_a_clock_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """D13: the hour that comes twice in autumn is told apart by its offset."""
    import time

    monkeypatch.setenv("TZ", "America/Los_Angeles")
    time.tzset()
    try:
        first = datetime(2026, 11, 1, 8, 30, tzinfo=UTC)
        assert local_time(first) == "2026-11-01 01:30 -0700"
        assert local_time(first + timedelta(hours=1)) == "2026-11-01 01:30 -0800"
    finally:
        monkeypatch.undo()
        time.tzset()


async def test_list_command(tmp_path: Path) -> None:
    """The table is aligned, control characters are shown, JSON is whole."""
    path = tmp_path / "memory.db"
    async with open_memory(path) as memory:
        await memory.threads.touch("a", title="first\x1b[31m line", turns=12)
        await ask(memory.saver, "longer name")
    run = CliRunner()
    lines = run.invoke(app, ["list", "--db", str(path)]).stdout.splitlines()
    assert lines[0].split() == ["THREAD", "USED", "TURNS", "TITLE"]
    assert lines[1].startswith("longer name  ")
    assert lines[1].endswith("  -")
    assert lines[2].startswith("a            ")
    assert "\x1b" not in lines[2]
    assert lines[2].index("first") == lines[0].index("TITLE")
    data = json.loads(run.invoke(app, ["list", "--db", str(path), "--json"]).stdout)["threads"]
    assert [t["thread"] for t in data] == ["longer name", "a"]
    assert data[1]["title"] == "first\x1b[31m line"
    assert datetime.fromisoformat(data[1]["updated"]).utcoffset() == timedelta(0)


def test_a_long_name_is_cut_at_a_terminal_alone() -> None:
    """A name of 200 characters leaves room for the rest; a script gets it whole."""
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    found = [ThreadInfo(name, moment, moment, "a title") for name in ("n" * 200, "short")]
    assert max(map(len, table(found))) < 80
    assert table(found)[1].startswith(f"{'n' * 29}…  {local_time(moment)}")
    assert "n" * 200 in table(found, None)[1]


def test_list_command_without_a_file(tmp_path: Path) -> None:
    """No file: said on stderr, stdout stays empty; JSON has an empty list."""
    path = str(tmp_path / "memory.db")
    result = CliRunner().invoke(app, ["list", "--db", path])
    assert (result.exit_code, result.stdout) == (0, "")
    assert "No threads in" in result.stderr
    whole = CliRunner().invoke(app, ["list", "--db", path, "--json"]).stdout
    assert json.loads(whole) == {"schema_version": 1, "threads": []}


def test_listing_imports_no_langchain(tmp_path: Path) -> None:
    """`threads list` must not wait for the libraries of the model."""
    code = """
import sys
from local_agent.cli.threads import threads as app
try:
    app(["list", "--db", sys.argv[1]])
except SystemExit:
    pass
heavy = {"langchain_core", "langgraph", "openai", "mcp"} & {m.split(".")[0] for m in sys.modules}
assert not heavy, heavy
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "memory.db")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
