"""What the results of a run come to: shares by category and half, and what a prompt took."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .cases import CATEGORIES
from .figures import difference, mcnemar, wilson

NEEDS_TOOL = "needs a tool"
ALL = "all prompts"


@dataclass(frozen=True, slots=True)
class Row:
    """One turn as far as it is counted; `details` are for reading only."""

    configuration: str
    case: str
    turn: int
    category: str
    half: str
    needs_tool: bool
    passed: bool
    has_tool: bool | None
    has_args: bool | None
    has_set: bool | None
    tools: int
    model_calls: int
    router_calls: int
    constrained_calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    details: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """`passed` of `count`, with the 95 % interval of the share."""

    passed: int
    count: int
    low: float
    high: float

    @property
    def value(self) -> float:
        return self.passed / self.count if self.count else 0.0


@dataclass(frozen=True, slots=True)
class Change:
    """Against the baseline, over the same turns: points as a share, 95 % interval, McNemar's p."""

    value: float
    low: float
    high: float
    p: float


@dataclass(frozen=True, slots=True)
class Line:
    """One configuration on one group of prompts; `change` is None for the baseline itself."""

    group: str
    configuration: str
    both: Share
    tune: Share
    held_out: Share
    change: Change | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """What one prompt took in a configuration, in means; the last four are shares of prompts."""

    configuration: str
    model_calls: float
    input_tokens: float
    output_tokens: float
    tools: float
    no_router_call: float
    has_set: Share
    has_tool: Share
    has_args: Share


def share(values: Sequence[bool]) -> Share:
    """The share of true ones."""
    passed, count = sum(values), len(values)
    return Share(passed, count, *wilson(passed, count))


def groups_of(rows: Sequence[Row]) -> Mapping[str, Callable[[Row], bool]]:
    """The groups of prompts: each category, all that need a tool, and all."""
    there = {row.category for row in rows}
    names = [name for name in CATEGORIES if name in there]
    names += sorted(there - set(names))
    groups: dict[str, Callable[[Row], bool]] = {name: _of_category(name) for name in names}
    groups[NEEDS_TOOL] = lambda row: row.needs_tool
    groups[ALL] = lambda row: True
    return groups


def _of_category(name: str) -> Callable[[Row], bool]:
    return lambda row: row.category == name


def lines_of(rows: Sequence[Row], baseline: str) -> list[Line]:
    """A line for each group and configuration, in the order in which they come."""
    names = list(dict.fromkeys(row.configuration for row in rows))
    lines = []
    for group, belongs in groups_of(rows).items():
        before = [row for row in rows if row.configuration == baseline and belongs(row)]
        for name in names:
            mine = [row for row in rows if row.configuration == name and belongs(row)]
            halves = {
                half: share([row.passed for row in mine if row.half == half])
                for half in ("tune", "held_out")
            }
            both = share([row.passed for row in mine])
            change = change_of(before, mine) if before and name != baseline else None
            lines.append(Line(group, name, both, halves["tune"], halves["held_out"], change))
    return lines


def change_of(before: Sequence[Row], after: Sequence[Row]) -> Change | None:
    """The difference over the turns that both have; None where they have none in common."""
    known = {(row.case, row.turn): row.passed for row in before}
    pairs: dict[str, list[tuple[bool, bool]]] = {}
    for row in after:
        if (row.case, row.turn) in known:
            pairs.setdefault(row.case, []).append((known[row.case, row.turn], row.passed))
    if not pairs:
        return None
    flat = [pair for group in pairs.values() for pair in group]
    better, worse = flat.count((False, True)), flat.count((True, False))
    return Change(*difference(pairs), mcnemar(better, worse))


def costs_of(rows: Sequence[Row]) -> list[Cost]:
    """What a prompt took in each configuration."""
    costs = []
    for name in dict.fromkeys(row.configuration for row in rows):
        mine = [row for row in rows if row.configuration == name]
        count = len(mine)
        costs.append(
            Cost(
                name,
                sum(row.model_calls for row in mine) / count,
                sum(row.input_tokens for row in mine) / count,
                sum(row.output_tokens for row in mine) / count,
                sum(row.tools for row in mine) / count,
                sum(not row.router_calls for row in mine) / count,
                share([row.has_set for row in mine if row.has_set is not None]),
                share([row.has_tool for row in mine if row.has_tool is not None]),
                share([row.has_args for row in mine if row.has_args is not None]),
            )
        )
    return costs
