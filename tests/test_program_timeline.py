"""A thread turned back, copied, corrected and looked into by command.

Turns are runs of the program as a process. A command that runs none starts no server and no model;
most of those are run in this process, which is a second each that all the tests do not have.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from local_agent import cli
from local_agent.testing import Call, Calls, Say, ScriptedServer
from tests.program_kit import Done, Program, approval_id, text_of, wait_for

pytestmark = pytest.mark.process
Start = Callable[..., ScriptedServer]
ADD = Call("add", {"a": 17, "b": 25})
NOTE = Call("write_note", {"text": "milk"})


Command = Callable[..., Done]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs `agent threads ARGS` on a program's configuration, in this process."""

    def run(program: Program, *args: str | Path) -> Done:
        capsys.readouterr()
        code = cli.run(["--config", str(program.config), "threads", *map(str, args)])
        said = capsys.readouterr()
        return Done(code, said.out.encode(), said.err.encode())

    return run


def say(program: Program, text: str, *options: str) -> Done:
    return program.run("--thread", "t", *options, "-p", text)


def test_turned_back_over_restarts(tmp_path: Path, scripted: Start, command: Command) -> None:
    """D10: the request holds what is kept, the write is asked about again, nothing ran by it."""
    server = scripted(
        [Say("noted"), NOTE, Say("done"), Say("fine"), NOTE, Say("again"), Say("yes")]
    )
    program = Program(tmp_path, server.base_url)
    say(program, "my cat is Tom")
    say(program, "note milk", "--on-approval", "allow")
    say(program, "how are you")

    listed = command(program, "rewind", "t").out.splitlines()
    assert [line.split()[0] for line in listed] == ["3", "2", "1"]
    assert listed[1].endswith("note milk  [write_note]")
    turned = program.run("threads", "rewind", "t", "--to", "2", "--json")
    assert (turned.code, turned.json["turns"], turned.json["draft"]) == (0, 1, "note milk")
    branch = turned.json["branch"]
    parked = say(program, "note milk")
    assert parked.code == 3
    assert text_of(server.requests[-1]) == [
        "user: my cat is Tom",
        "assistant: noted",
        "user: note milk",
    ]
    assert program.written() == ["milk"]
    shown = program.run("approvals", "list", "--json")
    assert [call["why"] for call in shown.json[0]["calls"]] == ["ran"]

    back = command(program, "rewind", "t", "--branch", branch)
    assert back.code == 0
    assert back.out.startswith("Thread 't' has 3 turns now.\nWhat was left is kept: agent threads")
    assert program.run("approvals", "approve", approval_id(parked)).code == 1
    there = command(program, "show", "t", "--branches", "--json").json["branches"]
    assert [(one["first_turn"], one["prompt"]) for one in there] == [(2, "note milk")]
    waiting = command(program, "rewind", "t", "--branch", there[0]["id"])
    assert "The last one is not finished." in waiting.out
    (asked,) = program.run("approvals", "list", "--json").json
    assert asked["id"] != approval_id(parked)
    assert program.run("approvals", "approve", asked["id"][:12]).out == "again\n"
    assert program.written() == ["milk", "milk"]
    first = command(program, "rewind", "t", "--to", "1")
    assert first.out.startswith("Thread 't' has no turn now.")
    assert "new conversation" in say(program, "hello").err
    assert text_of(server.requests[-1]) == ["user: hello"]
    assert server.refused == []


def test_a_copy_goes_its_own_way(tmp_path: Path, scripted: Start, command: Command) -> None:
    """Forked at a turn and at its end; listed with its parent; the original unchanged."""
    server = scripted([Say("one"), Say("two"), Say("three")])
    program = Program(tmp_path, server.base_url)
    say(program, "first")
    say(program, "second")
    done = program.run("threads", "fork", "t", "my copy", "--at", "1")
    assert (done.code, done.out) == (0, "Copied 1 turn of 't' into 'my copy'.\n")
    program.run("--thread", "my copy", "-p", "else")
    assert text_of(server.requests[-1]) == ["user: first", "assistant: one", "user: else"]
    taken = command(program, "fork", "t", "my copy")
    assert (taken.code, taken.err.count("\n")) == (1, 1)
    named = command(program, "fork", "t", "a\nb")
    assert (named.code, "control characters" in named.err) == (2, True)
    with closing(sqlite3.connect(program.db)) as conn:
        rows = conn.execute("SELECT thread, parent, turns FROM agent_threads ORDER BY 1").fetchall()
    assert rows == [("my copy", "t", 2), ("t", None, 2)]


