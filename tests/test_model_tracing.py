"""Nothing of a conversation leaves the machine, whatever tracing variables are set."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from local_agent.testing import ScriptedServer

ROOT = Path(__file__).parents[1]
PROGRAM = """
from local_agent.tracing import forbid_tracing
if {forbid}:
    forbid_tracing()
from langchain_core.runnables import RunnableLambda
from langchain_core.tracers.langchain import wait_for_all_tracers
assert RunnableLambda(lambda text: text.upper()).invoke("secret") == "SECRET"
wait_for_all_tracers()
"""


def run(server: ScriptedServer, **variables: str) -> None:
    """Run a traced step in a process of its own, with tracing asked for."""
    forbid = variables.pop("FORBID", "True")
    variables |= {
        "LANGSMITH_TRACING": "true",
        "LANGSMITH_API_KEY": "key",
        "LANGSMITH_ENDPOINT": f"http://127.0.0.1:{server.port}",
    }
    subprocess.run(
        [sys.executable, "-c", PROGRAM.format(forbid=forbid)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        check=True,
        timeout=60,
        capture_output=True,
    )


def test_tracing_is_off(scripted: Callable[..., ScriptedServer]) -> None:
    """With tracing asked for in every way, no request reaches the endpoint and nothing fails."""
    server = scripted()
    run(server, LANGCHAIN_TRACING="1", LANGCHAIN_TRACING_V2="true", LANGSMITH_TRACING_V2="true")
    assert server.paths == []


@pytest.mark.slow
def test_tracing_would_be_on(scripted: Callable[..., ScriptedServer]) -> None:
    """Without the switch the same program does send: the test above can fail."""
    server = scripted()
    run(server, FORBID="False")
    assert server.paths
