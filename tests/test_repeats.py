"""Calls that a turn makes again: what is run, what is asked about, and what the next prompt has."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

from agent_core.view import LAST_CALL, SAID
from context import text_of
from local_agent.events import ApprovalRequested, Decision, ToolFinished
from tests.graph_kit import ScriptedModel, ScriptedTool, call, collect, open_session, say

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


async def test_a_third_time_ends_the_turn(tmp_path: Path) -> None:
    """L13: not run, and the last request has the result once, without the calls behind it."""
    look = ScriptedTool("look")
    model = ScriptedModel([call(READ), call(READ), call(READ), say("Blue, then.")])
    async with open_session(tmp_path / "m.db", model, [look]) as session:
        last = (await collect(session.send("the sky?")))[-1]

    assert (last.status, last.answer, len(look.ran)) == ("step_limit", "Blue, then.", 2)
    assert model.asked[3]["tool_choice"] == "none"
    kinds = [kind for kind, _ in shown(model.asked[3])]
    assert kinds == ["human", "ai", "tool"]
    assert shown(model.asked[3])[-1] == ("tool", f"look done\n\n{SAID}\n\n{LAST_CALL}")


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
