"""Threads renamed and deleted: in every table, under their locks, and without a trace."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from local_agent.cli import run
from local_agent.cli.threads_store import moment_of, size_text
from local_agent.errors import StorageError, ThreadError, UsageError
from local_agent.events import ApprovalRequested, Decision
from local_agent.memory import open_memory
from local_agent.memory.tables import NAMED_BY_THREAD
from local_agent.memory.words import parse
from local_agent.testing import Call, Say, ScriptedServer
from local_agent.threads import list_threads, pending_approvals
from local_agent.threads.change import delete_threads, rename_thread
from local_agent.threads.search import search_threads
from tests.chat_kit import AGENT
from tests.graph_kit import ScriptedModel, ScriptedTool, call, collect, open_session, say
from tests.program_kit import Program, approval_id
from tests.pty_driver import PtyProgram
from tests.test_lock import holder

Scripted = Callable[..., ScriptedServer]


def counts(path: Path, thread: str) -> dict[str, int]:
    """How many rows each table has of the thread; those without any are left out."""
    found = {}
    with closing(sqlite3.connect(path)) as conn:
        for table, column in NAMED_BY_THREAD:
            sql = f"SELECT count(*) FROM {table} WHERE {column} = ?"
            (found[table],) = conn.execute(sql, (thread,)).fetchone()
    return {table: count for table, count in found.items() if count}


async def talk(path: Path, *replies: Any, prompt: str = "hello", **options: Any) -> Any:
    tools = [ScriptedTool("look"), ScriptedTool("book", read_only=False)]
    async with open_session(path, ScriptedModel(list(replies)), tools, **options) as session:
        return (await collect(session.send(prompt)))[-1]


async def test_every_table_that_names_threads_is_known(tmp_path: Path) -> None:
    """A table with a column of that meaning is in the list that renaming and deleting go by."""
    path = tmp_path / "m.db"
    async with open_memory(path):
        pass
    with closing(sqlite3.connect(path)) as conn:
        tables = [n for (n,) in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        named = {
            (table, column)
            for table in tables
            for _, column, *_ in conn.execute(f"PRAGMA table_info({table})")
            if "thread" in column
        }
    assert named == set(NAMED_BY_THREAD)


# -- rename ---------------------------------------------------------------------------------------


async def test_a_renamed_thread_is_the_same_thread(tmp_path: Path) -> None:
    """It is listed, found and continued under its new name, with its journal; the old is free."""
    path = tmp_path / "m.db"
    await talk(path, call(("look", {})), say("The answer."), thread="old")
    async with open_memory(path) as memory:
        await memory.threads.touch("child", parent="old")
    before = counts(path, "old")
    rename_thread(path, "old", "new name")
    assert counts(path, "new name") == before
    assert {"checkpoints", "writes", "tool_runs", "agent_threads", "agent_indexed"} <= set(before)
    assert counts(path, "old") == {}
    listed = {info.thread: info for info in list_threads(path)}
    assert set(listed) == {"new name", "child"}
    assert listed["child"].parent == "new name"
    assert [h.thread for h in search_threads(path, parse("answer")).hits] == ["new name"]
    async with open_session(path, ScriptedModel([say("more")]), [], thread="new name") as session:
        assert (await collect(session.send("go on")))[-1].answer == "more"
        assert len(await session.messages()) == 6
    await talk(path, say("fresh"), thread="old")
    assert {info.thread for info in list_threads(path)} == {"new name", "child", "old"}


async def test_what_was_allowed_is_asked_anew(tmp_path: Path) -> None:
    """A yes for the thread is bound to its name; a waiting question waits on, and is asked."""
    path, book = tmp_path / "m.db", ScriptedTool("book", read_only=False)

    async def turn(thread: str, *replies: Any) -> Any:
        async with open_session(
            path, ScriptedModel(list(replies)), [book], thread=thread
        ) as session:
            asked = (await collect(session.send("book")))[-1]
            if len(replies) > 1 and isinstance(asked, ApprovalRequested):
                yes = {c.call_id: Decision(True, scope="thread") for c in asked.calls}
                return (await collect(session.resume(asked.id, yes)))[-1]
            return asked

    assert (await turn("a", call(("book", {})), say("done"))).status == "ok"
    assert (await turn("a", call(("book", {"n": 2})), say("done"))).status == "ok"
    assert len(book.ran) == 2
    rename_thread(path, "a", "b")
    asked = await turn("b", call(("book", {"n": 3})))
    assert isinstance(asked, ApprovalRequested)
    rename_thread(path, "b", "c")
    assert [(one.thread, one.id) for one in pending_approvals(path)] == [("c", asked.id)]
    async with open_session(path, ScriptedModel([say("ok")]), [book], thread="c") as session:
        yes = {"c1": Decision(True)}
        assert (await collect(session.resume(asked.id, yes)))[-1].status == "ok"
    assert len(book.ran) == 3


async def test_a_name_that_is_taken_or_unknown_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing changes; the names that are near are said, and what a name may not be."""
    path = tmp_path / "m.db"
    for thread in ("holiday in Rome", "work"):
        await talk(path, say("a"), thread=thread)
    content = path.read_bytes()
    for argv, code, text in [
        (["work", "holiday in Rome"], 1, "There is a thread 'holiday in Rome' already."),
        (["holiday in rome", "x"], 1, "Did you mean 'holiday in Rome'?"),
        (["zzz", "x"], 1, "There is no thread 'zzz'. See: agent threads list"),
        (["work", "a\x1bb"], 2, "has control characters"),
        (["work", ""], 2, "has no character"),
    ]:
        assert await asyncio.to_thread(run, ["threads", "rename", *argv, "--db", str(path)]) == code
        said = capsys.readouterr().err
        assert text in said
        assert said.count("\n") == 1
    assert path.read_bytes() == content
    with pytest.raises(ThreadError, match="No thread is saved yet"):
        rename_thread(tmp_path / "no.db", "a", "b")
    assert not (tmp_path / "no.db").exists()


