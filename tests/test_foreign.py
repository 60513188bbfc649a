"""Databases that other programs wrote, or older versions: what they hold is listed and goes on."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from local_agent.foreign import adopt
from local_agent.memory import open_memory
from local_agent.testing import Say, ScriptedServer
from local_agent.threads import list_threads
from tests.foreign import BROKEN, FILE, WHOLE, plain_graph, write_foreign
from tests.graph_kit import ScriptedModel, ScriptedTool, collect, open_session, say
from tests.program_kit import Program, text_of
from tests.test_faults import is_one_line, small_disk

Start = Callable[..., ScriptedServer]
CALLS = ["user: read two files", "assistant: ", "tool: a is 42", "tool: b is 42"]
SENT = {
    "chat": [*CALLS, "assistant: answer to You are somebody else.", "user: and now?"],
    "dangling": ["user: read", "assistant: ", "tool: c is 1", "tool: [no result: interrupted]"],
    "extra": ["user: hello", "assistant: answer to hello\n\na remark", "user: and on"],
    "metadata": ["user: hello", "assistant: answer to hello"],
    "asked": ["user: write it down", "assistant: ", "tool: Not run here", "assistant: [stopped]"],
    "died": ["user: die here", "assistant: ", "tool: Not run here", "assistant: [stopped]"],
}


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The file as an earlier LangGraph wrote it; it lies in this repository."""
    return Path(shutil.copy(FILE, tmp_path / "memory.db"))


@pytest.fixture(params=["kept", "new"])
def foreign(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """That file, and one that the installed LangGraph writes."""
    path = tmp_path / "memory.db"
    if request.param == "new":
        write_foreign(path)
    else:
        shutil.copy(FILE, path)
    return path


def begins(sent: list[str], expected: list[str]) -> bool:
    """Whether each line that was sent begins as expected; more may follow."""
    return all(map(str.startswith, sent, expected)) and len(sent) > len(expected)


@pytest.mark.process
def test_d06_threads_of_another_program_go_on(kept: Path, scripted: Start) -> None:
    """D06: each is listed, opened and continued; its open steps are not run, its questions gone.

    What cannot be read is one line that names the thread, and the others work.
    """
    server = scripted(lambda body: Say("a new answer"))
    program = Program(kept.parent, server.base_url)
    listed = program.run("threads", "list")
    assert {line.split()[0] for line in listed.out.splitlines()[1:]} == {*WHOLE, *BROKEN}
    waiting = program.run("approvals", "list")
    assert (waiting.code, waiting.out) == (0, "")
    assert "'asked' is damaged, or another program's" in waiting.err

    runs = program.run_all(*(["--thread", t, "-p", "go on"] for t in (*WHOLE, *BROKEN)))
    for thread, done in zip(WHOLE, runs, strict=False):
        assert (done.code, done.out) == (0, "a new answer\n"), done
        assert "warning" not in done.err
        assert "Blocked" not in done.err  # LangGraph's log is not for the user
        assert any(begins(text_of(body), SENT[thread]) for body in server.requests), thread
    for thread, done in zip(BROKEN, runs[len(WHOLE) :], strict=True):
        assert (done.code, done.out, done.err.count("\n")) == (1, "", 1), done
        assert done.err.startswith(f"error: The thread '{thread}' cannot be read: ")
    assert (server.refused, program.written()) == ([], [])
    titles = {info.thread: info.title for info in list_threads(program.db)}
    assert titles["chat"] == "read two files"
    with closing(sqlite3.connect(kept)) as conn:
        rows = "SELECT count(*) FROM checkpoints WHERE thread_id IN (?, ?)"
        assert conn.execute(rows, BROKEN).fetchone() == (6,)  # nothing is lost of them


@pytest.mark.parametrize("thread", WHOLE)
async def test_a_foreign_thread_is_taken_over_once(foreign: Path, thread: str) -> None:
    """The turn that was left open is closed at the first opening, and only then."""
    model = ScriptedModel([say("one"), say("two")])
    tool = ScriptedTool("write", read_only=False)
    counts = []
    async with open_session(foreign, model, [tool], thread=thread) as session:
        for text in ("first", "second"):
            async with open_memory(foreign) as memory:
                await adopt(session._graph, memory.threads, thread)
            assert await session.pending() is None
            assert not await session.is_unfinished()
            counts.append(len(await session.messages()))
            assert (await collect(session.send(text)))[-1].status == "ok"
    assert counts[1] == counts[0] + 2
    assert tool.ran == []
    sent = [
        f"{m.type.replace('ai', 'assistant').replace('human', 'user')}: {m.content}"
        for m in model.asked[0]["messages"][1:]
    ]
    assert begins(sent, SENT[thread])


async def test_the_other_program_can_go_on_too(foreign: Path) -> None:
    """What we add keeps the plain saver from nothing: it reads on, with what we said."""
    async with open_session(foreign, ScriptedModel([say("ours")]), [], thread="chat") as session:
        await collect(session.send("to us"))
    async with AsyncSqliteSaver.from_conn_string(str(foreign)) as saver:
        config: Any = {"configurable": {"thread_id": "metadata"}}
        state = await plain_graph(saver).ainvoke({"messages": [HumanMessage("back")]}, config)
        assert state["messages"][-1].content == "answer to back"


# -- a copy first ----------------------------------------------------------------------------------


def copies(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}.backup-*"))


@pytest.mark.process
def test_d06_a_copy_is_made_before_the_file_is_changed(kept: Path, scripted: Start) -> None:
    """D06: what another program wrote is kept as it was, once, and that is said in one line."""
    program = Program(kept.parent, scripted(lambda body: Say("ok")).base_url, servers="")
    before = kept.read_bytes()
    assert program.run("threads", "list").code == 0  # only looks, and makes no copy
    assert (copies(kept), kept.read_bytes()) == ([], before)
    runs = [program.run("--thread", thread, "-p", "on") for thread in ("chat", "extra")]
    assert [done.code for done in runs] == [0, 0], runs
    (copy,) = copies(kept)
    said = [line for done in runs for line in done.err.splitlines() if copy.name in line]
    assert len(said) == 1
    assert str(kept) in said[0]
    if sys.platform != "win32":
        assert copy.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(copy)) as conn, closing(sqlite3.connect(FILE)) as old:
        assert list(conn.iterdump()) == list(old.iterdump())
    assert not [one for one in kept.parent.iterdir() if ".part" in one.name]
    done = program.run("threads", "list", "--db", copy)
    assert (done.code, "chat" in done.out) == (0, True)


