"""The results of a run as one JSON object, to and fro."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from local_agent.errors import UsageError

from .summary import Cost, Line, Row, costs_of, lines_of

if TYPE_CHECKING:
    from .runner import TurnResult

SCHEMA_VERSION = 1
COUNTED = tuple(item.name for item in dataclasses.fields(Row) if item.name != "details")
DETAILS = ("prompt", "why", "route", "calls", "answer")


@dataclass(frozen=True, slots=True)
class Run:
    """One run: what it was, and its turns. `label` tells runs of one model apart."""

    model: str
    date: str
    command: str
    label: str
    server: str  # the fingerprint of model and template
    reply_tokens: int
    max_steps: int
    rows: Sequence[Row]

    def named(self, configuration: str) -> str:
        """The name of a configuration of this run among those of other runs."""
        return f"{configuration} ({self.label})" if self.label else configuration


def row_of(result: TurnResult, *, with_details: bool) -> Row:
    """A result as it is counted. What was said in a held-out turn is not to be read while tuning,
    so it is left out unless it is asked for."""
    values = {name: getattr(result, name) for name in COUNTED}
    details = None
    if with_details or result.half == "tune":
        details = {name: getattr(result, name) for name in DETAILS}
        details["calls"] = [{"tool": c.tool, "args": dict(c.args)} for c in result.calls]
    return Row(**values, details=details)


def to_json(run: Run, baseline: str) -> dict[str, Any]:
    """The run with its figures."""
    head = {f.name: getattr(run, f.name) for f in dataclasses.fields(run) if f.name != "rows"}
    return {
        "schema_version": SCHEMA_VERSION,
        **head,
        "prompts": len({(row.case, row.turn) for row in run.rows}),
        "cases": len({row.case for row in run.rows}),
        "success": [_line(line) for line in lines_of(run.rows, baseline)],
        "cost": [_cost(cost) for cost in costs_of(run.rows)],
        "turns": [dataclasses.asdict(row) for row in run.rows],
    }


def _line(line: Line) -> dict[str, Any]:
    values = dataclasses.asdict(line)
    for name in ("both", "tune", "held_out"):
        values[name]["share"] = getattr(line, name).value
    return values


def _cost(cost: Cost) -> dict[str, Any]:
    values = dataclasses.asdict(cost)
    for name in ("has_set", "has_tool", "has_args"):
        values[name]["share"] = getattr(cost, name).value
    return values


def read_run(path: Path) -> Run:
    """The run of a file that `--save` wrote. Raises UsageError for any other."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if values["schema_version"] != SCHEMA_VERSION:
            raise ValueError(values["schema_version"])
        rows = tuple(_row(row) for row in values["turns"])
        names = [item.name for item in dataclasses.fields(Run) if item.name != "rows"]
        return Run(**{name: values[name] for name in names}, rows=rows)
    except OSError as exc:
        raise UsageError(f"{path} cannot be read: {exc.strerror}.") from exc
    except (KeyError, TypeError, ValueError) as exc:
        raise UsageError(f"{path} has no results of a run.", "--save FILE writes them.") from exc


_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "bool": (bool,),
    "bool | None": (bool, type(None)),
}


def _row(values: dict[str, Any]) -> Row:
    """Raises TypeError for a value of the wrong type."""
    row = Row(**values)
    for item in dataclasses.fields(Row):
        kinds = _KINDS.get(str(item.type))
        if kinds and type(getattr(row, item.name)) not in kinds:
            raise TypeError(item.name)
    return row
