"""Builds memory.db.example: a short thread "demo", by the program itself with a scripted model.

usage: python examples/make_memory.py [FILE]
The model's replies are scripted; the tool results come from the real mcp-server-time.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

from local_agent.testing import Call, Reply, Say, ScriptedServer

ROOT = Path(__file__).resolve().parent.parent
CONFIG = """
[model]
base_url = "{base_url}"
[servers.time]
command = "mcp-server-time"
"""
PROMPTS = (
    "It is 09:30 in Berlin. What time is that in Tokyo?",
    "Remember: the call with Tokyo is about order 4711.",
)


def answer(request: dict[str, Any]) -> Reply:
    """What the scripted model says to a request; the time comes from the tool's result."""
    newest = request["messages"][-1]
    if newest["role"] == "tool":
        target = datetime.fromisoformat(json.loads(newest["content"])["target"]["datetime"])
        return Say(f"It is {target:%H:%M} in Tokyo then.")
    if newest["content"] == PROMPTS[0]:
        zones = {"source_timezone": "Europe/Berlin", "target_timezone": "Asia/Tokyo"}
        return Call("convert_time", {**zones, "time": "09:30"})
    return Say("Noted: the call with Tokyo is about order 4711.")


def build(target: Path) -> None:
    """Write the example to `target`, replacing what is there."""
    with tempfile.TemporaryDirectory() as folder:
        db = Path(folder) / "memory.db"
        with ScriptedServer(answer) as server:
            config = Path(folder) / "mcp_servers.toml"
            config.write_text(CONFIG.format(base_url=server.base_url), encoding="utf-8")
            for prompt in PROMPTS:
                _run(config, db, prompt)
            if server.refused:
                raise SystemExit(f"the scripted server refused: {server.refused[0]}")
        with closing(sqlite3.connect(db)) as conn:
            conn.execute("VACUUM")
            conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        target.write_bytes(db.read_bytes())


def _run(config: Path, db: Path, prompt: str) -> None:
    code = "from local_agent.cli import main; main()"
    argv = ["--config", str(config), "--db", str(db), "--thread", "demo", "-p", prompt]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(
        [sys.executable, "-c", code, *argv], check=True, env=env, stdin=subprocess.DEVNULL
    )


if __name__ == "__main__":
    build(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "memory.db.example")
