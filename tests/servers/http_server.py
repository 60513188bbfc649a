"""A raw MCP server over streamable HTTP, run in a thread of the test; it fails as told.

    with HttpServer() as server:
        server.fail["tools/call"] = [503]     # the next call; then it works again

A failure is a status code, "drop" (connection closed before any answer), "cut" (an event stream
that breaks off), "cut json" (half a JSON body), "html" or "forget" (404: the session is unknown).
"""

from __future__ import annotations

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class HttpServer:
    """`url` is its address; `seen` lists (method, headers) of what came in."""

    def __init__(self) -> None:
        self.fail: dict[str, list[int | str]] = {}
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.calls: list[dict[str, Any]] = []
        self.sessions = 0
        self.as_events = False
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/mcp"

    def __enter__(self) -> HttpServer:
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def result(self, message: dict[str, Any]) -> dict[str, Any]:
        if message["method"] == "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "raw http", "version": "1"}
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        if message["method"] == "tools/list":
            schema = {"type": "object"}
            return {"tools": [{"name": name, "inputSchema": schema} for name in ("get", "put")]}
        self.calls.append(message["params"])
        return {"content": [{"type": "text", "text": f"call {len(self.calls)}"}]}


def _handler(of: HttpServer) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        server_state = of

    return Handler


class _Handler(BaseHTTPRequestHandler):
    server_state: HttpServer

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method = message["method"]
        self.server_state.seen.append((method, dict(self.headers)))
        planned = self.server_state.fail.get(method)
        failure = planned.pop(0) if planned else None
        if failure is not None:
            self._fail(failure)
        elif "id" not in message:
            self._answer(202, b"", "application/json")
        else:
            answer = {
                "jsonrpc": "2.0",
                "id": message["id"],
                "result": self.server_state.result(message),
            }
            self._send(answer, method == "initialize")

    def _send(self, answer: dict[str, Any], is_new: bool) -> None:
        headers = {}
        if is_new:
            self.server_state.sessions += 1
            headers["mcp-session-id"] = f"session-{self.server_state.sessions}"
        body = json.dumps(answer).encode()
        if self.server_state.as_events:
            body = b"event: message\ndata: " + body + b"\n\n"
        kind = "text/event-stream" if self.server_state.as_events else "application/json"
        self._answer(200, body, kind, headers)

    def _fail(self, failure: int | str) -> None:
        match failure:
            case int():
                self._answer(failure, b"Bearer token was wrong", "text/plain")
            case "forget":
                self._answer(404, b"", "text/plain")
            case "html":
                self._answer(200, b"<html>hello</html>", "text/html")
            case "cut":
                self._head(200, "text/event-stream", None)
                self.wfile.write(b": working\n\n")
                self._close()
            case "cut json":
                self._head(200, "application/json", 1000)
                self.wfile.write(b'{"jsonrpc": ')
                self._close()
            case _:
                self._close()

    def do_GET(self) -> None:
        self._answer(405, b"", "text/plain")

    def do_DELETE(self) -> None:
        self._answer(204, b"", "text/plain")

    def _head(self, status: int, kind: str, length: int | None) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        if length is not None:
            self.send_header("content-length", str(length))

        self.end_headers()

    def _answer(
        self, status: int, body: bytes, kind: str, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _close(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: object) -> None:
        pass