@pytest.mark.parametrize("command", ["rename", "import", "show"])
@pytest.mark.process
def test_d06_every_command_that_changes_it_makes_the_copy(kept: Path, command: str) -> None:
    """Also where no conversation is opened."""
    program = Program(kept.parent, "http://127.0.0.1:9", servers="")
    talk = kept.parent / "talk.json"
    talk.write_text('[{"role": "user", "content": "hi"}]', "utf-8")
    args = {"rename": ["chat", "talk"], "import": [talk], "show": ["chat"]}[command]
    done = program.run("threads", command, *args)
    assert done.code == 0, done
    assert done.err.count(copies(kept)[0].name) == 1


@pytest.mark.process
def test_d06_no_copy_no_change(tmp_path: Path, scripted: Start) -> None:
    """No room for a copy: one line, and not a byte of the file is another; with room it goes on."""
    program = Program(tmp_path, scripted(lambda body: Say("ok")).base_url, servers="")
    with small_disk(FILE.stat().st_size // 1024 + 100) as disk:
        db = Path(shutil.copy(FILE, disk / "memory.db"))
        before = db.read_bytes()
        done = program.run("-q", "--db", db, "--thread", "chat", "-p", "on")
        is_one_line(done, "no copy of it could be made", str(db))
        assert [one.name for one in disk.iterdir() if "backup" in one.name] == []
        assert db.read_bytes() == before
        subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
        done = program.run("-q", "--db", db, "--thread", "chat", "-p", "on")
        assert (done.code, len(copies(db))) == (0, 1), done


async def test_our_own_file_is_not_copied(tmp_path: Path) -> None:
    """Nor a new one."""
    path = tmp_path / "memory.db"
    for text in ("one", "two"):
        async with open_session(path, ScriptedModel([say(text)]), []) as session:
            await collect(session.send(text))
    assert copies(path) == []


# -- state of other versions ----------------------------------------------------------------------


async def test_d06_a_field_too_many_and_one_too_few(tmp_path: Path) -> None:
    """D06: a field that this version has no more is passed over, a new one begins empty."""
    path = tmp_path / "memory.db"
    async with open_session(path, ScriptedModel([say("one")]), []) as session:
        await collect(session.send("first"))
    async with open_memory(path) as memory:
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        found = await memory.saver.aget_tuple(config)
        assert found is not None
        checkpoint = found.checkpoint
        for part in (checkpoint["channel_values"], checkpoint["channel_versions"]):
            part["mood"] = part["route"]  # type: ignore[index]
            del part["route"], part["decisions"]  # type: ignore[attr-defined]
        where: Any = {"configurable": {**config["configurable"], "checkpoint_id": checkpoint["id"]}}
        newest = {**checkpoint, "id": str(uuid6())}
        await memory.saver.aput(where, newest, found.metadata, {})  # type: ignore[arg-type]
    async with open_session(path, ScriptedModel([say("two")]), []) as session:
        assert [m.content for m in await session.messages()] == ["first", "one"]
        last = (await collect(session.send("second")))[-1]
        assert (last.status, last.answer) == ("ok", "two")
        assert [type(m) for m in await session.messages()] == [HumanMessage, AIMessage] * 2