async def test_a_thread_in_use_is_not_renamed(tmp_path: Path) -> None:
    """Neither under its old name nor onto one that an agent has just opened."""
    path = tmp_path / "m.db"
    await talk(path, say("a"), thread="old")
    for held in ("old", "new"):
        with (
            holder(path, held) as process,
            pytest.raises(ThreadError, match=rf"'{held}' is open .* \(pid {process.pid}\)"),
        ):
            rename_thread(path, "old", "new")
    rename_thread(path, "old", "new")


@pytest.mark.slow
async def test_d01_a_locked_database(tmp_path: Path) -> None:
    """D01: another program that writes for longer than the wait is said, and nothing changes."""
    path = tmp_path / "m.db"
    await talk(path, say("a"), thread="old")
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match="locked by another program"):
            await asyncio.to_thread(rename_thread, path, "old", "new")
        assert [info.thread for info in list_threads(path)] == ["old"]
        assert search_threads(path, parse("hello")).total == 1
    rename_thread(path, "old", "new")


@pytest.mark.process
def test_the_approval_of_a_renamed_thread(tmp_path: Path, scripted: Scripted) -> None:
    """It is decided by the same id, and runs in the thread of the new name."""
    server = scripted([Call("write_note", {"text": "x"}), Say("Noted.")])
    program = Program(tmp_path, server.base_url)
    parked = program.run("--thread", "old", "-p", "Note x.")
    renamed = program.run("threads", "rename", "old", "new", "--json")
    assert renamed.json == {"schema_version": 1, "thread": "new", "was": "old"}
    done = program.run("approvals", "approve", approval_id(parked))
    assert (done.code, done.out, program.written()) == (0, "Noted.\n", ["x"])
    assert program.run("--thread", "new", "-p", "And?").err.count("resumed 4 saved messages") == 1


# -- delete ---------------------------------------------------------------------------------------


async def test_a_deleted_thread_leaves_no_trace(tmp_path: Path) -> None:
    """No row, no word in the index, no byte of its text in the file; the others are whole."""
    path = tmp_path / "m.db"
    await talk(path, say("a quiet answer"), prompt="keep this", thread="kept")
    size = path.stat().st_size
    secret = [f"secretword{n} " * 50 for n in range(40)]
    await talk(
        path,
        call(*(("look", {"q": text}) for text in secret)),
        say("secretanswer"),
        prompt="secretprompt",
        thread="gone",
    )
    assert b"secretword" in path.read_bytes()
    done = delete_threads(path, ["gone"])
    assert (done.threads, done.refused, done.notes) == (("gone",), (), ())
    assert counts(path, "gone") == {}
    content = path.read_bytes()
    assert b"secret" not in content
    assert len(content) <= size * 1.2
    assert done.freed > 100_000
    assert search_threads(path, parse("secret*")).total == 0
    assert [info.thread for info in list_threads(path)] == ["kept"]
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("INSERT INTO agent_words (agent_words) VALUES ('integrity-check')")
        assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert [p.name for p in tmp_path.iterdir()] == ["m.db"]
    async with open_session(path, ScriptedModel([say("b")]), [], thread="kept") as session:
        assert (await collect(session.send("go on")))[-1].status == "ok"


async def test_files_go_with_the_last_thread_that_names_them(tmp_path: Path) -> None:
    """A file that a tool returned stays while another thread has it, or the file of no thread."""
    path = tmp_path / "m.db"
    folder = tmp_path / "m.db.files"
    folder.mkdir()
    own, shared, other = (f"{digit * 32}.png" for digit in "abc")
    for name in (own, shared, other):
        (folder / name).write_bytes(b"image")
    (folder / "prompt_history").touch()
    await talk(path, say(f"[image: {folder / own}] [image: {folder / shared}]"), thread="one")
    await talk(path, say(f"see {folder / shared}"), thread="two")
    assert delete_threads(path, ["one"]).files == 1
    assert sorted(p.name for p in folder.iterdir()) == [shared, other, "prompt_history"]
    assert delete_threads(path, ["two"]).files == 1
    assert sorted(p.name for p in folder.iterdir()) == [other, "prompt_history"]


