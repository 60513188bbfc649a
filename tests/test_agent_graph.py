"""The graph: what runs, in which order, and what never runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from context import Window, text_of
from local_agent.events import (
    ApprovalRequested,
    Decision,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from tests.graph_kit import (
    Overflow,
    ScriptedModel,
    ScriptedTool,
    call,
    cancel_when,
    collect,
    open_session,
    say,
)


def results(messages: list[Any]) -> list[tuple[str, str]]:
    return [(m.tool_call_id, m.content) for m in messages if isinstance(m, ToolMessage)]


async def test_a_read_runs_unasked_and_four_messages_are_saved(tmp_path: Path) -> None:
    """A prompt, a call of a read, its result and the answer are the four messages of a turn."""
    read = ScriptedTool("look")
    model = ScriptedModel([call(("look", {"x": 1})), say("seen")])
    async with open_session(tmp_path / "m.db", model, [read]) as session:
        events = await collect(session.send("look at x"))
        messages = await session.messages()

    assert read.ran == [{"x": 1}]
    assert [type(m) for m in messages] == [HumanMessage, AIMessage, ToolMessage, AIMessage]
    assert isinstance(events[-1], TurnFinished)
    assert (events[-1].status, events[-1].answer, events[-1].steps) == ("ok", "seen", 2)
    assert [type(e) for e in events if not isinstance(e, TextDelta)][1:3] == [
        ToolStarted,
        ToolFinished,
    ]


async def test_mixed_decisions_run_only_what_was_allowed(tmp_path: Path) -> None:
    """A01: c1 read, c2 write refused, c3 read: two run, three results in call order."""
    read, write = ScriptedTool("look"), ScriptedTool("wipe", read_only=False)
    model = ScriptedModel([call(("look", {"n": 1}), ("wipe", {}), ("look", {"n": 3})), say("done")])
    async with open_session(tmp_path / "m.db", model, [read, write]) as session:
        first = await collect(session.send("go"))
        approval = next(e for e in first if isinstance(e, ApprovalRequested))
        ran_before = list(read.ran)
        last = await collect(session.resume(approval.id, {"c2": Decision(False, "wrong folder")}))

    assert ran_before == [{"n": 1}]
    assert read.ran == [{"n": 1}, {"n": 3}]
    assert write.ran == []
    assert last[-1].status == "ok"
    sent = model.asked[1]["messages"]
    assert [r[0] for r in results(sent)] == ["c1", "c2", "c3"]
    assert "wrong folder" in results(sent)[1][1]


async def test_what_is_not_decided_is_refused(tmp_path: Path) -> None:
    """Two writes, one yes: the one without a decision does not run."""
    write = ScriptedTool("wipe", read_only=False)
    model = ScriptedModel([call(("wipe", {"n": 1}), ("wipe", {"n": 2})), say("done")])
    async with open_session(tmp_path / "m.db", model, [write]) as session:
        first = await collect(session.send("go"))
        approval = next(e for e in first if isinstance(e, ApprovalRequested))
        assert [c.call_id for c in approval.calls] == ["c1", "c2"]
        await collect(session.resume(approval.id, {"c2": Decision(True)}))

    assert write.ran == [{"n": 2}]


async def test_an_approval_is_answered_once(tmp_path: Path) -> None:
    """The same answer given twice runs the write once."""
    write = ScriptedTool("wipe", read_only=False)
    model = ScriptedModel([call(("wipe", {})), say("done")])
    async with open_session(tmp_path / "m.db", model, [write]) as session:
        first = await collect(session.send("go"))
        approval = next(e for e in first if isinstance(e, ApprovalRequested))
        await collect(session.resume(approval.id, {"c1": Decision(True)}))
        again = await collect(session.resume(approval.id, {"c1": Decision(True)}))

    assert len(write.ran) == 1
    assert [(e.status, e.error) for e in again] == [
        ("error", "This approval was decided already; nothing was run.")
    ]


async def test_allowed_for_the_thread_is_not_asked_again(tmp_path: Path) -> None:
    """`a` allows that tool in this thread, also after a restart, and no other tool."""
    write = ScriptedTool("wipe", read_only=False)
    other = ScriptedTool("burn", read_only=False)
    path = tmp_path / "m.db"
    model = ScriptedModel([call(("wipe", {})), say("done")])
    async with open_session(path, model, [write, other]) as session:
        approval = (await collect(session.send("go")))[-1]
        await collect(session.resume(approval.id, {"c1": Decision(True, scope="thread")}))
    model = ScriptedModel([call(("wipe", {"n": 2})), say("done"), call(("burn", {}))])
    async with open_session(path, model, [write, other]) as session:
        second = await collect(session.send("again"))
        third = await collect(session.send("burn"))

    assert second[-1].status == "ok"
    assert len(write.ran) == 2
    assert isinstance(third[-1], ApprovalRequested)
    assert other.ran == []


async def test_a_pending_approval_survives_a_restart(tmp_path: Path) -> None:
    """A03: opened again, the same question with the same id is there, and yes runs it once."""
    write = ScriptedTool("wipe", read_only=False)
    path = tmp_path / "m.db"
    async with open_session(path, ScriptedModel([call(("wipe", {"p": 1}))]), [write]) as session:
        asked = (await collect(session.send("go")))[-1]
    async with open_session(path, ScriptedModel([say("done")]), [write]) as session:
        pending = await session.pending()
        assert pending == asked
        last = await collect(session.resume(asked.id, {"c1": Decision(True)}))

    assert write.ran == [{"p": 1}]
    assert last[-1].answer == "done"


async def test_a_tool_that_is_gone_at_the_answer_is_an_error_result(tmp_path: Path) -> None:
    """A03: the tool no longer exists when the yes comes: an error result, the thread goes on."""
    write = ScriptedTool("wipe", read_only=False)
    path = tmp_path / "m.db"
    async with open_session(path, ScriptedModel([call(("wipe", {}))]), [write]) as session:
        asked = (await collect(session.send("go")))[-1]
    model = ScriptedModel([say("cannot")])
    async with open_session(path, model, []) as session:
        last = await collect(session.resume(asked.id, {"c1": Decision(True)}))

    assert write.ran == []
    assert last[-1].status == "ok"
    assert "not there any more" in results(model.asked[0]["messages"])[0][1]


async def test_a_cancelled_write_is_closed_and_its_finished_sibling_kept(tmp_path: Path) -> None:
    """A05: Ctrl-C while one of two reads runs: one result, one 'cancelled', the thread goes on."""
    started = asyncio.Event()

    async def hang(args: Any) -> None:
        await asyncio.sleep(0.2)  # the sibling has ended by then
        started.set()
        await asyncio.sleep(60)

    quick, slow = ScriptedTool("quick"), ScriptedTool("slow", run=hang)
    model = ScriptedModel([call(("quick", {}), ("slow", {})), say("hello")])
    async with open_session(tmp_path / "m.db", model, [quick, slow]) as session:
        await cancel_when(session.send("go"), started)
        ended = await session.abandon("cancelled")
        after = await collect(session.send("hello"))
        unfinished = await session.is_unfinished()

    assert (ended.status, ended.error) == ("cancelled", None)
    assert after[-1].answer == "hello"
    assert not unfinished
    shown = results(model.asked[1]["messages"])
    assert [call_id for call_id, _ in shown] == ["c1", "c2"]
    assert shown[0][1] == "quick done"
    assert "Cancelled by the user" in shown[1][1]
    assert len(quick.ran) == 1


async def test_a_partial_answer_is_kept_and_marked(tmp_path: Path) -> None:
    """A05: Ctrl-C while the answer streams keeps what came."""
    streaming = asyncio.Event()

    class Streaming(ScriptedModel):
        async def reply(self, messages: Any, **options: Any) -> AIMessage:
            if not self.asked:
                self.asked.append({})
                options["on_delta"]("text", "The total is 4")
                await asyncio.sleep(0.1)  # it is shown by then
                streaming.set()
                await asyncio.sleep(60)
            return await super().reply(messages, **options)

    model = Streaming([say("hello")])
    async with open_session(tmp_path / "m.db", model, []) as session:
        await cancel_when(session.send("count"), streaming)
        ended = await session.abandon("cancelled")
        await collect(session.send("hello"))

    assert ended.answer == "The total is 4"
    contents = [m.content for m in model.asked[1]["messages"]]
    assert contents[1:] == ["count", "The total is 4\n[cut off here]", "hello"]


async def test_the_same_call_a_third_time_ends_the_turn(tmp_path: Path) -> None:
    """L13: the third identical call is not run; one last call without tools gives the answer."""
    read = ScriptedTool("look")
    same = [call(("look", {"q": "x"})) for _ in range(3)]
    model = ScriptedModel([*same, say("what I have"), say("second")])
    path = tmp_path / "m.db"
    async with open_session(path, model, [read], drops_repeats=False) as session:
        first = await collect(session.send("go"))
        second = await collect(session.send("and now?"))

    assert len(read.ran) == 2
    assert (first[-1].status, first[-1].answer) == ("step_limit", "what I have")
    assert "three times" in first[-1].error
    assert model.asked[3]["tool_choice"] == "none"
    assert model.asked[3]["tools"] == model.asked[0]["tools"]
    assert second[-1].status == "ok"


async def test_the_step_limit_gives_a_last_answer(tmp_path: Path) -> None:
    """At the limit the model answers from what it has, and a call in that answer is ignored."""
    read = ScriptedTool("look")
    calls = [call(("look", {"n": n})) for n in range(2)]
    model = ScriptedModel([*calls, call(("look", {"n": 9}), text="so far 2")])
    async with open_session(tmp_path / "m.db", model, [read], max_steps=2) as session:
        events = await collect(session.send("go"))
        messages = await session.messages()

    assert (events[-1].status, events[-1].answer) == ("step_limit", "so far 2")
    assert len(read.ran) == 2
    assert not messages[-1].tool_calls


async def test_three_broken_replies_end_the_turn(tmp_path: Path) -> None:
    """L01: half calls are neither run nor asked about; after three the user is told."""
    write = ScriptedTool("wipe", read_only=False)
    first, second, third = (call(("wipe", '{"path": "a')) for _ in range(3))
    model = ScriptedModel([first, second, say('{"path": "a'), third, say("hello")])
    async with open_session(tmp_path / "m.db", model, [write]) as session:
        events = await collect(session.send("go"))
        after = await collect(session.send("never mind"))

    assert write.ran == []
    assert not any(isinstance(e, ApprovalRequested) for e in events)
    assert events[-1].status == "error"
    assert "JSON" in events[-1].error
    assert after[-1].answer == "hello"


async def test_an_empty_answer_is_asked_for_again_and_then_said(tmp_path: Path) -> None:
    """No turn ends in silence. The second request says why it comes, behind the same beginning."""
    model = ScriptedModel([say(""), say("now"), say(""), say(" ")])
    async with open_session(tmp_path / "m.db", model, []) as session:
        first = await collect(session.send("a"))
        second = await collect(session.send("b"))

    assert first[-1].answer == "now"
    assert second[-1].status == "error"
    assert "empty answer" in second[-1].error
    asked = [text_of(asked["messages"][-1].content) for asked in model.asked]
    assert [text.startswith(("a", "b")) for text in asked] == [True] * 4
    assert ["reply was empty" in text for text in asked] == [False, True, False, True]


async def test_an_overflow_is_met_once_by_a_shorter_view(tmp_path: Path) -> None:
    """L14: the server refuses the prompt; a smaller one follows, and only one."""
    model = ScriptedModel([say("one " * 500), say("two " * 500), Overflow("x"), say("ok")])
    async with open_session(tmp_path / "m.db", model, [], window=Window(8192)) as session:
        await collect(session.send("first " * 700))
        await collect(session.send("second " * 600))
        third = await collect(session.send("third"))

    assert third[-1].answer == "ok"
    before, after = model.asked[2]["messages"], model.asked[3]["messages"]
    assert sum(len(m.content) for m in after) < sum(len(m.content) for m in before)
    assert str(after[-1].content).endswith("third")


async def test_a_second_overflow_is_a_plain_error(tmp_path: Path) -> None:
    """L14: still too long: the turn fails, the prompt is kept, the thread goes on."""
    model = ScriptedModel([Overflow("x"), Overflow("x"), say("ok")])
    async with open_session(tmp_path / "m.db", model, []) as session:
        first = await collect(session.send("long"))
        second = await collect(session.send("short"))
        messages = await session.messages()

    assert first[-1].status == "error"
    assert len(model.asked) == 3
    assert second[-1].answer == "ok"
    assert messages[0].content == "long"
    assert [m.content for m in model.asked[2]["messages"][1:]] == ["long", "[stopped]", "short"]


async def test_retry_asks_again_without_running_tools_again(tmp_path: Path) -> None:
    """L15: after a failed answer, retry goes on from the tool result that is there."""
    read = ScriptedTool("look")
    model = ScriptedModel([call(("look", {})), RuntimeError("gone"), say("seen")])
    async with open_session(tmp_path / "m.db", model, [read]) as session:
        first = await collect(session.send("go"))
        again = await collect(session.retry())
        nothing = await collect(session.retry())

    assert first[-1].status == "error"
    assert again[-1].answer == "seen"
    assert len(read.ran) == 1
    assert type(nothing[0]).__name__ == "Notice"


async def test_replies_with_the_same_server_ids_do_not_overwrite_each_other(tmp_path: Path) -> None:
    """Call ids that a server repeats in each turn keep their own results."""
    read = ScriptedTool("look")
    model = ScriptedModel(
        [call(("look", {"n": 1})), say("one"), call(("look", {"n": 2})), say("2")]
    )
    async with open_session(tmp_path / "m.db", model, [read]) as session:
        await collect(session.send("a"))
        await collect(session.send("b"))
        messages = await session.messages()

    assert len(messages) == 8
    assert read.ran == [{"n": 1}, {"n": 2}]


async def broken_off_write(path: Path, write: ScriptedTool, model: ScriptedModel) -> None:
    """Leave the thread as a crash in the middle of an approved write leaves it."""
    started = asyncio.Event()

    async def hang(args: Any) -> None:
        started.set()
        await asyncio.sleep(60)

    write.run = hang
    async with open_session(path, model, [write]) as session:
        pending = await session.pending()
        if pending is None:
            pending = (await collect(session.send("go")))[-1]
        await cancel_when(session.resume(pending.id, {"c1": Decision(True)}), started)
    write.run = None


async def test_a_write_that_may_have_run_is_asked_about(tmp_path: Path) -> None:
    """After a crash in a write the person is asked; a no tells the model that nobody knows."""
    write, path = ScriptedTool("wipe", read_only=False), tmp_path / "m.db"
    await broken_off_write(path, write, ScriptedModel([call(("wipe", {}))]))
    model = ScriptedModel([say("I see")])
    async with open_session(path, model, [write]) as session:
        assert await session.is_unfinished()
        asked = (await collect(session.proceed()))[-1]
        assert isinstance(asked, ApprovalRequested)
        assert [c.why for c in asked.calls] == ["unknown_outcome"]
        last = await collect(session.resume(asked.id, {}))

    assert len(write.ran) == 1
    assert last[-1].answer == "I see"
    assert "unknown" in results(model.asked[0]["messages"])[0][1]


async def test_a_yes_to_run_again_counts_once(tmp_path: Path) -> None:
    """A second crash in the write that was run again asks again; it never repeats by itself."""
    write, path = ScriptedTool("wipe", read_only=False), tmp_path / "m.db"
    await broken_off_write(path, write, ScriptedModel([call(("wipe", {}))]))
    async with open_session(path, ScriptedModel([]), [write]) as session:
        await collect(session.proceed())
    await broken_off_write(path, write, ScriptedModel([]))
    assert len(write.ran) == 2
    async with open_session(path, ScriptedModel([say("done")]), [write]) as session:
        asked = (await collect(session.proceed()))[-1]
        assert isinstance(asked, ApprovalRequested)
        assert len(write.ran) == 2
        last = await collect(session.resume(asked.id, {"c1": Decision(True)}))

    assert len(write.ran) == 3
    assert last[-1].status == "ok"


async def test_a_yes_of_somebody_else_does_not_count(tmp_path: Path) -> None:
    """A database from elsewhere cannot bring permissions: neither for the thread nor for a call."""
    write, path = ScriptedTool("wipe", read_only=False), tmp_path / "m.db"
    model = ScriptedModel([call(("wipe", {})), say("done"), call(("wipe", {}))])
    async with open_session(path, model, [write], key=b"theirs" * 6) as session:
        asked = (await collect(session.send("go")))[-1]
        await collect(session.resume(asked.id, {"c1": Decision(True, scope="thread")}))
    write.ran.clear()
    async with open_session(path, model, [write]) as session:
        events = await collect(session.send("again"))

    assert isinstance(events[-1], ApprovalRequested)
    assert write.ran == []


async def test_a_broken_off_call_from_elsewhere_is_asked_about(tmp_path: Path) -> None:
    """A task that was approved under another key does not run when the turn goes on."""
    write, path = ScriptedTool("wipe", read_only=False), tmp_path / "m.db"
    started = asyncio.Event()

    async def hang(args: Any) -> None:
        started.set()
        await asyncio.sleep(60)

    write.run = hang
    model = ScriptedModel([call(("wipe", {}))])
    async with open_session(path, model, [write], key=b"theirs" * 6) as session:
        asked = (await collect(session.send("go")))[-1]
        await cancel_when(session.resume(asked.id, {"c1": Decision(True)}), started)
    write.run = None
    write.ran.clear()
    async with open_session(path, ScriptedModel([]), [write]) as session:
        events = await collect(session.proceed())

    assert isinstance(events[-1], ApprovalRequested)
    assert write.ran == []
