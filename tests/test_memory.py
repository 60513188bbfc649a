"""Storage: the file and its settings, what is refused or read back, and that it always closes."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

import aiosqlite
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from agent_graph import messages_channel
from local_agent.errors import StorageError
from local_agent.memory import Memory, open_memory, translate
from local_agent.memory.saver import StrictSerializer
from local_agent.memory.tables import VERSION

CONFIG: Any = {"configurable": {"thread_id": "t"}}


def hash_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def echo_graph(saver: Any, channel: Any = None, size: int = 0) -> Any:
    state_type = TypedDict(  # noqa: UP013  # the annotation is a value of this call
        "State", {"messages": Annotated[list[Any], channel or messages_channel()]}
    )

    def answer(state: Any) -> Any:
        return {"messages": [AIMessage(f"echo {state['messages'][-1].content}" + "x" * size)]}

    graph = StateGraph(state_type)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    return graph.compile(checkpointer=saver)


async def say(memory: Memory, text: str, size: int = 0) -> list[str]:
    graph = echo_graph(memory.saver, size=size)
    state = await graph.ainvoke({"messages": [HumanMessage(text)]}, CONFIG, durability="sync")
    return [m.content for m in state["messages"]]


async def pragma(memory: Memory, name: str) -> Any:
    async with memory.saver.conn.execute(f"PRAGMA {name}") as cursor:
        row = await cursor.fetchone()
    return row[0] if row else None


async def test_settings_of_the_file(tmp_path: Path) -> None:
    """WAL, FULL, a busy timeout of 15 s, incremental vacuum, our version."""
    async with open_memory(tmp_path / "memory.db") as memory:
        assert await pragma(memory, "journal_mode") == "wal"
        assert await pragma(memory, "synchronous") == 2
        assert await pragma(memory, "busy_timeout") == 15_000
        assert await pragma(memory, "auto_vacuum") == 2
        assert await pragma(memory, "user_version") == VERSION


@pytest.mark.skipif(os.name == "nt", reason="Windows has no mode bits")
async def test_the_file_is_private(tmp_path: Path) -> None:
    """Database, log and index are 0600 whatever the umask."""
    path = tmp_path / "new" / "memory.db"
    old = os.umask(0o000)
    try:
        async with open_memory(path) as memory:
            await say(memory, "hello")
            modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in path.parent.iterdir()}
    finally:
        os.umask(old)
    assert modes == {"memory.db": 0o600, "memory.db-wal": 0o600, "memory.db-shm": 0o600}


async def test_closing_leaves_one_file(tmp_path: Path) -> None:
    """Log, index and folder of files exist only while they are used."""
    async with open_memory(tmp_path / "memory.db") as memory:
        await say(memory, "hello")
    assert [p.name for p in tmp_path.iterdir()] == ["memory.db"]


async def test_a_thread_goes_on_after_reopening(tmp_path: Path) -> None:
    """What one process saved, the next one has."""
    async with open_memory(tmp_path / "memory.db") as memory:
        await say(memory, "one")
    async with open_memory(tmp_path / "memory.db") as memory:
        assert await say(memory, "two") == ["one", "echo one", "two", "echo two"]


async def test_ephemeral_leaves_nothing(tmp_path: Path) -> None:
    """A database in memory does all the same and writes no file."""
    async with open_memory(tmp_path / "memory.db", ephemeral=True) as memory:
        await say(memory, "one")
        await memory.journal.begin("t", "m", "c", "tool", True)
        await memory.threads.touch("t", title="T")
        assert (memory.path, memory.files_dir) == (None, None)
        assert await say(memory, "two") == ["one", "echo one", "two", "echo two"]
    assert list(tmp_path.iterdir()) == []


async def test_files_dir_is_beside_the_database_and_not_made(tmp_path: Path) -> None:
    """The folder is named only; whoever writes into it makes it."""
    async with open_memory(tmp_path / "memory.db") as memory:
        assert memory.files_dir == tmp_path.resolve() / "memory.db.files"
        assert not memory.files_dir.exists()


# -- the journal and the threads ------------------------------------------------------------------


async def test_journal_of_a_call(tmp_path: Path) -> None:
    """Started, ended, settled: the outcome stays, the text goes."""
    async with open_memory(tmp_path / "memory.db") as memory:
        journal = memory.journal
        assert await journal.find("t", "m", "c") is None
        await journal.begin("t", "m", "c", "git_commit", True)
        run = await journal.find("t", "m", "c")
        assert run is not None
        assert (run.outcome, run.result, run.is_write, run.starts) == (None, None, True, 1)
        await journal.end("t", "m", "c", "success", "done")
        run = await journal.find("t", "m", "c")
        assert run is not None
        assert (run.outcome, run.result) == ("success", "done")
        await journal.settle("other")
        assert (await journal.find("t", "m", "c")) == run
        await journal.settle("t")
        run = await journal.find("t", "m", "c")
        assert run is not None
        assert (run.outcome, run.result) == ("success", None)


async def test_journal_counts_starts(tmp_path: Path) -> None:
    """A call that is begun again is open again, and both starts are known."""
    async with open_memory(tmp_path / "memory.db") as memory:
        await memory.journal.begin("t", "m", "c", "w", True)
        await memory.journal.end("t", "m", "c", "error", "no")
        await memory.journal.begin("t", "m", "c", "w", True)
        run = await memory.journal.find("t", "m", "c")
        assert run is not None
        assert (run.outcome, run.result, run.starts) == (None, None, 2)


def test_journal_is_on_disk_before_begin_returns(tmp_path: Path) -> None:
    """A process killed right after `begin` leaves the start in the file."""
    path = tmp_path / "memory.db"
    code = f"""
