"""The embedded server: a child process that starts, says why it cannot, and never outlives us.

Most tests put a small stand-in for the library `xllamacpp` on the path, so that our side of it
runs without the wheel and without weights; the last ones take the real library and a real model.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import stat
import struct
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import httpx2
import pytest

from local_agent.config import ModelSettings
from local_agent.embedded import (
    DEFAULT_CONTEXT,
    LIBRARY,
    resolve_embedded,
    start_embedded,
    template_for,
)
from local_agent.embedded_log import LOG_NAME
from local_agent.errors import ConfigError, ModelError
from local_agent.gguf import Header, read_header
from local_agent.weights import default_path

ROOT = Path(__file__).parent.parent
# Both before a fixture moves the folders.
REAL_WEIGHTS = Path(os.environ.get("LOCAL_AGENT_TEST_GGUF") or default_path())

posix = pytest.mark.skipif(sys.platform == "win32", reason="process groups, signals and modes")

STAND_IN = """
import http.server, json, os, sys, threading, types

class CommonParams:
    def __init__(self):
        self.model = types.SimpleNamespace(path="")
        self.cpuparams = types.SimpleNamespace(n_threads=-1)
        self.cpuparams_batch = types.SimpleNamespace(n_threads=-1)
        self.chat_template = ""
        self.api_keys = []

class Server:
    def __init__(self, params):
        print("a stray line of the library", flush=True)
        mood = os.environ.get("STAND_IN", "")
        if mood == "refuse":
            print("0.00.1 E load: error loading model: unknown architecture 'x'", file=sys.stderr)
            print("0.00.2 E srv          init: exiting", file=sys.stderr, flush=True)
            raise RuntimeError("Failed to init server")
        if mood == "die":
            os._exit(7)
        told = {k: v for k, v in vars(params).items() if isinstance(v, (int, str, list))}
        body = json.dumps({**told, "path": params.model.path, "pid": os.getpid(),
                           "omp": os.environ.get("OMP_WAIT_POLICY")}).encode()
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(body)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", params.port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.listening_address = f"http://127.0.0.1:{server.server_port}"
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in is what `import xllamacpp` finds, here and in the child."""
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "xllamacpp.py").write_text(STAND_IN, "utf-8")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder))


def gguf(path: Path, name: str = "Some Model", context: int = 4096, tail: bytes = b"") -> Path:
    """A file with a true GGUF header and no weights."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    tags = text("general.tags") + struct.pack("<IIQ", 9, 8, 2) + text("chat") + text("code")
    pairs = [
        text("general.architecture") + struct.pack("<I", 8) + text("qwen2"),
        tags,
        text("general.name") + struct.pack("<I", 8) + text(name),
        text("qwen2.context_length") + struct.pack("<II", 4, context),
        text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 1 << 60),
    ]
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + b"".join(pairs) + tail)
    return path


def is_alive(pid: int) -> bool:
    """Whether a process of that id runs; one that only waits to be collected does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


async def until_gone(pid: int) -> bool:
    """Whether the process ends within 20 s."""
    for _ in range(400):
        if not is_alive(pid):
            return True
        await asyncio.sleep(0.05)
    return False


async def get(url: str, **options: Any) -> Any:
    async with httpx2.AsyncClient(trust_env=False) as client:
        return (await client.get(url, **options)).json()


def test_the_header_gives_the_name_and_the_trained_context(tmp_path: Path) -> None:
    """The header is read up to the vocabulary, past arrays, and not further."""
    assert read_header(gguf(tmp_path / "a.gguf")) == Header("Some Model", 4096)


@pytest.mark.parametrize("cut", [4, 10, 24, 40, 60, 130])
def test_a_header_that_breaks_off_is_read_as_far_as_it_goes(tmp_path: Path, cut: int) -> None:
    """A damaged header raises nothing here: llama.cpp says better what is wrong with the file."""
    path = gguf(tmp_path / "a.gguf")
    path.write_bytes(path.read_bytes()[:cut])

    assert read_header(path).context_length is None


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("Qwen2.5-Coder", True),
        ("Qwen2.5 Coder 7B Instruct", True),
        ("Qwen2.5", False),
        ("Qwen3-Coder", False),
        ("", False),
    ],
)
def test_our_template_is_for_the_family_that_needs_it(name: str, ours: bool) -> None:
    """Any other model keeps the template of its file."""
    assert (template_for(Header(name)) is not None) is ours


@pytest.mark.parametrize("what", ["missing", "folder", "text"])
async def test_a_file_that_cannot_be_a_model_is_said_so(
    tmp_path: Path, stand_in: None, what: str
) -> None:
    """A missing file, a folder, a file of another kind: one line and exit code 2, no child."""
    path = tmp_path / "m.gguf"
    if what == "folder":
        path.mkdir()
    elif what == "text":
        path.write_text("hello", "utf-8")

    with pytest.raises(ConfigError, match=r"m\.gguf") as caught:
        async with start_embedded(path, log_dir=tmp_path / "log"):
            pass

    assert "\n" not in str(caught.value)
    assert not (tmp_path / "log").exists()


async def test_without_the_library_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where xllamacpp is not installed, the line says what to install."""
    monkeypatch.setattr(sys, "path", [p for p in sys.path if "site-packages" not in p])

    with pytest.raises(ConfigError, match=r"pip install xllamacpp=="):
        async with start_embedded(gguf(tmp_path / "m.gguf"), log_dir=tmp_path):
            pass


