"""No request is longer than the context, judged by a real tokenizer and not by our own estimate."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from agent_core.limits import Limits
from agent_core.prompt import Request
from context import Window, text_of
from tests.view_kit import KINDS, FakeTool, Thread, assert_strict, make_text, prompt_tokens

LENGTHS = (2048, 3000, 4096, 8192)
STRATEGIES = ("compact", "compact", "trim", "last", "all")


def some_text(rng: Random, most: int = 40_000) -> str:
    size = rng.choice((20, 400, 4000, most))
    return make_text(rng.choice(KINDS), rng.randrange(size), rng.randrange(9)) or "go on"


def some_tools(rng: Random) -> list[FakeTool]:
    about = make_text("english", rng.choice((20, 200, 1500)), 1)
    return [FakeTool(f"tool_{n}", about) for n in range(rng.choice((0, 1, 3, 12, 120)))]


def some_calls(rng: Random) -> list[tuple[dict[str, Any], str]]:
    """The calls of one message: few or many, with short or long arguments."""
    count = rng.choice((1, 1, 2, 5, 30))
    args = {"q": make_text("json", rng.choice((5, 100, 3000)) // count, count), "n": count}
    return [(args, some_text(rng)) for _ in range(count)]


def check(thread: Thread, request: Request, length: int) -> None:
    tokens = prompt_tokens(request.messages, request.offer.functions)
    assert tokens + thread.window.reply <= length
    assert_strict(request.view.messages)
    newest = next(m for m in reversed(thread.state["messages"]) if isinstance(m, HumanMessage))
    shown = next(m for m in reversed(request.view.messages) if isinstance(m, HumanMessage))
    assert shown.id == newest.id
    is_cut = newest.id in thread.state.get("cuts", {})
    assert is_cut or text_of(shown.content).endswith(text_of(newest.content))


async def play(
    rng: Random, length: int, strategy: Any, tools: Sequence[FakeTool], steps: Sequence[int]
) -> None:
    thread = Thread(Window(length), Limits(strategy=strategy), tools)
    for count in steps:
        await thread.prompt(some_text(rng))
        for _ in range(count):
            check(thread, thread.request(), length)
            thread.calls(*some_calls(rng))
        check(thread, thread.request(), length)
        thread.answer(some_text(rng, 6000))


def conversation(seed: int) -> None:
    rng = Random(seed)
    steps = [rng.randrange(4) for _ in range(rng.randrange(1, 7))]
    steps[rng.randrange(len(steps))] = rng.choice((2, 11))
    asyncio.run(play(rng, rng.choice(LENGTHS), rng.choice(STRATEGIES), some_tools(rng), steps))


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6))
def test_every_request_of_every_turn_fits(seed: int) -> None:
    """M22, M23, K07: for any history, any tools and any context from 2,048 on it fits.

    Also in the twelfth call of one turn, and with many calls of long arguments in one message.
    Roles alternate, each call has its result, the newest prompt is whole or cut with a note.
    """
    conversation(seed)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**9))
def test_every_request_of_many_conversations_fits(seed: int) -> None:
    """The same for many more."""
    conversation(seed)
