"""The main job with a real model and real MCP servers; minutes on a small machine.

The model is a server at LOCAL_AGENT_TEST_URL, else the embedded one with the weights that
`agent model pull` fetched or LOCAL_AGENT_TEST_GGUF names.
"""

from __future__ import annotations

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from local_agent.weights import default_path
from tests.program_kit import Done, Program, finish

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

URL = os.environ.get("LOCAL_AGENT_TEST_URL", "")
WEIGHTS = Path(os.environ.get("LOCAL_AGENT_TEST_GGUF") or default_path())
SERVERS = """
[servers.time]
command = "mcp-server-time"
[servers.git]
command = "mcp-server-git"
args = ["--repository", "."]
"""


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """The program on a scratch repository with one commit."""
    if not URL and not (WEIGHTS.is_file() and find_spec("xllamacpp")):
        pytest.skip("no model: LOCAL_AGENT_TEST_URL, or agent model pull and the extra embedded")
    repository = tmp_path / "repository"
    git = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-C", str(repository)]
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    message = "add the purple elephant"
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", message], check=True)
    program = Program(tmp_path / "program", URL or "http://127.0.0.1:9/v1", servers=SERVERS)
    program.work = repository
    return program


def ask(program: Program, thread: str, prompt: str) -> Done:
    model = [] if URL else ["--model", f"embedded:{WEIGHTS}"]
    options = ["--thread", thread, "-p", prompt, "--output", "json"]
    return finish(program.start(*model, *options), seconds=600)


def test_three_processes_in_a_row(program: Program) -> None:
    """A tool answers; the next process knows it; another thread knows nothing."""
    first = ask(program, "work", "What is the message of the last commit in this repository?")
    second = ask(program, "work", "Which tool did you use for that? Answer from memory.")
    other = ask(program, "other", "Which animal was in the commit message?")

    assert first.json["status"] == "ok", first.err
    assert [call["status"] for call in first.json["tool_calls"]][:1] == ["success"]
    assert "purple elephant" in first.json["answer"]
    assert "resumed 4 saved messages" in second.err
    assert second.json["status"] == "ok"
    assert "new conversation" in other.err
    assert other.json["status"] in ("ok", "step_limit")
