"""The lookup tools in the graph: when they are offered, and what a call of one does."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage

from agent_core.limits import Limits
from agent_core.offer import lookups_beside
from agent_core.toolset import Choice, OneRoute
from context import Window, text_of
from local_agent.events import ToolFinished, ToolStarted
from tests.graph_kit import ScriptedModel, ScriptedTool, call, collect, open_session, say
from tests.view_kit import make_text

LOOKUPS = ["read_result", "search_history"]


def names(asked: Mapping[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in asked["tools"]]


def large(text: str) -> ScriptedTool:
    async def run(args: Mapping[str, Any]) -> str:
        return text

    return ScriptedTool("look", run=run)


async def test_a_large_result_brings_the_lookups_and_one_call_reads_it(tmp_path: Path) -> None:
    """From the first result on that is not shown whole; not before, and from then on always."""
    text = f"{make_text('log', 9000, 1)}\nthe code word is heron\n{make_text('log', 9000, 2)}"
    model = ScriptedModel(
        [
            call(("look", {})),
            call(("read_result", {"handle": "r1", "grep": "code word"})),
            say("heron"),
            say("hello"),
        ]
    )
    async with open_session(tmp_path / "m.db", model, [large(text)]) as session:
        first = await collect(session.send("what is the code word?"))
        await collect(session.send("hello"))
        messages = await session.messages()

    assert [names(asked) for asked in model.asked] == [["look"], *[["look", *LOOKUPS]] * 3]
    shown = next(m for m in model.asked[1]["messages"] if isinstance(m, ToolMessage))
    assert "code word" not in text_of(shown.content)
    assert "r1" in text_of(shown.content)
    started = [e for e in first if isinstance(e, ToolStarted)]
    assert [(e.name, e.server, e.tool) for e in started][1] == (
        "read_result",
        "agent",
        "read_result",
    )
    found = [e for e in first if isinstance(e, ToolFinished)][1]
    assert found.status == "success"
    assert "the code word is heron" in found.text
    results = [m for m in messages if isinstance(m, ToolMessage)]
    assert [m.additional_kwargs["handle"] for m in results] == ["r1", "r2"]
    assert text_of(results[0].content) == text  # the state has it whole


async def test_a_lookup_is_in_the_journal_until_the_turn_ends(tmp_path: Path) -> None:
    """As any other reading: a crash behind it loses nothing that was shown."""
    model = ScriptedModel([call(("search_history", {"query": "anything"})), say("no")])
    async with open_session(tmp_path / "m.db", model, []) as session:
        last = (await collect(session.send("go")))[-1]

    with closing(sqlite3.connect(tmp_path / "m.db")) as conn:
        rows = conn.execute("SELECT tool, is_write, outcome, result FROM tool_runs").fetchall()
    assert rows == [("search_history", 0, "success", None)]
    assert last.status == "ok"


async def test_lookups_and_tools_run_in_call_order(tmp_path: Path) -> None:
    """A message with both has all its results, in the order of its calls."""
    model = ScriptedModel(
        [
            call(("look", {"n": 1}), ("search_history", {"query": "x"}), ("look", {"n": 2})),
            say("done"),
        ]
    )
    tool = ScriptedTool("look")
    async with open_session(tmp_path / "m.db", model, [tool]) as session:
        last = (await collect(session.send("go x")))[-1]

    assert last.status == "ok"
    assert tool.ran == [{"n": 1}, {"n": 2}]
    sent = [m.name for m in model.asked[1]["messages"] if isinstance(m, ToolMessage)]
    assert sent == ["look", "search_history", "look"]


async def test_a_route_without_tools_has_the_lookups(tmp_path: Path) -> None:
    """What was trimmed can be looked up on the route "general" too."""

    class Turns(OneRoute):
        async def __call__(self, messages: Any, values: Any) -> Choice:
            return Choice("shop" if len(messages) == 1 else "general")

    model = ScriptedModel([call(("look", {})), say("seen"), say("hello")])
    tool = large(make_text("english", 20_000, 1))
    routes = {"shop": ["look"], "general": []}
    async with open_session(
        tmp_path / "m.db", model, [tool], routes=routes, route=Turns()
    ) as session:
        await collect(session.send("look"))
        await collect(session.send("hello"))

    assert names(model.asked[-1]) == LOOKUPS


async def test_a_tool_of_the_same_name_keeps_it(tmp_path: Path) -> None:
    """A server's `read_result` is what the model calls by that name; ours is agent__read_result."""
    text = f"{make_text('english', 20_000, 1)} heron {make_text('english', 20_000, 2)}"
    theirs = ScriptedTool("read_result")
    model = ScriptedModel(
        [
            call(("look", {})),
            call(("read_result", {}), ("agent__read_result", {"handle": "r1", "grep": "heron"})),
            say("done"),
        ]
    )
    async with open_session(tmp_path / "m.db", model, [large(text), theirs]) as session:
        events = await collect(session.send("go"))

    assert names(model.asked[1]) == ["look", "read_result", "agent__read_result", "search_history"]
    assert theirs.ran == [{}]
    assert "heron" in [e for e in events if isinstance(e, ToolFinished)][2].text


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        ([], ["read_result", "search_history"]),
        (["search_history"], ["read_result", "agent__search_history"]),
        (
            ["read_result", "agent__read_result"],
            ["agent__read_result_2", "search_history"],
        ),
    ],
)
def test_names_of_lookups_are_free(taken: list[str], expected: list[str]) -> None:
    """No tool is shadowed, whatever the others are called."""
    assert list(lookups_beside(taken)) == expected


@pytest.mark.parametrize("strategy", ["trim", "last"])
async def test_other_strategies_offer_them_once_something_is_left_out(
    tmp_path: Path, strategy: Any
) -> None:
    """What the last messages do not have can be searched for."""
    model = ScriptedModel([say("one"), say("two"), say("three")])
    limits = Limits(strategy=strategy, last_messages=2, trim_tokens=20)
    async with open_session(
        tmp_path / "m.db", model, [], limits=limits, window=Window(4096)
    ) as session:
        for prompt in ("first question", "second question", "third question"):
            await collect(session.send(prompt))

    assert [names(asked) for asked in model.asked] == [[], LOOKUPS, LOOKUPS]
    assert [text_of(m.content) for m in model.asked[2]["messages"][1:]] == ["third question"]
