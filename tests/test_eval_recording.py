"""The recording of replies: its keys, its file, and the server in front of the model."""

from __future__ import annotations

import gzip
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from local_agent.config import ModelSettings
from local_agent.errors import ModelUnreachable, UsageError
from local_agent.evaluation.recorder import Recorder, _without_folders
from local_agent.evaluation.recording import Answer, Recording, fingerprint, key_of
from local_agent.testing import Say, ScriptedServer

ABOUT = {
    "/v1/models": Answer(200, "application/json", b'{"data": [{"id": "a", "meta": {"size": 1}}]}'),
    "/props": Answer(200, "application/json", b'{"chat_template": "T"}'),
}
REPLY = Answer(200, "text/event-stream", "data: é\n\n".encode(), 1.5)


def body(call_id: str, **more: Any) -> dict[str, Any]:
    """A request with a call and its result."""
    call = {"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}"}}
    return {
        "model": "a",
        "messages": [
            {"role": "user", "content": "p"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "r", "tool_call_id": call_id},
        ],
        **more,
    }


def test_the_key_of_a_request() -> None:
    """Made-up ids of calls and the order of keys do not count; all else does, and the server."""
    key = key_of("s", body("x1"))
    assert key == key_of("s", dict(reversed(body("x2").items())))
    assert key != key_of("s", body("x1", temperature=0.1))
    assert key != key_of("t", body("x1"))
    other = body("x1")
    other["messages"][2]["tool_call_id"] = "y"
    assert key != key_of("s", other)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/props", '{"chat_template": "U"}'),
        ("/v1/models", '{"data": [{"id": "b", "meta": {"size": 1}}]}'),
        ("/v1/models", '{"data": [{"id": "a", "meta": {"size": 2}}]}'),
    ],
)
def test_the_fingerprint_of_a_server(path: str, text: str) -> None:
    """Another template, name or file is another server; another context length is not."""
    assert fingerprint({**ABOUT, path: Answer(200, "", text.encode())}) != fingerprint(ABOUT)
    longer = b'{"data": [{"id": "a", "meta": {"size": 1, "n_ctx": 9}}]}'
    assert fingerprint({**ABOUT, "/v1/models": Answer(200, "", longer)}) == fingerprint(ABOUT)


@pytest.mark.parametrize("text", [b"[]", b"{", b'{"data": 1}', b'{"data": [1]}', b"\xff"])
def test_a_server_that_says_little(text: bytes) -> None:
    """Whatever it answers, there is a fingerprint."""
    about = {path: Answer(200, "", text) for path in ("/v1/models", "/props")}
    assert len(fingerprint(about)) == 64


def test_a_recording_is_read_back(tmp_path: Path) -> None:
    """To the byte, text or not, also packed; a line that a kill cut is dropped."""
    path = tmp_path / "r.jsonl"
    recording = Recording(path)
    recording.open(ABOUT)
    odd = Answer(400, "x", b"\xff\x00")
    recording.keep("k", REPLY)
    recording.keep("o", odd)
    packed = tmp_path / "r.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    with path.open("a") as file:
        file.write('{"key": "cu')
    for file_path in (path, packed):
        again = Recording(file_path)
        again.open(None)
        assert (again.get("k"), again.get("o"), len(again)) == (REPLY, odd, 2)
        assert (again.server, again.seconds) == (fingerprint(ABOUT), [1.5])
    with pytest.raises(UsageError, match="can only be read"):
        again.keep("n", REPLY)


@pytest.mark.parametrize("is_served", [False, True])
@pytest.mark.parametrize("text", ['{"my": "one line"}', "two lines\nof notes", '{"a": 1}\n{"b"'])
def test_a_file_that_is_no_recording_stays_as_it_is(
    tmp_path: Path, text: str, is_served: bool
) -> None:
    """Named by mistake, it is refused to the byte as it was."""
    path = tmp_path / "precious.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="is no recording"):
        Recording(path).open(ABOUT if is_served else None)
    assert path.read_text() == text


