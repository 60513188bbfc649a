"""A view that always fits: whatever is in state, in whatever room."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from agent_core.fit import fit
from agent_core.limits import Limits
from agent_core.view import Marks
from context import PromptTooLong, Window
from tests.view_kit import assert_strict, threads, turn


@settings(max_examples=150, deadline=None)
@given(threads(), st.sampled_from([1024, 4096, 8192]))
def test_a_view_fits_and_is_a_valid_history(messages: list[AnyMessage], length: int) -> None:
    """Whatever is in state, the view is in the room and strict servers take it."""
    window = Window(length)
    room = window.room(100) - 100
    before = [m.model_dump() for m in messages]
    view = fit(messages, Marks(), Limits(), window, room).view

    assert window.tokens(view.messages) <= room
    assert_strict(view.messages)
    assert [m.model_dump() for m in messages] == before
    last_prompt = next(m for m in reversed(messages) if isinstance(m, HumanMessage))
    assert any(m.id == last_prompt.id or isinstance(m, HumanMessage) for m in view.messages)


@pytest.mark.parametrize("keep", range(1, 13))
def test_ten_parallel_calls_stay_together(keep: int) -> None:
    """K01: wherever the cut falls, calls and results go or stay together."""
    calls = [{"name": "look", "args": {"n": n}, "id": f"c{n}"} for n in range(10)]
    group: list[AnyMessage] = [
        HumanMessage("go " * 100, id="h"),
        AIMessage("", tool_calls=calls, id="a"),
        *(ToolMessage("r" * 400, tool_call_id=f"c{n}", id=f"t{n}") for n in range(10)),
        AIMessage("done", id="b"),
    ]
    later = [m for n in range(keep) for m in turn(n, "x" * 500)]
    view = fit([*group, *later], Marks(), Limits(), Window(4096), 1200).view

    assert_strict(view.messages)


def test_the_newest_result_is_cut_at_both_ends() -> None:
    """M22: 900,000 characters on one line: head, tail, and what was left out."""
    messages = turn(0, "A" + "x" * 900_000 + "Z")[:3]
    window = Window(4096)
    fitted = fit(messages, Marks(), Limits(), window, window.room(0))
    view = fitted.view

    text = str(view.messages[2].content)
    assert text.startswith("A")
    assert text.endswith("Z")
    assert "of 900002 characters left out" in text
    assert fitted.tokens <= window.room(0)


def test_four_large_results_of_one_message_fit() -> None:
    """M22: four parallel results of some 3,000 tokens each fit 4,096 together."""
    calls = [{"name": "look", "args": {}, "id": f"c{n}"} for n in range(4)]
    messages: list[AnyMessage] = [
        HumanMessage("go", id="h"),
        AIMessage("", tool_calls=calls, id="a"),
        *(ToolMessage("word " * 2400, tool_call_id=f"c{n}", id=f"t{n}") for n in range(4)),
    ]
    window = Window(4096)
    fitted = fit(messages, Marks(), Limits(), window, window.room(0))
    view = fitted.view

    assert fitted.tokens <= window.room(0)
    assert all(str(m.content).startswith("word") for m in view.messages[2:])


def test_what_cannot_fit_is_said() -> None:
    """No room at all: a clear error, no endless cutting."""
    with pytest.raises(PromptTooLong):
        fit([HumanMessage("x" * 100, id="h")], Marks(), Limits(), Window(4096), 5)
