"""What a power cut or a bad disk leaves of the file: one line, and nothing worse than it was."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.types import Overwrite

from local_agent.errors import StorageError
from local_agent.memory import check_file, translate
from local_agent.memory.shape import check_built, check_shape
from local_agent.testing import Call, Say, ScriptedServer
from local_agent.threads import list_threads, pending_approvals
from tests.graph_kit import ScriptedModel, ScriptedTool, call, collect, open_session, say
from tests.program_kit import Done, Program

Start = Callable[..., ScriptedServer]
Read = dict[str, list[str] | str]
THREADS = ("a", "b", "c", "d")
TURNS = 3
WHOLE = ""  # the key of what is wrong with the file and not with one thread
posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such rights or limits")


def tools() -> list[ScriptedTool]:
    return [ScriptedTool("look"), ScriptedTool("write", read_only=False)]


async def build(path: Path) -> None:
    """Four threads of three turns, with results, on some hundred pages; one waits for a yes."""
    for thread in THREADS:
        turns = [
            [call(("look", {"n": n, "pad": "x" * 500})), say("y" * 1500)] for n in range(TURNS)
        ]
        replies: list[Any] = [reply for turn in turns for reply in turn]
        replies.append(call(("write", {"n": 1})))
        async with open_session(path, ScriptedModel(replies), tools(), thread=thread) as session:
            for n in range(TURNS):
                await collect(session.send(f"prompt {thread}.{n}"))
            if thread == "d":
                await collect(session.send("write"))


async def read(path: Path) -> Read:
    """The texts of each thread, or the line that says why not; never anything but such a line."""
    found: Read = {}
    for thread in THREADS:
        try:
            async with open_session(path, ScriptedModel([]), tools(), thread=thread) as session:
                found[thread] = [str(m.content) for m in await session.messages()]
                await session.is_unfinished()
                await session.pending()
        except StorageError as exc:
            found[thread] = line_of(exc)
    return found


def line_of(error: StorageError) -> str:
    """The text of an error, which must be one line that says what to do."""
    assert "\n" not in str(error)
    assert error.hint
    return str(error)


def files(path: Path) -> dict[str, bytes]:
    """The bytes of the database and of all that lies beside it."""
    return {p.name: p.read_bytes() for p in path.parent.iterdir() if p.is_file()}


async def refused(path: Path) -> bool:
    """Whether the file is refused whole; then no byte of it, or beside it, is another."""
    before = files(path)
    for look in (list_threads, pending_approvals):  # `threads list` and `approvals list` look too
        try:
            look(path)
        except StorageError as exc:
            line_of(exc)
    try:
        async with open_session(path, ScriptedModel([]), []):
            return False
    except StorageError as exc:
        line_of(exc)
    assert files(path) == before
    return True


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound file; each test works on a copy."""
    import asyncio

    path = tmp_path_factory.mktemp("whole") / "memory.db"
    asyncio.run(build(path))
    assert path.stat().st_size > 60 * 4096
    return path


async def assert_not_worse(path: Path, was: Read) -> None:
    """Every thread that could be read still can, after one of them went on."""
    readable = [thread for thread, texts in was.items() if isinstance(texts, list)]
    for thread in readable[:1]:
        model = ScriptedModel([say("more")])
        async with open_session(path, model, tools(), thread=thread) as session:
            await collect(session.send("go on"))  # a failure here is the turn's, and one line
    now = await read(path)
    for thread in readable[1:]:
        assert now[thread] == was[thread]


@pytest.mark.parametrize("seed", range(50))
async def test_a_flipped_bit_on_any_page(tmp_path: Path, whole: Path, seed: int) -> None:
    """D03c: the file is refused untouched, or it is one thread's own line; the others go on."""
    path, rng = tmp_path / "memory.db", random.Random(seed)
    content = bytearray(whole.read_bytes())
    pages = len(content) // 4096
    at = rng.randrange(pages) * 4096 + rng.randrange(4096)
    content[at] ^= 1 << rng.randrange(8)
    path.write_bytes(content)
    if await refused(path):
        return
    was = await read(path)
    assert sum(isinstance(texts, str) for texts in was.values()) <= 1 or "malformed" in str(was)
    await assert_not_worse(path, was)