import asyncio, os, pathlib, signal
from local_agent.memory import open_memory
async def main():
    async with open_memory(pathlib.Path({str(path)!r})) as memory:
        await memory.journal.begin("t", "m", "c", "w", True)
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", code], check=False, timeout=60)

    async def find() -> Any:
        async with open_memory(path) as memory:
            return await memory.journal.find("t", "m", "c")

    run = asyncio.run(find())
    assert (run.outcome, run.starts) == (None, 1)


async def test_journal_and_saver_side_by_side(tmp_path: Path) -> None:
    """Parallel notes and checkpoints on one connection neither lock nor lose anything."""
    async with open_memory(tmp_path / "memory.db", busy_timeout=0) as memory:

        async def call(i: int) -> None:
            await memory.journal.begin("t", "m", str(i), "r", False)
            await memory.journal.end("t", "m", str(i), "success", "x")

        await asyncio.gather(*(call(i) for i in range(20)), say(memory, "hello"))
        runs = [await memory.journal.find("t", "m", str(i)) for i in range(20)]
    assert [run.outcome for run in runs if run] == ["success"] * 20


async def test_thread_entry(tmp_path: Path) -> None:
    """`touch` enters and updates; what is not given stays; times are aware."""
    async with open_memory(tmp_path / "memory.db") as memory:
        assert await memory.threads.info("t") is None
        await memory.threads.touch("t", title="First", messages=4, turns=1, model="m")
        first = await memory.threads.info("t")
        await memory.threads.touch("t", messages=8, turns=2)
        second = await memory.threads.info("t")
    assert first is not None
    assert second is not None
    assert (second.title, second.messages, second.turns, second.model) == ("First", 8, 2, "m")
    assert second.created == first.created
    assert second.updated > first.updated
    assert second.updated.utcoffset() is not None


# -- strict reading -------------------------------------------------------------------------------


@pytest.mark.parametrize("strict", [None, "false", "true"])
def test_only_messages_and_plain_values_are_read(tmp_path: Path, strict: str | None) -> None:
    """A row that names a class to build stays data, whatever the environment says."""
    code = f"""
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from local_agent.memory.saver import StrictSerializer
stored = JsonPlusSerializer().dumps_typed({{"m": HumanMessage("hi"), "n": [1, "a", None]}})
plain = __import__("ormsgpack")
ext = plain.Ext(0, plain.packb(["builtins", "eval", "open({str(tmp_path / "owned")!r}, 'w')"]))
got = StrictSerializer("x").loads_typed(("msgpack", plain.packb({{"v": ext}})))
assert got == {{"v": "open({str(tmp_path / "owned")!r}, 'w')"}}, got
read = StrictSerializer("x").with_msgpack_allowlist([("builtins", "eval")])
assert read.loads_typed(("msgpack", plain.packb({{"v": ext}}))) == got
back = read.loads_typed(stored)
assert back["m"] == HumanMessage("hi") and back["n"] == [1, "a", None]
"""
    env = {k: v for k, v in os.environ.items() if k != "LANGGRAPH_STRICT_MSGPACK"}
    if strict:
        env["LANGGRAPH_STRICT_MSGPACK"] = strict
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "owned").exists()


