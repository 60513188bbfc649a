"""Which tools are in a prompt: those of the set that fit, in their order, and the built-in ones.

What fits is decided by the tools and the size of the window alone, so that the list, which stands
at the head of a prompt, does not change from call to call.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent_core.brief import brief
from agent_core.ports import Described, Tool
from agent_core.recall import TOOLS, Lookup
from context import Window, weigh_tool


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools of a prompt as the chat API takes them; `left_out` counts those that do not fit.

    `weights` has the tokens of each server's tools before calibration.
    """

    functions: Sequence[Mapping[str, Any]]
    weights: Mapping[str, float]
    left_out: int

    @property
    def weight(self) -> float:
        return sum(self.weights.values())


def function_of(tool: Described, *, shorten: bool = True, least: bool = False) -> dict[str, Any]:
    """The tool as the chat API takes it, in short if so asked; `least`: as short as can be."""
    schema, text = dict(tool.schema), tool.description
    if shorten:
        schema, text = brief(schema, text, least=least)
    return {
        "type": "function",
        "function": {"name": tool.name, "description": text, "parameters": schema},
    }


def fit_tools(
    tools: Sequence[Mapping[str, Any]], window: Window, beside: Sequence[Mapping[str, Any]] = ()
) -> list[int]:
    """The places of the tools that fit the tool room, in order, with those `beside` them."""
    taken = sum(map(weigh_tool, beside))
    kept: list[int] = []
    for at, tool in enumerate(tools):
        weight = weigh_tool(tool)
        if window.fits_tools(taken + weight):  # one that is too large leaves its place to others
            taken += weight
            kept.append(at)
    return kept


def lookups_beside(names: Collection[str]) -> dict[str, tuple[Lookup, str]]:
    """The lookup tools by names that no other tool has, each with its own name.

    Where a server has a tool of the same name, that one keeps it, and the lookup is `agent__NAME`,
    as tools of two servers with one name are told apart.
    """
    free = {free_name(tool.name, names): tool for tool in TOOLS}
    return {name: (replace(tool, name=name), tool.name) for name, tool in free.items()}


def free_name(name: str, names: Collection[str]) -> str:
    """`name`, or with `agent__` before it where one of `names` is the same."""
    tried, number = name, 1
    while tried in names:
        tried = f"agent__{name}" if number == 1 else f"agent__{name}_{number}"
        number += 1
    return tried


def offer(
    tools: Sequence[Tool], lookups: Sequence[Lookup], window: Window, *, shorten: bool = True
) -> Offer:
    """Of `tools` what has room in `window`, and all `lookups`.

    Those stand behind `find_tools`, where it is among the tools: what it finds comes behind them,
    at the end, so that most of the list is as before.
    """
    find = next((at for at, t in enumerate(tools) if isinstance(t, Lookup)), len(tools) - 1)
    before = [t for t in tools[: find + 1] if not isinstance(t, Lookup)]
    own = [*(t for t in tools if isinstance(t, Lookup)), *lookups]
    others = [*before, *tools[find + 1 :]]
    functions = [function_of(t, shorten=shorten) for t in others]
    fixed = [function_of(t, shorten=shorten) for t in own]
    kept = fit_tools(functions, window, fixed)
    if shorten and len(kept) < len(others):  # rather all in fewer words
        functions = [function_of(t, least=True) for t in others]
        kept = fit_tools(functions, window, fixed)
    first = [at for at in kept if at < len(before)]
    placed = [(others[at].server, functions[at]) for at in first]
    placed += [(tool.server, function) for tool, function in zip(own, fixed, strict=True)]
    placed += [(others[at].server, functions[at]) for at in kept[len(first) :]]
    weights: dict[str, float] = {}
    for server, function in placed:
        weights[server] = weights.get(server, 0.0) + weigh_tool(function)
    return Offer([function for _, function in placed], weights, len(others) - len(kept))
