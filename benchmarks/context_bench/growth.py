"""What 1,000 turns do to the prompt, and to what our own code takes to prepare a view."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

from agent_core.limits import Limits
from agent_core.maintain import is_due, next_step
from agent_core.prompt import Composer
from benchmarks.context_bench.cache import Slot, Tally, tally
from benchmarks.context_bench.conversation import TOOLS, Turn, conversation
from benchmarks.context_bench.program import OURS, Scripted, play
from context import Window
from local_agent.app import SYSTEM_PROMPT

TURNS, EARLY = 1000, 100
LOADED = 8192
AROUND = 40  # turns that are timed before turn 100 and before turn 1,000; they have several steps
SPAN = 100  # turns whose prompts are averaged: a prompt goes up and down between the water marks
NOISE = 1.05  # such averages of one thread lie this close together
REPEATS = 5
MOST_MS = 10.0


@dataclass(slots=True)
class Clock:
    """Times the view of a thread as it is at the end of a turn, with the next prompt waiting.

    That is what a turn asks for: the look whether maintenance is due, the step where it is, and a
    view for each of its model calls. Milliseconds of the processor.
    """

    limits: Limits
    composer: Composer = field(init=False)
    times: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [name for name, _, _ in TOOLS]
        self.composer = Composer(Window(LOADED), SYSTEM_PROMPT, self.limits, names)

    def wants(self, turn: int) -> bool:
        return EARLY - AROUND <= turn < EARLY or TURNS - AROUND <= turn < TURNS

    def look(self, values: Mapping[str, Any], tools: Sequence[Scripted], following: Turn) -> None:
        """Time the view of the state `values`, which waits for the turn `following`."""
        waiting = {**values, "messages": [*values["messages"], following.prompt]}

        def prepare() -> None:
            if is_due(waiting, tools, self.composer):
                next_step(waiting, tools, self.composer)
            for _ in range(len(following.steps) + 1):
                self.composer.compose(waiting, tools)

        self.times[following.number - 1] = median(map(_milliseconds, [prepare] * REPEATS))

    def before(self, turn: int) -> float:
        """The mean of the turns before `turn`, so that steps, which are rare and long, count."""
        return fmean(ms for number, ms in self.times.items() if turn - AROUND <= number < turn)


def _milliseconds(call: Callable[[], None]) -> float:
    """What `call` costs the processor: what else the machine does is not our own code."""
    began = time.thread_time()
    call()
    return 1000 * (time.thread_time() - began)


@dataclass(frozen=True, slots=True)
class Growth:
    """Prompts in tokens and times in milliseconds, early (turn 100) and late (turn 1,000)."""

    tally: Tally
    early_ms: float
    late_ms: float

    @property
    def prompts(self) -> tuple[float, float]:
        """The mean prompt of the 100 turns around turn 100, and of the last 100."""
        around = self.tally.prompts[EARLY - SPAN // 2 : EARLY + SPAN // 2]
        return fmean(around), fmean(self.tally.prompts[-SPAN:])

    @property
    def largest(self) -> tuple[int, int]:
        """The largest prompt of the first 100 turns, and of all behind them."""
        return max(self.tally.prompts[:EARLY]), max(self.tally.prompts[EARLY:])

    @property
    def most_growth(self) -> float:
        """How much the log of the turns grows."""
        return math.log(TURNS) / math.log(EARLY)

    @property
    def verdicts(self) -> dict[str, bool]:
        early, late = self.prompts
        first, rest = self.largest
        room = LOADED - Window(LOADED).reply
        grown = self.late_ms / self.early_ms
        return {
            f"prompt at turn {TURNS} / at {EARLY}, means of {SPAN} turns: {late:,.0f} /"
            f" {early:,.0f} = {late / early:.2f} (at most {NOISE})": late <= early * NOISE,
            f"largest prompt: {first:,} in the first {EARLY} turns, {rest:,} in the others"
            f" (at most {room:,})": max(first, rest) <= room,
            f"overflows: {self.tally.overflows} (at most 0)": not self.tally.overflows,
            f"own code for the view of a turn: {self.late_ms:.2f} ms"
            f" (under {MOST_MS:g} ms)": self.late_ms < MOST_MS,
            f"at turn {TURNS} / at {EARLY}: {self.late_ms:.2f} / {self.early_ms:.2f} ms ="
            f" {grown:.2f} (at most log {TURNS} / log {EARLY} = {self.most_growth:.2f})": grown
            <= self.most_growth,
        }

    @property
    def holds(self) -> bool:
        return all(self.verdicts.values())


def measure(seed: int) -> Growth:
    """Play 1,000 turns with our default."""
    name = next(iter(OURS))
    clock, slot = Clock(OURS[name]), Slot(LOADED)
    play(conversation(seed, TURNS), slot, name, clock)
    counted = tally(slot.requests, LOADED, Window(LOADED).reply)
    return Growth(counted, clock.before(EARLY), clock.before(TURNS))


def lines(grown: Growth) -> Iterator[str]:
    """A line for each limit."""
    yield f"{TURNS:,} turns on a context of {LOADED:,} tokens, read anew {grown.tally.read:,}"
    for text, holds in grown.verdicts.items():
        yield f"  {'yes' if holds else 'NO '} {text}"
