"""The chat's commands over what the model sees: /context, /compact, /summary, /pin."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from local_agent.testing import Call, Say, ScriptedServer
from tests.chat_kit import Chats, leave
from tests.program_kit import Program

pytestmark = pytest.mark.process
Scripted = Callable[..., ScriptedServer]

LONG = "The harbour of Genoa has many piers and each has a number. " * 8
NOTES = "The user asks about Genoa, pier 7, ticket ABC-123."


def test_commands_over_the_prompt(tmp_path: Path, scripted: Scripted) -> None:
    """What fills the prompt is shown; compacting is previewed, done, taken back and made final."""
    replies = [Call("echo", {"text": LONG * 3}), Say("It says much. Ticket ABC-123.")]
    replies += [Say(LONG) for _ in range(5)]
    server = scripted([*replies, Say(NOTES), Say("On we go.")])
    chats = Chats(tmp_path, server)
    chats.configure(f"context_length = 4096\n{chats.echo()}[context]\nhigh_water = 1.0\n")
    with chats.ready("--thread", "trip", cols=100) as program:

        def type_(text: str, shown: str) -> None:
            seen = program.text.count(shown)
            program.send(f"{text}\r")
            program.wait_for(shown, count=seen + 1)

        type_("/context", "Nothing was said yet")
        type_("/compact", "Nothing was said yet.")
        type_("/summary", "No turn is summarised yet")
        type_("read it", "It says much.")
        type_("/pin r9", "There is no result r9.")
        type_("/pin r1", "r1 is kept whole.")
        type_("/pin", "Kept whole: r1.")
        type_("/pin r1 off", "r1 may be shortened again.")
        for n in range(5):
            type_(f"more {n}", "number.")
            program.wait_for("> ")
        type_("/context", "The next prompt, in 4,096 tokens, by estimate:")
        program.wait_for("echo ")
        program.wait_for("as before.")
        type_("/compact --purge", "No turn is folded, so there is nothing to remove.")
        type_("/compact undo", "There is no compaction to take back.")
        type_("/compact what", "/compact knows preview, undo and --purge, not 'what'.")
        type_("/compact preview", "Nothing was changed.")
        asked = len(server.requests)
        type_("/compact", "/compact undo takes it back.")
        assert len(server.requests) == asked + 1, "one request, for the summary"
        type_("/summary", "pier 7, ticket ABC-123")
        type_("/compact undo", "The last compaction is taken back")
        type_("/summary", "No turn is summarised yet")
        leave(program)


def test_purged_messages_are_gone(tmp_path: Path, scripted: Scripted) -> None:
    """`/compact --purge` says what goes, removes it when told to, and it stays away."""
    server = scripted([*(Say(LONG) for _ in range(6)), Say(NOTES), Say("On we go.")])
    chats = Chats(tmp_path, server, servers="context_length = 4096\n[context]\nhigh_water = 1.0\n")
    with chats.ready("--thread", "trip", cols=100) as program:
        for n in range(6):
            program.send(f"pier {n}\r")
            program.wait_for("number.", count=8 * (n + 1))
        program.send("/compact\r")
        program.wait_for("/compact undo takes it back.")
        program.send("/compact --purge\r")
        program.wait_for("> /compact --purge --yes")
        program.send("\r")
        program.wait_for("Removed: ")
        program.send("/compact undo\r")
        program.wait_for("There is no compaction to take back.")
        program.send("go on\r")
        program.wait_for("On we go.")
        leave(program)
    sent = [m["content"] for m in server.requests[-1]["messages"]]
    assert any(NOTES in text for text in sent)
    assert not any(text == "pier 0" for text in sent)
    program = Program(tmp_path / "again", server.base_url)
    program.db = chats.db
    shown = program.run("--db", str(chats.db), "threads", "show", "trip", "--messages", "--json")
    contents = [m["content"] for m in shown.json["messages"]]
    assert "pier 0" not in json.dumps(contents)
    summary = program.run("--db", str(chats.db), "threads", "show", "trip", "--summary", "--json")
    assert summary.json["summary"] == NOTES


def test_a_prompt_that_is_cut_is_no_result(tmp_path: Path, scripted: Scripted) -> None:
    """`/context` counts it, and does not name an id that no command takes."""
    server = scripted([Say("That is long."), Say("That too.")])
    chats = Chats(tmp_path, server, servers="context_length = 2048\n")
    with chats.ready("--thread", "trip", cols=100) as program:
        program.send(f"{LONG * 12}\r")
        program.wait_for("That is long.")
        program.send("/context\r")
        program.wait_for("Shown cut: 1 other message.")
        assert "/show has" not in program.text
        leave(program)
