"""kill -9 at random moments of random conversations: nothing shown is lost, nothing runs twice."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from tests.kill_harness import PHASES, harness
from tests.kill_judge import Known, Wrong
from tests.kill_script import Made


@pytest.mark.process
@pytest.mark.timeout(900)
def test_killed_at_random_moments(tmp_path: Path) -> None:
    """Ten kills in a conversation with calls of all kinds, compactions and summaries.

    A failure names its seed.
    """
    print(harness(tmp_path, os.urandom(3).hex(), 10))


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.timeout(7200)
def test_killed_at_random_moments_for_long(tmp_path: Path) -> None:
    """200 kills in ten conversations; some fall in each thing that the program does."""
    told = harness(tmp_path, os.urandom(3).hex(), 200, 20)
    print(told)
    assert [phase for phase in PHASES if not told.kills[phase]] == []


# -- what judges them -----------------------------------------------------------------------------


def known() -> Known:
    """Of a turn with a read, a write that was allowed and one that was refused."""
    made = {
        "k1": Made("c1_0_k1", "look", "saw k1: lorem"),
        "k2": Made("c1_0_k2", "write", "wrote k2"),
        "k3": Made("c1_0_k3", "write", "wrote k3"),
    }
    seen = Known(made, {1})
    seen.note_shown("← look · saw k1: lorem\n← write · wrote k2\nIt is all done a3.\n")
    seen.permit("k2", is_again=False)
    seen.refused.add("k3")
    return seen


def thread() -> list[AnyMessage]:
    """The thread as it is after that turn."""
    calls = [
        {"id": call.id, "name": call.tool, "args": {}, "type": "tool_call"}
        for call in known().made.values()
    ]

    def result(token: str, text: str, outcome: str) -> ToolMessage:
        return ToolMessage(
            text,
            id=token,
            tool_call_id=f"c1_0_{token}",
            additional_kwargs={"outcome": outcome},
        )

    return [
        HumanMessage("go on with number 1 [p1]", id="p1"),
        AIMessage("", id="m1", tool_calls=calls),
        result("k1", "saw k1: lorem", "success"),
        result("k2", "wrote k2", "success"),
        result("k3", "The user did not allow this call.", "denied"),
        AIMessage("It is all done a3.", id="m2"),
    ]


def test_a_thread_as_it_must_be_is_right() -> None:
    seen = known()
    seen.check_writes(["k2"])
    seen.check_thread(thread(), ["k2"])
    seen.check_thread([*thread(), HumanMessage("more [p2]", id="p2")], ["k2"])


@pytest.mark.parametrize("lost", range(6))
def test_a_lost_message_is_seen(lost: int) -> None:
    """Also where nothing was looked at before: each was shown, or is what another needs."""
    messages = thread()
    del messages[lost]
    with pytest.raises(Wrong):
        known().check_thread(messages, ["k2"])


@pytest.mark.parametrize("twice", range(6))
def test_a_message_that_is_there_twice_is_seen(twice: int) -> None:
    """Also under an id of its own."""
    message = thread()[twice]
    copies = [message, message.model_copy(update={"id": "other"})]
    for copy in copies if not isinstance(message, AIMessage) or message.content else copies[:1]:
        with pytest.raises(Wrong):
            known().check_thread([*thread(), copy], ["k2"])


Doctor = Callable[[list[AnyMessage]], None]


def _other_text(messages: list[AnyMessage]) -> None:
    messages[2].content = "[it ran; its result was lost]"


def _swapped(messages: list[AnyMessage]) -> None:
    messages[2:4] = reversed(messages[2:4])


def _gone_later(messages: list[AnyMessage]) -> None:
    del messages[-1]


@pytest.mark.parametrize("doctor", [_other_text, _swapped, _gone_later])
def test_what_changes_between_two_looks_is_seen(doctor: Doctor) -> None:
    """A text, an order, a message that was there: by what was in the thread the last time."""
    seen = known()
    seen.check_thread(thread(), ["k2"])
    seen.results.clear()
    seen.answers.clear()
    changed = thread()
    doctor(changed)
    with pytest.raises(Wrong, match="has changed"):
        seen.check_thread(changed, ["k2"])


@pytest.mark.parametrize(
    ("noted", "what"),
    [
        (["k2", "k2"], "written 2 times"),
        (["k2", "k3"], "written unasked"),
        (["k2", "k1"], "written unasked"),
    ],
)
def test_a_write_that_may_not_be_is_seen(noted: list[str], what: str) -> None:
    with pytest.raises(Wrong, match=what):
        known().check_writes(noted)


def test_a_write_after_a_no_is_seen() -> None:
    """Also where the tool was allowed for the thread."""
    seen = known()
    seen.always.add("write")
    with pytest.raises(Wrong, match="after a no"):
        seen.check_writes(["k2", "k3"])


def test_a_write_that_a_person_asked_for_again_is_right() -> None:
    seen = known()
    seen.permit("k2", is_again=True)
    seen.check_writes(["k2", "k2"])
    with pytest.raises(Wrong, match="written 3 times"):
        seen.check_writes(Counter(k2=3).elements())


def test_an_outcome_that_is_not_true_is_seen() -> None:
    """A write that is said to have been done or denied, and was the other."""
    with pytest.raises(Wrong, match="is said to be written and is not"):
        known().check_thread(thread(), [])
    with pytest.raises(Wrong, match="is said to be denied"):
        known().check_thread(thread(), ["k2", "k3"])
