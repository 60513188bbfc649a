"""Tools of MCP servers as the agent uses them, loaded and called by langchain-mcp-adapters.

The adapter gets a server in place of a session, and its traps are kept away from it: arguments
called `runtime`, `config`, `run_manager` or `self` travel inside one argument; a result reaches it
as one text, so that audio, structured content and artifacts cannot be lost or stored twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal, cast

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langchain_mcp_adapters.interceptors import MCPToolCallRequest, MCPToolCallResult
from langchain_mcp_adapters.tools import load_mcp_tools
from mcp import ClientSession, types

from local_agent.config import ServerSpec
from local_agent.mcp_client.names import Key, KnownTools, assign_names
from local_agent.mcp_client.server import Server
from local_agent.mcp_client.text import one_line, storable, storable_value

_WHOLE = "arguments"


@dataclass(frozen=True)
class McpTool:
    """A tool of a server. Calling it gives (text for the model, status) and never raises.

    Cancelling the call cancels it on the server as well.
    """

    name: str
    server: str
    original: str
    identity: str
    description: str
    schema: Mapping[str, Any]
    read_only: bool
    _tool: BaseTool = field(repr=False, compare=False)

    async def __call__(self, args: Mapping[str, Any]) -> tuple[str, Literal["success", "error"]]:
        safe = storable_value(args)
        try:
            json.dumps(safe)
        except (TypeError, ValueError, RecursionError) as exc:
            return f"Not called: the arguments are no JSON ({one_line(str(exc))}).", "error"
        call = {"type": "tool_call", "id": "call", "name": self.name, "args": {_WHOLE: safe}}
        message = cast(ToolMessage, await self._tool.ainvoke(call))
        return message.text, message.status


class _Session:
    """What the adapter calls a session: the tools that were kept, and calls that never raise."""

    def __init__(self, server: Server, tools: Sequence[types.Tool]) -> None:
        self._server = server
        self._tools = tools
        self._read_only = {tool.name: is_read_only(server.spec, tool) for tool in tools}

    async def list_tools(self, cursor: str | None = None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=list(self._tools))

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], progress_callback: object = None
    ) -> types.CallToolResult:
        text, is_error = await self._server.call(name, arguments, read_only=self._read_only[name])
        content: list[types.ContentBlock] = [types.TextContent(type="text", text=text)]
        return types.CallToolResult(content=content, isError=is_error)


async def _unpack(
    request: MCPToolCallRequest,
    handler: Callable[[MCPToolCallRequest], Awaitable[MCPToolCallResult]],
) -> MCPToolCallResult:
    """Take the real arguments out of the one that carries them past the adapter's signature."""
    return await handler(request.override(args=request.args[_WHOLE]))


def is_read_only(spec: ServerSpec, tool: types.Tool) -> bool:
    """Tell read from write: the configuration, of it `write` first, else the server's hint."""
    if _matches(tool.name, spec.write):
        return False
    if _matches(tool.name, spec.read):
        return True
    return tool.annotations is not None and tool.annotations.readOnlyHint is True


async def make_tools(
    servers: Sequence[Server], known: KnownTools, reserved: Collection[str] = ()
) -> list[McpTool]:
    """Make the tools of all servers that are ready, in the order of configuration and server."""
    kept = {server.name: _kept(server) for server in servers if server.state == "ready"}
    names = assign_names(_keys(servers, kept, known), reserved)
    known.remember(
        {server.name: [tool.name for tool in server.found] for server in servers if server.found}
    )
    tools: list[McpTool] = []
    for server in servers:
        listed = kept.get(server.name, [])
        session = cast(ClientSession, _Session(server, listed))
        loaded = await load_mcp_tools(session, server_name=server.name, tool_interceptors=[_unpack])
        tools += [
            _tool(server, tool, adapted, names[(server.name, tool.name)])
            for tool, adapted in zip(listed, loaded, strict=True)
        ]
    return tools


def unmatched_globs(server: Server) -> list[str]:
    """Give a warning for each glob of the configuration that no tool of the server matches."""
    spec = server.spec
    names = [tool.name for tool in server.found]
    settings = {
        "enabled_tools": spec.enabled_tools,
        "disabled_tools": spec.disabled_tools,
        "read": spec.read,
        "write": spec.write,
    }
    return [
        f"Server {server.name}: {key} names {glob}, but no tool is called so."
        for key, globs in settings.items()
        for glob in globs
        if glob != "*" and not any(fnmatchcase(name, glob) for name in names)
    ]


def _identity(spec: ServerSpec) -> str:
    """A digest of what is started or called: the same name may stand for another server later."""
    place = json.dumps([spec.command, spec.args, spec.cwd, spec.url, spec.transport])
    return hashlib.sha256(place.encode()).hexdigest()


def _tool(server: Server, tool: types.Tool, adapted: BaseTool, name: str) -> McpTool:
    return McpTool(
        name=name,
        server=server.name,
        original=tool.name,
        identity=_identity(server.spec),
        description=storable(tool.description or tool.title or ""),
        schema={"properties": {}, **storable_value(tool.inputSchema), "type": "object"},
        read_only=is_read_only(server.spec, tool),
        _tool=adapted,
    )


def _keys(
    servers: Sequence[Server], kept: Mapping[str, Sequence[types.Tool]], known: KnownTools
) -> Iterator[Key]:
    """Give every tool that counts for names: also those of a server that is down this time."""
    for server in servers:
        if server.state == "ready":
            yield from ((server.name, tool.name) for tool in kept[server.name])
        elif server.state != "disabled":
            offered = known.of(server.name)
            yield from ((server.name, name) for name in offered if _wanted(server.spec, name))


def _kept(server: Server) -> list[types.Tool]:
    return [tool for tool in server.found if _wanted(server.spec, tool.name)]


def _wanted(spec: ServerSpec, name: str) -> bool:
    return _matches(name, spec.enabled_tools) and not _matches(name, spec.disabled_tools)


def _matches(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)
