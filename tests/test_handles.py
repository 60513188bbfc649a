"""Handles: every result of a thread can be named, also those that older programs wrote."""

from __future__ import annotations

from pathlib import Path

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from agent_core.turn import handles_of, next_number
from tests.graph_kit import ScriptedModel, ScriptedTool, call, open_session, say


async def test_results_are_numbered_through_the_thread(tmp_path: Path) -> None:
    """Parallel, repeated and unknown calls each have the next number, in the order of the calls."""
    model = ScriptedModel(
        [
            call(("look", {"n": 1}), ("look", {"n": 2})),
            say("one"),
            call(("look", {"n": 3}), ("missing", {}), ("look", "{cut")),
            call(("look", {"n": 4})),
            say("two"),
        ]
    )
    async with open_session(tmp_path / "memory.db", model, [ScriptedTool("look")]) as session:
        for prompt in ("a", "b"):
            async for _ in session.send(prompt):
                pass
        messages = await session.messages()
    results = [m for m in messages if isinstance(m, ToolMessage)]
    stored = {m.additional_kwargs["handle"]: m for m in results}
    assert sorted(stored) == ["r1", "r2", "r3", "r4", "r5", "r6"]
    assert handles_of(messages) == stored
    calls = [c for m in messages if isinstance(m, AIMessage) for c in m.tool_calls]
    assert [stored[f"r{n}"].tool_call_id for n in range(1, 7)] == [c["id"] for c in calls]
    assert next_number(messages) == 7


def test_results_of_another_program_are_counted() -> None:
    """Without numbers in the messages the calls are counted; a new one goes on from there."""

    def asked(*ids: str) -> AIMessage:
        return AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": i} for i in ids])

    messages: list[AnyMessage] = [
        HumanMessage("x"),
        asked("a", "b"),
        ToolMessage("B", tool_call_id="b"),
        ToolMessage("A", tool_call_id="a"),
        asked("c"),
        ToolMessage("C", tool_call_id="c"),
    ]
    assert {k: m.content for k, m in handles_of(messages).items()} == {
        "r1": "A",
        "r2": "B",
        "r3": "C",
    }
    assert next_number(messages) == 4
