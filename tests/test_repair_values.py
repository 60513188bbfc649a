"""Arguments come into the form of the schema only where one thing alone can be meant."""

from __future__ import annotations

from typing import Any

import pytest

from local_agent.repair.schemas import Schema
from local_agent.repair.tools import Wrong, signature
from local_agent.repair.values import fit
from tests.corpus_kit import Tool

TEXT, WHOLE, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}


def tool(part: Any, *, required: bool = True, **schema: Any) -> Tool:
    """A tool with one argument `a`."""
    root = {"type": "object", "properties": {"a": part}, "required": ["a"] if required else []}
    return Tool("t", "kit", {**root, **schema})


@pytest.mark.parametrize(
    ("part", "given", "fitted"),
    [
        (WHOLE, "5", 5),
        (WHOLE, " -12 ", -12),
        (WHOLE, "5.0", 5),
        (WHOLE, 5.0, 5.0),
        (NUMBER, "1.5e3", 1500.0),
        ({"type": "boolean"}, "TRUE", True),
        (TEXT, 7, "7"),
        ({"enum": ["a-b", "c"]}, "A_B", "a-b"),
        ({"type": ["integer", "null"]}, "5", 5),
        ({"anyOf": [WHOLE, {"type": "null"}]}, "5", 5),
        ({"anyOf": [TEXT, WHOLE]}, "5", "5"),
        ({"type": "array", "items": WHOLE}, "5", [5]),
        ({"type": "array", "items": WHOLE}, ["1", 2], [1, 2]),
        ({"type": "array", "items": TEXT}, "[]", []),
        ({"type": "array"}, 3, [3]),
        ({"type": "object", "properties": {"n": WHOLE}}, '{"n": "5"}', {"n": 5}),
        ({"type": "object", "properties": {"n": WHOLE}}, {"N": 5}, {"n": 5}),
        ({"$ref": "#/$defs/n"}, "5", 5),
    ],
)
def test_fits(part: Any, given: Any, fitted: Any) -> None:
    """A value becomes what the schema asks for; each change is noted."""
    notes: list[str] = []
    one = tool(part, **{"$defs": {"n": WHOLE}})
    got = fit(one, {"a": given}, notes.append)
    assert got == {"a": fitted}
    assert type(got["a"]) is type(fitted)
    assert bool(notes) == (got != {"a": given})


@pytest.mark.parametrize(
    ("part", "given"),
    [
        (WHOLE, "5 apples"),
        (WHOLE, "five"),
        (WHOLE, "1,000"),
        (WHOLE, "0x10"),
        (WHOLE, "007"),
        (WHOLE, "5.5"),
        (WHOLE, "9007199254740993.0"),
        (WHOLE, 5.5),
        (WHOLE, True),
        (WHOLE, ""),
        (WHOLE, "null"),
        (WHOLE, None),
        (NUMBER, "1e999"),
        (NUMBER, "٣"),
        ({"type": "boolean"}, "yes"),
        ({"type": "boolean"}, 1),
        (TEXT, 1.5),
        (TEXT, True),
        (TEXT, ["a"]),
        (TEXT, {"a": 1}),
        ({"enum": ["a-b", "a_b"]}, "A b"),
        ({"enum": ["a", "b"]}, "c"),
        ({"enum": ["1", "5"]}, "-1"),
        ({"enum": ["15", "25"]}, "1.5"),
        ({"enum": ["etc"]}, "/etc"),
        ({"enum": ["k"]}, "\u212a"),
        ({"type": "string", "format": "date"}, 20250102),
        (NUMBER, "12345678901234567.5"),
        ({"type": "array", "items": TEXT}, "Ann and Bob"),
        ({"type": "array", "items": TEXT}, "甲、乙"),
        ({"type": "array", "items": TEXT}, "a, b"),
        ({"type": "array", "items": TEXT}, "[a"),
        ({"type": "array", "items": WHOLE}, "x"),
        ({"type": "object"}, "{"),
        ({"oneOf": [WHOLE, {"type": "array", "items": WHOLE}]}, "5"),
        ({"type": "string", "pattern": "^x"}, "y"),
        ({"type": "integer", "maximum": 3}, "5"),
    ],
)
def test_does_not_fit(part: Any, given: Any) -> None:
    """What may mean several things, or nothing, goes back with what the tool takes."""
    with pytest.raises(Wrong, match=r"t was not run: .*") as wrong:
        fit(tool(part), {"a": given}, lambda text: None)
    assert len(str(wrong.value)) < 600


