"""Public cases of the Berkeley Function Calling Leaderboard, out of the user's own copy.

Nothing of them is shipped. Read are three categories: `simple` (one tool), `multiple` (the right
one of some) and `irrelevance` (none fits). Their own types are brought to JSON schema.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from local_agent.errors import UsageError

from .cases import Case, Turn, Wanted

INSTALLED = "installed"
PACKAGE = "bfcl_eval"
SERVER = "bfcl"
CATEGORIES = {"simple": "simple_python", "multiple": "multiple", "irrelevance": "irrelevance"}
_HINT = "pip download --no-deps bfcl-eval, unpack the wheel, and name its folder bfcl_eval/data."
_TYPES = {"dict": "object", "float": "number", "tuple": "array"}
_JSON_TYPES = {"object", "number", "array", "string", "integer", "boolean", "null"}

Table = dict[str, Any]


def data_folder(given: str) -> Path:
    """The folder with the data: `given`, or that of the installed package. Raises UsageError."""
    if given != INSTALLED:
        folder = Path(given)
        return folder / "data" if (folder / "data").is_dir() else folder
    spec = importlib.util.find_spec(PACKAGE)
    places = list(spec.submodule_search_locations or ()) if spec else []
    if not places:
        raise UsageError("The package bfcl-eval is not installed here.", _HINT)
    return Path(places[0]) / "data"


def bfcl_cases(folder: Path, count: int, servers: Path) -> list[Case]:
    """At most `count` cases of each category, chosen by the hash of their ids.

    Writes the server of each case into the folder `servers`. Raises UsageError where `folder` has
    no such files.
    """
    cases = []
    for category, name in CATEGORIES.items():
        file = next(iter(sorted(folder.glob(f"BFCL_v[0-9]_{name}.json"))), None)
        if file is None:
            raise UsageError(f"{folder} has no BFCL_v4_{name}.json.", _HINT)
        answers = {}
        if category != "irrelevance":
            answers = {row["id"]: row["ground_truth"] for row in _rows(folder, file.name)}
        rows = [row for row in _lines(file) if _is_single(row)]
        rows.sort(key=lambda row: hashlib.sha256(str(row["id"]).encode()).hexdigest())
        for row in rows[:count]:
            cases.append(_case(row, answers.get(row["id"]), f"bfcl {category}", servers))
    return cases


def _rows(folder: Path, name: str) -> Iterator[Table]:
    return _lines(folder / "possible_answer" / name)


def _lines(path: Path) -> Iterator[Table]:
    try:
        text = path.read_text(encoding="utf-8")
        yield from (json.loads(line) for line in text.splitlines() if line.strip())
    except (OSError, ValueError) as exc:
        raise UsageError(f"{path} cannot be read as lines of JSON.", _HINT) from exc


def _is_single(row: Table) -> bool:
    """Whether the case is one prompt of the user and nothing else."""
    turns = row.get("question") or []
    return len(turns) == 1 and [m.get("role") for m in turns[0]] == ["user"]


def _case(row: Table, truth: Any, category: str, servers: Path) -> Case:
    functions = row["function"] if isinstance(row["function"], list) else [row["function"]]
    path = servers / f"{row['id']}.json"
    path.write_text(json.dumps({"name": SERVER, "tool": list(map(_tool, functions))}))
    calls = tuple(
        Wanted(f"{SERVER}/{name}", {arg: _label(values) for arg, values in args.items()})
        for one in truth or []
        for name, args in one.items()
    )
    turn = Turn(row["question"][0][0]["content"], category, (calls,))
    return Case(str(row["id"]), (turn,), (path,))


def _tool(function: Table) -> Table:
    return {
        "name": function["name"],
        "description": function.get("description", ""),
        "read": True,
        "schema": json.dumps(_schema(function.get("parameters") or {"type": "dict"})),
        "text": "ok",
    }


def _schema(part: Any) -> Any:
    """A part of a description of arguments as JSON schema."""
    if not isinstance(part, Mapping):
        return part
    out = {k: v for k, v in part.items() if k not in ("type", "properties", "items", "optional")}
    kind = _TYPES.get(str(part.get("type")), part.get("type"))
    if kind in _JSON_TYPES:
        out["type"] = kind
    if isinstance(part.get("properties"), Mapping):
        out["properties"] = {name: _schema(one) for name, one in part["properties"].items()}
    if isinstance(part.get("items"), Mapping):
        out["items"] = _schema(part["items"])
    return out


def _label(values: Sequence[Any]) -> Table:
    """The label of an argument: any of the listed values; an empty text says it may be left out."""
    label: Table = {"one_of": [_value(value) for value in values if value != ""]}
    if "" in values:
        label["optional"] = True
        label["one_of"].append("")
    return label


def _value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {"fields": {name: _label(values) for name, values in value.items()}}
    return [_value(one) for one in value] if isinstance(value, list) else value
