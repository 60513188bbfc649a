"""The program as a process: what a thread remembers, and how prompts get into it."""

from __future__ import annotations

import codecs
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from local_agent.testing import Call, Reply, Say, ScriptedServer
from tests.program_kit import Done, Program, finish, side_by_side, text_of

pytestmark = pytest.mark.process
Start = Callable[..., ScriptedServer]


def repeat_prompt(body: dict[str, Any]) -> Reply:
    """A model that gives back what it was sent."""
    return Say(f"got {body['messages'][-1]['content']!r}")


def prompts(server: ScriptedServer) -> list[str]:
    """The last message of every request."""
    return [body["messages"][-1]["content"] for body in server.requests]


def test_three_processes_in_a_row(tmp_path: Path, scripted: Start) -> None:
    """The second process knows what the first was told, another thread knows nothing of it."""
    server = scripted([Call("add", {"a": 17, "b": 25}), Say("It is 42."), Say("17 and 25.")])
    program = Program(tmp_path, server.base_url)

    first = program.run("--thread", "sums", "-p", "What is 17 plus 25?")
    assert (first.code, first.out) == (0, "It is 42.\n")
    assert "Loaded 8 tools. Thread 'sums': new conversation.\n" in first.err
    assert "→ add(a=17, b=25)\n← 42\n" in first.err

    second = program.run("--thread", "sums", "-p", "Which numbers were that?")
    assert (second.code, second.out) == (0, "17 and 25.\n")
    assert "Thread 'sums': resumed 4 saved messages.\n" in second.err
    assert text_of(server.requests[-1]) == [
        "user: What is 17 plus 25?",
        "assistant: ",
        "tool: 42",
        "assistant: It is 42.",
        "user: Which numbers were that?",
    ]

    server.replies = [*server.replies, Say("I do not know."), Say("No.")]  # type: ignore[misc]
    third = program.run("--thread", "other", "-p", "Which numbers were that?")
    assert (third.code, third.out) == (0, "I do not know.\n")
    assert "Thread 'other': new conversation.\n" in third.err
    assert text_of(server.requests[-1]) == ["user: Which numbers were that?"]

    newest = program.run("-c", "-p", "Really?")
    assert (newest.code, newest.out) == (0, "No.\n")
    assert "Thread 'other': resumed 2 saved messages.\n" in newest.err
    both = program.run("-c", "--thread", "sums", "-p", "x")
    assert (both.code, both.err.count("\n")) == (2, 1)
    assert server.refused == []

    listed = program.run("threads", "list")
    assert [line.split()[0] for line in listed.out.splitlines()] == ["THREAD", "other", "sums"]


def test_text_on_stdin_follows_the_prompt(tmp_path: Path, scripted: Start) -> None:
    """T10: a pipe or file goes behind -p after a blank line, `-p -` takes it alone, UTF-16 too."""
    server = scripted(repeat_prompt)
    program = Program(tmp_path, server.base_url, servers="")

    notes = tmp_path / "notes.md"
    notes.write_bytes("naïve\r\n".encode("utf-16"))

    def from_file() -> Done:
        with notes.open("rb") as file:
            return finish(program.start("--thread", "c", "-p", "Read:", stdin=file.fileno()))

    text = codecs.BOM_UTF8 + "Grüße,\n\nund tschüss\n".encode()
    done = side_by_side(
        lambda: program.run("--thread", "a", "-p", "Review this:", stdin="line 1\r\nline 2\n"),
        lambda: program.run("--thread", "b", "-p", "-", stdin=text),
        from_file,
    )
    assert [one.code for one in done] == [0, 0, 0]
    assert sorted(prompts(server)) == [
        "Grüße,\n\nund tschüss",
        "Read:\n\nnaïve",
        "Review this:\n\nline 1\nline 2",
    ]