def test_a_result_is_corrected_and_the_turn_goes_on(
    tmp_path: Path, scripted: Start, command: Command
) -> None:
    """Only what follows runs again; the answer is on stdout; `--no-run` leaves it for later."""
    server = scripted([ADD, Say("It is 42."), Say("later"), Say("It is 43."), Say("It is 44.")])
    program = Program(tmp_path, server.base_url)
    say(program, "add them")
    say(program, "thanks")
    done = program.run("threads", "edit", "t", "--result", "R1", "--text", "43")
    assert (done.code, done.out) == (0, "It is 43.\n")
    assert "What was left is kept: agent threads rewind t --branch" in done.err
    assert text_of(server.requests[-1]) == ["user: add them", "assistant: ", "tool: 43"]
    assert command(program, "show", "t", "--result", "r1").out == "43\n"

    new = tmp_path / "new.txt"
    new.write_text("44", encoding="utf-8")
    put = command(program, "edit", "t", "--result", "r1", "--file", new, "--no-run", "--json")
    assert (put.code, put.json["open"], len(server.requests)) == (0, True, 4)
    shown = command(program, "show", "t")
    assert shown.out.endswith("\nThe last turn is not finished.\n")
    assert "← 44  [r1, edited]" in shown.out
    going_on = say(program, "and?", "--on-approval", "deny")
    assert "Answer to the earlier prompt: It is 44." in going_on.err
    assert text_of(server.requests[-2])[-1] == "tool: 44"


def test_a_prompt_is_corrected(tmp_path: Path, scripted: Start, command: Command) -> None:
    """As one JSON object too; the prompts behind it are on a branch."""
    server = scripted([Say("one"), Say("two"), Say("zwei")])
    program = Program(tmp_path, server.base_url)
    say(program, "first")
    say(program, "second")
    done = program.run("threads", "edit", "t", "--prompt", "1", "--text", "erstes", "--json")
    assert (done.code, done.json["answer"]) == (0, "zwei")
    assert text_of(server.requests[-1]) == ["user: erstes"]
    assert [m["content"] for m in messages(command, program)] == ["erstes", "zwei"]
    branches = command(program, "show", "t", "--branches").out
    assert "2 turns from 1 on  (edit prompt 1) first" in branches


def messages(command: Command, program: Program) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = command(program, "show", "t", "--json").json["messages"]
    return found


def test_a_waiting_call_gets_other_arguments(
    tmp_path: Path, scripted: Start, command: Command
) -> None:
    """Checked against the schema, asked again; the state can be set while it waits."""
    server = scripted([NOTE, Say("noted")])
    program = Program(tmp_path, server.base_url)
    first = approval_id(say(program, "note milk"))
    wrong = program.run("threads", "edit", "t", "--call", "r1", "--args", '{"text": 5}')
    assert (wrong.code, "5 is not of type 'string'" in wrong.err) == (2, True)
    missing = program.run("threads", "edit", "t", "--call", "r1", "--args", "{}")
    assert (missing.code, "'text' is a required property" in missing.err) == (2, True)
    right = program.run("threads", "edit", "t", "--call", "r1", "--args", '{"text": "tea"}')
    second = approval_id(right)
    assert "approval: write_note(text='tea')" in right.err
    route = program.run("threads", "edit", "t", "--state", '{"route": "nowhere"}')
    assert (route.code, "There is no route 'nowhere'" in route.err) == (2, True)
    state = command(program, "edit", "t", "--state", '{"facts": ["f"]}', "--no-run")
    assert state.code == 0
    (asked,) = program.run("approvals", "list", "--json").json
    assert len({first, second, asked["id"][:12]}) == 3
    assert program.run("approvals", "approve", second).code == 1
    assert program.written() == []
    assert program.run("approvals", "approve", asked["id"]).out == "noted\n"
    assert program.written() == ["tea"]


def test_looked_into(tmp_path: Path, scripted: Start, command: Command) -> None:
    """Every view, as text and as JSON; the request made again is the one that was sent."""
    call = Calls([ADD], text="One \x1b[31mmoment")
    server = scripted([call, Say("It is 42."), Say("fine")])
    program = Program(tmp_path, server.base_url)
    say(program, "add\x1b[2J them")
    say(program, "how are you")

    shown = command(program, "show", "t")
    assert "> add␛[2J them\n\nOne ␛[31mmoment\n→ add(a=17, b=25)\n← 42  [r1]\n" in shown.out
    whole = command(program, "show", "t", "--messages")
    assert "\n── tool · add · r1 · success · " in whole.out
    steps = command(program, "show", "t", "--checkpoints", "--json").json["checkpoints"]
    assert [(s["node"], s["next"]) for s in steps[:2]] == [("agent", []), ("router", ["agent"])]
    lines = command(program, "show", "t", "--checkpoints").out.splitlines()
    assert lines[0].split() == ["ID", "TIME", "TURN", "STEP", "NODE", "NEXT"]
    assert [line.split()[0] for line in lines[1:]] == [step["id"] for step in steps]

    asking = [step for step in reversed(steps) if step["next"] == ["agent"]]
    assert len(asking) == len(server.requests) == 3
    for step, request in zip(asking, server.requests, strict=True):
        there = command(program, "show", "t", "--at", step["id"], "--json").json
        assert there["sent"]["exact"], there["sent"]
        assert there["sent"]["tools"] == request["tools"]
        contents = [message["content"] for message in there["sent"]["messages"]]
        assert contents == [message["content"] for message in request["messages"]]
    text = command(program, "show", "t", "--at", asking[0]["checkpoint_id"]).out
    assert "(exactly as it was sent, 8,192 tokens of context)" in text
    assert "\x1b" not in shown.out + whole.out + text
    for zone, offset in (("Asia/Kolkata", "+0530"), ("Asia/Kathmandu", "+0545")):  # D13
        assert offset in program.run("threads", "rewind", "t", env={"TZ": zone}).out
    for what in ((), ("--messages",), ("--branches",), ("--result", "r1")):
        found = command(program, "show", "t", *what, "--json").json
        assert (found["schema_version"], found["thread"]) == (1, "t")


