"""`--model embedded`: llama.cpp's own HTTP server, started and stopped by the program itself."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from local_agent.config import ModelSettings
from local_agent.embedded_log import EmbeddedLog
from local_agent.errors import ConfigError, ModelError, ModelTimeout
from local_agent.gguf import Header, read_header
from local_agent.weights import default_weights, human_size

DEFAULT_CONTEXT = 8192
"""Tokens. What a small model trained for 32k and more still handles in memory: 230 MB for the
1.5B that `agent model pull` fetches, 0.5 to 1 GB for a 7B."""

LIBRARY = "xllamacpp==2026.10.11549"  # the extra `embedded`
_PROGRESS_AFTER = (5, 5, 10, 20, 40, 80, 160, 320, 560)  # seconds between lines; 20 min in all
_STOP_SECONDS = 3.0
_HERE = Path(__file__).parent
_LLAMA_ERROR = re.compile(r"^[\d.]+ E (?:\S+ +)*?[\w()~]+: (?P<text>.+)$")


def resolve_embedded(model: ModelSettings) -> Path:
    """The weights to serve: `model.embedded` if set, else what `agent model pull` has fetched.

    Raises ConfigError if there are none, or those fetched are damaged.
    """
    if model.embedded:
        return Path(model.embedded)
    found = default_weights()
    if found is None:
        raise ConfigError(
            "There is no embedded model on this machine yet.",
            "Run: agent model pull, or name a GGUF file: --model embedded:PATH",
        )
    return found


@asynccontextmanager
async def start_embedded(
    model_path: Path,
    *,
    context_length: int | None = None,
    log_dir: Path | None,
    on_progress: Callable[[str], None] = lambda text: None,
    api_key: str = "",
) -> AsyncIterator[str]:
    """Serve the GGUF file `model_path` on a free loopback port; yields the base URL, with /v1.

    `context_length` is in tokens (None: DEFAULT_CONTEXT), never more than the model was trained
    for. With an `api_key` the server answers nobody without it. `on_progress` gets a line when
    loading takes long. The server has its own process group, so that Ctrl-C stays ours, and ends
    with this context or with this process, even a killed one. Without `log_dir` no file is written.
    Raises ConfigError if the package or the file cannot be used, ModelError if llama.cpp cannot
    load the file, ModelTimeout after 20 minutes of loading.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        raise ConfigError(
            "The embedded model needs the package xllamacpp, which is not installed.",
            f"Install it: pip install {LIBRARY}",
        )
    header = read_header(model_path)
    wish = {
        "model": str(model_path),
        "alias": model_path.stem,
        "context_length": _context(context_length, header),
        "threads": _threads(),
        "template": template_for(header) or "",
        "api_key": api_key,
    }
    log = EmbeddedLog(log_dir)
    try:
        process = await _spawn(log.stderr)
    finally:
        log.close()
    try:
        address = await _load(process, wish, model_path, on_progress)
        if not address:
            raise _failure(model_path, await process.wait(), log)
        yield f"{address}/v1"
    finally:
        await _stop(process)


def template_for(header: Header) -> str | None:
    """Our own chat template where the file's makes no tool calls parse; None: the file's.

    Known so far: Qwen2.5-Coder writes calls as fenced JSON, whatever its template asks for.
    """
    family = re.sub(r"[^a-z0-9]", "", header.name.lower())
    if family.startswith("qwen25coder"):
        return (_HERE / "chat_template.jinja").read_text("utf-8")
    return None


def _context(wanted: int | None, header: Header) -> int:
    tokens = wanted or DEFAULT_CONTEXT
    return min(tokens, header.context_length) if header.context_length else tokens


def _threads() -> int:
    """Threads to compute with. 0 leaves it to llama.cpp, which takes the physical cores but
    does not see that this process may be allowed fewer of them."""
    allowed = present = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text("ascii").split()
        if quota != "max":
            allowed = min(allowed, max(1, int(quota) // int(period)))
    except (OSError, ValueError):
        pass  # no Linux, or no control groups of version 2
    return allowed if allowed < present else 0


async def _spawn(log: int) -> asyncio.subprocess.Process:
    apart: dict[str, Any] = {"start_new_session": True}
    if sys.platform == "win32":
        apart = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW}
    # -P: the script's folder holds modules of ours that must not stand in for the library's.
    # Passive: threads that spin while they wait fall to a tenth of the speed on a busy machine.
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        str(_HERE / "embedded_server.py"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=log,
        env={"OMP_WAIT_POLICY": "passive", **os.environ},
        **apart,
    )


async def _load(
    process: asyncio.subprocess.Process,
    wish: Mapping[str, Any],
    model_path: Path,
    on_progress: Callable[[str], None],
) -> str:
    """Hand over the wish and wait; the address, or "" if the process ended instead."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(wish).encode() + b"\n")
    size, waited = human_size(model_path.stat().st_size), 0
    for pause in _PROGRESS_AFTER:
        try:
            line = await asyncio.wait_for(process.stdout.readline(), pause)
        except TimeoutError:
            waited += pause
            on_progress(f"Loading {model_path.name} ({size}) … {waited} s")
            continue
        if not line:
            return ""
        address = str(json.loads(line)["listening"])
        await _healthy(address)
        return address
    raise ModelTimeout(
        f"{model_path.name} was not loaded after {waited // 60} minutes.",
        "Try a smaller model file.",
    )


async def _healthy(address: str) -> None:
    """Return when /health answers 200. Raises ModelError after 10 s."""
    at = urlsplit(address)
    for _ in range(40):
        try:
            reader, writer = await asyncio.open_connection(at.hostname, at.port)
            writer.write(b"GET /health HTTP/1.0\r\n\r\n")
            status = await asyncio.wait_for(reader.readline(), 5)
            writer.close()
            if b" 200" in status:
                return
        except (OSError, TimeoutError):
            pass
        await asyncio.sleep(0.25)
    raise ModelError(f"The embedded server at {address} does not answer.")


def _failure(model_path: Path, code: int, log: EmbeddedLog) -> ModelError:
    if code == -9 or code == 137:
        reason = "it was killed, most often for want of memory"
        hint = "Try a smaller model file or a smaller context_length."
    else:
        reason = _reason(log.text()) or f"it ended with code {code}"
        hint = f"The whole of it is in {log.path}." if log.path else ""
    return ModelError(f"llama.cpp could not serve {model_path.name}: {reason}.", hint)


def _reason(text: str) -> str:
    """The first error among the lines of llama.cpp, else the last line; "" if there is none."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [match["text"] for line in lines if (match := _LLAMA_ERROR.match(line))]
    reason = errors[0] if errors else lines[-1] if lines else ""
    return reason.removeprefix("error loading model: ").rstrip(".")


async def _stop(process: asyncio.subprocess.Process) -> None:
    """End the process: politely, then not. Returns when it is gone."""
    assert process.stdin is not None
    process.stdin.close()
    if process.returncode is None:
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
    except BaseException:  # a second Ctrl-C must not leave gigabytes behind
        if process.returncode is None:
            process.kill()
        raise
