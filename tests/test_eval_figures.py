"""The figures of an evaluation: intervals against known values, differences, groups."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_agent.evaluation.figures import difference, mcnemar, wilson
from local_agent.evaluation.summary import ALL, NEEDS_TOOL, Row, costs_of, lines_of


@pytest.mark.parametrize(
    ("passed", "count", "low", "high"),
    [
        # Newcombe, "Two-sided confidence intervals for the single proportion", 1998, table I.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        # The same by symmetry.
        (20, 20, 0.8389, 1.0),
    ],
)
def test_wilson(passed: int, count: int, low: float, high: float) -> None:
    """The score interval without correction, as published."""
    assert wilson(passed, count) == pytest.approx((low, high), abs=0.00005)


def test_wilson_of_nothing() -> None:
    """Of no prompts, anything is possible."""
    assert wilson(0, 0) == (0.0, 1.0)


@given(st.integers(0, 200), st.integers(1, 200))
def test_wilson_holds_the_share(passed: int, count: int) -> None:
    """The interval lies in 0 to 1 and has the share in it."""
    passed = min(passed, count)
    low, high = wilson(passed, count)
    assert 0 <= low <= passed / count <= high <= 1


@pytest.mark.parametrize(
    ("better", "worse", "p"), [(0, 0, 1.0), (5, 0, 0.0625), (6, 1, 0.125), (3, 3, 1.0)]
)
def test_mcnemar(better: int, worse: int, p: float) -> None:
    """The exact test is the two-sided binomial test at one half."""
    assert mcnemar(better, worse) == pytest.approx(p)


def test_difference() -> None:
    """Turns of one case count together; the same pairs give the same interval."""
    pairs = {f"c{n}": [(False, n % 2 == 0)] * 2 for n in range(20)}
    value, low, high = difference(pairs)
    assert value == 0.5
    assert 0.2 < low < 0.5 < high < 0.8
    assert difference(dict(reversed(pairs.items()))) == (value, low, high)
    assert difference({"a": [(True, True)]}) == (0.0, 0.0, 0.0)


def row(configuration: str, case: str, category: str, half: str, passed: bool) -> Row:
    """One counted turn."""
    needs_tool = category == "tool"
    has = passed if needs_tool else None
    return Row(
        configuration, case, 1, category, half, needs_tool, passed, has, has, has, 5, 2,
        int(configuration == "full"), 0, 100, 10, 50,
    )  # fmt: skip


def test_groups_and_changes() -> None:
    """Each category, those that need a tool, and all; both halves apart; change over pairs."""
    rows = [
        row(name, f"c{n}", category, "tune" if n % 2 else "held_out", passed)
        for name, passed in (("baseline", False), ("full", True))
        for category in ("tool", "no_tool")
        for n in range(4)
    ]
    lines = {(line.group, line.configuration): line for line in lines_of(rows, "baseline")}
    assert {group for group, _ in lines} == {"tool", "no_tool", NEEDS_TOOL, ALL}
    full = lines[ALL, "full"]
    assert (full.both.passed, full.both.count, full.tune.count, full.held_out.count) == (8, 8, 4, 4)
    assert full.change is not None
    assert full.change.value == 1.0
    assert lines[ALL, "baseline"].change is None
    costs = {cost.configuration: cost for cost in costs_of(rows)}
    assert (costs["full"].no_router_call, costs["baseline"].no_router_call) == (0.0, 1.0)
    assert (costs["full"].has_tool.count, costs["full"].input_tokens) == (4, 100)