# What is asked, the exit code, and words of the one line that is said.
WRONG = (
    (("show", "nobody"), 1, "There is no thread 'nobody'"),
    (("rewind", "nobody"), 1, "There is no thread 'nobody'"),
    (("rewind", "nobody", "--to", "1"), 1, "There is no thread 'nobody'"),
    (("fork", "nobody", "x"), 1, "There is no thread 'nobody'"),
    (("edit", "nobody", "--prompt", "1", "--text", "x"), 1, "There is no thread 'nobody'"),
    (("edit", "nobody", "--prompt", "1", "--text", "x", "--no-run"), 1, "no thread 'nobody'"),
    (("show", "t", "--at", "zz"), 1, "no checkpoint 'zz'"),
    (("show", "t", "--at", "1f"), 1, "checkpoints begin with '1f'. Type more of it"),
    (("show", "t", "--result", "r7"), 1, "no result 'r7'"),
    (("show", "t", "--messages", "--branches"), 2, "--messages and --branches"),
    (("rewind", "t", "--to", "0"), 1, "no turn 0: it has 1"),
    (("rewind", "t", "--to", "two"), 2, "not a valid integer"),
    (("rewind", "t", "--branch", "zz"), 1, "no branch 'zz'"),
    (("rewind", "t", "--to", "1", "--branch", "zz"), 2, "Give one of them"),
    (("fork", "t", "t"), 1, "There is a thread 't' already"),
    (("fork", "t", "x", "--at", "7"), 1, "no turn 7"),
    (("edit", "t"), 2, "Say what to edit"),
    (("edit", "t", "--result", "r1", "--prompt", "1"), 2, "Say what to edit"),
    (("edit", "t", "--result", "r1"), 2, "--text or by --file"),
    (("edit", "t", "--result", "r1", "--file", "/nowhere/x"), 2, "cannot be read"),
    (("edit", "t", "--call", "r1"), 2, "--args is missing"),
    (("edit", "t", "--call", "r1", "--args", "[]", "--no-run"), 2, "must be one JSON object"),
    (("edit", "t", "--call", "r1", "--args", "{}", "--no-run"), 1, "No call 'r1' waits"),
    (("edit", "t", "--state", "{"), 2, "--state is not JSON: it breaks off behind character 1."),
    (("edit", "t", "--state", "{bad"), 2, "it goes wrong at character 2 (bad). Write it like {"),
    (("edit", "t", "--state", ""), 2, "--state is not JSON: it is empty."),
    (("edit", "t", "--state", '{"messages": 1}', "--no-run"), 2, "'messages' of the state"),
)


def test_what_is_wrong_is_one_line(tmp_path: Path, scripted: Start, command: Command) -> None:
    """No such thread, turn, branch, checkpoint, handle; options that cannot be: nothing changes."""
    server = scripted([Say("one")])
    program = Program(tmp_path, server.base_url, servers="")
    assert command(program, "show", "t").code == 1
    assert not program.db.exists(), "looking makes no database"
    say(program, "first")
    before = messages(command, program)
    for args, code, words in WRONG:
        done = command(program, *args)
        assert (done.code, done.out) == (code, ""), (args, done)
        assert done.err.startswith("error: "), (args, done)
        assert (done.err.count("\n"), words in done.err) == (1, True), (args, done)
    assert messages(command, program) == before
    assert len(command(program, "list").out.splitlines()) == 2
    assert len(server.requests) == 1


def test_a_thread_that_is_open_elsewhere(tmp_path: Path, scripted: Start, command: Command) -> None:
    """What writes is refused with the pid; what looks works, and a copy can be made."""
    server = scripted([Say("one"), Call("slow", {"seconds": 60})])
    program = Program(tmp_path, server.base_url)
    say(program, "first")
    running = program.start("--thread", "t", "-p", "second")
    try:
        wait_for(lambda: len(server.requests) > 1)
        for args in (
            ("rewind", "t", "--to", "1"),
            ("edit", "t", "--prompt", "1", "--text", "x", "--no-run"),
        ):
            done = command(program, *args)
            assert done.code == 1
            assert f"thread 't' is open in another agent (pid {running.pid})" in done.err
        assert "> first\n" in command(program, "show", "t").out
        forked = command(program, "fork", "t", "copy")
        assert forked.out.startswith("Copied 1 turn of 't' into 'copy'. The turn that is not")
    finally:
        running.kill()
        running.communicate()
    assert command(program, "rewind", "t", "--json").json["branches"] == []
