"""A scripted model server: real HTTP on 127.0.0.1, the OpenAI chat format, replies from a list."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from .history import check_request, common_prefix, prompt_text
from .replies import Broken, Fail, Hang, Overflow, Reply, Say, Slow, overflow_reply
from .wire import Frame, chunk_object, completion_object, deltas, last_chunk, pieces

Flavour = Literal["llama.cpp", "lmstudio", "plain"]
Body = dict[str, Any]


class ScriptedServer:
    """A chat server that plays `replies` in order; use it as a context manager.

    replies: a list (the last one again and again if `repeat`; else running out is a 500 that
        says so), or a function from the request body to a reply.
    strict: answer 400 to a request that a strict provider refuses; see `refused`.
    loaded: ids of the loaded models (default: `model` alone). None loaded: chat answers 404.
    reply_model: the model that replies name (default: the one that was asked for).
    chunk, delay: characters per streamed piece, seconds between two.
    max_prompt_chars, overflow: refuse longer prompts (see `prompt_text`), in that shape.
    never_streams: answer a stream request in one piece of JSON.
    api_key: when set, every request without it gets a 401.
    counts: whether answers carry usage and timings (a millisecond a token read, ten one written).

    `requests` has the body of each chat request, refused ones too, `refused` (reason, body) of
    the refused, `headers` the headers of each, `paths` every path that was asked for, in order.
    `loaded`, `context_length`, `replies` and `max_prompt_chars` may be changed while it runs,
    and `hidden` filled with paths that are to answer 404.
    """

    def __init__(
        self,
        replies: Sequence[Reply] | Callable[[Body], Reply] = (),
        *,
        repeat: bool = False,
        strict: bool = True,
        model: str = "scripted-7b",
        context_length: int = 8192,
        flavour: Flavour = "llama.cpp",
        loaded: Sequence[str] | None = None,
        reply_model: str | None = None,
        chunk: int | None = 5,
        delay: float = 0.0,
        max_prompt_chars: int | None = None,
        overflow: Overflow = "llama.cpp",
        api_key: str = "",
        never_streams: bool = False,
        counts: bool = True,
        port: int = 0,
    ) -> None:
        self.replies = replies if callable(replies) else list(replies)
        self.repeat, self.strict, self.model = repeat, strict, model
        self.context_length, self.flavour = context_length, flavour
        self.loaded = [model] if loaded is None else list(loaded)
        self.reply_model, self.chunk, self.delay = reply_model, chunk, delay
        self.max_prompt_chars, self.overflow, self.api_key = max_prompt_chars, overflow, api_key
        self.never_streams, self.counts = never_streams, counts
        self.hidden: set[str] = set()
        self.busy: bool | None = None  # what llama.cpp's /slots says; None: there is no such list
        self.requests: list[Body] = []
        self.headers: list[dict[str, str]] = []
        self.refused: list[tuple[str, Body]] = []
        self.paths: list[str] = []
        self.dropped = threading.Event()  # a client hung up before its answer was complete
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._played = 0
        self._last_prompt = ""
        self._http = _Listener(("127.0.0.1", port), _handler_for(self))
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._http.server_address[1])

    @property
    def base_url(self) -> str:
        """What goes into `[model] base_url`."""
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening and drop every open connection, as a killed server does."""
        if self.closing.is_set():
            return
        self.closing.set()
        if self._thread.is_alive():
            self._http.shutdown()
        self._http.server_close()
        self._http.drop_all()

    def take(self, body: Body, headers: dict[str, str]) -> Reply:
        """Record a chat request and choose the answer."""
        with self._lock:
            self.requests.append(body)
            self.headers.append(headers)
            reason = check_request(body) if self.strict else None
            if reason:
                self.refused.append((reason, body))
                return Fail(400, {"error": {"message": reason, "type": "invalid_request_error"}})
            if not self.loaded:
                return Fail(404, {"error": {"message": "No models loaded. Please load a model."}})
            size = len(prompt_text(body))
            if self.max_prompt_chars is not None and size > self.max_prompt_chars:
                return overflow_reply(self.overflow, size // 4, self.max_prompt_chars // 4)
            return self._next(body)

    def _next(self, body: Body) -> Reply:
        if callable(self.replies):
            return self.replies(body)
        played, self._played = self._played, self._played + 1
        if played < len(self.replies):
            return self.replies[played]
        if self.repeat and self.replies:
            return self.replies[-1]
        text = f"the script has {len(self.replies)} replies, this is request {played + 1}"
        return Fail(500, {"error": {"message": text}})

    def frame(self, body: Body, reply: Reply) -> Frame:
        """Usage and timings of an answer: 4 characters a token, the common prefix as cached."""
        prompt = prompt_text(body)
        with self._lock:
            cached = common_prefix(self._last_prompt, prompt) // 4
            self._last_prompt = prompt
        total = len(prompt) // 4
        written = max(1, len(reply.text) // 4) if isinstance(reply, Say) else 10
        usage: Mapping[str, Any] | None = {
            "prompt_tokens": total,
            "completion_tokens": written,
            "total_tokens": total + written,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        wanted = reply.usage if isinstance(reply, Say) else "auto"
        if wanted == "none":
            usage = None
        elif wanted == "zero":
            usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        elif wanted != "auto":
            usage = wanted
        timings = {
            "cache_n": cached,
            "prompt_n": total - cached,
            "prompt_ms": total - cached,
            "predicted_n": written,
            "predicted_ms": 10 * written,
        }
        return Frame(
            model=self.reply_model or str(body.get("model") or self.model),
            usage=usage if self.counts else None,
            timings=timings if self.counts and self.flavour == "llama.cpp" else None,
            chunk=self.chunk,
        )

    def describe(self, path: str) -> Any:
        """The body of a GET, None for a path this flavour does not have."""
        names: dict[str, Callable[[], Any]] = {
            "/v1/models": self._models,
            "/health": lambda: {"status": "ok"},
        }
        if self.flavour == "llama.cpp":
            names["/props"] = lambda: {
                "default_generation_settings": {"n_ctx": self.context_length},
                "model_alias": self.model,
                "total_slots": 1,
            }
            if self.busy is not None:
                names["/slots"] = lambda: [{"id": 0, "is_processing": self.busy}]
        elif self.flavour == "lmstudio":
            names["/api/v1/models"] = self._lmstudio_v1
            names["/api/v0/models"] = self._lmstudio_v0
        answer = None if path in self.hidden else names.get(path)
        return answer() if answer else None

    def _known(self) -> list[str]:
        return list(dict.fromkeys([*self.loaded, self.model]))

    def _models(self) -> Body:
        known = self._known() if self.flavour == "lmstudio" else self.loaded
        data: list[Body] = [{"id": name, "object": "model", "owned_by": "x"} for name in known]
        if self.flavour == "llama.cpp":
            for entry in data:
                entry["meta"] = {"n_ctx": self.context_length, "n_ctx_train": 32768}
        return {"object": "list", "data": data}

    def _lmstudio_v1(self) -> Body:
        models: list[Body] = [{"type": "embedding", "key": "embed", "loaded_instances": []}]
        for name in self._known():
            instance = {"id": name, "config": {"context_length": self.context_length}}
            models.append(
                {
                    "type": "llm",
                    "key": name,
                    "max_context_length": 32768,
                    "loaded_instances": [instance] if name in self.loaded else [],
                }
            )
        return {"models": models}

    def _lmstudio_v0(self) -> Body:
        data = []
        for name in self._known():
            entry: Body = {"id": name, "type": "llm", "max_context_length": 32768}
            entry["state"] = "loaded" if name in self.loaded else "not-loaded"
            if name in self.loaded:
                entry["loaded_context_length"] = self.context_length
            data.append(entry)
        return {"object": "list", "data": data}


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, *args: Any) -> None:
        self._open: set[socket.socket] = set()
        super().__init__(*args)

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # the parent looks up a host name

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news here."""

    def drop_all(self) -> None:
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def _handler_for(script: ScriptedServer) -> type[BaseHTTPRequestHandler]:
    return type("Handler", (_Handler,), {"script": script})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: ScriptedServer

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: what was asked is in `paths`."""

    def _refused(self) -> bool:
        self.script.paths.append(self.path)
        key = self.script.api_key
        if key and self.headers.get("Authorization") != f"Bearer {key}":
            self._send(401, {"error": {"message": f"wrong key {self.headers['Authorization']}"}})
            return True
        return False

    def do_GET(self) -> None:
        if self._refused():
            return
        body = self.script.describe(self.path)
        if body is None:
            self._send(404, {"error": f"Unexpected endpoint or method. (GET {self.path})"})
        else:
            self._send(200, body)

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self._refused():
            return
        if self.path != "/v1/chat/completions":
            self._send(404, {"error": f"Unexpected endpoint or method. (POST {self.path})"})
            return
        body = json.loads(raw)
        try:
            self._answer(self.script.take(body, dict(self.headers)), body)
        except OSError:
            self.script.dropped.set()
            self.close_connection = True

    def _answer(self, reply: Reply, body: Body) -> None:
        if isinstance(reply, Slow):
            if not self._wait(reply.seconds):
                return
            reply = reply.reply
        if isinstance(reply, Fail):
            self._send(reply.status, reply.body)
        elif isinstance(reply, Hang) and not reply.text:
            self._wait(3600)
        elif (body.get("stream") and not self.script.never_streams) or isinstance(
            reply, Broken | Hang
        ):
            self._stream(reply, body)
        else:
            self._send(200, completion_object(self.script.frame(body, reply), reply))

    def _wait(self, seconds: float) -> bool:
        """Wait; False if the client hung up or the server is closed meanwhile."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.script.closing.is_set():
            pause = min(0.02, max(0.0, end - time.monotonic()))
            readable, _, _ = select.select([self.connection], [], [], pause)
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                self.script.dropped.set()
                self.close_connection = True
                return False
            if readable:
                time.sleep(pause)
        if self.script.closing.is_set():
            self.close_connection = True
            return False
        return True

    def _send(self, status: int, body: Any) -> None:
        plain = isinstance(body, str)
        data = (body if plain else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if plain else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _event(self, event: Any) -> None:
        text = event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)
        data = f"data: {text}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()
        if self.script.delay and not self._wait(self.script.delay):
            raise BrokenPipeError

    def _stream(self, reply: Reply, body: Body) -> None:
        frame = self.script.frame(body, reply)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._event(chunk_object(frame, {"role": "assistant", "content": ""}))
        if isinstance(reply, Hang):
            self._event(chunk_object(frame, {"content": reply.text}))
            self._wait(3600)
            return
        if isinstance(reply, Broken):
            self._break(reply, frame)
            return
        stream, finish = deltas(reply, frame.chunk)
        for delta in stream:
            self._event(chunk_object(frame, delta))
        self._event(chunk_object(frame, {}, finish))
        if (body.get("stream_options") or {}).get("include_usage") and frame.usage is not None:
            self._event(last_chunk(frame))
        self._event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def _break(self, reply: Broken, frame: Frame) -> None:
        for piece in pieces(reply.text, frame.chunk):
            self._event(chunk_object(frame, {"content": piece}))
        self.close_connection = True
        if reply.how == "error_event":
            self._event({"error": reply.message})
        elif reply.how == "error_event_dict":
            self._event({"error": {"message": reply.message}})
            self._event("[DONE]")
        elif reply.how == "mid_args":
            function = {"name": reply.tool, "arguments": '{"text": "half'}
            call = {"index": 0, "id": "call_1", "type": "function", "function": function}
            self._event(chunk_object(frame, {"tool_calls": [call]}))
        if reply.how != "reset":  # without the last chunk the client sees a torn connection
            self.wfile.write(b"0\r\n\r\n")
