"""The synthetic servers of the cases: their files checked, and how each is started."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from local_agent.config import ServerSpec
from local_agent.errors import ConfigError

from .cases import read_toml

SCRIPT = Path(__file__).with_name("world_server.py")


def check_world(path: Path) -> str:
    """The name of the server in the file. Raises ConfigError, one line, for a file that is none."""
    world = read_json(path) if path.suffix == ".json" else read_toml(path)
    name, tools = world.get("name"), world.get("tool")
    if not isinstance(name, str) or not name or not isinstance(tools, list) or not tools:
        raise ConfigError(f"{path} is no server: it needs a name and [[tool]] tables.")
    for tool in tools:
        _check_tool(path, tool)
    return name


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises ConfigError."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise ConfigError(f"{path} cannot be read as JSON.") from exc
    if not isinstance(value, dict):
        raise ConfigError(f"{path} has no JSON object.")
    return value


def _check_tool(path: Path, tool: Any) -> None:
    if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
        raise ConfigError(f"{path} has a [[tool]] without a name.")
    place = f"{path}: tool '{tool['name']}'"
    try:
        schema = json.loads(tool.get("schema", ""))
    except (TypeError, ValueError) as exc:
        raise ConfigError(f"{place} has no schema that is JSON.") from exc
    if not isinstance(schema, dict):
        raise ConfigError(f"{place} has a schema that is no JSON object.")
    results = tool.get("result", [])
    if not isinstance(results, list) or not all(isinstance(r, dict) for r in results):
        raise ConfigError(f"{place}: results are written [[tool.result]].")
    for when in (result.get("when", {}) for result in results):
        if not isinstance(when, dict) or any(
            isinstance(value, dict) and set(value) != {"contains"} for value in when.values()
        ):
            raise ConfigError(f'{place}: when takes values and {{ contains = "text" }}.')


def specs_of(paths: Sequence[Path]) -> tuple[ServerSpec, ...]:
    """How the servers of the files are started. Raises as `check_world`."""
    return tuple(
        ServerSpec(
            name=check_world(path),
            command=sys.executable,
            args=("-I", "-S", "-X", "utf8", str(SCRIPT), str(path)),
        )
        for path in paths
    )
