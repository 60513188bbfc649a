"""What an import takes, and what it refuses: one line each, and nothing is written."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from agent_core.mend import mend
from agent_core.sent import key_of
from agent_core.turn import handles_of
from local_agent.errors import TransferError
from local_agent.transfer.database import bring_in, read_thread
from local_agent.transfer.json_form import to_json
from local_agent.transfer.read import documents_in
from tests.foreign import FILE
from tests.graph_kit import say
from tests.timeline_kit import open_line, send, texts
from tests.view_kit import assert_strict

CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"n": 1}'}}
TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "You are somebody else."},
    {"role": "user", "content": "look"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "it is 42"},
    {"role": "assistant", "content": "42"},
]
LEFT_OUT = "system messages, left out as this program has its own: 1"


def read(value: Any, name: str = "name") -> Any:
    text = value if isinstance(value, str) else json.dumps(value)
    return documents_in(text.encode(), name)


def lines(*values: Any) -> str:
    return "\n".join(json.dumps(value) for value in values) + "\n"


def refused(value: Any, *words: str) -> None:
    """It is refused with one line that has the words."""
    with pytest.raises(TransferError) as caught:
        read(value)
    one_line(caught.value, *words)


def one_line(error: TransferError, *words: str) -> None:
    """The error is one line that has the words."""
    assert "\n" not in str(error)
    for word in words:
        assert word in str(error)


# -- lists of messages ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form",
    [
        json.dumps(TALK),
        json.dumps({"model": "x", "messages": TALK}),
        lines(*TALK),
        lines({"messages": TALK}),
        json.dumps([{"messages": TALK}]),
        "\ufeff" + json.dumps(TALK, indent=2),
    ],
)
async def test_a_list_of_messages_becomes_a_thread(tmp_path: Path, form: str) -> None:
    """In each form that is in use; it has its turns and handles, and goes on."""
    (found,) = read(form)
    assert found.said == (LEFT_OUT,)
    assert (found.document.title, found.document.name) == ("look", "name")
    path = tmp_path / "m.db"
    await bring_in(path, [found], None)
    async with open_line(path, [say("on")], thread="name") as (session, timeline, model):
        assert texts(await session.messages()) == [
            "human: look",
            "ai: ",
            "tool: it is 42",
            "ai: 42",
        ]
        assert list(handles_of(await session.messages())) == ["r1"]
        (turn,) = await timeline.turns()
        assert (turn.prompt, turn.tools, turn.is_reachable) == ("look", ("look",), True)
        await send(session, "and?")
        assert texts(model.asked[0]["messages"])[-2:] == ["ai: 42", "human: and?"]
        await timeline.rewind(1)
        assert await session.messages() == []


def test_several_conversations_in_lines() -> None:
    """A line each: threads with numbers behind the name."""
    found = read(lines({"messages": TALK}, {"messages": TALK[1:2]}))
    assert [one.document.name for one in found] == ["name 1", "name 2"]
    assert [one.document.turns for one in found] == [1, 1]


def messages_of(values: Sequence[Any]) -> tuple[list[Any], list[str]]:
    (found,) = read(list(values))
    messages = found.document.messages
    calls = [c["id"] for m in messages if isinstance(m, AIMessage) for c in m.tool_calls]
    results = [m.tool_call_id for m in messages if isinstance(m, ToolMessage)]
    assert sorted(calls) == sorted(results)
    assert len(set(calls)) == len(calls)
    assert len({m.id for m in messages}) == len(messages)
    assert_strict(mend(messages))
    return messages, list(found.said)


def test_calls_and_results_are_paired() -> None:
    """A call without a result gets one, a result without a call goes, ids that repeat are told."""
    again = [{"role": "assistant", "tool_calls": [CALL]}, {**TALK[3], "content": "later"}]
    twice = {"role": "assistant", "tool_calls": [CALL, CALL]}
    talk = [
        {"role": "tool", "tool_call_id": "gone", "content": "?"},
        *TALK[1:],
        TALK[1],
        *again,
        twice,
        {"role": "tool", "tool_call_id": "c1", "content": "first"},
        {"role": "user", "content": "next"},
    ]
    messages, said = messages_of(talk)
    results = [m.content for m in messages if isinstance(m, ToolMessage)]
    none = "[no result of this call in the imported conversation]"
    assert results == ["it is 42", "later", "first", none]
    assert said == [
        "results without a call, left out: 1",
        "calls without a result, which got one that says so: 1",
    ]
    assert messages[-2].additional_kwargs["outcome"] == "unknown"


def test_older_and_odd_forms() -> None:
    """Functions before there were tools, parts, arguments that are no object."""
    call = {"name": "look", "arguments": "not json"}
    talk = [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]},
        {"role": "assistant", "content": "", "function_call": call},
        {"role": "function", "name": "look", "content": "b"},
        {"role": "assistant", "content": None, "refusal": "no"},
    ]
    messages, said = messages_of(talk)
    assert [m.content for m in messages] == ["a\n[image_url left out]", "", "b", "no"]
    assert messages[1].tool_calls[0]["args"] == {"arguments": "not json"}
    assert said == [
        "parts that are no text, left out: 1",
        "calls whose arguments are no object, kept as a text: 1",
    ]


def test_marks_mean_nothing_in_lists() -> None:
    """Another program's "$bytes" stays what it is, and half a surrogate pair is made whole."""
    args = json.dumps({"$bytes": "AA==", "b": {"$float": "inf"}})
    call = {"id": "1", "function": {"name": "look", "arguments": args}}
    talk = [{"role": "user", "content": "\ud800!"}, {"role": "assistant", "tool_calls": [call]}]
    messages, _ = messages_of(talk)
    assert messages[0].content == "\ufffd!"
    assert messages[1].tool_calls[0]["args"] == json.loads(args)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("", ["It is empty"]),
        ("hello", ["It is no JSON"]),
        ("{} {}", ["It is no JSON"]),
        ('{"role": "user"}\nhello\n', ["Line 2 is no JSON"]),
        ("[" * 100_000, ["deep"]),
        ("[" * 300 + "]" * 300, ["deep"]),
        ("1" * 5000, ["number"]),
        (7, ["neither a thread nor a list"]),
        ({}, ["neither a thread nor a list"]),
        ([], ["has no message"]),
        ({"messages": []}, ["has no message"]),
        ({"messages": {}}, ["messages must be a list"]),
        ([1], ["[0] must be an object"]),
        ([{"content": "x"}], ['[0] has no "role"']),
        ([{"role": "god", "content": "x"}], ["[0].role is 'god'"]),
        ([{"role": "user", "content": 7}], ["[0].content must be a list"]),
        ([{"role": "user", "content": [7]}], ["[0].content[0] must be an object"]),
        ([{"role": "assistant", "tool_calls": {}}], ["[0].tool_calls must be a list"]),
        ([{"role": "assistant", "tool_calls": [{}]}], ['tool_calls[0] has no "function"']),
        ([{"role": "assistant", "tool_calls": [{"function": {}}]}], ['function has no "name"']),
        ([{"role": "tool", "content": "x"}], ['[0] has no "tool_call_id"']),
        ([TALK[0]], ["has no message of a conversation"]),
        (lines({"messages": TALK}, {"x": 1}), ["Line 2"]),
        ({"format": "something"}, ["format"]),
    ],
)
def test_what_is_no_conversation(value: Any, words: list[str]) -> None:
    """One line that says what and where."""
    refused(value, *words)


