"""Whatever a crash or an older program left in state, strict servers get a valid history."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
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


def test_an_answer_in_front_of_calls_is_one_message_with_them() -> None:
    """Lists of other programs have both apart: their texts stand together, roles alternate."""
    call = {"name": "look", "args": {}, "id": "c1"}
    messages: list[AnyMessage] = [
        HumanMessage("a", id="h1"),
        AIMessage("let me see", id="a1"),
        AIMessage("one moment", tool_calls=[call], id="a2"),
        ToolMessage("seen", tool_call_id="c1", id="t1"),
        AIMessage("", id="a3"),
        AIMessage("", tool_calls=[{**call, "id": "c2"}], id="a4"),
        ToolMessage("again", tool_call_id="c2", id="t2"),
        HumanMessage("b", id="h2"),
    ]
    mended = mend(messages)

    assert_strict(mended)
    assert [(m.id, m.content) for m in mended[:5]] == [
        ("h1", "a"),
        ("a2", "let me see\n\none moment"),
        ("t1", "seen"),
        ("a4", ""),
        ("t2", "again"),
    ]


@st.composite
def any_lists(draw: st.DrawFn) -> list[AnyMessage]:
    """Messages in whatever order, with ids of calls that fit and that do not."""
    messages: list[AnyMessage] = []
    for n in range(draw(st.integers(0, 12))):
        ids = draw(st.lists(st.sampled_from(["c1", "c2", "c3"]), max_size=2, unique=True))
        calls = [{"name": "look", "args": {}, "id": f"{one}.{n}"} for one in ids]
        text = draw(st.sampled_from(["", "text"]))
        result = f"{draw(st.sampled_from(['c1', 'c2']))}.{draw(st.integers(0, 12))}"
        kinds = [
            HumanMessage(text, id=f"h{n}"),
            AIMessage(text, id=f"a{n}"),
            AIMessage(text, tool_calls=calls, id=f"a{n}"),
            ToolMessage(text, tool_call_id=result, id=f"t{n}"),
            SystemMessage(text, id=f"s{n}"),
        ]
        messages.append(draw(st.sampled_from(kinds)))
    return [*messages, HumanMessage("last", id="last")]


@given(any_lists())
def test_any_list_becomes_a_history_for_strict_servers(messages: list[AnyMessage]) -> None:
    """Whatever order an import brings: roles alternate, and what is sent stays as more is said."""
    mended = mend(messages)
    assert_strict(mended)
    more = mend([*messages, AIMessage("ok", id="x"), HumanMessage("on", id="y")])
    assert [m.content for m in more[: len(mended)]] == [m.content for m in mended]
