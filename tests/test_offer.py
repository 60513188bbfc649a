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


def test_what_fits_does_not_follow_each_count_of_the_server() -> None:
    """The tools stand at the head of the prompt: a little calibration must not change them."""
    window = Window(4096)
    weight = next(w for w in range(5000) if not window.fits_tools(w)) - 1
    window.observe(1000, 1100)

    assert window.scale > 1.2
    assert window.fits_tools(weight)
    window.observe(1000, 2000)
    assert not window.fits_tools(weight)
    for _ in range(30):
        window.observe(1000, 500)
    assert not window.fits_tools(weight)
