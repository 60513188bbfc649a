"""The chat on a thread whose last turn was broken off: said first, gone on with, or discarded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from local_agent.testing import Call, Calls, Hang, Say, ScriptedServer
from tests.chat_kit import CTRL_D, Chats, check_terminal, leave, prompts_of
from tests.program_kit import wait_for

pytestmark = pytest.mark.process
Scripted = Callable[..., ScriptedServer]
LINE = 'The last turn was interrupted while the model answered: "fix the tests"'
QUESTION = "Go on with it? Enter goes on · d discards it:"
LEFT = "It is left as it is, and asked about before the next prompt."


def broken_off(
    chats: Chats, model: ScriptedServer, *args: str, prompt: str = "fix the tests"
) -> None:
    """A chat that is killed while the model is asked."""
    asked = len(model.requests)
    with chats.ready(*args) as program:
        program.send(f"{prompt}\r")
        wait_for(lambda: len(model.requests) > asked)
        program.kill()
        program.wait()


def test_gone_on_with(tmp_path: Path, scripted: Scripted) -> None:
    """The question is the first thing shown; Enter goes on, and the prompt is there once."""
    model = scripted([Hang(), Say("All fixed."), Say("Hello.")])
    chats = Chats(tmp_path, model)
    broken_off(chats, model)
    with chats.start() as program:
        program.wait_for(QUESTION, 40)
        assert LINE in program.unwrapped
        assert "\n>" not in program.text
        program.send("\r")
        program.wait_for("All fixed.\n>")
        program.send("hello\r")
        program.wait_for("Hello.\n>")
        leave(program)
    said = prompts_of(model.requests[-1])
    assert said == ["fix the tests", "hello"]
    assert model.refused == []


def test_discarded(tmp_path: Path, scripted: Scripted) -> None:
    """The prompt stands on the next line; what had run keeps its result, nothing is open."""
    reads = Calls([Call("echo", {"text": "one"}, "a"), Call("slow", {"seconds": 60}, "b")])
    model = scripted([reads, Say("As you say.")])
    chats = Chats(tmp_path, model)
    with chats.ready() as program:
        program.send("look around\r")
        program.wait_for("← one")
        program.wait_for("→ slow(seconds=60)")
        program.kill()
        program.wait()
    with chats.start() as program:
        program.wait_for(QUESTION, 40)
        assert 'interrupted while slow ran: "look around"' in program.unwrapped
        program.send("write a poem\r")  # is no answer
        program.wait_for(QUESTION, count=2)
        program.send("d\r")
        program.wait_for("Discarded. /retry asks it again.\n> look around")
        program.send(" here\r")
        program.wait_for("As you say.\n>")
        leave(program)
    assert model.refused == []
    roles = [m["role"] for m in model.requests[-1]["messages"][1:]]
    assert roles == ["user", "assistant", "tool", "tool", "assistant", "user"]
    assert model.requests[-1]["messages"][-1]["content"] == "look around here"
    with chats.start() as program:
        program.wait_for("resumed 7 saved messages.", 40)
        assert QUESTION not in program.text
        leave(program)


def test_undecided(tmp_path: Path, scripted: Scripted) -> None:
    """Ctrl-C and Ctrl-D neither go on nor lose anything; a prompt waits until it is decided."""
    model = scripted([Hang(), Say("Hello."), Say("All fixed.")])
    chats = Chats(tmp_path, model)
    broken_off(chats, model)
    with chats.start() as program:
        program.wait_for(QUESTION, 40)
        program.interrupt()
        program.wait_for(LEFT)
        program.send("/servers\r")
        program.wait_for("echo  ready")
        program.send("hello\r")
        program.wait_for(QUESTION, count=2)
        program.send(CTRL_D)
        program.wait_for(LEFT, count=2)
        program.wait_for("> hello", count=2)
        program.interrupt()
        leave(program)
    assert len(model.requests) == 1
    with chats.start() as program:
        program.wait_for(QUESTION, 40)
        program.interrupt()
        program.wait_for(LEFT)
        program.send("hello\r")
        program.wait_for(QUESTION, count=2)
        program.send("d\r")
        program.wait_for("Hello.\n> fix the tests")
        program.send("!\r")
        program.wait_for("All fixed.\n>")
        leave(program)
    said = prompts_of(model.requests[-1])
    assert said == ["fix the tests", "hello", "fix the tests!"]
    assert model.refused == []


def test_another_thread_that_was_broken_off(tmp_path: Path, scripted: Scripted) -> None:
    """/thread asks like a start does; the thread that is left open is asked about again."""
    model = scripted([Hang(), Say("All fixed.")])
    chats = Chats(tmp_path, model)
    broken_off(chats, model, "--thread", "work")
    with chats.ready() as program:
        assert QUESTION not in program.text
        program.send("/thread work\r")
        program.wait_for(QUESTION)
        program.interrupt()
        program.wait_for(LEFT)
        program.send("/new other\r")
        program.wait_for("Thread 'other': new conversation.")
        program.send("/thread work\r")
        program.wait_for(QUESTION, count=2)
        program.send("c\r")
        program.wait_for("All fixed.\n>")
        leave(program)
    assert model.refused == []


def test_without_line_editing(tmp_path: Path, scripted: Scripted) -> None:
    """NO_COLOR: a discarded prompt cannot stand on the line; /retry asks it again."""
    model = scripted([Hang(), Say("All fixed.")])
    chats = Chats(tmp_path, model)
    broken_off(chats, model)
    with chats.start(NO_COLOR="1") as program:
        program.wait_for(QUESTION, 40)
        program.interrupt()
        program.wait_for(LEFT)
        program.send("/retry\r")
        program.wait_for(QUESTION, count=2)
        program.send("d\r")
        program.wait_for("Discarded. /retry asks it again.\n>")
        program.send("/retry\r")
        program.wait_for("All fixed.\n>")
        program.send(CTRL_D)
        assert program.wait() == 0
        assert b"\x1b" not in program.raw
        check_terminal(program)
    assert model.refused == []


def test_no_model_to_go_on_with(tmp_path: Path) -> None:
    """A turn is not used up where no model answers: it is said, and asked again later."""
    with ScriptedServer([Hang()]) as model:
        port = model.port
        chats = Chats(tmp_path, model)
        broken_off(chats, model)
    with chats.start() as program:
        program.wait_for(QUESTION, 40)
        program.send("\r")
        program.wait_for("No model server at", 40, count=2)
        with ScriptedServer([Say("All fixed."), Say("Hello.")], port=port) as model:
            program.send("hello\r")
            program.wait_for(QUESTION, count=2)
            program.send("\r")
            program.wait_for("All fixed.")
            program.wait_for("Hello.\n>")
            leave(program)
            assert model.refused == []