@posix
async def test_the_server_runs_inside_the_context_and_not_after_it(
    tmp_path: Path, stand_in: None
) -> None:
    """The address answers inside; behind it the process is gone. Its log is for the user only."""
    model = gguf(tmp_path / "m.gguf", "Qwen2.5 Coder", context=32768)
    async with start_embedded(model, log_dir=tmp_path / "log", api_key="k") as base_url:
        told = await get(base_url.removesuffix("/v1") + "/")

        assert base_url.endswith("/v1")
        assert is_alive(told["pid"])
        assert os.getpgid(told["pid"]) != os.getpgid(0)

    assert not is_alive(told["pid"])
    assert told["path"] == str(model)
    assert told["n_ctx"] == DEFAULT_CONTEXT
    assert told["api_keys"] == ["k"]
    assert told["omp"] == "passive"
    assert "tool_response" in told["chat_template"]
    log = tmp_path / "log" / LOG_NAME
    assert "a stray line" in log.read_text("utf-8")
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


@pytest.mark.parametrize(("wanted", "given"), [(None, 2048), (1024, 1024), (9999, 2048)])
async def test_the_context_is_never_more_than_the_model_was_trained_for(
    tmp_path: Path, stand_in: None, wanted: int | None, given: int
) -> None:
    """The wish counts, up to what the file says."""
    model = gguf(tmp_path / "m.gguf", context=2048)
    async with start_embedded(model, context_length=wanted, log_dir=tmp_path) as base_url:
        assert (await get(base_url))["n_ctx"] == given


