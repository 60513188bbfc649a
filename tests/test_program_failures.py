"""The program as a process: what fails is one line, the right exit code, and an end."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from local_agent.testing import Call, Fail, Hang, Reply, Say, ScriptedServer
from tests.program_kit import Done, Program, finish, server_table, side_by_side, text_of, wait_for

pytestmark = pytest.mark.process
Start = Callable[..., ScriptedServer]
posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")


def closed_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_one_line(done: Done, code: int, *words: str) -> None:
    """One error line on stderr, nothing else anywhere."""
    assert (done.code, done.out) == (code, ""), done
    assert done.err.startswith("error: "), done
    assert done.err.count("\n") == 1, done
    for word in words:
        assert word in done.err, done


def test_a_model_server_that_is_down(tmp_path: Path) -> None:
    """L16 a, d: one line with the address and the remedy, exit 1; nothing of it is stored."""
    url = f"http://127.0.0.1:{closed_port()}/v1"
    program = Program(tmp_path, url)
    runs = side_by_side(
        lambda: program.run("-q", "--thread", "a", "-p", "hi"),
        lambda: program.run("-q", "--thread", "b", stdin="hi\nagain\n"),
    )
    for done in runs:
        is_one_line(done, 1, f"No model server at {url}.", "lms server start")
    assert "No threads" in program.run("threads", "list").err


def test_no_loaded_model_or_several(tmp_path: Path, scripted: Start) -> None:
    """L16 b: none: how to load one. Several: exit 2 and their names, and one can be chosen."""
    several = scripted([Say("hello")], loaded=["qwen-7b", "llama-8b"], flavour="lmstudio")
    llama, studio = scripted(loaded=[]), scripted(loaded=[], flavour="lmstudio")
    program = Program(tmp_path, several.base_url, servers="")
    base, prompt = ["-q", "--base-url"], ["-p", "hi", "--thread"]
    first, second, third, chosen = program.run_all(
        [*base, llama.base_url, *prompt, "a"],
        [*base, studio.base_url, *prompt, "b"],
        ["-q", *prompt, "c"],
        ["-q", "--model", "llama-8b", *prompt, "d"],
    )
    is_one_line(first, 1, llama.base_url, "lms load")
    is_one_line(second, 1, studio.base_url, "lms load")
    is_one_line(third, 2, "qwen-7b", "llama-8b")
    assert (chosen.code, chosen.out) == (0, "hello\n")
    assert several.requests[-1]["model"] == "llama-8b"


def test_a_turn_that_the_model_server_fails(tmp_path: Path, scripted: Start) -> None:
    """A 500 ends the pipe with exit 1; the thread goes on with the next run."""
    server = scripted([Fail(500, {"error": {"message": "out of VRAM"}})] * 4)
    program = Program(tmp_path, server.base_url, servers="")
    done = program.run("-q", stdin="one\ntwo\n")
    is_one_line(done, 1, "out of VRAM")

    server.replies = lambda body: Say("fine")
    done = program.run("-q", "-p", "three")
    assert (done.code, done.out, done.err) == (0, "fine\n", "")
    sent = ["user: one", "assistant: [stopped]", "user: three"]  # roles have to take turns
    assert text_of(server.requests[-1]) == sent
    assert server.refused == []
    assert "VRAM" not in str(server.requests)  # nobody said that in the conversation


def test_usage_errors(tmp_path: Path) -> None:
    """Whatever cannot be is one line and exit 2, before anything is opened."""
    cases = [
        (["--nonsense"], "--nonsense"),
        (["nonsense"], "nonsense"),
        (["--output", "xml", "-p", "x"], "json"),
        (["--max-steps", "many", "-p", "x"], "--max-steps"),
        (["--max-steps", "0", "-p", "x"], "--max-steps"),
        (["--timeout", "-1", "-p", "x"], "--timeout"),
        (["--on-approval", "maybe", "-p", "x"], "maybe"),
        (["--thread", "", "-p", "x"], "--thread"),
        (["--thread", "x" * 201, "-p", "x"], "200"),
        (["--thread", "a\nb", "-p", "x"], "--thread"),
        (["--base-url", "nonsense", "-p", "x"], "--base-url"),
        (["--config", "not-there.toml", "-p", "x"], "not-there.toml"),
        (["--db", "postgres://u:pw@h/d", "-p", "x"], "--db"),
        (["approvals", "approve"], "ID"),
        (["servers", "test", "nonsense"], "nonsense"),
    ]
    program = Program(tmp_path, "http://127.0.0.1:9/v1")
    runs = program.run_all(*(["-q", *args] for args, _ in cases), stdin="x\n")
    for (_, words), done in zip(cases, runs, strict=True):
        is_one_line(done, 2, words)
    assert not program.db.exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[model\n", "line 1"),
        ("[model]\nbase_ulr = 'x'\n", "base_url"),
        ("[servers.x]\nargs = []\n", "x"),
        ("[servers.x]\ncommand = 'a'\nurl = 'http://b'\n", "x"),
        ("\0\0\0", ""),
    ],
)
def test_a_bad_configuration(tmp_path: Path, text: str, words: str) -> None:
    """One line with the place, exit 2; `doctor` says the same."""
    program = Program(tmp_path, "http://127.0.0.1:9/v1")
    program.config.write_text(text)
    is_one_line(program.run("-q", "-p", "x"), 2, words, "agent.toml")
    if text == "[model\n":
        doctor = program.run("doctor")
        assert (doctor.code, doctor.out.startswith("FAIL  configuration: ")) == (1, True)


def test_a_database_that_is_none(tmp_path: Path, scripted: Start) -> None:
    """D03, D09: text, a directory, garbage: one line with the path, exit 1, the file untouched."""
    server = scripted(lambda body: Say("hi"))
    program = Program(tmp_path, server.base_url)
    text, garbage, folder = tmp_path / "text.db", tmp_path / "garbage.db", tmp_path / "folder.db"
    text.write_text("Dear diary,\n" * 1000)
    garbage.write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 64)
    folder.mkdir()
    below = text / "memory.db"
    places = [text, garbage, folder, below]
    before = [text.read_bytes(), garbage.read_bytes()]

    runs = program.run_all(*(["-q", "--db", db, "-p", "hi"] for db in places))
    for db, done in zip(places, runs, strict=True):
        is_one_line(done, 1, str(db))
    is_one_line(program.run("threads", "list", "--db", text), 1, str(text))
    is_one_line(program.run("approvals", "list", "--db", garbage), 1, str(garbage))
    assert [text.read_bytes(), garbage.read_bytes()] == before
    assert sorted(p.name for p in tmp_path.iterdir() if "db" in p.name) == [
        "folder.db",
        "garbage.db",
        "text.db",
    ]
    empty = tmp_path / "empty.db"
    empty.touch()
    assert program.run("-q", "--db", empty, "-p", "hi").code == 0


@posix
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_a_folder_that_cannot_be_written(tmp_path: Path, scripted: Start) -> None:
    """One line that names it, exit 1."""
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    program = Program(tmp_path, scripted([Say("hi")]).base_url)
    is_one_line(program.run("-q", "--db", locked / "memory.db", "-p", "hi"), 1, str(locked))


def test_a_route_that_does_not_exist(tmp_path: Path, scripted: Start) -> None:
    """Exit 2 with the names that there are; an existing one is kept to."""
    server = scripted(lambda body: Say("hi"))
    routes = "[routes.sums]\ndescription = 'adding'\ntools = ['add']\n"
    program = Program(tmp_path, server.base_url, model=routes)
    wrong, done = program.run_all(
        ["-q", "--thread", "a", "--route", "smus", "-p", "hi"], ["--route", "sums", "-p", "hi"]
    )
    is_one_line(wrong, 2, "smus", "sums")
    assert (done.code, "⇢ route: sums\n" in done.err) == (0, True)
    assert [t["function"]["name"] for t in server.requests[-1]["tools"]] == ["add"]


def test_servers_that_fail_do_not_stop_the_rest(tmp_path: Path, scripted: Start) -> None:
    """M06, M07: each is a line with its reason, and the turn goes on with the others."""
    server = scripted([Call("add", {"a": 1, "b": 1}), Say("2")])
    mute = server_table("mute", sys.executable, ["-c", "import sys; sys.stdin.read()"])
    bad = [
        server_table("missing", "no-such-command", []),
        server_table("folder", str(tmp_path), []),
        server_table("key", sys.executable, ["-c", "import sys; sys.exit('API_KEY not set')"]),
        f"{mute}startup_timeout_sec = 0.5\n",
        f"[servers.web]\nurl = 'http://127.0.0.1:{closed_port()}/mcp'\n",
    ]
    program = Program(tmp_path, server.base_url)
    program.config.write_text("\n".join([program.config.read_text(), *bad]))
    done = program.run("-p", "one and one")
    assert (done.code, done.out) == (0, "2\n")
    for name in ("missing", "folder", "key", "mute", "web"):
        assert done.err.count(f"warning: Server '{name}' is not available: ") == 1
    assert "API_KEY not set" in done.err
    assert "Loaded 8 tools." in done.err


def test_the_step_limit(tmp_path: Path, scripted: Start) -> None:
    """--max-steps 1: one call with tools, one without, exit 4; the next run works."""

    def answer(body: dict[str, Any]) -> Reply:
        if body.get("tool_choice") == "none" or body["messages"][-1]["content"] == "and now?":
            return Say("So far: 3")
        return Call("add", {"a": 1, "b": 2}, f"call_{len(body['messages'])}")

    server = scripted(answer)
    program = Program(tmp_path, server.base_url)
    done = program.run("-q", "--max-steps", "1", stdin="add for ever\nnever sent\n")
    assert (done.code, done.out) == (4, "So far: 3\n")
    assert done.err.startswith("warning: Stopped after the allowed number of model calls")
    assert len(server.requests) == 2
    done = program.run("-q", "-p", "and now?")
    assert (done.code, done.out, server.refused) == (0, "So far: 3\n", [])


def test_the_time_limit(tmp_path: Path, scripted: Start) -> None:
    """--timeout: exit 124 and what had come; the thread can be used afterwards."""
    server = scripted([Hang("Once upon"), Say("fine")])
    program = Program(tmp_path, server.base_url)
    done = program.run("-q", "--timeout", "1", stdin="tell\nnever sent\n")
    assert (done.code, done.out) == (124, "Once upon\n")
    assert "1 second" in done.err
    assert wait_for(server.dropped.is_set)  # the model is not left computing
    done = program.run("-q", "-p", "next")
    assert (done.code, done.out, server.refused) == (0, "fine\n", [])
    assert text_of(server.requests[-1])[0] == "user: tell"


@posix
def test_an_interrupt(tmp_path: Path, scripted: Start) -> None:
    """A05: Ctrl-C ends a run with 130 and no traceback; the thread can be used afterwards."""
    mute = server_table("mute", sys.executable, ["-c", "import sys; sys.stdin.read()"])

    def interrupt(when: str) -> list[str]:
        first: Reply = Hang("Once upon") if when == "model" else Call("slow", {"seconds": 60})
        server = scripted([first, Say("fine")])
        servers = mute if when == "start" else None
        program = Program(tmp_path / when, server.base_url, servers=servers)
        process = program.start("--output", "stream-json", "-p", "go")
        assert process.stdout is not None
        if when == "start":
            wait_for(program.db.exists)
        while when != "start" and b'"text"' not in (line := process.stdout.readline()):
            if b'"tool_use"' in line:
                break
        process.send_signal(signal.SIGINT)
        done = finish(process)
        assert (done.code, "Traceback" in done.err) == (130, False)
        if when == "start":
            return []
        result = done.lines[-1]
        assert (result["type"], result["status"]) == ("result", "error")
        assert result["answer"] == ("Once upon" if when == "model" else "")
        done = program.run("-q", "-p", "next")
        assert (done.code, done.out, server.refused) == (0, "fine\n", [])
        return text_of(server.requests[-1])

    with ThreadPoolExecutor(2) as pool:
        model, tool, _ = pool.map(interrupt, ["model", "tool", "start"])
    for sent in (model, tool):
        assert (sent[0], sent[-1]) == ("user: go", "user: next")
    assert tool[2].startswith("tool: Cancelled by the user while it ran")


@posix
def test_a_full_disk_behind_stdout(tmp_path: Path, scripted: Start) -> None:
    """What cannot be written to stdout is one line and exit 1, not a traceback."""
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    program = Program(tmp_path, scripted([Say("hi")]).base_url, servers="")
    with full.open("wb") as out:
        done = finish(program.start("-q", "-p", "hi", stdout=out))
    is_one_line(done, 1, "No space left")
