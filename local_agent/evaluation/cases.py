"""The labelled cases as values, and how they are read from TOML files."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from local_agent.errors import ConfigError

from .matching import problem

Half = Literal["tune", "held_out"]
CATEGORIES = ("tool", "arguments", "no_tool", "follow_up", "denial", "ambiguous")

_FILE_KEYS = {"servers", "free_arguments", "case"}
_TURN_KEYS = {
    "prompt",
    "category",
    "calls",
    "other_calls",
    "approve",
    "answer",
    "answer_not",
    "route",
}
_CASE_KEYS = {"id", "turns", *_TURN_KEYS}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A call that should be made: `tool` is "server/tool", `args` a label for each argument."""

    tool: str
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Turn:
    """One prompt and what is right.

    `calls` has the sets of calls of which any one is right; an empty set means none. `approve` is
    what the person says to a write, `reason` why not. `answer` are labels that must all be said,
    `answer_not` those that must not. `route` is the name of the route, None where any is right.
    """

    prompt: str
    category: str
    calls: Sequence[Sequence[Wanted]] = ((),)
    approve: bool = True
    reason: str = ""
    answer: Sequence[Any] = ()
    answer_not: Sequence[Any] = ()
    route: str | None = None

    @property
    def needs_tool(self) -> bool:
        """Whether no answer without a call is right."""
        return all(self.calls)


@dataclass(frozen=True, slots=True)
class Case:
    """A conversation. `servers` are the files of its synthetic servers; none: the user's own.

    The values of arguments in `free` are not judged.
    """

    id: str
    turns: Sequence[Turn]
    servers: Sequence[Path] = ()
    free: Sequence[str] = ()

    @property
    def half(self) -> Half:
        """Fixed by the id alone, so that a case never changes its half."""
        return "tune" if hashlib.sha256(self.id.encode()).digest()[0] % 2 else "held_out"

    @property
    def topic(self) -> str:
        """The server of the first call that is wanted; cases of one come together in a run."""
        wanted = (call for turn in self.turns for calls in turn.calls for call in calls)
        return next((call.tool.partition("/")[0] for call in wanted), "")


def read_cases(paths: Iterable[Path]) -> list[Case]:
    """The cases of some files. Raises ConfigError, one line, for what is wrong with any of them."""
    cases: list[Case] = []
    for path in paths:
        cases += _read(path)
    seen: set[str] = set()
    for case in cases:
        if case.id in seen:
            raise ConfigError(f"Two cases have the id '{case.id}'.", "Give each its own.")
        seen.add(case.id)
    if not cases:
        raise ConfigError("There are no cases to run.", "evals/README.md shows how one is written.")
    return cases


def in_order(cases: Sequence[Case]) -> list[Case]:
    """The cases with those of the same servers, and of the same tools, behind one another: what
    stands first in a prompt is then read once. A set is best ordered once for all configurations.
    """
    return sorted(cases, key=lambda case: (tuple(map(str, case.servers)), case.topic, case.id))


def sample(cases: Sequence[Case], count: int) -> list[Case]:
    """`count` of the cases, chosen by their ids alone, in the order in which they come."""
    by_hash = sorted(cases, key=lambda case: hashlib.sha256(f"sample {case.id}".encode()).digest())
    chosen = {case.id for case in by_hash[:count]}
    return [case for case in cases if case.id in chosen]


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file. Raises ConfigError with the file in front."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "not UTF-8"
        raise ConfigError(f"{path} cannot be read: {reason}.") from exc
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(f"{path} is not valid TOML: {exc}.") from exc


def _read(path: Path) -> list[Case]:
    tables = read_toml(path)
    check = _Check(str(path))
    check.keys(tables, _FILE_KEYS)
    servers = check.texts(tables, "servers")
    free = check.texts(tables, "free_arguments")
    rows = check.rows(tables, "case")
    return [_case(row, number, check, path, servers, free) for number, row in enumerate(rows, 1)]


