"""The view as a pure function of messages and marks, and what making one costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from agent_core.limits import Limits
from agent_core.view import LAST_CALL, NOT_SHOWN, SHOWN, Marks, render, since
from context import Window, compact, text_of
from tests.view_kit import Thread, make_text, turn

THREAD: list[AnyMessage] = [m for n in range(6) for m in turn(n, f"result {n} " * 100)]


def contents(marks: Marks, messages: list[AnyMessage] = THREAD, **limits: Any) -> list[str]:
    return [text_of(m.content) for m in render(messages, marks, Limits(**limits)).messages]


def test_marks_go_into_a_state_and_come_out() -> None:
    """Plain JSON values by the names of the state's fields; only what changed is written."""
    marks = Marks(summary="s", facts=("f",), cuts={"h1": 5}, nudged=("t1",))
    values = marks.changes(Marks())

    assert values == {"summary": "s", "facts": ["f"], "cuts": {"h1": 5}, "nudged": ["t1"]}
    assert Marks.of({**values, "route": "x", "pinned": []}).all() == marks.all()
    assert marks.changes(Marks.of(values)) == {}


def test_stubs_are_those_of_compact_with_their_handles() -> None:
    """Up to the mark, what `compact` says; a result without a handle has none in its stub."""
    whole = [*THREAD]
    whole[2] = whole[2].model_copy(update={"additional_kwargs": {"handle": "r1"}})
    shown = contents(Marks(compacted_upto="b1"), whole)
    expected = [text_of(m.content) for m in compact(whole, upto="b1")]

    assert shown[2] == f"{expected[2]} [r1]"
    assert [*shown[:2], *shown[3:]] == [*expected[:2], *expected[3:]]
    assert contents(Marks(), whole) == [text_of(m.content) for m in whole]
    assert (
        contents(Marks(), whole, step="turn")[3:]
        == [text_of(m.content) for m in compact(whole)][3:]
    )


def test_the_mark_of_a_turn_goes_beyond_keep_turns() -> None:
    """In an overflow results of the newest turns become stubs too, up to the stored mark."""
    shown = contents(Marks(stubbed_upto="t4"))

    assert [text.startswith("[older tool result") for text in shown[2::4]] == [True] * 5 + [False]


def test_folded_turns_stand_before_the_first_kept_prompt() -> None:
    """Same id, so that roles still alternate; what was folded is not in the list."""
    view = render(THREAD, Marks(summary="Much.", summary_upto="b3", facts=["order 4711"]), Limits())

    assert [m.id for m in view.messages] == [m.id for m in THREAD[16:]]
    first = text_of(view.messages[0].content)
    assert first.startswith(view.block)
    assert first.endswith(text_of(THREAD[16].content))
    assert "Much." in view.block
    assert "order 4711" in view.block
    assert view.hides
    assert NOT_SHOWN in render(THREAD, Marks(summary_upto="b3"), Limits()).block


def test_a_mark_that_is_not_there_hides_nothing() -> None:
    """After a purge or a rewind the id of a mark may be gone: all that is there is shown."""
    marks = Marks(summary="Much.", summary_upto="gone", compacted_upto="gone", stubbed_upto="gone")
    view = render(THREAD, marks, Limits())

    assert len(view.messages) == len(THREAD)
    assert "Much." in view.block
    assert not view.kinds


def test_a_result_is_shown_as_was_decided_when_it_came() -> None:
    """The stored number of characters counts, not the room there is now; a pin lifts it."""
    kwargs = {"handle": "r1", SHOWN: 300}
    messages = turn(0, make_text("log", 5000, 1))
    messages[2] = messages[2].model_copy(update={"additional_kwargs": kwargs})
    view = render(messages, Marks(), Limits())
    text = text_of(view.messages[2].content)

    assert view.kinds == {"t0": "clipped"}
    assert len(text) < 340
    assert text.endswith("[cut; the whole is r1]")
    assert contents(Marks(pinned=["r1"]), messages)[2] == text_of(messages[2].content)


def test_the_line_that_asks_for_the_answer_stays() -> None:
    """It stands behind the result in this prompt and in every later one."""
    messages = turn(0, "found")[:3]
    marks = Marks(nudged=["t0"])
    asked = contents(marks, messages)

    assert asked[-1] == f"found\n\n{LAST_CALL}"
    later = [*messages, AIMessage("It is found."), HumanMessage("thanks", id="h2")]
    assert contents(marks, later)[: len(asked)] == asked


def test_calls_left_out_go_with_their_results() -> None:
    """A message whose calls are left out, and one of which only the first are shown."""
    calls = [{"name": "look", "args": {}, "id": f"c{n}"} for n in range(3)]
    messages: list[AnyMessage] = [
        *turn(9, "gone")[:3],
        AIMessage("", tool_calls=calls, id="a"),
        *(ToolMessage(f"r{n}", tool_call_id=f"c{n}", id=f"x{n}") for n in range(3)),
    ]
    view = render(messages, Marks(cuts={"a9": 0, "a#": 1}), Limits())

    assert [m.id for m in view.messages] == ["h9", "a", "x0"]
    assert text_of(view.messages[1].content) == "[2 more calls are not shown]"


class Counting(list[AnyMessage]):
    """A list that counts how many of its messages are looked at."""

    looked = 0

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        self.looked += len(found) if isinstance(key, slice) else 1
        return found

    def __iter__(self) -> Iterator[AnyMessage]:
        for message in super().__iter__():
            self.looked += 1
            yield message


@pytest.mark.parametrize("strategy", ["compact", "trim", "last", "all"])
async def test_a_view_costs_what_it_shows(strategy: Any) -> None:
    """A thread of 1,000 turns is not gone through for a request: as many looks as at 100."""
    looked, sizes = [], []
    limits = Limits(strategy=strategy, summary=False)
    for turns in (100, 1000):
        thread = Thread(Window(4096), limits)
        for n in range(turns):
            await thread.prompt(f"question {n}")
            thread.answer(f"answer {n}: {make_text('english', 300, n % 7)}")
        await thread.prompt("and now?")
        thread.request()
        messages = Counting(thread.state["messages"])
        request = thread.composer.compose({**thread.state, "messages": messages}, [])
        looked.append(messages.looked)
        sizes.append(request.tokens)

    assert looked[1] < looked[0] * 3 + 100
    assert looked[1] < 1000
    assert sizes[1] <= sizes[0] * 1.5


def test_since_looks_from_the_end() -> None:
    """The messages behind an id; all of them where it is not there."""
    assert since(THREAD, "b4") == THREAD[20:]
    assert since(THREAD, "") == THREAD
    assert since(THREAD, "gone") == THREAD
