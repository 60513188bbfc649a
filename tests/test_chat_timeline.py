"""The chat: a thread is turned back, brought back, copied, corrected and looked into."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from local_agent.testing import Call, Say, ScriptedServer
from tests.chat_kit import Chats, leave
from tests.pty_driver import PtyProgram
from tests.servers.mcp_kit import wait_for

pytestmark = pytest.mark.process
Scripted = Callable[..., ScriptedServer]
NOTE = Call("write_note", {"text": "milk"})
EMPTY = "\x15"  # Ctrl-U: what stands on the line goes


def last(model: ScriptedServer) -> list[str]:
    """The contents of the last request behind the system prompt."""
    return [str(message["content"]) for message in model.requests[-1]["messages"][1:]]


def typed(program: PtyProgram, text: str, shown: str) -> None:
    """Type a line, and wait until `shown` has come once more and the prompt is back."""
    before = program.unwrapped.count(shown)
    program.send(f"{text}\r")
    program.wait_for(shown, count=before + 1)
    wait_for(lambda: program.unwrapped.rstrip().rpartition("\n")[2].startswith(">"))


def line(program: PtyProgram) -> str:
    """What stands on the line of the prompt."""
    return program.unwrapped.rpartition("\n")[2]


def three_turns(chats: Chats) -> None:
    """A fact, a write with a yes, chat; then back to before the second."""
    with chats.ready("--thread", "t") as program:
        typed(program, "my cat is Tom", "Noted: Tom.")
        program.send("note milk\r")
        program.wait_for("Run it?")
        typed(program, "y", "Milk it is.")
        typed(program, "how are you", "Fine.")
        typed(program, "/rewind", "/rewind N goes to before turn N.")
        listed = re.findall(r"^ +(\d)  .* [+-]\d{4}  (.*)$", program.text, re.MULTILINE)
        second = ("2", "note milk  [write_note]")
        assert listed == [("3", "how are you"), second, ("1", "my cat is Tom")]
        typed(
            program, "/rewind 2", "Thread 't' has 1 turn now. What was left is kept: /rewind --br"
        )
        assert line(program) == "> note milk"
        leave_draft(program)


def test_turned_back(tmp_path: Path, scripted: Scripted) -> None:
    """D10: rewind, say the same, undo, redo, the start; each also after a restart."""
    replies = [
        Say("Noted: Tom."),
        NOTE,
        Say("Milk it is."),
        Say("Fine."),
        NOTE,
        Say("As you like."),
    ]
    model = scripted([*replies, Say("Who are you?")])
    chats = Chats(tmp_path, model)
    three_turns(chats)
    assert chats.noted() == ["milk"]
    with chats.ready("--thread", "t") as program:
        assert "resumed 2 saved messages" in program.unwrapped
        program.send("note milk\r")
        program.wait_for("This very call was run before")
        program.wait_for("Run it again?")
        assert last(model) == ["my cat is Tom", "Noted: Tom.", "note milk"]
        typed(program, "n", "As you like.")
        typed(program, "/undo", "Turn 2 is taken back; /redo brings it back")
        assert line(program) == "> note milk"
        leave_draft(program)
    with chats.ready("--thread", "t") as program:
        typed(program, "/redo", "Thread 't' has 2 turns now.")
        typed(program, "/undo", "Turn 2 is taken back")
        program.send(EMPTY)
        typed(program, "/undo", "Turn 1 is taken back")
        program.send(EMPTY)
        typed(program, "/rewind", "There is no turn to go back to.")
        assert program.text.count("2 turns from") == 2
        typed(program, "hello", "Who are you?")
        typed(program, "/redo", "error: There is nothing to bring back.")
        leave(program)
    assert last(model) == ["hello"]
    assert chats.noted() == ["milk"]
    assert model.refused == []


def leave_draft(program: PtyProgram) -> None:
    program.send(EMPTY)
    leave(program)


def test_a_turn_that_waits_comes_back(tmp_path: Path, scripted: Scripted) -> None:
    """A04: taken back while it waits, and brought back: the question is put at once."""
    model = scripted([NOTE, Say("Done.")])
    chats = Chats(tmp_path, model)
    with chats.ready("--on-approval", "park") as program:
        typed(program, "note milk", "is waiting: agent approvals show")
        typed(program, "/undo", "Turn 1 is taken back")
        program.send(EMPTY)
        leave(program)
    with chats.ready() as program:
        program.send("/redo\r")
        program.wait_for("The last one is not finished.")
        program.wait_for("Run it?")
        typed(program, "y", "Done.")
        leave(program)
    assert chats.noted() == ["milk"]


def editor(folder: Path, text: str) -> str:
    """A command that leaves `text` in the file it is given."""
    script = folder / "editor.py"
    script.write_text(
        f"import pathlib, sys; pathlib.Path(sys.argv[-1]).write_text({text!r})", encoding="utf-8"
    )
    return f"{sys.executable} {script}"


# What is typed, and what is shown then; `%` is the id of a branch.
STEPS: tuple[tuple[str, str], ...] = (
    ("/state", "next: your prompt"),
    ("/show R1", "42"),
    ("/show r9", "error: Thread 't' has no result 'r9'. It has r1."),
    ("/edit r1", "r1 is corrected; what follows it runs again."),
    ("/show r1", "43 or so"),
    ("/edit r9", "error: Thread 't' has no result 'r9'."),
    ("/fork t", "error: There is a thread 't' already."),
    ("/fork two 7", "error: Thread 't' has no turn 7: it has 1."),
    ("/fork two", "Thread 'two': resumed 4 saved messages."),
    ("/rewind x", "error: /rewind takes the number of a turn, not 'x'."),
    ("/rewind --branch", "error: /rewind --branch needs an ID."),
    ("/rewind 5", "error: Thread 'two' has no turn 5: it has 1."),
    ("/thread t", "Thread 't': resumed 4 saved messages."),
)


def test_corrected_and_looked_into(tmp_path: Path, scripted: Scripted) -> None:
    """/edit by the editor, /show, /state, /fork; what cannot be says so in one line."""
    model = scripted(
        [Call("add", {"a": 17, "b": 25}), Say("It is 42."), Say("It is 43."), Say("B.")]
    )
    chats = Chats(tmp_path, model)
    with chats.ready("--thread", "t", EDITOR=editor(tmp_path, "43 or so\n")) as program:
        typed(program, "add them", "It is 42.")
        for text, shown in STEPS:
            typed(program, text, shown)
        assert "It is 43." in program.text
        typed(program, "/edit r1", "Nothing was changed.")
        (branch,) = re.findall(r"is kept: /rewind\s+--branch\s+(\w+)", program.text)
        typed(program, f"/rewind --branch {branch}", "Thread 't' has 1 turn now.")
        typed(program, "/show r1", "42")
        typed(program, "and now", "B.")
        assert "Traceback" not in program.text
        leave(program)
    assert last(model)[-3:] == ["42", "It is 42.", "and now"]
    assert model.refused == []


PADDING = "and some more words " * 15


def counted(body: Mapping[str, Any]) -> Say:
    """An answer to turn N, or notes where the last message is not one of the person."""
    asked = str(body["messages"][-1]["content"])
    found = re.search(r"(?:turn (\d+)|go on)$", asked)
    if found is None:
        return Say("The person counts turns; the word of the day is heron.")
    return Say(f"answer {found[1] or 'at last'}: {PADDING}".strip())


def test_turned_back_to_before_a_summary(tmp_path: Path, scripted: Scripted) -> None:
    """K09: 30 turns, of which some are summarised on the way; all of them can be read and found.

    Turned back to before the third, also after a restart, the model gets the first two whole, and
    no summary; what was left is brought back with its summary.
    """
    model = scripted(counted, context_length=2048)
    chats = Chats(tmp_path, model, servers="")
    with chats.ready(rows=50) as program:
        for n in range(1, 31):
            typed(program, f"turn {n}", f"answer {n}:")
        assert re.search(r"The \d+ oldest turns\s+are now summarised", program.text)
        seen = "\n".join(last(model))
        assert "heron" in seen
        assert "answer 3:" not in seen
        typed(program, "/rewind", "/rewind N goes to before turn N.")
        listed = re.findall(r"^ +(\d+)  .* [+-]\d{4}  turn (\d+)$", program.text, re.MULTILINE)
        assert listed == [(str(n), str(n)) for n in range(30, 0, -1)]
        typed(program, "/export all.md", "Written to all.md.")
        typed(program, '/search "answer 3"', "turn 3")
        leave(program)
    written = (tmp_path / "all.md").read_text("utf-8")
    whole = [f"answer {n}: {PADDING}".strip() for n in range(1, 31)]
    assert [written.count(answer) for answer in whole] == [1] * 30
    with chats.ready() as program:
        assert "resumed 60 saved messages" in program.unwrapped
        typed(program, "/rewind 3", "Thread 'default' has 2 turns now.")
        assert line(program) == "> turn 3"
        (branch,) = re.findall(r"is kept: /rewind\s+--branch\s+(\w+)", program.text)
        leave_draft(program)
    with chats.ready() as program:
        typed(program, "go on", "answer at last")
        assert last(model) == ["turn 1", whole[0], "turn 2", whole[1], "go on"]
        typed(program, f"/rewind --branch {branch}", "Thread 'default' has 30 turns now.")
        typed(program, "go on", "answer at last")
        assert "heron" in "\n".join(last(model))
        leave(program)
    assert model.refused == []


def test_without_line_editing(tmp_path: Path, scripted: Scripted) -> None:
    """Where nothing can stand on the line, the prompt that was taken back is shown."""
    model = scripted([Say("One."), Say("Two.")])
    chats = Chats(tmp_path, model)
    with chats.ready("--ephemeral", NO_COLOR="1") as program:
        program.send("first\r")
        program.wait_for("One.")
        program.send("/undo\r")
        program.wait_for("The prompt was: first")
        program.send("/edit r1\r")
        program.wait_for("this run writes none")
        program.send("second\r")
        program.wait_for("Two.")
        program.send("/quit\r")
        assert program.wait() == 0
        assert "\x1b" not in bytes(program.raw).decode()
    assert last(model) == ["second"]
