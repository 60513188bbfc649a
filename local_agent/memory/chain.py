"""The chain of a thread's checkpoints from a head back to its root, and the turns on it.

Plain reads of the checkpointer's tables; nothing of LangGraph is loaded. A turn starts at a
checkpoint whose source is "input": that one holds the prompt, its parent is how the thread stood
before, and the last one before the next turn's is how it ended. A thread that was pruned, or that
came from elsewhere in one piece, holds older turns in the messages of its root alone; they are
listed, and nothing can be turned back to them.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from local_agent.memory.raw import messages_in, plain_value, text_in

# What reads a stored value: its type and its bytes -> plain data, as `raw.plain_value` gives it.
Plain = Callable[[str, bytes | None], Any]

_HEAD = "SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ''"
# All of the thread in one pass: stepping from parent to parent in SQL takes twice as long.
_STEPS = """
    SELECT checkpoint_id, parent_checkpoint_id,
        json_extract(CAST(metadata AS TEXT), '$.source', '$.step')
    FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ''
"""
# Without what tasks of `Send` wrote: those are results of tools, the bulk of a thread.
_MESSAGES = """
    SELECT checkpoint_id, type, value FROM writes
    WHERE thread_id = ? AND checkpoint_ns = '' AND channel = 'messages' {filter}
    ORDER BY checkpoint_id, task_id, idx
"""
_NO_TOOLS = "AND task_path NOT LIKE '~__pregel_push%'"
_HAS_PATHS = "SELECT 1 FROM pragma_table_info('writes') WHERE name = 'task_path'"
_STORED = """
    SELECT type, checkpoint FROM checkpoints
    WHERE thread_id = ? AND checkpoint_ns = '' AND checkpoint_id = ?
"""
_ALL_STORED = """
    SELECT checkpoint_id, type, checkpoint FROM checkpoints
    WHERE thread_id = ? AND checkpoint_ns = ''
"""
_BRANCH = "branch:to:"  # LangGraph's channels that start a node


@dataclass(frozen=True, slots=True)
class Step:
    """A checkpoint on a chain. `source` is LangGraph's: "input", "loop", "update" or "fork"."""

    checkpoint_id: str
    parent: str | None
    source: str
    step: int

    @property
    def time(self) -> datetime:
        """When it was made, in UTC."""
        return time_of(self.checkpoint_id)


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of a thread, the first of which has the number 1.

    `checkpoint_before` is how the thread stood before its prompt: None where there was nothing.
    `checkpoint_start` is None where the checkpoints of the turn are gone, or never were; then the
    other two and `time` are None too. `is_reachable` says whether the thread can be turned back
    to before it.
    """

    number: int
    checkpoint_before: str | None = None
    checkpoint_start: str | None = None
    checkpoint_end: str | None = None
    time: datetime | None = None
    prompt: str = ""
    tools: tuple[str, ...] = ()
    is_reachable: bool = False


def head_of(conn: sqlite3.Connection, thread: str) -> str | None:
    """The newest checkpoint of the thread, which is where it stands; None if it has none."""
    (found,) = conn.execute(_HEAD, (thread,)).fetchone()
    return None if found is None else str(found)


def read_chain(conn: sqlite3.Connection, thread: str, head: str | None = None) -> list[Step]:
    """The checkpoints from the root to `head` (default: where the thread stands), oldest first."""
    steps = read_steps(conn, thread)
    at = head or max(steps, default=None)
    found: list[Step] = []
    while at in steps:
        found.append(steps.pop(at))
        at = found[-1].parent
    found.reverse()
    return found


def read_steps(conn: sqlite3.Connection, thread: str) -> dict[str, Step]:
    """All checkpoints of the thread by their ids, on whatever course."""
    steps: dict[str, Step] = {}
    for checkpoint_id, parent, metadata in conn.execute(_STEPS, (thread,)):
        source, step = json.loads(metadata) if metadata else ("", 0)
        steps[checkpoint_id] = Step(checkpoint_id, parent, source or "", step or 0)
    return steps


def read_next(
    conn: sqlite3.Connection, thread: str, plain: Plain = plain_value
) -> dict[str, tuple[str, ...]]:
    """The nodes that come after each checkpoint of the thread; none at the end of a turn."""
    found = {}
    for checkpoint_id, kind, blob in conn.execute(_ALL_STORED, (thread,)):
        value = plain(kind, blob)
        values = value.get("channel_values") if isinstance(value, Mapping) else None
        found[checkpoint_id] = _next(values if isinstance(values, Mapping) else {})
    return found


def _next(values: Mapping[str, Any]) -> tuple[str, ...]:
    names = [name.removeprefix(_BRANCH) for name in values if name.startswith(_BRANCH)]
    names += ["start"] if "__start__" in values else []
    sends = values.get("__pregel_tasks")
    names += [str(one[0]) for one in sends if isinstance(one, list)] if sends else []
    return tuple(dict.fromkeys(names))


def turns_of(chain: Sequence[Step]) -> list[Turn]:
    """The turns that start on the chain, oldest first, numbered from 1, without their prompts."""
    starts = [i for i, step in enumerate(chain) if step.source == "input"]
    ends = [*(i - 1 for i in starts[1:]), len(chain) - 1]  # of no start: not used
    known = {step.checkpoint_id for step in chain}
    return [
        Turn(
            number,
            checkpoint_before=chain[start].parent,
            checkpoint_start=chain[start].checkpoint_id,
            checkpoint_end=chain[end].checkpoint_id,
            time=chain[start].time,
            is_reachable=chain[start].parent is None or chain[start].parent in known,
        )
        for number, (start, end) in enumerate(zip(starts, ends, strict=False), 1)
    ]


def read_turns(
    conn: sqlite3.Connection,
    thread: str,
    head: str | None = None,
    plain: Plain = plain_value,
    chain: Sequence[Step] | None = None,
) -> list[Turn]:
    """The turns up to `head`, oldest first, each with its prompt and the tools it asked for.

    `chain` is that of `head`, if it was read already.
    """
    chain = read_chain(conn, thread, head) if chain is None else chain
    if not chain:
        return []
    turns = turns_of(chain)
    older = _only_in_root(conn, thread, chain[0], plain)
    said = _said(conn, thread, chain, plain)
    at = {step.checkpoint_id: i for i, step in enumerate(chain)}
    found = [Turn(number, prompt=text) for number, text in enumerate(older, 1)]
    for turn in turns:
        start, end = at[turn.checkpoint_start or ""], at[turn.checkpoint_end or ""]
        steps = [step.checkpoint_id for step in chain[start : end + 1]]
        prompt = _prompt(said.get(steps[0], ()))
        if prompt is None:  # killed before the prompt went into the messages
            prompt = _prompt(_kept(conn, thread, steps[0], "__start__", plain)) or ""
        tools = _tools(message for step in steps for message in said.get(step, ()))
        number = len(older) + turn.number
        found.append(replace(turn, number=number, prompt=prompt, tools=tools))
    return found


def turn_of(
    conn: sqlite3.Connection, thread: str, prompt_id: str | None, plain: Plain = plain_value
) -> int:
    """The number of the turn that the prompt of that id began; 1 where that is not known.

    Counted as `read_turns` does. It is more than 1 for the first prompt that is left of a thread
    whose older messages were removed for good.
    """
    chain = read_chain(conn, thread)
    if not chain or not prompt_id:
        return 1
    root = chain[0].checkpoint_id
    kept = _kept(conn, thread, root, "messages", plain)
    is_first = chain[0].source == "input" and chain[0].parent is None
    older = [] if is_first else [m.get("id") for m in kept if m["type"] == "human"]
    given = _kept(conn, thread, root, "__start__", plain) if is_first else []
    if prompt_id in older:
        return older.index(prompt_id) + 1
    if any(message.get("id") == prompt_id for message in given):
        return 1
    said = _said(conn, thread, chain, plain)
    for number, turn in enumerate(turns_of(chain), len(older) + 1):
        if any(m.get("id") == prompt_id for m in said.get(turn.checkpoint_start or "", ())):
            return number
    return 1


def _only_in_root(conn: sqlite3.Connection, thread: str, root: Step, plain: Plain) -> list[str]:
    """The prompts that the root's messages hold and no checkpoint of their own."""
    if root.source == "input" and root.parent is None:
        return []  # the first prompt came to an empty thread
    kept = _kept(conn, thread, root.checkpoint_id, "messages", plain)
    return [text_in(message) for message in kept if message["type"] == "human"]


