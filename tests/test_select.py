"""The strategies that send the newest messages as they are."""

from __future__ import annotations

import pytest
from langchain_core.messages import AnyMessage, HumanMessage

from agent_core.limits import Limits
from agent_core.select import select
from context import Window
from tests.view_kit import assert_strict, turn

THREAD: list[AnyMessage] = [m for n in range(10) for m in turn(n, f"result {n} " * 20)]


def first(messages: object) -> str:
    return str(messages[0].id)  # type: ignore[index]


@pytest.mark.parametrize("count", range(1, 13))
def test_last_messages_begin_with_a_prompt(count: int) -> None:
    """K01: wherever the cut would fall, a call and its results stay together."""
    kept = select(THREAD, Limits(strategy="last", last_messages=count), Window().tokens, 4000)

    assert_strict(list(kept))
    assert isinstance(kept[0], HumanMessage)
    assert len(kept) <= max(count, 4)
    assert kept[-1] is THREAD[-1]


def test_trim_sends_the_newest_turns_in_its_tokens() -> None:
    """No more than `trim_tokens`, and no more than there is room for."""
    tokens = Window().tokens
    one = tokens(THREAD[:4])
    for most in (one * 3 + 20, one * 5 + 20):
        kept = select(THREAD, Limits(strategy="trim", trim_tokens=most), tokens, 100_000)
        assert len(kept) == most // one * 4
        assert tokens(kept) <= most
    narrow = select(THREAD, Limits(strategy="trim", trim_tokens=5000), tokens, one * 2 + 20)
    assert len(narrow) == 8


def test_all_is_all_while_it_fits() -> None:
    """Nothing is left out before it has to be; then the oldest turns."""
    tokens = Window().tokens
    assert select(THREAD, Limits(strategy="all"), tokens, 100_000) == THREAD
    assert first(select(THREAD, Limits(strategy="all"), tokens, tokens(THREAD[4:]) + 20)) == "h1"


def test_the_last_turn_is_always_there() -> None:
    """A turn that is longer than all that is allowed is sent; what fits it is made to fit later."""
    for limits in (
        Limits(strategy="last", last_messages=1),
        Limits(strategy="trim", trim_tokens=5),
        Limits(strategy="all"),
    ):
        assert first(select(THREAD, limits, Window().tokens, 5)) == "h9"
