"""Tools as prompts describe them: shorter, deterministic, and with all that constrains a call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from agent_core.brief import PHRASE, RULES, SENTENCES, brief, first_sentences
from agent_core.offer import function_of, offer
from context import Window
from tests.view_kit import FakeTool


def schema(properties: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


# -- texts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("Shows the log.", "Shows the log."),
        ("  Shows\n  the **whole** `log`.\n", "Shows the whole log."),
        ("Shows the log.\n\nArgs:\n    path: where\n\nReturns:\n    the log", "Shows the log."),
        ("# Log\n\nShows it, see [docs](http://x.example/y).", "Log Shows it, see docs."),
        ("Finds files.\n\n```py\nfind('*.py')\n```\n", "Finds files."),
        ("Takes a glob like *.py or **/*.md", "Takes a glob like *.py or **/*.md"),
        *((t, t) for t in ("2*3*4 or a*b*c", "src/*foo*bar", "arr[i](k)", "in $*USD*$")),
        ("Set <owner>/<repo> and __init__", "Set <owner>/<repo> and __init__"),
        ("Args:\n  only this", "Args: only this"),
        ("", ""),
    ],
)
def test_markup_and_sections_are_left_out(text: str, short: str) -> None:
    """What explains the arguments once more, examples and markup are not for the model."""
    assert first_sentences(text, 200) == short


def test_a_long_text_ends_at_a_sentence() -> None:
    """As many whole sentences as have room; of one that is too long its first words."""
    text = "It reads a file. It takes a path. " + "It says much more about that. " * 9

    assert first_sentences(text, 40) == "It reads a file. It takes a path."
    assert first_sentences("word " * 99, 24) == "word word word word…"


def test_how_to_fill_in_an_argument_stays() -> None:
    """mcp-server-time says its user's time zone there, and mcp-server-git when to leave it out."""
    zone = "IANA timezone name (e.g., 'America/New_York', 'Europe/London')."
    local = "Use 'Europe/Berlin' as local timezone if no timezone provided by the user."
    more = "It can be any of the names that the IANA database has, old ones among them."

    assert first_sentences(f"{zone} {local}", PHRASE) == f"{zone} {local}"
    assert first_sentences(f"{zone} {more} {local}", PHRASE) == f"{zone} {local}"
    assert first_sentences(f"{zone} {local} {local}", PHRASE) == f"{zone} {local}"
    assert first_sentences(f"{zone} {more}", PHRASE) == zone


@given(st.text(max_size=400), st.integers(20, 200))
def test_no_text_is_longer_than_it_may_be(text: str, chars: int) -> None:
    """Whatever a server says of a tool; and shortening it once more changes nothing."""
    short = first_sentences(text, chars)

    assert len(short) <= chars * (1 + RULES)
    assert "\n" not in short
    assert len(first_sentences(short, chars)) <= len(short)


# -- schemas --------------------------------------------------------------------------------------


def test_noise_is_left_out() -> None:
    """Titles, dialects, empty defaults and examples; a default that says something stays."""
    full = schema(
        {
            "title": {"type": "string", "title": "Title", "examples": ["x"], "default": ""},
            "count": {"type": "integer", "default": 10, "maximum": 50, "$comment": "no"},
        },
        **{"$schema": "https://json-schema.org/x", "title": "Args", "additionalProperties": False},
    )
    short, _ = brief(full, "")

    assert short == schema(
        {"title": {"type": "string"}, "count": {"type": "integer", "default": 10, "maximum": 50}}
    )


def test_definitions_are_put_where_they_are_used() -> None:
    """A small one; one that refers to itself stays, with all that it needs."""
    unit = {"enum": ["m", "km"], "title": "Unit"}
    tree = schema({"left": {"$ref": "#/$defs/Tree"}})
    flat, _ = brief(schema({"unit": {"$ref": "#/$defs/Unit"}}, **{"$defs": {"Unit": unit}}), "")
    deep, _ = brief(schema({"tree": {"$ref": "#/$defs/Tree"}}, **{"$defs": {"Tree": tree}}), "")

    assert flat == schema({"unit": {"enum": ["m", "km"]}})
    assert deep["$defs"]["Tree"] == tree
    Draft202012Validator(deep).validate({"tree": {"left": {"left": {}}}})


def test_an_optional_argument_has_no_null() -> None:
    """It can be left out; one that must be given keeps its null."""
    either = {"anyOf": [{"type": "string", "maxLength": 9}, {"type": "null"}], "default": None}
    short, _ = brief(schema({"a": either, "b": either}, required=["b"]), "")

    assert short["properties"]["a"] == {"type": "string", "maxLength": 9}
    assert short["properties"]["b"]["anyOf"] == either["anyOf"]


