"""Routes: names for sets of tools that go together, as configured or one for each server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from agent_core.ports import Tool
from local_agent.config import RouteSpec
from local_agent.errors import ConfigError

GENERAL = "general"
ALL = "all"


@dataclass(frozen=True, slots=True)
class Routes:
    """Names of routes with their descriptions and the names of their tools, in order."""

    descriptions: Mapping[str, str]
    tools: Mapping[str, Sequence[str]]

    def of(self, tool: str) -> str:
        """The first route that has the tool of this name, `all` where no other has."""
        return next((r for r, names in self.tools.items() if tool in names), ALL)


def routes_of(specs: Sequence[RouteSpec], tools: Sequence[Tool]) -> Routes:
    """The configured routes, or without any one for each server; `general` and `all` always."""
    descriptions: dict[str, str] = {}
    members: dict[str, Sequence[str]] = {}
    for spec in specs:
        descriptions[spec.name] = spec.description
        members[spec.name] = [t.name for t in tools if _matches(t, spec.tools)]
    if not specs:
        for server in dict.fromkeys(t.server for t in tools):
            mine = [t for t in tools if t.server == server]
            members[server] = [t.name for t in mine]
            descriptions[server] = ", ".join(t.name.replace("_", " ") for t in mine)
    members[ALL] = [t.name for t in tools]
    members[GENERAL] = []
    return Routes(descriptions, members)


def _matches(tool: Tool, globs: Sequence[str]) -> bool:
    names = (tool.name, tool.original, f"{tool.server}/{tool.original}")
    return any(fnmatchcase(name, glob) for glob in globs for name in names)


def check_route(routes: Routes, name: str) -> None:
    """Raises `ConfigError` when there is no route `name`."""
    if name and name not in routes.tools:
        known = ", ".join(routes.tools)
        raise ConfigError(f"There is no route '{name}'.", f"There are: {known}.")
