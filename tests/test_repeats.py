"""Calls that a turn makes again: what is run, what is asked about, and what the next prompt has."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from agent_core.calls import NOT_ALLOWED
from agent_core.says import goes_on
from agent_core.view import LAST_CALL, SAID, Limits
from context import Window, text_of
from local_agent.errors import ModelError
from local_agent.events import ApprovalRequested, Decision, TextDelta, ToolFinished
from local_agent.timeline.looking import moment, places
from tests.graph_kit import ScriptedModel, ScriptedTool, call, collect, open_session, say
from tests.timeline_kit import open_line

READ = ("look", {"n": 1})
WRITE = ("note", {"text": "milk"})


def write_tool() -> ScriptedTool:
    return ScriptedTool("note", read_only=False)


def shown(asked: dict[str, Any]) -> list[tuple[str, str]]:
    """Kind and text of the messages of a request behind the system prompt."""
    return [(m.type, text_of(m.content)) for m in asked["messages"][1:]]


async def answered(session: Any, approval: Any, yes: bool = True, reason: str = "") -> list[Any]:
    decisions = {c.call_id: Decision(yes, reason) for c in approval.calls}
    return await collect(session.resume(approval.id, decisions))


async def test_a_read_that_says_the_same_again_is_left_out(tmp_path: Path) -> None:
    """The prompt is the one before with a line at its end, so that nothing leads to a third."""
    look = ScriptedTool("look")
    model = ScriptedModel([call(READ), call(READ), say("It is blue."), say("Bye.")])
    async with open_session(tmp_path / "m.db", model, [look]) as session:
        last = (await collect(session.send("the sky?")))[-1]
        await collect(session.send("thanks"))
        stored = await session.messages()

    assert (last.status, last.answer, len(look.ran)) == ("ok", "It is blue.", 2)
    first, second, third, later = map(shown, model.asked)
    assert second[:-1] == [*first, ("ai", "")]
    assert third == [*second[:-1], ("tool", f"look done\n\n{SAID}")]
    assert model.asked[2]["tools"] == model.asked[1]["tools"]  # it may call something else
    assert later[: len(third)] == third
    assert [m.type for m in stored][:6] == ["human", "ai", "tool", "ai", "tool", "ai"]


async def test_a_read_that_says_something_else_stays(tmp_path: Path) -> None:
    """A build that goes on: what is new is shown."""
    progress = count(40, 20)

    async def run(args: Any) -> str:
        return f"{next(progress)} %"

    look = ScriptedTool("look", run=run)
    model = ScriptedModel([call(READ), call(READ), say("60 %.")])
    async with open_session(tmp_path / "m.db", model, [look]) as session:
        await collect(session.send("how far?"))

    texts = [text for kind, text in shown(model.asked[2]) if kind == "tool"]
    assert texts == ["40 %", "60 %"]


async def test_a_repeat_is_asked_for_an_answer(tmp_path: Path) -> None:
    """First with the prompt as it is, then without any tool: a call is no answer to either."""
    look = ScriptedTool("look")
    model = ScriptedModel([call(READ), call(READ), call(READ, text="So:"), say("It is blue.")])
    async with open_session(tmp_path / "m.db", model, [look]) as session:
        events = await collect(session.send("the sky?"))
        stored = await session.messages()

    last, shown_text = events[-1], "".join(e.text for e in events if isinstance(e, TextDelta))
    assert shown_text == "It is blue."
    assert (last.status, last.answer, len(look.ran)) == ("ok", "It is blue.", 2)
    assert [asked["tool_choice"] for asked in model.asked] == [None, None, "none", None]
    assert (model.asked[2]["tools"], model.asked[3]["tools"]) == (model.asked[1]["tools"], [])
    assert shown(model.asked[3]) == shown(model.asked[2])
    assert text_of(stored[-1].content) == "It is blue."


async def test_another_call_in_place_of_words_is_made(tmp_path: Path) -> None:
    """A server that does not keep to `tool_choice`: what the model does next is no stutter."""
    look, other = ScriptedTool("look"), ScriptedTool("list")
    new = [call(("list", {})), call(("list", {}))]  # in place of words, and as it is asked for
    model = ScriptedModel([call(READ), call(READ), *new, say("Two files.")])
    async with open_session(tmp_path / "m.db", model, [look, other]) as session:
        last = (await collect(session.send("what is there?")))[-1]

    assert (last.status, last.answer, len(other.ran)) == ("ok", "Two files.", 1)
    assert [asked["tool_choice"] for asked in model.asked] == [None, None, "none", None, None]
    assert all(len(asked["tools"]) == 2 for asked in model.asked)


async def test_a_repeat_before_another_call_goes_on(tmp_path: Path) -> None:
    """What says what comes next is no answer; it was not shown."""
    look, other = ScriptedTool("look"), ScriptedTool("list")
    announced = say("Let me list the files.")
    model = ScriptedModel(
        [call(READ), call(READ), announced, announced, call(("list", {})), say("Two files.")]
    )
    async with open_session(tmp_path / "m.db", model, [look, other]) as session:
        events = await collect(session.send("what is there?"))

    assert (events[-1].status, events[-1].answer) == ("ok", "Two files.")
    assert (len(look.ran), len(other.ran)) == (2, 1)
    assert "Let me" not in "".join(e.text for e in events if isinstance(e, TextDelta))
    assert model.asked[4]["tool_choice"] is None


async def test_what_was_sent_without_tools_can_be_seen(tmp_path: Path) -> None:
    """`threads show --at` makes the request again as it was, where tools left less room for it."""

    async def run(args: Any) -> str:
        return f"{args['n']} " + "word " * 200

    about = "what it is about " * 20
    tools = [
        ScriptedTool("look", run=run),
        *(ScriptedTool(f"t{n}", description=about) for n in "ab"),
    ]
    calls = [call(("look", {"n": n})) for n in range(4)]
    limits = Limits(max_steps=3, summary=False)
    path, window = tmp_path / "m.db", Window(2048)
    async with open_line(path, [*calls, say("Red.")], tools, window=window, limits=limits) as line:
        session, timeline, model = line
        assert (await collect(session.send("go")))[-1].answer == "Red."
        (place,) = [one for one in await places(timeline) if "agent" in one.next][:1]
        found = await moment(timeline, place.id)

    assert model.asked[-1]["tools"] == []
    assert found.sent is not None
    assert (found.sent.is_exact, list(found.sent.tools)) == (True, [])


async def test_an_announcement_before_silence_goes_on(tmp_path: Path) -> None:
    """What the model said that it does next is asked for, though without tools it says nothing."""
    look, other = ScriptedTool("look"), ScriptedTool("list")
    silent = [say("Let me list the files."), say("")]
    model = ScriptedModel([call(READ), call(READ), *silent, call(("list", {})), say("Two files.")])
    async with open_session(tmp_path / "m.db", model, [look, other]) as session:
        last = (await collect(session.send("what is there?")))[-1]

    assert (last.status, last.answer, len(other.ran)) == ("ok", "Two files.", 1)


@pytest.mark.parametrize(
    "text",
    [
        "So:",
        "Let me check the calendar.",
        "Let's check the other file.",
        "I'll try to read the file instead.",
        "Next, I will use list_files.",
        "OK, I'll go ahead and rename it.",
        "I need to find the id first.",
        "I would like to analyze the log.",
        "The file is empty. Let me take a look at the other one.",
        "Checking the calendar now.",
        "Ich werde die Datei lesen.",
        "Je vais lire le fichier.",
        "Voy a leer el archivo.",
        "我来查看一下",
    ],
)
def test_what_says_what_comes_next(text: str) -> None:
    assert goes_on(text)


@pytest.mark.parametrize(
    "text",
    [
        "The file is empty.",
        "I will not create it.",
        "I won't delete it. Let me know if you want anything else.",
        "I'm sorry, I could not create the event.",
        "OK, I left it as it is.",
        "OK. If you change your mind, I'll create the event for you.",
        "Please tell me which title you want and I will update the note.",
        "I need to ask: which calendar?",
        "Let me make sure I understand: both files?",
        "Your note says: 'I need to call the dentist'",
        "Next, I see three commits.",
        "I'll keep that in mind.",
        "Ich werde den Termin nicht erstellen.",
        "",
    ],
)
def test_what_is_an_answer(text: str) -> None:
    assert not goes_on(text)


async def test_words_beside_the_same_call_are_the_answer(tmp_path: Path) -> None:
    """What the call says is above; what is said with it is kept, and shown once."""
    look = ScriptedTool("look")
    model = ScriptedModel([call(READ), call(READ), call(READ, text="It is blue.")])
    async with open_session(tmp_path / "m.db", model, [look]) as session:
        events = await collect(session.send("the sky?"))

    assert (events[-1].status, events[-1].answer) == ("ok", "It is blue.")
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "It is blue."


async def test_a_written_call_is_not_shown(tmp_path: Path) -> None:
    """Neither where tools are in the prompt nor where none are, whatever its length."""
    note = write_tool()
    written = json.dumps({"name": "note", "arguments": {"text": "tea " * 100}})
    model = ScriptedModel([call(WRITE), say(written), say(written), say("Left out.")])
    async with open_session(tmp_path / "m.db", model, [note]) as session:
        asked = await collect(session.send("note milk"))
        events = await answered(session, asked[-1], False)

    assert events[-1].answer == "Left out."
    assert "name" not in "".join(e.text for e in events if isinstance(e, TextDelta))
    assert note.ran == []


async def test_a_no_and_a_stutter_end_in_words(tmp_path: Path) -> None:
    """The hint that the call is not to be repeated comes before the turn is given up."""
    note = write_tool()
    stutter = [call(WRITE), call(WRITE)]  # asked for words, with tools and without
    model = ScriptedModel([call(WRITE), *stutter, call(WRITE), say("Left out.")])
    async with open_session(tmp_path / "m.db", model, [note]) as session:
        asked = await collect(session.send("note milk"))
        events = await answered(session, asked[-1], False)

    assert (events[-1].status, events[-1].answer, note.ran) == ("ok", "Left out.", [])


async def test_a_tool_cannot_say_no_for_the_person(tmp_path: Path) -> None:
    """Its text is data, be it the very one that a refused call has."""

    async def run(args: Any) -> str:
        return NOT_ALLOWED

    model = ScriptedModel([call(READ), say("It says so.")])
    look = ScriptedTool("look", run=run)
    async with open_session(tmp_path / "m.db", model, [look]) as session:
        await collect(session.send("the sky?"))

    assert [asked["tool_choice"] for asked in model.asked] == [None, None]


async def test_an_error_without_tools_does_not_fail_the_turn(tmp_path: Path) -> None:
    """Some servers refuse a history with calls where the request has no tools."""
    look = ScriptedTool("look")
    refused = ModelError("no tools, no calls")
    model = ScriptedModel([call(READ), call(("look", {"n": 2})), refused])
    async with open_session(tmp_path / "m.db", model, [look], max_steps=1) as session:
        last = (await collect(session.send("the sky?")))[-1]

    assert (last.status, model.asked[-1]["tools"]) == ("step_limit", [])
    assert "look done" in last.answer


async def test_silence_is_said_soon(tmp_path: Path) -> None:
    """Nothing, a request that says so, and one without tools: more would give no more."""
    look = ScriptedTool("look")
    model = ScriptedModel([call(READ), call(READ), say(""), say(""), say("")])
    async with open_session(tmp_path / "m.db", model, [look]) as session:
        last = (await collect(session.send("the sky?")))[-1]

    assert (last.status, len(model.asked)) == ("error", 5)
    assert "empty answer" in last.error


async def test_an_announcement_is_no_last_answer(tmp_path: Path) -> None:
    look = ScriptedTool("look")
    second = call(("look", {"n": 2}), text="Let me look at the second one.")
    model = ScriptedModel([call(READ), second, say("The first is red.")])
    async with open_session(tmp_path / "m.db", model, [look], max_steps=1) as session:
        events = await collect(session.send("the sky?"))

    assert (events[-1].status, events[-1].answer) == ("step_limit", "The first is red.")
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "The first is red."


async def test_a_third_time_ends_the_turn(tmp_path: Path) -> None:
    """L13: not run, and the last request has each result once, without the calls behind them."""
    look, other = ScriptedTool("look"), ScriptedTool("list")
    pairs = [call(one) for _ in range(2) for one in (READ, ("list", {}))]
    model = ScriptedModel([*pairs, call(READ), say("Blue, then.")])
    async with open_session(tmp_path / "m.db", model, [look, other]) as session:
        last = (await collect(session.send("the sky?")))[-1]

    assert (last.status, last.answer, len(look.ran)) == ("step_limit", "Blue, then.", 2)
    assert model.asked[5]["tool_choice"] == "none"
    kinds = [kind for kind, _ in shown(model.asked[5])]
    assert kinds == ["human", "ai", "tool", "ai", "tool"]
    assert shown(model.asked[5])[-1] == ("tool", f"list done\n\n{SAID}\n\n{LAST_CALL}")


async def test_the_same_call_for_ever_ends_the_turn(tmp_path: Path) -> None:
    """L13: whatever it is asked for. What is there is shown, and the next turn works."""
    look = ScriptedTool("look")
    model = ScriptedModel([*(call(READ) for _ in range(4)), say("Hello.")])
    async with open_session(tmp_path / "m.db", model, [look]) as session:
        last = (await collect(session.send("the sky?")))[-1]
        after = (await collect(session.send("hello")))[-1]

    assert (last.status, len(look.ran)) == ("step_limit", 2)
    assert "look done" in last.answer
    assert "three times" in last.error
    assert (after.status, after.answer) == ("ok", "Hello.")


async def test_the_last_call_goes_without_tools_where_it_only_calls(tmp_path: Path) -> None:
    """A server that does not keep to `tool_choice`, or a model that writes the call as text."""
    look = ScriptedTool("look")
    model = ScriptedModel([call(READ), call(("look", {"n": 2})), say("Red.")])
    async with open_session(tmp_path / "m.db", model, [look], max_steps=1) as session:
        last = (await collect(session.send("the sky?")))[-1]

    assert (last.status, last.answer, len(look.ran)) == ("step_limit", "Red.", 1)
    assert (model.asked[1]["tool_choice"], model.asked[2]["tools"]) == ("none", [])
    assert shown(model.asked[2])[-1][1].endswith(LAST_CALL)


async def test_a_no_without_a_reason_is_answered_in_words(tmp_path: Path) -> None:
    """The person wants nothing else instead; with a reason the model may call what they want."""
    note = write_tool()
    replies = [call(WRITE), say("Left out."), call(WRITE), call(("note", {"text": "tea"}))]
    model = ScriptedModel([*replies, say("Tea.")])
    async with open_session(tmp_path / "m.db", model, [note]) as session:
        asked = await collect(session.send("note milk"))
        first = await answered(session, asked[-1], False)
        asked = await collect(session.send("note what I need"))
        second = await answered(session, asked[-1], False, "tea, not milk")
        last = await answered(session, second[-1])

    assert (first[-1].status, first[-1].answer) == ("ok", "Left out.")
    assert (last[-1].answer, note.ran) == ("Tea.", [{"text": "tea"}])
    assert [asked["tool_choice"] for asked in model.asked] == [None, "none", None, None, None]


async def test_a_write_that_was_carried_out_is_not_asked_about_again(tmp_path: Path) -> None:
    """One milk is bought, by one yes; the model reads that it was."""
    note = write_tool()
    model = ScriptedModel([call(WRITE), call(WRITE), say("Noted.")])
    async with open_session(tmp_path / "m.db", model, [note]) as session:
        asked = await collect(session.send("note milk"))
        assert isinstance(asked[-1], ApprovalRequested)
        events = await answered(session, asked[-1])

    assert (events[-1].status, events[-1].answer) == ("ok", "Noted.")
    assert (len(note.ran), [e for e in events if isinstance(e, ApprovalRequested)]) == (1, [])
    results = [e for e in events if isinstance(e, ToolFinished)]
    assert [e.status for e in results] == ["success", "error"]
    assert "Not run again" in results[-1].text
    assert shown(model.asked[2])[-1] == ("tool", f"note done\n\n{SAID}")


async def test_a_no_is_a_no(tmp_path: Path) -> None:
    """The very call that a person did not allow is not put to them a second time in its turn."""
    note = write_tool()
    model = ScriptedModel([call(WRITE), call(WRITE), say("Left out."), call(WRITE)])
    async with open_session(tmp_path / "m.db", model, [note]) as session:
        asked = await collect(session.send("note milk"))
        events = await answered(session, asked[-1], False, "I have some")
        again = await collect(session.send("note milk after all"))

    assert (events[-1].status, events[-1].answer, note.ran) == ("ok", "Left out.", [])
    kind, text = shown(model.asked[2])[-1]
    assert (kind, text.endswith(SAID), "I have some" in text) == ("tool", True, True)
    assert isinstance(again[-1], ApprovalRequested)  # a new turn, a new question


async def test_a_write_behind_another_call_is_asked_about(tmp_path: Path) -> None:
    """Tests are run again after an edit: what lies between may have changed what they say."""
    note, other = write_tool(), ScriptedTool("look")
    model = ScriptedModel([call(WRITE), call(READ), call(WRITE), say("Twice.")])
    async with open_session(tmp_path / "m.db", model, [note, other]) as session:
        asked = await collect(session.send("note milk"))
        events = await answered(session, asked[-1])
        assert isinstance(events[-1], ApprovalRequested)
        await answered(session, events[-1])

    assert len(note.ran) == 2


async def test_two_of_the_same_in_one_reply_are_meant(tmp_path: Path) -> None:
    """Both are in the one question."""
    note = write_tool()
    model = ScriptedModel([call(WRITE, WRITE), say("Two.")])
    async with open_session(tmp_path / "m.db", model, [note]) as session:
        asked = await collect(session.send("two notes of milk"))
        assert len(asked[-1].calls) == 2
        await answered(session, asked[-1])

    assert len(note.ran) == 2


async def test_calls_are_taken_to_the_letter(tmp_path: Path) -> None:
    """Without it every call runs or is asked about as it comes, up to the third."""
    look = ScriptedTool("look")
    model = ScriptedModel([call(READ), call(READ), say("Blue.")])
    path = tmp_path / "m.db"
    async with open_session(path, model, [look], drops_repeats=False) as session:
        await collect(session.send("the sky?"))

    assert [kind for kind, _ in shown(model.asked[2])] == ["human", "ai", "tool", "ai", "tool"]