def test_each_line_of_a_pipe_is_a_prompt(tmp_path: Path, scripted: Start) -> None:
    """In order, on one thread, without blank lines and marks, up to a line `quit`."""
    server = scripted(repeat_prompt)
    program = Program(tmp_path, server.base_url, servers="")
    lines = codecs.BOM_UTF8 + b"first\r\n\r\n   \n  second \xc3\xa9\r\n\nquit\nnever\n"

    done = program.run(stdin=lines)

    assert (done.code, done.out) == (0, "got 'first'\ngot 'second é'\n")
    assert prompts(server) == ["first", "second é"]
    assert text_of(server.requests[1])[0] == "user: first"

    done = program.run(stdin="\nun\nexit\n".encode("utf-16"))
    assert (done.code, prompts(server)[2:]) == (0, ["un"])


def test_an_input_without_a_byte(tmp_path: Path, scripted: Start) -> None:
    """T10: no lines are no prompts; `-p TEXT` is the text alone; `-p -` is a usage error."""
    server = scripted(repeat_prompt)
    program = Program(tmp_path, server.base_url, servers="")
    lines, text, dash = program.run_all(
        ["-q", "--thread", "a"],
        ["-q", "--thread", "b", "-p", "Look:"],
        ["-q", "--thread", "c", "-p", "-"],
        stdin=b"",
    )
    assert (lines.code, lines.out, lines.err) == (0, "", "")
    assert (text.code, text.out, text.err) == (0, "got 'Look:'\n", "")
    assert (dash.code, dash.out, dash.err.count("\n")) == (2, "", 1)
    assert prompts(server) == ["Look:"]


def test_an_input_that_is_too_large(tmp_path: Path, scripted: Start) -> None:
    """T10: more than 16 MiB is refused in one line, and nothing of it is sent."""
    server = scripted(repeat_prompt)
    program = Program(tmp_path, server.base_url, servers="")
    runs = program.run_all(
        ["-q", "--thread", "a"],
        ["-q", "--thread", "b", "-p", "Look:"],
        stdin=b"0123456789abcdef" * (2**20 + 1),
    )
    for done in runs:
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        assert "16 MiB" in done.err
    assert prompts(server) == []


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path, scripted: Start) -> None:
    """A07: with -p the turn runs after a second, and what was missing is said."""
    server = scripted(repeat_prompt)
    program = Program(tmp_path, server.base_url, servers="")
    read_end, write_end = os.pipe()
    try:
        done = finish(program.start("-p", "Hello?", stdin=read_end))
    finally:
        os.close(read_end)
        os.close(write_end)

    assert (done.code, done.out) == (0, "got 'Hello?'\n")
    assert "Nothing came on standard input within a second" in done.err


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
def test_streams_that_are_closed_are_no_trouble(tmp_path: Path, scripted: Start) -> None:
    """A start without stdin and stderr (cron, some desktops) answers like any other."""
    server = scripted(repeat_prompt)
    program = Program(tmp_path, server.base_url, servers="")
    code = "import os, sys; from local_agent.cli import main; main()"
    shell = f'exec "{sys.executable}" -c "{code}" --config "{program.config}" -p Hi <&- 2>&-'
    done = subprocess.run(
        ["/bin/sh", "-c", shell],
        cwd=program.work,
        env=program.env,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"got 'Hi'\n", b"")


def test_an_ephemeral_run_leaves_nothing_behind(tmp_path: Path, scripted: Start) -> None:
    """--ephemeral changes no folder at all, and a write in it is refused, because it can't wait."""
    server = scripted([Call("write_note", {"text": "x"}), Say("Refused."), Say("Still here.")])
    program = Program(tmp_path, server.base_url)
    home = Path(program.env["HOME"])

    def listing() -> list[Path]:
        return sorted([*tmp_path.rglob("*"), *home.rglob("*")])

    before = listing()
    done = program.run("--ephemeral", stdin="Note x.\nAnd now?\n")

    assert (done.code, done.out) == (0, "Refused.\nStill here.\n")
    assert text_of(server.requests[2])[0] == "user: Note x."  # it does remember while it runs
    assert "no terminal" in server.requests[1]["messages"][-1]["content"]
    assert listing() == before
