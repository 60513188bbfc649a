"""A turn that ends at any call of the storage: the next start goes on, and nothing runs twice."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from agent_core.mend import mend
from local_agent.errors import StorageError
from local_agent.events import ApprovalRequested, Decision
from local_agent.memory import Memory
from local_agent.memory.saver import Saver
from local_agent.session import Session
from tests.graph_kit import ScriptedModel, ScriptedTool, call, collect, open_session, say
from tests.view_kit import assert_strict

POINTS = [
    (method, when, n) for method in ("aput", "aput_writes") for when in (0, 1) for n in range(1, 14)
]


class Killed(BaseException):
    """Stands for kill -9: nothing of the program runs after it."""


class Dying(Saver):
    """The saver on the same database, which fails before (0) or after (1) a method's n-th call."""

    def __init__(
        self, memory: Memory, method: str, when: int, n: int, error: BaseException
    ) -> None:
        super().__init__(memory.saver._statements)
        self._dies, self._when, self._left, self._error = method, when, n, error

    async def aput(self, *args: Any, **options: Any) -> Any:
        return await self._counted("aput", super().aput, *args, **options)

    async def aput_writes(self, *args: Any, **options: Any) -> Any:
        return await self._counted("aput_writes", super().aput_writes, *args, **options)

    async def _counted(self, method: str, work: Any, *args: Any, **options: Any) -> Any:
        self._left -= method == self._dies
        due = method == self._dies and self._left == 0
        if due and self._when == 0:
            raise self._error
        result = await work(*args, **options)
        if due:
            raise self._error
        return result


def parts() -> tuple[list[ScriptedTool], list[Any]]:
    """A read, two writes and a read, and the replies of the turn that calls them."""
    look = ScriptedTool("look")
    first, second = (ScriptedTool(name, read_only=False) for name in ("w1", "w2"))
    calls = call(("look", {"n": 1}), ("w1", {}), ("w2", {}), ("look", {"n": 2}))
    return [look, first, second], [calls, say("done")]


async def play(session: Session, events: Any) -> Any:
    """Run to the end, with a yes to each question; returns the last event."""
    last = (await collect(events))[-1]
    while isinstance(last, ApprovalRequested):
        yes = {c.call_id: Decision(c.why == "write") for c in last.calls}
        last = (await collect(session.resume(last.id, yes)))[-1]
    return last


async def go_on(session: Session) -> Any:
    """What the start of the program does with what was left open."""
    pending = await session.pending()
    if pending is not None:
        yes = {c.call_id: Decision(c.why == "write") for c in pending.calls}
        return await play(session, session.resume(pending.id, yes))
    if await session.is_unfinished():
        return await play(session, session.proceed())
    return None


@pytest.mark.parametrize(("method", "when", "n"), POINTS)
async def test_a_kill_at_any_call_loses_nothing(
    tmp_path: Path, method: str, when: int, n: int
) -> None:
    """Each write runs once, each result is in the thread, the prompt is there once."""
    path, (tools, replies) = tmp_path / "m.db", parts()
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
    async with open_session(path, ScriptedModel(again(path, replies)), tools) as session:
        await go_on(session)
        if not await session.messages():  # killed before the prompt was on disk
            return
        messages = await session.messages()

    assert [len(tool.ran) for tool in tools[1:]] == [1, 1]
    assert [m.content for m in messages if isinstance(m, HumanMessage)] == ["go"]
    results = {m.tool_call_id: m.content for m in messages if isinstance(m, ToolMessage)}
    assert results == {"c1": "look done", "c2": "w1 done", "c3": "w2 done", "c4": "look done"}
    assert messages[-1].content == "done"
    assert_strict(mend(messages))


def again(path: Path, replies: list[Any]) -> list[Any]:
    """The replies that a model is still asked for, by what the file holds of the first ones."""
    with closing(sqlite3.connect(path)) as conn:
        stored = b"".join(row[0] for row in conn.execute("SELECT value FROM writes"))
    return [reply for reply in replies if reply.id.encode() not in stored]


@pytest.mark.parametrize("n", range(2, 14))
async def test_a_full_disk_at_any_step_closes_the_turn(tmp_path: Path, n: int) -> None:
    """One failed checkpoint ends the turn as an error; what ran has its result, nothing is open."""
    path, (tools, replies) = tmp_path / "m.db", parts()
    full = StorageError("The disk is full.")
    async with open_session(
        path,
        ScriptedModel([*replies, say("next answer")]),
        tools,
        saver=lambda memory: Dying(memory, "aput", 0, n, full),
    ) as session:
        last = await play(session, session.send("go"))
        assert last.status in ("error", "ok")
        assert not await session.is_unfinished()
        assert await session.pending() is None
        messages = await session.messages()

    results = {m.name: m.content for m in messages if isinstance(m, ToolMessage)}
    for tool in tools[1:]:
        assert len(tool.ran) <= 1
        if tool.ran:
            assert results[tool.name] == f"{tool.name} done"
    assert not messages or isinstance(messages[-1], AIMessage)
