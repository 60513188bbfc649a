"""The shape of the code: which module may import which, and how long one may be."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "local_agent"
CORE = {"context", "agent_ports", "agent_turn", "agent_hear", "agent_reply", "agent_graph"}
LONGEST = 400

# What each part may import of ours; a part may always import from its own package.
ARROWS: dict[str, set[str]] = {
    "context": set(),
    "agent_ports": set(),
    "agent_turn": {"context"},
    "agent_reply": {"context", "agent_ports", "agent_turn"},
    "agent_hear": {"context", "agent_ports", "agent_turn", "agent_reply"},
    "agent_graph": {"context", "agent_ports", "agent_turn", "agent_hear", "agent_reply"},
    "errors": set(),
    "events": set(),
    "environment": {"tracing"},
    "config": {"errors"},
    "trust": {"config", "errors"},
    "tracing": set(),
    "call_marks": set(),
    "model": {"call_marks", "config", "errors", "context", "tracing"},
    "repair": {"call_marks"},
    "approval": {"agent_ports"},
    "seal": {"errors"},
    "routing": {"agent_ports", "config", "context", "errors"},
    "mcp_client": {"config", "errors"},
    "memory": {"config", "errors"},
    "lock": {"config", "errors"},
    "threads": {"memory", "errors"},
    "embedded": {"config", "errors", "gguf", "weights"},
    "gguf": {"errors"},
    "embedded_server": set(),
    "weights": {"config", "errors"},
    "late_model": {"config", "context", "embedded", "errors", "model", "weights"},
    "testing": set(),
    "session": {"agent_graph", "agent_ports", "agent_turn", "context", "events", "errors"},
    "ui": {"events", "errors"},
}
EDGES = {"cli", "http"}


def modules() -> Iterator[tuple[str, str, Path]]:
    """(dotted name, part, path) of every module of ours."""
    for path in sorted(ROOT.glob("*.py")):
        yield path.stem, path.stem, path
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        dotted = ".".join(["local_agent", *(p for p in parts if p != "__init__")])
        yield dotted, parts[0], path


def imported(path: Path) -> set[str]:
    """The parts of ours that a module imports, at its top or inside a function."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
            if node.module == "local_agent":
                names = [f"local_agent.{alias.name}" for alias in node.names]
        for name in names:
            first, _, rest = name.partition(".")
            if first in CORE:
                found.add(first)
            elif first == "local_agent" and rest:
                found.add(rest.partition(".")[0])
    return found - {"__version__"}


@pytest.mark.parametrize(("name", "part", "path"), list(modules()), ids=lambda v: str(v)[-40:])
def test_imports_go_one_way(name: str, part: str, path: Path) -> None:
    """No module imports a part that lies above it, and nothing imports the edges."""
    others = imported(path) - {part}
    if part in EDGES or name == "local_agent":
        return
    assert not others & EDGES
    if part == "app":
        return
    assert part in ARROWS, f"{part} is a new part: say here what it may import"
    assert others <= ARROWS[part]


@pytest.mark.parametrize(("name", "part", "path"), list(modules()), ids=lambda v: str(v)[-40:])
def test_modules_are_short(name: str, part: str, path: Path) -> None:
    """No module is longer than 400 lines."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST


@pytest.mark.parametrize(("name", "part", "path"), list(modules()), ids=lambda v: str(v)[-40:])
def test_modules_say_what_they_are(name: str, part: str, path: Path) -> None:
    """Every module begins with one sentence about itself."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert text, f"{name} has no docstring"
    assert text.split("\n\n")[0].strip()


@pytest.mark.process
@pytest.mark.parametrize("argv", [["--help"], ["--version"], ["threads", "list"]])
def test_quick_commands_import_no_heavy_module(argv: list[str], tmp_path: Path) -> None:
    """--help, --version and `threads list` load neither LangChain nor openai nor mcp."""
    code = (
        "import sys; from local_agent.cli import run; code = run(sys.argv[1:]);"
        "heavy = {m.split('.')[0] for m in sys.modules} & "
        "{'langchain_core', 'langgraph', 'langchain_openai', 'openai', 'mcp'};"
        "print('HEAVY', sorted(heavy), code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *argv],
        cwd=tmp_path,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "HEAVY [] 0" in done.stdout, done.stdout + done.stderr


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(ROOT)}
