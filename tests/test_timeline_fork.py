"""A thread copied under another name: all of it or up to a turn, and on its own from then on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from local_agent.errors import ThreadError
from local_agent.events import ApprovalRequested, Decision
from local_agent.memory import open_memory
from local_agent.timeline import Timeline
from tests.graph_kit import ScriptedModel, ScriptedTool, call, collect, open_session, say
from tests.timeline_kit import open_line, send, texts

REPLIES = [say("one"), call(("look", {"n": 1})), say("two"), say("three")]
WHOLE = [
    "human: p1",
    "ai: one",
    "human: p2",
    "ai: ",
    "tool: look done",
    "ai: two",
    "human: p3",
    "ai: three",
]


async def three_turns(path: Path) -> None:
    async with open_line(path, REPLIES, [ScriptedTool("look")]) as (session, _, _):
        for n in (1, 2, 3):
            await send(session, f"p{n}")


async def of(path: Path, thread: str, *replies: Any, prompt: str = "") -> list[str]:
    """The messages of a thread, after a prompt if one is given."""
    model = ScriptedModel(list(replies))
    async with open_session(path, model, [ScriptedTool("look")], thread=thread) as session:
        if prompt:
            await send(session, prompt)
        return texts(await session.messages())


@pytest.mark.parametrize(("at", "kept"), [(None, 8), (3, 8), (2, 6), (1, 2)])
async def test_at_any_turn(tmp_path: Path, at: int | None, kept: int) -> None:
    """The copy has the turns up to that one and goes on by itself; the original stays as it is."""
    path = tmp_path / "m.db"
    await three_turns(path)
    async with open_line(path) as (_, timeline, _):
        forked = await timeline.fork("copy", at)
        assert (forked.turns, forked.left_out) == (at or 3, "")
    more = ["human: more", "ai: more"]
    assert await of(path, "copy", say("more"), prompt="more") == [*WHOLE[:kept], *more]
    assert await of(path, "t", say("else"), prompt="else") == [*WHOLE, "human: else", "ai: else"]
    assert await of(path, "copy") == [*WHOLE[:kept], *more]


async def test_the_copy_can_be_turned_back(tmp_path: Path) -> None:
    """It has its own steps, so also to before turns of the original; that one stays as it is."""
    path = tmp_path / "m.db"
    await three_turns(path)
    async with open_line(path) as (_, timeline, _):
        await timeline.rewind(3)
        await timeline.fork("copy")
        copy = Timeline(timeline.graph, timeline.memory, "copy")
        assert [turn.prompt for turn in await copy.turns()] == ["p1", "p2"]
        assert [turn.time for turn in await copy.turns()] == [
            turn.time for turn in await timeline.turns()
        ]
        await copy.rewind(2)
        assert len(await timeline.turns()) == 2
        assert await copy.branches() != await timeline.branches()
    assert await of(path, "copy") == WHOLE[:2]
    assert await of(path, "t") == WHOLE[:6]


async def test_it_is_in_the_list_with_its_parent(tmp_path: Path) -> None:
    """Title and counts are its own from the start."""
    path = tmp_path / "m.db"
    await three_turns(path)
    async with open_line(path) as (_, timeline, _):
        await timeline.fork("copy", 2)
    async with open_memory(path) as memory:
        info = await memory.threads.info("copy")
        assert info is not None
        assert (info.parent, info.title, info.turns, info.messages) == ("t", "p1", 2, 6)
        parent = await memory.threads.info("t")
        assert parent is not None
        assert (parent.parent, parent.turns) == (None, 3)


async def test_what_cannot_be(tmp_path: Path) -> None:
    """A name that is taken, a turn that is not there, a thread that is not there: one line."""
    path = tmp_path / "m.db"
    async with open_line(path) as (_, timeline, _):
        with pytest.raises(ThreadError, match="no thread 't'"):
            await timeline.fork("copy")
    await three_turns(path)
    await of(path, "other", say("x"), prompt="y")
    async with open_line(path) as (_, timeline, _):
        for new in ("t", "other"):
            with pytest.raises(ThreadError, match=f"There is a thread '{new}' already"):
                await timeline.fork(new)
        for at in (0, 4, -1):
            with pytest.raises(ThreadError, match=f"has no turn {at}"):
                await timeline.fork("copy", at)
        await timeline.rewind(1)
        with pytest.raises(ThreadError, match="nothing to copy"):
            await timeline.fork("copy")
    assert await of(path, "copy") == []
    assert await of(path, "other") == ["human: y", "ai: x"]


async def test_a_waiting_approval_stays_with_the_original(tmp_path: Path) -> None:
    """The copy ends before that turn: the same write must not wait in two threads."""
    path, tool = tmp_path / "m.db", ScriptedTool("wipe", read_only=False)
    async with open_line(path, [say("hi"), call(("wipe", {})), say("done")], [tool]) as opened:
        session, timeline, _ = opened
        await send(session, "hello")
        asked = await send(session, "wipe it")
        assert isinstance(asked, ApprovalRequested)
        with pytest.raises(ThreadError, match="Turn 2 is not finished"):
            await timeline.fork("copy", 2)
        forked = await timeline.fork("copy")
        assert (forked.turns, forked.left_out) == (1, "wipe it")
        copy = Timeline(timeline.graph, timeline.memory, "copy")
        assert not await copy.is_open()
        await collect(session.resume(asked.id, {"c1": Decision(True)}))
    assert tool.ran == [{}]
    assert await of(path, "copy") == ["human: hello", "ai: hi"]


async def test_the_only_turn_waits(tmp_path: Path) -> None:
    """There is nothing to copy then."""
    path, tool = tmp_path / "m.db", ScriptedTool("wipe", read_only=False)
    async with open_line(path, [call(("wipe", {}))], [tool]) as (session, timeline, _):
        await send(session, "wipe it")
        with pytest.raises(ThreadError, match="not finished"):
            await timeline.fork("copy")


async def test_what_was_allowed_is_not_allowed_in_the_copy(tmp_path: Path) -> None:
    """A yes is for its thread: an `a` does not go over."""
    path, tool = tmp_path / "m.db", ScriptedTool("wipe", read_only=False)
    async with open_line(path, [call(("wipe", {})), say("done")], [tool]) as opened:
        session, timeline, _ = opened
        asked = await send(session, "wipe it")
        await collect(session.resume(asked.id, {"c1": Decision(True, scope="thread")}))
        await timeline.fork("copy")
    model = ScriptedModel([call(("wipe", {"again": 1}))])
    async with open_session(path, model, [tool], thread="copy") as session:
        assert isinstance(await send(session, "and this"), ApprovalRequested)
    assert tool.ran == [{}]


async def test_a_thread_that_was_turned_back_is_copied_as_it_stands(tmp_path: Path) -> None:
    """Only its course is copied, no branch; a copy of a copy too."""
    path = tmp_path / "m.db"
    await three_turns(path)
    async with open_line(path, [say("new")]) as (session, timeline, _):
        await timeline.rewind(2)
        await send(session, "other")
        await timeline.fork("copy")
        copy = Timeline(timeline.graph, timeline.memory, "copy")
        assert await copy.branches() == []
        await copy.fork("second")
    wanted = [*WHOLE[:2], "human: other", "ai: new"]
    assert await of(path, "copy") == wanted
    assert await of(path, "second") == wanted
