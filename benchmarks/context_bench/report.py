"""What is printed of the counts: the tables, each limit with yes or no, the lines by turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import fmean

from benchmarks.context_bench.cache import Tally

EVERYTHING, COMPACT, LAST, SUMMARISE = (
    "everything",
    "compact every turn",
    "last 20 messages",
    "summarise at 8",
)
BLOCKS = "▁▂▃▄▅▆▇█"
OVER = "!"
ASIDE = ("side calls", "written aside")
WIDTH = 50  # columns of a line by turn
EARLY = slice(19, 40)  # turns 20 to 40


@dataclass(frozen=True, slots=True)
class Result:
    """A conversation under one policy on one context length."""

    seed: int
    loaded: int
    reserve: int
    policy: str
    is_ours: bool
    tally: Tally

    def as_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Limit:
    """Something that must hold of ours: the worst of all seeds against the most it may be."""

    text: str
    policy: str
    loaded: int
    worst: float
    most: float

    @property
    def holds(self) -> bool:
        return self.worst <= self.most

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "holds": self.holds}


def late_over_early(tally: Tally) -> float:
    """The prompt of the last turn over the largest of turns 20 to 40."""
    return tally.prompts[-1] / max(tally.prompts[EARLY] or tally.prompts)


def limits(results: Sequence[Result]) -> list[Limit]:
    """The limits of ours over `results`, which have every policy for each seed and length."""
    by_key = {(r.seed, r.loaded, r.policy): r.tally for r in results}

    def over(policy: str) -> Callable[[Result], float]:
        return lambda r: r.tally.read / by_key[r.seed, r.loaded, policy].read

    checks: list[tuple[str, Callable[[Result], float], float]] = [
        ("overflows", lambda r: float(r.tally.overflows), 0),
        ("prompt of the last turn / largest of 20 to 40", lambda r: late_over_early(r.tally), 1),
        ("read anew / floor", over(EVERYTHING), 1.5),
        (f"read anew / {COMPACT}", over(COMPACT), 0.85),
        (f"read anew / {SUMMARISE}", over(SUMMARISE), 0.5),
    ]
    ours = [r for r in results if r.is_ours]
    groups = dict.fromkeys((r.loaded, r.policy) for r in ours)
    return [
        Limit(text, policy, loaded, max(map(value, _of(ours, loaded, policy))), most)
        for loaded, policy in groups
        for text, value, most in checks
    ]


def _of(results: Sequence[Result], loaded: int, policy: str) -> list[Result]:
    return [r for r in results if r.loaded == loaded and r.policy == policy]


def tables(results: Sequence[Result]) -> Iterator[str]:
    """A table for each context length, means over the seeds, and a line by turn of the first."""
    for loaded in dict.fromkeys(r.loaded for r in results):
        here = [r for r in results if r.loaded == loaded]
        seeds = len({r.seed for r in here})
        turns = len(here[0].tally.prompts)
        yield (
            f"Loaded context {loaded:,} tokens, {here[0].reserve:,} of them for the reply;"
            f" {turns} turns, {'mean of ' if seeds > 1 else ''}{seeds} seed{'s' * (seeds > 1)}"
        )
        yield from _table(here, turns)
        yield ""
        yield f"prompt by turn, up to {loaded:,} less the reply ({OVER}: over), seed {here[0].seed}"
        for result in here:
            if result.seed == here[0].seed:
                yield f"  {result.policy:<20} {_line(result)}"
        yield ""


def _table(here: Sequence[Result], turns: int) -> Iterator[str]:
    last = f"turn {turns} / 1"
    names = ("sent", "read anew", "x floor", "largest", "overflows", last, *ASIDE)
    yield f"  {'policy':<20}" + "".join(f"{name:>15}" for name in names)
    floor = fmean(r.tally.read for r in here if r.policy == EVERYTHING)
    for policy in dict.fromkeys(r.policy for r in here):
        tallies = [r.tally for r in here if r.policy == policy]
        read = fmean(t.read for t in tallies)
        cells = (
            f"{fmean(t.sent for t in tallies):,.0f}",
            f"{read:,.0f}",
            f"{read / floor:.2f}",
            f"{max(t.largest for t in tallies):,}",
            f"{fmean(t.overflows for t in tallies):,.1f}",
            f"{fmean(t.prompts[-1] / t.prompts[0] for t in tallies):.2f}",
            f"{fmean(t.side_calls for t in tallies):,.1f}",
            f"{fmean(t.written_aside for t in tallies):,.0f}",
        )
        yield f"  {policy:<20}" + "".join(f"{cell:>15}" for cell in cells)


def _line(result: Result) -> str:
    """The prompts by turn in `WIDTH` columns of blocks, the largest of each column."""
    prompts, room = result.tally.prompts, result.loaded - result.reserve
    columns = min(WIDTH, len(prompts))
    bounds = [len(prompts) * i // columns for i in range(columns + 1)]
    tops = [max(prompts[a:b]) for a, b in pairwise(bounds)]
    return "".join(OVER if top > room else BLOCKS[min(top * 8 // room, 7)] for top in tops)


def verdicts(found: Sequence[Limit]) -> Iterator[str]:
    """A line for each limit."""
    yield "limits of ours, the worst seed"
    for limit in found:
        said = "yes" if limit.holds else "NO "
        yield (
            f"  {said} {limit.loaded:>6,} {limit.policy:<20} {limit.text}:"
            f" {limit.worst:.2f} (at most {limit.most:g})"
        )


def as_json(
    results: Sequence[Result], found: Sequence[Limit], extra: Mapping[str, object]
) -> dict[str, object]:
    """Everything that was counted, by seed."""
    return {
        "results": [r.as_json() for r in results],
        "limits": [limit.as_json() for limit in found],
        **extra,
    }
