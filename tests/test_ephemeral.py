"""--ephemeral: the process opens nothing for writing, makes no folder, and leaves no file."""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from local_agent.testing import Call, Calls, Reply, Say, ScriptedServer
from tests.chat_kit import Chats, leave, stdio_table
from tests.program_kit import ROOT, Program, echo_table, server_table

pytestmark = pytest.mark.process
Start = Callable[..., ScriptedServer]

# Run by Python itself before the program: what every library of it opens for writing, makes or
# moves is noted, whatever becomes of it later. Not the servers: their files are their own.
WATCH = """
import os, sys
_out = os.open(os.environ["WATCHED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
_changing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_named = {"os.mkdir", "os.rename", "os.remove", "os.link", "os.symlink", "os.truncate", "os.rmdir"}
def _watch(event, args):
    if event == "open":
        path, mode, flags = args
        if isinstance(path, int) or not (flags or 0) & _changing or path == os.devnull:
            return
    elif event == "sqlite3.connect":
        if args[0] == ":memory:":
            return
    elif event not in _named and not event.startswith("tempfile."):
        return
    os.write(_out, f"{event} {args}\\n".encode("utf-8", "replace"))
if os.path.basename(sys.argv[0]) != "mcp_server.py" and "-S" not in sys.orig_argv:
    sys.addaudithook(_watch)
"""
PICTURE = base64.b64encode(b"picture" * 50).decode()


def watched(folder: Path) -> tuple[dict[str, str], Path]:
    """The variables that make a Python process note what it writes, and where it does."""
    hooks = folder / "hooks"
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(WATCH)
    log = folder / "watched.txt"
    path = os.pathsep.join([str(hooks), str(ROOT)])
    # Compiled modules are no trace of a conversation, and are there where it is installed.
    env = {"PYTHONPATH": path, "WATCHED": str(log), "PYTHONDONTWRITEBYTECODE": "1"}
    return env, log


def tree(*folders: Path) -> dict[str, bytes | None]:
    """All that is below the folders, with what is in it."""
    paths = [path for folder in folders for path in folder.rglob("*")]
    return {str(p): p.read_bytes() if p.is_file() else None for p in paths}


def answer(body: dict[str, Any]) -> Reply:
    """Calls a read, a write and a picture, whatever is asked; then answers."""
    last = body["messages"][-1]
    if last["role"] == "tool":
        return Say("done")
    picture = {"result": {"content": [{"type": "image", "data": PICTURE, "mimeType": "image/png"}]}}
    return Calls(
        [
            Call("echo", {"text": "hello " * 100}, "c1"),
            Call("write_note", {"text": "x"}, "c2"),
            Call("give", picture, "c3"),
        ]
    )


def servers(notes: Path) -> str:
    """One that talks, one that writes to its error output and gives pictures, one that fails."""
    return "\n".join(
        [
            '[router]\nmode = "off"',
            echo_table(notes),
            stdio_table(
                "loud",
                {"stderr": "a line of the server\n" * 50},
                read=["give"],
                enabled_tools=["give"],
            ),
            server_table("bad", sys.executable, ["-S", "-c", "import sys; sys.exit('no key')"]),
        ]
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Home and all temporary folders, empty and apart."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def folders_in(home: Path) -> dict[str, str]:
    names = ("HOME", "TMPDIR", "TEMP", "TMP", "SQLITE_TMPDIR", "USERPROFILE", "APPDATA")
    xdg = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
    return {**dict.fromkeys((*names, "LOCALAPPDATA", *xdg), str(home))}


def test_a_piped_run_writes_nothing(tmp_path: Path, home: Path, scripted: Start) -> None:
    """Servers with error output, a picture, a refused write: no file is opened for writing."""
    model = scripted(answer)
    env, log = watched(tmp_path)
    run = tmp_path / "run"
    program = Program(
        run, model.base_url, servers=servers(tmp_path / "n"), env={**env, **folders_in(home)}
    )
    before = tree(run, home)
    done = program.run("--ephemeral", "-v", stdin="one\ntwo\n")
    assert (done.code, done.out) == (0, "done\ndone\n"), done
    assert "Server 'bad' is not available" in done.err
    assert "no key" in done.err  # the reason is known without a log
    sent = next(b["messages"] for b in model.requests if b["messages"][-1]["role"] == "tool")
    results = {m["tool_call_id"]: m["content"] for m in sent if m["role"] == "tool"}
    assert results["c1"].startswith("hello hello")
    assert "no terminal" in results["c2"]
    kept = "not saved: this run writes nothing to disk"
    assert results["c3"] == f"[image: image/png, 350 bytes, {kept}]"
    assert log.read_text() == ""
    assert tree(run, home) == before
    assert not (tmp_path / "n").exists()

    done = program.run("-q", "-p", "three")  # that it would be seen
    assert done.code == 3
    assert "memory.db" in log.read_text()
    assert "server-loud.log" in log.read_text()


def test_a_chat_writes_nothing(tmp_path: Path, home: Path, scripted: Start) -> None:
    """The same at the terminal: no history of the prompt, a yes is of this run, commands too."""
    env, log = watched(tmp_path)
    run = tmp_path / "run"
    run.mkdir()
    chats = Chats(run, scripted(answer), servers(tmp_path / "n"))
    before = tree(run, home)
    with chats.ready("--ephemeral", **env, **folders_in(home)) as program:
        program.send("one\r")
        program.wait_for("write_note")
        program.send("y\r")
        program.wait_for("done")
        for command in ("/threads", "/tools", "/new other"):
            program.send(f"{command}\r")
        program.wait_for("Thread 'other': new conversation.")
        leave(program)
    assert (tmp_path / "n").read_text() == "x\n"  # the server's own, and asked for
    assert log.read_text() == ""
    assert tree(run, home) == before


def test_the_embedded_model_writes_nothing(tmp_path: Path, home: Path) -> None:
    """Its error output is kept in memory, so that the reason is still known."""
    if find_spec("xllamacpp") is None:
        pytest.skip("the extra is not installed")
    from tests.test_embedded import gguf

    env, log = watched(tmp_path)
    weights = gguf(tmp_path / "broken.gguf")
    program = Program(tmp_path, "http://127.0.0.1:9/v1", env={**env, **folders_in(home)})
    done = program.run("--ephemeral", "--model", f"embedded:{weights}", "-p", "hi")
    assert done.code == 1
    assert "llama.cpp could not serve broken.gguf: " in done.err
    assert "it ended with code" not in done.err
    assert ".log" not in done.err
    assert log.read_text() == ""
    assert tree(home) == {}
