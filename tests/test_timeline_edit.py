"""A correction at one place: what came before is not run again, what follows is asked anew."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage

from agent_core.turn import handles_of
from local_agent.errors import ThreadError, UsageError
from local_agent.events import ApprovalRequested, Decision
from local_agent.memory.heads import config_of
from local_agent.timeline.edits import (
    EDITED,
    edit_call,
    edit_prompt,
    edit_result,
    edit_state,
    result_of,
)
from tests.graph_kit import ScriptedTool, call, cancel_when, collect, say
from tests.program_kit import ROOT
from tests.timeline_kit import answer, open_line, send, texts


def tools() -> tuple[ScriptedTool, ScriptedTool]:
    return ScriptedTool("look"), ScriptedTool("wipe", read_only=False)


async def test_a_read_behind_a_correction_runs_again_while_its_turn_waits(tmp_path: Path) -> None:
    """What it gave before is in the journal until the turn ends, and is not taken for it."""
    path, (look, wipe) = tmp_path / "m.db", tools()
    calls = call(("look", {"n": 1}), ("wipe", {"n": 1}), ("look", {"n": 2}))
    waits = call(("wipe", {"n": 2}))
    async with open_line(path, [calls, waits], [look, wipe]) as (session, timeline, _):
        asked = await send(session, "go")
        assert isinstance(asked, ApprovalRequested)
        yes = {one.call_id: Decision(True) for one in asked.calls}
        assert isinstance((await collect(session.resume(asked.id, yes)))[-1], ApprovalRequested)
        assert look.ran == [{"n": 1}, {"n": 2}]
        await edit_result(timeline, "r1", "it is 42")
    async with open_line(path, [say("right")], [look, wipe]) as (session, _, _):
        last = await answer(session, (await collect(session.proceed()))[-1])
        assert last.answer == "right"
    assert look.ran == [{"n": 1}, {"n": 2}, {"n": 2}]


async def test_a_result_is_corrected(tmp_path: Path) -> None:
    """The same message with the new text; only what follows runs; later turns are a branch."""
    path, (look, wipe) = tmp_path / "m.db", tools()
    replies = [call(("look", {"n": 1})), call(("look", {"n": 2})), say("wrong"), say("later")]
    async with open_line(path, replies, [look, wipe]) as (session, _, _):
        await send(session, "what is it")
        await send(session, "and now")
        old = (await session.messages())[2]
    async with open_line(path, [say("right")], [look, wipe]) as (session, timeline, model):
        moved = await edit_result(timeline, "r1", "it is 42")
        assert moved.is_open
        assert (await collect(session.proceed()))[-1].answer == "right"
        assert texts(model.asked[0]["messages"]) == [
            "human: what is it",
            "ai: ",
            "tool: it is 42",
        ]
        assert texts(await session.messages()) == [*texts(model.asked[0]["messages"]), "ai: right"]
        edited = (await session.messages())[2]
        assert isinstance(edited, ToolMessage)
        assert edited.id == old.id
        assert edited.additional_kwargs[EDITED]
        assert edited.additional_kwargs["handle"] == "r1"
        (branch,) = await timeline.branches()
        assert (branch.first_turn, branch.turns, branch.why) == (1, 2, "edit r1")
        await timeline.go_to(moved.branch)
        assert texts(await session.messages())[-1] == "ai: later"
        assert texts(await session.messages())[2] == "tool: look done"
    assert look.ran == [{"n": 1}, {"n": 2}]


EDITS = {
    "result": """await edit_result(timeline, "r1", "it is 42")""",
    "prompt": """await edit_prompt(timeline, 2, "something else")""",
    "rewind": "await timeline.rewind(2)",
}
DYING = """
import asyncio, os, pathlib, shutil, sys
from local_agent.timeline.edits import edit_prompt, edit_result
from tests.timeline_kit import open_line
async def main(path, left):
    async with open_line(path) as (session, timeline, _):
        def trace(statement):
            nonlocal left
            if statement.startswith(("INSERT", "UPDATE", "DELETE", "BEGIN", "COMMIT")):
                left -= 1
            if left == 0:
                os._exit(9)
        await session.messages()
        timeline.memory.statements.conn.opened.set_trace_callback(trace)
        {edit}
