"""Turning a thread back and forward: what is kept comes back, what was cut does not."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt

from context import Window
from local_agent.errors import StorageError, ThreadError
from local_agent.events import ApprovalRequested, Decision, TurnFinished
from local_agent.memory.heads import config_of
from local_agent.session import Session
from local_agent.timeline import Branch, Timeline
from tests.graph_kit import ScriptedTool, call, cancel_when, collect, say
from tests.timeline_kit import answer, open_line, send, texts

FACT = ["human: my cat is Tom", "ai: noted"]
TOOL = ["human: wipe it", "ai: ", "tool: wipe done", "ai: wiped"]
CHAT = ["human: how are you", "ai: fine"]
REPLIES = [say("noted"), call(("wipe", {"p": 1})), say("wiped"), say("fine")]


def write() -> ScriptedTool:
    return ScriptedTool("wipe", read_only=False)


async def three_turns(path: Path, tool: ScriptedTool) -> None:
    """D10: turn 1 a fact, turn 2 a write with a yes, turn 3 chat."""
    async with open_line(path, REPLIES, [tool]) as (session, _, _):
        await send(session, "my cat is Tom")
        await send(session, "wipe it", True)
        await send(session, "how are you")


async def stored(path: Path) -> list[str]:
    """The messages as a new process finds them."""
    async with open_line(path) as (session, _, _):
        return texts(await session.messages())


@pytest.mark.parametrize(
    ("to", "kept", "draft"),
    [
        (1, [], "my cat is Tom"),
        (2, FACT, "wipe it"),
        (3, [*FACT, *TOOL], "how are you"),
    ],
)
async def test_back_to_before_any_turn(
    tmp_path: Path, to: int, kept: list[str], draft: str
) -> None:
    """D10: the next request holds exactly what is kept, also after a restart; nothing runs."""
    path, tool = tmp_path / "m.db", write()
    await three_turns(path, tool)
    async with open_line(path, [], [tool]) as (session, timeline, _):
        moved = await timeline.rewind(to)
        assert (moved.turns, moved.draft, moved.is_open) == (to - 1, draft, False)
        assert texts(await session.messages()) == kept
    assert await stored(path) == kept
    async with open_line(path, [say("yes")], [tool]) as (session, timeline, model):
        assert not await session.is_unfinished()
        assert await session.pending() is None
        await send(session, "go on")
        assert texts(model.asked[0]["messages"]) == [*kept, "human: go on"]
        assert [turn.prompt for turn in await timeline.turns()][-1] == "go on"
    assert await stored(path) == [*kept, "human: go on", "ai: yes"]
    assert tool.ran == [{"p": 1}]


async def test_an_approval_is_asked_again(tmp_path: Path) -> None:
    """D10: the yes of before counts for nothing, and the person learns that it ran already."""
    path, tool = tmp_path / "m.db", write()
    await three_turns(path, tool)
    again = [call(("wipe", {"p": 1})), say("wiped again"), call(("wipe", {"p": 1})), say("ok")]
    async with open_line(path, again, [tool]) as (session, timeline, _):
        await timeline.rewind(2)
        asked = await send(session, "wipe it")
        assert isinstance(asked, ApprovalRequested)
        assert [one.why for one in asked.calls] == ["ran"]
        assert tool.ran == [{"p": 1}]
        await answer(session, asked)
        assert tool.ran == [{"p": 1}] * 2
        asked = await send(session, "and again")
        assert [one.why for one in asked.calls] == ["write"], "that yes was to a second time"
        await answer(session, asked, False)
    assert tool.ran == [{"p": 1}] * 2


async def test_a_lasting_yes_does_not_cover_a_second_time(tmp_path: Path) -> None:
    """What was allowed for the thread before the turn still asks about what ran already."""
    path, tool = tmp_path / "m.db", write()
    first = [call(("wipe", {"p": 0})), say("0"), call(("wipe", {"p": 1})), say("1")]
    later = [call(("wipe", {"p": 2})), say("2"), call(("wipe", {"p": 1})), say("1")]
    async with open_line(path, [*first, *later], [tool]) as (session, timeline, _):
        asked = await send(session, "zero")
        yes = {"c1": Decision(True, scope="thread")}
        await collect(session.resume(asked.id, yes))
        await send(session, "one")
        await timeline.rewind(2)
        assert isinstance(await send(session, "two"), TurnFinished), "another call is covered"
        asked = await send(session, "one")
        assert isinstance(asked, ApprovalRequested)
        assert asked.calls[0].why == "ran"
    assert tool.ran == [{"p": 0}, {"p": 1}, {"p": 2}]


async def test_a_yes_for_the_thread_goes_with_its_turn(tmp_path: Path) -> None:
    """Turned back to before the `a`, the tool asks again."""
    path, tool = tmp_path / "m.db", write()
    replies = [say("hi"), call(("wipe", {"p": 0})), say("0"), call(("wipe", {"p": 9}))]
    async with open_line(path, replies, [tool]) as (session, timeline, _):
        await send(session, "hello")
        asked = await send(session, "zero")
        await collect(session.resume(asked.id, {"c1": Decision(True, scope="thread")}))
        await timeline.rewind(2)
        asked = await send(session, "nine")
        assert isinstance(asked, ApprovalRequested)
    assert tool.ran == [{"p": 0}]


async def test_what_was_cut_is_a_branch(tmp_path: Path) -> None:
    """Listed with its turns and its first prompt, and gone to; what was there becomes one."""
    path, tool = tmp_path / "m.db", write()
    await three_turns(path, tool)
    async with open_line(path, [say("other")], [tool]) as (session, timeline, _):
        moved = await timeline.rewind(2)
        await send(session, "something else")
        (branch,) = await timeline.branches()
        assert (branch.id, branch.first_turn, branch.turns) == (moved.branch, 2, 2)
        assert (branch.prompt, branch.why) == ("wipe it", "rewind")
    async with open_line(path, [], [tool]) as (session, timeline, _):
        back = await timeline.go_to(moved.branch)
        assert back.turns == 3
        assert texts(await session.messages()) == [*FACT, *TOOL, *CHAT]
        (other,) = await timeline.branches()
        assert (other.id, other.first_turn, other.prompt) == (back.branch, 2, "something else")
        await timeline.go_to(other.id)
    assert await stored(path) == [*FACT, "human: something else", "ai: other"]
    assert tool.ran == [{"p": 1}]


async def test_undo_and_redo(tmp_path: Path) -> None:
    """Several back, several forward, over a restart; until something new is said."""
    path, tool = tmp_path / "m.db", write()
    await three_turns(path, tool)
    async with open_line(path, [], [tool]) as (session, timeline, _):
        assert (await timeline.undo()).draft == "how are you"
        assert (await timeline.undo()).draft == "wipe it"
        assert texts(await session.messages()) == FACT
        assert len(await timeline.branches()) == 1
    async with open_line(path, [say("new")], [tool]) as (session, timeline, _):
        moved = await timeline.redo()
        assert (moved.turns, moved.draft) == (2, "")
        assert texts(await session.messages()) == [*FACT, *TOOL]
        assert (await timeline.redo()).turns == 3
        assert texts(await session.messages()) == [*FACT, *TOOL, *CHAT]
        assert await timeline.branches() == []
        with pytest.raises(ThreadError, match="nothing to bring back"):
            await timeline.redo()
        await timeline.undo()
        await send(session, "something new")
        with pytest.raises(ThreadError, match="nothing to bring back"):
            await timeline.redo()
        assert [one.prompt for one in await timeline.branches()] == ["how are you"]
    assert tool.ran == [{"p": 1}]


async def test_redo_takes_back_a_whole_rewind(tmp_path: Path) -> None:
    """Each redo undoes one step back, however many turns that took."""
    path, tool = tmp_path / "m.db", write()
    await three_turns(path, tool)
    async with open_line(path, [], [tool]) as (_, timeline, _):
        await timeline.undo()
        await timeline.rewind(1)
        (branch,) = await timeline.branches()
        assert (branch.first_turn, branch.turns, branch.prompt) == (1, 3, "my cat is Tom")
        assert (await timeline.redo()).turns == 2
        assert (await timeline.redo()).turns == 3


async def test_to_the_start_and_on(tmp_path: Path) -> None:
    """An empty thread is a new conversation, and can be taken back to that again."""
    path = tmp_path / "m.db"
    await three_turns(path, write())
    async with open_line(path, [say("one"), say("two")], [write()]) as (session, timeline, model):
        await timeline.rewind(1)
        with pytest.raises(ThreadError, match="no turn to take back"):
            await timeline.undo()
        await send(session, "first")
        await send(session, "second")
        assert texts(model.asked[1]["messages"]) == ["human: first", "ai: one", "human: second"]
        assert [turn.number for turn in await timeline.turns()] == [1, 2]
        await timeline.rewind(1)
        assert await session.messages() == []
        assert len(await timeline.branches()) == 2


async def test_while_an_approval_waits(tmp_path: Path) -> None:
    """The question is gone with its turn; brought back, it is asked anew, and a yes runs it once.

    An answer to the question of before counts for nothing.
    """
    path, tool = tmp_path / "m.db", write()
    replies = [say("hi"), call(("look", {}), ("wipe", {"p": 1}))]
    look = ScriptedTool("look")
    async with open_line(path, replies, [tool, look]) as (session, timeline, _):
        await send(session, "hello")
        old = await send(session, "wipe it")
        assert (await timeline.undo()).draft == "wipe it"
        assert await session.pending() is None
        assert not await session.is_unfinished()
        stale = await collect(session.resume(old.id, {"c2": Decision(True)}))
        assert stale[-1].status == "error"
        moved = await timeline.redo()
        assert moved.is_open
    async with open_line(path, [say("done")], [tool, look]) as (session, _, _):
        asked = await session.pending()
        assert asked is not None
        assert asked.id != old.id
        assert asked.calls == old.calls
        stale = await collect(session.resume(old.id, {"c2": Decision(True)}))
        assert stale[-1].status == "error"
        assert tool.ran == []
        await answer(session, asked)
    assert tool.ran == [{"p": 1}]
    assert look.ran == [{}], "what was done is not done again"


async def test_with_an_unfinished_turn_at_the_end(tmp_path: Path) -> None:
    """A turn that a crash broke off goes away like any, and comes back as far as it was."""
    path, slow, quick = tmp_path / "m.db", ScriptedTool("slow"), ScriptedTool("quick")
    started = asyncio.Event()

    async def hang(args: Any) -> None:
        while b"quick done" not in _results(path):
            await asyncio.sleep(0.01)
        started.set()
        await asyncio.sleep(60)

    slow.run = hang
    replies = [say("hi"), call(("quick", {}), ("slow", {}))]
    async with open_line(path, replies, [slow, quick]) as (session, _, _):
        await send(session, "hello")
        await cancel_when(session.send("both"), started)
    slow.run = None
    async with open_line(path, [say("well?")], [slow, quick]) as (session, timeline, model):
        assert await session.is_unfinished()
        moved = await timeline.undo()
        assert (moved.turns, moved.draft) == (1, "both")
        assert not await session.is_unfinished()
        assert texts(await session.messages()) == ["human: hello", "ai: hi"]
        assert (await timeline.redo()).is_open
        assert (await collect(session.proceed()))[-1].status == "ok"
        assert texts(model.asked[0]["messages"])[-2:] == ["tool: quick done", "tool: slow done"]
    assert len(quick.ran) == 1
    assert len(slow.ran) == 2


async def test_with_a_turn_killed_right_behind_its_prompt(tmp_path: Path) -> None:
    """Its prompt is a turn: listed, taken back, brought back, and run then."""
    path = tmp_path / "m.db"
    async with open_line(path, [say("hi"), say("never")]) as (session, timeline, _):
        await send(session, "hello")
        await send(session, "again")
        start = (await timeline.turns())[1].checkpoint_start
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("DELETE FROM checkpoints WHERE checkpoint_id > ?", (start,))
        conn.execute("DELETE FROM writes WHERE checkpoint_id >= ?", (start,))
        conn.execute("DELETE FROM agent_sums")  # of a turn that had not ended
        conn.commit()
    async with open_line(path, [say("now")]) as (session, timeline, model):
        assert (await timeline.undo()).draft == "again"
        moved = await timeline.redo()
        assert (moved.turns, moved.is_open) == (2, True)
        assert [turn.prompt for turn in await timeline.turns()] == ["hello", "again"]
        await collect(session.proceed())
        assert texts(model.asked[0]["messages"])[-1] == "human: again"


async def test_past_a_summary(tmp_path: Path) -> None:
    """K09, D10: turned back to before a compaction, the full messages and no summary are there."""
    path = tmp_path / "m.db"
    async with open_line(path, [say(f"answer {n}") for n in range(6)]) as (session, timeline, _):
        for n in range(4):
            await send(session, f"prompt {n}")
        messages = await session.messages()
        marks = {"summary": "of old", "summary_upto": messages[5].id, "compacted_upto": "x"}
        await timeline.graph.aupdate_state(config_of("t"), marks, as_node="agent")
        await send(session, "prompt 4")
    async with open_line(path, [say("back")]) as (session, timeline, model):
        assert len(await timeline.turns()) == 5
        await timeline.rewind(3)
        values = (await timeline.graph.aget_state(config_of("t"))).values
        assert not values.get("summary")
        assert not values.get("compacted_upto")
        await send(session, "go on")
        assert texts(model.asked[0]["messages"]) == [
            "human: prompt 0",
            "ai: answer 0",
            "human: prompt 1",
            "ai: answer 1",
            "human: go on",
        ]
        (branch,) = await timeline.branches()
        await timeline.go_to(branch.id)
        values = (await timeline.graph.aget_state(config_of("t"))).values
        assert values["summary"] == "of old"
        assert len(values["messages"]) == 10


async def test_past_what_no_longer_fits(tmp_path: Path) -> None:
    """K09: 30 turns in a window for a few: all can be read, and turn 3 can be gone back to."""
    path, window = tmp_path / "m.db", Window(1024)
    replies = [say("an answer " * 30) for _ in range(120)]
    async with open_line(path, replies, window=window) as (session, timeline, model):
        for n in range(1, 31):
            await send(session, f"prompt {n} " + "of some words " * 8)
        assert len(model.asked[-1]["messages"]) < 30
        assert [turn.prompt.split()[1] for turn in await timeline.turns()] == [
            str(n) for n in range(1, 31)
        ]
        assert len(await session.messages()) == 60
        await timeline.rewind(3)
    async with open_line(path, [say("back")], window=window) as (session, timeline, model):
        await send(session, "go on")
        sent = texts(model.asked[0]["messages"])
        assert [one.split()[2] for one in sent[::2]] == ["1", "2", "on"]
        assert [len(one.split()) for one in sent[1:4:2]] == [61, 61], "whole, and no summary"
        (branch,) = await timeline.branches()
        assert branch.turns == 28


async def test_no_such_turn_or_branch(tmp_path: Path) -> None:
    """One line each, and nothing is changed."""
    path = tmp_path / "m.db"
    async with open_line(path) as (_, timeline, _):
        with pytest.raises(ThreadError, match="There is no thread 't'"):
            await timeline.head()
        with pytest.raises(ThreadError, match="has no turn 1: it has none"):
            await timeline.rewind(1)
        with pytest.raises(ThreadError, match="nothing to bring back"):
            await timeline.redo()
    await three_turns(path, write())
    async with open_line(path) as (session, timeline, _):
        for number in (0, -1, 4):
            with pytest.raises(ThreadError, match=f"has no turn {number}: it has 3"):
                await timeline.rewind(number)
        await timeline.undo()
        await timeline.redo()
        with pytest.raises(ThreadError, match="no branch 'abc'"):
            await timeline.go_to("abc")
        assert len(await session.messages()) == 8


async def test_a_branch_needs_enough_of_its_id(tmp_path: Path) -> None:
    """An id that fits several is refused."""
    path = tmp_path / "m.db"
    async with open_line(path, [say(str(n)) for n in range(4)]) as (session, timeline, _):
        for n in range(4):
            await send(session, f"prompt {n}")
            if n % 2:
                await timeline.undo()
        with pytest.raises(ThreadError, match="2 branches begin with '1f'"):
            await timeline.go_to("1f")


async def test_turns_whose_steps_are_gone(tmp_path: Path) -> None:
    """After a prune they are listed, and cannot be gone back to; the first that can is named."""
    path = tmp_path / "m.db"
    await three_turns(path, write())
    async with open_line(path, [say("4"), say("5")]) as (session, timeline, _):
        from langgraph.types import Overwrite

        whole = {"messages": Overwrite(await session.messages())}
        await timeline.graph.aupdate_state(config_of("t"), whole, as_node="agent")
        head = await timeline.head()
        with closing(sqlite3.connect(path)) as conn:
            conn.execute("DELETE FROM checkpoints WHERE checkpoint_id != ?", (head,))
            conn.execute("DELETE FROM writes")
            conn.commit()
        await send(session, "four")
        await send(session, "five")
    async with open_line(path) as (session, timeline, _):
        for number in (1, 3):
            with pytest.raises(ThreadError, match=r"Turn \d cannot .* can is turn 4"):
                await timeline.rewind(number)
        await timeline.rewind(4)
        assert texts(await session.messages()) == [*FACT, *TOOL, *CHAT]
        await timeline.redo()
        assert len(await session.messages()) == 12


async def test_the_clock_went_back(tmp_path: Path) -> None:
    """A thread from the future cannot be turned back unseen: one line, nothing changed."""
    path = tmp_path / "m.db"
    await three_turns(path, write())
    with closing(sqlite3.connect(path)) as conn:
        row = "SELECT max(checkpoint_id) FROM checkpoints"
        (head,) = conn.execute(row).fetchone()
        conn.execute(
            "UPDATE checkpoints SET checkpoint_id = ? WHERE checkpoint_id = ?",
            ("2" + head[1:], head),
        )
        conn.execute("DELETE FROM agent_sums")
        conn.commit()
    async with open_line(path) as (_, timeline, _):
        with pytest.raises(StorageError, match="later than now"):
            await timeline.undo()
        assert await timeline.branches() == []


async def test_a_step_back_stores_no_message_again(tmp_path: Path) -> None:
    """Thirty steps back and forward over a long thread add less than one copy of it."""
    path = tmp_path / "m.db"
    async with open_line(path, [say(f"{n} " * 2000) for n in range(20)]) as (session, timeline, _):
        for n in range(20):
            await send(session, f"prompt {n}")
        before = _bytes(path)
        for _ in range(15):
            await timeline.undo()
        for _ in range(15):
            await timeline.redo()
        assert len(await session.messages()) == 40
        added = _bytes(path) - before
    assert added < 30 * 4000
    assert before > 20 * 4000


def _results(path: Path) -> bytes:
    with closing(sqlite3.connect(path)) as conn:
        rows = conn.execute("SELECT value FROM writes WHERE channel = 'messages'").fetchall()
    return b"".join(row[0] for row in rows)


def _bytes(path: Path) -> int:
    with closing(sqlite3.connect(path)) as conn:
        sql = (
            "SELECT (SELECT sum(length(checkpoint) + length(metadata)) FROM checkpoints)"
            " + (SELECT sum(length(value)) FROM writes)"
        )
        return int(conn.execute(sql).fetchone()[0])


async def test_threads_of_another_program(tmp_path: Path) -> None:
    """A thread of the stock saver is turned back too; steps it left open at a turn do not run."""
    path = tmp_path / "m.db"
    ran: list[str] = []

    class Plain(TypedDict):
        messages: Annotated[list[Any], add_messages]

    def agent(state: Plain) -> Any:
        return {"messages": [AIMessage(f"answer {len(state['messages'])}")]}

    def tools(state: Plain) -> Any:
        interrupt("may I?")
        ran.append("tools")
        return {}

    graph = StateGraph(Plain)
    graph.add_node("agent", agent)
    graph.add_node("tools", tools)
    graph.add_edge(START, "agent")
    graph.add_edge("agent", "tools")
    graph.add_edge("tools", END)
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        app = graph.compile(checkpointer=saver)
        for prompt in ("one", "two", "three"):
            await app.ainvoke(
                {"messages": [("user", prompt)]}, {"configurable": {"thread_id": "t"}}
            )
    async with open_line(path, [say("ours"), say("again")]) as (session, timeline, model):
        assert [turn.prompt for turn in await timeline.turns()] == ["one", "two", "three"]
        assert (await timeline.rewind(3)).turns == 2
        assert texts(await session.messages())[-1] == "ai: answer 3"
        assert not await session.is_unfinished()
        assert await session.pending() is None
        await send(session, "four")
        assert texts(model.asked[0]["messages"])[-1] == "human: four"
        await timeline.rewind(1)
        await send(session, "five")
        assert texts(await session.messages()) == ["human: five", "ai: again"]
    assert ran == []


class Model:
    """What a thread should be: its course, what was left by id, and what redo brings back."""

    def __init__(self) -> None:
        self.course: list[str] = []
        self.left: dict[str, list[str]] = {}
        self.forward: list[list[str]] = []

    async def back(self, timeline: Timeline, to: int | None) -> None:
        """Undo, or rewind to before turn `to`."""
        if not self.course:
            with pytest.raises(ThreadError):
                await timeline.undo()
            return
        moved = await (timeline.undo() if to is None else timeline.rewind(to))
        self.forward.append(self.course)
        self.left.setdefault(moved.branch, self.course)
        self.course = self.course[: (to or len(self.course)) - 1]
        assert moved.draft == self.forward[-1][len(self.course)]

    async def redo(self, timeline: Timeline) -> None:
        if not self.forward:
            with pytest.raises(ThreadError):
                await timeline.redo()
            return
        await timeline.redo()
        self.course = self.forward.pop()

    async def aside(self, timeline: Timeline, one: Branch) -> None:
        before, self.course = self.course, self.left[one.id]
        moved = await timeline.go_to(one.id)
        if moved.branch:
            self.left.setdefault(moved.branch, before)
        self.forward = []


LONG = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 40)]


@pytest.mark.parametrize("seed", [*range(4), *LONG])
async def test_any_order_of_steps(tmp_path: Path, seed: int) -> None:
    """D10: after whatever was done, the thread has the prompts of its course and no others.

    It is opened anew now and then, so what is remembered and what is stored say the same; and
    whatever was ever said is on some course that can be gone to.
    """
    path, rng, model, said = tmp_path / "m.db", random.Random(seed), Model(), 0
    for _ in range(5):
        async with open_line(path, [say("ok") for _ in range(8)]) as (session, timeline, _):
            for _ in range(6):
                branches = await timeline.branches()
                kind = rng.choice(["send", "send", "undo", "redo", "rewind", "branch"])
                if kind == "send":
                    said += 1
                    await send(session, f"prompt {said}")
                    model.course = [*model.course, f"prompt {said}"]
                    model.forward = []
                elif kind == "redo":
                    await model.redo(timeline)
                elif kind == "branch" and branches:
                    await model.aside(timeline, rng.choice(branches))
                elif kind == "rewind" and model.course:
                    await model.back(timeline, rng.randint(1, len(model.course)))
                elif kind == "undo":
                    await model.back(timeline, None)
                await _compare(session, timeline, model, said)


async def _compare(session: Session, timeline: Timeline, model: Model, said: int) -> None:
    assert texts(await session.messages())[::2] == [f"human: {one}" for one in model.course]
    assert [turn.prompt for turn in await timeline.turns()] == model.course
    known = set(model.course)
    for branch in await timeline.branches():
        turns = [turn.prompt for turn in await timeline.turns(branch.checkpoint_id)]
        assert turns[branch.first_turn - 1] == branch.prompt
        assert len(turns) == branch.first_turn + branch.turns - 1
        known |= set(turns)
    assert known == {f"prompt {n}" for n in range(1, said + 1)}
