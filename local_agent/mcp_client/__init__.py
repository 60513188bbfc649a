"""MCP servers held open for as long as the program runs, and their tools.

    async with open_servers(settings.servers, log_dir=..., files_dir=...) as servers:
        text, status = await servers.tools[0]({"path": "."})

One process or connection per server, each owned by a task of its own; a server that fails to
start or dies later is reported, and the rest works.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from local_agent.config import ServerSpec
from local_agent.mcp_client.names import KnownTools
from local_agent.mcp_client.server import Server, State
from local_agent.mcp_client.server_log import log_path
from local_agent.mcp_client.tools import McpTool, make_tools, unmatched_globs

__all__ = ["McpTool", "ServerStatus", "Servers", "log_path", "open_servers"]


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """One server now. `reason` is one line of words when it failed, without secrets.

    `tools` counts those the agent has; `seconds` is how long the start took; `instructions` is
    what the server says of itself, as one line.
    """

    name: str
    state: State
    tools: int
    reason: str = ""
    seconds: float = 0.0
    instructions: str = ""


class Servers:
    """All configured servers. `tools` and `warnings` (one line each) are those of the start."""

    def __init__(self, servers: Sequence[Server], tools: Sequence[McpTool]) -> None:
        self._servers = servers
        self.tools = list(tools)
        self.warnings = [line for server in servers for line in server.warnings]
        for server in servers:
            if server.state == "ready":
                self.warnings += unmatched_globs(server)

    @property
    def status(self) -> list[ServerStatus]:
        """The state of each server at this moment, in the order of the configuration."""
        counts = {server.name: 0 for server in self._servers}
        for tool in self.tools:
            counts[tool.server] += 1
        return [
            ServerStatus(
                name=server.name,
                state=server.state,
                tools=counts[server.name],
                reason=server.reason,
                seconds=server.seconds,
                instructions=server.instructions,
            )
            for server in self._servers
        ]


@asynccontextmanager
async def open_servers(
    specs: Sequence[ServerSpec],
    *,
    log_dir: Path | None,
    files_dir: Callable[[], Path],
    reserved: Collection[str] = (),
) -> AsyncIterator[Servers]:
    """Start all servers side by side, each within its own time limit, and yield them.

    `log_dir` gets a log file per server and the list of known tools (None: nothing is written);
    `files_dir()` is asked for when a result holds an image or other data. `reserved` are names
    that no MCP tool may have. Raises nothing of its own: what failed is in `status`. When it is
    left, also by cancelling the start, no process stays behind.
    """
    servers = [Server(spec, log_dir, files_dir) for spec in specs]
    with _quiet_libraries():
        try:
            await asyncio.gather(*(server.start() for server in servers))
            known = KnownTools(log_dir / "known_tools.json" if log_dir else None)
            yield Servers(servers, await make_tools(servers, known, reserved))
        finally:
            await asyncio.gather(*(server.close() for server in servers))


_LOUD = ("mcp", "client", "httpx", "httpcore")


@contextmanager
def _quiet_libraries() -> Iterator[None]:
    """Keep the SDK's log records off the terminal; they hold URLs and what servers print.

    It logs by its own loggers, which without a handler end on stderr, and by the root logger's
    functions, which even install a handler for stderr when there is none.
    """
    silent = logging.NullHandler()
    loggers = [logging.getLogger(name) for name in _LOUD]
    propagate = [logger.propagate for logger in loggers]
    logging.getLogger().addHandler(silent)
    for logger in loggers:
        logger.addHandler(silent)
        logger.propagate = False
    try:
        yield
    finally:
        logging.getLogger().removeHandler(silent)
        for logger, before in zip(loggers, propagate, strict=True):
            logger.removeHandler(silent)
            logger.propagate = before
