"""A clock that went back: the newest checkpoint is where a thread stands, and its id is ahead."""

from __future__ import annotations

import sqlite3
import uuid
from contextlib import closing
from pathlib import Path

import pytest

from local_agent.transfer.database import read_thread
from local_agent.transfer.json_form import from_json, to_json
from tests.graph_kit import ScriptedTool, call, say
from tests.timeline_kit import open_line, send, texts

HOUR = 3600 * 10_000_000  # in the unit of the ids


def shift(path: Path, steps: int) -> None:
    """Let the newest checkpoint be so much newer: what it is to a clock that went back."""
    with closing(sqlite3.connect(path)) as conn:
        (head,) = conn.execute("SELECT max(checkpoint_id) FROM checkpoints").fetchone()
        value = uuid.UUID(head).int
        stamp = (value >> 80 << 12 | value >> 64 & 0xFFF) + steps
        low = value & ~(-1 << 64) | 6 << 76
        new = str(uuid.UUID(int=stamp >> 12 << 80 | (stamp & 0xFFF) << 64 | low))
        conn.execute(
            "UPDATE checkpoints SET checkpoint_id = ? WHERE checkpoint_id = ?", (new, head)
        )
        conn.execute("DELETE FROM agent_sums")
        conn.commit()


async def begin(path: Path) -> None:
    async with open_line(path, [say("one")]) as (session, _, _):
        await send(session, "first")


@pytest.mark.parametrize("hours", [1, 47])
async def test_what_is_said_then_is_in_the_thread(tmp_path: Path, hours: int) -> None:
    """Turns, a step back and forward, and the next program: all behind what was there."""
    path = tmp_path / "m.db"
    await begin(path)
    shift(path, hours * HOUR)
    replies = [call(("look", {})), say("two"), say("three")]
    async with open_line(path, replies, [ScriptedTool("look")]) as (session, timeline, _):
        done = await send(session, "second")
        assert (done.answer, done.error) == ("two", None)
        assert (await send(session, "third")).answer == "three"
        await timeline.undo()
        await timeline.redo()
    async with open_line(path, [say("four")]) as (session, _, _):
        await send(session, "fourth")
        assert texts(await session.messages()) == [
            *("human: first", "ai: one", "human: second", "ai: ", "tool: look done", "ai: two"),
            *("human: third", "ai: three", "human: fourth", "ai: four"),
        ]
    document = read_thread(path, "t")
    assert not document.damage
    assert from_json(to_json(document)[0]) == document  # it can be brought in


async def test_a_thread_that_is_far_ahead_takes_nothing(tmp_path: Path) -> None:
    """A prompt is refused with a line: what came of it would be on no course."""
    path = tmp_path / "m.db"
    await begin(path)
    shift(path, 49 * HOUR)
    async with open_line(path, [say("two")]) as (session, _, model):
        last = await send(session, "second")
        assert last.status == "error"
        assert "which is later than now. Set the clock of this computer right." in last.error
        assert model.asked == []
        assert texts(await session.messages()) == ["human: first", "ai: one"]
