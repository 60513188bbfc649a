"""The chat's commands over tools and routes: what there is, what of it is in the prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agent_core.ports import Tool
from agent_core.toolset import tools_of, toolset_in
from local_agent.app import App
from local_agent.cli.reply import Reply
from local_agent.errors import UsageError
from local_agent.session import Session
from local_agent.ui.lines import one_line
from local_agent.ui.sanitize import visible

AUTO = "auto"
_ABOUT = 100  # characters of a tool's description in the list


def offered(app: App, values: Mapping[str, Any]) -> list[Tool]:
    """The tools that the prompt of a thread has, by the values of its state."""
    tools = {tool.name: tool for tool in app.servers.tools}
    return tools_of(toolset_in(values), app.routes.tools, tools, app.maintainer.composer.find)


async def tools(app: App, session: Session, name: str) -> Reply:
    """`/tools` lists them, `/tools NAME` shows all that its server says of one."""
    if name:
        return Reply(_whole(app, name))
    if not app.servers.tools:
        return Reply("No tools are loaded.")
    rows = []
    for tool in app.servers.tools:
        mark = "read " if tool.read_only else "write"
        about = " ".join(tool.description.split())[:_ABOUT]
        rows.append(visible(f"{mark}  {tool.name}  ({tool.server})  {about}", newlines=False))
    built_in = app.maintainer.composer.built_in
    there = [tool.name for tool in offered(app, await session.values())]
    here = [name for name in there if name not in built_in]
    if 0 < len(here) < len(app.servers.tools):
        of = f"{len(here)} of {len(app.servers.tools)}"
        own = "".join(f", and {name}" for name in there if name in built_in)
        rows.append(f"In this thread's prompt, {of}: {one_line(', '.join(here))}{own}.")
    return Reply("\n".join(rows))


def _whole(app: App, name: str) -> str:
    """A tool as its server describes it, or one of our own. Raises `UsageError` where there is none
    of that name."""
    own = app.maintainer.composer.built_in
    tool = next((t for t in app.servers.tools if name in (t.name, t.original)), own.get(name))
    if tool is None:
        raise UsageError(f"There is no tool '{one_line(name)}'.", "/tools lists them.")
    kind = "only reads" if tool.read_only else "may change something: it is asked about"
    called = f", {tool.original} there" if tool.original != tool.name else ""
    head = f"{tool.name}  (of the server {tool.server}{called}; {kind})"
    schema = json.dumps(tool.schema, indent=2, ensure_ascii=False)
    return visible("\n\n".join(filter(None, [head, tool.description.strip(), schema])))


async def route(app: App, session: Session, name: str) -> Reply:
    """`/route` shows the routes, `/route NAME` keeps this chat on one, `/route auto` ends that."""
    from local_agent.routing import check_route

    if name not in ("", AUTO):
        check_route(app.routes, name)
        app.router.fixed = name
        return Reply(visible(f"This chat stays on the route {name}; /route auto ends that."))
    if name:
        app.router.fixed = ""
    kept = f"kept on {app.router.fixed}" if app.router.fixed else "chosen for each turn"
    rows = [f"The route is {kept}."]
    last = str((await session.values()).get("route", ""))
    for known, members in app.routes.tools.items():
        about = one_line(app.routes.descriptions.get(known, ""))[:_ABOUT]
        mark = "  <- the last turn" if known == last else ""
        rows.append(f"{known}  ({count(len(members))})  {about}".rstrip() + mark)
    if app.router.shelf.is_whole and app.servers.tools:
        rows.append("All tools fit a prompt, so each has all of them.")
    return Reply("\n".join(map(visible, rows)))


def count(tools_there: int) -> str:
    """So many tools, in words."""
    return f"{tools_there} tool{'' if tools_there == 1 else 's'}"
