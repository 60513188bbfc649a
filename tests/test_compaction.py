"""What a person may do to the view: preview, compact now, undo, pin, set the summary, purge."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from langchain_core.messages import RemoveMessage, ToolMessage

from agent_core.compaction import Preview, pin, preview, purge, undo, unpin, with_summary
from agent_core.limits import Limits
from agent_core.turn import handles_of
from agent_core.view import render
from context import Window, text_of
from tests.graph_kit import ScriptedModel, ScriptedTool, call, collect, open_session, say
from tests.test_maintain import GOOD, good, played, stubs
from tests.view_kit import Thread, make_text


async def compacted(thread: Thread) -> None:
    """Compact now, as a command between two turns does."""
    outcome = await thread.maintainer.maintain(
        thread.state,
        thread.tools,
        thread="t",
        before=thread.tools,
        say=lambda text: None,
        by_hand=True,
    )
    thread.state.update(outcome.update)


def shown(thread: Thread) -> str:
    view = render(thread.state["messages"], thread.composer.marks(thread.state), Limits())
    return "\n".join(text_of(m.content) for m in view.messages)


async def test_a_preview_says_what_compacting_does() -> None:
    """The stubs and the tokens of the preview are those of the step that follows it."""
    thread = Thread(Window(8192), Limits(low_water=0.5), summarise=good)
    await played(thread, 4, size=1500)
    said = preview(thread.state, [], thread.composer)
    before = dict(thread.state)
    await compacted(thread)

    assert isinstance(said, Preview)
    assert said.stubs == ("r1", "r2")
    assert said.turns == 0
    assert said.saved > 500
    assert before["messages"] == thread.state["messages"]
    assert [handle for handle, _ in stubs(view_of(thread))] == ["r1", "r2"]
    assert thread.composer.measure(thread.state, [])[0] == said.after


def view_of(thread: Thread) -> list[Any]:
    marks = thread.composer.marks(thread.state)
    return render(thread.state["messages"], marks, Limits()).messages


async def test_compacting_by_hand_folds_and_can_be_undone_once() -> None:
    """The marks before are given back, the summary too; a second undo has nothing to give."""
    thread = Thread(Window(4096), Limits(), summarise=good)
    await played(thread, 6, size=700)
    before, was = shown(thread), preview(thread.state, [], thread.composer)
    await compacted(thread)
    after = shown(thread)
    update = undo(thread.state)

    assert was.turns > 0
    assert GOOD in after
    assert len(after) < len(before)
    assert update is not None
    thread.state.update(update)
    assert shown(thread) == before
    assert undo(thread.state) is None


async def test_a_pinned_result_stays_whole() -> None:
    """Through stubs and folds; let go, it is shortened like the others."""
    thread = Thread(Window(8192), Limits(), summarise=good)
    await played(thread, 2, size=1500)
    whole = text_of(handles_of(thread.state["messages"])["r1"].content)
    update = pin(thread.state, "r1")
    assert update == {"pinned": ["r1"]}
    thread.state.update(update)
    await played(thread, 14, size=1500, first=2)

    assert thread.state["summary_upto"]
    assert whole in text_of(thread.requests[-1].messages[1].content)
    assert pin(thread.state, "r99") is None
    assert pin(thread.state, "r1") == {"pinned": ["r1"]}
    assert unpin(thread.state, "r2") is None
    thread.state.update(unpin(thread.state, "r1") or {})
    assert whole not in shown(thread)


async def test_a_pinned_result_gives_way_where_nothing_else_fits() -> None:
    """A pin is a wish: the request still fits."""
    thread = Thread(Window(2048), Limits(), summarise=good)
    await played(thread, 1, size=9000)
    thread.state.update(pin(thread.state, "r1") or {})
    await thread.prompt("and?")
    request = thread.request()

    assert request.tokens + thread.window.reply <= 2048


async def test_a_summary_can_be_written_by_hand() -> None:
    """What the person wrote is what the model reads; undo gives the former one back."""
    thread = Thread(Window(4096), Limits(), summarise=good)
    await played(thread, 14)
    thread.state.update(with_summary(thread.state, "  We talk about herons.  "))

    assert "We talk about herons." in shown(thread)
    assert GOOD not in shown(thread)
    thread.state.update(undo(thread.state) or {})
    assert GOOD in shown(thread)


async def test_purge_says_what_goes_and_leaves_the_view_as_it_was() -> None:
    """Only what the summary stands for goes; the next prompt is the same as without it."""
    thread = Thread(Window(4096), Limits(), summarise=good)
    assert purge(thread.state) is None
    await played(thread, 14)
    before, count = shown(thread), len(thread.state["messages"])
    gone = purge(thread.state)

    assert gone is not None
    assert 0 < gone.messages < count
    assert (gone.turns, gone.results) == (gone.messages // 4, gone.messages // 4)
    removed = {m.id for m in gone.update["messages"]}
    assert all(isinstance(m, RemoveMessage) for m in gone.update["messages"])
    thread.state["messages"] = [m for m in thread.state["messages"] if m.id not in removed]
    thread.state.update({k: v for k, v in gone.update.items() if k != "messages"})
    assert shown(thread) == before
    assert undo(thread.state) is None


async def test_messages_neither_come_back_nor_twice(tmp_path: Path) -> None:
    """K09: compacted, the state has every message; purged, the file has only the kept ones.

    The program goes on from there after a restart, with the next handle.
    """
    path = tmp_path / "m.db"

    async def run(args: Mapping[str, Any]) -> str:
        return make_text("log", 1500, len(tool.ran))

    tool = ScriptedTool("look", run=run)

    def replies() -> list[Any]:
        return [r for n in range(40) for r in (call(("look", {"n": n})), say(f"answer {n}"))]

    window, limits = Window(4096), Limits(summary=False)
    async with open_session(
        path, ScriptedModel(replies()), [tool], window=window, limits=limits
    ) as session:
        for n in range(8):
            await collect(session.send(f"question {n}"))
        messages = await session.messages()
        graph, config = session._graph, session._config
        values = (await graph.aget_state(config)).values
        assert len(messages) == 8 * 4
        assert len({m.id for m in messages}) == 8 * 4
        gone = purge(values)
        assert gone is not None
        await graph.aupdate_state(config, gone.update, as_node="agent")
    async with open_session(
        path, ScriptedModel(replies()), [tool], window=window, limits=limits
    ) as session:
        kept = await session.messages()
        assert [m.id for m in kept] == [m.id for m in messages[gone.messages :]]
        assert not await session.is_unfinished()
        last = (await collect(session.send("and on")))[-1]
        after = await session.messages()

    assert last.status == "ok"
    assert [m.id for m in after][: len(kept)] == [m.id for m in kept]
    assert len(after) == len(kept) + 4
    newest = [m for m in after if isinstance(m, ToolMessage)][-1]
    assert newest.additional_kwargs["handle"] == "r9"
