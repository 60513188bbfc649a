"""One configured server: its state, its session, and the calls that survive what it does."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from mcp import types
from pydantic import ValidationError

from local_agent.config import ServerSpec, mask
from local_agent.errors import ServerError
from local_agent.mcp_client.connection import CallFailed, Connection
from local_agent.mcp_client.results import flatten, has_data
from local_agent.mcp_client.server_log import ServerLog
from local_agent.mcp_client.text import one_line, storable

State = Literal["ready", "failed", "starting", "disabled"]

RESTART_WINDOW = 120.0
RESTART_DELAYS = (0.0, 1.0, 2.0, 4.0)
"""Seconds before the 1st, 2nd, ... restart within RESTART_WINDOW seconds; then no more for now."""
MAX_PAGES = 1000


class Server:
    """A server of the configuration. All methods are for one event loop."""

    def __init__(
        self,
        spec: ServerSpec,
        log_dir: Path | None,
        files_dir: Callable[[], Path],
        restart_delays: Sequence[float] = RESTART_DELAYS,
    ) -> None:
        self.spec = spec
        self.state: State = "starting" if spec.enabled else "disabled"
        self.reason = ""
        self.instructions = ""
        self.seconds = 0.0
        self.found: list[types.Tool] = []
        self.warnings: list[str] = []
        self.log = ServerLog(log_dir, spec.name, spec.secrets)
        self._files_dir = files_dir
        self._connection: Connection | None = None
        self._lock = asyncio.Lock()
        self._delays = restart_delays
        self._restarts: deque[float] = deque(maxlen=len(restart_delays))
        self._forgot = False
        self._twice: set[str] = set()

    async def start(self) -> None:
        """Start and list the tools; never raises: `state` and `reason` say what came of it."""
        if not self.spec.enabled:
            return
        if self.spec.problem:
            self._fail(self.spec.problem)
            return
        began = time.monotonic()
        limit = self.spec.startup_timeout_sec
        try:
            async with asyncio.timeout(limit):
                greeting = await self._open()
            self.instructions = one_line(greeting.instructions or "", 1000)
            left = max(0.0, began + limit - time.monotonic())
            await self._list_tools(left)
            self.state = "ready"
        except TimeoutError:
            self._fail(f"did not answer within {limit:g} s (startup_timeout_sec)")
        except ServerError as exc:
            self._fail(exc.message)
        finally:
            self.seconds = time.monotonic() - began

    async def close(self) -> None:
        """End the session; the process is gone when this returns."""
        if self._connection is not None:
            await self._connection.close()
        self.log.close()

    async def call(
        self, original: str, args: Mapping[str, Any], *, read_only: bool
    ) -> tuple[str, bool]:
        """Call a tool by its own name; gives (text, is_error). Raises only CancelledError."""
        try:
            text, is_error = await self._call(original, dict(args))
        except TimeoutError:
            limit = f"{self.spec.tool_timeout_sec:g} s (tool_timeout_sec of server {self.name})"
            text, is_error = f"No answer within {limit}. The server was told to stop.", True
            text += self._doubt(read_only)
        except CallFailed as exc:
            text, is_error = f"Server {self.name} {exc.text}.", True
            if exc.lost:
                self._forgot = True
                text += " It is started again for the next call." if not self.spec.url else ""
            text += self._doubt(read_only) if exc.may_have_run else ""
        except Exception as exc:  # noqa: BLE001 - the named isolation point: one call of one server
            self.log.note(f"call of {original}: {type(exc).__name__}: {exc}")
            text, is_error = (
                f"Server {self.name}: {type(exc).__name__}: {one_line(str(exc))}.",
                True,
            )
            text += self._doubt(read_only)
        if is_error:
            return mask(storable(text), self.spec.secrets), True
        return text, False

    @property
    def name(self) -> str:
        return self.spec.name

    def _doubt(self, read_only: bool) -> str:
        if read_only:
            return ""
        return " It may have run all the same: check before trying again."

    def _fail(self, reason: str) -> None:
        self.state = "failed"
        ended = self.log.exit_code
        if reason.startswith("ended") and ended is not None:
            reason += f", exit code {ended}"
        last = self.log.last_lines()
        self.reason = mask(one_line(f"{reason}: {last}" if last else reason), self.spec.secrets)
        self.log.note(f"failed: {reason}")

    async def _open(self) -> types.InitializeResult:
        # A start that is given up ends by itself; `close` waits for it, so nobody waits here.
        self._connection = Connection(self.spec, self.log)
        return await self._connection.open()

    async def _call(self, original: str, args: dict[str, Any]) -> tuple[str, bool]:
        params = types.CallToolRequestParams(name=original, arguments=args)
        request = types.CallToolRequest(params=params)
        limit = self.spec.tool_timeout_sec
        connection = await self._connected()
        try:
            result = await connection.request(request, limit=limit)
        except CallFailed as exc:
            if not exc.lost or exc.may_have_run:
                raise
            # It never reached the server, which was gone before: once more, to a new one.
            connection = await self._connected()
            result = await connection.request(request, limit=limit)
        if has_data(result):
            text, is_error = await asyncio.to_thread(flatten, result, self._files_dir)
        else:
            text, is_error = flatten(result, self._files_dir)
        if self._forgot:
            self._forgot = False
            text = f"[{self._forgotten()}]\n{text}"
        return text, is_error

    def _forgotten(self) -> str:
        if self.spec.url:
            return f"note: this is a new session with server {self.name}; the old one was lost"
        return f"note: server {self.name} was started again; what it held in memory is gone"

    async def _connected(self) -> Connection:
        """Give the open connection, or a new one if that was lost. Raises CallFailed."""
        async with self._lock:
            if self._connection is not None and not self._connection.lost.done():
                return self._connection
            await self._wait_for_turn()
            if self._connection is not None:
                await self._connection.close()
            self._forgot = True
            self.state = "starting"
            limit = self.spec.startup_timeout_sec
            try:
                async with asyncio.timeout(limit):
                    await self._open()
            except asyncio.CancelledError:
                self._fail("its restart was interrupted")
                raise
            except TimeoutError as exc:
                self._fail(f"did not answer within {limit:g} s (startup_timeout_sec)")
                raise CallFailed(self._down(), may_have_run=False) from exc
            except ServerError as exc:
                self._fail(exc.message)
                raise CallFailed(self._down(), may_have_run=False) from exc
            self.state, self.reason = "ready", ""
            assert self._connection is not None
            return self._connection

    def _down(self) -> str:
        return f"was lost and could not be used again: it {self.reason}"

    async def _wait_for_turn(self) -> None:
        now = time.monotonic()
        recent = [at for at in self._restarts if now - at < RESTART_WINDOW]
        if len(recent) == len(self._delays):
            wait = RESTART_WINDOW - (now - recent[0])
            raise CallFailed(
                f"ended {len(recent)} times in a row and is not started again "
                f"before {wait:.0f} s have passed",
                may_have_run=False,
            )
        await asyncio.sleep(self._delays[len(recent)])
        self._restarts.append(time.monotonic())

    async def _list_tools(self, limit: float) -> None:
        """Read all pages of tools/list within `limit` seconds; what came before an error is kept.

        Raises ServerError when the first page fails.
        """
        try:
            async with asyncio.timeout(limit):
                await self._list_pages()
        except (TimeoutError, CallFailed) as exc:
            text = exc.text if isinstance(exc, CallFailed) else f"did not answer within {limit:g} s"
            if not self.found:
                raise ServerError(f"{text} (tools/list)") from exc
            self._warn(f"listed only {len(self.found)} tools, then {text}")
        if self._twice:
            self._warn(f"lists twice, kept once: {', '.join(sorted(self._twice))}")

    async def _list_pages(self) -> None:
        assert self._connection is not None
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(MAX_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
            page = await self._connection.request(types.ListToolsRequest(params=params))
            tools = page.get("tools")
            self._take(tools if isinstance(tools, list) else [])
            cursor = page.get("nextCursor")
            if not cursor or not isinstance(cursor, str):
                return
            if cursor in seen:
                self._warn("gives the same page of its tool list again: stopped there")
                return
            seen.add(cursor)
        self._warn(f"lists its tools on more than {MAX_PAGES} pages: stopped there")

    def _take(self, tools: list[Any]) -> None:
        """Keep each tool of a page that can be read; one bad entry does not cost the others."""
        names = {tool.name for tool in self.found}
        for raw in tools:
            try:
                tool = types.Tool.model_validate(raw)
            except ValidationError:
                name = raw.get("name") if isinstance(raw, dict) else raw
                self._warn(f"describes a tool that cannot be read: {one_line(str(name), 80)}")
                continue
            if tool.name in names:
                self._twice.add(one_line(tool.name, 80))
                continue
            names.add(tool.name)
            self.found.append(tool)

    def _warn(self, text: str) -> None:
        line = mask(f"Server {self.name} {one_line(text)}.", self.spec.secrets)
        if line not in self.warnings:
            self.warnings.append(line)
