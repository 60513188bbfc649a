"""The program as a process: writes where nobody can be asked, and their later decision."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from local_agent.lock import thread_lock
from local_agent.testing import Call, Calls, Reply, Say, ScriptedServer
from tests.program_kit import Program, approval_id, clean_environment, server_table, text_of

pytestmark = pytest.mark.process
Start = Callable[..., ScriptedServer]


def write(text: str = "milk", name: str = "call_1") -> Call:
    return Call("write_note", {"text": text}, name)


def test_a_write_in_a_pipe_is_parked_and_approved_once(tmp_path: Path, scripted: Start) -> None:
    """Exit 3 and how to decide; approve runs it once and goes on; a second yes is refused."""
    server = scripted([write(), Say("Noted.")])
    program = Program(tmp_path, server.base_url)

    parked = program.run("--thread", "shop", stdin="note milk\ny\n")
    assert (parked.code, parked.out) == (3, "")
    assert "⏸ approval: write_note(text='milk')\n" in parked.err
    assert (program.written(), len(server.requests)) == ([], 1)  # A07: 'y' answered nothing

    listed = program.run("approvals", "list")
    (line,) = listed.out.splitlines()
    found, thread, rest = line.split("  ", 2)
    assert (listed.code, thread, rest) == (0, "shop", "⏸ approval: write_note(text='milk')")
    assert f"agent approvals approve {found}" in parked.err
    (row,) = program.run("approvals", "list", "--json").json
    assert (row["thread"], row["calls"][0]["args"]) == ("shop", {"text": "milk"})
    shown = program.run("approvals", "show", found)
    assert (shown.code, "milk" in shown.out, row["id"] in shown.out) == (0, True, True)

    waiting = program.run("--thread", "shop", "-p", "and eggs")
    assert (waiting.code, waiting.out, found in waiting.err) == (3, "", True)
    assert len(server.requests) == 1  # the new prompt was not taken

    with thread_lock(program.db, "shop"):
        held = program.run("approvals", "approve", found)
    assert (held.code, held.out, program.written()) == (1, "", [])
    assert f"thread 'shop' is open in another agent (pid {os.getpid()})" in held.err

    approved = program.run("approvals", "approve", found)
    assert (approved.code, approved.out) == (0, "Noted.\n")
    assert "→ write_note(text='milk')\n← noted: milk\n" in approved.err
    assert program.written() == ["milk"]
    assert text_of(server.requests[-1]) == [
        "user: note milk",
        "assistant: ",
        "tool: noted: milk",
    ]

    again = program.run("approvals", "approve", found)
    assert (again.code, again.out, again.err.count("\n")) == (1, "", 1)
    assert (program.run("approvals", "list").out, program.written()) == ("", ["milk"])
    server.replies = lambda body: Say("bye")
    after = program.run("--thread", "shop", "-p", "thanks")
    assert (after.code, server.refused) == (0, [])
    assert "resumed 4 saved messages" in after.err


def test_a_write_as_text_is_parked_and_says_so(tmp_path: Path, scripted: Start) -> None:
    """L08: markup in place of a call is asked about like any other, with what was repaired."""
    text = 'I note it.\n<tool_call>{"name": "WriteNote", "arguments": {"text": "milk"}}</tool_call>'
    server = scripted([Say(text), Say("Noted.")])
    program = Program(tmp_path, server.base_url)

    parked = program.run("--output", "stream-json", "-p", "note milk")
    note = "it was written as text; WriteNote read as write_note"
    assert (parked.code, program.written()) == (3, [])
    assert f"⏸ approval: write_note(text='milk') · repaired: {note}\n" in parked.err
    assert "<tool_call" not in parked.out
    (asked,) = [line for line in parked.lines if line["type"] == "approval"]
    assert asked["calls"][0]["repaired"] == note
    found = approval_id(parked)
    assert f"│ repaired: {note}" in program.run("approvals", "show", found).out

    approved = program.run("approvals", "approve", found)
    assert (approved.code, approved.out, program.written()) == (0, "Noted.\n", ["milk"])
    assert text_of(server.requests[-1])[1:] == ["assistant: I note it.", "tool: noted: milk"]
    assert server.refused == []


def test_a_no_reaches_the_model_with_its_reason(tmp_path: Path, scripted: Start) -> None:
    """`approvals deny --reason`: nothing runs, and the model reads why."""
    server = scripted([write(), Say("All right.")])
    program = Program(tmp_path, server.base_url)
    found = approval_id(program.run("-p", "note milk"))

    denied = program.run(
        "approvals", "deny", found, "--reason", "not on a Friday", "--output", "json"
    )

    assert (denied.code, denied.json["answer"]) == (0, "All right.")
    assert denied.json["tool_calls"][0]["status"] == "denied"
    assert "not on a Friday" in text_of(server.requests[-1])[-1]
    assert program.written() == []


def test_what_decides_unasked(tmp_path: Path, scripted: Start) -> None:
    """--on-approval deny refuses what waits and then sends the prompt; allow runs writes."""
    server = scripted([write("one"), Say("Refused."), Say("Hello.")])
    program = Program(tmp_path, server.base_url)
    assert program.run("-p", "note one").code == 3

    denied = program.run("--on-approval", "deny", "-p", "hello")
    assert (denied.code, denied.out) == (0, "Hello.\n")  # the earlier answer is on stderr
    assert "Answer to the earlier prompt: Refused." in denied.err
    sent = text_of(server.requests[-1])
    assert sent[2].startswith("tool: The user did not allow this call")
    said = [line.partition("\n")[0] for line in sent[3:]]
    assert said == ["assistant: Refused.", "user: hello"]
    assert (program.written(), program.run("approvals", "list").out) == ([], "")

    calls = Calls([write("two", "a"), Call("echo", {"text": "x"}, "b"), write("three", "c")])
    server.replies = [*server.replies, calls, Say("Done.")]  # type: ignore[misc]
    allowed = program.run("--on-approval", "allow", "-p", "note two and three")
    assert (allowed.code, allowed.out) == (0, "Done.\n")
    assert program.written() == ["two", "three"]
    assert server.refused == []


def test_a_repaired_write_is_not_allowed_beforehand(tmp_path: Path, scripted: Start) -> None:
    """The model wrote something else: it waits, and where nothing can wait it is refused."""
    text = '<tool_call>{"name": "write_note", "arguments": {"text": "milk"}}</tool_call>'
    server = scripted([Say(text), Say("Noted."), Say(text), Say("Not noted.")])
    program = Program(tmp_path, server.base_url)
    allow = ("--on-approval", "allow")
    parked = program.run(*allow, "-p", "note milk")
    assert (parked.code, program.written()) == (3, [])
    assert program.run(*allow, "-p", "and?").code == 3
    done = program.run("approvals", "approve", approval_id(parked))
    assert (done.code, program.written()) == (0, ["milk"]), done.err

    refused = program.run(*allow, "--ephemeral", "-p", "note milk")
    assert (refused.code, refused.out) == (0, "Not noted.\n"), refused.err
    assert program.written() == ["milk"]
    assert "it was repaired" in text_of(server.requests[-1])[-1]


def test_an_approval_while_something_is_down(tmp_path: Path, scripted: Start) -> None:
    """A03: without the model server or the tool it keeps waiting; a no is possible all the same."""
    server = scripted([write(), Say("A pity."), Say("Fine.")])
    program = Program(tmp_path, server.base_url)
    found = approval_id(program.run("-p", "note milk"))

    down = program.run("--base-url", "http://127.0.0.1:9/v1", "approvals", "approve", found)
    assert (down.code, down.out, "No model server" in down.err) == (1, "", True)
    assert program.run("approvals", "list").out.startswith(found)
    assert program.written() == []

    program.config.write_text(program.config.read_text().replace("command = ", "command = 'x' #"))
    gone = program.run("approvals", "approve", found)
    assert (gone.code, gone.out, "still waits" in gone.err) == (1, "", True)
    refused = program.run("approvals", "deny", found)
    assert (refused.code, refused.out) == (0, "A pity.\n")
    assert "is not there any more" in text_of(server.requests[-1])[-1]
    assert program.run("-q", "-p", "next").out == "Fine.\n"
    assert (program.run("approvals", "list").out, server.refused) == ("", [])


def test_only_the_chosen_calls_run(tmp_path: Path, scripted: Start) -> None:
    """A01: of three calls in one message, `--call 2` runs that one; the others are refused."""
    calls = Calls([write("a", "x"), write("b", "y"), write("c", "z")])
    server = scripted([calls, Say("One of three."), write("d"), Say("Again.")])
    program = Program(tmp_path, server.base_url)
    found = approval_id(program.run("-p", "note a, b, c"))
    wrong = program.run("approvals", "approve", found, "--call", "4")
    assert (wrong.code, program.written()) == (2, [])

    done = program.run("approvals", "approve", found, "--call", "2", "--for-thread")

    assert (done.code, program.written()) == (0, ["b"])
    results = [line for line in text_of(server.requests[1]) if line.startswith("tool: ")]
    assert ["did not allow" in line for line in results] == [True, False, True]
    unasked = program.run("-p", "note d")
    assert (unasked.code, program.written()) == (0, ["b", "d"])


def test_the_sample_servers_on_a_repository(tmp_path: Path, scripted: Start) -> None:
    """A commit by mcp-server-git: parked, approved, made once; then the log shows it."""
    path = clean_environment()["PATH"]
    if not (shutil.which("mcp-server-git", path=path) and shutil.which("git")):
        pytest.skip("mcp-server-git is not installed")
    repo = tmp_path / "repo"
    git = ["git", "-C", str(repo), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    for name, value in (("user.name", "x"), ("user.email", "x@example.org")):
        subprocess.run([*git, "config", name, value], check=True)
    (repo / "a.txt").write_text("a")
    subprocess.run([*git, "add", "a.txt"], check=True)

    def answer(body: dict[str, Any]) -> Reply:
        last = body["messages"][-1]
        if last["role"] == "tool":
            return Say(last["content"])
        name = "git_commit" if "commit" in last["content"] else "git_log"
        args = {"repo_path": str(repo)}
        return Call(name, {**args, "message": "first one"} if name == "git_commit" else args)

    server = scripted(answer)
    table = server_table("git", "mcp-server-git", ["--repository", str(repo)])
    program = Program(tmp_path, server.base_url, servers=table)

    found = approval_id(program.run("-p", "commit it"))
    count = [*git, "rev-list", "--all", "--count"]
    assert subprocess.run(count, capture_output=True, check=True).stdout.strip() == b"0"
    assert program.run("approvals", "approve", found).code == 0
    assert subprocess.run(count, capture_output=True, check=True).stdout.strip() == b"1"
    log = program.run("-p", "show the log")
    assert (log.code, "first one" in log.out) == (0, True)
