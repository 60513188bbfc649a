"""The prompt in a pseudo terminal: editing, history, several lines, leaving."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.pty_driver import PtyProgram

ROOT = Path(__file__).parent.parent
CHAT = """
import asyncio, os, sys
from pathlib import Path
from local_agent.ui.prompt import ChatPrompt

async def later():
    await asyncio.sleep(0.3)
    print("Loaded 14 tools.")

async def main():
    prompt = ChatPrompt(history=Path(sys.argv[1]))
    if "confirm" in sys.argv:
        print("SAID", await prompt.confirm("Sure?", default="yes" in sys.argv))
    if "later" in sys.argv:
        task = asyncio.create_task(later())
    while (text := await prompt.read()) is not None:
        print("GOT", ascii(text))
    print("THE END")

asyncio.run(main())
"""
PLAIN = pytest.mark.parametrize("env", [{}, {"TERM": "dumb"}, {"NO_COLOR": "1"}])


def chat(history: Path, *more: str, cols: int = 80, **env: str) -> PtyProgram:
    """A program that reads prompts and prints each."""
    whole = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT), **env}
    return PtyProgram([sys.executable, "-c", CHAT, str(history), *more], whole, cols)


@PLAIN
def test_prompts_are_read_until_ctrl_d(tmp_path: Path, env: dict[str, str]) -> None:
    """T08, T13: prompts come whole, Ctrl-D leaves, no escape where none may be, modes are back."""
    with chat(tmp_path / "h", **env) as program:
        program.wait_for("> ")
        program.send("what is ä漢?\r")
        program.wait_for("GOT 'what is \\xe4\\u6f22?'\n>")
        program.send("\x04")
        program.wait_for("THE END")
        assert program.wait() == 0
        assert program.modes == program.modes_at_start
        assert not env or b"\x1b" not in program.raw


@PLAIN
def test_two_ctrl_c_leave(tmp_path: Path, env: dict[str, str]) -> None:
    """The first Ctrl-C at an empty prompt says how to leave, the second leaves."""
    with chat(tmp_path / "h", **env) as program:
        program.wait_for("> ")
        program.interrupt()
        program.wait_for("(Ctrl-C again or Ctrl-D leaves.)")
        program.interrupt()
        program.wait_for("THE END")
        assert program.wait() == 0
        assert program.modes == program.modes_at_start


@PLAIN
def test_ctrl_c_empties_the_line(tmp_path: Path, env: dict[str, str]) -> None:
    """A line that was begun is dropped, and the next one is whole."""
    with chat(tmp_path / "h", **env) as program:
        program.wait_for("> ")
        program.send("never sent")
        program.wait_for("never sent")
        program.interrupt()
        time.sleep(0.5)  # nobody is faster; what comes with the signal can go with the line
        program.send("sent\r")
        program.wait_for("GOT 'sent'")


def test_ctrl_c_twice_needs_two_in_a_row(tmp_path: Path) -> None:
    """What is typed in between takes the first one back."""
    with chat(tmp_path / "h") as program:
        program.wait_for("> ")
        program.interrupt()
        program.wait_for("Ctrl-D leaves")
        program.send("hello\r")
        program.wait_for("GOT 'hello'\n>")
        program.interrupt()
        program.wait_for("Ctrl-D leaves", count=2)
        program.send("still here\r")
        program.wait_for("GOT 'still here'")


def test_several_lines_are_one_prompt(tmp_path: Path) -> None:
    """Alt-Enter begins a new line, and a pasted text of many lines is one prompt."""
    with chat(tmp_path / "h") as program:
        program.wait_for("> ")
        program.send("one\x1b\rtwo\r")
        program.wait_for("GOT 'one\\ntwo'\n>")
        program.send("\x1b[200~a\r\nb\rc\n\x1b[201~")
        program.wait_for("· c")
        program.send("\r")
        program.wait_for("GOT 'a\\nb\\nc\\n'")


def test_a_line_feed_is_enter(tmp_path: Path) -> None:
    """Enter typed before the prompt was there arrives as a line feed, and still sends."""
    with chat(tmp_path / "h") as program:
        program.send("early\r")
        program.wait_for("GOT 'early'\n>")
        program.send("late\n")
        program.wait_for("GOT 'late'")


def test_an_early_ctrl_d_is_not_lost(tmp_path: Path) -> None:
    """Ctrl-D typed while the program still starts leaves as soon as the prompt is there."""
    with chat(tmp_path / "h") as program:
        program.send("\x04")
        program.wait_for("THE END")
        assert program.wait() == 0


def test_history_is_private_and_lasts(tmp_path: Path) -> None:
    """Earlier prompts come back with the arrow key in the next process; the file has mode 0600."""
    path = tmp_path / "state" / "history"
    for expected in (1, 2):
        with chat(path) as program:
            program.wait_for("> ")
            program.send("first [/INST]\r" if expected == 1 else "\x1b[A\r")
            program.wait_for("GOT 'first [/INST]'\n>")
            program.send("\x04")
            assert program.wait() == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_history_that_cannot_be_written_is_no_reason_to_stop(tmp_path: Path) -> None:
    """A file where the folder should be: the prompt works, in memory."""
    (tmp_path / "file").write_text("")
    with chat(tmp_path / "file" / "h") as program:
        program.wait_for("> ")
        program.send("hi\r")
        program.wait_for("GOT 'hi'")


@pytest.mark.parametrize("cols", [40, 80])
def test_what_arrives_while_typing_stands_above(tmp_path: Path, cols: int) -> None:
    """A notice of a background task does not disturb the line that is typed."""
    with chat(tmp_path / "h", "later", cols=cols) as program:
        program.wait_for("> ")
        program.send("typed bef")
        program.wait_for("Loaded 14 tools.")
        program.send("ore\r")
        program.wait_for("GOT 'typed before'")
        rows = program.text.splitlines()
        assert rows.index("Loaded 14 tools.") < rows.index("> typed before")


@pytest.mark.parametrize("character", ["👨\u200d👩\u200d👧", "🇯🇵", "e\u0301", "क्षि", "漢"])
def test_keys_go_by_whole_characters(tmp_path: Path, character: str) -> None:
    """T07: left, right, backspace and delete take all of a joined or combined character."""
    left, right, delete, backspace = "\x1b[D", "\x1b[C", "\x1b[3~", "\x7f"
    with chat(tmp_path / "h", cols=40) as program:
        program.wait_for("> ")
        program.send(f"a{character}b{left}{left}{right}{backspace}c\r")
        program.wait_for("GOT 'acb'")
        program.send(f"a{character}b{left}{left}{delete}c\r")
        program.wait_for("GOT 'acb'", count=2)
        program.send(f"{character}\r")
        program.wait_for(f"GOT {character!a}")


def test_commands_are_completed(tmp_path: Path) -> None:
    """Tab completes a command; the list of them is shown while one is typed."""
    with chat(tmp_path / "h") as program:
        program.wait_for("> ")
        program.send("/ser")
        program.wait_for("list the MCP servers")
        program.send("\t\r")
        program.wait_for("GOT '/servers'")


@pytest.mark.parametrize(
    ("typed", "more", "said"),
    [("y\r", [], True), ("\r", [], False), ("\r", ["yes"], True), ("\x04", ["yes"], False)],
)
def test_confirm(tmp_path: Path, typed: str, more: list[str], said: bool) -> None:
    """Yes, the default by Enter, and a no at the end of input."""
    with chat(tmp_path / "h", "confirm", *more) as program:
        program.wait_for("Sure?")
        program.send(typed)
        program.wait_for(f"SAID {said}")


def test_bytes_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    """A prompt never has a lone surrogate, which no request could carry."""
    with chat(tmp_path / "h") as program:
        program.wait_for("> ")
        program.send(b"a\xffb\r")
        program.wait_for("GOT 'a\\ufffdb'")


def test_a_terminal_that_goes_away_ends_the_program(tmp_path: Path) -> None:
    """Ctrl-D's way out is taken when the terminal is closed at the prompt; nothing hangs."""
    program = chat(tmp_path / "h")
    program.wait_for("> ")
    os.close(program._master)
    assert program.process.wait(20) is not None
    program._master = os.open(os.devnull, os.O_RDONLY)
    program.stop()


def test_importing_the_user_interface_is_cheap() -> None:
    """Neither prompt_toolkit nor rich nor a library of the agent comes in by import alone."""
    code = (
        "import sys, local_agent.ui.prompt, local_agent.ui.approval, local_agent.ui.machine\n"
        "import local_agent.ui.commands\n"
        "heavy = {'rich', 'prompt_toolkit', 'langchain_core', 'langgraph', 'openai', 'mcp'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