def test_what_maps_names_to_values_keeps_what_the_values_are() -> None:
    """`additionalProperties` with a schema is how a map is written."""
    full = schema({"env": {"type": "object", "additionalProperties": {"type": "string"}}})

    assert brief(full, "")[0] == full


def test_texts_of_arguments_are_short() -> None:
    """A page about one argument becomes its first sentence."""
    about = "The path of the file. " + "More about paths than anyone wants to know. " * 20
    short, text = brief(schema({"path": {"type": "string", "description": about}}), about)

    assert len(short["properties"]["path"]["description"]) <= PHRASE
    assert len(text) <= SENTENCES


LEAVES = st.one_of(
    st.just({"type": "string"}),
    st.builds(lambda n: {"type": "string", "maxLength": n, "title": "T"}, st.integers(0, 5)),
    st.builds(lambda n: {"type": "integer", "minimum": n, "default": n}, st.integers(-3, 3)),
    st.just({"type": "boolean", "description": "Yes or no. Or not."}),
    st.just({"enum": ["a", "b", None], "title": "Letter"}),
    st.just({"type": ["integer", "null"], "default": None}),
    st.just({"$ref": "#/$defs/Small"}),
    st.just({"$ref": "#/$defs/Self", "description": "A tree."}),
    st.just({"const": {"$ref": "#/$defs/Small", "title": "kept"}}),
)


def _objects(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(st.sampled_from(["a", "title", "default", "d"]), parts, max_size=3)
    closed = st.sampled_from([{}, {"additionalProperties": False}, {"title": "O"}])
    return st.builds(
        lambda p, more, n: schema(p, required=list(p)[:n], **more), named, closed, st.integers(0, 2)
    )


PARTS = st.recursive(
    LEAVES,
    lambda parts: st.one_of(
        _objects(parts),
        st.builds(lambda p: {"type": "array", "items": p, "maxItems": 3}, parts),
        st.builds(lambda p, q: {"anyOf": [p, q, {"type": "null"}], "default": None}, parts, parts),
        st.builds(lambda p: {"anyOf": [p, {"type": "null"}], "description": "x"}, parts),
        st.builds(lambda p, q: {"oneOf": [p, q]}, parts, parts),
        st.builds(lambda p: {"not": p}, parts),
    ),
    max_leaves=6,
)
DEFINITIONS = {
    "Small": {"type": "string", "enum": ["x", "y"], "title": "Small"},
    "Self": schema({"a": {"$ref": "#/$defs/Self"}}, additionalProperties=False),
}
VALUES = st.recursive(
    st.sampled_from([None, True, 0, 2, -3, "", "a", "x", "long text", {"$ref": "#/$defs/Small"}]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "title", "default", "d"]), inner, max_size=3),
    ),
    max_leaves=6,
)


def as_read(shown: Any) -> Any:
    """A shown schema as a model reads it: other properties than those shown are not there."""
    if not isinstance(shown, Mapping):
        return shown
    out = dict(shown)
    if "items" in shown:
        out["items"] = as_read(shown["items"])
    if isinstance(properties := shown.get("properties"), Mapping):
        out["properties"] = {name: as_read(part) for name, part in properties.items()}
        out.setdefault("additionalProperties", False)
    return out


@settings(max_examples=300, deadline=None)
@given(_objects(PARTS), st.booleans(), VALUES)
def test_what_fits_the_shown_schema_fits_the_tool(
    part: dict[str, Any], least: bool, value: Any
) -> None:
    """A call that is valid as the tool is shown is never refused because it was shown in short."""
    full = {**part, "$defs": DEFINITIONS}
    short, _ = brief(full, "", least=least)
    shown = as_read(short)

    assert brief(short, "", least=least)[0] == short
    if Draft202012Validator(shown).is_valid(value):
        assert Draft202012Validator(full).is_valid(value)


# -- in a prompt ----------------------------------------------------------------------------------


def test_tools_are_shown_in_fewer_words_before_any_is_left_out() -> None:
    """Where the tools have no room, all of them are shown as short as can be."""
    about = "It does a thing that takes many words to say and so on. " * 4
    tools = [
        FakeTool(f"t{n}", about, schema=schema({"a": {"type": "string", "description": about}}))
        for n in range(12)
    ]
    roomy, tight = offer(tools, (), Window(8192)), offer(tools, (), Window(4096))

    assert roomy.functions == [function_of(tool) for tool in tools]
    assert tight.functions == [function_of(tool, least=True) for tool in tools]
    assert tight.left_out == 0
    assert len(json.dumps(tight.functions)) < len(json.dumps(roomy.functions))
