"""Whatever a crash or an older program left in state, strict servers get a valid history."""

from __future__ import annotations

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from agent_core.mend import mend
from tests.view_kit import assert_strict, turn


def test_mend_gives_a_lost_call_its_result_and_drops_strays() -> None:
    """Old databases: open calls, orphan results, stored system messages, empty answers."""
    call = {"name": "look", "args": {}, "id": "c1"}
    messages: list[AnyMessage] = [
        SystemMessage("old", id="s"),
        ToolMessage("orphan", tool_call_id="x", id="o"),
        HumanMessage("a", id="h1"),
        AIMessage("", tool_calls=[call], id="a1"),
        HumanMessage("b", id="h2"),
        AIMessage("", id="e"),
        HumanMessage("c", id="h3"),
    ]
    mended = mend(messages)

    assert_strict(mended)
    assert [m.content for m in mended] == [
        "a",
        "",
        "[no result: interrupted]",
        "[stopped]",
        "b",
        "[stopped]",
        "c",
    ]


def test_a_stopped_prompt_is_no_open_request() -> None:
    """What the user stopped is marked so; what failed and is asked again is asked once."""
    failed = AIMessage("", additional_kwargs={"status": "error"}, id="f1")
    stopped = AIMessage("", additional_kwargs={"status": "cancelled"}, id="f2")
    messages: list[AnyMessage] = [
        HumanMessage("hi", id="h1"),
        failed,
        HumanMessage("hi", id="h2"),
        AIMessage("hello", id="a2"),
        HumanMessage("commit everything", id="h3"),
        stopped,
        HumanMessage("what is the status?", id="h4"),
    ]

    tools = [m for m in turn(7, "", prompt="", answer="") if m.id != "h7"]
    assert [
        m.content for m in mend([HumanMessage("go", id="g"), *tools, HumanMessage("", id="e")])
    ] == [
        "go",
        "",
        "",
        "[stopped]",
        "",
    ]
    assert [m.content for m in mend(messages)] == [
        "hi",
        "hello",
        "commit everything",
        "[stopped]",
        "what is the status?",
    ]
