"""Looking into a thread: its checkpoints, its state at one, and the request that was sent there."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage

from agent_core.limits import Limits
from context import Window
from local_agent.errors import ThreadError
from local_agent.timeline.edits import edit_result
from local_agent.timeline.looking import moment, places
from tests.graph_kit import Overflow, ScriptedTool, call, collect, say
from tests.timeline_kit import open_line, send, texts


def shapes(messages: list[AnyMessage]) -> list[tuple[Any, ...]]:
    """What a provider gets of the messages."""
    return [(m.type, m.content, getattr(m, "tool_calls", None)) for m in messages]


async def test_checkpoints(tmp_path: Path) -> None:
    """Newest first: what made each, what comes next, the turn; as the graph itself says."""
    path, wipe = tmp_path / "m.db", ScriptedTool("wipe", read_only=False)
    async with open_line(path, [say("a"), call(("wipe", {})), say("b")], [wipe]) as opened:
        session, timeline, _ = opened
        await send(session, "one")
        await send(session, "two", True)
        found = await places(timeline)
        history = [state async for state in timeline.graph.aget_state_history(session._config)]

    assert [one.checkpoint_id for one in found] == [
        state.config["configurable"]["checkpoint_id"] for state in history
    ]
    started = {"__start__": "start"}
    for one, state in zip(found, history, strict=True):
        following = [started.get(task.name, task.name) for task in state.tasks]
        assert list(one.next) == list(dict.fromkeys(following))
    assert [one.turn for one in found] == sorted([one.turn for one in found], reverse=True)
    assert found[0].next == ()
    assert [one.node for one in reversed(found)][:4] == ["input", "start", "router", "agent"]
    nodes = [one.node for one in reversed(found)][4:]
    wanted = ["input", "start", "router", "agent", "collect", "approve", "collect", "tools"]
    assert nodes == [*wanted, "collect", "agent"]


async def test_the_request_is_made_again(tmp_path: Path) -> None:
    """At every step that asked the model: just the messages and tools that it got."""
    path, look = tmp_path / "m.db", ScriptedTool("look")
    replies = [say("a"), call(("look", {"n": 1})), call(("look", {"n": 2})), say("b"), say("c")]
    async with open_line(path, replies, [look]) as (session, timeline, model):
        for prompt in ("one", "two", "three"):
            await send(session, prompt)
        found = [one for one in reversed(await places(timeline)) if "agent" in one.next]
        assert len(found) == len(model.asked) == 5
        for place, asked in zip(found, model.asked, strict=True):
            there = await moment(timeline, place.id)
            assert there.sent is not None
            assert there.sent.is_exact, there.sent.why
            assert shapes(list(there.sent.messages)) == shapes(asked["messages"])
            assert list(there.sent.tools) == list(asked["tools"])
            assert there.answer is not None


async def test_a_small_window_is_remembered(tmp_path: Path) -> None:
    """Cut, dropped and shortened as it was then, though the window is another one now."""
    path, look = tmp_path / "m.db", ScriptedTool("look")
    replies = [say("x " * 300) for _ in range(6)]
    options = {"window": Window(1024), "limits": Limits(summary=False)}
    async with open_line(path, replies, [look], **options) as (session, _, model):
        for n in range(6):
            await send(session, f"prompt {n} " + "word " * 40)
        sent = model.asked[-1]["messages"]
        assert len(sent) < 12
    async with open_line(path, [], [look], window=Window(32768)) as (_, timeline, _):
        asking = next(one for one in await places(timeline) if "agent" in one.next)
        there = await moment(timeline, asking.checkpoint_id)
        assert len(there.messages) == 11
        assert there.sent is not None
        assert there.sent.is_exact
        assert there.sent.context_length == 1024
        assert shapes(list(there.sent.messages)) == shapes(sent)


async def test_the_request_that_was_answered(tmp_path: Path) -> None:
    """After a refusal as too long, and at the last call of a turn: the one that got the answer."""
    path, look = tmp_path / "m.db", ScriptedTool("look")
    replies = [Overflow(), call(("look", {"n": 1})), say("a")]
    async with open_line(path, replies, [look], max_steps=1) as (session, timeline, model):
        await send(session, "one " * 400)
        found = [one for one in reversed(await places(timeline)) if "agent" in one.next]
        for place, asked in zip(found, model.asked[1:], strict=True):
            there = await moment(timeline, place.id)
            assert there.sent is not None
            assert there.sent.is_exact, there.sent.why
            assert shapes(list(there.sent.messages)) == shapes(asked["messages"])


async def test_the_request_after_an_empty_reply(tmp_path: Path) -> None:
    """It said so in a line at its end, which is no part of the conversation."""
    path = tmp_path / "m.db"
    async with open_line(path, [say(""), say("a"), say("b")], []) as (session, timeline, model):
        await send(session, "one")
        await send(session, "two")
        first, second, later = (shapes(asked["messages"]) for asked in model.asked)
        assert (first[:-1], second[-1] == first[-1]) == (second[:-1], False)
        assert later[: len(first)] == first
        asking = [one for one in reversed(await places(timeline)) if "agent" in one.next]
        there = await moment(timeline, asking[0].id)
        assert there.sent is not None
        assert there.sent.is_exact, there.sent.why
        assert shapes(list(there.sent.messages)) == second


async def test_from_any_step_of_a_turn(tmp_path: Path) -> None:
    """The answer that came after it in its turn; none at the end of one."""
    path, look = tmp_path / "m.db", ScriptedTool("look")
    async with open_line(path, [call(("look", {})), say("a"), say("b")], [look]) as opened:
        session, timeline, _ = opened
        await send(session, "one")
        await send(session, "two")
        answers = []
        for place in reversed(await places(timeline)):
            there = await moment(timeline, place.id)
            answers.append(there.answer and str(there.answer.content or "call"))
    assert answers == [*["call"] * 3, *["a"] * 4, None, *["b"] * 3, None]


async def test_on_a_branch(tmp_path: Path) -> None:
    """A checkpoint that was left is looked into like any, with the answer of its course."""
    path, look = tmp_path / "m.db", ScriptedTool("look")
    async with open_line(path, [call(("look", {})), say("wrong"), say("right")], [look]) as opened:
        session, timeline, _ = opened
        await send(session, "one")
        left = next(one for one in await places(timeline) if "agent" in one.next)
        await edit_result(timeline, "r1", "corrected")
        await collect(session.proceed())
        there = await moment(timeline, left.id)
        assert there.answer is not None
        assert there.answer.content == "wrong"
        assert texts(list(there.messages))[-1] == "tool: look done"
        now = next(one for one in await places(timeline) if "agent" in one.next)
        there = await moment(timeline, now.id)
        assert there.answer is not None
        assert there.answer.content == "right"
        assert there.sent is not None
        assert there.sent.is_exact


async def test_what_waits_there(tmp_path: Path) -> None:
    """At a question: what is asked."""
    path, wipe = tmp_path / "m.db", ScriptedTool("wipe", read_only=False)
    async with open_line(path, [call(("wipe", {"a": 1}))], [wipe]) as (session, timeline, _):
        await send(session, "one")
        there = await moment(timeline, (await places(timeline))[0].id)
        assert there.next == ("approve",)
        assert [call["args"] for call in there.pending] == [{"a": 1}]
        assert there.sent is None


async def test_what_is_not_known_is_said(tmp_path: Path) -> None:
    """A reply of another program, a lost basis, a changed thread: not certain, and why."""
    path = tmp_path / "m.db"
    async with open_line(path, [say("a"), say("b")]) as (session, timeline, _):
        await send(session, "one")
        asking = next(one for one in await places(timeline) if "agent" in one.next)
    with closing(sqlite3.connect(path)) as conn:
        kept = conn.execute("SELECT key, text FROM agent_bases").fetchall()
        conn.execute("DELETE FROM agent_bases")
        conn.commit()
        async with open_line(path) as (_, timeline, _):
            there = await moment(timeline, asking.id)
            assert there.sent is not None
            assert (there.sent.is_exact, "not in this database" in there.sent.why) == (False, True)
        text = kept[0][1].replace("You are a test.", "You are another.")
        conn.execute("INSERT INTO agent_bases VALUES (?, ?)", (kept[0][0], text))
        conn.commit()
        async with open_line(path) as (session, timeline, _):
            there = await moment(timeline, asking.id)
            assert there.sent is not None
            assert (there.sent.is_exact, "another request" in there.sent.why) == (False, True)
            foreign = AIMessage("theirs", id="x")
            await timeline.graph.aupdate_state(session._config, {"messages": [foreign]}, "agent")


async def test_no_such_checkpoint(tmp_path: Path) -> None:
    """None, or several: one line."""
    path = tmp_path / "m.db"
    async with open_line(path, [say("a")]) as (session, timeline, _):
        with pytest.raises(ThreadError, match="no thread 't'"):
            await moment(timeline, "abc")
        await send(session, "one")
        with pytest.raises(ThreadError, match="no checkpoint 'zzz'"):
            await moment(timeline, "zzz")
        with pytest.raises(ThreadError, match="4 checkpoints begin with"):
            await moment(timeline, "1f")