@pytest.mark.parametrize(
    ("part", "given", "words"),
    [
        ({"type": "boolean"}, "no", 'a: "no" is not of type boolean: write true or false'),
        (WHOLE, True, "a: true is not of type integer: write a whole number"),
        (TEXT, None, "a: null is not of type string: write a text in quotes"),
        ({"enum": ["on", "off"]}, "up", 'a: "up" is not one of ["on", "off"]'),
    ],
)
def test_complaints(part: Any, given: Any, words: str) -> None:
    """What is wrong is said in JSON, with how to write it."""
    with pytest.raises(Wrong) as wrong:
        fit(tool(part), {"a": given}, lambda text: None)
    assert words in str(wrong.value)


@pytest.mark.parametrize("nothing", [None, "null", "None"])
def test_an_optional_that_says_nothing_is_left_out(nothing: Any) -> None:
    """Null for an optional argument means: not given; where the schema takes null it stays."""
    assert fit(tool(WHOLE, required=False), {"a": nothing}, lambda text: None) == {}
    nullable = tool({"type": ["integer", "null"]}, required=False)
    assert fit(nullable, {"a": None}, lambda text: None) == {"a": None}
    assert fit(tool(TEXT, required=False), {"a": "None"}, lambda text: None) == {"a": "None"}


def test_names_of_arguments() -> None:
    """Case and separators may differ, unless any name is allowed or the right one is there too."""
    notes: list[str] = []
    assert fit(tool(TEXT), {"A": "x"}, notes.append) == {"a": "x"}
    assert notes == ["A read as a"]
    free = tool(TEXT, required=False, additionalProperties=True)
    assert fit(free, {"A": "x"}, notes.append) == {"A": "x"}
    assert fit(tool(TEXT), {"A": "x", "a": "y"}, notes.append) == {"A": "x", "a": "y"}
    with pytest.raises(Wrong, match="a missing"):  # two that may be it
        fit(tool(TEXT), {"A": "x", " a": "y"}, notes.append)


def test_arguments_wrapped_once_more() -> None:
    """A wrapper is left out, also where the schema would take it as an unknown argument."""
    notes: list[str] = []
    one = tool(TEXT, required=False)
    assert fit(one, {"arguments": {"a": "x"}}, notes.append) == {"a": "x"}
    assert notes == ["the arguments around the arguments left out"]
    assert fit(one, {"arguments": {"b": "x"}}, notes.append) == {"arguments": {"b": "x"}}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "strnig"}}},
        {"type": "object", "properties": []},
        {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema.json"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
        {"$schema": "http://json-schema.org/draft-04/schema#", "required": True},
        {},
    ],
)
def test_a_broken_schema_forbids_nothing(schema: Any) -> None:
    """A schema that cannot be checked leaves the last word to the server; nothing is fetched."""
    one = Tool("t", "kit", schema)
    assert fit(one, {"a": "x"}, lambda text: None) == {"a": "x"}


def test_references_in_a_circle() -> None:
    """A schema that refers to itself is read as far as it goes."""
    schema = Schema({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}})
    assert schema.resolved({"$ref": "#/$defs/a"}) == {}
    assert schema.resolved({"$ref": "elsewhere"}) == {}
    assert schema.resolved(True) == {}


def test_signature() -> None:
    """A tool in short names its arguments, their kinds, and the values of a short enumeration."""
    parts = {
        "path": TEXT,
        "unit": {"enum": ["c", "f"]},
        "n": {"anyOf": [WHOLE, {"type": "null"}]},
        "tags": {"type": "array", "items": TEXT},
        "x": True,
        "y": {"type": ["string", "null"]},
    }
    one = Tool("t", "kit", {"properties": parts, "required": ["path"]})
    assert signature(one) == (
        't(path: string, unit?: "c"|"f", n?: integer|null, tags?: array of string, '
        "x?: any, y?: string|null)"
    )
    many = Tool("t", "kit", {"properties": {f"p{n}": TEXT for n in range(50)}})
    assert signature(many).endswith(", …)")
