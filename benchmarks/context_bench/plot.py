"""The counts as a drawing, by leather, which nothing else here needs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from benchmarks.context_bench.report import Result

TOP = 2  # contexts: a prompt that is longer is not drawn, or nothing could be told apart below
WIDTH, HEIGHT = 1600, 700
GREY = "#999999"
COLOURS = ("#bbbbbb", "#d95f02", "#e6ab02", "#7570b3", "#1b9e77", "#1f78b4")
MISSING = "The drawing needs leather: pip install -e '.[bench]'"


def draw(results: Sequence[Result], path: Path) -> None:
    """Write an SVG of one seed and one context length: the prompts by turn, and what was read.

    Raises `ImportError` where leather is not installed.
    """
    import leather  # type: ignore[import-untyped]

    first = results[0]
    shown = [r for r in results if (r.seed, r.loaded) == (first.seed, first.loaded)]
    turns = len(first.tally.prompts)
    prompt = leather.Chart(f"Largest prompt of a turn, tokens (context: {first.loaded:,})")
    read = leather.Chart("Tokens read anew by a server with one slot, summed up")
    top = TOP * first.loaded
    for result, colour in zip(shown, COLOURS, strict=False):
        line = {"name": result.policy, "stroke_color": colour}
        seen = [
            (n, size if size <= top else None) for n, size in enumerate(result.tally.prompts, 1)
        ]
        prompt.add_line(seen, **line)
        read.add_line(list(enumerate(accumulate(result.tally.reads), 1)), **line)
    room = first.loaded - first.reserve
    ends = [(1, room), (turns, room)]
    prompt.add_line(ends, name="room", stroke_color=GREY, width=1, stroke_dasharray="6")
    grid = leather.Grid()
    for chart in (prompt, read):
        chart.add_x_scale(0, turns)
        chart.add_x_axis(name="turn")
        chart.add_y_axis(tick_formatter=lambda value, index, count: f"{value:,.0f}")
        grid.add_one(chart)
    prompt.add_y_scale(0, top)
    grid.to_svg(str(path), WIDTH, HEIGHT)
