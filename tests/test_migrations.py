"""Files of earlier versions are brought forward, whole or not at all; newer ones are left alone."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from local_agent.errors import StorageError
from local_agent.memory import open_memory
from local_agent.memory.connection import open_plain
from local_agent.memory.tables import MIGRATIONS, VERSION, WORDS
from local_agent.memory.words import parse
from local_agent.threads import list_threads
from local_agent.threads.search import search_threads
from tests.graph_kit import ScriptedModel, collect, open_session, say

EARLIER = list(range(VERSION))


async def make_version(path: Path, version: int) -> None:
    """A file as a program of that version leaves it, with a thread of two turns.

    A file of today loses the tables that came later. Version 0 is that of the plain checkpointer.
    """
    async with open_session(path, ScriptedModel([say("one"), say("two")]), []) as session:
        await collect(session.send("alpha"))
        await collect(session.send("beta"))
    with closing(sqlite3.connect(":memory:")) as conn:
        for statement in (s for statements in MIGRATIONS[:version] for s in statements):
            conn.execute(statement)
        kept = {"checkpoints", "writes", *tables(conn)}
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("DROP TABLE IF EXISTS agent_words")  # with what belongs to it
        for name in sorted(tables(conn) - kept):
            conn.execute(f"DROP TABLE {name}")
        conn.execute(f"PRAGMA user_version={version}")


def tables(conn: sqlite3.Connection) -> set[str]:
    rows = conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return {name for (name,) in rows if not name.startswith("sqlite_")}


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as conn:
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return int(conn.execute("PRAGMA user_version").fetchone()[0])


def shape(path: Path) -> list[Any]:
    """Tables and indexes with the SQL they were made by."""
    with closing(sqlite3.connect(path)) as conn:
        rows = conn.execute("SELECT type, name, sql FROM sqlite_master")
        return sorted((row for row in rows if not row[1].startswith("sqlite_")), key=str)


@pytest.mark.parametrize("version", EARLIER)
async def test_an_earlier_version_is_brought_forward(tmp_path: Path, version: int) -> None:
    """D06: its thread is listed, found and goes on; the tables are those of a new file."""
    path, new = tmp_path / "m.db", tmp_path / "new.db"
    await make_version(path, version)
    assert version_of(path) == version
    assert [info.thread for info in list_threads(path)] == ["t"]  # before anything is changed
    assert version_of(path) == version
    assert search_threads(path, parse("beta")).total == 1
    async with open_session(path, ScriptedModel([say("three")]), []) as session:
        assert (await collect(session.send("gamma")))[-1].answer == "three"
        assert len(await session.messages()) == 6
    async with open_memory(new):
        pass
    assert version_of(path) == VERSION
    assert shape(path) == shape(new)
    (info,) = list_threads(path)
    assert (info.title, info.turns, info.messages) == ("alpha", 3, 6)
    assert search_threads(path, parse("alpha")).total == 1


@pytest.mark.parametrize("version", [VERSION + 1, 2**31 - 1])
async def test_a_newer_version_is_left_alone(tmp_path: Path, version: int) -> None:
    """By everything that opens the file: one line, and no byte of it is another."""
    path = tmp_path / "m.db"
    await make_version(path, 1)
    with closing(sqlite3.connect(path)) as conn:
        conn.execute(f"PRAGMA user_version={version}")
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    for use in (
        lambda: open_plain(path, 1).close(),
        lambda: list_threads(path),
        lambda: search_threads(path, parse("alpha")),
    ):
        with pytest.raises(StorageError, match="newer version"):
            use()
    with pytest.raises(StorageError, match="newer version"):
        async with open_memory(path):
            pass
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.db"]


OPEN = """
import pathlib, sys, time
from local_agent.memory.connection import open_plain
path, start = map(pathlib.Path, sys.argv[1:])
print("ready", flush=True)
while not start.exists():
    time.sleep(0.001)
open_plain(path, 30).close()
"""


@pytest.mark.process
async def test_processes_that_migrate_at_once(tmp_path: Path) -> None:
    """All of them open the file, and it was brought forward once."""
    path, start = tmp_path / "m.db", tmp_path / "start"
    await make_version(path, 1)
    command = [sys.executable, "-c", OPEN, str(path), str(start)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(4)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == b"ready"
    start.touch()
    for process in processes:
        process.communicate(timeout=60)
    assert [process.returncode for process in processes] == [0] * 4
    assert version_of(path) == VERSION
    assert search_threads(path, parse("alpha")).total == 1


# A connection of Python's that ends the process after so many steps of SQLite, or has no more room.
LIMITED = """
import os, pathlib, signal, sqlite3, sys
path, kind, number = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
left = iter(range(number, -1, -1))
def step():
    if next(left, -1) == 0:
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
connect = sqlite3.connect
def limited(*args, factory, **options):
    conn = connect(*args, factory=factory, **options)
    if kind == "steps":
        conn.set_progress_handler(step, 10)
    else:
        conn.execute(f"PRAGMA max_page_count={number}")
    return conn
sqlite3.connect = limited
from local_agent.errors import StorageError
from local_agent.memory.connection import open_plain
try:
    open_plain(path, 1).close()
except StorageError as exc:
    sys.exit(str(exc))
"""


@pytest.mark.process
async def test_a_kill_in_the_middle_leaves_the_old_version(tmp_path: Path) -> None:
    """Killed with -9 after ever more of SQLite's steps: the old version, or the new one whole."""
    original, seen, number, code = tmp_path / "original.db", set(), 1, 1
    await make_version(original, 1)
    old = shape(original)
    while code != 0:
        path = tmp_path / f"{number}.db"
        shutil.copy(original, path)
        command = [sys.executable, "-c", LIMITED, str(path), "steps", str(number)]
        code = subprocess.run(command, timeout=60, check=False).returncode
        seen.add(version_of(path))
        assert (shape(path) == old) == (version_of(path) == 1)
        number *= 2
    assert seen == {1, VERSION}
    assert search_threads(path, parse("alpha")).total == 1


@pytest.mark.process
@pytest.mark.parametrize("room", [0, 1, 5, 9])
async def test_a_full_disk_in_the_middle_leaves_the_old_version(tmp_path: Path, room: int) -> None:
    """D04: with a few pages left nothing is changed, it is said in a line; with room it is done."""
    path = tmp_path / "m.db"
    await make_version(path, 1)
    old = shape(path)
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("VACUUM")
        (pages,) = conn.execute("PRAGMA page_count").fetchone()
    command = [sys.executable, "-c", LIMITED, str(path), "pages", str(pages + room)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "The disk is full" in done.stderr
    assert done.stderr.count("\n") == 1
    assert version_of(path) == 1
    assert shape(path) == old
    open_plain(path, 1).close()
    assert version_of(path) == VERSION


def test_the_tables_are_made_without_fts5_too() -> None:
    """All but the index of words is made of plain tables: a SQLite without FTS5 has the rest."""
    with closing(sqlite3.connect(":memory:")) as conn:
        for statement in (s for statements in MIGRATIONS for s in statements if s != WORDS):
            conn.execute(statement)
        assert {"agent_texts", "agent_indexed", "agent_branches"} <= tables(conn)
