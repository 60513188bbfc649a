"""The figures as tables: for a terminal, and as Markdown."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from .results import Run
from .summary import Change, Cost, Line, Row, Share, costs_of, lines_of

SUCCESS = ("configuration", "n", "success", "95 %", "tune", "held out", "against baseline")
COST = (
    "configuration",
    "calls",
    "tokens in",
    "out",
    "tools",
    "no router call",
    "right set",
    "right tool",
    "right arguments",
)


def percent(value: float) -> str:
    """`82 %`."""
    return f"{100 * value:.0f} %"


def _interval(share: Share) -> str:
    return f"{100 * share.low:.0f} to {100 * share.high:.0f}"


def _of(share: Share) -> str:
    return f"{percent(share.value)} of {share.count}" if share.count else "-"


def _against(change: Change | None) -> str:
    if change is None:
        return ""
    low, high = 100 * change.low, 100 * change.high
    return f"{100 * change.value:+.1f} ({low:+.0f} to {high:+.0f}), p {change.p:.2g}"


def _success(line: Line) -> tuple[str, ...]:
    both = line.both
    return (
        line.configuration,
        str(both.count),
        percent(both.value),
        _interval(both),
        _of(line.tune),
        _of(line.held_out),
        _against(line.change),
    )


def _cost(cost: Cost) -> tuple[str, ...]:
    return (
        cost.configuration,
        f"{cost.model_calls:.2f}",
        f"{cost.input_tokens:.0f}",
        f"{cost.output_tokens:.0f}",
        f"{cost.tools:.1f}",
        percent(cost.no_router_call),
        _of(cost.has_set),
        _of(cost.has_tool),
        _of(cost.has_args),
    )


def merged(runs: Sequence[Run]) -> list[Row]:
    """The turns of some runs of one model, each configuration under the name it has in its run.

    A turn that is in two of them counts once, as it was in the last.
    """
    rows: dict[tuple[str, str, int], Row] = {}
    for run in runs:
        for row in run.rows:
            name = run.named(row.configuration)
            rows[name, row.case, row.turn] = replace(row, configuration=name)
    return list(rows.values())


def terminal(rows: Sequence[Row], baseline: str) -> Iterator[str]:
    """The lines of the tables for a terminal."""
    for group, lines in groupby(lines_of(rows, baseline), key=lambda line: line.group):
        yield ""
        yield group
        yield from _aligned(SUCCESS, [_success(line) for line in lines])
    yield ""
    yield "A prompt took, in the mean"
    yield from _aligned(COST, [_cost(cost) for cost in costs_of(rows)])


def _aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    table = [tuple(head), *map(tuple, rows)]
    widths = [max(len(row[at]) for row in table) for at in range(len(head))]
    for row in table:
        cells = [
            cell.ljust(width) if at in (0, len(head) - 1) else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield ("  " + "  ".join(cells)).rstrip()


def markdown(runs: Sequence[Run], baseline: str, note: str = "") -> str:
    """RESULTS.md: each model with its runs, its table of success and what a prompt took."""
    lines = [
        "# Results of `agent eval`",
        "",
        "Written by `agent eval --report`; not by hand. What the groups and columns are is in",
        "`README.md` beside this file.",
    ]
    lines += ["", note] if note else []
    for model in dict.fromkeys(run.model for run in runs):
        mine = [run for run in runs if run.model == model]
        rows = merged(mine)
        lines += ["", f"## {model}", "", *_about(mine), ""]
        head = ("prompts", *SUCCESS)
        table = [(line.group, *_success(line)) for line in lines_of(rows, baseline)]
        lines += [*_rows(head, table), "", "What a prompt took, in the mean:", ""]
        lines += _rows(COST, [_cost(cost) for cost in costs_of(rows)])
    return "\n".join(lines) + "\n"


def _about(runs: Sequence[Run]) -> Iterator[str]:
    for run in runs:
        names = ", ".join(
            run.named(name) for name in dict.fromkeys(r.configuration for r in run.rows)
        )
        count = len({(row.case, row.turn) for row in run.rows})
        yield f"- {run.date}: {names}. {count} prompts, replies of at most {run.reply_tokens}"
        yield f"  tokens, {run.max_steps} model calls a turn. `{run.command}`"


def _rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'|'.join(' --- ' for _ in head)}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def failures(rows: Sequence[Row]) -> Iterator[str]:
    """A line for each turn that went wrong and may be looked at: those of the tune half."""
    for row in rows:
        if row.passed or row.details is None:
            continue
        why, prompt = row.details["why"], row.details["prompt"]
        yield f"{row.configuration}  {row.case} {row.turn} [{row.category}]  {prompt!r}: {why}"


def command_line(argv: Sequence[str]) -> str:
    """The command as it can be typed again."""
    return shlex.join(argv)