def test_bytes_that_are_no_text() -> None:
    """Latin-1, a picture, UTF-16: no text that could be guessed at."""
    for data in (b"caf\xe9", b"\x89PNG\r\n\x1a\n\xff", "[]".encode("utf-16")):
        with pytest.raises(TransferError, match="UTF-8"):
            documents_in(data, "x")


def test_a_number_that_cannot_be_stored() -> None:
    """More than 64 bits would end the first turn with an error; it is said now."""
    function = {"name": "a", "arguments": json.dumps({"n": 2**64})}
    refused([{"role": "assistant", "tool_calls": [{"function": function}]}], "64 bits")


# -- our own form ---------------------------------------------------------------------------------


def ours() -> dict[str, Any]:
    """A sound file of a thread with calls and results."""
    return json.loads(json.dumps(to_json(read_thread(FILE, "chat"))[0]))  # type: ignore[no-any-return]


def changed(*path: Any, value: Any) -> dict[str, Any]:
    """That file with one value replaced; the path "-" removes it."""
    table = ours()
    at: Any = table
    for key in path[:-1]:
        at = at[key]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return table


def where(kind: str) -> tuple[Any, ...]:
    """The path of the first message of that kind in the file."""
    for i, step in enumerate(ours()["steps"]):
        for n, message in enumerate(step.get("messages", [])):
            if message["type"] == kind:
                return ("steps", i, "messages", n)
    raise AssertionError(kind)


