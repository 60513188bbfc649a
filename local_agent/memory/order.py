"""Ids of checkpoints in the order in which these are written, also where the clock went back.

The newest is where a thread stands. What is written under an id before that is on no course, and
nobody sees it again. So the ids that LangGraph makes are let go on behind the head of each thread
that is loaded.
"""

from __future__ import annotations

import time
import uuid

from langgraph.checkpoint.base import id as made

from local_agent.errors import StorageError
from local_agent.memory.chain import time_of

LONGEST = 2 * 24 * 3600  # seconds that a clock may have gone back; more is another fault
_SECOND = 10_000_000  # steps of 100 ns
_EPOCH = 0x01B21DD213814000  # 1970 in them, from 1582 on
_LAST = "_last_v6_timestamp"  # where LangGraph keeps the time of the last id that it made


def go_on_behind(newest: str) -> None:
    """Let the ids that come next be behind `newest`, if that is a little ahead of the clock."""
    try:
        value = uuid.UUID(newest).int
    except ValueError:
        return
    stamp = value >> 80 << 12 | value >> 64 & 0xFFF
    now = time.time_ns() // 100 + _EPOCH
    if now <= stamp <= now + LONGEST * _SECOND:
        vars(made)[_LAST] = max(vars(made).get(_LAST) or 0, stamp)


def ahead(thread: str, newest: str) -> StorageError:
    """The error of a thread whose newest checkpoint would hide what is written now."""
    when = time_of(newest).astimezone().strftime("%Y-%m-%d %H:%M:%S %z")
    return StorageError(
        f"Thread '{thread}' was last written at {when}, which is later than now.",
        "Set the clock of this computer right.",
    )
