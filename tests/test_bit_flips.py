"""One flipped bit anywhere in the file: each thread is as it was, or a line names it or the file.

Bits of a key (a thread's name, the id of a checkpoint, of its parent or of a task, the name of a
channel) hide rows from every query, so these are flipped on purpose, in tables and in indexes.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from local_agent.errors import StorageError, ThreadError
from local_agent.memory import open_memory
from local_agent.memory.heads import config_of
from local_agent.threads import list_threads, pending_approvals
from local_agent.timeline.bare import bare_graph
from local_agent.transfer.database import read_thread
from tests.graph_kit import ScriptedModel, ScriptedTool, call, collect, open_session, say

THREADS = ("apple", "berry", "cherry", "damson")
TURNS = 3
SHORT = 25  # flips of each kind in the short form
LONG_SECONDS = 500
# Columns whose values are looked for in the file, wherever they stand: in tables and in indexes.
KEYS = {
    "thread": "SELECT DISTINCT thread_id FROM checkpoints",
    "checkpoint": "SELECT checkpoint_id FROM checkpoints",
    "parent": "SELECT DISTINCT parent_checkpoint_id FROM checkpoints",
    "task": "SELECT DISTINCT task_id FROM writes",
    "path": "SELECT DISTINCT task_path FROM writes",
    "channel": "SELECT DISTINCT channel FROM writes",
    "type": "SELECT DISTINCT type FROM writes",
    "entry": "SELECT title FROM agent_threads UNION SELECT updated FROM agent_threads",
    "sum": "SELECT head FROM agent_sums",
}


async def build(path: Path) -> None:
    """Threads of three turns with results, one of them turned back; the last waits for a yes."""
    tools = [ScriptedTool("look"), ScriptedTool("write", read_only=False)]
    for thread in THREADS:
        replies: list[Any] = []
        for n in range(TURNS):
            replies += [call(("look", {"n": n, "pad": "x" * 300})), say("y" * 900)]
        replies.append(call(("write", {"n": 1})))
        async with open_session(path, ScriptedModel(replies), tools, thread=thread) as session:
            for n in range(TURNS):
                await collect(session.send(f"prompt {thread}.{n}"))
            if thread == THREADS[-1]:
                await collect(session.send("write"))


Thread = tuple[list[str], list[Any], tuple[str, ...]]


async def read(path: Path) -> dict[str, Thread | str] | str:
    """What each thread shows: messages, questions, what comes next; or the line that says why not.

    Of a file that is refused only that line.
    """
    try:
        return await _read(path)
    except StorageError as exc:
        return line_of(exc)


async def _read(path: Path) -> dict[str, Thread | str]:
    found: dict[str, Thread | str] = {}
    async with open_memory(path) as memory:
        graph = bare_graph(memory)
        for thread in THREADS:
            try:
                state = await graph.aget_state(config_of(thread))
            except StorageError as exc:
                found[thread] = line_of(exc)
                continue
            messages = [repr(message) for message in state.values.get("messages", [])]
            asked = [repr(one.value) for one in state.interrupts]
            found[thread] = messages, asked, state.next
    return found


def line_of(error: StorageError) -> str:
    """The text of an error, which must be one line that says what to do."""
    assert "\n" not in str(error)
    assert error.hint
    return str(error)


def look_at_lists(path: Path) -> None:
    """The lists are there, or are refused with a line."""
    for look in (list_threads, pending_approvals):
        try:
            look(path)
        except StorageError as exc:
            line_of(exc)


def exported(path: Path, thread: str) -> tuple[list[str], str]:
    """What an export has of the thread, and what it says is wrong."""
    try:
        document = read_thread(path, thread)
    except StorageError as exc:
        return [], line_of(exc)
    except ThreadError as exc:  # not one row of it has its name any more
        return [], str(exc)
    return [repr(message) for message in document.messages], document.damage


@dataclass
class Whole:
    """A sound file, what it shows, and where in it the values of keys stand."""

    content: bytes
    shown: dict[str, Thread | str]
    places: dict[str, list[int]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    path = tmp_path_factory.mktemp("whole") / "memory.db"
    asyncio.run(build(path))
    shown = asyncio.run(read(path))
    assert isinstance(shown, dict)
    assert all(isinstance(one, tuple) and len(one[0]) >= 4 * TURNS for one in shown.values())
    with closing(sqlite3.connect(path)) as conn:
        keys = {name: [r[0] for r in conn.execute(sql) if r[0]] for name, sql in KEYS.items()}
    content = path.read_bytes()
    places = {name: _places(content, values) for name, values in keys.items()}
    assert all(len(found) >= 8 for found in places.values()), places
    return Whole(content, shown, places)


def _places(content: bytes, values: list[str]) -> list[int]:
    found = set[int]()
    for value in values:
        at = content.find(value.encode())
        while at >= 0:
            found |= set(range(at, at + len(value)))
            at = content.find(value.encode(), at + 1)
    return sorted(found)


def flip(path: Path, whole: Whole, at: int, bit: int) -> Counter[str]:
    """Flip one bit and judge what is shown; how many threads were whole, named, or refused."""
    content = bytearray(whole.content)
    content[at] ^= 1 << bit
    for old in path.parent.glob("memory.db*"):
        old.unlink()
    path.write_bytes(content)
    seen = Counter[str]()
    look_at_lists(path)
    shown = asyncio.run(read(path))
    if isinstance(shown, str):
        assert str(path) in shown
        return Counter(refused=len(THREADS))
    for thread, now in shown.items():
        if isinstance(now, str):
            assert thread in now or str(path) in now, now
            seen["named"] += 1
            continue
        before = whole.shown[thread]
        # A question that is gone is put again: its step is still open, and no write runs unasked.
        if not now[1]:
            now = (now[0], before[1], now[2])
        assert now == before, f"byte {at}, bit {bit}: {thread} is another"
        seen["whole"] += 1
    return seen


def check_export(path: Path, whole: Whole, at: int, bit: int) -> None:
    """An export of what `flip` left has all messages, or says that it has not."""
    for thread, before in whole.shown.items():
        messages, wrong = exported(path, thread)
        assert wrong or messages == before[0], f"byte {at}, bit {bit}: export of {thread}"


@pytest.mark.parametrize("kind", sorted(KEYS))
def test_a_flipped_bit_in_a_key(tmp_path: Path, whole: Whole, kind: str) -> None:
    """D03c: no message goes missing without a word, whatever key it was found by."""
    dice, seen = random.Random(kind), Counter[str]()
    for _ in range(SHORT):
        at, bit = dice.choice(whole.places[kind]), dice.randrange(8)
        seen += flip(tmp_path / "memory.db", whole, at, bit)
        check_export(tmp_path / "memory.db", whole, at, bit)
    assert seen["whole"] > seen["named"]  # the other threads go on


def test_a_flipped_bit_anywhere(tmp_path: Path, whole: Whole) -> None:
    """The same for any byte of any page."""
    dice = random.Random(3)
    for _ in range(2 * SHORT):
        at, bit = dice.randrange(len(whole.content)), dice.randrange(8)
        flip(tmp_path / "memory.db", whole, at, bit)


@pytest.mark.slow
@pytest.mark.timeout(LONG_SECONDS + 200)
def test_flipped_bits_for_long(
    tmp_path: Path, whole: Whole, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keys and all pages by turns, from another seed each time, which is printed."""
    seed = random.SystemRandom().randrange(2**32)
    dice, end = random.Random(seed), time.monotonic() + LONG_SECONDS
    seen, count = Counter[str](), 0
    wrong: list[str] = []
    kinds = [*sorted(KEYS), *["any"] * len(KEYS)]
    while time.monotonic() < end:
        kind = kinds[count % len(kinds)]
        places = whole.places.get(kind) or range(len(whole.content))
        at, bit = dice.choice(places), dice.randrange(8)
        try:
            seen += flip(tmp_path / "memory.db", whole, at, bit)
        except AssertionError as exc:
            wrong.append(f"{kind}: {str(exc).splitlines()[0]}")
        count += 1
    with capsys.disabled():
        print(f"\nseed {seed}: {count:,} flips, threads {dict(seen)}, wrong {len(wrong)}")
    assert not wrong, wrong