def _case(
    row: Mapping[str, Any],
    number: int,
    check: _Check,
    path: Path,
    servers: Sequence[str],
    free: Sequence[str],
) -> Case:
    case_id = row.get("id")
    if not isinstance(case_id, str) or not case_id:
        raise ConfigError(f"{path}: case {number} has no id.")
    check = _Check(f"{path}: case '{case_id}'")
    check.keys(row, _CASE_KEYS)
    if "turns" in row and "prompt" in row:
        raise ConfigError(f"{check.place} has both prompt and turns.", "Give it one of them.")
    common = {key: value for key, value in row.items() if key not in ("id", "turns")}
    rows = check.rows(row, "turns") if "turns" in row else [{}]
    if not rows:
        raise ConfigError(f"{check.place} has no turns.", "Give it a prompt.")
    turns = [_turn({**common, **one}, check) for one in rows]
    files = tuple((path.parent / name).resolve() for name in servers)
    return Case(case_id, tuple(turns), files, tuple(free))


def _turn(row: Mapping[str, Any], check: _Check) -> Turn:
    check.keys(row, _TURN_KEYS)
    prompt, category = row.get("prompt"), row.get("category")
    if not isinstance(prompt, str) or not prompt.strip():
        raise ConfigError(f"{check.place} has a turn without a prompt.")
    if not isinstance(category, str) or not category:
        raise ConfigError(f"{check.place} has no category.", f"Usual: {', '.join(CATEGORIES)}.")
    approve = row.get("approve", True)
    if not isinstance(approve, bool | str):
        raise ConfigError(f"{check.place}: approve must be true, false or the reason for a no.")
    route = row.get("route")
    if not isinstance(route, str | None):
        raise ConfigError(f"{check.place}: route must be a name.")
    others = check.listed(row, "other_calls")
    return Turn(
        prompt,
        category,
        tuple(_wanted(calls, check) for calls in [check.listed(row, "calls"), *others]),
        approve is True,
        approve if isinstance(approve, str) else "",
        check.labels(row, "answer"),
        check.labels(row, "answer_not"),
        route,
    )


def _wanted(rows: Any, check: _Check) -> tuple[Wanted, ...]:
    if not isinstance(rows, list):
        raise ConfigError(f"{check.place}: other_calls must be a list of lists of calls.")
    calls = []
    for row in rows:
        if not isinstance(row, dict) or not {"tool"} <= set(row) <= {"tool", "args"}:
            raise ConfigError(f'{check.place}: a call is written {{ tool = "…", args = {{…}} }}.')
        tool, args = row["tool"], row.get("args", {})
        if not isinstance(tool, str) or tool.count("/") != 1 or not isinstance(args, dict):
            raise ConfigError(f'{check.place}: a tool is named "server/tool".')
        for name, label in args.items():
            if wrong := problem(label):
                raise ConfigError(f"{check.place}: the label of {name} {wrong}.")
        calls.append(Wanted(tool, args))
    return tuple(calls)


@dataclass(frozen=True, slots=True)
class _Check:
    """The checks of one table; `place` says which it is."""

    place: str

    def keys(self, table: Mapping[str, Any], known: set[str]) -> None:
        if unknown := sorted(set(table) - known):
            hint = f"Known: {', '.join(sorted(known))}."
            raise ConfigError(f"{self.place} has an unknown key '{unknown[0]}'.", hint)

    def listed(self, table: Mapping[str, Any], key: str) -> list[Any]:
        value = table.get(key, [])
        if not isinstance(value, list):
            raise ConfigError(f"{self.place}: {key} must be a list.")
        return value

    def rows(self, table: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
        rows = self.listed(table, key)
        if not all(isinstance(row, dict) for row in rows):
            raise ConfigError(f"{self.place}: {key} must be tables.")
        return rows

    def texts(self, table: Mapping[str, Any], key: str) -> list[str]:
        texts = self.listed(table, key)
        if not all(isinstance(text, str) for text in texts):
            raise ConfigError(f"{self.place}: {key} must be a list of texts.")
        return texts

    def labels(self, table: Mapping[str, Any], key: str) -> tuple[Any, ...]:
        for label in (labels := self.listed(table, key)):
            if not isinstance(label, str | dict):
                raise ConfigError(f"{self.place}: {key} must be a list of texts and tables.")
            if wrong := problem(label):
                raise ConfigError(f"{self.place}: a label of {key} {wrong}.")
        return tuple(labels)
