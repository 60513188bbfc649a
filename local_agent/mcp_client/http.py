"""HTTP for MCP servers: a client whose failures reach the call that met them, and only that one.

The SDK's transports answer a refused or broken request by taking the whole session down, and
leave its caller waiting. Here such a request gets a JSON-RPC error as its answer instead.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from local_agent.config import ServerSpec, show_url

HTTP_ERROR = -32050
"""Our JSON-RPC code for a failed exchange.

Its `data`: `may_have_run` says whether the server may have acted on the request, `lost` whether
the session is gone (and the request did not arrive in it).
"""
CONNECT_TIMEOUT = 10.0
ANSWER_MARGIN = 30.0
"""Seconds a request is read beyond the limit of a call, so that the limit is what is met."""

SILENCE = 30 * 86400.0
"""Seconds without an event that the one long stream of SSE may last: a chat may rest for days."""

Streams = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]


def is_loopback(url: str) -> bool:
    """Tell whether the URL's host is this machine by its name or address."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def status_text(status: int, reason: str = "") -> str:
    """Say in words what an HTTP status means for the request."""
    if status == 401:
        return "refused the login (401)"
    if status == 403:
        return "refused access (403)"
    return f"answered HTTP {status} {reason}".strip()


@asynccontextmanager
async def open_http(spec: ServerSpec, on_broken: Callable[[str], None]) -> AsyncIterator[Streams]:
    """Yield the message streams of a server at `spec.url`, streamable HTTP or the older SSE.

    `on_broken(reason)` is called when the session cannot go on (SSE only).
    """

    def client(
        headers: dict[str, str] | None = None,
        timeout: httpx.Timeout | None = None,
        auth: httpx.Auth | None = None,
    ) -> httpx.AsyncClient:
        return _Client(
            headers={**spec.headers, **(headers or {}), "accept-encoding": "identity"},
            timeout=timeout or httpx.Timeout(CONNECT_TIMEOUT, read=limit),
            auth=auth,
            trust_env=not is_loopback(spec.url),  # a proxy would look for loopback on itself
            on_broken=on_broken if spec.transport == "sse" else None,
        )

    limit = max(spec.tool_timeout_sec, spec.startup_timeout_sec) + ANSWER_MARGIN
    if spec.transport == "sse":
        async with sse_client(
            spec.url,
            sse_read_timeout=SILENCE,
            httpx_client_factory=client,
        ) as (read, write):
            yield read, write
        return
    async with (
        client() as http_client,
        streamable_http_client(spec.url, http_client=http_client) as (read, write, _),
    ):
        yield read, write


class _Client(httpx.AsyncClient):
    """Answers a failed JSON-RPC request with a JSON-RPC error; notifications never fail."""

    def __init__(self, *, on_broken: Callable[[str], None] | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._on_broken = on_broken

    async def send(self, request: httpx.Request, **kwargs: Any) -> httpx.Response:
        if request.method == "GET":
            timeout = {**request.extensions.get("timeout", {}), "read": None}
            request.extensions = {**request.extensions, "timeout": timeout}
        if request.method != "POST":
            return await super().send(request, **kwargs)
        call_id = _request_id(request)
        try:
            response = await super().send(request, **kwargs)
            if response.status_code < 400:
                return await self._checked(request, response, call_id)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as exc:
            where = show_url(str(request.url))
            text = f"cannot be reached at {where}{_named(exc)}"
            return self._failed(request, call_id, text, lost=True)
        except httpx.TransportError as exc:
            text = f"broke the connection off{_named(exc)}"
            return self._failed(request, call_id, text, may_have_run=True)
        await response.aclose()
        status = response.status_code
        # MCP: 404 to a request with a session means that the server has forgotten the session.
        if status == 404 and "mcp-session-id" in request.headers:
            return self._failed(request, call_id, "has forgotten our session", lost=True)
        text = status_text(status, response.reason_phrase)
        return self._failed(request, call_id, text, may_have_run=status >= 500)

    async def _checked(
        self, request: httpx.Request, response: httpx.Response, call_id: Any
    ) -> httpx.Response:
        """Make sure that an accepted request gets an answer that the transport hands on."""
        kind = response.headers.get("content-type", "").lower()
        if (
            call_id is None
            or self._on_broken
            or response.status_code == 202
            or response.is_redirect
        ):
            return response
        if kind.startswith("text/event-stream"):
            assert isinstance(response.stream, httpx.AsyncByteStream)
            response.stream = _Answered(response.stream, call_id)
            return response
        await response.aread()
        try:
            known = kind.startswith("application/json") and isinstance(response.json(), dict)
        except ValueError:
            known = False
        if known:
            return response
        text = "answered with something that is not MCP"
        return self._failed(request, call_id, text, may_have_run=True)

    def _failed(
        self,
        request: httpx.Request,
        call_id: Any,
        text: str,
        *,
        may_have_run: bool = False,
        lost: bool = False,
    ) -> httpx.Response:
        if self._on_broken is not None:
            self._on_broken(text)
        if call_id is None or self._on_broken is not None:
            return httpx.Response(202, request=request)
        error = _error(call_id, text, may_have_run=may_have_run, lost=lost)
        return httpx.Response(200, json=error, request=request)


class _Answered(httpx.AsyncByteStream):
    """An event stream that ends with an error event if it breaks off before the answer.

    The transport stops reading at the answer, so what is added behind it is never seen. A stream
    with event ids can be resumed and is left to the transport.
    """

    def __init__(self, stream: httpx.AsyncByteStream, call_id: Any) -> None:
        self._stream = stream
        self._call_id = call_id

    async def __aiter__(self) -> AsyncIterator[bytes]:
        resumable = False
        cause = ""
        try:
            async for chunk in self._stream:
                resumable = resumable or b"\nid:" in b"\n" + chunk
                yield chunk
        except httpx.TransportError as exc:
            cause = _named(exc)
        if not resumable:
            error = _error(self._call_id, f"broke the connection off{cause}", may_have_run=True)
            yield b"\n\nevent: message\ndata: " + json.dumps(error).encode() + b"\n\n"

    async def aclose(self) -> None:
        await self._stream.aclose()


def _named(exc: Exception) -> str:
    return "" if isinstance(exc, httpx.ConnectError) else f" ({type(exc).__name__})"


def _error(call_id: Any, text: str, *, may_have_run: bool, lost: bool = False) -> dict[str, Any]:
    data = {"may_have_run": may_have_run, "lost": lost}
    error = {"code": HTTP_ERROR, "message": text, "data": data}
    return {"jsonrpc": "2.0", "id": call_id, "error": error}


def _request_id(request: httpx.Request) -> Any:
    try:
        body = json.loads(request.content)
    except (ValueError, httpx.RequestNotRead):
        return None
    return body.get("id") if isinstance(body, dict) and "method" in body else None
