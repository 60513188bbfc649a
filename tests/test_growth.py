"""D07: the database grows with the conversation, not with its square."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.graph_kit import ScriptedModel, ScriptedTool, call, collect, open_session, say

TURNS = 40
RESULT_BYTES = 4000


class Reader(ScriptedTool):
    """A read whose results cannot be packed smaller."""

    async def __call__(self, args: Mapping[str, Any]) -> tuple[str, str]:
        return os.urandom(RESULT_BYTES // 2).hex(), "success"


def stored(path: Path) -> int:
    """Bytes in use, the log counted in."""
    with closing(sqlite3.connect(path)) as conn:
        pages, free, size = (
            conn.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
    return int((pages - free) * size)


async def test_a_turn_adds_as_much_late_as_early(tmp_path: Path) -> None:
    """The second half of the turns adds at most a quarter more than the first."""
    path, replies, sizes = tmp_path / "m.db", [], []
    for n in range(TURNS):
        replies += [call(("look", {"n": n})), say("an answer " * 20)]
    async with open_session(path, ScriptedModel(replies), [Reader("look")]) as session:
        for n in range(TURNS):
            await collect(session.send(f"question {n}"))
            sizes.append(stored(path))

    first, second = sizes[TURNS // 2 - 1], sizes[-1] - sizes[TURNS // 2 - 1]
    assert second <= first * 1.25
    assert sizes[-1] < TURNS * RESULT_BYTES * 10
