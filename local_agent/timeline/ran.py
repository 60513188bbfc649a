"""Which writes ran on courses of a thread that it does not stand on."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent_core.turn import call_key
from local_agent.memory.chain import Step, read_written

_RUNS = """
    SELECT message_id, call_id, coalesce(finished, started) FROM tool_runs
    WHERE thread = ? AND is_write = 1
"""


def ran_elsewhere(
    thread: str, steps: Sequence[Step]
) -> Callable[[sqlite3.Connection], dict[str, str]]:
    """Reads the `call_key` of each write that ran outside the chain `steps`, and when.

    What the last of the steps led to is outside.
    """

    def read(conn: sqlite3.Connection) -> dict[str, str]:
        runs = {(row[0], row[1]): str(row[2]) for row in conn.execute(_RUNS, (thread,))}
        if not runs:
            return {}
        inside = {step.checkpoint_id for step in steps[:-1]}
        kept: set[str] = set()
        calls: dict[tuple[str, str], Mapping[str, Any]] = {}
        for checkpoint_id, messages in read_written(conn, thread):
            for message in messages:
                message_id = str(message.get("id") or "")
                if checkpoint_id in inside:
                    kept.add(message_id)
                for call in message.get("tool_calls") or ():
                    calls[message_id, str(call.get("id"))] = call
        return {
            call_key(calls[run]): when
            for run, when in runs.items()
            if run in calls and run[0] not in kept
        }

    return read
