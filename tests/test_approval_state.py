"""What a person allowed counts as they saw it, in that very run, for the server it named."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage

from local_agent.errors import StorageError
from local_agent.events import ApprovalRequested, Decision
from local_agent.memory import open_memory
from local_agent.memory.saver import StrictSerializer
from tests.graph_kit import (
    ScriptedModel,
    ScriptedTool,
    call,
    cancel_when,
    collect,
    open_session,
    say,
)


async def park(path: Path, *tools: ScriptedTool) -> ApprovalRequested:
    """A thread that waits with a call of the first tool."""
    async with open_session(
        path, ScriptedModel([call((tools[0].name, {"p": 1}))]), tools
    ) as session:
        asked = (await collect(session.send("go")))[-1]
    assert isinstance(asked, ApprovalRequested)
    return asked


def change(path: Path, sql: str, *values: Any) -> None:
    with closing(sqlite3.connect(path)) as conn:
        assert conn.execute(sql, values).rowcount > 0
        conn.commit()


def question(path: Path) -> Any:
    """The stored interrupt."""
    asked = "SELECT type, value FROM writes WHERE channel = '__interrupt__'"
    with closing(sqlite3.connect(path)) as conn:
        (interrupt,) = StrictSerializer(path).loads_typed(conn.execute(asked).fetchone())
    return interrupt


def stored(path: Path, value: Any) -> tuple[str, bytes]:
    return StrictSerializer(path).dumps_typed(value)


@pytest.mark.parametrize("keep_question", [True, False])
async def test_an_answer_in_the_file_does_not_count(tmp_path: Path, keep_question: bool) -> None:
    """An answer that somebody wrote into the database runs nothing: the question comes again."""
    write, path = ScriptedTool("wipe", read_only=False), tmp_path / "m.db"
    await park(path, write)
    kind, value = stored(path, [{"c1": {"approve": True, "scope": "thread"}}])
    change(
        path,
        "INSERT INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type,"
        " value, task_path) SELECT thread_id, checkpoint_ns, checkpoint_id, task_id, -4,"
        " '__resume__', ?, ?, task_path FROM writes WHERE channel = '__interrupt__'",
        kind,
        value,
    )
    if not keep_question:
        change(path, "DELETE FROM writes WHERE channel = '__interrupt__'")
    async with open_session(path, ScriptedModel([say("done")]), [write]) as session:
        asked = await session.pending()
        if asked is None:
            asked = (await collect(session.proceed()))[-1]
        assert isinstance(asked, ApprovalRequested)
        await collect(session.resume(asked.id, {"c1": Decision(False, "never")}))

    assert write.ran == []


async def test_a_database_with_triggers_is_refused(tmp_path: Path) -> None:
    """What is in the file must not act by itself."""
    path = tmp_path / "m.db"
    await park(path, ScriptedTool("wipe", read_only=False))
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("CREATE TRIGGER t AFTER INSERT ON writes BEGIN SELECT 1; END")
        conn.commit()

    with pytest.raises(StorageError, match="not a database of this program"):
        async with open_memory(path):
            pass


async def test_what_was_shown_is_what_runs(tmp_path: Path) -> None:
    """A stored question that does not show the call: a yes to it runs nothing, and asks anew."""
    write, path = ScriptedTool("wipe", read_only=False), tmp_path / "m.db"
    await park(path, write)
    with closing(sqlite3.connect(path)) as conn:
        row = conn.execute(
            "SELECT type, value FROM writes WHERE channel = '__interrupt__'"
        ).fetchone()
    (interrupt,) = StrictSerializer(path).loads_typed(row)
    interrupt.value["calls"][0]["args"] = {"p": "harmless"}
    _, value = stored(path, [interrupt])
    change(path, "UPDATE writes SET value = ? WHERE channel = '__interrupt__'", value)
    async with open_session(path, ScriptedModel([say("done")]), [write]) as session:
        asked = await session.pending()
        assert asked is not None
        assert asked.calls[0].args == {"p": "harmless"}
        again = (await collect(session.resume(asked.id, {"c1": Decision(True)})))[-1]
        assert isinstance(again, ApprovalRequested)
        assert again.calls[0].args == {"p": 1}
        assert write.ran == []
        await collect(session.resume(again.id, {"c1": Decision(True)}))

    assert write.ran == [{"p": 1}]


async def test_a_yes_is_for_the_server_that_was_shown(tmp_path: Path) -> None:
    """The same name of another server's tool is asked about anew."""
    path = tmp_path / "m.db"
    asked = await park(path, ScriptedTool("wipe", read_only=False))
    other = ScriptedTool("wipe", read_only=False, server="prod")
    async with open_session(path, ScriptedModel([]), [other]) as session:
        events = await collect(session.resume(asked.id, {"c1": Decision(True)}))

    assert isinstance(events[-1], ApprovalRequested)
    assert events[-1].calls[0].server == "prod"
    assert other.ran == []


