"""Brings an unfinished turn back with a copy of its last checkpoint: what was done, what is asked.

What the tasks of a checkpoint wrote lies beside it, under ids that come from the checkpoint's own.
A copy has other ids; without this, all its tasks would run again.
"""

from __future__ import annotations

from typing import Any

from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Interrupt

from local_agent.memory.heads import Heads, config_of


async def bring_back(
    graph: CompiledStateGraph[Any, None, Any, Any], heads: Heads, thread: str, old: str, new: str
) -> bool:
    """Give `new`, a copy of `old`, what the tasks of `old` had come to. Whether any are open.

    A question gets a new id, so that no answer to the old one counts for it.
    """
    before = (await graph.aget_state(config_of(thread, old))).tasks
    after = (await graph.aget_state(config_of(thread, new))).tasks
    if [task.name for task in before] != [task.name for task in after]:
        return bool(after)  # another program's graph: nothing is taken over
    ids = {one.id: other.id for one, other in zip(before, after, strict=True)}
    asked = [
        (ids[task.id], Interrupt.from_ns(one.value, ns=f"{task.name}:{ids[task.id]}"))
        for task in before
        for one in task.interrupts
    ]
    if after:
        await heads.put_writes(thread, old, new, ids, asked)
    return bool(after)
