"""A turn on a terminal, read back through a terminal emulator."""

from __future__ import annotations

import io
import os
import re
import sys
from pathlib import Path

import pytest
from rich.console import Console

from local_agent import events
from local_agent.ui.terminal import TerminalRenderer, make_console
from tests.pty_driver import PtyProgram

ROOT = Path(__file__).parent.parent
SHOW = """
import asyncio, sys
from local_agent.events import *
from local_agent.ui.terminal import TerminalRenderer, make_console

async def main():
    renderer = TerminalRenderer(make_console())
    renderer.begin_turn()
    for event in eval(sys.argv[1]):
        renderer.show(event)
        await asyncio.sleep(0)
    if len(sys.argv) > 2:
        await asyncio.sleep(3600)
    renderer.end_turn()
    print("THE END")

asyncio.run(main())
"""
BRACKETS = ("end [/INST] now", "x: list[int] = a[red]", "[/]", "[link=file:///x]y[/link]", "[\\]")
ATTACKS = (
    "\x1b[2J",
    "\x1b]0;title\x07",
    "\x1b]52;c;YQ==\x07",
    "\x1b[1A\x1b[2K⏸ approval: rm",
    "over\rwritten",
    "ba\b\bck",
    "\x9b2J",
    "\x00",
)
END = "TurnFinished('t', 'r', {answer!r}, 'ok')"


def show(source: str, *more: str, cols: int = 80, rows: int = 24, **env: str) -> PtyProgram:
    """A program that shows the events of this Python source on a terminal of its own."""
    whole = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT), **env}
    return PtyProgram([sys.executable, "-c", SHOW, source, *more], whole, cols, rows)


def turn(text: str) -> str:
    """Source of a turn that has this text in every place."""
    return (
        f"[RouteChosen({text!r}), ThinkingDelta({text!r}), ToolStarted('c', {text!r}, 's', 't', "
        f"{{'a': {text!r}}}), ToolFinished('c', 't', 'error', {text!r}), Notice({text!r}), "
        f"TextDelta({text!r}), TurnFinished({text!r}, {text!r}, {text!r}, 'error', error={text!r})]"
    )


@pytest.mark.parametrize("cols", [40, 80])
def test_brackets_are_shown_letter_by_letter(cols: int) -> None:
    """T01: nothing in model, tool or error text is taken for markup."""
    with show(turn(" ".join(BRACKETS)), cols=cols) as program:
        program.wait_for("THE END")
        assert program.wait() == 0
        shown = "".join(program.text.replace("\\\\", "\\").split())
        assert shown.count("".join(" ".join(BRACKETS).split())) == 8


@pytest.mark.parametrize("cols", [40, 80])
def test_attacks_do_nothing(cols: int) -> None:
    """T04: what the program itself sends is colour and line clearing; the text is all there."""
    with show(turn("".join(ATTACKS)), cols=cols) as program:
        program.wait_for("THE END")
        sent = program.raw.decode()
        own = re.sub(r"\x1b\[[\d;]*m|\r\x1b\[K|\r\n", "", sent)
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", own)
        assert program.unwrapped.count("␛[2J␛]0;title␇") == 8


def test_an_escape_cut_in_two_does_nothing() -> None:
    """T04: an escape sequence and a line end that are split between two pieces."""
    source = "[TextDelta('a\\x1b'), TextDelta('[2Jb\\r'), TextDelta('\\nc'), " + END.format(
        answer="a\x1b[2Jb\r\nc"
    )
    with show(source + "]") as program:
        program.wait_for("THE END")
        assert program.text.splitlines() == ["a␛[2Jb", "c", "THE END"]


@pytest.mark.parametrize("cols", [40, 80])
def test_a_long_answer_is_there_once(cols: int) -> None:
    """T05: 200 paragraphs in small pieces are found once each and in order, scrollback included."""
    pars = [f"Paragraph {n} of the answer, long enough for more than a row." for n in range(200)]
    pars[50] = "```python\n" + "\n".join(f"line_{n} = [{n}]" for n in range(40)) + "\n```"
    pars[60] = "| a | b |\n|---|---|\n| 1 | 2 |"
    answer = "\n\n".join(pars)
    source = f"[*(TextDelta(p) for p in [{answer!r}[i:i+7] for i in range(0, {len(answer)}, 7)]), "
    with show(source + END.format(answer=answer) + "]", cols=cols) as program:
        program.wait_for("THE END")
        # A row that the terminal broke at a space has lost that space: compare without.
        assert "".join(program.text.split()) == "".join((answer + "THE END").split())


