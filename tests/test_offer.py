"""Which tools are in a prompt."""

from __future__ import annotations

from agent_core.offer import fit_tools
from context import Window, weigh_tool


def test_tools_take_a_third_at_most() -> None:
    """M23: schemas over a third of the window are left out from the end."""
    tools = [
        {"type": "function", "function": {"name": f"t{n}", "description": "d " * 300}}
        for n in range(20)
    ]
    window = Window(4096)
    kept = fit_tools(tools, window)

    weight = sum(weigh_tool(tools[at]) for at in kept)
    assert window.fits_tools(weight)
    assert window.tool_tokens(weight) <= 4096 // 3
    assert kept == list(range(len(kept)))
    assert 0 < len(kept) < 20
