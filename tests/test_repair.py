"""Raw tool calls become calls that can run, or texts that say to the model what is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from local_agent.repair import repair


@dataclass(frozen=True)
class Known:
    """A tool as repair sees it."""

    name: str
    schema: Mapping[str, Any] = field(default_factory=dict)
    server: str = "kit"

    @property
    def original(self) -> str:
        return self.name.rpartition("__")[2]


NOTE = Known(
    "write_note",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "text": {"type": ["string", "null"]},
            "tags": {"type": "array"},
        },
        "required": ["path", "text"],
    },
)
TOOLS = [NOTE, Known("files__read_file"), Known("list_dir")]
GOOD = '{"path": "a.txt", "text": "milk"}'


def reply(*calls: tuple[str, str, str], finish: str = "tool_calls") -> AIMessage:
    """A reply with raw calls (id, name, arguments)."""
    raw = [{"id": i, "name": n, "args": a} for i, n, a in calls]
    return AIMessage(
        "text",
        id="m1",
        additional_kwargs={"raw_tool_calls": raw, "other": 1},
        response_metadata={"finish_reason": finish},
    )


def error(message: AIMessage) -> str:
    """The one text for the model."""
    assert message.tool_calls == []
    (call,) = message.invalid_tool_calls
    assert call["error"]
    return call["error"]


def test_good_call() -> None:
    """A whole call of a known tool can run; id, text and the rest of the message stay."""
    before = reply(("call_1", "write_note", GOOD))
    after = repair(before, TOOLS)
    assert after.tool_calls == [
        {
            "name": "write_note",
            "args": {"path": "a.txt", "text": "milk"},
            "id": "call_1",
            "type": "tool_call",
        }
    ]
    assert (after.id, after.content, after.additional_kwargs) == ("m1", "text", {"other": 1})
    assert "raw_tool_calls" in before.additional_kwargs
    assert repair(after, TOOLS) is after


def test_no_arguments() -> None:
    """No argument text at all is an empty object."""
    assert repair(reply(("a", "list_dir", " ")), TOOLS).tool_calls[0]["args"] == {}


def test_cut_arguments() -> None:
    """L01: cut JSON is not completed; the model reads that it was not whole."""
    text = error(repair(reply(("call_1", "write_note", '{"path":"a.txt","text":"buy mi')), TOOLS))
    assert "not whole JSON" in text
    assert "buy mi" in text
    assert "write_note(path: string, text: string|null, tags?: array)" in text


@pytest.mark.parametrize("args", ['{"path":"r.md","text":"# Title  cut', '{"path":"r.md"}', GOOD])
def test_cut_at_the_limit(args: str) -> None:
    """L02: at the output limit no call is run, whether or not its arguments parse."""
    after = repair(reply(("a", "write_note", args), finish="length"), TOOLS)
    assert "cut at the output limit" in error(after)
    assert "smaller pieces" in error(after)


@pytest.mark.parametrize("args", ["[1]", '"x"', "null", "3"])
def test_no_object(args: str) -> None:
    """Arguments that are no object are refused."""
    assert "one JSON object" in error(repair(reply(("a", "list_dir", args)), TOOLS))


@pytest.mark.parametrize("args", ['{"a": NaN}', '{"a": x}', '{"a": 1} x', "[" * 100_000])
def test_no_json(args: str) -> None:
    """What only some parsers take is not JSON."""
    assert "not whole JSON" in error(repair(reply(("a", "list_dir", args)), TOOLS))


def test_missing_arguments() -> None:
    """Required arguments that are missing are named, with what the tool takes."""
    text = error(repair(reply(("a", "write_note", '{"tags": []}')), TOOLS))
    assert "path, text missing" in text
    assert "tags?: array" in text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("read_flie", "files__read_file"),
        ("lst_dir", "list_dir"),
        ("xyz", "write_note, files__read_file, list_dir"),
    ],
)
def test_unknown_tool(name: str, words: str) -> None:
    """L10: an unknown name is never guessed; the close ones are listed."""
    text = error(repair(reply(("a", name, "{}")), TOOLS))
    assert text.startswith(f"There is no tool {name}")
    assert words in text


def test_unknown_prefix_lists_both_servers() -> None:
    """L10: a name that fits the tools of two servers is not guessed between them."""
    tools = [Known("work__search"), Known("home__search")]
    text = error(repair(reply(("a", "search", "{}")), tools))
    assert "work__search" in text
    assert "home__search" in text


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("functions.list_dir:0", "list_dir"),
        ("list_dir<|channel|>commentary", "list_dir"),
        ("List-Dir", "list_dir"),
        ("stra\u00dfe", ""),
        ("\u212aey", ""),
        ("step1.1", ""),
        ("v10", ""),
    ],
)
def test_names(name: str, tool: str) -> None:
    """What models leave around a name is no part of it; numbers and foreign letters are."""
    tools = [Known(each) for each in ("list_dir", "strasse", "key", "step11", "v1_0")]
    after = repair(reply(("a", name, "{}")), tools)
    assert [call["name"] for call in after.tool_calls] == ([tool] if tool else [])


def test_no_tools() -> None:
    """Without tools the model is told to answer in words."""
    assert "Answer in words" in error(repair(reply(("a", "x", "{}")), []))


def test_nameless_entries_are_dropped() -> None:
    """L06: an entry without a name is nothing."""
    after = repair(reply(("", "", ""), ("", "list_dir", "{}")), TOOLS)
    assert [call["name"] for call in after.tool_calls] == ["list_dir"]
    assert after.invalid_tool_calls == []


def test_empty_list() -> None:
    """L07: an empty list is no call."""
    after = repair(reply(), TOOLS)
    assert (after.tool_calls, after.invalid_tool_calls) == ([], [])


def test_ids() -> None:
    """L06: empty and repeated ids are replaced by own ones, the same each time; others stay."""
    calls = [("x", "list_dir", ""), ("x", "list_dir", ""), ("", "list_dir", ""), ("", "no", "")]
    first, second = repair(reply(*calls), TOOLS), repair(reply(*calls), TOOLS)
    assert first == second
    ids = [c["id"] or "" for c in [*first.tool_calls, *first.invalid_tool_calls]]
    assert ids[0] == "x"
    assert len(set(ids)) == 4
    assert all(re.fullmatch("[0-9a-z]{9}", own) for own in ids[1:])


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**400])
def test_number_too_large_to_store(number: int) -> None:
    """A number that no checkpoint can hold is refused with a text."""
    text = error(repair(reply(("a", "list_dir", json.dumps({"n": [number]}))), TOOLS))
    assert "too large" in text
    assert len(text) < 200


@pytest.mark.parametrize("number", [2**64 - 1, -(2**63), 0, 1.5])
def test_number_that_can_be_stored(number: float) -> None:
    """Numbers up to the limits stay as they are."""
    after = repair(reply(("a", "list_dir", json.dumps({"n": number}))), TOOLS)
    assert after.tool_calls[0]["args"] == {"n": number}


def test_infinite_number() -> None:
    """1e999 parses to infinity, which is no JSON on the way out."""
    assert "too large" in error(repair(reply(("a", "list_dir", '{"n": 1e999}')), TOOLS))


def test_too_deep() -> None:
    """Arguments nested beyond reason are refused."""
    deep = '{"a":' * 60 + "1" + "}" * 60
    assert "too deep" in error(repair(reply(("a", "list_dir", deep)), TOOLS))


def test_half_surrogates() -> None:
    """Half a surrogate pair can be neither sent nor stored; it is replaced."""
    after = repair(reply(("a", "list_dir", '{"p": "x\\ud800y"}')), TOOLS)
    assert after.tool_calls[0]["args"] == {"p": "x?y"}
    assert after.additional_kwargs["repaired"] == {"a": "half a letter read as ?"}


def test_mixed() -> None:
    """Good and bad calls of one message keep their ids."""
    after = repair(reply(("a", "list_dir", "{}"), ("b", "nope", "{}")), TOOLS)
    assert [call["id"] for call in after.tool_calls] == ["a"]
    assert [call["id"] for call in after.invalid_tool_calls] == ["b"]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", "a", "b"]),
            st.sampled_from(["", " ", "list_dir", "write_note", "x"]),
            st.one_of(st.text(max_size=20), st.sampled_from([GOOD, "{}", '{"a"'])),
        ),
        max_size=5,
    ),
    st.sampled_from(["stop", "tool_calls", "length"]),
)
def test_every_named_call_is_answered_for(calls: list[Any], finish: str) -> None:
    """Whatever comes, each named call is run or explained, once, under an id of its own."""
    after = repair(reply(*calls, finish=finish), TOOLS)
    got = [*after.tool_calls, *after.invalid_tool_calls]
    assert len(got) == sum(1 for call in calls if call[1].strip())
    ids = [call["id"] for call in got]
    assert all(ids)
    assert len(set(ids)) == len(ids)
    assert all(call["error"] for call in after.invalid_tool_calls)
