"""JSON as models write it: mended where nothing is made up, refused otherwise."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from local_agent.repair import json_text

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(min_size=1, max_size=5), VALUES, min_size=1, max_size=4)


@given(OBJECTS)
def test_whole_json_is_left_alone(value: dict[str, Any]) -> None:
    """What is JSON is read as it is, and nothing is said of it."""
    assert json_text.read(json.dumps(value)) == (value, "")


@settings(max_examples=200)
@given(OBJECTS, st.booleans(), st.data())
def test_cut_json_is_never_completed(value: dict[str, Any], ascii_: bool, data: Any) -> None:
    """L01: wherever an object is cut, no value comes of it."""
    text = json.dumps(value, ensure_ascii=ascii_)
    cut = text[: data.draw(st.integers(1, len(text) - 1))]
    with pytest.raises(ValueError, match=r"."):
        json_text.read(cut)


@settings(max_examples=200)
@given(OBJECTS, st.data())
def test_cut_json_before_a_closing_mark(value: dict[str, Any], data: Any) -> None:
    """Before a closing mark only brackets at the end may lack: never a value, never a letter."""
    text = json.dumps(value, ensure_ascii=False)
    cut = text[: data.draw(st.integers(1, len(text) - 1))]
    lost = text[len(cut) :]
    try:
        read, _ = json_text.read(cut, closed=True)
    except ValueError:
        return
    assert set(lost) <= set("}] ") or read != value
    assert json.dumps(read, ensure_ascii=False).startswith(cut.rstrip())


@settings(max_examples=100)
@given(OBJECTS)
def test_python_notation(value: dict[str, Any]) -> None:
    """A Python literal of plain values is read as the same values, or not at all."""
    try:
        read, _ = json_text.read(repr(value))
    except ValueError:
        return
    assert read == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1,}', {"a": 1}),
        ('{"a": [1, 2,],}', {"a": [1, 2]}),
        ("{'a': 'b'}", {"a": "b"}),
        ("{'a': 'it\\'s'}", {"a": "it's"}),
        ('{"a": True, "b": False, "c": None}', {"a": True, "b": False, "c": None}),
        ('{a: 1, b_c: "x"}', {"a": 1, "b_c": "x"}),
        ('{"a": 1 "b": 2}', {"a": 1, "b": 2}),
        ('{"a": "x",, "b": 2}', {"a": "x", "b": 2}),
        ('{"a": 1}}', {"a": 1}),
        ('{{"a": 1}}', {"a": 1}),
        ("{“a”: “b”}", {"a": "b"}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('```\n{"a": 1,}\n```', {"a": 1}),
        ("{'a': '\\ud83d\\ude00'}", {"a": "😀"}),
    ],
)
def test_mended(text: str, value: Any) -> None:
    """All values are there, and what was wrong is said."""
    read, mended = json_text.read(text)
    assert read == value
    assert mended


def test_line_breaks_within_a_text() -> None:
    """A line break in a JSON text is no repair: it is what it looks like."""
    assert json_text.read('{"a": "x\ny\tz"}') == ({"a": "x\ny\tz"}, "")


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        '{"a": "b',
        '{"a": "b"',
        '{"a": "b",',
        '{"a": ',
        '{"a": }',
        '{"a"}',
        '{"a", "b"}',
        '{"a" "b"}',
        '{"a": 1, "b"}',
        '{"a": x}',
        '{"a": "x" "y"}',
        '{"a": "He said "hi" there"}',
        "{'a': 'it's'}",
        '{"a": 01}',
        '{"a": 1.}',
        '{"a": .5}',
        '{"a": +1}',
        '{"a": 0x10}',
        '{"a": 1_000}',
        '{"a": 1,000}',
        '{"a": NaN}',
        '{"a": Infinity}',
        '{"a": undefined}',
        '{"a": ...}',
        '{"a": <text>}',
        '{"a"; 1}',
        '{"a" = 1}',
        '{"a": "C:\\Users"}',
        '{"a": 1 // one\n}',
        '{"a": 1 /* one */}',
        '{"a": 1}{"b": 2}',
        'null{"a": 1}',
        '1 {"a": 1}',
        'Sure: {"a": 1}',
        '{"a": 1} done',
        '{"a": 1, "a": 2}',
        "{'a': 1, 'a': 2}",
        "{" * 5_000,
        '{"a":' * 5_000,
        "x" * 300_000,
        "",
    ],
)
def test_refused(text: str, closed: bool) -> None:
    """Nothing is filled in, closed, dropped or chosen; the model reads what is wrong."""
    if closed and text == '{"a": "b"':
        assert json_text.read(text, closed=True)[0] == {"a": "b"}
        return
    with pytest.raises(ValueError, match=r".{5}"):
        json_text.read(text, closed=closed)


def test_a_bracket_that_lacks_before_a_closing_mark() -> None:
    """What goes on behind it was not cut: a missing bracket is then only a slip."""
    assert json_text.read('{"a": {"b": 1}', closed=True)[0] == {"a": {"b": 1}}
    assert json_text.read('{"a": [1, 2}', closed=True)[0] == {"a": [1, 2]}
    with pytest.raises(ValueError, match="delimiter"):
        json_text.read('{"a": {"b": 1}', closed=False)
