"""The tools of a thread as its turns go on: what the router chose, and what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.messages.ai import UsageMetadata
from langgraph.graph import END

from agent_core.hear import Known
from agent_core.ports import Choice, Router, Tool
from agent_core.prompt import Composer
from agent_core.toolset import LOUD, tools_of, toolset_in
from agent_core.view import last_prompt


@dataclass(frozen=True, slots=True)
class Steering:
    """Asks the router, and writes what it says into the state. `routes` are names of tools."""

    router: Router
    composer: Composer
    tools: Mapping[str, Tool]
    routes: Mapping[str, Sequence[str]]

    def tools_of(self, values: Mapping[str, Any]) -> list[Tool]:
        """The tools of the prompt for a state."""
        return tools_of(toolset_in(values), self.routes, self.tools, self.composer.find)

    def tools_before(self, values: Mapping[str, Any]) -> list[Tool]:
        """Those of the turn before, which the server has read."""
        return self.tools_of({"toolset": values.get("toolset_before") or toolset_in(values)})

    def known(self, tools: Sequence[Tool], values: Mapping[str, Any]) -> Known:
        """What a reply may call to a prompt with `tools`, which brought the state to `values`."""
        names = {tool.name for tool in tools}
        others = [tool for tool in self.tools.values() if tool.name not in names]
        shown = [*tools, *(self.composer.lookups.values() if values.get("lookup") else ())]
        names |= {tool.name for tool in shown}
        hidden = [tool for tool in self.composer.built_in.values() if tool.name not in names]
        return Known(shown, others, hidden)

    async def turn(self, values: Mapping[str, Any]) -> tuple[dict[str, Any], UsageMetadata | None]:
        """What goes into the state at the start of a turn, and what asking the model took."""
        choice = await self.router(values["messages"], values)
        before, toolset = dict(toolset_in(values)), _toolset(choice)
        # What was said and is not shown whole has to be looked up, and that takes a tool.
        quiet = "" if choice.quiet == "said" and values.get("lookup") else choice.quiet
        update: dict[str, Any] = {"route": choice.route, "quiet": quiet}
        if toolset != before:
            update |= {"toolset": toolset, "toolset_before": before}
        elif values.get("toolset_before"):
            update["toolset_before"] = {}
        if quiet and self.tools_of({"toolset": toolset}):
            update["nudged"] = [*values.get("nudged", []), _prompt_id(values)]
        return update, choice.usage

    async def not_quiet(
        self, values: Mapping[str, Any], called: Sequence[str]
    ) -> tuple[dict[str, Any], UsageMetadata | None]:
        """What goes into the state where a turn that was to need no tool does, and what asking the
        model took. `called` are names that the model called nevertheless."""
        names = [name for name in called if name in self.tools]
        choice = await self.router.with_tools(values["messages"], values, names)
        prompt = _prompt_id(values)
        nudged = [i for i in values.get("nudged", []) if i != prompt]
        update = {"route": choice.route, "quiet": LOUD, "nudged": nudged}
        return {**update, "toolset": _toolset(choice)}, choice.usage

    def widened(self, values: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
        """What goes into the state so that the tools of these names are in the next prompt."""
        toolset = dict(self.router.widen(values, [n for n in names if n in self.tools]))
        return {} if toolset == toolset_in(values) else {"toolset": toolset}

    def find(self, values: Mapping[str, Any], query: str) -> tuple[str, dict[str, Any]]:
        """What `find_tools` answers, and what goes into the state with it."""
        text, names = self.router.find(query)
        return text, self.widened(values, names)


def _toolset(choice: Choice) -> dict[str, Any]:
    return dict(choice.toolset) or {"route": choice.route}


def _prompt_id(values: Mapping[str, Any]) -> str:
    messages = values["messages"]
    return messages[last_prompt(messages)].id or ""


def next_of_agent(state: Mapping[str, Any]) -> str:
    """To `collect` while the last reply had calls, also when each of them was refused already.

    To `agent` again where the turn was to need no tool, and its first reply showed that it does.
    """
    if state.get("quiet") == LOUD and isinstance(state["messages"][-1], HumanMessage):
        return "agent"
    last = next(m for m in reversed(state["messages"]) if isinstance(m, AIMessage))
    return "collect" if last.tool_calls else END