AI, TOOL = where("ai"), where("tool")
LAST = len(ours()["steps"]) - 1
LATE = "3f1ec91e-0157-61a8-bfff-4dedb09ed6a8"


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("version",), 2, ["newer version", "Update"]),
        (("version",), 0, ["version"]),
        (("version",), "1", ["version must be a whole number"]),
        (("version",), True, ["version must be a whole number"]),
        (("thread",), None, ['no "thread"']),
        (("thread",), [], ["thread must be an object"]),
        (("thread", "name"), "a\nb", ["thread.name"]),
        (("thread", "name"), 7, ["thread.name must be a text"]),
        (("thread", "name"), "x" * 201, ["1 to 200"]),
        (("thread", "parent"), "\x1b", ["control characters"]),
        (("thread", "title"), "x" * 2000, ["thread.title is longer"]),
        (("thread", "created"), "yesterday", ["thread.created is no time"]),
        (("thread", "created"), "2026-01-01T00:00:00", ["offset"]),
        (("thread", "decisions"), {}, ['unknown key "decisions"']),
        (("more",), 1, ['unknown key "more"']),
        (("steps",), [], ["steps must have a step"]),
        (("steps",), None, ['no "steps"']),
        (("steps", 0, "id"), "x", ["steps[0].id is no id"]),
        (("steps", 0, "id"), LATE, ["is not the step before it"]),
        (("steps", LAST, "id"), LATE, ["later than now", "clock"]),
        (("steps", 1, "id"), ours()["steps"][0]["id"], ["steps[1].id is there twice"]),
        (("steps", 1, "parent"), None, ["steps[1].parent is not the step before it"]),
        (("steps", 1, "keep"), 99, ["keeps more messages than there are"]),
        (("steps", 1, "keep"), -7, ["steps[1].keep"]),
        (("steps", 1, "like"), ours()["steps"][0]["id"], ["steps[1]"]),
        (("steps", 1, "state"), {"decisions": {"c": "yes"}}, ['"decisions"', "cannot bring"]),
        (("steps", 1, "state"), {"allowed": {}}, ['"allowed"']),
        (("steps", 1, "state"), {"unknown": {}}, ['"unknown"']),
        (("steps", 1, "state"), {"branch:to:tools": None}, ['"branch:to:tools"']),
        (("steps", 1, "state"), {"__start__": {}}, ['"__start__"']),
        (("steps", 1, "state"), {"messages": []}, ['"messages"']),
        (("steps", 1, "state"), {"summary": 7}, ["state.summary has another type"]),
        (("steps", 1, "state"), {"facts": [1]}, ["state.facts has another type"]),
        (("steps", 1, "state"), {"facts": {"$bytes": 1}}, ["$bytes"]),
        (("branches",), {}, ["branches must be a list"]),
        (("branches",), [{}], ["branches[0]"]),
        ((*AI, "type"), "remove", ["type is 'remove'"]),
        ((*AI, "id"), None, ["id must be a text"]),
        ((*AI, "id"), "", ["id is no id"]),
        ((*AI, "id"), "a\x00b", ["id is no id"]),
        ((*AI, "id"), "x" * 300, ["id is no id"]),
        ((*AI, "content"), None, ["content must be a text"]),
        ((*AI, "content"), {}, ["content must be a text"]),
        ((*AI, "content"), [7], ["content[0]"]),
        ((*AI, "tool_calls"), [{"name": "a"}], ['tool_calls[0] has no "args"']),
        ((*AI, "tool_calls"), [{"name": "a", "args": []}], ["args must be an object"]),
        ((*AI, "tool_calls"), [{"name": 1, "args": {}}], ["name must be a text"]),
        ((*AI, "tool_calls"), [{"name": "a", "args": {"n": 2**70}}], ["64 bits"]),
        ((*AI, "additional_kwargs"), {"first_call": "x"}, ["first_call has a value"]),
        ((*AI, "additional_kwargs"), {"first_call": 0}, ["first_call has a value"]),
        ((*AI, "additional_kwargs"), {"status": []}, ["status has a value"]),
        ((*AI, "additional_kwargs"), {"tool_calls": []}, ["tool_calls"]),
        ((*AI, "usage_metadata"), {"input_tokens": "x"}, ["usage_metadata"]),
        ((*AI, "lc_kwargs"), {}, ['unknown key "lc_kwargs"']),
        ((*AI, "response_metadata"), {"sent": {"basis": "x"}}, ["response_metadata.sent"]),
        (("bases",), {"x": "{}"}, ["bases.x has another key"]),
        (("bases",), {key_of("{}"): "{}"}, ["nothing that a request is made of"]),
        (("steps", 1, "asks"), 1, ["asks must be a truth"]),
        ((*TOOL, "tool_call_id"), None, ['no "tool_call_id"']),
        ((*TOOL, "status"), "fine", ["status must be"]),
        ((*TOOL, "additional_kwargs"), {"handle": "r1; rm"}, ["handle has a value"]),
    ],
)
def test_a_file_of_ours_that_was_changed(path: tuple[Any, ...], value: Any, words: Any) -> None:
    """Each part is checked, with its place; approvals and steps to run cannot be brought in."""
    refused(changed(*path, value=value), *words)


