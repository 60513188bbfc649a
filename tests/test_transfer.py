"""A thread taken out as JSON and brought in: the same state on every course, and it goes on."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import os
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from agent_graph import State
from local_agent.errors import AgentError, StorageError, ThreadError, TransferError
from local_agent.events import ApprovalRequested
from local_agent.memory.heads import config_of
from local_agent.memory.saver import StrictSerializer
from local_agent.session import Session
from local_agent.threads.prune import prune_threads
from local_agent.timeline import Timeline
from local_agent.timeline.edits import edit_prompt, edit_result
from local_agent.timeline.looking import moment
from local_agent.transfer.check import Place
from local_agent.transfer.collect import FIELDS, NOT_TAKEN
from local_agent.transfer.cut import last_turns
from local_agent.transfer.database import bring_in, read_thread
from local_agent.transfer.document import Document
from local_agent.transfer.files import read_file, write_file
from local_agent.transfer.json_form import from_json, to_json
from local_agent.transfer.messages import message_from_json, message_to_json
from local_agent.transfer.plain import NotPlain, depth_of, from_plain, to_plain
from local_agent.transfer.read import Found, documents_in
from tests.foreign import FILE, WHOLE
from tests.graph_kit import ScriptedTool, call, collect, say
from tests.timeline_kit import answer, open_line, send, texts

WORDS = st.text(min_size=1, max_size=12).filter(str.strip)
STEPS = st.one_of(
    st.tuples(st.just("say"), WORDS),
    st.tuples(st.just("look"), st.integers(1, 3)),
    st.tuples(st.just("write"), st.booleans()),
    st.tuples(st.just("rewind"), st.floats(0, 1)),
    st.tuples(st.sampled_from(["undo", "redo"]), st.none()),
    st.tuples(st.just("branch"), st.floats(0, 1)),
    st.tuples(st.just("edit"), st.floats(0, 1)),
    st.tuples(st.just("prompt"), st.floats(0, 1)),
    st.tuples(st.just("summary"), WORDS),
)


def tools() -> list[ScriptedTool]:
    return [ScriptedTool("look"), ScriptedTool("write", read_only=False)]


class Endless(list[Any]):
    """Replies that never run out: what was planned, and then an answer."""

    def pop(self, at: Any = -1) -> Any:
        return super().pop(0) if self else say("answer")


async def play(path: Path, steps: Sequence[tuple[str, Any]]) -> None:
    """Let a thread go through the steps; what cannot be done just then is passed over."""
    replies = Endless()
    async with open_line(path, [], tools()) as (session, timeline, model):
        model.replies = replies
        await send(session, "begin")
        for kind, value in steps:
            replies.clear()
            try:
                await step(session, timeline, replies, kind, value)
            except (ThreadError, AgentError):
                continue


async def step(
    session: Session, timeline: Timeline, replies: list[Any], kind: str, value: Any
) -> None:
    if kind in ("rewind", "undo", "redo", "branch", "edit", "prompt"):
        await turned(session, timeline, kind, value)
    elif kind == "summary":
        messages = await session.messages()
        if not messages:
            return
        upto = messages[len(messages) // 2].id
        values = {"summary": value, "summary_upto": upto, "facts": [value, "fact"]}
        await timeline.graph.aupdate_state(config_of("t"), values, as_node="agent")
    elif kind == "look":
        replies.append(call(*[("look", {"n": n, "at": uuid4().hex}) for n in range(value)]))
        await send(session, "look")
    elif kind == "write":
        replies.append(call(("write", {"n": uuid4().hex})))
        await send(session, "write", value)
    else:
        await send(session, value)


async def turned(session: Session, timeline: Timeline, kind: str, value: Any) -> None:
    """A step back, forward or aside; `value` says how far, from 0 to 1."""
    turns, branches = await timeline.turns(), await timeline.branches()
    at = 1 + int((value or 0) * max(len(turns) - 1, 0))
    if kind in ("undo", "redo"):
        await getattr(timeline, kind)()
    elif kind == "rewind":
        await timeline.rewind(at)
    elif kind == "branch" and branches:
        await timeline.go_to(branches[int(value * (len(branches) - 1))].checkpoint_id)
    elif kind in ("edit", "prompt"):
        if kind == "edit":
            await edit_result(timeline, f"r{at}", f"corrected {at}")
        else:
            await edit_prompt(timeline, at, f"another {at}")
        await answer(session, (await collect(session.proceed()))[-1])


async def moved(document: Document, path: Path, name: str = "t") -> Document:
    """The document by way of its text and another database."""
    text = json.dumps(to_json(document)[0])
    (found,) = documents_in(text.encode(), "other")
    assert found.said == ()
    await bring_in(path, [found], name)
    return read_thread(path, name)


async def state_of(path: Path, name: str = "t") -> dict[str, Any]:
    """The state as LangGraph loads it, without what is not taken along."""
    async with open_line(path, thread=name) as (_, timeline, _):
        state = await timeline.graph.aget_state(config_of(name))
        assert state.next == ()
        return {k: v for k, v in state.values.items() if k not in NOT_TAKEN}


async def courses_of(path: Path, name: str = "t") -> list[Any]:
    """The turns of the thread and of each branch, with ids, times and prompts, and their state."""
    found: list[Any] = []
    async with open_line(path, thread=name) as (_, timeline, _):
        branches = await timeline.branches()
        for head in [None, *(one.checkpoint_id for one in branches)]:
            turns = await timeline.turns(head)
            found.append([(t.number, t.prompt, t.tools, t.time, t.is_reachable) for t in turns])
            state = await timeline.graph.aget_state(config_of(name, head))
            found.append({k: v for k, v in state.values.items() if k not in NOT_TAKEN})
        found.append([replace(one, left_for=None) for one in branches])
    return found


@settings(
    max_examples=15,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to make a failure smaller takes minutes
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(steps=st.lists(STEPS, max_size=9))
def test_export_and_import_are_each_others_reverse(steps: list[tuple[str, Any]]) -> None:
    """Whatever a thread went through: out, in, and out again is the same text, and the same state.

    On every course: messages with ids and all they carry, summary, facts, where turns begin, and
    what redo brings back. The copy goes on, turns back and forward as the first one would.
    """

    async def check(folder: Path) -> None:
        one, two = folder / "one.db", folder / "two.db"
        await play(one, steps)
        document = read_thread(one, "t")
        copy = await moved(document, two)
        assert to_json(copy) == to_json(document)
        assert await state_of(two) == await state_of(one)
        assert await courses_of(two) == await courses_of(one)
        lines = []
        for path in (one, two):
            async with open_line(path, [say("new")], tools()) as (session, timeline, model):
                await send(session, "and on")
                assert texts(model.asked[0]["messages"])[-1].endswith("and on")
                await timeline.undo()
                if await timeline.turns():
                    await timeline.rewind(1)
                    assert await session.messages() == []
                    await timeline.redo()
                await timeline.redo()
                lines.append(texts(await session.messages()))
        assert lines[0] == lines[1]
        assert lines[0][-1] == "ai: new"

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check(Path(folder)))


async def test_a_result_is_edited_after_the_import(tmp_path: Path) -> None:
    """The steps within a turn are there too: later ones run again, and only those."""
    path, two = tmp_path / "one.db", tmp_path / "two.db"
    replies = [call(("look", {"n": 1})), call(("look", {"n": 2})), say("done")]
    async with open_line(path, replies, tools()) as (session, _, _):
        await send(session, "look twice")
    await moved(read_thread(path, "t"), two)
    ours = tools()
    async with open_line(two, [say("after r1")], ours) as (session, timeline, model):
        await edit_result(timeline, "r1", "corrected")
        await collect(session.proceed())
        assert texts(model.asked[0]["messages"])[-1] == "tool: corrected"
        assert [m.content for m in await session.messages()][-1] == "after r1"
        assert len(await timeline.branches()) == 1
    assert ours[0].ran == []


async def test_what_the_model_was_sent(tmp_path: Path) -> None:
    """The request for each answer can be made again after the import, exactly as it was sent."""
    path, two = tmp_path / "one.db", tmp_path / "two.db"
    await play(path, [("look", 2), ("say", "more")])
    document = read_thread(path, "t")
    assert len(document.bases) == 1
    await moved(document, two)
    requests: list[Any] = []
    for db in (path, two):
        async with open_line(db) as (_, timeline, _):
            asking = [step.id for step in document.steps if step.asks]
            there = [await moment(timeline, one) for one in asking]
            requests.append([texts(m.sent.messages) for m in there if m.sent and m.sent.is_exact])
    assert len(requests[0]) == 4
    assert requests[0] == requests[1]


async def test_a_fork_and_its_parent(tmp_path: Path) -> None:
    """A copy of a thread is taken out whole, and says of which it is one."""
    path = tmp_path / "one.db"
    await play(path, [("look", 2), ("say", "more"), ("summary", "S")])
    async with open_line(path) as (_, timeline, _):
        await timeline.fork("fork", 2)
    document = read_thread(path, "fork")
    assert (document.parent, document.turns) == ("t", 2)
    copy = await moved(document, tmp_path / "two.db", "fork")
    assert copy == document


async def test_approvals_and_the_journal_stay_here(tmp_path: Path) -> None:
    """A yes for the thread is not in the file, and is asked for again; nothing counts as run."""
    path, two = tmp_path / "one.db", tmp_path / "two.db"
    ours = tools()
    replies = [call(("write", {"n": 1})), say("done")]
    async with open_line(path, replies, ours) as (session, timeline, _):
        await send(session, "write", True)
        state = await timeline.graph.aget_state(config_of("t"))
        assert state.values["decisions"]
    document = read_thread(path, "t")
    text = json.dumps(to_json(document)[0])
    for key in NOT_TAKEN:
        assert f'"{key}"' not in text
    await moved(document, two)
    async with open_line(two, [call(("write", {"n": 1}))], ours) as (session, timeline, _):
        assert await timeline.memory.journal.find("t", ours[0].name, "c1") is None
        asked = await send(session, "again")
        assert isinstance(asked, ApprovalRequested)
        assert asked.calls[0].why == "write"


async def test_an_open_turn_is_closed_by_the_import(tmp_path: Path) -> None:
    """What waited for a yes does not wait in the copy, and does not run; the thread goes on."""
    path, two = tmp_path / "one.db", tmp_path / "two.db"
    async with open_line(path, [call(("write", {"n": 1}))], tools()) as (session, _, _):
        await send(session, "write")
    document = read_thread(path, "t")
    assert document.is_open
    await moved(document, two)
    ours = tools()
    async with open_line(two, [say("fine")], ours) as (session, _, model):
        assert await session.pending() is None
        assert not await session.is_unfinished()
        assert (await send(session, "next")).status == "ok"
        assert texts(model.asked[0]["messages"])[2] == "tool: [no result: interrupted]"
    assert ours[1].ran == []


class Killed(BaseException):
    """Stands for kill -9 in a tool."""


async def killed_in_a_tool(path: Path) -> None:
    """Two reads at once: the first has its result beside the step, the second was killed."""
    written = "SELECT 1 FROM writes WHERE instr(value, CAST('the first result' AS BLOB))"

    async def first(args: Any) -> str:
        return "the first result"

    async def second(args: Any) -> str:
        with closing(sqlite3.connect(path)) as conn:
            while conn.execute(written).fetchone() is None:
                await asyncio.sleep(0.01)
        raise Killed

    ours = [ScriptedTool("first", run=first), ScriptedTool("second", run=second)]
    reply = call(("first", {}), ("second", {}))
    async with open_line(path, [say("hi"), reply], ours) as (session, _, _):
        await send(session, "hello")
        with pytest.raises(Killed):
            await send(session, "both")


async def test_results_that_wait_beside_a_step_are_taken_along(tmp_path: Path) -> None:
    """A thread killed in a tool: what its sister had come to is in the file, and in the import."""
    path, two = tmp_path / "one.db", tmp_path / "two.db"
    await killed_in_a_tool(path)
    document = read_thread(path, "t")
    assert document.is_open
    assert texts(document.messages) == [
        *("human: hello", "ai: hi", "human: both", "ai: "),
        "tool: the first result",
    ]
    assert to_json(read_thread(path, "t")) == to_json(document)
    copy = await moved(document, two)
    assert copy == replace(document, is_open=False)
    async with open_line(two, [say("fine")], tools()) as (session, _, model):
        assert not await session.is_unfinished()
        assert (await send(session, "next")).status == "ok"
        assert texts(model.asked[0]["messages"])[3:] == [
            *("ai: ", "tool: the first result", "tool: [no result: interrupted]"),
            *("ai: [stopped]", "human: next"),
        ]


async def test_a_branch_that_was_left_in_a_tool_keeps_its_results(tmp_path: Path) -> None:
    """Taken back and exported: the way back to it has what was done on it."""
    path, two = tmp_path / "one.db", tmp_path / "two.db"
    await killed_in_a_tool(path)
    async with open_line(path) as (_, timeline, _):
        await timeline.undo()
    document = read_thread(path, "t")
    (branch,) = document.branches
    assert texts(document.messages_at(branch.end))[-1] == "tool: the first result"
    assert await moved(document, two) == document
    async with open_line(two) as (session, timeline, _):
        await timeline.redo()
        assert texts(await session.messages())[-1] == "tool: the first result"
    assert not read_thread(two, "t").damage
    async with open_line(path) as (_, timeline, _):
        await timeline.redo()
    assert not read_thread(path, "t").damage


async def test_a_thread_that_was_pruned_inside_a_turn_is_not_called_damaged(tmp_path: Path) -> None:
    """Its entry in the list is older than the open turn; the sum over its rows is not."""
    path = tmp_path / "one.db"
    await killed_in_a_tool(path)
    said = texts(read_thread(path, "t").messages)
    await prune_threads(path, ["t"], 1)
    document = read_thread(path, "t")
    assert (document.damage, document.is_open, texts(document.messages)) == ("", True, said)


def test_a_file_that_was_killed_before_its_tables_has_no_thread(tmp_path: Path) -> None:
    """It is the beginning of ours, and nobody is told to move it away."""
    path = tmp_path / "one.db"
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("PRAGMA application_id=5")
    with pytest.raises(ThreadError, match="There is no thread 't'"):
        read_thread(path, "t")


async def test_a_prompt_that_was_not_taken_is_taken_along(tmp_path: Path) -> None:
    """A thread killed right behind its prompt."""
    path = tmp_path / "one.db"
    async with open_line(path, [say("hi"), say("never")]) as (session, timeline, _):
        await send(session, "hello")
        await send(session, "again")
        start = (await timeline.turns())[1].checkpoint_start
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("DELETE FROM checkpoints WHERE checkpoint_id > ?", (start,))
        conn.execute("DELETE FROM writes WHERE checkpoint_id >= ?", (start,))
        conn.execute("DELETE FROM agent_sums")  # of a turn that had not ended
        conn.commit()
    document = read_thread(path, "t")
    assert texts(document.messages) == ["human: hello", "ai: hi", "human: again"]
    assert (await moved(document, tmp_path / "two.db")).messages == document.messages


@pytest.mark.parametrize("thread", WHOLE)
async def test_threads_of_other_programs_are_taken_out_too(tmp_path: Path, thread: str) -> None:
    """The plain saver keeps the whole list in every checkpoint; in the file it is there once."""
    document = read_thread(FILE, thread)
    text = json.dumps(to_json(document)[0])
    assert text.count('"content"') == len(document.messages)
    copy = await moved(replace(document, is_open=False), tmp_path / "two.db")
    assert copy.messages == document.messages
    if thread == "chat":
        assert [type(m) for m in copy.messages[:2]] == [SystemMessage, HumanMessage]


# -- a part of it ---------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9])
async def test_the_last_turns(tmp_path: Path, count: int) -> None:
    """--last: just these turns, with the summary of what came before; an import of it goes on."""
    path, two = tmp_path / "one.db", tmp_path / "two.db"
    steps = [("say", "two"), ("look", 2), ("summary", "S"), ("rewind", 1.0), ("say", "three")]
    await play(path, steps)
    document = read_thread(path, "t")
    part = last_turns(document, count)
    assert part.turns == min(count, document.turns)
    assert part.left_out == document.turns - part.turns
    assert part.messages == document.messages[len(document.messages) - len(part.messages) :]
    assert part.state == document.state
    copy = await moved(part, two)
    assert copy.messages == part.messages
    async with open_line(two, [say("on")]) as (session, timeline, _):
        assert (await send(session, "go on")).status == "ok"
        assert len(await timeline.turns()) == part.turns + 1


# -- values and messages --------------------------------------------------------------------------

FLOATS = st.floats(allow_nan=False) | st.just(math.nan)  # there is more than one NaN
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | FLOATS | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=4) | st.sampled_from(["$bytes", "$x"]), inner)
        | st.dictionaries(st.integers(-9, 9), inner, max_size=2)
        | st.binary(max_size=9)
    ),
    max_leaves=12,
)
ARGS = st.dictionaries(st.text(max_size=5), PLAIN, max_size=3)
IDS = st.uuids().map(str)


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same types; a NaN is one too."""
    return repr(one) == repr(other)


