"""Which tools a thread's prompt has, as plain values in its state, and how that set changes.

State keeps `toolset`: `{"route": R}` for all tools of the route R, with `"names": [...]` only some
of them, in the order of the prompt. A list that stands at the head of every prompt is dear to
change: all behind it is read anew. So it grows at its end, and tools leave it only when it changes
anyway: first those that were not used for longest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.messages.ai import UsageMetadata

from agent_core.ports import Tool
from agent_core.recall import Lookup

FIND = "agent/find_tools"  # stands in `names` for the tool that finds others; no tool has a slash
_LOOKUPS = 2  # tools that a prompt has from the first result on that is not shown whole

Quiet = Literal["", "said", "likely", "sure"]
LOUD = "over"  # in the place of `Quiet`: this turn was to need no tool, and does
ToolSet = Mapping[str, Any]
Fits = Callable[[Sequence[str]], bool]


@dataclass(frozen=True, slots=True)
class Choice:
    """What a router decided: the route's name, the tools of the prompt, and what asking took.

    `quiet` says how sure it is that the prompt needs no tool: "said" where the conversation is to
    have the answer, which may have to be looked up in it. Without a `toolset` the prompt has all
    tools of the route.
    """

    route: str
    toolset: ToolSet = field(default_factory=dict)
    quiet: Quiet = ""
    usage: UsageMetadata | None = None


@dataclass(frozen=True, slots=True)
class OneRoute:
    """A router with one answer, for where there is nothing to choose; it finds no other tool."""

    route: str = "all"

    async def __call__(self, messages: Sequence[AnyMessage], values: Mapping[str, Any]) -> Choice:
        return Choice(self.route)

    async def with_tools(
        self, messages: Sequence[AnyMessage], values: Mapping[str, Any], called: Sequence[str]
    ) -> Choice:
        return Choice(self.route)

    def find(self, query: str) -> tuple[str, Sequence[str]]:
        return "There are no other tools.", ()

    def widen(self, values: Mapping[str, Any], names: Sequence[str]) -> ToolSet:
        return toolset_in(values)


def toolset_in(values: Mapping[str, Any]) -> ToolSet:
    """The set of a state; one of an older version has the whole of its route.

    A file can bring any value, so only what can be names is taken for such.
    """
    found = values.get("toolset")
    if not isinstance(found, Mapping) or not isinstance(found.get("route"), str):
        return {"route": values.get("route", "")}
    names = found.get("names")
    if not isinstance(names, list):
        return {"route": found["route"]}
    return {"route": found["route"], "names": [name for name in names if isinstance(name, str)]}


def names_of(toolset: ToolSet, routes: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """The names in a set, `FIND` among them where it is a part only."""
    names: Sequence[str] | None = toolset.get("names")
    return routes.get(str(toolset.get("route", "")), ()) if names is None else names


def tools_of(
    toolset: ToolSet,
    routes: Mapping[str, Sequence[str]],
    tools: Mapping[str, Tool],
    find: Lookup,
) -> list[Tool]:
    """The tools of a set in order; one that is not there any more is left out."""
    known: Mapping[str, Tool] = {**tools, FIND: find}
    return [known[name] for name in names_of(toolset, routes) if name in known]


def places(most: int) -> int:
    """How many tools of servers a cut set has, so that with our own it has at most `most`.

    The lookups have theirs from the start: they come in the middle of a turn. Of a small number
    half is for the servers.
    """
    return max(most - 1 - _LOOKUPS, (most + 1) // 2)


def last_used(messages: Sequence[AnyMessage]) -> dict[str, int]:
    """Names of tools with the place of their last call, later ones being greater."""
    used: dict[str, int] = {}
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                used.setdefault(call["name"], at)
    return used


def widened(
    names: Sequence[str],
    new: Sequence[str],
    *,
    most: int,
    fits: Fits,
    messages: Sequence[AnyMessage],
    dear: Sequence[str] = (),
) -> list[str]:
    """The set `names` with the `new` tools behind it.

    Beyond `most`, and where the tools have no room in the prompt, others leave as in `shrunk`, of
    which none is new.
    """
    grown = [*names, *(name for name in dict.fromkeys(new) if name not in names)]
    return shrunk(grown, most=most, fits=fits, messages=messages, kept=new, dear=dear)


def shrunk(
    names: Sequence[str],
    *,
    most: int,
    fits: Fits,
    messages: Sequence[AnyMessage],
    kept: Collection[str] = (),
    dear: Sequence[str] = (),
) -> list[str]:
    """The set without those that were not used for longest, until it has `most` and fits.

    Of tools that were never used those leave first that came first. Last leave what this turn has
    called and, the last of them latest, what is `dear` to it. `kept` ones stay.
    """
    left = list(names)

    def is_small() -> bool:
        return sum(name != FIND for name in left) <= most and fits(left)

    if is_small():  # without a look through the whole thread
        return left
    used, dearness = last_used(messages), {name: at for at, name in enumerate(dear)}
    turn = max((at for at, m in enumerate(messages) if isinstance(m, HumanMessage)), default=0)

    def worth(name: str) -> tuple[bool, int, int, int]:
        at = used.get(name, -1)
        return at > turn, dearness.get(name, -1), at, left.index(name)

    leaving = sorted((n for n in left if n not in kept and n != FIND), key=worth)
    for name in leaving:
        left.remove(name)
        if is_small():
            break
    return left
