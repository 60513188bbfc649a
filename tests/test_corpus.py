"""Every reply of tests/corpus comes to what it must, over real HTTP and the real graph."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from langchain_core.messages import AIMessage

from local_agent.model.answer import Answer
from local_agent.repair import repair
from tests.corpus_kit import (
    ALL_RIGHT,
    OUTCOMES,
    SIZES,
    Case,
    Played,
    Stage,
    load_corpus,
    make_tools,
)

CASES = load_corpus()
IDS = [case.id for case in CASES]
# None of it may stand in a stored answer or be seen for a moment, where it was a call.
MARKUP = ("<tool_call", "[TOOL_", "<function", "<|", '{"name"', "<tools>", "```", "<invoke")


@dataclass
class Theatre:
    """A stage with a loop of its own, for tests that are plain functions."""

    runner: asyncio.Runner
    stage: Stage

    def play(self, case: Case, size: int) -> Played:
        return self.runner.run(self.stage.play(case, size))


@pytest.fixture(scope="module")
def theatre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    """One server and one database for all cases."""
    with asyncio.Runner() as runner:
        stage = Stage(tmp_path_factory.mktemp("corpus"))
        runner.run(stage.open())
        yield Theatre(runner, stage)
        runner.run(stage.close())


def test_the_corpus_is_one() -> None:
    """It has at least 150 cases and 60 traps, each with an id of its own and a known outcome."""
    assert len(CASES) >= 150
    assert sum(case.trap for case in CASES) >= 60
    assert len(set(IDS)) == len(IDS)
    assert {case.outcome for case in CASES} == set(OUTCOMES)
    assert not any(case.trap and case.outcome in ("run", "ask_user") for case in CASES)
    assert all(case.expect for case in CASES if case.outcome in ("run", "ask_user"))
    assert all(case.says for case in CASES if case.outcome in ("ask_back", "said"))


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_case(theatre: Theatre, case: Case) -> None:
    """The reply is run, asked about, asked back about, or text; nothing else happens."""
    played = theatre.play(case, SIZES[len(case.text) % 5])

    assert not theatre.stage.server.refused
    check = {
        "run": check_run,
        "ask_user": check_ask_user,
        "ask_back": check_ask_back,
        "text": check_text,
        "said": check_said,
    }
    check[case.outcome](case, played)


def check_run(case: Case, played: Played) -> None:
    """Exactly these calls ran, in the order in which they stand in the stored message."""
    assert sorted(map(repr, played.ran)) == sorted(map(repr, case.expected()))
    assert [(call["name"], call["args"]) for call in played.reply.tool_calls] == case.expected()
    assert played.asked == []
    assert played.ending is not None
    assert (played.ending.status, played.ending.answer) == ("ok", ALL_RIGHT)
    assert len(played.requests) == 2
    check_before(case, played)


def check_ask_user(case: Case, played: Played) -> None:
    """A person is asked about exactly these calls, and reads what was repaired."""
    assert played.ran == []
    assert played.asked == case.expected()
    for note in played.notes:
        assert note == "" if case.note == "" else (case.note or "") in note
    assert len(played.requests) == 1
    check_before(case, played)


def check_ask_back(case: Case, played: Played) -> None:
    """Nothing runs and nobody is asked; the model reads what was wrong, once."""
    assert (played.ran, played.asked) == ([], [])
    assert played.errors
    assert any(case.says in error for error in played.errors), played.errors
    assert all(len(error) < 1_000 for error in played.errors)
    assert played.ending is not None
    assert (played.ending.status, played.ending.answer) == ("ok", ALL_RIGHT)
    assert len(played.requests) == 2
    check_before(case, played)


def check_text(case: Case, played: Played) -> None:
    """Nothing runs; the answer is the text, stored and shown whole, and the model is asked once."""
    assert (played.ran, played.asked, played.errors) == ([], [], [])
    assert played.ending is not None
    answer = case.text if case.answer is None else case.answer
    assert played.ending.answer.strip() == answer.strip()
    assert len(played.requests) == 1
    if not case.closes_only:  # else it was shown before it closed
        assert played.shown.strip() == answer.strip()


def check_said(case: Case, played: Played) -> None:
    """There is no answer, and the user reads why."""
    assert (played.ran, played.asked, played.errors) == ([], [], [])
    assert played.ending is not None
    assert (played.ending.status, played.ending.answer.strip()) == ("error", "")
    assert case.says in (played.ending.error or "")


def check_before(case: Case, played: Played) -> None:
    """The text before the calls is kept and shown; their markup is neither, and stored nowhere."""
    assert str(played.reply.text).strip() == case.before
    shown = played.shown.removesuffix(ALL_RIGHT).strip()
    assert case.seen or shown == case.before
    for message in played.messages:
        if isinstance(message, AIMessage):
            assert not any(mark in str(message.text) for mark in MARKUP)
    if len(played.requests) > 1:
        last = [m for m in played.requests[-1]["messages"] if m["role"] == "assistant"][-1]
        assert (last["content"] or "").strip() == case.before


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_pieces_make_no_difference(case: Case) -> None:
    """However the stream is cut, the reply is the same, and what is shown is part of it."""
    found = []
    for size in SIZES:
        shown: list[str] = []
        tools = make_tools()
        answer = Answer(
            lambda kind, text, to=shown: to.append(text) if kind == "text" else None,
            names=[tool.name for tool in tools],
        )
        reply = case.reply(size)
        for delta in reply.deltas:
            answer.add({"choices": [{"index": 0, "delta": dict(delta)}]})
        answer.add({"choices": [{"index": 0, "delta": {}, "finish_reason": reply.finish}]})
        answer.end()
        message = answer.message()
        unshown = message.additional_kwargs.pop("unshown", "")
        if not answer.closed_only:
            assert "".join(shown) + unshown == message.content
        message.id = "m1"
        repaired = repair(message, tools)
        calls = [(call["name"], call["args"], call["id"]) for call in repaired.tool_calls]
        broken = [(call["name"], call["error"]) for call in repaired.invalid_tool_calls]
        found.append((repaired.content, calls, broken))
    assert all(one == found[0] for one in found)
