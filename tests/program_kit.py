"""Runs the program as a process of its own: a configuration, a clean environment, own folders."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from local_agent.testing import echo_server

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 60.0  # after these a program that does not end is killed, and its test fails

# A shell that runs the tests in the background makes its children ignore Ctrl-C.
_CODE = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from local_agent.cli import main; main()"
)
_KEPT = ("PATH", "HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "SYSTEMROOT", "COMSPEC")
_KEPT += ("PATHEXT", "TEMP", "TMP", "TMPDIR")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Done:
    """How a run ended: its exit code, and all it wrote."""

    code: int
    stdout: bytes
    stderr: bytes

    @property
    def out(self) -> str:
        return self.stdout.decode("utf-8").replace("\r\n", "\n")

    @property
    def err(self) -> str:
        return self.stderr.decode("utf-8").replace("\r\n", "\n")

    @property
    def json(self) -> Any:
        """Standard output, which has to be one JSON value and nothing else."""
        return json.loads(self.stdout)

    @property
    def lines(self) -> list[Any]:
        """Standard output as one JSON value a line."""
        return [json.loads(line) for line in self.out.splitlines()]


class Program:
    """A folder with a configuration file and a database, and the program run on them.

    `servers` is the part of the configuration behind [model]; by default the echo server, which
    appends what it writes to `notes`. `env` is added to a clean environment.
    """

    def __init__(
        self,
        folder: Path,
        base_url: str,
        *,
        servers: str | None = None,
        model: str = "",
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.work = folder / "work"  # where it is started: not where its files are
        self.work.mkdir(exist_ok=True)
        self.db = folder / "memory.db"
        self.notes = folder / "notes.txt"
        self.config = folder / "agent.toml"
        text = echo_table(self.notes) if servers is None else servers
        self.config.write_text(f"[model]\nbase_url = {quoted(base_url)}\n{model}\n{text}", "utf-8")
        self.env = {**clean_environment(), **(env or {})}

    def start(
        self,
        *args: str | Path,
        stdin: int = subprocess.DEVNULL,
        configured: bool = True,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        code: str = _CODE,
        **options: Any,
    ) -> subprocess.Popen[bytes]:
        """Start it and return at once. Not `configured`: without --config."""
        config = ["--config", str(self.config)] if configured else []
        return subprocess.Popen(
            [sys.executable, "-c", code, *config, *map(str, args)],
            stdin=stdin,
            stdout=options.pop("stdout", subprocess.PIPE),
            stderr=options.pop("stderr", subprocess.PIPE),
            cwd=cwd or self.work,
            env={**self.env, **(env or {})},
            **options,
        )

    def run(self, *args: str | Path, stdin: str | bytes | None = None, **options: Any) -> Done:
        """Run it to its end; `stdin` None is an empty one. A run that never ends is an error."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        where = subprocess.DEVNULL if data is None else subprocess.PIPE
        return finish(self.start(*args, stdin=where, **options), data)

    def run_all(self, *lines: Sequence[str | Path], **options: Any) -> list[Done]:
        """Run several command lines, two at a time; they must not need the same thread."""
        return side_by_side(*(partial(self.run, *line, **options) for line in lines))

    def written(self) -> list[str]:
        """The lines that the echo server has written."""
        return self.notes.read_text("utf-8").splitlines() if self.notes.exists() else []


def finish(
    process: subprocess.Popen[bytes], data: bytes | None = None, seconds: float = SECONDS
) -> Done:
    """Wait for the end of a started run and close its pipes."""
    try:
        out, err = process.communicate(data, timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"it did not end; stdout: {out!r}, stderr: {err!r}") from None
    return Done(process.returncode, out or b"", err or b"")


def side_by_side(*runs: Callable[[], Done]) -> list[Done]:
    """What independent runs come to, two at a time: most of a start is the computer's own work."""
    with ThreadPoolExecutor(2) as pool:
        return [future.result() for future in [pool.submit(run) for run in runs]]


def approval_id(parked: Done) -> str:
    """The id that a run which ended with 3 tells to decide."""
    assert parked.code == 3, parked
    return parked.err.rpartition("agent approvals deny ")[2].split()[0].strip(".")


def kill(process: subprocess.Popen[bytes]) -> Done:
    """End it as kill -9 does, without a chance to write anything."""
    process.kill()
    return finish(process)


def clean_environment() -> dict[str, str]:
    """The variables that a system needs to start a program, and folders of this test alone."""
    kept = {k: v for k, v in os.environ.items() if k in _KEPT or k.startswith("XDG_")}
    scripts = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", "")])
    return {**kept, "PATH": scripts, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}


def quoted(text: str) -> str:
    """`text` as a string of TOML."""
    return json.dumps(text, ensure_ascii=False)


def echo_table(notes: Path, name: str = "echo", more: str = "") -> str:
    """The [servers] table of the echo server; it writes to `notes`."""
    command, args = echo_server()
    return server_table(
        name, command, args, f"env = {{ NOTE_FILE = {quoted(str(notes))} }}\n{more}"
    )


def server_table(name: str, command: str, args: Sequence[str], more: str = "") -> str:
    """A [servers] table of a server that is started as a process."""
    return (
        f"[servers.{name}]\ncommand = {quoted(command)}\nargs = {json.dumps(list(args))}\n{more}\n"
    )


def wait_for(look: Callable[[], T], seconds: float = SECONDS) -> T:
    """What `look` gives as soon as that is true; an AssertionError when it never is."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, "what was waited for did not come"
        time.sleep(0.02)
    return found


def text_of(body: Mapping[str, Any]) -> list[str]:
    """The messages of a request to the model as "role: text", without the system prompt."""
    return [f"{m['role']}: {m['content']}" for m in body["messages"] if m["role"] != "system"]