def test_the_sound_file_is_taken() -> None:
    """What the changes above are made to is itself accepted."""
    (found,) = read(ours())
    assert [type(m) for m in found.document.messages][1:3] == [HumanMessage, AIMessage]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.just(2**80) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


def places_of(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values in a JSON value but the whole."""
    items: Any = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    return [p for key, item in items for p in ((*at, key), *places_of(item, (*at, key)))]


PLACES = places_of(ours())


@settings(max_examples=60, deadline=None)
@given(where=st.sampled_from(PLACES), value=JSON)
def test_any_change_is_refused_or_harmless(where: tuple[Any, ...], value: Any) -> None:
    """One value of the file is another: a line that says so, or a thread that works."""

    async def check(folder: Path) -> None:
        table = ours()
        at: Any = table
        for key in where[:-1]:
            at = at[key]
        at[where[-1]] = value
        try:
            found = read(table)
        except TransferError as exc:
            one_line(exc)
            return
        await bring_in(folder / "m.db", found, "t")
        async with open_line(folder / "m.db", [say("on")]) as (session, timeline, _):
            assert await session.pending() is None
            assert (await send(session, "go on")).status == "ok"
            handles_of(await session.messages())
            await timeline.rewind(len(await timeline.turns()))
        assert read_thread(folder / "m.db", "t").turns == found[0].document.turns

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check(Path(folder)))
