"""A server between the program and the model: the same request gets the same reply, once made."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from local_agent.config import ModelSettings
from local_agent.errors import ModelError, ModelUnreachable

from .recording import ABOUT, Answer, Recording, key_of

CHAT = "/chat/completions"
READ_TIMEOUT = 900.0  # seconds; a long prompt on a slow machine
KEPT = (200, 400)  # statuses that the same request would get again
NEVER_FORWARDED = {"host", "connection", "content-length", "accept-encoding"}


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request of the program: what it was for, the names of its tools, whether it was new."""

    purpose: str  # the name of the JSON schema it was held to, or "chat"
    tools: tuple[str, ...]
    is_new: bool
    seconds: float


class Recorder:
    """Listens on the loopback address while it is entered; `base_url` goes into [model].

    settings: the model server behind it; None answers from the recording alone.
    `trouble` says why a request could not be answered: the run must end then.
    """

    def __init__(self, recording: Recording, settings: ModelSettings | None) -> None:
        self.recording = recording
        self.trouble = ""
        self._settings = settings
        self._exchanges: list[Exchange] = []
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    @property
    def base_url(self) -> str:
        """Where the program finds the model while this is entered."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    @property
    def is_replay(self) -> bool:
        """Whether there is no model behind it."""
        return self._settings is None

    def __enter__(self) -> Recorder:
        """Ask the server about itself, or read the recording. Raises as `Recording.open`, and
        ModelUnreachable where no server answers."""
        try:
            self.recording.open(self._about() if self._settings else None)
        except BaseException:
            self._http.server_close()
            raise
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def take(self) -> list[Exchange]:
        """The requests since this was last called, oldest first."""
        with self._lock:
            taken, self._exchanges = self._exchanges, []
        return taken

    def check(self) -> None:
        """Raises ModelError when a request could not be answered."""
        if self.trouble:
            raise ModelError(self.trouble)

    def about(self, path: str) -> Answer:
        """What the server says of itself under `path`."""
        missing = Answer(404, "application/json", b'{"error": "not recorded"}')
        return self.recording.about.get(path, missing)

    def chat(self, path: str, data: bytes, headers: Mapping[str, str]) -> Answer:
        """The reply to a request, from the recording where it has one."""
        body: dict[str, Any] = json.loads(data)
        key = key_of(self.recording.server, body)
        known = self.recording.get(key)
        answer = known or self._ask(path, data, headers)
        if known is None and answer.status in KEPT:
            self.recording.keep(key, answer)
        held = (body.get("response_format") or {}).get("json_schema") or {}
        names = tuple(str(tool["function"]["name"]) for tool in body.get("tools") or [])
        purpose = str(held.get("name") or "chat")
        with self._lock:
            self._exchanges.append(Exchange(purpose, names, known is None, answer.seconds))
        return answer

    def _ask(self, path: str, data: bytes, headers: Mapping[str, str]) -> Answer:
        if self._settings is None:
            self.trouble = "The recording has no reply to a request of this run."
            return _failed(self.trouble)
        try:
            answer = self._forward("POST", path, data, headers)
        except (OSError, http.client.HTTPException) as exc:
            self.trouble = f"The model server did not answer: {type(exc).__name__}."
            return _failed(self.trouble)
        if answer.status not in KEPT:
            self.trouble = f"The model server answered with HTTP {answer.status}."
        return answer

    def _about(self) -> dict[str, Answer]:
        assert self._settings is not None
        key = self._settings.api_key
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        about = {}
        for path in ABOUT:
            try:
                about[path] = self._forward("GET", path, None, headers)
            except (OSError, http.client.HTTPException) as exc:
                raise ModelUnreachable(
                    f"No model server answers at {self._settings.address}.",
                    "Start it, or take --replay FILE.",
                ) from exc
        return {path: _without_folders(answer) for path, answer in about.items()}

    def _forward(
        self, method: str, path: str, data: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        """Send a request on and read the whole reply; `path` is as the program asked for it."""
        assert self._settings is not None
        url = urlsplit(self._settings.base_url)
        folder = url.path.rstrip("/").removesuffix("/v1")
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        connection = kind(url.hostname or "", url.port, timeout=READ_TIMEOUT)
        kept = {k: v for k, v in headers.items() if k.lower() not in NEVER_FORWARDED}
        started = time.monotonic()
        try:
            connection.request(method, folder + path, body=data, headers=kept)
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        kind_of_body = response.headers.get("Content-Type", "application/json")
        return Answer(response.status, kind_of_body, body, time.monotonic() - started)


def _without_folders(answer: Answer) -> Answer:
    """What a server says of itself without where the model lies: a recording is to be shared."""
    try:
        said = json.loads(answer.body)
    except ValueError:
        return answer
    if not isinstance(said, dict) or not isinstance(path := said.get("model_path"), str):
        return answer
    said["model_path"] = path.replace("\\", "/").rpartition("/")[2]
    return replace(answer, body=json.dumps(said, ensure_ascii=False).encode())


def _failed(text: str) -> Answer:
    body = json.dumps({"error": {"message": text}}).encode()
    return Answer(502, "application/json", body)


def _handler(recorder: Recorder) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(recorder.about(self.path.partition("?")[0]))

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if not self.path.endswith(CHAT):
                self._answer(Answer(404, "application/json", b'{"error": "no such path"}'))
                return
            self._answer(recorder.chat(self.path, data, dict(self.headers.items())))

        def _answer(self, answer: Answer) -> None:
            try:
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.content_type)
                self.send_header("Content-Length", str(len(answer.body)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(answer.body)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the program hung up; the reply is kept
            self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
