"""Servers for tests: the specs of the raw servers in tests/servers, and `open_servers` on them."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from local_agent.config import ServerSpec
from local_agent.mcp_client import McpTool, Servers, open_servers

STDIO_SERVER = Path(__file__).with_name("stdio_server.py")


def stdio_spec(name: str, settings: dict[str, Any] | None = None, **spec: Any) -> ServerSpec:
    """A server of tests/servers/stdio_server.py; `settings` is its first argument."""
    args = ("-S", str(STDIO_SERVER), json.dumps({"name": name, **(settings or {})}))
    return ServerSpec(name, command=sys.executable, args=args, **spec)


def opened(specs: Iterable[ServerSpec], folder: Path) -> AbstractAsyncContextManager[Servers]:
    """`open_servers` with its folders below `folder`: log and files."""
    return open_servers(tuple(specs), log_dir=folder / "log", files_dir=lambda: folder / "files")


def tool(servers: Servers, original: str, server: str | None = None) -> McpTool:
    """The one tool of this original name (on this server)."""
    (found,) = [
        tool
        for tool in servers.tools
        if tool.original == original and server in (None, tool.server)
    ]
    return found


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that ended and was not waited for counts as gone."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


def wait_for(condition: Any, seconds: float = 5.0) -> bool:
    """Wait, blocking, until the condition holds; False when it does not within the time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())