async def test_a_lasting_yes_is_for_the_very_program_behind_the_server(tmp_path: Path) -> None:
    """`a` for a server does not hold for another program under its name."""
    write, path = ScriptedTool("wipe", read_only=False), tmp_path / "m.db"
    asked = await park(path, write)
    async with open_session(path, ScriptedModel([say("done")]), [write]) as session:
        await collect(session.resume(asked.id, {"c1": Decision(True, scope="thread")}))
    other = ScriptedTool("wipe", read_only=False, identity="kit 2")
    async with open_session(path, ScriptedModel([call(("wipe", {}))]), [other]) as session:
        events = await collect(session.send("again"))

    assert isinstance(events[-1], ApprovalRequested)
    assert other.ran == []


async def test_a_no_holds_for_a_tool_that_has_become_a_read(tmp_path: Path) -> None:
    """Refused is refused, whatever the tool says of itself when the answer comes."""
    path = tmp_path / "m.db"
    asked = await park(path, ScriptedTool("wipe", read_only=False))
    read, model = ScriptedTool("wipe"), ScriptedModel([say("done")])
    async with open_session(path, model, [read]) as session:
        await collect(session.resume(asked.id, {"c1": Decision(False, "never")}))

    assert read.ran == []
    assert "never" in str(model.asked[0]["messages"][-1].content)


async def break_off(path: Path) -> None:
    """Leave an approved write as a crash in the middle of it does."""
    write, started = ScriptedTool("wipe", read_only=False), asyncio.Event()

    async def hang(args: Any) -> None:
        started.set()
        await asyncio.sleep(60)

    write.run = hang
    async with open_session(path, ScriptedModel([call(("wipe", {}))]), [write]) as session:
        asked = (await collect(session.send("go")))[-1]
        await cancel_when(session.resume(asked.id, {"c1": Decision(True)}), started)


async def test_a_broken_off_write_stays_one_when_the_tool_becomes_a_read(tmp_path: Path) -> None:
    """It is not run again by itself."""
    path, read = tmp_path / "m.db", ScriptedTool("wipe")
    await break_off(path)
    async with open_session(path, ScriptedModel([]), [read]) as session:
        events = await collect(session.proceed())

    assert isinstance(events[-1], ApprovalRequested)
    assert events[-1].calls[0].why == "unknown_outcome"
    assert read.ran == []


async def test_a_broken_off_write_of_a_gone_server_is_said(tmp_path: Path) -> None:
    """The model learns that nobody knows, not only that the tool is gone."""
    path, model = tmp_path / "m.db", ScriptedModel([say("I see")])
    await break_off(path)
    async with open_session(path, model, []) as session:
        await collect(session.proceed())

    result = model.asked[0]["messages"][-1]
    assert isinstance(result, ToolMessage)
    assert "unknown" in str(result.content)


async def test_a_write_that_ended_is_no_cancelled_one(tmp_path: Path) -> None:
    """Stopped between its end and its result: the thread has the result of the journal."""
    path, write = tmp_path / "m.db", ScriptedTool("wipe", read_only=False)
    await break_off(path)
    async with open_session(path, ScriptedModel([say("next")]), [write]) as session:
        message_id = (await session.messages())[-1].id or ""
        async with open_memory(path) as memory:
            await memory.journal.end("t", message_id, "c1", "success", "wiped 3 files")
        await session.abandon("cancelled")
        messages = await session.messages()

    assert [m.content for m in messages if isinstance(m, ToolMessage)] == ["wiped 3 files"]


@pytest.mark.parametrize("value", [5, [], None, "text", {"calls": 3}, {"calls": [{"name": 1}]}])
async def test_a_damaged_question_is_one_line(tmp_path: Path, value: Any) -> None:
    """No traceback, and the error names what is damaged."""
    path = tmp_path / "m.db"
    await park(path, ScriptedTool("wipe", read_only=False))
    with closing(sqlite3.connect(path)) as conn:
        row = conn.execute(
            "SELECT type, value FROM writes WHERE channel = '__interrupt__'"
        ).fetchone()
    (interrupt,) = StrictSerializer(path).loads_typed(row)
    interrupt.value = value
    change(
        path,
        "UPDATE writes SET value = ? WHERE channel = '__interrupt__'",
        stored(path, [interrupt])[1],
    )
    async with open_session(path, ScriptedModel([]), []) as session:
        with pytest.raises(StorageError, match="damaged"):
            await session.pending()
