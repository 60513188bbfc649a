"""Versions of channels: threads of LangGraph's own saver go on with ours, and back again."""

from __future__ import annotations

from pathlib import Path

import pytest
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from local_agent.events import ApprovalRequested
from local_agent.memory.saver import Saver
from tests.graph_kit import ScriptedModel, ScriptedTool, call, collect, open_session, say
from tests.timeline_kit import answer, texts


class Stock(Saver):
    """Our saver with versions as LangGraph makes them."""

    get_next_version = AsyncSqliteSaver.get_next_version  # type: ignore[assignment]


@pytest.mark.parametrize("first", [Stock, Saver])
async def test_versions_of_either_kind_go_on_with_the_other(
    tmp_path: Path, first: type[Saver]
) -> None:
    """A turn that one began and that waits for a yes is ended by the other, and turns follow."""
    path, wipe = tmp_path / "m.db", ScriptedTool("wipe", read_only=False)
    savers = [first, Saver if first is Stock else Stock] * 2
    for turn, saver in enumerate(savers):
        replies = [call(("wipe", {"n": turn}))]
        if turn:
            replies.insert(0, say(f"end {turn - 1}"))
        async with open_session(
            path,
            ScriptedModel([*replies]),
            [wipe],
            saver=lambda memory, saver=saver: saver(memory.saver._statements),  # type: ignore[misc]
        ) as session:
            pending = await session.pending()
            assert (pending is None) == (turn == 0)
            if pending is not None:
                assert (await answer(session, pending)).answer == f"end {turn - 1}"
            last = (await collect(session.send(f"prompt {turn}")))[-1]
            assert isinstance(last, ApprovalRequested)
            said = texts(await session.messages())
    assert wipe.ran == [{"n": 0}, {"n": 1}, {"n": 2}]
    expected = []
    for turn in range(4):
        expected += [f"human: prompt {turn}", "ai: ", "tool: wipe done", f"ai: end {turn}"]
    assert said == expected[:-2]
