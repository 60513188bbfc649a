"""Text from models, tools and servers on the terminal: shown letter by letter, and harmless."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from local_agent.testing import Call, Calls, Fail, Say, ScriptedServer
from tests.chat_kit import Chats, leave

pytestmark = pytest.mark.process
Scripted = Callable[..., ScriptedServer]
BRACKETS = "end [/INST] now x: list[int] = a[red] [/] [link=file:///x]y[/link] [\\]"
CONTROLS = (
    "A\x1b[2JB\x1b]0;title\x07C\x1b]52;c;YQ==\x07D\x1b]8;;http://x\x1b\\E\x1b[1A\x1b[2KF"
    "\rG\x08\x08H\x9b2JI\x00J\u202eK"
)
SHOWN = "A␛[2JB␛]0;title␇C␛]52;c;YQ==␇D␛]8;;http://x␛\\E␛[1A␛[2KF␍G␈␈H<U+009B>2JI␀J<U+202E>K"
RAW = (
    b"\x1b[2J",
    b"\x1b]",
    b"\x07",
    b"\x1b[1A\x1b[2K",
    b"\x08\x08H",
    b"\xc2\x9b",
    b"\x00",
    "\u202e".encode(),
)
EVIL = {
    "name": "ev\x1b[2Jil[/]",
    "description": f"{BRACKETS} {CONTROLS}",
    "inputSchema": {"type": "object", "properties": {}},
    "annotations": {"readOnlyHint": True},
}


def test_nothing_acts_on_the_terminal(tmp_path: Path, scripted: Scripted) -> None:
    """T01, T04: in answers, results, names, descriptions, arguments, errors; cut between chunks."""
    text = f"{BRACKETS} {CONTROLS}"
    shown = f"{BRACKETS} {SHOWN}"
    replies = [
        Calls([Call("echo", {"text": text})]),
        Say(f"Answer: {text} .", thinking=f"Thinking: {text} ."),
        Calls([Call("fail", {"text": text})]),
        Say("Failed."),
        Calls([Call("write_note", {"text": text})]),
        Say("Refused."),
        Fail(500, {"error": {"message": f"Broken: {text}"}}),
        Say("Hello."),
    ]
    model = scripted(replies, chunk=1)
    chats = Chats(tmp_path, model, "")
    chats.configure(chats.echo(EXTRA_TOOLS=json.dumps([EVIL])))
    with chats.ready("--thread", BRACKETS, cols=200) as program:
        assert f"Thread '{BRACKETS}': new conversation." in program.unwrapped
        program.send("one\r")
        program.wait_for(f"Thinking: {shown} .")
        program.wait_for(f"Answer: {shown} .\n>")
        # White space of a result is shown as a space; NUL is replaced, as no database keeps it.
        one_line = shown.replace("␍", " ").replace("␀", "\N{REPLACEMENT CHARACTER}")
        assert f"← {one_line}" in program.unwrapped
        arguments = program.unwrapped.partition("→ echo(text='")[2].partition("\n")[0]
        assert arguments.startswith("end [/INST] now x: list[int] = a[red] [/]")
        program.send("two\r")
        program.wait_for("Failed.\n>")
        assert f"← ValueError: {one_line}" in program.unwrapped
        program.send("three\r")
        program.wait_for("n REASON:")
        question = re.sub("\n[┆] ", "", program.text.partition("⏸ approval")[2])
        assert "[link=file:///x]y[/link] [\\\\]" in question  # as JSON, so with two
        program.send(f"n {BRACKETS}\r")
        program.wait_for(f"Not run: {BRACKETS}")
        program.wait_for("Refused.\n>")
        program.send("four\r")
        program.wait_for(f"Broken: {BRACKETS}")
        program.send("/tools\r")
        program.wait_for("read   ev_2jil")
        assert BRACKETS in program.unwrapped.partition("ev_2jil")[2]
        program.send("hello\r")
        program.wait_for("Hello.\n>")
        raw = bytes(program.raw)
        assert not [code for code in RAW if code in raw]
        assert "Traceback" not in program.text
        leave(program)
    results = [m["content"] for m in model.requests[1]["messages"] if m["role"] == "tool"]
    assert "end [/INST] now" in results[0]
    assert model.refused == []
