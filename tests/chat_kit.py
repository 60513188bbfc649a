"""The program itself in a pseudo terminal, with a configuration of its own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agent_core.view import NO_TOOL
from local_agent.testing import ScriptedServer, echo_server
from tests.pty_driver import PtyProgram
from tests.servers.mcp_kit import STDIO_SERVER

AGENT = Path(sys.executable).with_name("agent")
READY = "Loaded "
ESCAPE = "\x1b"
CTRL_D = "\x04"
UP = "\x1b[A"


def stdio_table(name: str, settings: Mapping[str, Any] | None = None, **keys: Any) -> str:
    """A `[servers.NAME]` table for tests/servers/stdio_server.py; `keys` are TOML keys."""
    args = ["-S", str(STDIO_SERVER), json.dumps({"name": name, **(settings or {})})]
    return server_table(name, sys.executable, args, **keys)


def echo_table(name: str = "echo", env: Mapping[str, str] | None = None, **keys: Any) -> str:
    """A `[servers.NAME]` table for the shipped echo server, with these variables."""
    command, args = echo_server()
    return server_table(name, command, args, env=env or {}, **keys)


def server_table(name: str, command: str, args: Iterable[str], **keys: Any) -> str:
    """A `[servers.NAME]` table."""
    rows = [f"[servers.{name}]", f"command = {json.dumps(command)}", f"args = {_toml(list(args))}"]
    rows += [f"{key} = {_toml(value)}" for key, value in keys.items()]
    return "\n".join(rows) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = (f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items())
        return "{ " + ", ".join(pairs) + " }"
    return json.dumps(value, ensure_ascii=False)


class Chats:
    """Starts the program in `folder`; configuration, database and NOTE_FILE lie there.

    `servers` is the TOML of the MCP servers; by default one echo server named echo.
    """

    def __init__(self, folder: Path, model: ScriptedServer | str, servers: str | None = None):
        self.folder = folder
        self.notes = folder / "notes.txt"
        self.db = folder / "memory.db"
        self.config = folder / "config.toml"
        self._base_url = model if isinstance(model, str) else model.base_url
        self.configure(self.echo() if servers is None else servers)

    def echo(self, **env: str) -> str:
        """The table of the echo server that writes to `notes`."""
        return echo_table(env={"NOTE_FILE": str(self.notes), **env})

    def configure(self, servers: str) -> None:
        """Write the configuration anew."""
        model = f"[model]\nbase_url = {json.dumps(self._base_url)}\n"
        self.config.write_text(model + servers, encoding="utf-8")

    def start(
        self, *args: str, cols: int = 80, rows: int = 24, named: bool = True, **env: str
    ) -> PtyProgram:
        """`agent ARGS` in a terminal of that size; `named`: with --config."""
        whole = {**os.environ, "TERM": "xterm-256color", **env}
        options = ["--config", str(self.config)] if named else []
        return PtyProgram([str(AGENT), *options, *args], whole, cols, rows, self.folder)

    def ready(self, *args: str, **options: Any) -> PtyProgram:
        """The same, once everything is loaded and the prompt can be typed at."""
        program = self.start(*args, **options)
        program.wait_for(READY, 40)
        return program

    def noted(self) -> list[str]:
        """The lines that writes have left."""
        return self.notes.read_text(encoding="utf-8").splitlines() if self.notes.exists() else []


def leave(program: PtyProgram) -> None:
    """Ctrl-D at the empty prompt: exit code 0, and the terminal is as it was."""
    program.send(CTRL_D)
    assert program.wait() == 0, program.text
    check_terminal(program)


def check_terminal(program: PtyProgram) -> None:
    """T13: modes as before the start; cursor shown, wrapping on, no other screen, no mouse."""
    assert program.modes == program.modes_at_start
    raw = bytes(program.raw)
    assert raw.rfind(b"\x1b[?25l") <= raw.rfind(b"\x1b[?25h"), "the cursor is hidden"
    assert raw.rfind(b"\x1b[?7l") <= raw.rfind(b"\x1b[?7h"), "lines do not wrap"
    assert raw.rfind(b"\x1b[?2004h") <= raw.rfind(b"\x1b[?2004l"), "pastes are bracketed"
    assert b"\x1b[?1049h" not in raw
    assert b"\x1b[?1000h" not in raw


def prompts_of(request: dict[str, Any]) -> list[str]:
    """What the user said, without the line behind a prompt that needs no tool."""
    contents = [m["content"] for m in request["messages"] if m["role"] == "user"]
    return [content.removesuffix(f"\n\n{NO_TOOL}") for content in contents]
