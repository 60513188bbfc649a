"""What the graph makes of repaired, doubtful and twice broken replies."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from local_agent.events import ApprovalRequested, Decision, TextDelta, pending_calls
from tests.graph_kit import ScriptedModel, ScriptedTool, call, collect, open_session, say

SCHEMA = {
    "type": "object",
    "properties": {"q": {"type": "string"}, "n": {"type": "integer"}},
    "required": ["q"],
}


def tool(name: str = "look", **options: Any) -> ScriptedTool:
    return ScriptedTool(name, schema=SCHEMA, **options)


def text_call(name: str = "look", args: str = '{"q": "x"}', before: str = "") -> AIMessage:
    """A reply with a call in its text, of which `before` was streamed."""
    text = f'<tool_call>{{"name": "{name}", "arguments": {args}}}</tool_call>'
    return AIMessage(before + text, id=uuid4().hex, additional_kwargs={"unshown": text})


def results(messages: list[Any]) -> list[str]:
    return [str(m.text) for m in messages if isinstance(m, ToolMessage)]


async def test_a_doubtful_reply_is_asked_back_about_once(tmp_path: Path) -> None:
    """The same text a second time is the answer that it is, whole, and shown."""
    read = tool()
    text = '<tool_call>{"name": "look", "arguments": {"q": "x"}}</tool_call>\nThat is how.'
    model = ScriptedModel([_doubtful(text), _doubtful(text)])
    async with open_session(tmp_path / "m.db", model, [read]) as session:
        events = await collect(session.send("how?"))

    assert read.ran == []
    assert (events[-1].status, events[-1].answer) == ("ok", text)
    assert "more text behind it" in results(model.asked[1]["messages"])[0]
    assert events[-2] == TextDelta(text)


def _doubtful(text: str) -> AIMessage:
    call = text[text.index("<tool_call>") :]
    return AIMessage(text, id=uuid4().hex, additional_kwargs={"unshown": call})


@pytest.mark.parametrize(
    "text",
    [
        '<tools>\n{"name": "look", "description": "d", "parameters": {}}\n</tools>',
        '{"name": "look", "score": 3}',
    ],
)
async def test_what_cannot_be_read_may_not_be_a_call(tmp_path: Path, text: str) -> None:
    """Its arguments are not asked for: the second time it is text."""
    read = tool()
    model = ScriptedModel([say(text), say(text)])
    async with open_session(tmp_path / "m.db", model, [read]) as session:
        events = await collect(session.send("go"))

    assert read.ran == []
    assert (events[-1].status, events[-1].answer) == ("ok", text)
    assert not any(asked.get("response_format") for asked in model.asked)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<tool_call>look for it</tool_call>", ""),
        ('look(q="x" + y)', ""),
        ('<tool_call>{"name": "look", "arguments": {"q": "<q>"}}</tool_call>', ""),
        (
            'See.\n<tool_call>{"name": "look", "arguments": {"q": "x"}}</tool_call>\nTwo.',
            "See.\n\nTwo.",
        ),
        ('Writing <tool_call>{"name": "look", "arguments": {"q": "x"}}</tool_call>', "Writing"),
        ('look: {"q": "x"}', ""),
    ],
)
async def test_markup_is_not_left_as_the_answer(tmp_path: Path, text: str, answer: str) -> None:
    """L08: asked back in vain, the turn ends with a line that says so, and without the markup."""
    read = tool()
    model = ScriptedModel([_held(text), _held(text), say("hello")])
    async with open_session(tmp_path / "m.db", model, [read]) as session:
        events = await collect(session.send("go"))
        after = await collect(session.send("hello"))

    assert read.ran == []
    assert len(model.asked) == 3
    assert (events[-1].status, events[-1].answer) == ("error", answer)
    assert "tool call into its text" in events[-1].error
    assert not any(isinstance(e, TextDelta) and "q" in e.text for e in events)
    assert after[-1].answer == "hello"


def _held(text: str) -> AIMessage:
    """A reply of which all from its first sign of markup on was held back."""
    start = min(at for sign in ("<", "look") if (at := text.find(sign)) >= 0)
    return AIMessage(text, id=uuid4().hex, additional_kwargs={"unshown": text[start:]})


async def test_a_doubtful_reply_may_become_a_call(tmp_path: Path) -> None:
    """Asked back, the model calls as it should; the first text is not shown again."""
    read = tool()
    text = 'Writing <tool_call>{"name": "look", "arguments": {"q": "x"}}</tool_call>'
    model = ScriptedModel([_doubtful(text), call(("look", {"q": "x"})), say("done")])
    async with open_session(tmp_path / "m.db", model, [read]) as session:
        events = await collect(session.send("go"))

    assert read.ran == [{"q": "x"}]
    assert events[-1].answer == "done"
    assert not any(isinstance(e, TextDelta) and "tool_call" in e.text for e in events)


async def test_held_text_that_is_no_call_is_shown(tmp_path: Path) -> None:
    """What was held back and is text after all comes before the end of the turn."""
    reply = AIMessage("a\n```", id="m", additional_kwargs={"unshown": "```"})
    model = ScriptedModel([reply])
    async with open_session(tmp_path / "m.db", model, [tool()]) as session:
        events = await collect(session.send("go"))
        messages = await session.messages()

    assert [e.text for e in events if isinstance(e, TextDelta)][-1] == "```"
    assert "unshown" not in messages[-1].additional_kwargs


async def test_arguments_are_asked_for_again_held_to_the_schema(tmp_path: Path) -> None:
    """Wrong twice: one request for the arguments alone, on the same prompt; then it runs."""
    read = tool()
    bad = [call(("look", {"q": "x", "n": "many"})) for _ in range(2)]
    given = AIMessage('{"q": "x", "n": 3}', id="g")
    model = ScriptedModel([*bad, given, say("done")])
    async with open_session(tmp_path / "m.db", model, [read]) as session:
        events = await collect(session.send("go"))
        messages = await session.messages()

    assert read.ran == [{"q": "x", "n": 3}]
    assert (events[-1].status, events[-1].answer) == ("ok", "done")
    constrained = model.asked[2]
    assert constrained["response_format"]["json_schema"]["schema"] == SCHEMA
    assert constrained["tools"] == model.asked[1]["tools"]
    assert constrained["tool_choice"] == "none"
    assert constrained["messages"][:-1] == model.asked[1]["messages"][:-1]
    assert "arguments of look" in str(constrained["messages"][-1].content)
    assert "asked for again" in str(messages[3].additional_kwargs["repaired"])
    assert not any("response_format" in asked for asked in [*model.asked[:2], model.asked[3]])


async def test_arguments_are_not_asked_for_where_that_is_switched_off(tmp_path: Path) -> None:
    """The model reads what is wrong once more, and no request is held to a schema."""
    read = tool()
    bad = [call(("look", {"q": "x", "n": "many"})) for _ in range(2)]
    model = ScriptedModel([*bad, say("I cannot.")])
    async with open_session(tmp_path / "m.db", model, [read], asks_again=False) as session:
        events = await collect(session.send("go"))

    assert (read.ran, events[-1].answer) == ([], "I cannot.")
    assert not any(asked.get("response_format") for asked in model.asked)


async def test_a_write_with_arguments_asked_for_again_is_asked_about(tmp_path: Path) -> None:
    """The question says so, and no rule allows it: not even what was allowed for the thread."""
    write = tool("put", read_only=False)
    good = call(("put", {"q": "a"}))
    bad = [call(("put", {"q": 1.5})) for _ in range(2)]
    model = ScriptedModel([good, say("ok"), *bad, AIMessage('{"q": "b"}', id="g"), say("done")])
    async with open_session(tmp_path / "m.db", model, [write]) as session:
        asked = (await collect(session.send("go")))[-1]
        await collect(session.resume(asked.id, {"c1": Decision(True, scope="thread")}))
        asked = (await collect(session.send("again")))[-1]
        assert isinstance(asked, ApprovalRequested)
        assert "asked for again" in asked.calls[0].repaired
        ended = await collect(session.resume(asked.id, {"c1": Decision(True)}))

    assert write.ran == [{"q": "a"}, {"q": "b"}]
    assert ended[-1].answer == "done"


@pytest.mark.parametrize("given", ["", "{", '{"n": 1}', RuntimeError("no grammars here")])
async def test_arguments_that_are_no_use_either(tmp_path: Path, given: Any) -> None:
    """It is asked once; then the call is refused again, and the third time ends the turn."""
    read = tool()
    bad = [call(("look", {"n": "many"})) for _ in range(3)]
    reply = given if isinstance(given, Exception) else AIMessage(given, id="g")
    model = ScriptedModel([*bad[:2], reply, bad[2]])
    async with open_session(tmp_path / "m.db", model, [read]) as session:
        events = await collect(session.send("go"))

    assert read.ran == []
    assert events[-1].status == "error"
    assert "no usable tool call" in events[-1].error
    assert len(model.asked) == 4


async def test_a_cut_call_is_not_asked_for_again(tmp_path: Path) -> None:
    """L02: at most four requests, nothing runs, and the message names the output limit."""
    write = tool("put", read_only=False)

    def cut() -> AIMessage:
        reply = call(("put", '{"q": "# Title'))
        reply.response_metadata["finish_reason"] = "length"
        return reply

    model = ScriptedModel([cut(), cut(), cut()])
    async with open_session(tmp_path / "m.db", model, [write]) as session:
        events = await collect(session.send("go"))

    assert write.ran == []
    assert "output limit" in events[-1].error
    assert len(model.asked) <= 4


async def test_an_unknown_tool_is_not_asked_for_again(tmp_path: Path) -> None:
    """There is no schema to hold it to."""
    model = ScriptedModel([call(("nope", {})), call(("nope", {})), say("well")])
    async with open_session(tmp_path / "m.db", model, [tool()]) as session:
        events = await collect(session.send("go"))

    assert events[-1].answer == "well"
    assert not any(asked.get("response_format") for asked in model.asked)


async def test_a_repaired_write_is_asked_about_whatever_was_allowed(tmp_path: Path) -> None:
    """A tool that is allowed for the thread: its call as text is asked about all the same."""
    write = tool("put", read_only=False)
    model = ScriptedModel([call(("put", {"q": "a"})), say("ok"), text_call("put"), say("done")])
    async with open_session(tmp_path / "m.db", model, [write]) as session:
        asked = (await collect(session.send("go")))[-1]
        assert asked.calls[0].repaired == ""
        await collect(session.resume(asked.id, {"c1": Decision(True, scope="thread")}))
        asked = (await collect(session.send("again")))[-1]
        assert isinstance(asked, ApprovalRequested)
        assert asked.calls[0].repaired == "it was written as text"
        call_id = asked.calls[0].call_id
        await collect(session.resume(asked.id, {call_id: Decision(True, scope="thread")}))

    assert write.ran == [{"q": "a"}, {"q": "x"}]


async def test_a_repaired_read_runs_at_once(tmp_path: Path) -> None:
    """L08: a read that was written as text goes the way of any other; one form is stored."""
    read = tool()
    model = ScriptedModel([text_call(before="Let me see.\n"), say("done")])
    async with open_session(tmp_path / "m.db", model, [read]) as session:
        await collect(session.send("go"))
        messages = await session.messages()

    assert read.ran == [{"q": "x"}]
    assert messages[1].content == "Let me see."
    assert messages[1].tool_calls[0]["args"] == {"q": "x"}
    assert messages[2].tool_call_id == messages[1].tool_calls[0]["id"]


async def test_after_an_invalid_call_the_next_turn_works(tmp_path: Path) -> None:
    """L04: each call in the history has its result at once behind it, broken ones too."""
    write = tool("put", read_only=False)
    model = ScriptedModel([call(("put", '{"q":"buy mi')), say("sorry"), say("hello")])
    async with open_session(tmp_path / "m.db", model, [write]) as session:
        await collect(session.send("save"))
        after = await collect(session.send("never mind, hello"))

    assert after[-1].answer == "hello"
    shown = model.asked[2]["messages"]
    at = next(n for n, m in enumerate(shown) if isinstance(m, AIMessage) and m.tool_calls)
    assert shown[at + 1].tool_call_id == shown[at].tool_calls[0]["id"] == "c1"
    assert shown[at].tool_calls[0]["args"] == {}


async def test_alternating_calls_stop_at_the_third(tmp_path: Path) -> None:
    """L13: A, B, A, B, A: the third A is not run; one last call gives what there is."""
    read = tool()
    a, b = {"q": "a"}, {"q": "b"}
    replies = [call(("look", args)) for args in (a, b, a, b, a)]
    model = ScriptedModel([*replies, say("what I have"), say("hello")])
    async with open_session(tmp_path / "m.db", model, [read]) as session:
        events = await collect(session.send("go"))
        after = await collect(session.send("hello"))

    assert read.ran == [a, b, a, b]
    assert (events[-1].status, events[-1].answer) == ("step_limit", "what I have")
    assert "unfinished" in events[-1].error
    assert model.asked[5]["tool_choice"] == "none"
    assert after[-1].status == "ok"


async def test_order_and_white_space_make_no_other_call(tmp_path: Path) -> None:
    """The same call with its arguments in another order, or spread out, is the same call."""
    read = tool()
    replies = [
        call(("look", '{"q": "a b", "n": 1}')),
        call(("look", '{"n":1,"q":"a  b"}')),
        call(("look", '{\n"q": " a b\\n", "n": 1}')),
    ]
    model = ScriptedModel([*replies, say("what I have")])
    path = tmp_path / "m.db"
    async with open_session(path, model, [read], drops_repeats=False) as session:
        events = await collect(session.send("go"))

    assert len(read.ran) == 2
    assert events[-1].status == "step_limit"


async def test_a_doubtful_last_answer_is_kept_without_its_call(tmp_path: Path) -> None:
    """L08: what stands behind a call that is not run is the answer that there is."""
    text = '<tool_call>{"name": "look", "arguments": {"q": "x"}}</tool_call>\nThere are two.'
    model = ScriptedModel([call(("look", {"q": "a"})), _doubtful(text)])
    async with open_session(tmp_path / "m.db", model, [tool()], max_steps=1) as session:
        events = await collect(session.send("go"))

    assert (events[-1].status, events[-1].answer) == ("step_limit", "There are two.")


@pytest.mark.parametrize("last", ["text", "native"])
async def test_a_call_in_the_last_answer_is_left_out(tmp_path: Path, last: str) -> None:
    """At the step limit no call runs, and its markup is not left as the answer."""
    read = tool()
    replies = {
        "text": text_call(args='{"q": "z"}', before="So far: two.\n"),
        "native": call(("look", {"q": "z"}), text="So far: two."),
    }
    model = ScriptedModel([call(("look", {"q": "a"})), replies[last]])
    async with open_session(tmp_path / "m.db", model, [read], max_steps=1) as session:
        events = await collect(session.send("go"))
        messages = await session.messages()

    assert read.ran == [{"q": "a"}]
    assert (events[-1].status, events[-1].answer) == ("step_limit", "So far: two.")
    assert not messages[-1].tool_calls


async def test_a_last_answer_that_is_only_a_call(tmp_path: Path) -> None:
    """A model that says nothing to the end: the last result is the answer, and marked as such."""
    read = tool()
    model = ScriptedModel([call(("look", {"q": "a"})), text_call(), text_call()])
    async with open_session(tmp_path / "m.db", model, [read], max_steps=1) as session:
        events = await collect(session.send("go"))

    assert read.ran == [{"q": "a"}]
    assert events[-1].status == "step_limit"
    assert "gave no answer" in events[-1].answer
    assert events[-1].answer.endswith("look done")


async def test_an_empty_reply_is_asked_for_once_more(tmp_path: Path) -> None:
    """Never silence: a second empty one is said, and the thread goes on."""
    model = ScriptedModel([say(""), say("  "), say(""), say("hello")])
    async with open_session(tmp_path / "m.db", model, []) as session:
        first = await collect(session.send("go"))
        second = await collect(session.send("again"))

    assert first[-1].status == "error"
    assert "empty answer twice" in first[-1].error
    assert second[-1].answer == "hello"


@pytest.mark.parametrize("thought", [True, False])
async def test_the_output_limit_before_an_answer(tmp_path: Path, thought: bool) -> None:
    """It says so and what to change; the same request again would end the same way."""
    metadata = {"finish_reason": "length", **({"only_thinking": True} if thought else {})}
    model = ScriptedModel([AIMessage("", id="m", response_metadata=metadata)])
    async with open_session(tmp_path / "m.db", model, []) as session:
        events = await collect(session.send("go"))

    assert events[-1].status == "error"
    assert ("for its reasoning" in events[-1].error) == thought
    assert "reply_reserve" in events[-1].error
    assert len(model.asked) == 1


def test_an_approval_of_an_older_version_can_still_be_decided() -> None:
    """A parked question without the note about repairs is read as one with none."""
    row = {"call_id": "c", "name": "n", "server": "s", "tool": "t", "args": {}, "why": "write"}
    assert pending_calls({"calls": [row]})[0].repaired == ""
    assert pending_calls({"calls": [{**row, "repaired": "x"}]})[0].repaired == "x"
    for wrong in ({**row, "repaired": 1}, {**row, "more": "x"}):
        with pytest.raises(ValueError, match="not a call"):
            pending_calls({"calls": [wrong]})