def _kept(
    conn: sqlite3.Connection, thread: str, checkpoint_id: str, channel: str, plain: Plain
) -> list[Mapping[str, Any]]:
    """The messages that a checkpoint holds itself, in one of its channels."""
    row = conn.execute(_STORED, (thread, checkpoint_id)).fetchone()
    value = plain(*row) if row else None
    values = value.get("channel_values") if isinstance(value, Mapping) else None
    return messages_in(values.get(channel)) if isinstance(values, Mapping) else []


def _said(
    conn: sqlite3.Connection, thread: str, chain: Sequence[Step], plain: Plain
) -> dict[str, list[Mapping[str, Any]]]:
    """The messages that each step of the chain led to."""
    said: dict[str, list[Mapping[str, Any]]] = {step.checkpoint_id: [] for step in chain}
    for checkpoint_id, messages in read_written(conn, thread, plain):
        if checkpoint_id in said:
            said[checkpoint_id] += messages
    return said


def read_written(
    conn: sqlite3.Connection, thread: str, plain: Plain = plain_value, *, results: bool = False
) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """What was written to the messages of a thread, on all its courses, in the order of time.

    Each with the checkpoint that it followed. With `results`, also what the tools gave back.
    """
    paths = conn.execute(_HAS_PATHS).fetchone()  # older files have none
    sql = _MESSAGES.format(filter=_NO_TOOLS if paths and not results else "")
    for checkpoint_id, kind, blob in conn.execute(sql, (thread,)):
        yield checkpoint_id, messages_in(plain(kind, blob))


def _prompt(messages: Iterable[Mapping[str, Any]]) -> str | None:
    texts = [text_in(message) for message in messages if message["type"] == "human"]
    return texts[-1] if texts else None


def _tools(messages: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """The names in the calls of the model, each once, in the order of the first."""
    calls = (call for message in messages for call in message.get("tool_calls") or ())
    return tuple(dict.fromkeys(str(call.get("name")) for call in calls))


def time_of(checkpoint_id: str) -> datetime:
    """When a checkpoint was made, in UTC.

    Its id is a UUID of version 6: steps of 100 ns since 1582-10-15. Another id gives 1970.
    """
    try:
        value = uuid.UUID(checkpoint_id).int
    except ValueError:
        return datetime.fromtimestamp(0, UTC)
    ticks = (value >> 80 << 12) | (value >> 64 & 0xFFF)
    return datetime(1582, 10, 15, tzinfo=UTC) + timedelta(microseconds=ticks // 10)
