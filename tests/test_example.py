"""`memory.db.example`: what the README says of it is true."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from local_agent.testing import Say, ScriptedServer
from local_agent.threads import list_threads

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.process
def test_the_example_thread_is_resumed(tmp_path: Path) -> None:
    """A copy is listed and continued: the model gets the earlier turns, the six messages stay."""
    db = tmp_path / "memory.db"
    shutil.copyfile(ROOT / "memory.db.example", db)
    assert [(t.thread, t.turns, t.messages) for t in list_threads(db)] == [("demo", 2, 6)]

    code = "from local_agent.cli import main; main()"
    with ScriptedServer([Say("Order 4711.")]) as server:
        argv = [
            "--db",
            str(db),
            "--base-url",
            server.base_url,
            "--thread",
            "demo",
            "--output",
            "json",
        ]
        done = subprocess.run(
            [sys.executable, "-c", code, *argv, "-p", "Which order was the call about?"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )

    assert "Thread 'demo': resumed 6 saved messages." in done.stderr
    assert json.loads(done.stdout)["answer"] == "Order 4711."
    sent = [m["content"] for m in server.requests[0]["messages"]]
    assert any("order 4711" in text for text in sent)
    assert not server.refused
    assert list_threads(db)[0].messages == 8
