"""The program as a process: what goes to stdout and what to stderr, in each form of output."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from local_agent.testing import Call, Calls, Reply, Say, ScriptedServer
from tests.program_kit import (
    Done,
    Program,
    approval_id,
    echo_table,
    finish,
    server_table,
    side_by_side,
)

pytestmark = pytest.mark.process
Start = Callable[..., ScriptedServer]
BAD = server_table("bad", "no-such-command", [])
LONG = "word " * 60 + "end"
ANSWER = f"# Heading\n\n* [bold]not markup[/bold] **x**\n\n{LONG}\n\n\x1b[31mred\x1b[0m\x07"


def test_json_is_one_object_a_prompt_and_nothing_else(tmp_path: Path, scripted: Start) -> None:
    """--output json: what the contract names, for every prompt of a pipe."""
    calls = Calls([Call("add", {"a": 1, "b": 2}, "a"), Call("fail", {"text": "x"}, "b")])
    server = scripted([calls, Say("Grüße, 3"), Say("bye")])
    program = Program(tmp_path, server.base_url, servers=echo_table(tmp_path / "notes") + BAD)

    done = program.run("--output", "json", stdin="add\nthanks\n")

    first, second = done.lines
    assert done.code == 0
    assert first == {
        "schema_version": 1,
        "thread": "default",
        "route": "all",
        "answer": "Grüße, 3",
        "tool_calls": [
            {"name": "add", "args": {"a": 1, "b": 2}, "status": "success"},
            {"name": "fail", "args": {"text": "x"}, "status": "error"},
        ],
        "usage": first["usage"],
        "steps": 2,
        "status": "ok",
        "error": None,
    }
    assert first["usage"]["input_tokens"] > first["usage"]["output_tokens"] > 0
    assert (second["answer"], second["tool_calls"], second["steps"]) == ("bye", [], 1)
    assert "Server 'bad' is not available" in done.err


def test_json_says_what_went_wrong_as_an_object_too(tmp_path: Path, scripted: Start) -> None:
    """A write, the step limit, and a server that is down: one object each, with its exit code."""

    def answer(body: dict[str, Any]) -> Reply:
        if body["messages"][1]["content"] == "write":
            return Call("write_note", {"text": "x"})
        return Call("add", {"a": 1, "b": 2})

    server = scripted(answer)
    program = Program(tmp_path, server.base_url)
    parked, limited = program.run_all(
        ["--output", "json", "-p", "write"],
        ["--output", "json", "--thread", "b", "--max-steps", "1", "-p", "add"],
    )
    assert (parked.code, parked.json["status"]) == (3, "approval_required")
    assert parked.json["approval_id"].startswith(approval_id(parked))
    assert (limited.code, limited.json["status"], limited.json["steps"]) == (4, "step_limit", 2)

    server.close()
    again, down = program.run_all(
        ["--output", "json", "-p", "another"], ["--output", "json", "--thread", "c", "-p", "hi"]
    )
    assert (down.code, down.json["status"]) == (1, "error")
    assert server.base_url in down.json["error"]
    assert (again.code, again.json["status"]) == (3, "approval_required")
    assert again.json["approval_id"] == parked.json["approval_id"]


def test_stream_json_is_one_event_a_line(tmp_path: Path, scripted: Start) -> None:
    """--output stream-json: the types of the contract, in the order in which things happen."""

    def answer(body: dict[str, Any]) -> Reply:
        if body["messages"][1]["content"] == "count":
            return Say("I counted to three.")
        if len(body["messages"]) == 2:
            return Call("echo", {"text": "hé"})
        return Call("write_note", {"text": "x"}, "call_2")

    program = Program(tmp_path, scripted(answer).base_url)
    done, counted = program.run_all(
        ["--output", "stream-json", "-p", "echo and write"],
        ["--output", "stream-json", "--thread", "b", "-p", "count"],
    )

    kinds = [line["type"] for line in done.lines]
    assert done.code == 3
    assert kinds == ["init", "route", "tool_use", "tool_result", "approval", "result"]
    assert done.lines[0]["tools"] == 8
    assert done.lines[2]["args"] == {"text": "hé"}
    assert done.lines[3]["text"] == "hé"
    assert done.lines[4]["calls"][0]["tool"] == "write_note"
    assert done.lines[5]["status"] == "approval_required"
    assert done.lines[5]["approval_id"] == done.lines[4]["id"]

    texts = [line["text"] for line in counted.lines if line["type"] == "text"]
    kinds = [line["type"] for line in counted.lines if line["type"] != "text"]
    assert len(texts) > 1
    assert "".join(texts) == "I counted to three."
    assert kinds == ["init", "route", "message", "result"]
    assert counted.lines[-1]["answer"] == "I counted to three."


def test_text_holds_the_answer_alone_without_escapes(tmp_path: Path, scripted: Start) -> None:
    """T08, T04: no colour, box, spinner or wrap in files, whatever the variables say."""

    def answer(body: dict[str, Any]) -> Reply:
        if body["messages"][-1]["role"] == "tool":
            return Say(ANSWER)
        return Call("echo", {"text": "\x1b]0;title\x07[b]x[/b]"})

    server = scripted(answer)
    program = Program(tmp_path, server.base_url, servers=echo_table(tmp_path / "notes") + BAD)
    colour = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": "20"}
    full, quiet = side_by_side(
        lambda: program.run("--thread", "a", "-p", "go", env=colour),
        lambda: program.run("--thread", "b", "-q", "-p", "go", env={"NO_COLOR": "1"}),
    )

    shown = ANSWER.replace("\x1b", "␛").replace("\x07", "␇")
    warning = "warning: Server 'bad' is not available: its command no-such-command was not found"
    for done in (full, quiet):
        assert (done.code, done.out) == (0, f"{shown}\n")
        assert b"\x1b" not in done.stdout + done.stderr
        assert b"\r" not in (done.stdout + done.stderr).replace(b"\r\n", b"\n")
        assert warning in done.err
    assert "← ␛]0;title␇[b]x[/b]\n" in full.err
    assert quiet.err.count("\n") == 1  # -q leaves what must be known


def test_a_terminal_of_ascii_gets_everything_spelt(tmp_path: Path, scripted: Start) -> None:
    """T08: with LANG=C no command fails for a character that cannot be written."""
    server = scripted([Call("write_note", {"text": "日本"}), Say("Grüße → 😀")])
    ascii_only = {
        "LANG": "C",
        "LC_ALL": "C",
        "PYTHONIOENCODING": "ascii",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
    }
    program = Program(tmp_path, server.base_url, env=ascii_only)

    parked = program.run("--thread", "früh", "-p", "schreib Grüße")
    assert parked.code == 3
    assert b" approval: write_note(text='\\u65e5\\u672c')" in parked.stderr
    commands = [
        ("approvals", "list"),
        ("threads", "list", "--json"),
        ("config", "show"),
        ("config", "path"),
        ("servers", "list"),
        ("model", "list"),
        ("--help",),
    ]
    for command, done in zip(commands, program.run_all(*commands), strict=True):
        assert (done.code, done.stderr) == (0, b""), command
        assert done.stdout.isascii()
        if command == ("threads", "list", "--json"):
            assert [row["thread"] for row in done.json["threads"]] == ["früh"]
        elif "--json" in command:
            assert done.json
    found = approval_id(parked)
    shown = program.run("approvals", "show", found)
    assert (shown.code, shown.stderr) == (0, b"")
    approved = program.run("-q", "approvals", "approve", found)
    assert (approved.code, approved.stdout) == (0, b"Gr\\xfc\\xdfe -> \\U0001f600\n")
    assert program.written() == ["日本"]


def test_a_reader_that_leaves_ends_it_quietly(tmp_path: Path, scripted: Start) -> None:
    """`agent | head`: no traceback, no message, exit 0."""
    server = scripted(lambda body: Say("line\n" * 50_000), chunk=None)
    program = Program(tmp_path, server.base_url, servers="")

    def run(*args: str) -> Done:
        read_end, write_end = os.pipe()
        process = program.start(*args, stdout=write_end)
        os.close(write_end)
        os.close(read_end)
        return finish(process)

    runs = side_by_side(
        lambda: run("-q", "--thread", "a", "-p", "go"),
        lambda: run("-q", "--thread", "b", "-p", "go", "--output", "stream-json"),
        lambda: run("config", "show"),
        lambda: run("--help"),
    )
    assert [(done.code, done.err) for done in runs] == [(0, "")] * 4


@pytest.mark.skipif(sys.platform == "win32", reason="needs the pipes of POSIX")
def test_notes_that_nobody_reads_do_not_lose_the_turn(tmp_path: Path, scripted: Start) -> None:
    """`2>&1 | head -1`: it ends quietly, and the next run goes on where it stopped."""
    server = scripted([Call("echo", {"text": "x"}), Say("first"), Say("second")])
    program = Program(tmp_path, server.base_url)
    read_end, write_end = os.pipe()
    process = program.start("-p", "go", stdout=write_end, stderr=write_end)
    os.close(write_end)
    os.close(read_end)
    assert finish(process).code == 0

    server.replies = lambda body: Say("fine")
    done = program.run("--output", "json", "-p", "next")
    assert (done.code, done.json["answer"]) == (0, "fine")
    assert server.refused == []
    asked = [m["content"] for m in server.requests[-1]["messages"] if m["role"] == "user"]
    assert asked in (["next"], ["go", "next"])
    assert json.dumps(asked).count("go") <= 1
