"""D09: a run that is told to end, at whatever moment of its start, ends with its exit code."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from local_agent.testing import Hang, Say, ScriptedServer
from tests.program_kit import Done, Program, finish, server_table, side_by_side, wait_for

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform == "win32", reason="needs the signals of POSIX"),
]
Start = Callable[..., ScriptedServer]
BEGUN = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from local_agent.cli import main
print("begun", flush=True)
main()
"""
TOLD = {signal.SIGINT: 130, signal.SIGTERM: 130}


def test_told_to_end_while_it_starts(tmp_path: Path, scripted: Start) -> None:
    """Ctrl-C and SIGTERM, spread over the whole start: no hang, no traceback, a sound database."""
    server = scripted([Say("hi")], repeat=True)
    program = Program(tmp_path, server.base_url)

    def told(number: int, delay: float) -> Done:
        process = program.start("-q", "--thread", str(delay), "-p", "hello", code=BEGUN)
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        time.sleep(delay)  # any moment is as good as another
        process.send_signal(number)
        return finish(process)

    moments = [(number, 0.1 + 0.4 * n) for n in range(4) for number in TOLD]
    for (number, _), done in zip(
        moments, side_by_side(*(partial(told, *moment) for moment in moments)), strict=True
    ):
        # Before there is a loop, SIGTERM is the system's; after the answer the code is 0.
        early = -number if number == signal.SIGTERM else TOLD[number]
        assert done.code in (TOLD[number], early, 0), done
        assert "Traceback" not in done.err
    with closing(sqlite3.connect(program.db)) as conn:
        assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert [path.name for path in tmp_path.glob("memory.db*")] == ["memory.db"]


def test_told_to_end_with_all_open(tmp_path: Path, scripted: Start) -> None:
    """The database, the servers and a turn are open: all are closed, and the code is 130."""
    stubborn = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); sys.stdin.read()"

    def told(number: int) -> tuple[Done, Program]:
        server = scripted([Hang("Once")])
        program = Program(tmp_path / str(number), server.base_url)
        process = program.start("--output", "stream-json", "-p", "hello")
        wait_for(lambda: server.requests)
        process.send_signal(number)
        return finish(process), program

    for number, code in TOLD.items():
        done, program = told(number)
        assert (done.code, "Traceback" in done.err) == (code, False)
        assert [path.name for path in program.folder.glob("memory.db*")] == ["memory.db"]

    mute = server_table("mute", sys.executable, ["-c", stubborn])
    program = Program(tmp_path / "mute", "http://127.0.0.1:9/v1", servers=mute)
    process = program.start("-p", "hello")
    wait_for(program.db.exists)
    process.send_signal(signal.SIGINT)
    assert finish(process).code == 130


def test_an_error_behind_the_open_database(tmp_path: Path, scripted: Start) -> None:
    """A route that is not there, a model that is not, a server that fails: each has its code."""
    bad = server_table("bad", sys.executable, ["-c", "raise SystemExit(3)"])
    server = scripted([Say("hi")], repeat=True)
    program = Program(tmp_path, server.base_url, servers=bad)
    runs = program.run_all(
        ("--thread", "a", "-p", "x", "--route", "none"),
        ("--thread", "b", "-p", "x", "--base-url", "http://127.0.0.1:9/v1"),
        ("--thread", "c", "-p", "x"),
        ("--thread", "d"),
    )
    assert [done.code for done in runs] == [2, 1, 0, 0]
    assert all("Traceback" not in done.err for done in runs)
    assert [path.name for path in tmp_path.glob("memory.db*")] == ["memory.db"]


def test_ctrl_c_while_the_program_loads(tmp_path: Path) -> None:
    """A Ctrl-C before the first own line has run ends it with 130 and no traceback."""
    code = (
        "import sys\n"
        "class Pressed:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'click':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Pressed())\n"
        "from local_agent.cli import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", code, "--version"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")
