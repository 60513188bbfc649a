"""Calls taken to the letter, and native calls alone: what [repair] calls switches off."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage

from local_agent.repair import exact, repair
from tests.test_repair import GOOD, TOOLS, reply

IN_TEXT = '<tool_call>{"name": "write_note", "arguments": ' + GOOD + "}</tool_call>"


def test_a_good_call_runs() -> None:
    """Whole JSON under the name of a tool is a call, as it is with repair."""
    given = reply(("c1", "write_note", GOOD))
    assert exact(given, TOOLS).tool_calls == repair(given, TOOLS).tool_calls != []


@pytest.mark.parametrize(
    ("name", "args", "finish", "said"),
    [
        ("Write-Note", GOOD, "tool_calls", "Write-Note is not a tool."),
        ("", GOOD, "tool_calls", "That is not a tool."),
        ("write_note", "{'path': 'a'}", "tool_calls", "were not whole JSON"),
        ("write_note", "[]", "tool_calls", "were not whole JSON"),
        ("write_note", GOOD, "length", "were not whole JSON"),
        ("write_note", "[" * 100_000, "tool_calls", "were not whole JSON"),
    ],
)
def test_anything_else_is_an_error(name: str, args: str, finish: str, said: str) -> None:
    """No name and no JSON is mended, and a cut reply is never run; the model reads why."""
    heard = exact(reply(("c1", name, args), finish=finish), TOOLS)
    assert heard.tool_calls == []
    (bad,) = heard.invalid_tool_calls
    assert said in str(bad["error"])


def test_values_are_left_to_the_tool() -> None:
    """A value that the schema does not take goes as it is."""
    heard = exact(reply(("c1", "write_note", '{"path": 5}')), TOOLS)
    assert [call["args"] for call in heard.tool_calls] == [{"path": 5}]


def test_calls_in_the_text_are_text() -> None:
    """Without text calls, and to the letter, a call in the text is an answer."""
    given = AIMessage(IN_TEXT, id="m1")
    assert repair(given, TOOLS).tool_calls
    assert repair(given, TOOLS, text_calls=False) == given
    assert exact(given, TOOLS) == given


def test_native_calls_are_mended_without_text_calls() -> None:
    """Only what is written as text is switched off."""
    given = reply(("c1", "Write-Note", GOOD))
    assert repair(given, TOOLS, text_calls=False).tool_calls == repair(given, TOOLS).tool_calls
