"""Maintenance: when it is due, what it folds, what a summary may be, and what it never does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage

from agent_core.fit import LOWEST, ceiling
from agent_core.ledger import Ledger
from agent_core.limits import Limits
from agent_core.maintain import is_due, next_step
from context import Window, text_of
from tests.view_kit import Thread, assert_strict, make_text, prompt_tokens

Summary = Callable[[Sequence[AnyMessage]], str]
GOOD = "The user asked about orders; order 4711 was sent to Berlin on 2027-03-02."


def good(messages: Sequence[AnyMessage]) -> str:
    return GOOD


async def played(thread: Thread, turns: int, size: int = 2500, first: int = 0) -> None:
    for n in range(first, first + turns):
        await thread.prompt(f"question {n}: {make_text('english', 60, n)}")
        thread.request()
        thread.calls(({"n": n}, make_text("log", size, n)))
        thread.request()
        thread.answer(f"answer {n}: {make_text('english', 200, n)}")


def blocks(thread: Thread) -> list[str]:
    return [request.view.block for request in thread.requests]


async def test_it_is_not_due_on_a_short_thread() -> None:
    """K07: ten short turns, also of a thread that was resumed, are left alone."""
    thread = Thread(Window(8192), Limits(), summarise=good)
    await played(thread, 10, size=80)

    assert thread.summaries == []
    assert not thread.state.get("summary_upto")
    assert not is_due(thread.state, [], thread.composer)


async def test_old_results_go_first_and_turns_only_where_that_is_not_enough() -> None:
    """The first step makes stubs; the turns stay as long as that reaches the low-water mark."""
    thread = Thread(Window(8192), Limits(low_water=0.6), summarise=good)
    await played(thread, 4, size=3500)
    while not thread.state.get("compacted_upto"):
        await played(thread, 1, size=3500, first=len(thread.requests))

    assert thread.summaries == []
    request = thread.requests[-1]
    kinds = list(request.view.kinds.values())
    assert "stub" in kinds
    assert all(f" [{h}]" in text for h, text in stubs(request.view.messages))


def stubs(messages: Sequence[AnyMessage]) -> list[tuple[str, str]]:
    return [
        (m.additional_kwargs["handle"], text_of(m.content))
        for m in messages
        if text_of(m.content).startswith("[older tool result trimmed")
    ]


async def test_the_summary_request_begins_like_the_request_before_it() -> None:
    """Only the instruction is read anew: the rest is the prompt that the server has, with its
    reply."""
    thread = Thread(Window(4096), Limits(), summarise=good)
    while not thread.summaries:
        before = len(thread.requests)
        await played(thread, 1, first=before)
    asked, shown = thread.summaries[0], thread.requests[before - 1].messages
    common = [a for a, b in zip(asked, shown, strict=False) if a.content == b.content]

    assert isinstance(asked[0], SystemMessage)
    assert len(common) >= len(asked) - 2
    assert_strict(asked[1:])
    assert prompt_tokens(asked, []) < 4096


async def test_a_summary_stands_before_the_first_kept_prompt() -> None:
    """K03: the system prompt once, first and word for word; the summary is no message of its own.

    Each message of the thread is still in the state.
    """
    thread = Thread(Window(4096), Limits(), summarise=good)
    await played(thread, 14)
    view = thread.requests[-1]

    assert [m.content for m in view.messages if isinstance(m, SystemMessage)] == ["You are a test."]
    first = view.view.messages[0]
    assert isinstance(first, HumanMessage)
    assert text_of(first.content).startswith("<earlier_conversation>")
    assert GOOD in text_of(first.content)
    stored = next(m for m in thread.state["messages"] if m.id == first.id)
    assert text_of(first.content).endswith(text_of(stored.content))
    assert all("You are a test." not in text_of(m.content) for m in view.view.messages)
    assert len(thread.state["messages"]) == 14 * 4


async def test_the_second_summary_extends_the_first() -> None:
    """The request of a summary shows the one before, as the notes on the earlier turns."""
    thread = Thread(Window(4096), Limits(), summarise=good)
    while len(thread.summaries) < 2:
        await played(thread, 1, first=len(thread.requests))

    assert GOOD in text_of(thread.summaries[1][1].content)


@pytest.mark.parametrize("said", ["", "blah " * 4000, '{"name": "look", "arguments": {}}'])
async def test_a_summary_that_cannot_be_used_changes_nothing(said: str) -> None:
    """Empty, longer than what it replaces, a tool call: nothing changes, and it still fits.

    The next step folds without asking, so that not each turn asks for a summary again.
    """
    thread = Thread(Window(4096), Limits(), summarise=lambda messages: said)
    states: list[dict[str, Any]] = []
    for n in range(30):
        before, asked = dict(thread.state), len(thread.summaries)
        await thread.prompt(f"question {n}: {make_text('english', 60, n)}")
        if len(thread.summaries) > asked and not before.get("summary_asked"):
            states.append({k: thread.state.get(k) != before.get(k) for k in ("summary", "facts")})
        request = thread.request()
        assert prompt_tokens(request.messages, []) + thread.window.reply <= 4096
        thread.answer(make_text("english", 900, n))

    assert states
    assert not any(any(changed.values()) for changed in states)
    assert not thread.state.get("summary")
    assert thread.state["summary_upto"]
    assert len(thread.summaries) <= 30 / 4


@pytest.mark.parametrize(("length", "most"), [(2048, 10), (4096, 10), (8192, 10)])
async def test_a_summary_is_asked_for_once_in_three_turns_at_most(length: int, most: int) -> None:
    """Also where the window is so small that each turn takes a step: those between fold by rule.

    What they fold is not lost: its facts stay in the prompt.
    """
    thread = Thread(Window(length), Limits(), summarise=good)
    await played(thread, 29)
    await thread.prompt("Remember: the booking is ORD-7755 for 2027-05-04.")
    thread.request()
    thread.answer("Noted.")
    await played(thread, 3, first=30)

    assert 0 < len(thread.summaries) <= most
    assert thread.state["steps"] >= len(thread.summaries)
    assert any("ORD-7755" in text_of(m.content) for m in thread.requests[-1].messages)


@pytest.mark.parametrize("length", [4096, 8192])
async def test_no_view_is_over_the_ceiling_and_that_never_rises(length: int) -> None:
    """What a view may have falls with each step: no late prompt is the largest by chance."""
    thread = Thread(Window(length), Limits(), summarise=good)
    tops: list[int] = []

    def looked() -> None:
        thread.request(learn=False)
        tokens, room = thread.composer.measure(thread.state, [])
        tops.append(ceiling(room, thread.state.get("steps", 0)))
        assert tokens <= tops[-1]

    for n in range(40):
        await thread.prompt(f"question {n}: {make_text('english', 60, n)}")
        looked()
        thread.calls(*[({"n": n}, make_text("log", 400 + 700 * (n % 7), n))] * (1 + n % 2))
        looked()
        thread.answer(f"answer {n}: {make_text('english', 200, n)}")

    _, room = thread.composer.measure({**thread.state, "lookup": True}, [])
    assert tops[0] > tops[-1] >= int(LOWEST * room)
    behind = tops[len(tops) // 4 :]  # the lookups are in the prompt, once and for all
    assert behind == sorted(behind, reverse=True)


async def test_without_summaries_the_facts_are_kept_by_rule() -> None:
    """`summary = false`: no model call; what was said of numbers and names stands in the prompt."""
    thread = Thread(Window(4096), Limits(summary=False), summarise=good)
    await thread.prompt("Remember: the booking is ORD-7755 for 2027-05-04.")
    thread.request()
    thread.answer("Noted.")
    await played(thread, 12)

    assert thread.summaries == []
    assert "ORD-7755" in thread.requests[-1].view.block


async def test_what_a_summary_lost_is_kept_beside_it() -> None:
    """Facts that are not in the summary stand in the list of facts, inside its limit."""
    thread = Thread(Window(4096), Limits(), summarise=lambda messages: "Some things were asked.")
    await thread.prompt("Remember: the booking is ORD-7755 for 2027-05-04.")
    thread.request()
    thread.answer("Noted.")
    await played(thread, 12)

    assert "ORD-7755" in thread.requests[-1].view.block
    assert sum(len(fact) + 1 for fact in thread.state["facts"]) < 4096 // 16 * 3


async def test_a_step_does_not_follow_a_step_without_new_text() -> None:
    """K07: straight after a step nothing is due, and there is nothing more to do."""
    thread = Thread(Window(4096), Limits(), summarise=good)
    while not thread.summaries:
        await played(thread, 1, first=len(thread.requests))
        state = {**thread.state, "messages": thread.state["messages"][:]}
    due_at = [n for n, m in enumerate(state["messages"]) if isinstance(m, HumanMessage)][-1]
    state["messages"] = state["messages"][: due_at + 1]

    assert not is_due(state, [], thread.composer)


async def test_an_endless_prompt_does_not_compact_for_ever() -> None:
    """M23: where nothing can be folded nothing is asked, and the turn still has its request."""
    thread = Thread(Window(2048), Limits(), summarise=good)
    for n in range(4):
        await thread.prompt(make_text("english", 30_000, n))
        request = thread.request()
        assert prompt_tokens(request.messages, []) + thread.window.reply <= 2048
        thread.answer("Too long for me.")

    assert len(thread.summaries) <= 4 * 3


async def test_a_thread_of_a_larger_model_is_summarised_in_requests_that_fit() -> None:
    """K06: 20,000 tokens of history, one message of 10,000, opened with 4,096 tokens."""
    thread = Thread(Window(32_768, max_tokens=32_768), Limits(), summarise=good)
    await played(thread, 12, size=5000)
    thread.answer(make_text("english", 40_000, 1))
    thread.window.context_length = 4096
    thread.requests.clear()
    await thread.prompt("What was it all about?")
    request = thread.request()

    assert 1 <= len(thread.summaries) <= 4
    assert all(prompt_tokens(asked, []) < 4096 - 400 for asked in thread.summaries)
    assert prompt_tokens(request.messages, []) + thread.window.reply <= 4096
    assert text_of(request.messages[-1].content).endswith("What was it all about?")


async def test_an_open_call_is_never_folded() -> None:
    """K01: the step in the middle of a turn, at a retry, keeps that turn whole."""
    thread = Thread(Window(4096), Limits(), summarise=good)
    await played(thread, 6)
    await thread.prompt("and now?")
    thread.calls(({"n": 1}, make_text("log", 2500, 1)))
    step = next_step(thread.state, [], thread.composer)
    newest = [m for m in thread.state["messages"] if isinstance(m, HumanMessage)][-1]

    assert all(m.id != newest.id for m in step.folded)


async def test_every_turn_is_published_compaction() -> None:
    """`step = "turn"`: every view is `compact` of the stored messages, without an upto."""
    thread = Thread(Window(8192), Limits(step="turn"), summarise=good)
    await played(thread, 4, size=900)
    shortened = [len(stubs(r.view.messages)) for r in thread.requests]

    assert shortened == [0, 0, 0, 0, 1, 1, 2, 2]
    assert not thread.state.get("compacted_upto")


def test_the_ledger_names_a_summary_and_a_fold() -> None:
    """The parts add up to the whole; a step is named as what changed the prompt."""
    thread = Thread(Window(4096), Limits(), summarise=good)
    ledger, causes = Ledger(), []

    async def play() -> None:
        for n in range(16):
            at = len(thread.requests)
            await played(thread, 1, size=600, first=n)
            for request in thread.requests[at:]:
                entry = ledger.sent("t", "turn", request, thread.window)
                causes.append(entry.changed_by)
                assert abs(entry.total - request.tokens) < request.tokens * 0.03 + 10

    asyncio.run(play())
    entry = ledger.last("t")

    assert causes[:2] == ["first request", ""]
    assert "folded" in causes
    assert entry is not None
    assert entry.summary > 0
    assert entry.between == ()
    assert replace(entry).unchanged <= entry.total
    ledger.side_call("router")
    later = ledger.sent("t", "turn", thread.requests[-1], thread.window)
    assert (later.changed_by, later.between) == ("", ("router",))
    reply = AIMessage(
        "x",
        usage_metadata={"input_tokens": 900, "output_tokens": 5, "total_tokens": 905},
        response_metadata={"timings": {"cache_n": 850, "prompt_n": 50}},
    )
    ledger.answered("t", reply)
    answered = ledger.last("t")
    assert answered is not None
    assert (answered.input_tokens, answered.cached, answered.read) == (900, 850, 50)


async def test_pins_that_fill_the_room_do_not_compact_at_every_turn() -> None:
    """K07: a step that would gain next to nothing is not taken, and no summary is asked for it."""
    thread = Thread(Window(8192), Limits(), summarise=good)
    await played(thread, 6, size=1800)
    thread.state["pinned"] = [f"r{n}" for n in range(1, 7)]
    asked = []
    for n in range(6, 14):
        before = len(thread.summaries)
        await thread.prompt(f"question {n}")
        thread.request()
        thread.answer("Noted.")
        asked.append(len(thread.summaries) - before)

    assert sum(asked) <= 1


async def test_an_overflow_of_the_summary_is_learnt_from() -> None:
    """The server's refusal of the summary's request changes the window; the turn goes on."""

    def refuse(messages: Sequence[AnyMessage]) -> str:
        raise OverflowError("n_ctx")

    thread = Thread(Window(8192), Limits(), summarise=refuse)
    while not thread.summaries:
        await played(thread, 1, first=len(thread.requests))

    assert thread.window.size < 8192
    assert not thread.state.get("summary")