@pytest.mark.parametrize(
    "left", [1, 15, 99, 100, 512, 4095, 4096, 4097, 0.25, 0.5, 0.75, -4096, -1]
)
async def test_a_truncated_file(tmp_path: Path, whole: Path, left: float) -> None:
    """A file cut at a page or within one is refused, and nobody makes it a new one."""
    path, content = tmp_path / "memory.db", whole.read_bytes()
    size = int(left * len(content)) if isinstance(left, float) else left % len(content)
    path.write_bytes(content[:size])
    assert await refused(path)


def with_log(path: Path) -> None:
    """Make `path` a database whose newest turns are in its log only, as a power cut leaves it."""
    code = f"""
import asyncio, os, pathlib
from tests.graph_kit import ScriptedModel, collect, open_session, say
async def main():
    path = pathlib.Path({str(path)!r})
    async with open_session(path, ScriptedModel([say("old")]), [], thread="a") as session:
        await collect(session.send("first"))
    replies = [say("new"), say("newer")]
    async with open_session(path, ScriptedModel(replies), [], thread="a") as session:
        for prompt in ("second", "third"):
            await collect(session.send(prompt))
        os._exit(9)
asyncio.run(main())
"""
    root = Path(__file__).resolve().parent.parent
    subprocess.run([sys.executable, "-c", code], check=False, timeout=60, cwd=root)
    assert path.with_name("memory.db-wal").stat().st_size > 0


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("logged") / "memory.db"
    with_log(path)
    return path


def copy_all(source: Path, target: Path) -> Path:
    for name in files(source):
        shutil.copy(source.parent / name, target / name)
    return target / source.name


ALL = ["first", "old", "second", "new", "third", "newer"]


