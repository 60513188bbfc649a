"""Brings arguments into the form that the tool's schema asks for, where only one can be meant.

`"5"` is a number where a number is asked for, `{"Path": …}` is `path`. Nothing is rounded, cut,
chosen or filled in: what does not fit then goes back to the model.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from . import json_text
from .names import key
from .schemas import Schema
from .tools import KnownTool, Wrong, properties, required, signature

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,30})(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,3})?")
_GROUPED = re.compile(r"-?[1-9][0-9]{0,2}\.[0-9]{2}0")  # 5.000 is five thousand to many
_WRAPPERS = ("arguments", "args", "parameters", "params", "input", "kwargs", "properties")
# What stands between several values in one text.
_SEPARATED = re.compile(
    r"[,;\n|\u3001\uff0c\uff1b]|\s(?:[&+]|and|or|und|oder|et|ou|y|e|o|и|или)\s", re.I
)
_NOTHING = ("null", "none")
_DEPTH_MAX = 50  # deeper arguments than any tool's; the stack is finite
# What a checkpoint can store; beyond it the saver fails and the thread with it.
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
_EXACT = 2.0**53  # whole numbers below it are not rounded by a float

Note = Callable[[str], None]


def fit(tool: KnownTool, args: dict[str, Any], note: Note) -> dict[str, Any]:
    """The arguments as the schema of `tool` takes them; what was changed goes to `note`.

    Raises Wrong with what does not fit and what the tool takes.
    """
    schema = Schema(tool.schema)
    given = storable(tool.name, args, _DEPTH_MAX)
    if given != args:
        note("half a letter read as ?")
    fitted = _Fitter(schema, note).arguments(given)
    checked: dict[str, Any] = storable(tool.name, fitted, _DEPTH_MAX)
    missing = [field for field in required(tool.schema) if field not in checked]
    if missing:
        raise Wrong(
            f"{tool.name} was not run: {', '.join(missing)} missing. It takes {signature(tool)}. "
            "Send the call again with all required arguments."
        )
    if complaint := schema.complaint(checked):
        raise Wrong(
            f"{tool.name} was not run: {complaint}. It takes {signature(tool)}. "
            "Send the call again with arguments that fit."
        )
    return checked


class _Fitter:
    """Walks through arguments and the schema side by side."""

    def __init__(self, schema: Schema, note: Note) -> None:
        self._schema = schema
        self._note = note

    def arguments(self, args: dict[str, Any]) -> dict[str, Any]:
        """The whole arguments, which may be wrapped once more."""
        known = properties(self._schema.root)
        name, inner = next(iter(args.items())) if len(args) == 1 else ("", None)
        if name in _WRAPPERS and name not in known:
            inner = self._from_text(inner, "object")
            is_refused = not self._schema.fits(args)
            if isinstance(inner, dict) and (is_refused or (inner and set(inner) <= set(known))):
                self._note(f"the {name} around the arguments left out")
                args = inner
        return self._object(args, self._schema.root, "", _DEPTH_MAX)

    def _value(self, value: Any, part: Any, path: str, depth: int) -> Any:
        """`value` for a part of the schema; as it is where nothing certain can be done."""
        if depth == 0 or not isinstance(part, Mapping):
            return value
        resolved = self._schema.resolved(part)
        if isinstance(value, dict) and properties(resolved):
            return self._object(value, resolved, path, depth)
        if self._schema.fits(value, part):
            return value
        options = _options(resolved)
        if options:
            return self._one_of(value, part, options, path, depth)
        kind = resolved.get("type")
        if kind == "array":
            return self._array(value, resolved, path, depth)
        if kind == "object":
            inner = self._from_text(value, "object")
            if inner is value or not isinstance(inner, dict):
                return value
            self._note(f"{path}: the JSON in its text read")
            return self._object(inner, resolved, path, depth - 1)
        return self._scalar(value, part, resolved, path)

    def _one_of(
        self, value: Any, part: Mapping[str, Any], options: list[Any], path: str, depth: int
    ) -> Any:
        """The only thing that `value` can be among several kinds."""
        found: list[tuple[Any, list[str]]] = []
        for option in options:
            notes: list[str] = []
            changed = _Fitter(self._schema, notes.append)._value(value, option, path, depth - 1)
            if self._schema.fits(changed, part) and not any(_same(changed, f) for f, _ in found):
                found.append((changed, notes))
        if len(found) != 1:
            return value
        for text in found[0][1]:
            self._note(text)
        return found[0][0]

    def _object(
        self, value: dict[str, Any], schema: Mapping[str, Any], path: str, depth: int
    ) -> dict[str, Any]:
        known, needed = properties(schema), required(schema)
        renamed = self._renamed(value, schema, path)
        out: dict[str, Any] = {}
        for name, item in renamed.items():
            where = f"{path}.{name}" if path else name
            if name not in known:
                out[name] = item
            elif name not in needed and self._is_nothing(item, known[name]):
                self._note(f"{where}: {_shown(item)} left out")
            else:
                out[name] = self._value(item, known[name], where, depth - 1)
        return out

    def _renamed(
        self, value: dict[str, Any], schema: Mapping[str, Any], path: str
    ) -> dict[str, Any]:
        """Names that differ from one in the schema by case and separators alone are that one."""
        known = properties(schema)
        if schema.get("additionalProperties") not in (None, False) or "patternProperties" in schema:
            return value
        out: dict[str, Any] = {}
        keys = [key(name) for name in value]
        for name, item in value.items():
            close = [other for other in known if key(other) == key(name) and other not in value]
            is_clear = len(close) == 1 and keys.count(key(name)) == 1
            if name not in known and is_clear:
                self._note(f"{path + '.' if path else ''}{name} read as {close[0]}")
                out[close[0]] = item
            else:
                out[name] = item
        return out

    def _is_nothing(self, item: Any, part: Any) -> bool:
        """Whether an optional argument says that it is not given."""
        if item is None:
            return not self._schema.fits(None, part)
        return (
            isinstance(item, str)
            and item.strip().lower() in _NOTHING
            and not self._schema.fits(item, part)
            and not self._schema.fits("x", part)
            and "enum" not in self._schema.resolved(part)
        )

    def _array(self, value: Any, schema: Mapping[str, Any], path: str, depth: int) -> Any:
        items = schema.get("items", True)
        if isinstance(value, list):
            return [
                self._value(item, items, f"{path}[{n}]", depth - 1) for n, item in enumerate(value)
            ]
        inner = self._from_text(value, "array")
        if isinstance(inner, list):
            self._note(f"{path}: the JSON in its text read")
            return self._array(inner, schema, path, depth - 1)
        if value is None or (isinstance(value, str) and not _is_single(value)):
            return value
        single = [self._value(value, items, f"{path}[0]", depth - 1)]
        if not self._schema.fits(single, schema):
            return value
        self._note(f"{path}: one value read as a list of one")
        return single

    def _from_text(self, value: Any, kind: str) -> Any:
        """What the JSON in a text says, if it is of that kind; otherwise the text."""
        if not isinstance(value, str) or value.strip()[:1] != ("{" if kind == "object" else "["):
            return value
        try:
            return json_text.read(value)[0]
        except ValueError:
            return value

    def _scalar(
        self, value: Any, part: Mapping[str, Any], schema: Mapping[str, Any], path: str
    ) -> Any:
        is_free = not ("format" in schema and isinstance(value, int))  # 20250102 is no date yet
        changed = _as_kind(value, schema.get("type")) if is_free else value
        choices = schema.get("enum")
        if isinstance(value, str) and isinstance(choices, list):
            close = [c for c in choices if isinstance(c, str) and key(c) == key(value)]
            changed = close[0] if len(close) == 1 else changed
        if _same(changed, value) or not self._schema.fits(changed, part):
            return value
        self._note(f"{path}: {_shown(value)} read as {_shown(changed)}")
        return changed


def _options(schema: Mapping[str, Any]) -> list[Any]:
    """The kinds that a value may be of, where there are several."""
    for name in ("anyOf", "oneOf"):
        if isinstance(schema.get(name), list):
            return list(schema[name])
    kinds = schema.get("type")
    return [{**schema, "type": kind} for kind in kinds] if isinstance(kinds, list) else []


def _as_kind(value: Any, kind: Any) -> Any:
    """A text as the number or the truth value that it is, a whole number as its text."""
    if isinstance(value, str):
        text = value.strip()
        if kind in ("number", "integer") and _NUMBER.fullmatch(text):
            if not re.search("[.eE]", text):
                return int(text)
            if _GROUPED.fullmatch(text):
                return value
            number = float(text)
            if kind == "number":
                is_rounded = math.isfinite(number) and Decimal(repr(number)) != Decimal(text)
                return value if is_rounded else number
            return int(number) if abs(number) < _EXACT and number.is_integer() else value
        if kind == "boolean" and text.lower() in ("true", "false"):
            return text.lower() == "true"
    elif kind == "string" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value


def _is_single(text: str) -> bool:
    """Whether a text is surely one value and not several in one."""
    return not _SEPARATED.search(text) and text.strip()[:1] not in ("", "[", "{", "(")


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(a == b)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 40 else text[:39] + "…"


def storable(name: str, value: Any, depth: int = _DEPTH_MAX) -> Any:
    """The value without half surrogate pairs; Wrong where a checkpoint cannot hold it."""
    if depth == 0:
        raise Wrong(f"{name} was not run: its arguments are nested too deep.")
    if isinstance(value, dict):
        return {
            storable(name, field, depth - 1): storable(name, item, depth - 1)
            for field, item in value.items()
        }
    if isinstance(value, list):
        return [storable(name, item, depth - 1) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, int) and not _INT_MIN <= value <= _INT_MAX:
        raise Wrong(
            f"{name} was not run: the number {str(value)[:20]}… is too large. "
            "Send it as text in quotes, or a smaller one."
        )
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise Wrong(f"{name} was not run: a number in its arguments is too large.")
    return value