left, status = 0, 9
while status == 9:
    left += 1
    copy = pathlib.Path(shutil.copy(sys.argv[1], f"{sys.argv[1]}.{left}.db"))
    child = os.fork()
    if not child:
        asyncio.run(main(copy, left))
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
sys.exit(status)
"""


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot fork")
@pytest.mark.parametrize("edit", sorted(EDITS))
async def test_a_kill_in_an_edit_leaves_the_thread_or_the_edit(tmp_path: Path, edit: str) -> None:
    """At whatever statement: as it was, without a branch, or corrected, with what was cut off."""
    path = tmp_path / "m.db"
    replies = [call(("look", {"n": 1})), say("one"), say("two")]
    async with open_line(path, replies, tools()) as (session, _, _):
        await send(session, "what is it")
        await send(session, "and now")
        old = texts(await session.messages())
    code = DYING.replace("{edit}", EDITS[edit])
    run = [sys.executable, "-c", code, str(path)]
    subprocess.run(run, cwd=ROOT, timeout=300, check=True)
    found = list[tuple[tuple[str, ...], int]]()
    for copy in tmp_path.glob("m.db.*.db"):
        async with open_line(copy) as (session, timeline, _):
            now = tuple(texts(await session.messages()))
            found.append((now, len(await timeline.branches())))
    assert len(found) > 4
    (corrected,) = set(found) - {(tuple(old), 0)}
    assert corrected[1] == 1
    assert found.count((tuple(old), 0)) > 2


async def test_writes_behind_it_are_asked_again(tmp_path: Path) -> None:
    """D10: calls of the same message that ran are told as such, and run only with a new yes."""
    path, (look, wipe) = tmp_path / "m.db", tools()
    four = call(("look", {}), ("wipe", {"a": 1}), ("look", {"n": 3}), ("wipe", {"b": 2}))
    async with open_line(path, [four, say("one"), say("two")], [look, wipe]) as opened:
        session, timeline, _ = opened
        await send(session, "go", True)
        assert wipe.ran == [{"a": 1}, {"b": 2}]
        await edit_result(timeline, "r1", "the truth")
        (asked,) = await collect(session.proceed())
        assert isinstance(asked, ApprovalRequested)
        assert [(one.args, one.why) for one in asked.calls] == [
            ({"a": 1}, "ran"),
            ({"b": 2}, "ran"),
        ]
        assert len(wipe.ran) == 2
        decisions = {"c2": Decision(True), "c4": Decision(False, "once is enough")}
        await collect(session.resume(asked.id, decisions))
        assert wipe.ran == [{"a": 1}, {"b": 2}, {"a": 1}]
        results = handles_of(await session.messages())
        shown = [str(results[f"r{n}"].content) for n in (1, 2, 3, 4)]
        assert shown[:3] == ["the truth", "wipe done", "look done"]
        assert "once is enough" in shown[3]
    assert look.ran == [{}, {"n": 3}, {"n": 3}]


async def test_a_crash_behind_an_edit_repeats_nothing(tmp_path: Path) -> None:
    """Killed in a write that is run a second time, the other one is still run as it was allowed."""
    path, (_, wipe) = tmp_path / "m.db", tools()
    look, started = ScriptedTool("look"), asyncio.Event()
    three = call(("look", {}), ("wipe", {"a": 1}), ("wipe", {"b": 2}))

    async def hang(args: Any) -> None:
        started.set()
        await asyncio.sleep(60)

    async with open_line(path, [three, say("one")], [look, wipe]) as (session, timeline, _):
        await send(session, "go", True)
        await edit_result(timeline, "r1", "the truth")
        (asked,) = await collect(session.proceed())
        wipe.run = hang
        both = {"c2": Decision(True), "c3": Decision(True)}
        await cancel_when(session.resume(asked.id, both), started)
    wipe.run = None
    async with open_line(path, [say("end")], [look, wipe]) as (session, _, _):
        asked = (await collect(session.proceed()))[-1]
        assert [(one.args, one.why) for one in asked.calls] == [({"a": 1}, "unknown_outcome")]
        await answer(session, asked)
        assert wipe.ran == [{"a": 1}, {"b": 2}, {"a": 1}, {"a": 1}, {"b": 2}]


async def test_a_lasting_yes_does_not_run_it_twice(tmp_path: Path) -> None:
    """Allowed for the thread before the place: what ran already is asked about all the same."""
    path, (look, wipe) = tmp_path / "m.db", tools()
    replies = [call(("wipe", {"a": 0})), say("0"), call(("look", {}), ("wipe", {"a": 1})), say("1")]
    async with open_line(path, replies, [look, wipe]) as (session, timeline, _):
        asked = await send(session, "zero")
        await collect(session.resume(asked.id, {"c1": Decision(True, scope="thread")}))
        await send(session, "one")
        assert len(wipe.ran) == 2
        await edit_result(timeline, "r2", "else")
        (asked,) = await collect(session.proceed())
        assert [one.why for one in asked.calls] == ["ran"]
    assert len(wipe.ran) == 2


async def test_one_of_parallel_results(tmp_path: Path) -> None:
    """The others of the same step keep what they had."""
    path, (look, wipe) = tmp_path / "m.db", tools()
    calls = call(("look", {"n": 1}), ("look", {"n": 2}), ("look", {"n": 3}))
    async with open_line(path, [calls, say("a"), say("b")], [look, wipe]) as opened:
        session, timeline, model = opened
        await send(session, "go")
        await edit_result(timeline, "r2", "second")
        await collect(session.proceed())
        assert texts(model.asked[-1]["messages"])[2:] == [
            "tool: look done",
            "tool: second",
            "tool: look done",
        ]
    assert len(look.ran) == 3


async def test_a_result_is_corrected_twice(tmp_path: Path) -> None:
    """The second correction starts from the first."""
    path, (look, _) = tmp_path / "m.db", tools()
    async with open_line(
        path, [call(("look", {})), say("a"), say("b"), say("c")], [look]
    ) as opened:
        session, timeline, model = opened
        await send(session, "go")
        for text in ("first", "second"):
            await edit_result(timeline, "r1", text)
            await collect(session.proceed())
        assert texts(model.asked[-1]["messages"])[-1] == "tool: second"
        assert len(await timeline.branches()) == 2
    assert len(look.ran) == 1


async def test_a_stopped_turn_goes_on_from_a_corrected_result(tmp_path: Path) -> None:
    """What a stop put behind the result is taken away: the model is asked for the answer."""
    path, (look, _) = tmp_path / "m.db", tools()
    started = asyncio.Event()

    async def hang(args: Any) -> None:
        started.set()
        await asyncio.sleep(60)

    look.run = hang
    async with open_line(path, [call(("look", {})), say("so")], [look]) as opened:
        session, timeline, model = opened
        await cancel_when(session.send("go"), started)
        await session.abandon("cancelled")
        await edit_result(timeline, "r1", "seen")
        assert (await collect(session.proceed()))[-1].answer == "so"
        assert texts(model.asked[1]["messages"]) == ["human: go", "ai: ", "tool: seen"]
        result = await result_of(timeline, "r1")
        assert (result.status, result.additional_kwargs["outcome"]) == ("success", "success")


async def test_a_refused_call_gets_a_result(tmp_path: Path) -> None:
    """A result that came with its call, because it was refused unasked, can be corrected too."""
    path, (look, _) = tmp_path / "m.db", tools()
    bad = call(("look", "{broken"), ("look", {"n": 1}))
    async with open_line(path, [bad, say("a"), say("b")], [look]) as (session, timeline, model):
        await send(session, "go")
        await edit_result(timeline, "r2", "what it would have said")
        await collect(session.proceed())
        shown = texts(model.asked[-1]["messages"])
        assert sorted(shown[2:]) == ["tool: look done", "tool: what it would have said"]
    assert len(look.ran) == 2, "the other call of the message comes after it"


async def test_a_prompt_is_corrected(tmp_path: Path) -> None:
    """It takes the place of the old one and is run; marked, and the rest is a branch."""
    path = tmp_path / "m.db"
    async with open_line(path, [say("a"), say("b"), say("c"), say("d")]) as opened:
        session, timeline, model = opened
        for text in ("one", "two", "three"):
            await send(session, text)
        moved = await edit_prompt(timeline, 2, "zwei")
        assert (moved.turns, moved.is_open) == (2, True)
        assert (await collect(session.proceed()))[-1].answer == "d"
        assert texts(model.asked[-1]["messages"]) == ["human: one", "ai: a", "human: zwei"]
        prompt = (await session.messages())[2]
        assert isinstance(prompt, HumanMessage)
        assert prompt.additional_kwargs[EDITED]
        assert [turn.prompt for turn in await timeline.turns()] == ["one", "zwei"]
        (branch,) = await timeline.branches()
        assert (branch.first_turn, branch.turns, branch.prompt) == (2, 2, "two")
        with pytest.raises(UsageError, match="empty"):
            await edit_prompt(timeline, 1, "  ")


async def test_left_for_the_next_start(tmp_path: Path) -> None:
    """Put in and not run: the next process finds the turn unfinished and goes on from there."""
    path, (look, wipe) = tmp_path / "m.db", tools()
    async with open_line(path, [call(("look", {})), say("a")], [look, wipe]) as (session, line, _):
        await send(session, "go")
        await edit_result(line, "r1", "corrected")
    async with open_line(path, [say("b")], [look, wipe]) as (session, line, model):
        assert await session.is_unfinished()
        await collect(session.proceed())
        assert texts(model.asked[0]["messages"])[-1] == "tool: corrected"
        await edit_prompt(line, 1, "go on")
    async with open_line(path, [say("c")], [look, wipe]) as (session, line, model):
        assert [turn.prompt for turn in await line.turns()] == ["go on"]
        assert await session.is_unfinished()
        await collect(session.proceed())
        assert texts(await session.messages()) == ["human: go on", "ai: c"]


async def test_the_arguments_of_a_waiting_call(tmp_path: Path) -> None:
    """Asked again with the new ones, by handle or id; a yes to the old question counts nothing."""
    path, (_, wipe) = tmp_path / "m.db", tools()
    replies = [call(("wipe", {"a": 1}), ("wipe", {"b": 2})), say("end")]
    async with open_line(path, replies, [wipe]) as (session, timeline, _):
        old = await send(session, "go")
        await edit_call(timeline, "r1", {"a": 100})
        stale = await collect(session.resume(old.id, {"c1": Decision(True)}))
        assert stale[-1].status == "error"
        (asked,) = await collect(session.proceed())
        assert [one.args for one in asked.calls] == [{"a": 100}, {"b": 2}]
        await edit_call(timeline, "c2", {"b": 200})
        (asked,) = await collect(session.proceed())
        await answer(session, asked)
        messages = await session.messages()
        assert list(messages[1].additional_kwargs[EDITED]) == ["c1", "c2"]  # type: ignore[union-attr]
        with pytest.raises(ThreadError, match="No call 'r1' waits"):
            await edit_call(timeline, "r1", {})
    assert wipe.ran == [{"a": 100}, {"b": 200}]


async def test_the_state_at_a_question(tmp_path: Path) -> None:
    """Set while an approval waits: it is put again, and the turn goes on with the new state."""
    path, (_, wipe) = tmp_path / "m.db", tools()
    async with open_line(path, [call(("wipe", {})), say("end")], [wipe]) as (session, timeline, _):
        old = await send(session, "go")
        moved = await edit_state(timeline, {"route": "other", "pinned": ["r1"]})
        assert moved.is_open
        asked = await session.pending()
        assert asked is not None
        assert (asked.id != old.id, asked.calls) == (True, old.calls)
        await answer(session, asked)
        values = (await timeline.graph.aget_state(config_of("t"))).values
        assert (values["route"], values["pinned"]) == ("other", ["r1"])
    assert len(wipe.ran) == 1


async def test_the_state_at_the_end_of_a_turn(tmp_path: Path) -> None:
    """Nothing runs; the thread stands where it stood, with the new values."""
    path = tmp_path / "m.db"
    async with open_line(path, [say("a"), say("b")]) as (session, timeline, _):
        await send(session, "one")
        message = (await session.messages())[-1].id
        await timeline.graph.aupdate_state(
            config_of("t"), {"summary": "old", "summary_upto": message}, as_node="agent"
        )
        moved = await edit_state(timeline, {"summary": "new", "facts": ["f"]})
        assert not moved.is_open
        values = (await timeline.graph.aget_state(config_of("t"))).values
        assert (values["summary"], values["facts"]) == ("new", ["f"])
        assert values["summary_upto"] == message
        await edit_state(timeline, {"summary": ""})
        values = (await timeline.graph.aget_state(config_of("t"))).values
        assert (values["summary"], values["summary_upto"]) == ("", "")
        assert not await session.is_unfinished()
        await send(session, "two")
        assert len(await timeline.turns()) == 2


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"messages": []}, "'messages' of the state cannot be set"),
        ({"decisions": {}}, "'decisions' of the state cannot be set"),
        ({"allowed": {}}, "These can: summary, route, facts, pinned"),
        ({}, "No field of the state is named"),
        ({"summary": 3}, "'summary' must be a text"),
        ({"facts": "one"}, "'facts' must be a list of texts"),
        ({"pinned": [1]}, "'pinned' must be a list of texts"),
    ],
)
async def test_fields_that_cannot_be_set(tmp_path: Path, values: Any, words: str) -> None:
    """What a person allowed, and what is no state of theirs, cannot be written so."""
    async with open_line(tmp_path / "m.db", [say("a")]) as (session, timeline, _):
        await send(session, "one")
        with pytest.raises(UsageError, match=words):
            await edit_state(timeline, values)


async def test_state_that_cannot_be_edited_now(tmp_path: Path) -> None:
    """No summary to edit; an unfinished turn; no thread."""
    path, look, started = tmp_path / "m.db", ScriptedTool("look"), asyncio.Event()

    async def hang(args: Any) -> None:
        started.set()
        await asyncio.sleep(60)

    look.run = hang
    async with open_line(path, [say("a"), call(("look", {}))], [look]) as (session, timeline, _):
        with pytest.raises(ThreadError, match="no thread"):
            await edit_state(timeline, {"route": "x"})
        await send(session, "one")
        with pytest.raises(ThreadError, match="no summary"):
            await edit_state(timeline, {"summary": "x"})
        await cancel_when(session.send("two"), started)
        with pytest.raises(ThreadError, match="not finished"):
            await edit_state(timeline, {"route": "x"})


async def test_results_that_are_not_there(tmp_path: Path) -> None:
    """No such handle, none at all, none yet: one line each."""
    path, (look, wipe) = tmp_path / "m.db", tools()
    replies = [say("a"), call(("look", {}), ("wipe", {}))]
    async with open_line(path, replies, [look, wipe]) as (session, timeline, _):
        await send(session, "one")
        with pytest.raises(ThreadError, match="has no result 'r1'"):
            await edit_result(timeline, "r1", "x")
        await send(session, "two")
        with pytest.raises(ThreadError, match="r2 has no result yet"):
            await edit_result(timeline, "r2", "x")
        with pytest.raises(ThreadError, match="no result 'r9'"):
            await edit_result(timeline, "r9", "x")
        await edit_result(timeline, "r1", "x")
        (asked,) = await collect(session.proceed())
        assert [one.why for one in asked.calls] == ["write"]
    assert (len(look.ran), len(wipe.ran)) == (1, 0)