async def test_older_ones_are_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By an age or a date; a dry run only says so; one that is in use stays, and is said."""
    path = tmp_path / "m.db"
    for thread in ("ancient", "old", "new"):
        await talk(path, say("a"), thread=thread)
    with closing(sqlite3.connect(path)) as conn:
        for thread, day in (("ancient", "2001-01-01"), ("old", "2020-06-15")):
            when = f"{day}T12:00:00.000000+00:00"
            sql = "UPDATE agent_threads SET updated = ? WHERE thread = ?"
            conn.execute(sql, (when, thread))
        conn.commit()

    async def delete(*argv: str) -> tuple[int, str]:
        code = await asyncio.to_thread(run, ["threads", "delete", *argv, "--db", str(path)])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    content = path.read_bytes()
    code, said = await delete("--older-than", "30d", "--dry-run", "--json")
    assert [t["thread"] for t in json.loads(said)["threads"]] == ["old", "ancient"]
    code, said = await delete("--older-than", "30d")
    assert (code, said.count("\n")) == (2, 1)
    assert "Add --yes." in said
    assert await delete("--older-than", "2001-01-01", "--yes") == (0, "There is no such thread.\n")
    assert path.read_bytes() == content

    with holder(path, "old") as process:
        code, said = await delete("--older-than", "30d", "--yes")
    assert code == 1
    assert "1 thread deleted" in said
    assert f"error: thread 'old' is open in another agent (pid {process.pid})" in said
    assert [info.thread for info in list_threads(path)] == ["new", "old"]
    assert (await delete("--older-than", "2020-06-16", "--yes"))[0] == 0
    assert [info.thread for info in list_threads(path)] == ["new"]


async def test_what_cannot_be_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name that is none deletes nothing; names and an age together are refused."""
    path = tmp_path / "m.db"
    await talk(path, say("a"), thread="work")
    content = path.read_bytes()
    for argv, code, text in [
        (["work", "wrok", "--yes"], 1, "There is no thread 'wrok'. Did you mean 'work'?"),
        ([], 2, "names of threads or --older-than"),
        (["work", "--older-than", "1d"], 2, "names of threads or --older-than"),
        (["--older-than", "0d", "--yes"], 2, "--older-than 0d would be every thread. Give an age"),
        (["--older-than", "2999-01-01", "--yes"], 2, "would be every thread"),
        (["--older-than", "soon"], 2, "Write it like 30d, 12h, 2w, 2026-01-31."),
        (["work"], 2, "Add --yes."),
    ]:
        assert await asyncio.to_thread(run, ["threads", "delete", *argv, "--db", str(path)]) == code
        assert text in capsys.readouterr().err
    assert path.read_bytes() == content


@pytest.mark.process
@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo terminal")
async def test_deleting_is_asked_about_at_a_terminal(tmp_path: Path) -> None:
    """What would go is shown; only a yes deletes."""
    path = tmp_path / "m.db"
    await talk(path, say("a"), thread="work\u202e")
    for keys, code, said in (
        ("n\r", 1, "Nothing was deleted."),
        ("\r", 1, "Nothing was deleted."),
        ("\x03", 130, ""),
        ("y\r", 0, "1 thread deleted"),
    ):
        command = [str(AGENT), "threads", "delete", "work\u202e", "--db", str(path)]
        with PtyProgram(command, {**os.environ}, 80, 24, tmp_path) as program:
            program.wait_for("Delete 1 thread? [y/N]")
            assert "'work<U+202E>', about" in program.text
            program.send(keys)
            assert program.wait() == code
            assert said in program.text
    assert list_threads(path) == []


def test_ages() -> None:
    """Hours, days and weeks before now; a date is the beginning of that day here."""
    now = datetime(2026, 3, 10, 12, tzinfo=timezone(timedelta(hours=5)))
    assert moment_of("12h", now) == now - timedelta(hours=12)
    assert moment_of("30d", now) == now - timedelta(days=30)
    assert moment_of("2w", now) == now - timedelta(days=14)
    assert moment_of("2026-01-31", now) == datetime(2026, 1, 31).astimezone()
    assert moment_of("2026-01-31T10:00+01:00", now).utcoffset() == timedelta(hours=1)
    assert moment_of("999999w", now).year == 1
    for text in ("", "d", "-1d", "1.5d", "30 days", "2026-13-01"):
        with pytest.raises(UsageError):
            moment_of(text, now)


def test_sizes() -> None:
    """As a person reads them."""
    sizes = (0, 999, 1000, 123_456, 999_999, 1_234_567, 5_000_000_000)
    assert [size_text(n) for n in sizes] == [
        "0 bytes",
        "999 bytes",
        "1 kB",
        "123 kB",
        "1 MB",
        "1.23 MB",
        "5 GB",
    ]
