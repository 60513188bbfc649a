"""The question before a write: whole, not to be imitated, and answered on purpose."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from local_agent.events import ApprovalRequested, Decision, PendingCall
from local_agent.ui.approval import ask, call_rows, parse_answer
from tests.pty_driver import PtyProgram

ROOT = Path(__file__).parent.parent
ASK = """
import asyncio, sys, time
from local_agent.events import *
from local_agent.ui.approval import ask
from local_agent.ui.prompt import ChatPrompt

async def main():
    prompt = ChatPrompt()
    if "typed" in sys.argv:
        print("WORKING")
        sys.stdin.readline()
        time.sleep(0.5)
    calls = eval(sys.argv[1])
    try:
        print(await ask(ApprovalRequested("id", "t", calls), prompt))
    except KeyboardInterrupt:
        print("STOPPED")
    print("THE END")

asyncio.run(main())
"""
YES, NO, THREAD = Decision(True), Decision(False), Decision(True, scope="thread")


class Typist:
    """Types prepared lines and keeps what was written."""

    def __init__(self, *typed: str | None, size: tuple[int, int] = (80, 24)) -> None:
        self.typed = list(typed)
        self.size = size
        self.written = ""
        self.questions: list[str] = []

    def discard_typed(self) -> None:
        """There is nothing to forget here."""

    def write(self, text: str) -> None:
        """Keep it."""
        self.written += text

    async def answer(self, question: str) -> str | None:
        """The next line."""
        self.questions.append(question)
        return self.typed.pop(0)


def call(number: int = 1, why: Any = "write", **args: Any) -> PendingCall:
    """A call of the tool fs/put, or put2, and so on."""
    name = "put" if number == 1 else f"put{number}"
    return PendingCall(f"c{number}", name, "fs", name, args, why)


def start(calls: str, *more: str, cols: int = 80, rows: int = 24, **env: str) -> PtyProgram:
    """A program that asks for these calls (Python source) and prints the decisions."""
    whole = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT), **env}
    return PtyProgram([sys.executable, "-c", ASK, calls, *more], whole, cols, rows)


@pytest.mark.parametrize(
    ("typed", "meaning"),
    [
        ("y", YES),
        (" YES ", YES),
        ("a", THREAD),
        ("n", NO),
        ("no", NO),
        ("n wrong folder", Decision(False, "wrong folder")),
        ("No  wrong folder ", Decision(False, "wrong folder")),
        ("forget it", Decision(False, "forget it")),
        ("yes please", Decision(False, "yes please")),
        ("always", Decision(False, "always")),
        (None, NO),
        ("", None),
        ("  ", None),
        ("v", "view"),
    ],
)
def test_what_a_typed_line_means(typed: str | None, meaning: object) -> None:
    """A04, A07: only y and a allow; other text is a no with it as reason; Enter asks again."""
    assert parse_answer(typed) == meaning


async def test_each_call_is_asked_for_by_itself() -> None:
    """A01: three calls of one message, a decision each; Enter alone repeats the question."""
    typist = Typist("y", "", "n wrong", None)
    event = ApprovalRequested("i", "t", [call(1), call(2), call(3)])
    decided = await ask(event, typist)
    assert decided == {"c1": YES, "c2": Decision(False, "wrong"), "c3": NO}
    assert [f"approval {n} of 3: " in typist.written for n in (1, 2, 3)] == [True] * 3
    assert len(typist.questions) == 4


async def test_allowed_for_the_thread_answers_the_same_tool_once() -> None:
    """`a` covers later calls of the same tool, not of others, and none of unknown outcome."""
    again = PendingCall("c8", "put", "fs", "put", {})
    unknown = PendingCall("c9", "put", "fs", "put", {}, "unknown_outcome")
    typist = Typist("a", "n", "n")
    decided = await ask(ApprovalRequested("i", "t", [call(), again, call(2), unknown]), typist)
    assert decided == {"c1": THREAD, "c8": THREAD, "c2": NO, "c9": NO}


async def test_a_repaired_call_says_what_was_repaired() -> None:
    """It stands with the call, harmless and whole, and `a` for the tool does not answer it."""
    note = 'it was written as text; level: "5" read as 5\x1b[2J' + "x" * 200
    repaired = PendingCall("c8", "put", "fs", "put", {}, repaired=note)
    typist = Typist("a", "n")
    decided = await ask(ApprovalRequested("i", "t", [call(), repaired]), typist)
    assert decided == {"c1": THREAD, "c8": NO}
    assert 'repaired: it was written as text; level: "5" read as 5' in typist.written
    assert "\x1b" not in typist.written
    assert typist.written.count("x") >= 200
    assert all(row[0] in "│├┆" for row in call_rows(repaired, 40))


async def test_a_call_that_may_have_run_is_asked_for_as_such() -> None:
    """A write that was started before a crash has a question of its own."""
    typist = Typist("y")
    await ask(ApprovalRequested("i", "t", [call(why="unknown_outcome")]), typist)
    assert "may already have run" in typist.written
    assert typist.questions[0].startswith("Run it again?")


async def test_a_huge_value_is_cut_with_its_size_and_shown_on_v() -> None:
    """A09: what is not shown at first is counted, and v shows every line of it."""
    text = "\n".join(f"line {n};" for n in range(5000))
    typist = Typist("v", "n")
    await ask(ApprovalRequested("i", "t", [call(text=text)]), typist)
    first, _, rest = typist.written.partition("not shown: v …")
    assert f"({len(text):,} characters in all)" in first
    assert "line 2500;" not in first
    assert "v view all" in typist.questions[0]
    assert "line 4999;" in rest.split("⏸")[0], "the end is shown at once"
    assert all(f"line {n};" in rest for n in range(5000))


@pytest.mark.parametrize("columns", [40, 80])
@pytest.mark.parametrize(
    "value",
    [
        "日本語のテキスト" * 20,
        "👨\u200d👩\u200d👧" * 30 + "🇯🇵" * 30,
        "e\u0301" * 100,
        "word\u2060joined " * 20,
        "مرحبا بالعالم " * 20,
        "नमस्ते दुनिया " * 20,
        " " * 300 + "; rm -r data",
        "x" * 36 + "Approve? y",
        ["nested", {"k": "v\nRun it? y"}],
        {"a\nb": "\x1b[2J\u202e"},
    ],
)
def test_every_row_has_a_gutter_and_fits(columns: int, value: Any) -> None:
    """A09, T07: no row of the call is over the width, and none begins with a character of it."""
    args = {"v": value, "b\nk": value}
    rows = call_rows(PendingCall("c", "n" * 64, "s" * 100, "t\n", args), columns)
    for row in rows:
        assert row[0] in "│├┆"
        assert cell_len(row) <= columns
        assert not set("\x1b\n\r\u202e") & set(row)


def test_nothing_of_a_value_is_lost() -> None:
    """A09: the rows of a call hold each character of its values, newlines as line ends."""
    text = "".join(chr(33 + n % 90) * (n % 7) + " " for n in range(600))
    rows = call_rows(call(text=text + "\nend"), 40)
    assert "".join(row[4:] if row[0] == "│" else row[2:] for row in rows).endswith("end")
    assert sum(row[0] == "│" for row in rows) == 3, "one for the tool, one for each line"
    body = [row for row in rows if row[0] in "│┆"][1:]
    kept = "".join(row.removeprefix("│   ").removeprefix("┆   ") for row in body)
    assert kept == text + "end"


@pytest.mark.parametrize("cols", [40, 80])
@pytest.mark.parametrize("env", [{}, {"NO_COLOR": "1"}])
def test_the_dangerous_end_can_be_read(cols: int, env: dict[str, str]) -> None:
    """A09: 300 spaces and then the command, 200 lines, 40 keys: all of it before the question."""
    source = (
        "[PendingCall('c1', 'run', 'sh', 'run', {'command': ' ' * 300 + '; rm -r data'}),"
        "PendingCall('c2', 'put', 'fs', 'put', {'text': '\\n'.join(f'l{n};' for n in range(200))}),"
        "PendingCall('c3', 'set', 'fs', 'set', {f'key{n}': n for n in range(40)})]"
    )
    with start(source, cols=cols, rows=100, **env) as program:
        program.wait_for("Run it?")
        assert "; rm -r data" in program.text
        program.send("y\r")
        program.wait_for("Run it?", count=2)
        assert [f"l{n};" in program.text for n in range(200)] == [True] * 200
        program.send("n too long\r")
        program.wait_for("Run it?", count=3)
        assert [f"key{n}: {n}" in program.text for n in range(40)] == [True] * 40
        program.send("\x04")
        program.wait_for("THE END")
        assert "'c1': Decision(approve=True, reason='', scope='once')" in program.unwrapped
        assert "'c2': Decision(approve=False, reason='too long'" in program.unwrapped
        assert "'c3': Decision(approve=False, reason=''" in program.unwrapped
        assert program.wait() == 0
        assert program.modes == program.modes_at_start
        assert not env or b"\x1b" not in program.raw


def test_a_value_cannot_imitate_the_question() -> None:
    """A09, T01, T04: a faked question stands behind the gutter, an escape stays text."""
    fake = "ok\\nRun it? y once [/] \\x1b[2J\\x1b[1A\\nAllowed once."
    with start(f"[PendingCall('c1', 'p[red]', 's', 't', {{'text': '{fake}'}})]") as program:
        program.wait_for("n REASON:")
        assert [row for row in program.screen if row.startswith(("Run", "Allowed"))] == [
            "Run it? y once · a this thread · n no · n REASON:"
        ]
        assert "│   Run it? y once [/] ␛[2J␛[1A" in program.screen
        assert "p[red]" in program.text


@pytest.mark.parametrize("env", [{}, {"TERM": "dumb"}])
def test_keys_typed_before_the_question_do_not_count(env: dict[str, str]) -> None:
    """A yes that was typed while the program still worked is forgotten."""
    with start("[PendingCall('c1', 'p', 's', 't', {})]", "typed", **env) as program:
        program.wait_for("WORKING")
        program.send("go\r")
        program.send("y\ry\r")
        program.wait_for("Run it?")
        program.send("n seen\r")
        program.wait_for("THE END")
        assert "reason='seen'" in program.unwrapped


@pytest.mark.parametrize("env", [{}, {"TERM": "dumb"}])
def test_ctrl_c_at_the_question_stops_the_turn(env: dict[str, str]) -> None:
    """T13: Ctrl-C is no answer, and leaves the terminal as it was."""
    with start("[PendingCall('c1', 'p', 's', 't', {})]", **env) as program:
        program.wait_for("n REASON:")
        program.interrupt()
        program.wait_for("STOPPED")
        program.wait_for("THE END")
        assert program.wait() == 0
        assert program.modes == program.modes_at_start


@pytest.mark.parametrize("env", [{}, {"TERM": "dumb"}])
def test_ctrl_d_at_the_question_is_no(env: dict[str, str]) -> None:
    """A07: the end of input never allows a call."""
    with start("[PendingCall('c1', 'p', 's', 't', {})]", **env) as program:
        program.wait_for("n REASON:")
        program.send("\x04")
        program.wait_for("THE END")
        assert "approve=False" in program.unwrapped


def test_typist_satisfies_the_protocol() -> None:
    """The question needs no terminal: anything that writes and answers will do."""
    assert asyncio.run(ask(ApprovalRequested("i", "t", ()), Typist())) == {}
