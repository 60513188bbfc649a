"""What one tool call costs over a held session, against the adapter's default of one per call.

Run it from the repository: `python benchmarks/mcp_calls.py`. Both ways call the same tool of the
same server in this one run, in turns; the last line is the ratio of the two medians and says
whether it is at most 1/50. The server is `mcp-server-time` where it is installed (a real one, with
a real start), else the small one that local_agent.testing ships.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from langchain_mcp_adapters.client import MultiServerMCPClient

from local_agent.config import ServerSpec, resolve_command
from local_agent.mcp_client import open_servers

ROUNDS = 7
HELD_PER_ROUND = 20
LIMIT = 1 / 50


def server() -> tuple[str, tuple[str, ...], str, dict[str, Any]]:
    """Give (command, arguments, tool, arguments of the tool)."""
    command = resolve_command("mcp-server-time")
    if Path(command).is_file():
        return command, (), "get_current_time", {"timezone": "UTC"}
    from local_agent.testing import mcp_server

    return sys.executable, (str(mcp_server.__file__),), "echo", {"text": "hi"}


async def seconds(call: Callable[[], Awaitable[Any]]) -> float:
    """Time one call."""
    began = time.perf_counter()
    await call()
    return time.perf_counter() - began


async def main() -> int:
    """Measure, print, and give 0 if the ratio is within the limit."""
    command, args, name, tool_args = server()
    with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w") as devnull:
        os.dup2(devnull.fileno(), 2)  # the adapter leaves each server's stderr on ours
        connection: Any = {"transport": "stdio", "command": command, "args": list(args)}
        default = {
            tool.name: tool for tool in await MultiServerMCPClient({"s": connection}).get_tools()
        }[name]
        spec = ServerSpec("s", command=command, args=args)
        async with open_servers(
            [spec], log_dir=Path(folder), files_dir=lambda: Path(folder)
        ) as servers:
            (held,) = [tool for tool in servers.tools if tool.original == name]
            per_call: list[float] = []
            over_held: list[float] = []
            for _ in range(ROUNDS):
                per_call.append(await seconds(lambda: default.ainvoke(tool_args)))
                for _ in range(HELD_PER_ROUND):
                    over_held.append(await seconds(lambda: held(tool_args)))
    slow, fast = statistics.median(per_call), statistics.median(over_held)
    print(f"server: {Path(command).name}, tool: {name}")
    print(f"a process per call (adapter's default): {slow * 1000:8.1f} ms, median of {ROUNDS}")
    print(
        f"held session (local-agent):             {fast * 1000:8.1f} ms, median of {len(over_held)}"
    )
    verdict = "within" if fast <= slow * LIMIT else "OVER"
    print(f"ratio: 1/{slow / fast:.0f} ({verdict} the limit of 1/{1 / LIMIT:.0f})")
    return 0 if fast <= slow * LIMIT else 1


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
