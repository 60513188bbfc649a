"""All tools that there are, the index over them, and the sets of them that a prompt can have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage

from agent_core.offer import function_of
from agent_core.ports import Tool
from agent_core.recall import FIND_TOOLS
from agent_core.toolset import (
    FIND,
    ToolSet,
    names_of,
    places,
    shrunk,
    toolset_in,
    widened,
)
from context import Window, text_of, weigh_tool

from .index import Index, Match, query_words
from .routes import ALL, GENERAL, Routes

FOUND = 4  # tools that one search adds
NEAR = 0.6  # of the best one's score: a tool that may be meant as well
EQUAL = 0.9  # and one that is worth a change of the set
NAMED = 4  # tools that a prompt may name
_LINE = 120  # characters of a tool's description in an answer of `find_tools`


class Shelf:
    """`most` is how many tools a prompt has at most, our own included where there are more of the
    servers'; `shorten`, whether they are described in short."""

    def __init__(
        self,
        routes: Routes,
        tools: Sequence[Tool],
        window: Window,
        most: int,
        *,
        shorten: bool = True,
    ) -> None:
        self.routes = routes
        self.most = most
        self._window = window
        self._tools = {tool.name: tool for tool in tools}
        self._weights = {
            tool.name: weigh_tool(function_of(tool, shorten=shorten)) for tool in tools
        }
        self._weights[FIND] = weigh_tool(function_of(FIND_TOOLS))
        topics = {
            route: (f"{route} {text}", routes.tools[route])
            for route, text in routes.descriptions.items()
        }
        self.index = Index(tools, topics)

    def fits(self, names: Sequence[str]) -> bool:
        """Whether these tools have room in a prompt."""
        return self._window.fits_tools(sum(self._weights.get(name, 0.0) for name in names))

    @property
    def is_whole(self) -> bool:
        """Whether all tools can be in every prompt, so that there is nothing to choose."""
        return len(self._tools) <= self.most and self.fits(list(self._tools))

    def names(self, values: Mapping[str, Any]) -> list[str]:
        """The set of a state, without tools that are not there any more."""
        found = names_of(toolset_in(values), self.routes.tools)
        return [name for name in found if name in self._tools or name == FIND]

    # -- sets -------------------------------------------------------------------------------------

    def set_for(
        self, route: str, matches: Sequence[Match], values: Mapping[str, Any], reach: str = ALL
    ) -> ToolSet:
        """The set for a prompt of `route` with these `matches`, best first.

        The thread's set stays if it has what is needed. It grows if there is room; else what was
        not used for longest leaves. `reach` is the route out of which tools may be taken.
        """
        reachable = self.routes.tools[reach]
        if len(reachable) <= self.most and self.fits(reachable):
            return {"route": reach}
        size = places(self.most)
        current = [n for n in self.names(values) if n in reachable or n == FIND]
        current = current if FIND in current else [*current, FIND]
        needed = self._wanted(route, matches, reachable, EQUAL, size)
        if len(current) == 1:
            wanted = self._wanted(route, matches, reachable, NEAR, size)
            return {"route": reach, "names": [*self._fitting(wanted, size), FIND]}
        if set(needed) <= set(current) and len(current) - 1 <= size:
            return {"route": reach, "names": current}
        left = shrunk(
            [*current, *(name for name in needed if name not in current)],
            most=size,
            fits=self.fits,
            messages=values.get("messages", ()),
            kept=needed,
        )
        return {"route": reach, "names": left}

    def _wanted(
        self,
        route: str,
        matches: Sequence[Match],
        reachable: Sequence[str],
        near: float,
        size: int,
    ) -> list[str]:
        """The tools that a set should have, in their fixed order.

        All of a route that is small enough, and what the prompt's words name as well as, by `near`,
        what they name best. Of a larger route those that the words fit best.
        """
        order = {name: at for at, name in enumerate(reachable)}
        members = [name for name in self._members(route) if name in order]
        best = matches[0].score if matches else 0.0
        named = [m.name for m in matches if m.score >= best * near and m.name in order][:NAMED]
        if len(members) <= size:
            wanted = [*members, *(name for name in named if name not in members)]
        elif near == EQUAL:
            wanted = named
        else:
            wanted = list(dict.fromkeys([*named, *(m.name for m in matches), *members]))
            wanted = [name for name in wanted if name in order]
        return sorted(self._fitting(wanted, size), key=order.__getitem__)

    def _members(self, route: str) -> list[str]:
        """The tools of a route; of all that there are, each route's first, then their second."""
        if route != ALL:
            return list(self.routes.tools[route])
        columns = zip_longest(*(self.routes.tools[name] for name in self.routes.descriptions))
        spread = [name for row in columns for name in row if name]
        return list(dict.fromkeys([*spread, *self.routes.tools[ALL]]))

    def _fitting(self, names: Sequence[str], size: int) -> list[str]:
        """The first `size` of `names` that have room together, in order."""
        taken: list[str] = []
        for name in names:
            if len(taken) < size and self.fits([FIND, *taken, name]):
                taken.append(name)
        return taken

    def widen(self, values: Mapping[str, Any], names: Sequence[str]) -> ToolSet:
        """The thread's set with `names` behind it."""
        toolset, known = toolset_in(values), [name for name in names if name in self._tools]
        current = self.names(values)
        if set(known) <= set(current):
            return toolset
        messages = values.get("messages", ())
        left = widened(
            current,
            known,
            most=places(self.most),
            fits=self.fits,
            messages=messages,
            dear=self._dear(str(values.get("route", "")), messages),
        )
        return {"route": _reach(toolset), "names": left}

    def _dear(self, route: str, messages: Sequence[AnyMessage]) -> list[str]:
        """The tools that a turn was given for its prompt, those that it names last, best last."""
        prompts = (text_of(m.content) for m in reversed(messages) if isinstance(m, HumanMessage))
        named = [match.name for match in self.index.search(query_words(next(prompts, "")))]
        members = [name for name in self.routes.tools.get(route, ()) if name not in named]
        return [*members, *reversed(named)] if route != ALL else named[::-1]

    # -- find_tools -------------------------------------------------------------------------------

    def find(self, query: str, reach: str = ALL) -> tuple[str, list[str]]:
        """The best tools of the route `reach` for a query, and what the model is told of them."""
        among = set(self.routes.tools[reach])
        names = [match.name for match in self.index.search(query_words(query), among)][:FOUND]
        if not names:
            topics = "\n".join(f"- {n}: {t[:_LINE]}" for n, t in self.routes.descriptions.items())
            return f"No tool has these words. Try words of one of these topics:\n{topics}", []
        lines = [f"{name}: {_one_line(self._tools[name].description)}" for name in names]
        return "\n".join([*lines, "You can call these now."]), names


def _reach(toolset: ToolSet) -> str:
    """The route out of which a set is taken; what was not to have any may grow out of all."""
    route = str(toolset.get("route") or ALL)
    return ALL if route == GENERAL or toolset.get("names") is None else route


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LINE else f"{line[:_LINE]}…"