def test_a_replay_writes_nothing(tmp_path: Path) -> None:
    """The line that a kill tore is left out, and stays until the next reply is recorded."""
    path = tmp_path / "r.jsonl"
    recording = Recording(path)
    recording.open(ABOUT)
    recording.keep("k", REPLY)
    whole = path.read_bytes()
    path.write_bytes(torn := whole + b'{"key": "l", "sta')

    replayed = Recording(path)
    replayed.open(None)
    assert (len(replayed), path.read_bytes()) == (1, torn)
    packed = tmp_path / "r.jsonl.gz"
    packed.write_bytes(data := gzip.compress(torn))
    Recording(packed).open(None)
    assert packed.read_bytes() == data
    Recording(path).open(ABOUT)
    assert path.read_bytes() == whole


def test_each_server_has_a_file_of_its_own_in_a_folder(tmp_path: Path) -> None:
    """Where no file is named, replies of two servers lie apart."""
    other = {**ABOUT, "/props": Answer(404, "", b"")}
    for about in (ABOUT, other, ABOUT):
        recording = Recording(folder=tmp_path)
        recording.open(about)
        recording.keep("k", REPLY)
    assert len(list(tmp_path.glob("*.jsonl"))) == 2


def test_a_recording_that_cannot_be_written(tmp_path: Path) -> None:
    """One line says so."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        Recording(tmp_path / "file" / "r.jsonl").open(ABOUT)


def test_nobody_answers() -> None:
    """Said before anything is run."""
    settings = ModelSettings(base_url="http://127.0.0.1:9/v1")
    with (
        pytest.raises(ModelUnreachable, match="No model server answers"),
        Recorder(Recording(), settings),
    ):
        pass


def post(base_url: str, path: str, value: Any) -> tuple[int, bytes]:
    """POST a JSON value; status and body."""
    request = urllib.request.Request(
        base_url.removesuffix("/v1") + path, json.dumps(value).encode(), method="POST"
    )
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as exc:
        with exc:
            return exc.code, exc.read()


@pytest.mark.parametrize(
    "path", ["/home/me/secret/m.gguf", "C:\\\\Users\\\\me\\\\m.gguf", "m.gguf"]
)
def test_where_the_model_lies_is_not_recorded(path: str) -> None:
    """A recording is to be shared; what the model is, stays."""
    body = f'{{"model_path": "{path}", "chat_template": "T"}}'.encode()
    said = json.loads(_without_folders(Answer(200, "application/json", body)).body)
    assert said == {"model_path": "m.gguf", "chat_template": "T"}
    odd = Answer(200, "text/plain", b"no JSON")
    assert _without_folders(odd) == odd


def test_a_request_is_forwarded_once(scripted: Callable[..., ScriptedServer]) -> None:
    """The second time the same bytes come from the recording; an exchange tells both apart."""
    server = scripted([Say("one"), Say("two")])
    asked = {"model": server.model, "messages": [{"role": "user", "content": "p"}], "stream": True}
    schema = {"type": "json_schema", "json_schema": {"name": "route", "schema": {}}}
    with Recorder(Recording(), ModelSettings(base_url=server.base_url)) as recorder:
        first, again = (post(recorder.base_url, "/v1/chat/completions", asked) for _ in range(2))
        other = post(
            recorder.base_url, "/v1/chat/completions", {**asked, "response_format": schema}
        )
        assert post(recorder.base_url, "/v1/embeddings", asked)[0] == 404
        assert recorder.about("/v1/models").status == 200
        taken = recorder.take()
        assert recorder.take() == []
        recorder.check()
    assert first == again != other
    assert [(one.purpose, one.is_new) for one in taken] == [
        ("chat", True),
        ("chat", False),
        ("route", True),
    ]
    assert len(server.requests) == 2
