"""The file of recorded replies: what a model server answered to which request, to the byte."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local_agent.errors import ConfigError, UsageError

SCHEMA_VERSION = 1
_HEAD = b'{"recording": '  # as json.dumps writes the first line
ABOUT = ("/api/v1/models", "/api/v0/models", "/v1/models", "/props")  # what a server says of itself


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply as it came. `seconds` is how long the server took, 0 where that is not known."""

    status: int
    content_type: str
    body: bytes
    seconds: float = 0.0


def fingerprint(about: Mapping[str, Answer]) -> str:
    """Which model with which chat template a server has, as far as it says."""
    models = _json(about.get("/v1/models"))
    rows = models.get("data") if isinstance(models, dict) else None
    known = [
        [row.get("id"), *((row.get("meta") or {}).get(key) for key in ("n_params", "size"))]
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, dict)
    ]
    props = _json(about.get("/props"))
    template = props.get("chat_template") if isinstance(props, dict) else None
    return hashlib.sha256(json.dumps([known, template]).encode()).hexdigest()


def key_of(server: str, body: Mapping[str, Any]) -> str:
    """The key of a request to the server with that fingerprint.

    The ids of tool calls are counted through: servers make them up anew each time.
    """
    text = json.dumps([server, _with_plain_ids(body)], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _with_plain_ids(body: Mapping[str, Any]) -> dict[str, Any]:
    seen: dict[str, str] = {}

    def plain(call_id: Any) -> str:
        return seen.setdefault(str(call_id), f"call {len(seen)}")

    messages = []
    for message in body.get("messages") or []:
        copy = dict(message)
        if "tool_calls" in copy:
            copy["tool_calls"] = [{**c, "id": plain(c.get("id"))} for c in copy["tool_calls"]]
        if "tool_call_id" in copy:
            copy["tool_call_id"] = plain(copy["tool_call_id"])
        messages.append(copy)
    return {**body, "messages": messages}


class Recording:
    """The replies of one server, in memory and, where it has a `path`, in a file of lines of JSON.

    The first line says of which server, each further one is a reply, written as soon as it came;
    what a kill left of a line is dropped when the next is written. A file that ends with .gz, and
    one without a server behind it, is only read. With a `folder`
    instead of a path, each server has a file of its own there.
    """

    def __init__(self, path: Path | None = None, *, folder: Path | None = None) -> None:
        self.about: dict[str, Answer] = {}
        self.server = ""
        self._path = path
        self._folder = folder
        self._answers: dict[str, Answer] = {}
        self._whole = 0  # bytes of the file

    def __len__(self) -> int:
        return len(self._answers)

    @property
    def seconds(self) -> list[float]:
        """How long each reply took where that was measured."""
        return [answer.seconds for answer in self._answers.values() if answer.seconds]

    def get(self, key: str) -> Answer | None:
        """The reply to the request with that key, if there is one."""
        return self._answers.get(key)

    def open(self, about: Mapping[str, Answer] | None) -> None:
        """Read the file, if there is one, and hold it to the server that says `about` of itself.

        None: there is no server, and the file must be there. Raises UsageError for a file that is
        no recording, ConfigError for one of another server.
        """
        if self._folder is not None and about is not None:
            self._path = self._folder / f"{fingerprint(about)[:16]}.jsonl"
        kept = list(self._lines())
        if about is None and not kept:
            raise UsageError(f"There is no recording {self._path}.", "Make it with --record.")
        if kept:
            self._read(kept)
        if about is None:
            return
        server = fingerprint(about)
        if kept and server != self.server:
            raise ConfigError(
                f"{self._path} was recorded with another model or chat template.",
                "Take another file for this one.",
            )
        self.about, self.server = dict(about), server
        self._drop_torn_line()
        if not kept:
            self._write({"recording": SCHEMA_VERSION, "about": _packed_all(about)})

    def keep(self, key: str, answer: Answer) -> None:
        """Keep a reply, on disk before this returns."""
        self._answers[key] = answer
        self._write({"key": key, **_packed(answer)})

    def _lines(self) -> Iterator[dict[str, Any]]:
        """The lines of the file; `_whole` is then the length of those that are."""
        path = self._path
        if path is None or not path.exists():
            return
        try:
            data = path.read_bytes()
            data = gzip.decompress(data) if path.suffix == ".gz" else data
        except (OSError, EOFError) as exc:
            raise UsageError(f"The recording {path} cannot be read.") from exc
        self._whole = data.rfind(b"\n") + 1
        if self._whole == 0 and data and not data.startswith(_HEAD):
            raise UsageError(f"{path} is no recording.", "Take another file.")
        for line in data[: self._whole].splitlines():
            try:
                yield json.loads(line)
            except ValueError as exc:
                raise UsageError(f"{path} is no recording.", "Take another file.") from exc

    def _drop_torn_line(self) -> None:
        """Cut off what a kill left of a line; only of what was read as a recording before."""
        if self._path is None or self._path.suffix == ".gz" or not self._path.exists():
            return
        if self._path.stat().st_size > self._whole:
            with self._path.open("r+b") as file:
                file.truncate(self._whole)

    def _read(self, lines: list[dict[str, Any]]) -> None:
        try:
            head, *rest = lines
            if head["recording"] != SCHEMA_VERSION:
                raise ValueError(head["recording"])
            self.about = {path: _unpacked(one) for path, one in head["about"].items()}
            self._answers = {line["key"]: _unpacked(line) for line in rest}
        except (KeyError, TypeError, ValueError, AttributeError) as exc:
            raise UsageError(f"{self._path} is no recording.", "Take another file.") from exc
        self.server = fingerprint(self.about)

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._path is None:
            return
        if self._path.suffix == ".gz":
            raise UsageError(f"{self._path} is packed and can only be read.", "Unpack it first.")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
        except OSError as exc:
            raise UsageError(f"{self._path} cannot be written: {exc.strerror}.") from exc


def _packed_all(about: Mapping[str, Answer]) -> dict[str, Any]:
    return {path: _packed(answer) for path, answer in about.items()}


def _packed(answer: Answer) -> dict[str, Any]:
    row: dict[str, Any] = {"status": answer.status, "type": answer.content_type}
    try:
        row["body"] = answer.body.decode()
    except UnicodeDecodeError:
        row["base64"] = base64.b64encode(answer.body).decode()
    if answer.seconds:
        row["seconds"] = round(answer.seconds, 3)
    return row


def _unpacked(row: Mapping[str, Any]) -> Answer:
    body = base64.b64decode(row["base64"]) if "base64" in row else str(row["body"]).encode()
    return Answer(int(row["status"]), str(row["type"]), body, float(row.get("seconds", 0.0)))


def _json(answer: Answer | None) -> Any:
    if answer is None or answer.status != 200:
        return None
    try:
        return json.loads(answer.body)
    except ValueError:
        return None
