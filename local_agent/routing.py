"""Routes: which tools a turn gets, chosen without a model call wherever that is possible."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Protocol

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langchain_core.messages.ai import UsageMetadata

from agent_core.ports import Tool
from context import Window, clip, text_of, weigh_tool
from local_agent.config import RouteSpec
from local_agent.errors import ConfigError, ModelError

GENERAL = "general"
ALL = "all"
MAX_TOOLS = 12  # more than this a 7B model chooses badly from
QUESTION_CHARS = 600  # the newest prompt, and as much of the exchange before it: some 400 tokens
DESCRIPTION_CHARS = 200

INSTRUCTION = """Sort the user's newest message into one of these topics.
{topics}
Take {general} for greetings, thanks, small talk, general knowledge and questions about what was \
already said. Answer with JSON: {{"route": "<topic>"}}"""


class RouterModel(Protocol):
    async def reply(
        self,
        messages: Sequence[AnyMessage],
        *,
        response_format: Mapping[str, Any] | None = None,
    ) -> AIMessage: ...


@dataclass(frozen=True, slots=True)
class Routes:
    """Names of routes with their descriptions and the names of their tools, in order."""

    descriptions: Mapping[str, str]
    tools: Mapping[str, Sequence[str]]


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


@dataclass(slots=True)
class Router:
    """Chooses a turn's route.

    `fixed` (from --route or /route) wins. Mode "off", and "auto" while all tools fit, is one route
    with all tools: the prompt then never changes. Otherwise the model is asked in one short call;
    what it cannot answer leaves the thread's route as it is.
    """

    routes: Routes
    model: RouterModel
    mode: str
    fits: Callable[[], bool]
    fixed: str = ""

    async def __call__(
        self, messages: Sequence[AnyMessage], current: str
    ) -> tuple[str, UsageMetadata | None]:
        """The route's name, and what the model call took if there was one."""
        if self.fixed:
            return self.fixed, None
        choices = [*self.routes.descriptions, GENERAL]
        if self.mode == "off" or len(choices) <= 1 or (self.mode != "model" and self.fits()):
            return ALL, None
        kept = current if current in self.routes.tools else ALL
        try:
            reply = await self.model.reply(
                [SystemMessage(self._instruction()), HumanMessage(_question(messages))],
                response_format=_schema(choices),
            )
            name = json.loads(text_of(reply.content)).get("route")
        except (ModelError, ValueError, AttributeError):
            return kept, None
        return (str(name) if name in choices else kept), reply.usage_metadata

    def _instruction(self) -> str:
        topics = "\n".join(
            f"- {name}: {text[:DESCRIPTION_CHARS]}"
            for name, text in self.routes.descriptions.items()
        )
        return INSTRUCTION.format(topics=f"{topics}\n- {GENERAL}: no tool", general=GENERAL)


def _question(messages: Sequence[AnyMessage]) -> str:
    """The newest prompt behind the exchange before it, which a follow-up needs to be understood."""
    said = [
        m
        for m in messages
        if isinstance(m, HumanMessage) or (isinstance(m, AIMessage) and not m.tool_calls)
    ]
    lines = [
        f"{'user' if isinstance(m, HumanMessage) else 'assistant'}: "
        f"{clip(text_of(m.content), QUESTION_CHARS // 2)}"
        for m in said[-3:-1]
    ]
    newest = clip(text_of(said[-1].content), QUESTION_CHARS) if said else ""
    return "\n".join([*lines, f"newest message of the user: {newest}"])


def _schema(choices: Sequence[str]) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {"route": {"type": "string", "enum": list(choices)}},
        "required": ["route"],
        "additionalProperties": False,
    }
    return {"type": "json_schema", "json_schema": {"name": "route", "schema": schema}}


def all_fit(tools: Sequence[Mapping[str, Any]], window: Window) -> bool:
    """Whether all tools can be in every prompt, so that there is nothing to route."""
    return len(tools) <= MAX_TOOLS and window.fits_tools(sum(map(weigh_tool, tools)))