async def test_a_model_that_cannot_be_loaded_is_one_line_with_the_reason(
    tmp_path: Path, stand_in: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first error in the server's log is in the message, an older one is not."""
    (tmp_path / LOG_NAME).write_text("0.00.1 E load: from another day\n", "utf-8")
    monkeypatch.setenv("STAND_IN", "refuse")

    with pytest.raises(ModelError) as caught:
        async with start_embedded(gguf(tmp_path / "m.gguf"), log_dir=tmp_path):
            pass

    assert caught.value.message == ("llama.cpp could not serve m.gguf: unknown architecture 'x'.")
    assert str(tmp_path / LOG_NAME) in caught.value.hint


async def test_a_child_that_dies_without_a_word_is_noticed(
    tmp_path: Path, stand_in: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An end without an error line is told with what there is."""
    monkeypatch.setenv("STAND_IN", "die")

    with pytest.raises(ModelError, match=r"could not serve m\.gguf") as caught:
        async with start_embedded(gguf(tmp_path / "m.gguf"), log_dir=tmp_path):
            pass

    assert "\n" not in str(caught.value)


@posix
async def test_an_exception_inside_stops_the_server(tmp_path: Path, stand_in: None) -> None:
    """However the context is left, the process is gone behind it."""
    pids = []

    async def use_and_fail() -> None:
        async with start_embedded(gguf(tmp_path / "m.gguf"), log_dir=tmp_path) as base_url:
            pids.append((await get(base_url))["pid"])
            raise KeyError

    with pytest.raises(KeyError):
        await use_and_fail()

    assert not is_alive(pids[0])


@pytest.mark.process
@posix
async def test_the_server_ends_when_its_parent_is_killed(tmp_path: Path, stand_in: None) -> None:
    """kill -9 of the program leaves no server behind: it sees its input end."""
    model = gguf(tmp_path / "m.gguf")
    script = f"""
import asyncio
from pathlib import Path
from local_agent.embedded import start_embedded
async def main():
    async with start_embedded(Path({str(model)!r}), log_dir=Path({str(tmp_path)!r})) as url:
        print(url, flush=True)
        await asyncio.sleep(60)
asyncio.run(main())
"""
    path = f"{ROOT}{os.pathsep}{os.environ['PYTHONPATH']}"
    parent = subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        assert parent.stdout is not None
        pid = (await get(parent.stdout.readline().strip()))["pid"]
        parent.send_signal(signal.SIGKILL)
        parent.wait()

    assert await until_gone(pid)


def test_the_named_file_comes_first(tmp_path: Path) -> None:
    """--model embedded:PATH needs nothing pulled."""
    named = ModelSettings(name="embedded", embedded=str(tmp_path / "x.gguf"))

    assert resolve_embedded(named) == tmp_path / "x.gguf"


def test_without_weights_the_pull_is_named() -> None:
    """--model embedded on a fresh machine says what to run."""
    with pytest.raises(ConfigError, match="agent model pull"):
        resolve_embedded(ModelSettings(name="embedded"))


# The real library and the real model.


def need_library() -> None:
    """Skip where the wheel is not installed; it is looked for, not loaded into this process."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("the extra `embedded` is not installed")


async def test_llama_cpp_tells_of_a_file_that_is_not_whole(tmp_path: Path) -> None:
    """The real child dies of a GGUF file without weights, and says so in one line."""
    need_library()

    with pytest.raises(ModelError, match=r"llama\.cpp could not serve m\.gguf: .{10}") as caught:
        async with start_embedded(gguf(tmp_path / "m.gguf"), log_dir=tmp_path):
            pass

    assert "\n" not in str(caught.value)
    assert "Traceback" not in str(caught.value)


TIME = {
    "type": "function",
    "function": {
        "name": "get_current_time",
        "description": "Get current time in a specific timezone",
        "parameters": {
            "type": "object",
            "properties": {"timezone": {"type": "string", "description": "IANA timezone name"}},
            "required": ["timezone"],
        },
    },
}


@pytest.mark.live
@pytest.mark.timeout(300)
async def test_the_small_model_calls_a_tool_and_answers_from_its_result(tmp_path: Path) -> None:
    """A call parses, its result is answered from, what was read is not read again, hello is hello.

    One start for all of it: loading takes longer than the questions.
    """
    need_library()
    if not REAL_WEIGHTS.is_file():
        pytest.skip(f"no model at {REAL_WEIGHTS}: agent model pull, or LOCAL_AGENT_TEST_GGUF")

    messages: list[dict[str, Any]] = [{"role": "user", "content": "What time is it in Tokyo?"}]
    async with (
        start_embedded(REAL_WEIGHTS, log_dir=tmp_path, api_key="secret") as base_url,
        httpx2.AsyncClient(
            trust_env=False, timeout=120, headers={"Authorization": "Bearer secret"}
        ) as client,
    ):

        async def ask(said: list[dict[str, Any]]) -> dict[str, Any]:
            body = {"messages": said, "tools": [TIME], "temperature": 0, "max_tokens": 100}
            answer = await client.post(f"{base_url}/chat/completions", json=body)
            return answer.json()  # type: ignore[no-any-return]

        async with httpx2.AsyncClient(trust_env=False) as stranger:
            refused = await stranger.post(f"{base_url}/chat/completions", json={"messages": []})
        called = await ask(messages)
        message = called["choices"][0]["message"]
        result = '{"timezone": "Asia/Tokyo", "datetime": "2026-03-04T21:15:00+09:00"}'
        messages += [
            message,
            {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": result},
        ]
        answered = await ask(messages)
        greeted = await ask([{"role": "user", "content": "Hello!"}])

    assert refused.status_code == 401
    function = message["tool_calls"][0]["function"]
    assert (function["name"], json.loads(function["arguments"])) == (
        "get_current_time",
        {"timezone": "Asia/Tokyo"},
    )
    final = answered["choices"][0]["message"]
    assert not final.get("tool_calls")
    assert "21:15" in final["content"] or "9:15" in final["content"]
    first = called["timings"]
    # All of the first prompt; what the model wrote itself may be cut differently into tokens.
    assert answered["timings"]["cache_n"] >= first["cache_n"] + first["prompt_n"]
    assert not greeted["choices"][0]["message"].get("tool_calls")


def test_the_library_that_is_named_is_that_of_the_extra() -> None:
    """The version in the hint is the one that the extra `embedded` pins."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))

    assert project["project"]["optional-dependencies"]["embedded"] == [LIBRARY]
