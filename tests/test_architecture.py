"""The shape of the code: which module may import which, and how long one may be."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("agent_core", "local_agent")
LONGEST = 400

# What each part may import of ours; a part may always import from its own package.
ARROWS: dict[str, set[str]] = {
    "context": set(),
    "agent_core": {"context"},
    "agent_graph": {"agent_core", "context"},
    "errors": set(),
    "events": set(),
    "environment": {"tracing"},
    "config": {"agent_core", "errors"},  # of agent_core the limits alone: it must stay quick
    "trust": {"config", "errors"},
    "tracing": set(),
    "call_marks": set(),
    "model": {"call_marks", "config", "context", "errors", "tracing"},
    "repair": {"agent_core", "call_marks"},
    "approval": {"agent_core"},
    "seal": {"errors"},
    "routing": {"agent_core", "config", "context", "errors"},
    "mcp_client": {"config", "errors"},
    "memory": {"config", "errors"},
    "lock": {"config", "errors"},
    "threads": {"agent_graph", "errors", "lock", "memory"},
    "timeline": {"agent_core", "agent_graph", "context", "errors", "memory", "seal"},
    "transfer": {
        "agent_core",
        "agent_graph",
        "config",
        "context",
        "errors",
        "lock",
        "memory",
        "threads",
    },
    "embedded": {"config", "embedded_log", "errors", "gguf", "weights"},
    "embedded_log": {"errors"},
    "gguf": {"errors"},
    "embedded_server": set(),
    "weights": {"config", "errors"},
    "late_model": {"config", "context", "embedded", "errors", "model", "weights"},
    "probe": {"config", "context", "errors", "model", "repair"},
    "testing": set(),
    "tuned": {"config", "model", "probe"},
    "foreign": {"agent_core", "context", "errors"},
    "interrupted": {"agent_core", "agent_graph", "context", "events"},
    "session": {"agent_core", "agent_graph", "context", "errors", "events", "interrupted"},
    "evaluation": {"app", "config", "errors", "events", "session"},
    "ui": {"errors", "events"},
}
EDGES = {"cli", "http"}


def modules() -> Iterator[tuple[str, str, Path]]:
    """(dotted name, part, path) of every module of ours."""
    for path in sorted(ROOT.glob("*.py")):
        yield path.stem, path.stem, path
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            dotted = ".".join(p for p in parts if p != "__init__")
            yield dotted, part_of(dotted), path


def part_of(dotted: str) -> str:
    """The part that a module belongs to: its folder or file under local_agent, or its top level."""
    first, _, rest = dotted.partition(".")
    return rest.partition(".")[0] or "__init__" if first == "local_agent" else first


def imports_of(path: Path) -> set[str]:
    """The modules that a module imports, dotted, at its top or inside a function."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def imported(path: Path) -> set[str]:
    """The parts of ours that a module imports."""
    ours = {"context", "agent_graph", *PACKAGES}
    names = {name for name in imports_of(path) if name.partition(".")[0] in ours}
    return {part_of(name) for name in names} - {"__version__"}


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


def test_no_module_needs_itself() -> None:
    """The modules can be put in an order in which each imports only earlier ones."""
    known = {name: path for name, _, path in modules()}
    below = {
        name: {module_of(one, known) for one in imports_of(path)} - {"", name}
        for name, path in known.items()
    }
    tuple(TopologicalSorter(below).static_order())  # raises CycleError, which names the circle


def module_of(imported_name: str, known: Mapping[str, Path]) -> str:
    """The module of ours that an import is of; empty where it is of another program."""
    if imported_name in known:
        return imported_name
    package = imported_name.rpartition(".")[0]
    return package if package in known else ""


@pytest.mark.process
@pytest.mark.parametrize(
    "argv",
    [
        ["--help"],
        ["--version"],
        ["threads", "list"],
        ["threads", "search", "word"],
        ["threads", "delete", "--older-than", "1d"],
        ["threads", "prune", "--dry-run"],
    ],
)
def test_quick_commands_import_no_heavy_module(argv: list[str], tmp_path: Path) -> None:
    """--help, --version, `threads list|search|delete` load neither LangChain nor openai nor mcp."""
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