def test_json_and_pickle_rows_are_refused() -> None:
    """Kinds of rows that can name any class are not read at all."""
    for kind in ("json", "pickle"):
        with pytest.raises(StorageError, match=kind):
            StrictSerializer("memory.db").loads_typed((kind, b"{}"))


def test_a_broken_value_is_a_storage_error() -> None:
    """Bytes that are no msgpack name the file."""
    with pytest.raises(StorageError, match=r"value in memory\.db is damaged"):
        StrictSerializer("memory.db").loads_typed(("msgpack", b"\xc1\xff\x00"))


# -- other writers of the file --------------------------------------------------------------------


async def test_a_file_of_the_plain_saver_opens(tmp_path: Path) -> None:
    """A thread written with the plain checkpointer and `add_messages` goes on here."""
    path = tmp_path / "memory.db"
    async with aiosqlite.connect(path) as conn:
        graph = echo_graph(AsyncSqliteSaver(conn), add_messages)
        await graph.ainvoke({"messages": [HumanMessage("old")]}, CONFIG)
    async with open_memory(path) as memory:
        assert await say(memory, "new") == ["old", "echo old", "new", "echo new"]
        assert await memory.threads.info("t") is None


async def test_a_newer_version_is_refused_untouched(tmp_path: Path) -> None:
    """A file whose tables are newer is left byte for byte as it was."""
    path = tmp_path / "memory.db"
    async with open_memory(path) as memory:
        await say(memory, "hello")
    with closing(sqlite3.connect(path)) as conn:
        conn.execute(f"PRAGMA user_version={VERSION + 1}")
    before = hash_of(path)
    with pytest.raises(StorageError, match="newer version"):
        async with open_memory(path):
            pass
    assert hash_of(path) == before
    assert [p.name for p in tmp_path.iterdir()] == ["memory.db"]


# -- files that cannot be used --------------------------------------------------------------------


async def refused(path: Path, match: str, **options: Any) -> StorageError:
    with pytest.raises(StorageError, match=match) as caught:
        async with open_memory(path, **options):
            pass
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("content", [b"hello", b"# notes\n" * 100, b"SQLite format 3\0short"])
async def test_d03_a_file_that_is_no_database(tmp_path: Path, content: bytes) -> None:
    """D03a: a text file is refused with its path and left as it was."""
    path = tmp_path / "memory.db"
    path.write_bytes(content)
    error = await refused(path, "is not a database")
    assert str(path) in str(error)
    assert path.read_bytes() == content


async def test_d03_an_empty_file_works_as_new(tmp_path: Path) -> None:
    """D03b: an empty file becomes a database."""
    path = tmp_path / "memory.db"
    path.touch()
    async with open_memory(path) as memory:
        assert await say(memory, "hello") == ["hello", "echo hello"]


async def test_d03_random_bytes_over_a_page(tmp_path: Path) -> None:
    """D03c: a damaged file is found at the start and left as it was."""
    path = tmp_path / "memory.db"
    async with open_memory(path) as memory:
        for i in range(20):
            await say(memory, f"hello {i}")
    content = bytearray(path.read_bytes())
    content[3 * 4096 : 4 * 4096] = random.Random(1).randbytes(4096)
    path.write_bytes(content)
    error = await refused(path, "damaged")
    assert "Move it away" in error.hint
    assert path.read_bytes() == bytes(content)


async def test_d03_a_missing_column(tmp_path: Path) -> None:
    """D03d: tables of another shape are said to be so."""
    path = tmp_path / "memory.db"
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("CREATE TABLE checkpoints (thread_id TEXT, checkpoint_id TEXT)")
    with pytest.raises(StorageError, match="tables"):
        async with open_memory(path) as memory:
            await say(memory, "hello")