@given(value=PLAIN)
def test_any_value_is_json_and_back(value: Any) -> None:
    """Bytes, odd floats, keys that are no texts, keys that look like marks: the same comes back."""
    text = json.dumps(to_plain(value), allow_nan=False)
    assert same(from_plain(json.loads(text)), json.loads(json.dumps(None)) or _without(value))


def _without(value: Any) -> Any:
    """`value` as the database can hold it: no halves of surrogate pairs."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_without(key): _without(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without(item) for item in value]
    return value


TEXT = st.text(st.characters(blacklist_categories=["Cs"]), max_size=20)


@st.composite
def messages(draw: Any) -> AnyMessage:
    kwargs = draw(st.dictionaries(st.sampled_from(["a", "b"]), PLAIN, max_size=2))
    base: dict[str, Any] = {"id": draw(IDS), "additional_kwargs": _without(kwargs)}
    content: Any = draw(TEXT | st.lists(TEXT | st.just({"type": "text", "text": "x"}), max_size=2))
    kind = draw(st.sampled_from(["human", "system", "ai", "tool"]))
    if kind == "human":
        return HumanMessage(content, **base)
    if kind == "system":
        return SystemMessage(content, **base)
    if kind == "tool":
        outcome = draw(st.sampled_from(["success", "error"]))
        return ToolMessage(content, tool_call_id=draw(TEXT), status=outcome, name="x", **base)
    calls = [
        {"name": draw(TEXT), "args": _without(draw(ARGS)), "id": draw(IDS), "type": "tool_call"}
        for _ in range(draw(st.integers(0, 2)))
    ]
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    return AIMessage(
        content, tool_calls=calls, usage_metadata=draw(st.sampled_from([None, usage])), **base
    )


@given(message=messages())
def test_any_message_is_json_and_back(message: AnyMessage) -> None:
    """What comes back is stored byte for byte as the message was."""
    text = json.dumps(message_to_json(message), allow_nan=False)
    back = message_from_json(json.loads(text), Place("m"))
    assert type(back) is type(message)
    serde = StrictSerializer("x")
    assert serde.dumps_typed(back) == serde.dumps_typed(message)


def test_a_value_of_another_kind_is_its_text() -> None:
    """What JSON cannot hold, and we never store, is not passed over in silence."""
    lost: list[Any] = []
    message = HumanMessage("x", id="1", additional_kwargs={"when": {1, 2}})
    assert message_to_json(message, lost.append)["additional_kwargs"] == {"when": "{1, 2}"}
    assert lost == [{1, 2}]


def test_depth_is_counted_without_recursion() -> None:
    """A value deeper than the stack is only said to be deep."""
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert depth_of(deep, 200) == 201
    assert [depth_of(v) for v in (1, [], [[1]], {"a": {"b": [1]}})] == [0, 1, 2, 3]
    while deep:  # taken apart by hand: the interpreter would do it recursively
        deep = deep.pop()


@pytest.mark.parametrize("value", [{"$x": 1}, {"$bytes": 1}, {"$float": "x"}, {"$pairs": [1]}])
def test_an_unknown_mark_is_refused(value: Any) -> None:
    """A mark that says nothing would be lost or misread."""
    with pytest.raises(NotPlain):
        from_plain(value)


def test_every_field_of_the_state_is_decided_about() -> None:
    """A new field is taken along; what a person allowed, and what was started, never is."""
    assert {*FIELDS, *NOT_TAKEN, "messages"} == set(get_type_hints(State))


async def test_a_name_that_is_taken(tmp_path: Path) -> None:
    """A thread is never overwritten, and of several either all are put in or none."""
    path = tmp_path / "m.db"
    await play(path, [])
    document = read_thread(path, "t")
    found = [Found(replace(document, name=name)) for name in ("new", "t")]
    with pytest.raises(ThreadError, match="'t' already"):
        await bring_in(path, found, None)
    with pytest.raises(ThreadError, match="no thread 'new'"):
        read_thread(path, "new")
    with pytest.raises(TransferError, match="two threads"):
        await bring_in(path, [found[0], found[0]], None)
    names = [one.name for one in await bring_in(path, found, "both")]
    assert names == ["both 1", "both 2"]


async def test_a_damaged_thread_is_an_error_of_its_own(tmp_path: Path) -> None:
    """D06: it is named, and the others can still be taken out, also of a file that is damaged."""
    assert read_thread(FILE, "chat").turns == 2
    for thread in ("pickled", "torn"):
        with pytest.raises(StorageError, match=f"thread '{thread}' cannot be read"):
            read_thread(FILE, thread)
    with pytest.raises(ThreadError, match="no thread"):
        read_thread(tmp_path / "none.db", "t")


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """One that exists stays, unless it is to be replaced; a pipe is written to; nothing is left."""
    path = tmp_path / "t.json"
    write_file(path, "one")
    with pytest.raises(TransferError, match=r"t\.json exists already\. Do so"):
        write_file(path, "two", hint="Do so.")
    assert path.read_text() == "one"
    write_file(path, "two", force=True)
    assert path.read_text() == "two"
    with pytest.raises(TransferError, match="is a folder"):
        write_file(tmp_path, "x", force=True)
    for place in (tmp_path / "none" / "x", path / "x"):
        with pytest.raises(TransferError, match="cannot be written"):
            write_file(place, "x")
    assert [p.name for p in tmp_path.iterdir()] == ["t.json"]
    if hasattr(os, "mkfifo"):
        assert (path.stat().st_mode & 0o777, read_file(str(path))) == (0o600, b"two")
        write_file(Path(os.devnull), "x")
        full = Path("/dev/full")
        if full.exists():
            with pytest.raises(TransferError, match="No space left"):
                write_file(full, "x")


def test_the_file_says_what_it_is() -> None:
    """Format and version come first, and an import of the same text is the same document."""
    document = read_thread(FILE, "chat")
    table, _ = to_json(document)
    assert list(itertools.islice(table.items(), 2)) == [
        ("format", "local-agent-thread"),
        ("version", 1),
    ]
    assert from_json(json.loads(json.dumps(table))) == document
