"""A turn that a crash broke off: seen without loading, described, and discarded."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from agent_core.mend import mend
from local_agent.events import ApprovalRequested, Decision, Interrupted, ToolFinished
from local_agent.threads import has_open_turn
from local_agent.ui.interrupted import ask_to_go_on, interrupted_line
from tests.graph_kit import ScriptedModel, ScriptedTool, call, collect, open_session, say
from tests.test_crash_points import POINTS, Dying, Killed, again, go_on, parts, play
from tests.view_kit import assert_strict


async def die(*_: object) -> Any:
    raise Killed


@pytest.mark.parametrize(("method", "when", "n"), [p for p in POINTS if p[2] % 4 or p[2] == 12])
async def test_discarded_at_any_point(tmp_path: Path, method: str, when: int, n: int) -> None:
    """What ran keeps its result, what did not is closed, and the next prompt is answered.

    The file shows beforehand whether there is anything to decide.
    """
    path, (tools, replies) = tmp_path / "m.db", parts()
    async with open_session(path, ScriptedModel([say("first answer")]), tools) as session:
        await collect(session.send("first"))
    try:
        async with open_session(
            path,
            ScriptedModel(list(replies)),
            tools,
            saver=lambda memory: Dying(memory, method, when, n, Killed()),
        ) as session:
            await play(session, session.send("go"))
    except Killed:
        pass
    looked = has_open_turn(path, "t")
    async with open_session(path, ScriptedModel([*again(path, replies)]), tools) as session:
        waits = await session.pending() is not None
        turn = await session.interrupted()
        assert looked == (waits or turn is not None)
        assert await session.is_unfinished() == (turn is not None)
        if waits:
            await go_on(session)
        elif turn is not None:
            assert turn.prompt == await session.discard() == "go"
        assert await session.interrupted() is None
        messages = await session.messages()
    async with open_session(path, ScriptedModel([say("next answer")]), tools) as session:
        assert not has_open_turn(path, "t")
        last = (await collect(session.send("next")))[-1]
        assert (last.status, last.answer) == ("ok", "next answer")
        assert_strict(mend(await session.messages()))

    prompts = [m.content for m in messages if isinstance(m, HumanMessage)]
    assert prompts == ["first", "go"] or (prompts == ["first"] and not looked)
    results = {m.name: m.content for m in messages if isinstance(m, ToolMessage)}
    for tool in tools[1:]:
        assert len(tool.ran) <= 1
        if tool.name in results:
            assert (results[tool.name] == f"{tool.name} done") == bool(tool.ran)
    assert isinstance(messages[-1], AIMessage)


@pytest.mark.parametrize("ending", ["discarded", "gone on with"])
@pytest.mark.parametrize(
    ("method", "when", "n"), [p for p in POINTS if p[1] == 0 and 1 < p[2] < 10]
)
async def test_a_result_that_was_shown_is_in_the_thread(
    tmp_path: Path, method: str, when: int, n: int, ending: str
) -> None:
    """Also one of a read or a lookup that was shown and whose step was not saved.

    Each read gives another text, so that one which was run again is another result.
    """
    count = iter(range(100))

    async def look(args: Mapping[str, Any]) -> str:
        return f"{args['n']} is {next(count)}"

    path, tools = tmp_path / "m.db", [ScriptedTool("look", run=look)]
    calls = call(("look", {"n": 1}), ("look", {"n": 2}), ("search_history", {"query": "go"}))
    replies, shown = [calls, say("done")], []
    with suppress(Killed):
        async with open_session(
            path,
            ScriptedModel(list(replies)),
            tools,
            saver=lambda memory: Dying(memory, method, when, n, Killed()),
        ) as session:
            async for event in session.send("go"):
                shown += [event.text] if isinstance(event, ToolFinished) else []
    async with open_session(path, ScriptedModel(again(path, replies)), tools) as session:
        if await session.interrupted() is not None:
            await (session.discard() if ending == "discarded" else go_on(session))
        messages = await session.messages()

    results = [m.content for m in messages if isinstance(m, ToolMessage)]
    assert [text for text in shown if results.count(text) != 1] == []
    assert_strict(mend(messages))


async def interrupted(path: Path, model: ScriptedModel, tools: list[ScriptedTool]) -> Any:
    """What is found after the program died in this turn."""
    try:
        async with open_session(path, model, tools) as session:
            last = (await collect(session.send("fix the tests")))[-1]
            while isinstance(last, ApprovalRequested):
                yes = {c.call_id: Decision(True) for c in last.calls}
                last = (await collect(session.resume(last.id, yes)))[-1]
    except Killed:
        pass
    async with open_session(path, ScriptedModel([]), tools) as session:
        return await session.interrupted()


@pytest.mark.parametrize(
    ("calls", "dying", "found"),
    [
        ((), (), Interrupted("fix the tests", "model")),
        (("look",), ("look",), Interrupted("fix the tests", "tools", ("look",))),
        (
            ("look", "see", "write"),
            ("look", "see"),
            Interrupted("fix the tests", "tools", ("look", "see")),
        ),
        (("look", "write"), ("write",), Interrupted("fix the tests", "tools", ("write",), True)),
        (("look",), (), Interrupted("fix the tests", "model")),
    ],
)
async def test_what_was_going_on(
    tmp_path: Path, calls: tuple[str, ...], dying: tuple[str, ...], found: Interrupted
) -> None:
    """It is told from the state and the journal; a call that had ended is none that ran."""

    def tool(name: str) -> ScriptedTool:
        run = die if name in dying else None
        return ScriptedTool(name, read_only=name != "write", run=run)

    tools = [tool(name) for name in ("look", "see", "write")]
    replies: list[Any] = [call(*((name, {}) for name in calls))] if calls else []
    assert await interrupted(tmp_path / "m.db", ScriptedModel([*replies, die]), tools) == found


async def test_a_discarded_write_may_have_run(tmp_path: Path) -> None:
    """Its result says that nobody knows, its journal too, and it is not asked about again."""
    path, writes = tmp_path / "m.db", [ScriptedTool("write", read_only=False, run=die)]
    await interrupted(path, ScriptedModel([call(("write", {}))]), writes)
    async with open_session(path, ScriptedModel([]), writes) as session:
        assert await session.discard() == "fix the tests"
        prompt, _, result, answer = await session.messages()
        assert "Whether it was carried out is unknown" in result.content
        assert result.additional_kwargs == {"outcome": "unknown", "handle": "r1"}
        assert answer.additional_kwargs["status"] == "cancelled"
        run = await session._journal.find("t", (await session.messages())[1].id or "", "c1")
        assert run is not None
        assert run.outcome == "unknown"
        assert await session.pending() is None
        assert prompt.content == "fix the tests"
    assert len(writes[0].ran) == 1


@pytest.mark.parametrize(
    ("turn", "line"),
    [
        (Interrupted("hi\nthere", "model"), ' while the model answered: "hi there"'),
        (Interrupted("x" * 80, "between"), f' between two steps: "{"x" * 59}…"'),
        (Interrupted("a", "tools", ("look", "see")), ' while look and see ran: "a"'),
        (
            Interrupted("\x1b[2J", "tools", ("w\x07",), True),
            ' while w␇ ran, which may have been carried out: "␛[2J"',
        ),
    ],
)
def test_the_line(turn: Interrupted, line: str) -> None:
    """One line without control characters, with the start of the prompt."""
    assert interrupted_line(turn) == f"The last turn was interrupted{line}"


class Typist:
    """Answers in order; an exception is raised. Keeps what was written."""

    size = (80, 24)

    def __init__(self, *answers: str | BaseException | None) -> None:
        self.answers = list(answers)
        self.written = ""
        self.discarded = 0

    def discard_typed(self) -> None:
        self.discarded += 1

    def write(self, text: str) -> None:
        self.written += text

    async def answer(self, question: str) -> str | None:
        self.written += question
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


ANSWERS: Mapping[str, tuple[list[str | BaseException | None], str | None]] = {
    "enter": ([""], "go on"),
    "c": (["C"], "go on"),
    "d": ([" d "], "discard"),
    "another text is asked again": (["write a poem", "d"], "discard"),
    "end of input": ([None], None),
    "ctrl-c": ([KeyboardInterrupt()], None),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_the_answers(name: str) -> None:
    """Enter goes on, d discards, Ctrl-C and the end of the input decide nothing."""
    answers, expected = ANSWERS[name]
    typist = Typist(*answers)
    assert await ask_to_go_on(Interrupted("a", "model"), typist) == expected
    assert typist.written.startswith("The last turn was interrupted while the model answered")
    assert typist.written.count("Go on with it?") == len(answers)
    assert typist.discarded == 1
