"""The chain of checkpoints and the turns on it, read by plain SQL."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypedDict

import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Send

from local_agent.memory.chain import Turn, read_chain, read_turns, time_of, turns_of
from local_agent.memory.raw import messages_in, plain_value, text_in
from tests.graph_kit import ScriptedModel, ScriptedTool, call, collect, open_session, say


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as conn:
        yield conn


async def talk(path: Path, *turns: list[Any], thread: str = "t") -> None:
    """One turn for each list of replies, its prompt `prompt N`."""
    replies = [reply for turn in turns for reply in turn]
    tools = [ScriptedTool("look"), ScriptedTool("find")]
    async with open_session(path, ScriptedModel(replies), tools, thread=thread) as session:
        for number, _ in enumerate(turns, 1):
            await collect(session.send(f"prompt {number}"))


async def test_a_turn_is_from_its_prompt_to_the_next(tmp_path: Path) -> None:
    """Number, prompt, tools, and the checkpoints around it; only an "input" starts one."""
    path = tmp_path / "m.db"
    began = datetime.now(UTC) - timedelta(seconds=1)
    calls = call(("look", {}), ("find", {"n": 1}))
    await talk(path, [say("one")], [calls, call(("look", {"n": 2})), say("two")], [say("three")])
    with reading(path) as conn:
        chain, turns = read_chain(conn, "t"), read_turns(conn, "t")

    assert [(t.number, t.prompt, t.tools) for t in turns] == [
        (1, "prompt 1", ()),
        (2, "prompt 2", ("look", "find")),
        (3, "prompt 3", ()),
    ]
    assert turns[0].checkpoint_before is None
    assert turns[1].checkpoint_before == turns[0].checkpoint_end
    assert turns[2].checkpoint_before == turns[1].checkpoint_end
    assert turns[2].checkpoint_end == chain[-1].checkpoint_id
    assert all(turn.is_reachable for turn in turns)
    times = [turn.time for turn in turns if turn.time]
    assert began < times[0] < times[1] < times[2] < datetime.now(UTC)
    assert [step.source for step in chain].count("input") == 3
    assert all(b.parent == a.checkpoint_id for a, b in pairwise(chain))


async def test_other_threads_and_unknown_ones(tmp_path: Path) -> None:
    """Nothing of another thread is read; one that is not there has no chain."""
    path = tmp_path / "m.db"
    await talk(path, [say("one")])
    await talk(path, [say("one")], [say("two")], thread="other")
    with reading(path) as conn:
        assert len(read_turns(conn, "t")) == 1
        assert read_chain(conn, "nobody") == []
        assert read_turns(conn, "nobody") == []


async def test_a_chain_can_end_earlier(tmp_path: Path) -> None:
    """From any checkpoint as head; the turns behind it are not there."""
    path = tmp_path / "m.db"
    await talk(path, [say("one")], [say("two")])
    with reading(path) as conn:
        first = read_turns(conn, "t")[0]
        turns = read_turns(conn, "t", first.checkpoint_end)
        assert turns == [first]
        assert turns_of(read_chain(conn, "t", first.checkpoint_end))[0].checkpoint_end == (
            first.checkpoint_end
        )


async def test_a_prompt_is_known_before_anything_came_of_it(tmp_path: Path) -> None:
    """Killed right behind the prompt: its checkpoint alone holds it."""
    path = tmp_path / "m.db"
    await talk(path, [say("one")], [say("two")])
    with reading(path) as conn:
        start = read_turns(conn, "t")[1].checkpoint_start
        conn.execute("DELETE FROM checkpoints WHERE checkpoint_id > ?", (start,))
        conn.execute("DELETE FROM writes WHERE checkpoint_id >= ?", (start,))
        turns = read_turns(conn, "t")

    assert [turn.prompt for turn in turns] == ["prompt 1", "prompt 2"]
    assert turns[1].checkpoint_end == start


async def test_what_is_only_in_the_root_is_listed(tmp_path: Path) -> None:
    """K09: turns whose checkpoints were dropped are there, and cannot be turned back to."""
    path = tmp_path / "m.db"
    await talk(path, [say("one")], [say("two")], [say("three")])
    async with open_session(path, ScriptedModel([say("four")]), []) as session:
        messages = await session.messages()
        from langgraph.types import Overwrite

        graph, config = session._graph, session._config
        await graph.aupdate_state(config, {"messages": Overwrite(messages)}, as_node="agent")
        with reading(path) as conn:
            kept = read_chain(conn, "t")[-1].checkpoint_id
            conn.execute("DELETE FROM checkpoints WHERE checkpoint_id != ?", (kept,))
            conn.execute("DELETE FROM writes WHERE checkpoint_id != ?", (kept,))
            conn.commit()
        await collect(session.send("prompt 4"))
        assert len(await session.messages()) == 8
    with reading(path) as conn:
        turns = read_turns(conn, "t")

    assert [(t.number, t.prompt, t.is_reachable) for t in turns] == [
        (1, "prompt 1", False),
        (2, "prompt 2", False),
        (3, "prompt 3", False),
        (4, "prompt 4", True),
    ]
    assert turns[0] == Turn(1, prompt="prompt 1")
    assert turns[3].checkpoint_before == kept


async def test_a_database_of_the_stock_saver(tmp_path: Path) -> None:
    """Written by `add_messages` on AsyncSqliteSaver, also with prompts as pairs and texts."""
    path = tmp_path / "m.db"

    class Plain(TypedDict):
        messages: Annotated[list[Any], add_messages]

    graph = StateGraph(Plain)
    graph.add_node("agent", lambda state: {"messages": [AIMessage("answer")]})
    graph.add_edge(START, "agent")
    graph.add_edge("agent", END)
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        app = graph.compile(checkpointer=saver)
        for prompt in (("user", "one"), "two", {"role": "user", "content": "three"}):
            await app.ainvoke({"messages": [prompt]}, {"configurable": {"thread_id": "t"}})
        last = {"messages": HumanMessage("four")}
        await app.ainvoke(last, {"configurable": {"thread_id": "t"}})
    with reading(path) as conn:
        turns = read_turns(conn, "t")
        conn.execute("ALTER TABLE writes DROP COLUMN task_path")  # as still older ones were
        assert read_turns(conn, "t") == turns

    assert [turn.prompt for turn in turns] == ["one", "two", "three", "four"]
    assert [turn.is_reachable for turn in turns] == [True] * 4


VALUES = (
    None,
    "text",
    [1, {"a": [True, None]}],
    HumanMessage("hi", id="h1"),
    [AIMessage("", tool_calls=[{"name": "look", "args": {"n": 1}, "id": "c1"}])],
    Send("tools", {"call": 1}),
    {"__start__": {"messages": [("user", "one")]}},
)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_stored_values_are_read_as_plain_data(value: Any) -> None:
    """No class comes back; a message is the mapping of its fields, a `Send` its arguments."""
    plain = plain_value(*JsonPlusSerializer().dumps_typed(value))
    json.dumps(plain)
    if isinstance(value, HumanMessage):
        assert (plain["type"], plain["content"], plain["id"]) == ("human", "hi", "h1")
    elif isinstance(value, Send):
        assert list(plain)[:2] == ["tools", {"call": 1}]
    elif isinstance(value, list) and isinstance(value[0], AIMessage):
        assert messages_in(plain)[0]["tool_calls"][0]["name"] == "look"


@given(st.binary(max_size=60), st.sampled_from(["msgpack", "msgpack+aes", "json", "null"]))
def test_what_cannot_be_read_is_nothing(blob: bytes, kind: str) -> None:
    """Another serializer's values and damaged ones give None or something plain, never an error."""
    value = plain_value(kind, blob)
    for message in messages_in(value):
        text_in(message)


def test_endless_nesting_is_nothing() -> None:
    """A value that is packed into itself many times over is damaged."""
    blob = b"\x90"
    for _ in range(5000):
        blob = ormsgpack.packb(ormsgpack.Ext(7, blob))
    assert plain_value("msgpack", blob) is None


def test_a_checkpoint_id_that_is_no_uuid_has_no_time() -> None:
    """Ids of other programs give the first instant there is."""
    assert time_of("c1") == datetime(1970, 1, 1, tzinfo=UTC)