async def test_d03_the_log_of_another_database(tmp_path: Path) -> None:
    """D03e: SQLite would play a foreign -wal over the file; it is refused, both untouched."""
    path, other = tmp_path / "memory.db", tmp_path / "other.db"
    async with open_memory(path) as memory:
        await say(memory, "mine")
    async with open_memory(other) as memory:
        await say(memory, "theirs")
        log = Path(f"{other}-wal").read_bytes()
    Path(f"{path}-wal").write_bytes(log)
    before = hash_of(path)
    error = await refused(path, "belongs to another database")
    assert "memory.db-wal" in error.hint
    assert hash_of(path) == before
    Path(f"{path}-wal").unlink()
    async with open_memory(path) as memory:
        assert (await say(memory, "more"))[0] == "mine"


def test_own_log_after_a_kill_is_played(tmp_path: Path) -> None:
    """What a killed process left in the log is there at the next start, also in a new file."""
    path = tmp_path / "memory.db"
    code = f"""
import asyncio, os, pathlib
from local_agent.memory import open_memory
async def main():
    async with open_memory(pathlib.Path({str(path)!r})) as memory:
        await memory.threads.touch("t", title="kept")
        os._exit(9)
asyncio.run(main())
"""

    async def title() -> str:
        async with open_memory(path) as memory:
            info = await memory.threads.info("t")
            return info.title if info else ""

    for _ in range(2):
        subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
        assert Path(f"{path}-wal").stat().st_size > 0
        assert asyncio.run(title()) == "kept"


async def test_d03_a_folder_of_that_name(tmp_path: Path) -> None:
    """D03f: a folder is said to be one."""
    await refused(tmp_path, "is a folder")


@pytest.mark.skipif(os.name == "nt" or os.getuid() == 0, reason="root may write everywhere")
async def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """A new database in a folder without the right to write is one clear error."""
    tmp_path.chmod(0o500)
    try:
        await refused(tmp_path / "memory.db", "cannot be used")
    finally:
        tmp_path.chmod(0o700)


async def test_a_parent_that_is_a_file(tmp_path: Path) -> None:
    """A path below a file is one clear error."""
    (tmp_path / "file").touch()
    await refused(tmp_path / "file" / "memory.db", "cannot be used")


async def test_d01_locked_for_too_long(tmp_path: Path) -> None:
    """D01: a writer that stays ends the wait with one line, at the start and in a turn."""
    path = tmp_path / "memory.db"
    async with open_memory(path, busy_timeout=0.05) as memory:
        await say(memory, "one")
        with closing(sqlite3.connect(path)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StorageError, match="locked by another program"):
                await memory.threads.touch("t")
            with pytest.raises(StorageError, match="locked by another program"):
                await say(memory, "two")
            other.rollback()
        assert (await say(memory, "three"))[-1] == "echo three"
    new = tmp_path / "new.db"
    with closing(sqlite3.connect(new)) as other:
        other.execute("BEGIN EXCLUSIVE")
        await refused(new, "locked by another program", busy_timeout=0.05)


async def test_d01_a_short_lock_is_waited_for(tmp_path: Path) -> None:
    """D01: a writer that is soon done is not noticed."""
    path = tmp_path / "memory.db"
    async with open_memory(path) as memory:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            touched = asyncio.ensure_future(memory.threads.touch("t", title="T"))
            await asyncio.sleep(0.1)
            assert not touched.done()
            other.execute("COMMIT")
            await touched


async def test_d04_full_disk(tmp_path: Path) -> None:
    """D04: a full disk is one clear error; with room again the thread goes on in a whole file."""
    path = tmp_path / "memory.db"
    async with open_memory(path) as memory:
        saved = await say(memory, "one")
        pages = await pragma(memory, "page_count")
        await pragma(memory, f"max_page_count={pages + 2}")
        with pytest.raises(StorageError, match="disk is full"):
            await say(memory, "two", size=100_000)
        with pytest.raises(StorageError, match="disk is full"):
            await memory.threads.touch("t", title="x" * 100_000)
        await pragma(memory, "max_page_count=1000000")
        assert (await say(memory, "three"))[: len(saved)] == saved
    with closing(sqlite3.connect(path)) as conn:
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_translate_leaves_other_errors_alone() -> None:
    """Only what the database raised becomes a StorageError."""
    assert translate(RuntimeError("no")) is None
    assert translate(ValueError("no")) is None
    error = StorageError("x")
    assert translate(error) is error


