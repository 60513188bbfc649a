"""Which writes ran on courses of a thread that it does not stand on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent_core.turn import call_key
from local_agent.memory.chain import Step
from local_agent.memory.heads import Heads


async def ran_elsewhere(heads: Heads, thread: str, steps: Sequence[Step]) -> dict[str, str]:
    """The `call_key` of each write that ran outside the chain `steps`, and when.

    What the last of the steps led to is outside.
    """
    runs = await heads.write_runs(thread)
    if not runs:
        return {}
    inside = {step.checkpoint_id for step in steps[:-1]}
    kept: set[str] = set()
    calls: dict[tuple[str, str], Mapping[str, Any]] = {}
    for checkpoint_id, messages in await heads.written(thread):
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
