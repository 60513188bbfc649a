"""One life of a session with a server: opened, used and closed by one task that owns it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, cast

import anyio
import httpx
from anyio.streams.memory import MemoryObjectSendStream
from mcp import ClientSession, McpError, types
from mcp.shared.message import SessionMessage

from local_agent import __version__
from local_agent.config import ServerSpec, show_url
from local_agent.errors import ServerError
from local_agent.mcp_client.http import HTTP_ERROR, open_http, status_text
from local_agent.mcp_client.server_log import ServerLog
from local_agent.mcp_client.stdio import ReadStream, WriteStream, open_stdio
from local_agent.mcp_client.text import one_line

CLOSE_PATIENCE = 4.0
"""Seconds for a whole shutdown; the process itself is ended in less (see stdio)."""


class CallFailed(Exception):
    """A request without a result: `may_have_run` if the server may have acted on it."""

    def __init__(self, text: str, *, may_have_run: bool, lost: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self.may_have_run = may_have_run
        self.lost = lost


@dataclass
class _Sending:
    request_id: str | int | None = None
    sent: bool = False


_SENDING: ContextVar[_Sending | None] = ContextVar("_SENDING", default=None)


class _Outbox:
    """The write stream of a session, noting for the sender its request id and that it was taken."""

    def __init__(self, stream: MemoryObjectSendStream[SessionMessage]) -> None:
        self._stream = stream

    async def send(self, item: SessionMessage) -> None:
        sending = _SENDING.get()
        if sending is None or not isinstance(item.message.root, types.JSONRPCRequest):
            await self._stream.send(item)
            return
        sending.request_id = item.message.root.id
        await self._stream.send(item)
        sending.sent = True

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> _Outbox:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


class Connection:
    """A session that is open, or was. `lost` is done, with the reason, once it cannot be used."""

    def __init__(self, spec: ServerSpec, log: ServerLog) -> None:
        self._spec = spec
        self._log = log
        self._stop = asyncio.Event()
        self._owner: asyncio.Task[None] | None = None
        self._session: ClientSession | None = None
        self._notices: set[asyncio.Task[None]] = set()
        loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[types.InitializeResult] = loop.create_future()
        self.lost: asyncio.Future[str] = loop.create_future()

    async def open(self) -> types.InitializeResult:
        """Start the server and greet it; raises ServerError with the reason.

        If the wait is given up (cancelled), the start is given up too.
        """
        self._owner = asyncio.create_task(self._own(), name=f"mcp {self._spec.name}")
        try:
            return await self._ready
        except asyncio.CancelledError:
            self._owner.cancel()
            raise

    async def close(self) -> None:
        """End the session and its process; returns when both are gone, or after CLOSE_PATIENCE."""
        if self._owner is None:
            return
        self._stop.set()
        for notice in self._notices:
            notice.cancel()
        await asyncio.wait({self._owner}, timeout=CLOSE_PATIENCE)
        if not self._owner.done():
            self._owner.cancel()
            await asyncio.wait({self._owner}, timeout=1.0)

    async def request(
        self, request: types.ClientRequestType, *, limit: float | None = None
    ) -> dict[str, Any]:
        """Send a request and give its raw result.

        Raises CallFailed, and TimeoutError after `limit` seconds. A request that is given up,
        by the limit or by cancelling, is cancelled on the server too; its late answer is dropped.
        """
        if self._session is None or self.lost.done():
            raise CallFailed(self._lost_reason(), may_have_run=False, lost=True)
        sending = _Sending()
        answer = asyncio.create_task(self._send(request, sending))
        try:
            await _first(answer, self.lost, limit)
        except asyncio.CancelledError:
            self._give_up(answer, sending, "cancelled by the user")
            raise
        if answer.done():
            return answer.result()
        if self.lost.done():
            answer.cancel()
            raise CallFailed(self._lost_reason(), may_have_run=sending.sent, lost=True)
        self._give_up(answer, sending, "timed out")
        raise TimeoutError

    def _lost_reason(self) -> str:
        return self.lost.result() if self.lost.done() else "is not running"

    def _lose(self, reason: str) -> None:
        if not self.lost.done():
            self.lost.set_result(reason)

    async def _send(self, request: types.ClientRequestType, sending: _Sending) -> dict[str, Any]:
        assert self._session is not None
        _SENDING.set(sending)
        try:
            # `send_request` and not `call_tool`: that one throws the result of a call away, of a
            # write that has run too, when it does not fit the tool's output schema.
            result = await self._session.send_request(types.ClientRequest(request), types.Result)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as exc:
            self._lose("ended")
            raise CallFailed("ended", may_have_run=sending.sent, lost=True) from exc
        except McpError as exc:
            raise self._failure(exc) from exc
        return result.model_dump(by_alias=True, exclude_none=True)

    def _failure(self, exc: McpError) -> CallFailed:
        error = exc.error
        if error.code == types.CONNECTION_CLOSED and error.message == "Connection closed":
            self._lose("ended")
            return CallFailed("ended during the call", may_have_run=True, lost=True)
        if error.code == HTTP_ERROR and isinstance(error.data, dict):
            lost = bool(error.data.get("lost"))
            if lost:
                self._lose(error.message)
            may_have_run = bool(error.data.get("may_have_run"))
            return CallFailed(error.message, may_have_run=may_have_run, lost=lost)
        return CallFailed(f"answered: {error.message}", may_have_run=False)

    def _give_up(self, answer: asyncio.Task[Any], sending: _Sending, reason: str) -> None:
        """Stop waiting, and tell the server: the SDK does neither on a time limit."""
        answer.cancel()
        if sending.request_id is None or self._session is None:
            return
        params = types.CancelledNotificationParams(requestId=sending.request_id, reason=reason)
        notice = asyncio.create_task(self._notify(types.CancelledNotification(params=params)))
        self._notices.add(notice)
        notice.add_done_callback(self._notices.discard)

    async def _notify(self, notification: types.CancelledNotification) -> None:
        assert self._session is not None
        try:
            async with asyncio.timeout(CLOSE_PATIENCE):
                await self._session.send_notification(types.ClientNotification(notification))
        except (TimeoutError, anyio.ClosedResourceError, anyio.BrokenResourceError):
            pass  # the server is gone or reads nothing: there is nobody to tell

    async def _own(self) -> None:
        """Enter and leave every context of the session: anyio wants both in one task."""
        reason = "ended"
        try:
            async with self._streams() as (read, write):
                outbox = cast(WriteStream, _Outbox(write))
                info = types.Implementation(name="local-agent", version=__version__)
                async with ClientSession(read, outbox, client_info=info) as session:
                    greeting = await session.initialize()
                    self._session = session
                    if not self._ready.done():
                        self._ready.set_result(greeting)
                    stopped = asyncio.create_task(self._stop.wait())
                    try:
                        await _first(stopped, self.lost)
                    finally:
                        stopped.cancel()
        except Exception as exc:  # noqa: BLE001 - the named isolation point: one server's life
            reason = describe(exc, self._spec)
            self._log.note(reason)
        finally:
            self._session = None
            self._lose(reason)
            if not self._ready.done():
                self._ready.set_exception(ServerError(reason))
                self._ready.exception()  # whoever waited may have given up: no complaint then

    @asynccontextmanager
    async def _streams(self) -> AsyncIterator[tuple[ReadStream, WriteStream]]:
        if self._spec.url:
            async with open_http(self._spec, self._lose) as streams:
                yield streams
        else:
            async with open_stdio(self._spec, self._log) as streams:
                yield streams


async def _first(
    one: asyncio.Future[Any], other: asyncio.Future[Any], limit: float | None = None
) -> None:
    """Wait until one of the two is done, at most `limit` seconds."""
    both: set[asyncio.Future[Any]] = {one, other}
    await asyncio.wait(both, timeout=limit, return_when=asyncio.FIRST_COMPLETED)


def describe(exc: BaseException, spec: ServerSpec) -> str:
    """Say in one line, to follow the server's name, why it cannot be used. Not masked yet."""
    while isinstance(exc, BaseExceptionGroup):
        exc = next(
            (one for one in exc.exceptions if not isinstance(one, asyncio.CancelledError)),
            exc.exceptions[0],
        )
    match exc:
        case ServerError():
            return exc.message
        case McpError() if exc.error.code == types.CONNECTION_CLOSED:
            return "ended before it answered"
        case McpError() if exc.error.code == HTTP_ERROR:
            return one_line(exc.error.message)
        case McpError():
            return one_line(f"answered: {exc.error.message}")
        case httpx.HTTPStatusError() if exc.response.is_redirect:
            return one_line(str(exc))
        case httpx.HTTPStatusError():
            return status_text(exc.response.status_code, exc.response.reason_phrase)
        case httpx.ConnectError() | httpx.ConnectTimeout():
            return f"cannot be reached at {show_url(spec.url)}"
        case anyio.ClosedResourceError() | anyio.BrokenResourceError():
            return "ended before it answered"
        case _:
            return one_line(f"{type(exc).__name__}: {exc}")
