"""ChatOpenAI brought to what local servers take: plain strings, no retries, no environment."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import httpx2
from langchain_core.messages import BaseMessage
from langchain_openai import ChatOpenAI

from .failures import ServerSaid
from .template import USUAL, Form

CONNECT_TIMEOUT = 5.0  # seconds; a loopback server accepts at once, one in the network soon
READ_TIMEOUT = 900.0  # seconds without a byte: a 7B on a laptop may read a long prompt for minutes
NOTHING = "(no output)"  # the content of a tool result that has none; empty is refused by some

_KEPT_HEADERS = {
    "accept",
    "accept-encoding",
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
    "user-agent",
}
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_-]")


def http_client(
    base_url: str, api_key: str, *, read_timeout: float = READ_TIMEOUT
) -> httpx2.AsyncClient:
    """A client for the model server alone.

    Proxies of the environment are not used: they capture loopback. Each request has its own
    connection, so that none is lost to one that the server closed while it was idle. The kernel
    probes it, so that a machine that vanished is noticed while a long prompt is being read.
    Headers that the SDK takes from OPENAI_* variables are dropped.
    """

    async def bare(request: httpx2.Request) -> None:
        for name in list(request.headers):
            if name.lower() not in _KEPT_HEADERS:
                del request.headers[name]
        request.headers["User-Agent"] = "local-agent"
        if api_key:
            request.headers["Authorization"] = f"Bearer {api_key}"
        else:
            request.headers.pop("Authorization", None)

    transport = httpx2.AsyncHTTPTransport(
        verify=base_url.lower().startswith("https:"),  # certificates take 20 ms to load
        trust_env=False,
        limits=httpx2.Limits(max_keepalive_connections=0),
        socket_options=_keepalive(),
    )
    return httpx2.AsyncClient(
        trust_env=False,
        transport=transport,
        timeout=timeouts(read_timeout),
        event_hooks={"request": [bare]},
    )


def timeouts(read: float) -> httpx2.Timeout:
    """Short to connect, long to read."""
    return httpx2.Timeout(connect=CONNECT_TIMEOUT, read=read, write=60.0, pool=60.0)


def _keepalive() -> list[tuple[int, int, int]]:
    """A silent peer is given up after 30 + 4 x 10 seconds, where the system lets us say so."""
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, seconds in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), seconds))
    return options


class WireModel(ChatOpenAI):
    """Builds the request as ChatOpenAI does and gives the stream's pieces as plain dicts.

    ChatOpenAI's own reading of the stream is not used: it completes cut arguments, drops
    reasoning, takes a torn stream for a whole one, and fails on entries without a function.
    """

    async def pieces(
        self, messages: Sequence[BaseMessage], form: Form = USUAL, **options: Any
    ) -> AsyncGenerator[Mapping[str, Any], None]:
        """Send the request, its messages in the given form, and yield each chunk.

        Raises the client's errors as they are, ServerSaid for an error in a 200 that is no
        stream. The connection is closed when the caller stops listening, also by cancelling.
        """
        payload = self._get_request_payload(list(messages), **options)
        payload["messages"] = form.applied(payload["messages"])
        payload["stream"] = True
        payload["stream_options"] = {"include_usage": True}
        async with await self.async_client.create(**payload) as stream:
            kind = stream.response.headers.get("content-type", "")
            if "text/event-stream" not in kind:
                yield _whole(await stream.response.aread())
                return
            async for chunk in stream:
                if hasattr(chunk, "model_dump"):
                    yield chunk.model_dump(warnings=False)
                elif isinstance(chunk, Mapping):
                    yield chunk

    def _get_request_payload(
        self, input_: Any, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        payload = super()._get_request_payload(input_, stop=stop, **kwargs)
        payload["messages"] = [_plain(message) for message in payload["messages"]]
        if "max_completion_tokens" in payload:  # local servers know the older name
            payload["max_tokens"] = payload.pop("max_completion_tokens")
        return payload


def _whole(data: bytes) -> Mapping[str, Any]:
    """An answer in one piece, from a server that does not stream, or an error in a 200."""
    text = data.decode("utf-8", "replace")
    try:
        body = json.loads(text)
    except ValueError:
        raise ServerSaid(text or "an empty answer") from None
    if not isinstance(body, Mapping) or not body.get("choices"):
        raise ServerSaid(body)
    return body


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """A message whose content is a string and whose calls a strict provider accepts."""
    content = _as_text(message.get("content"))
    if message["role"] == "tool" and not content.strip():
        content = NOTHING
    role = "system" if message["role"] == "developer" else message["role"]
    plain: dict[str, Any] = {"role": role, "content": content}
    if message.get("tool_call_id"):
        plain["tool_call_id"] = message["tool_call_id"]
    if message.get("tool_calls"):
        plain["tool_calls"] = [_plain_call(call) for call in message["tool_calls"]]
    return plain


def _as_text(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content.encode("utf-8", "replace").decode("utf-8")
    parts = content if isinstance(content, list) else [content]
    texts = []
    for part in parts:
        if isinstance(part, Mapping):
            texts.append(str(part["text"]) if "text" in part else f"[{part.get('type', 'data')}]")
        else:
            texts.append(str(part))
    return _as_text("\n".join(texts))


def _plain_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """A call as history: one that could not be parsed is shown without its arguments."""
    function = call.get("function") or {}
    name = _NOT_IN_NAME.sub("_", str(function.get("name") or ""))[:64] or "unknown"
    arguments = function.get("arguments")
    try:
        whole = isinstance(json.loads(arguments or ""), dict)
    except (TypeError, ValueError, RecursionError):
        whole = False
    return {
        "id": call.get("id"),
        "type": "function",
        "function": {"name": name, "arguments": arguments if whole else "{}"},
    }
