"""The program as a process: killed, crowded out, locked out, on a full disk."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from local_agent.testing import Call, Calls, Hang, Reply, Say, ScriptedServer
from tests.program_kit import Done, Program, finish, kill, side_by_side, text_of, wait_for

pytestmark = pytest.mark.process
Start = Callable[..., ScriptedServer]
FREE = "Free some space and try again."


def journal(program: Program) -> dict[str, tuple[int, str | None]]:
    """call id -> (how often it was started, how it ended)."""
    with contextlib.closing(sqlite3.connect(program.db)) as conn:
        rows = conn.execute("SELECT call_id, starts, outcome FROM tool_runs").fetchall()
    return {call: (starts, outcome) for call, starts, outcome in rows}


def is_sound(path: Path) -> bool:
    with contextlib.closing(sqlite3.connect(path)) as conn:
        return bool(conn.execute("PRAGMA integrity_check").fetchone() == ("ok",))


def errors(done: Done) -> list[str]:
    """The error lines; that older turns are left out is said beside them."""
    return [line for line in done.err.splitlines() if not line.startswith("warning: The ")]


def test_killed_while_a_write_runs(tmp_path: Path, scripted: Start) -> None:
    """It is not run again, whatever --on-approval says: the model is told that nobody knows."""

    def answer(body: dict[str, Any]) -> Reply:
        if len(body["messages"]) == 2:
            return Call("slow_write", {"seconds": 60, "text": body["messages"][1]["content"]})
        return Say("Who knows." if body["messages"][-1]["role"] == "tool" else "Hi.")

    server = scripted(answer)
    program = Program(tmp_path, server.base_url)

    def crash(*args: str) -> Done:
        thread = "-".join(["t", *args])
        process = program.start("--on-approval", "allow", "--thread", thread, "-p", thread)
        wait_for(lambda: f"start {thread}" in program.written())
        kill(process)
        return program.run(*args, "--thread", thread, "-p", "hello")

    runs = side_by_side(crash, lambda: crash("--on-approval", "allow"))
    for done in runs:
        assert (done.code, done.out) == (0, "Hi.\n")
        line = "The last turn was interrupted while slow_write ran, which may have been carried out"
        assert f'warning: {line}: "t' in done.err
        assert '"; going on with it.' in done.err
        assert "Answer to the earlier prompt: Who knows." in done.err
    assert sorted(program.written()) == ["start t", "start t---on-approval-allow"]
    for body in [body for body in server.requests if len(body["messages"]) == 6]:
        kinds = [line.split(":")[0] for line in text_of(body)]
        assert kinds == ["user", "assistant", "tool", "assistant", "user"]
        assert "Whether it was carried out is unknown" in text_of(body)[2]
    assert (len(server.requests), server.refused) == (6, [])


def test_killed_while_the_model_answers(tmp_path: Path, scripted: Start) -> None:
    """The next start goes on with the turn; its prompt is there once, and the new one behind."""
    server = scripted([Hang("Half"), Say("Whole."), Say("Next.")])
    program = Program(tmp_path, server.base_url)
    process = program.start("-p", "first")
    wait_for(lambda: server.requests)
    kill(process)

    done = program.run("--output", "json", stdin="second\n")

    assert (done.code, done.json["answer"]) == (0, "Next.")
    assert "Answer to the earlier prompt: Whole." in done.err
    assert text_of(server.requests[1]) == ["user: first"]
    assert text_of(server.requests[2]) == ["user: first", "assistant: Whole.", "user: second"]


def test_the_prompt_behind_a_turn_that_goes_on_to_a_bad_end(
    tmp_path: Path, scripted: Start
) -> None:
    """A turn that ends at its limit is over, and the prompt follows."""
    same = Call("echo", {"text": "x"})
    server = scripted([Hang("Half"), same, same, same, Say("Stuck."), Say("Next.")])
    program = Program(tmp_path, server.base_url)
    process = program.start("-p", "first")
    wait_for(lambda: server.requests)
    kill(process)
    done = program.run("-p", "second")
    assert (done.code, done.out) == (0, "Next.\n"), done.err
    assert "Answer to the earlier prompt: Stuck." in done.err


def test_killed_while_reads_run_side_by_side(tmp_path: Path, scripted: Start) -> None:
    """The read that had ended is not run again, the other is; the model gets both results."""
    calls = Calls([Call("echo", {"text": "quick"}, "a"), Call("slow", {"seconds": 2}, "b")])
    server = scripted([calls, Say("Both."), Say("Next.")])
    program = Program(tmp_path, server.base_url)
    process = program.start("-p", "read both")

    def saved() -> bool:
        if not program.db.exists():
            return False
        with contextlib.closing(sqlite3.connect(program.db)) as conn:
            query = "SELECT count(*) FROM writes WHERE instr(value, 'quick') AND task_path LIKE ?"
            with contextlib.suppress(sqlite3.OperationalError):
                found = conn.execute(query, ("%pregel_push%",)).fetchone()[0]
                return bool(found) and journal(program)["a"][1] == "success"
        return False

    wait_for(saved)
    kill(process)
    assert journal(program) == {"a": (1, "success"), "b": (1, None)}

    done = program.run("-p", "next")

    assert (done.code, done.out) == (0, "Next.\n")
    assert "→ slow(seconds=2)" in done.err
    assert "→ echo" not in done.err
    assert journal(program) == {"a": (1, "success"), "b": (2, "success")}
    results = [line for line in text_of(server.requests[1]) if line.startswith("tool: ")]
    assert results == ["tool: quick", "tool: waited 2"]
    assert server.refused == []


@pytest.mark.slow
def test_killed_at_any_moment(tmp_path: Path, scripted: Start) -> None:
    """Killed at several moments of a turn: no prompt is doubled, no write is made twice."""

    def answer(body: dict[str, Any]) -> Reply:
        last = body["messages"][-1]
        if last["role"] == "tool":
            return Say("Noted.")
        return Call("write_note", {"text": last["content"]})

    server = scripted(answer, delay=0.002)
    program = Program(tmp_path, server.base_url)
    for number in range(20):
        process = program.start("--on-approval", "allow", "-p", f"note {number}")
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.9 + 0.1 * number)
        kill(process)
    done = program.run("--on-approval", "allow", "--output", "json", "-p", "last")

    assert (done.code, server.refused) == (0, [])
    assert len(program.written()) == len(set(program.written()))
    prompts = [line for line in text_of(server.requests[-1]) if line.startswith("user: ")]
    assert len(prompts) == len(set(prompts))
    assert is_sound(program.db)


def test_one_process_has_a_thread(tmp_path: Path, scripted: Start) -> None:
    """D02: a second one is refused with the pid; other threads go on; a kill frees the thread."""
    server = scripted(
        lambda body: Hang("wait") if "hang" in str(body["messages"][-1]) else Say("hi")
    )
    program = Program(tmp_path, server.base_url, servers="")
    holder = program.start("--thread", "a", "-p", "hang")
    wait_for(lambda: server.requests)

    second = program.run("-q", "--thread", "a", "-p", "me too")
    assert (second.code, second.out, second.err.count("\n")) == (1, "", 1)
    assert f"thread 'a' is open in another agent (pid {holder.pid})" in second.err
    beside = program.run("-q", "--thread", "b", "-p", "me too")
    assert (beside.code, beside.out) == (0, "hi\n")

    server.replies = lambda body: Say("hi")
    kill(holder)
    third = program.run("-q", "--thread", "a", "-p", "now")
    assert (third.code, third.out) == (0, "hi\n")
    assert "me too" not in str(server.requests[-1])


def test_two_threads_at_the_same_time(tmp_path: Path, scripted: Start) -> None:
    """D01: two processes write to one file, several turns each, and nothing is lost."""
    server = scripted(lambda body: Say(f"got {body['messages'][-1]['content']}"))
    program = Program(tmp_path, server.base_url, servers="")
    old = os.umask(0)
    try:
        both = [program.start("-q", "--thread", name, stdin=subprocess.PIPE) for name in "ab"]
    finally:
        os.umask(old)
    lines = "".join(f"prompt {n}\n" for n in range(8)).encode()
    for process in both:
        assert process.stdin is not None
        process.stdin.write(lines)
        process.stdin.close()
        process.stdin = None
    for process in both:
        done = finish(process)
        assert (done.code, done.err) == (0, "")
        assert done.out == "".join(f"got prompt {n}\n" for n in range(8))
    rows = program.run("threads", "list", "--json").json["threads"]
    assert sorted((row["thread"], row["messages"]) for row in rows) == [("a", 16), ("b", 16)]
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith("memory.db")] == ["memory.db"]
    if sys.platform != "win32":
        assert program.db.stat().st_mode & 0o777 == 0o600


def _lock(program: Program) -> sqlite3.Connection:
    conn = sqlite3.connect(program.db, isolation_level=None, check_same_thread=False)
    conn.execute("BEGIN EXCLUSIVE")
    return conn


def test_a_database_that_is_locked_for_three_seconds(tmp_path: Path, scripted: Start) -> None:
    """D01: the turn waits and nothing is seen of it."""
    program: Program

    def answer(body: dict[str, Any]) -> Reply:
        conn = _lock(program)
        threading.Timer(3, conn.close).start()
        return Say("hi")

    server = scripted(answer)
    program = Program(tmp_path, server.base_url, servers="")
    done = program.run("-q", "-p", "hello")
    assert (done.code, done.out, done.err) == (0, "hi\n", "")
    assert program.run("threads", "list", "--json").json["threads"][0]["messages"] == 2


@pytest.mark.slow
def test_a_database_that_stays_locked(tmp_path: Path, scripted: Start) -> None:
    """D01: after the waiting one clear message; the answer is shown; the thread goes on later."""
    program: Program
    held: list[sqlite3.Connection] = []

    def answer(body: dict[str, Any]) -> Reply:
        held.append(_lock(program))
        return Say("the answer")

    server = scripted(answer)
    program = Program(tmp_path, server.base_url, servers="")
    done = program.run("-q", "-p", "hello")
    held[0].close()
    assert (done.code, done.out) == (1, "the answer\n")
    assert done.err.count("locked by another program; nothing was saved.") == 1
    assert done.err.count("\n") == 1

    server.replies = lambda body: Say("fine")
    done = program.run("-q", "-p", "next")
    assert (done.code, done.out, server.refused) == (0, "fine\n", [])


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """A file system of 1 MB at `folder`; False where this user may not mount one."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1024k", "tmpfs", str(folder)]
    found = shutil.which("mount") and not subprocess.run(mount, capture_output=True).returncode
    try:
        yield bool(found)
    finally:
        if found:
            subprocess.run(["umount", "-l", str(folder)], check=True)


LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
from local_agent.cli import main
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs the limits of POSIX")
def test_a_disk_that_becomes_full(tmp_path: Path, scripted: Start) -> None:
    """D04: one clear line, the file stays sound, and the thread goes on when there is room again.

    Without the right to mount a small disk, a limit on the size of files stands in for it.
    """
    server = scripted(lambda body: Say("y" * 20_000))
    program = Program(tmp_path, server.base_url, servers="")
    lines = "".join(f"prompt {n}\n" for n in range(40))
    with small_disk(tmp_path / "disk") as mounted:
        db, ballast = tmp_path / "disk" / "memory.db", tmp_path / "disk" / "ballast"
        if mounted:
            ballast.write_bytes(bytes(600 * 1024))
            done = program.run("-q", "--db", db, stdin=lines)
            assert errors(done) == [f"error: The disk is full: {db} could not be saved. {FREE}"]
            still = program.run("-q", "--db", db, "-p", "hello?")
            assert (still.code, len(errors(still))) == (1, 1)
            assert "Unexpected" not in still.err
            ballast.unlink()
        else:
            done = program.run("-q", "--db", db, stdin=lines, code=LIMITED)
            (line,) = errors(done)
            assert line.count(str(db)) == 1
        assert done.code == 1
        assert set(done.out.splitlines()) == {"y" * 20_000}
        assert is_sound(db)

        server.replies = lambda body: Say("fine")
        done = program.run("--db", db, "-p", "and now?")
        assert (done.code, done.out, server.refused) == (0, "fine\n", [])
        assert "resumed " in done.err
        assert is_sound(db)