# -- always closed --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("raise SystemExit(7)", 7),
        ("raise RuntimeError('no')", 1),
        ("asyncio.current_task().cancel(); await asyncio.sleep(9)", 1),
        ("asyncio.get_running_loop().call_soon(sys.exit, 5); await asyncio.sleep(9)", 5),
        ("t = asyncio.ensure_future(memory.threads.touch('t')); await asyncio.sleep(0)", 0),
    ],
)
def test_d09_the_process_ends(tmp_path: Path, body: str, code: int) -> None:
    """D09: however the block is left, the worker thread does not keep the process."""
    program = f"""
import asyncio, pathlib, sys
from local_agent.memory import open_memory
async def main():
    async with open_memory(pathlib.Path({str(tmp_path / "memory.db")!r})) as memory:
        {body}
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=30)
    assert done.returncode == code, done.stderr.decode()
    assert [p.name for p in tmp_path.iterdir()] == ["memory.db"]


def test_d09_cancelled_while_opening(tmp_path: Path) -> None:
    """D09: a start that is cancelled while it waits for a lock ends the process."""
    path = tmp_path / "memory.db"
    program = f"""
import asyncio, pathlib
from local_agent.memory import open_memory
async def opening():
    async with open_memory(pathlib.Path({str(path)!r}), busy_timeout=0.3):
        pass
async def main():
    task = asyncio.ensure_future(opening())
    await asyncio.sleep(0.1)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        print("cancelled")
import local_agent.memory.saver
asyncio.run(main())
"""
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=30)
    assert (done.returncode, done.stdout.strip()) == (0, b"cancelled"), done.stderr.decode()


async def test_a_cancelled_write_leaves_no_lock(tmp_path: Path) -> None:
    """A write that is cancelled at any point is whole, and other processes can write at once."""
    path = tmp_path / "memory.db"
    async with open_memory(path) as memory:
        for steps in range(12):
            write = asyncio.ensure_future(memory.threads.touch("t", messages=steps))
            for _ in range(steps):
                await asyncio.sleep(0.001 if steps > 8 else 0)
            write.cancel()
            await asyncio.gather(write, return_exceptions=True)
            await memory.threads.info("t")  # waits for what still runs
            with closing(sqlite3.connect(path, timeout=0)) as other:
                other.execute("CREATE TABLE IF NOT EXISTS probe (a)")
                other.execute("INSERT INTO probe VALUES (1)")
                other.commit()


async def test_a_cancelled_checkpoint_leaves_no_lock(tmp_path: Path) -> None:
    """The same for what the graph writes."""
    path = tmp_path / "memory.db"
    async with open_memory(path) as memory:
        for steps in range(12):
            writes = [("messages", [HumanMessage("x" * 5000)])]
            config = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "c"}}
            write = asyncio.ensure_future(memory.saver.aput_writes(config, writes, str(steps)))
            for _ in range(steps):
                await asyncio.sleep(0)
            write.cancel()
            await asyncio.gather(write, return_exceptions=True)
            await memory.threads.info("t")
            with closing(sqlite3.connect(path, timeout=0)) as other:
                other.execute("CREATE TABLE IF NOT EXISTS probe (a)")
                other.execute("INSERT INTO probe VALUES (1)")
                other.commit()


async def test_plain_saver_reads_our_file(tmp_path: Path) -> None:
    """Nothing of ours keeps the plain checkpointer from reading the thread."""
    async with open_memory(tmp_path / "memory.db") as memory:
        await say(memory, "hello")
    async with aiosqlite.connect(tmp_path / "memory.db") as conn:
        saver = AsyncSqliteSaver(conn, serde=JsonPlusSerializer(allowed_msgpack_modules=None))
        state = await echo_graph(saver).aget_state(CONFIG)
        assert [m.content for m in state.values["messages"]] == ["hello", "echo hello"]
