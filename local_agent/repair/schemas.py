"""Checks values against the schema of a tool; a schema that is broken itself forbids nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

_SHARED = ("$schema", "$defs", "definitions")  # what references of a part may lead to
_MESSAGE_MAX = 200  # characters of a complaint that quotes the value
_HINTS = {
    "boolean": ": write true or false, without quotes",
    "integer": ": write a whole number, without quotes",
    "number": ": write a number with a point and nothing else in it",
    "string": ": write a text in quotes",
    "array": ": write a list in [ ]",
    "object": ": write an object in { }",
}


class Schema:
    """The schema of a tool's arguments.

    `usable` is false where it cannot be checked against: it breaks the rules of JSON Schema, or
    refers to what is elsewhere. Then everything fits, and the server will have the last word.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.root = schema
        self.usable = _is_usable(_text(schema))

    def fits(self, value: Any, part: Mapping[str, Any] | bool | None = None) -> bool:
        """Whether `value` is allowed by the schema, or by a `part` of it."""
        return self.complaint(value, part) == ""

    def complaint(self, value: Any, part: Mapping[str, Any] | bool | None = None) -> str:
        """What is wrong with `value`, in one line; empty where nothing is."""
        if not self.usable or part is True:
            return ""
        if part is False:
            return "not allowed"
        whole = self.root if part is None else {**self._shared(), **part}
        try:
            error = _best(_validator(_text(whole)), value)
        except Exception as exc:  # noqa: BLE001 - a foreign schema: whatever fails, it is unusable
            return "" if part is None else f"cannot be checked: {type(exc).__name__}"
        return error

    def resolved(self, part: Any) -> Mapping[str, Any]:
        """The part itself, behind its local references; {} for what cannot be read."""
        for _ in range(20):  # a reference may lead round in a circle
            if not isinstance(part, Mapping):
                return {}
            ref = part.get("$ref")
            if not isinstance(ref, str):
                return part
            part = self._at(ref)
        return {}

    def _at(self, ref: str) -> Any:
        found: Any = self.root
        if not ref.startswith("#"):
            return {}
        for step in ref[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        return found

    def _shared(self) -> dict[str, Any]:
        return {key: self.root[key] for key in _SHARED if key in self.root}


def _text(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, sort_keys=True, default=str)


@lru_cache(maxsize=256)
def _is_usable(text: str) -> bool:
    """Whether a value can be checked against the schema. The rules themselves are checked too."""
    try:
        validator = _validator(text)
        type(validator).check_schema(validator.schema)
        list(validator.iter_errors({}))
    except Exception:  # noqa: BLE001 - a foreign schema can be wrong in any way
        return False
    return True


@lru_cache(maxsize=256)
def _validator(text: str) -> Any:
    """A validator that fetches nothing: a reference to another place is an error."""
    from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # has no stubs
    from jsonschema.validators import validator_for  # type: ignore[import-untyped]
    from referencing import Registry

    schema = json.loads(text)
    kind = validator_for(schema, default=Draft202012Validator)
    return kind(schema, registry=Registry())


def _best(validator: Any, value: Any) -> str:
    from jsonschema.exceptions import best_match  # type: ignore[import-untyped]

    error = best_match(validator.iter_errors(value))
    if error is None:
        return ""
    message = " ".join(_complaint(error).split())
    if len(message) > _MESSAGE_MAX:
        half = _MESSAGE_MAX // 2
        message = f"{message[:half]} … {message[-half:]}"
    path = error.json_path.removeprefix("$").lstrip(".")
    return f"{path}: {message}" if path else message


def _complaint(error: Any) -> str:
    """What a validator says, with values as JSON: a model that reads True or None writes them."""
    wanted = error.validator_value
    if error.validator == "type" and isinstance(wanted, str):
        return f"{_json(error.instance)} is not of type {wanted}{_HINTS.get(wanted, '')}"
    if error.validator == "enum":
        return f"{_json(error.instance)} is not one of {_json(wanted)}"
    return str(error.message)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