@pytest.mark.parametrize("fault", ["shm gone", "shm torn", "cut", "cut in a frame", "flipped"])
async def test_a_log_that_broke_off(tmp_path: Path, logged: Path, fault: str) -> None:
    """What is whole of the log is played, the rest is as if it had never been written."""
    path = copy_all(logged, tmp_path)
    log, index = path.with_name("memory.db-wal"), path.with_name("memory.db-shm")
    content = bytearray(log.read_bytes())
    frame, lost = 4096 + 24, 0
    if fault.startswith("shm"):
        index.unlink() if fault == "shm gone" else index.write_bytes(index.read_bytes()[:100])
    elif fault == "flipped":
        content[32 + (len(content) // frame // 2) * frame + 2000] ^= 1
        log.write_bytes(content)
    else:
        keep = len(content) // frame // 2 * frame + (1000 if fault == "cut in a frame" else 0)
        log.write_bytes(content[: 32 + keep])
    if not fault.startswith("shm"):
        index.unlink()  # after a power cut there is none that would know better
        lost = 1
    assert not await refused(path)
    async with open_session(path, ScriptedModel([say("on")]), [], thread="a") as session:
        texts = [m.content for m in await session.messages()]
        assert texts == ALL[: len(texts)]
        assert len(texts) >= 2 if lost else texts == ALL
        last = (await collect(session.send("go on")))[-1]
        assert (last.status, last.answer) == ("ok", "on")
    with closing(sqlite3.connect(path)) as conn:
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def test_d03_the_log_of_another_database_leaves_both(tmp_path: Path, logged: Path) -> None:
    """D03e: refused with the log's name; both files as they were, also for `threads list`."""
    other = tmp_path / "other"
    other.mkdir()
    path = other / "memory.db"
    async with open_session(path, ScriptedModel([say("x")]), []) as session:
        await collect(session.send("mine"))
    shutil.copy(logged.with_name("memory.db-wal"), other / "memory.db-wal")
    assert await refused(path)
    with pytest.raises(StorageError, match=r"memory\.db-wal"):
        list_threads(path)


# -- the program ----------------------------------------------------------------------------------


def is_one_line(done: Done, *words: str) -> None:
    """Exit 1 with one error line that has the words; the context was no subject of it."""
    lines = [line for line in done.err.splitlines() if "do not fit the context" not in line]
    assert (done.code, len(lines)) == (1, 1), done.err
    assert lines[0].startswith("error: ")
    for word in words:
        assert word in lines[0]


@contextmanager
def small_disk(kilobytes: int) -> Iterator[Path]:
    """A file system of its own of that size. Skips the test where none may be mounted."""
    with tempfile.TemporaryDirectory() as folder:
        options = f"size={kilobytes}k"
        mount = ["mount", "-t", "tmpfs", "-o", options, "none", folder]
        if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
            pytest.skip("no file system may be mounted here")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


def long_answer(body: dict[str, Any]) -> Say:
    return Say("x" * 20_000 + f" {len(body['messages'])}")


@posix
@pytest.mark.process
def test_d04_a_full_disk(tmp_path: Path, scripted: Start) -> None:
    """D04: one line, the answer is shown; with room again the thread goes on where it was saved."""
    program = Program(tmp_path, scripted(long_answer).base_url, servers="")
    with small_disk(700) as disk:
        program.db = disk / "memory.db"
        done = program.run("-q", "--db", program.db, stdin="more\n" * 40)
        is_one_line(done, "disk is full", str(program.db))
        saved = done.out.count("\n")
        assert 0 < saved < 40
        assert done.out.splitlines()[-1].startswith("xxx")  # also the one that was not saved
        is_one_line(program.run("-q", "--db", program.db, "-p", "again"), "disk is full")
        listed = program.run("threads", "list", "--db", program.db)
        assert (listed.code, "default" in listed.out) == (0, True)

        subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
        with closing(sqlite3.connect(program.db)) as conn:
            assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        done = program.run("--db", program.db, "-p", "again")
        assert (done.code, done.out[:3]) == (0, "xxx"), done
        count = int(done.err.split("resumed ")[1].split()[0])
        assert count >= 2 * (saved - 1)


@posix
@pytest.mark.process
def test_d04_a_limit_on_file_sizes(tmp_path: Path, scripted: Start) -> None:
    """D04: what the system refuses to write is one line; without the limit the thread goes on."""
    import resource

    program = Program(tmp_path, scripted(long_answer).base_url, servers="")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

    done = program.run("-q", stdin="more\n" * 40, preexec_fn=limit)
    is_one_line(done, str(program.db))
    assert 0 < done.out.count("\n") < 40
    with closing(sqlite3.connect(program.db)) as conn:
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    done = program.run("-p", "again")
    assert (done.code, "resumed" in done.err) == (0, True), done


@posix
@pytest.mark.process
def test_a_folder_that_may_only_be_read(tmp_path: Path, scripted: Start) -> None:
    """It can be listed; a turn is one line, and the file and the folder stay as they were."""
    program = Program(tmp_path, scripted(lambda body: Say("hi")).base_url, servers="")
    with read_only(tmp_path / "disk") as (folder, lock):
        db = folder / "memory.db"
        assert program.run("--db", db, "-p", "hello").code == 0
        before = files(db)
        lock()
        is_one_line(program.run("-q", "--db", db, "-p", "more"), str(folder))
        is_one_line(program.run("-q", "--db", folder / "new.db", "-p", "more"), str(folder))
        listed = program.run("threads", "list", "--db", db)
        assert (listed.code, "hello" in listed.out) == (0, True), listed
        assert program.run("approvals", "list", "--db", db).code == 0
        assert files(db) == before


@contextmanager
def read_only(folder: Path) -> Iterator[tuple[Path, Callable[[], None]]]:
    """A folder, and what takes the right to write away: from root too, who needs a disk for it."""
    if os.getuid() == 0:
        with small_disk(4000) as disk:
            remount = ["mount", "-o", "remount,ro", str(disk)]
            yield disk, lambda: subprocess.run(remount, check=True) and None
        return
    folder.mkdir()
    try:
        yield folder, lambda: folder.chmod(0o555)
    finally:
        folder.chmod(0o755)


@pytest.mark.process
def test_a_damaged_file_in_the_program(tmp_path: Path, whole: Path, scripted: Start) -> None:
    """D03: every command says the same line and ends with 1; the file stays; a new one is begun."""
    program = Program(tmp_path, scripted(lambda body: Say("hi")).base_url, servers="")
    content = bytearray(whole.read_bytes())
    content[3 * 4096 : 4 * 4096] = random.Random(1).randbytes(4096)
    program.db.write_bytes(content)
    runs = program.run_all(
        ["-q", "-p", "x"], ["-q", "--thread", "new", "-p", "x"], ["doctor"], stdin="x\n"
    )
    for done in runs[:2]:
        is_one_line(done, "is damaged", str(program.db), "Move it away")
    assert (runs[2].code, "FAIL  database: " in runs[2].out) == (1, True)
    assert program.db.read_bytes() == bytes(content)
    assert [p.name for p in tmp_path.glob("memory.db?*")] == []
    (tmp_path / "memory.db.damaged").write_bytes(b"an earlier one")  # is not written over
    for number in ("2", "3"):
        said = program.run("-q", "-p", "x").err
        kept = f"{program.db}.damaged{number}"
        assert f"mv {program.db} {kept}; or restore" in said or sys.platform == "win32"
        if number == "3":
            break
        program.db.rename(kept)
        assert program.run("-q", "-p", "x").out == "hi\n"
        assert Path(kept).read_bytes() == bytes(content)
        program.db.write_bytes(content)


@posix
@pytest.mark.process
def test_d04_a_full_disk_for_the_logs_alone(tmp_path: Path, scripted: Start) -> None:
    """D04: what servers say on their error output is lost then, and the chat goes on."""
    replies = [Call("add", {"a": 1, "b": 2}), Say("It is 3.")]
    with small_disk(100) as disk:
        (disk / "filler").write_bytes(b"")
        with (disk / "filler").open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"x" * 4096)
        env = {"XDG_STATE_HOME": str(disk)}
        program = Program(tmp_path, scripted(replies).base_url, env=env)
        assert str(disk) in program.run("config", "path").out
        done = program.run("-p", "add")
        assert (done.code, done.out) == (0, "It is 3.\n"), done


def test_a_free_name_for_a_damaged_file(tmp_path: Path) -> None:
    """The command that is said keeps every file that lies there already."""
    path = tmp_path / "it's mine.db"
    path.write_text("x" * 200)
    Path(f"{path}.damaged").touch()
    Path(f"{path}-wal").touch()
    with pytest.raises(StorageError) as caught:
        check_file(path)
    assert "(and -wal, -shm beside it): " in caught.value.hint
    assert ".db.damaged2" in caught.value.hint


def test_what_sqlite_says_is_one_line() -> None:
    """It repeats what the file holds, which a flipped bit can make anything."""
    error = translate(sqlite3.OperationalError("Could not decode to UTF-8 column 'a\nb'"), "m.db")
    assert error is not None
    assert "m.db" in line_of(error)
    error = translate(sqlite3.OperationalError("no such column: a\nb"), "m.db")
    assert error is not None
    line_of(error)


def test_messages_are_whole_or_an_error() -> None:
    """A message that LangGraph could not build is none, though it has the class of one."""
    torn = HumanMessage.model_construct(id="1")
    assert not hasattr(torn, "content")
    for value in ([torn], {"a": [torn]}, (Overwrite([torn]),), torn):
        with pytest.raises(StorageError):
            check_built(value)
    check_built({"a": [AIMessage("fine"), None, 7, {"b": Overwrite([])}]})
    for value in ([None], [{"content": "x"}], "text"):
        with pytest.raises(StorageError):
            check_shape({"messages": {"writes": [("task", "messages", value)]}})
    check_shape({"messages": {"writes": [("task", "messages", [AIMessage("fine")])]}})
