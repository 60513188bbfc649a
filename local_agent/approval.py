"""Whether a call runs, waits for a person, or is refused; a pure function of its arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from agent_core.ports import Tool


def decide(
    tool: Tool, args: Mapping[str, Any], allowed: Sequence[str]
) -> Literal["allow", "ask", "deny"]:
    """A read runs; a write runs if the person allowed that tool for this thread, else it asks.

    `allowed` holds "server/tool" names. `args` are for rules that look at arguments.
    """
    if tool.read_only or f"{tool.server}/{tool.original}" in allowed:
        return "allow"
    return "ask"
