"""What repair knows of a tool, and how a tool is described to a model in short."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

_ENUM_MAX = 6  # values of an enumeration that are listed
_FIELDS_MAX = 20  # arguments that are listed


class KnownTool(Protocol):
    """What repair needs of a tool. `original` is its name on its `server`."""

    @property
    def name(self) -> str: ...

    @property
    def server(self) -> str: ...

    @property
    def original(self) -> str: ...

    @property
    def schema(self) -> Mapping[str, Any]: ...


class Wrong(Exception):
    """Why a call cannot run: the text that the model shall read."""


def properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The properties of an object schema; none where it has none, or no readable ones."""
    found = schema.get("properties")
    return found if isinstance(found, Mapping) else {}


def required(schema: Mapping[str, Any]) -> Sequence[str]:
    """The names that an object schema requires."""
    found = schema.get("required")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def signature(tool: KnownTool) -> str:
    """A tool in short: `write_note(path: string, text: string, tags?: array of string)`."""
    needed = required(tool.schema)
    parts = [
        f"{field}{'' if field in needed else '?'}: {_kind(schema)}"
        for field, schema in properties(tool.schema).items()
    ]
    more = ", …" if len(parts) > _FIELDS_MAX else ""
    return f"{tool.name}({', '.join(parts[:_FIELDS_MAX])}{more})"


def _kind(schema: Any) -> str:
    """The type of an argument in one or a few words."""
    if not isinstance(schema, Mapping):
        return "any"
    values = schema.get("enum")
    if isinstance(values, list) and 0 < len(values) <= _ENUM_MAX:
        return "|".join(json.dumps(value, ensure_ascii=False) for value in values)[:80]
    for key in ("anyOf", "oneOf"):
        options = schema.get(key)
        if isinstance(options, list) and options:
            return "|".join(dict.fromkeys(map(_kind, options)))[:80]
    kind = schema.get("type", "any")
    if kind == "array" and (items := _kind(schema.get("items"))) != "any":
        return f"array of {items}"
    return "|".join(map(str, kind)) if isinstance(kind, list) else str(kind)