def test_what_streamed_stays_after_ctrl_c() -> None:
    """T05: stopped half way, what came is on the screen once and the terminal is as it was."""
    source = "[TextDelta('first words '), TextDelta('and more')]"
    with show(source, "wait") as program:
        program.wait_for("and more")
        program.interrupt()
        program.wait()
        assert program.text.count("first words and more") == 1
        assert program.modes == program.modes_at_start


def test_silence_is_explained_and_the_line_taken_back() -> None:
    """The waiting line is there while nothing comes, and nothing of it is left afterwards."""
    with show("[ToolStarted('c', 'slow', 's', 't', {})]", "wait", cols=20) as program:
        program.wait_for("… running slow (1 s")
        program.interrupt()
        program.wait()
    out = io.StringIO()
    now = [0.0]
    renderer = TerminalRenderer(colour_console(out), clock=lambda: now[0])
    renderer._phase("reading the prompt")
    renderer.show_status()
    assert out.getvalue() == ""
    now[0] = 12.0
    renderer.show_status()
    assert "reading the prompt (12 s)" in out.getvalue()
    renderer.show(events.TextDelta("Hello"))
    assert out.getvalue().endswith("\r\x1b[KHello")
    now[0] = 99.0
    renderer.show_status()
    assert out.getvalue().endswith("Hello"), "never in the middle of a line"


def test_no_waiting_line_while_a_person_is_asked() -> None:
    """The question of an approval is not overwritten."""
    out = io.StringIO()
    now = [0.0]
    renderer = TerminalRenderer(colour_console(out), clock=lambda: now[0])
    renderer._phase("reading the prompt")
    renderer.show(events.ApprovalRequested("i", "t", ()))
    now[0] = 12.0
    renderer.show_status()
    assert out.getvalue() == ""


def colour_console(out: io.StringIO) -> Console:
    """A console that takes the string for a terminal with colours, whatever runs the tests."""
    environ = {"TERM": "xterm"}
    return Console(
        file=out, force_terminal=True, color_system="standard", width=80, _environ=environ
    )


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_escape_where_none_may_be(env: dict[str, str]) -> None:
    """T08: NO_COLOR and TERM=dumb mean no escape sequence, not even with FORCE_COLOR."""
    with show(turn("hi"), FORCE_COLOR="1", **env) as program:
        program.wait_for("THE END")
        assert b"\x1b" not in program.raw


def test_an_ascii_terminal_gets_ascii() -> None:
    """T08: LANG=C gives a spelling in ASCII and no UnicodeEncodeError."""
    with show(turn("né"), PYTHONIOENCODING="ascii", LC_ALL="C") as program:
        program.wait_for("THE END")
        assert program.wait() == 0
        assert program.raw.isascii()
        assert "=> route: n\\xe9" in program.text


def test_redirected_output_has_no_escape() -> None:
    """T08: a stream that is no terminal gets none, whatever FORCE_COLOR says."""
    out = io.StringIO()
    console = make_console(out)
    renderer = TerminalRenderer(console)
    renderer.show(events.RouteChosen("r"))
    assert out.getvalue() == "⇢ route: r\n"


def test_an_answer_that_did_not_stream_is_printed_once() -> None:
    """The answer comes from the deltas, or from the end of the turn, never from both."""
    out = io.StringIO()
    renderer = TerminalRenderer(make_console(out))
    end = events.TurnFinished("t", "r", "The answer.", "ok")
    for event in (events.TextDelta("The answer."), end, end):
        renderer.show(event)
    assert out.getvalue() == "The answer.\nThe answer.\n"
    renderer.show(events.TextDelta("I will look. The answer."))
    renderer.show(events.ToolStarted("c", "ls", "s", "ls", {}))
    renderer.show(events.ToolFinished("c", "ls", "success", "x" * 5000))
    renderer.show(end)
    assert out.getvalue().count("The answer.") == 4
    assert "x" * 200 + " … (5,000 characters)\n" in out.getvalue()
