"""The one-line forms of a turn."""

from __future__ import annotations

import pytest

from local_agent.ui import lines


def test_the_forms_of_the_contract() -> None:
    """Route, call, result and approval look as the command line promises."""
    assert lines.route_line("repo") == "⇢ route: repo"
    assert lines.call_line("tool", {"arg": "x", "n": 2}) == "→ tool(arg='x', n=2)"
    assert lines.call_line("now", {}) == "→ now()"
    assert lines.result_line("a  b\n\n c\n") == "← a b c"
    assert lines.approval_line("rm", {"p": "x"}) == "⏸ approval: rm(p='x')"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("it's", '"it\'s"'),
        ("'\"", "'\\'\"'"),
        ("a\nb\tc\r\\", "'a\\nb\\tc\\r\\\\'"),
        ("\x1b[2J", "'␛[2J'"),
        ("[red]", "'[red]'"),
        ({"k": [1, None, True, 1.5, {"z": "ü"}]}, "{'k': [1, None, True, 1.5, {'z': 'ü'}]}"),
    ],
)
def test_values_are_on_one_line_and_harmless(value: object, shown: str) -> None:
    """T01, T04: quotes, newlines, brackets and escapes in a value cannot break its line."""
    assert lines.format_value(value) == shown


def test_names_cannot_break_a_line() -> None:
    """T04: a tool, a route and an argument may be called anything."""
    assert lines.call_line("a\nb\x1b", {"x=1, y": 2}) == "→ a␊b␛('x=1, y'=2)"
    assert lines.route_line("a\tb\n") == "⇢ route: a␉b␊"


def test_a_result_is_cut_at_200_characters() -> None:
    """The first 200 characters of the result, white space as single spaces, and no more."""
    assert lines.result_line("x" * 500) == "← " + "x" * 200
    assert lines.result_line("ab \n" * 500) == "← " + ("ab " * 100)[:200]


def test_a_running_call_says_what_it_cuts() -> None:
    """Long values of a call that runs are cut with the number of characters left out."""
    assert lines.call_line("w", {"t": "x" * 250}) == f"→ w(t='{'x' * 200}'…(+50 characters))"
    many = lines.call_line("w", {f"k{i}": "v" * 100 for i in range(100)})
    assert len(many) < 2_100
    assert "characters)" in many[-20:]


def test_a_call_to_be_approved_is_whole() -> None:
    """A09: the line that asks leaves nothing out, however long the value."""
    command = " " * 300 + "; rm -r data"
    assert command in lines.approval_line("run", {"command": command})
