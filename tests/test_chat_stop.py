"""Ctrl-C in the middle of a turn, and answers that break off: the prompt is back, the thread works.

The model server is strict: it refuses a history with an open call or roles out of order.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from local_agent.testing import (
    Broken,
    Call,
    Calls,
    Hang,
    Reply,
    Say,
    ScriptedServer,
    Slow,
    overflow_reply,
)
from tests.chat_kit import Chats, leave
from tests.pty_driver import PtyProgram

pytestmark = pytest.mark.process
Scripted = Callable[..., ScriptedServer]
STOPPED = "Stopped. What was there is kept."


def results(model: ScriptedServer) -> list[str]:
    """The tool results that the model was last sent."""
    messages: list[dict[str, Any]] = model.requests[-1]["messages"]
    return [m["content"] for m in messages if m["role"] == "tool"]


def stop(program: PtyProgram, seen: str, times: int = 1) -> None:
    """Send a prompt and press Ctrl-C when `seen` is there; "hello" works in the next turn."""
    stops, hellos = program.text.count(STOPPED), program.text.count("Hello.\n>")
    program.send("go on\r")
    program.wait_for(seen)
    pressed = time.monotonic()
    for _ in range(times):
        program.interrupt()
        time.sleep(0.01)
    program.wait_for(STOPPED, count=stops + 1)
    assert time.monotonic() - pressed < 10  # none of the calls that were stopped ends by itself
    program.send("hello\r")
    program.wait_for("Hello.\n>", count=hellos + 1)


def test_ctrl_c_in_a_turn(tmp_path: Path, scripted: Scripted) -> None:
    """A05: while tools run, while an answer streams or is awaited, at a question, twice quickly."""
    slow = Call("slow", {"seconds": 60}, "c2")
    hello = Say("Hello.")
    replies: list[Reply] = [
        Calls([slow]),
        hello,
        Calls([Call("add", {"a": 1, "b": 2}, "c1"), slow]),
        hello,
        Hang("The total is 4"),
        hello,
        Hang(),
        hello,
        Calls([Call("write_note", {"text": "one"})]),
        hello,
        Calls([Call("slow_write", {"seconds": 60, "text": "two"})]),
        hello,
    ]
    model = scripted(replies)
    chats = Chats(tmp_path, model)
    with chats.ready() as program:
        stop(program, "→ slow(seconds=60)")
        assert "Cancelled by the user" in results(model)[-1]
        stop(program, "← 3", times=2)
        assert results(model)[-2] == "3"
        assert "Cancelled by the user" in results(model)[-1]
        stop(program, "The total is 4")
        cut = model.requests[-1]["messages"][-2]["content"]
        assert cut == "The total is 4\n[cut off here]"
        stop(program, "… reading the prompt (")
        stop(program, "n REASON:")
        assert "Cancelled by the user before it ran" in results(model)[-1]
        program.send("go on\r")
        program.wait_for("n REASON:", count=2)
        program.send("y\r")
        program.wait_for("→ slow_write")
        program.interrupt()
        program.wait_for(STOPPED, count=6)
        program.send("hello\r")
        program.wait_for("Hello.\n>", count=6)
        assert "it may have been carried out" in results(model)[-1]
        assert "Traceback" not in program.text
        assert "^C" not in program.text
        leave(program)
    assert model.refused == []
    assert chats.noted() == ["start two"]
    assert model.dropped.is_set()


def test_ctrl_c_while_connecting(tmp_path: Path, scripted: Scripted) -> None:
    """A05: a model server that does not answer can be left waiting; the prompt is not lost."""
    model = scripted([Say("Hello.")])
    silent = scripted()
    silent.describe = lambda path: time.sleep(30)  # type: ignore[method-assign]
    chats = Chats(tmp_path, silent)
    with chats.ready() as program:
        program.send("hello\r")
        program.wait_for("… connecting to the model (")
        program.interrupt()
        program.wait_for("> hello", count=2)
        silent.describe = model.describe  # type: ignore[method-assign]
        silent.replies = [Say("Hello.")]
        program.send("\r")
        program.wait_for("Hello.\n>")
        leave(program)
    assert silent.refused == []


def test_answers_that_break_off(tmp_path: Path, scripted: Scripted) -> None:
    """L15, L04: what came stays and is marked, with the reason; /retry and the next turn work."""
    whole = Say("The total is 42.")
    replies: list[Reply] = []
    for how in ("error_event", "error_event_dict", "close", "reset", "mid_args"):
        replies += [Broken("The total is 4", how=how), whole]
    too_long = overflow_reply("object", 9000, 8192)
    replies += [too_long, too_long, Say("Short enough."), Hang("Half of"), Say("In time.")]
    model = scripted(replies)
    chats = Chats(tmp_path, model)
    with chats.ready("--timeout", "4") as program:
        for number in range(5):
            program.send("add it up\r")
            program.wait_for("error: ", count=number + 1)
            program.wait_for("\n>")
            program.send("/retry\r")
            program.wait_for("The total is 42.\n>", count=number + 1)
        assert program.text.count("The total is 4\n") == 5
        assert program.unwrapped.count("The model has crashed") == 2
        program.send("hello\r")
        program.wait_for("error: ", count=6)
        assert "8192" in program.unwrapped.rpartition("error: ")[2]
        program.send("/retry\r")
        program.wait_for("Short enough.\n>")
        program.send("hello again\r")
        program.wait_for("error: The turn took longer than 4 seconds.\n/retry tries it again.")
        program.send("/retry\r")
        program.wait_for("In time.\n>")
        assert "Traceback" not in program.text
        leave(program)
    assert model.refused == []
    assert chats.noted() == []
    said = [m["content"] for m in model.requests[-1]["messages"] if m["role"] == "assistant"]
    assert said == [*["The total is 42."] * 5, "Short enough."]


def test_a_long_answer(tmp_path: Path, scripted: Scripted) -> None:
    """T05, T13: each paragraph is there once, in order, also with resizing and after Ctrl-C."""
    paragraphs = [f"Paragraph {n:03} has some words in it." for n in range(200)]
    text = "\n\n".join(paragraphs)
    model = scripted([Say(text), Slow(Say(text), 0), Say("Hello.")], chunk=7)
    chats = Chats(tmp_path, model)
    with chats.ready(rows=10) as program:
        program.send("tell me\r")
        program.wait_for(f"{paragraphs[-1]}\n>")
        found = [row for row in program.text.splitlines() if row.startswith("Paragraph")]
        assert found == paragraphs

        model.delay = 0.005
        program.send("once more\r")
        program.wait_for(paragraphs[20], count=2)
        program.resize(40, 24)
        program.wait_for(paragraphs[60], count=2)
        program.resize(100, 24)
        program.wait_for(paragraphs[99], count=2)
        program.interrupt()
        program.wait_for(f"{STOPPED}\n>")
        rows = [row for row in program.text.splitlines() if row.startswith("Paragraph")]
        assert len(rows[200:]) == len(set(rows[200:]))
        whole = rows[200:-1]
        assert whole == paragraphs[: len(whole)]
        assert 99 <= len(whole) < 199
        model.delay = 0
        program.send("hello\r")
        program.wait_for("Hello.\n>")
        leave(program)
    assert model.refused == []
