"""The agent's graph without model and tools: to move, edit and look into threads, not to run them.

It has the nodes and edges of the real one, so what a checkpoint leads to is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage

from agent_core.ports import Described
from agent_core.toolset import OneRoute
from agent_graph import build_graph
from context import Window
from local_agent.memory import Memory
from local_agent.seal import open_seal
from local_agent.timeline.course import Graph


class _NoModel:
    overflow: type[Exception] = RuntimeError

    async def reply(self, messages: Sequence[AnyMessage], **options: Any) -> AIMessage:
        raise RuntimeError("this graph is not for running")


def _as_it_is(
    reply: AIMessage, tools: Sequence[Described], history: Sequence[AnyMessage] = ()
) -> AIMessage:
    return reply


def bare_graph(memory: Memory) -> Graph:
    """The graph over the checkpoints of `memory`."""
    return build_graph(
        _NoModel(),
        [],
        routes={},
        route=OneRoute(""),
        policy=lambda tool, args, allowed: "deny",
        repair=_as_it_is,
        journal=memory.journal,
        seal=open_seal(None),
        window=Window(),
        system_prompt="",
        checkpointer=memory.saver,
    )
