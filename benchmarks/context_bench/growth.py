"""What 1,000 turns do to the prompt, and to what our own code takes to prepare a view."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from agent_core.ledger import Ledger
from agent_core.limits import Limits
from agent_core.maintain import Maintainer, is_due
from agent_core.prompt import Composer
from agent_core.summary import Summariser
from agent_core.turn import next_number, result_of
from benchmarks.context_bench.cache import Refused, Slot, Tally, tally
from benchmarks.context_bench.conversation import TOOLS, Turn, conversation
from benchmarks.context_bench.program import OURS, Scripted, play
from context import Window
from local_agent.app import SYSTEM_PROMPT

TURNS, EARLY = 1000, 100
LOADED = 8192
LAST = 10  # turns whose largest prompt is compared
SPAN = 100  # turns that are timed around turn 100, and before turn 1,000
MOST_MS = 10.0


@dataclass(frozen=True, slots=True)
class AtOnce:
    """A model that summarises at once, so that what is timed is our own code."""

    overflow: type[Exception] = Refused

    async def reply(self, messages: Sequence[AnyMessage], **options: Any) -> AIMessage:
        return AIMessage("The user looked into orders, refunds and parcels of several services.")


@dataclass(slots=True)
class Clock:
    """Times the view of a turn, before the program itself comes to it.

    That is what the turn asks for: the look whether maintenance is due, the step where it is, for
    each result its clip, and a view for each model call. Each turn once, in milliseconds of the
    wall clock; what is remembered from earlier turns is what the program would remember too.
    """

    limits: Limits
    times: dict[int, float] = field(default_factory=dict)
    steps: dict[int, float] = field(default_factory=dict)  # what of it a step took, if one was due
    busy: dict[int, float] = field(default_factory=dict)  # of the processor, all of it

    def wants(self, turn: int) -> bool:
        return abs(turn - EARLY) <= SPAN // 2 or turn >= TURNS - SPAN

    async def look(
        self, values: Mapping[str, Any], tools: Sequence[Scripted], following: Turn, window: Window
    ) -> None:
        """Time the view of the turn `following` behind the state `values`."""
        names = [name for name, _, _ in TOOLS]
        composer = Composer(window, SYSTEM_PROMPT, self.limits, names)
        state = {**values, "messages": [*values["messages"], following.prompt]}
        began = time.thread_time()
        await self._time(state, tools, following, composer)
        self.busy[following.number] = 1000 * (time.thread_time() - began)

    async def _time(
        self, state: dict[str, Any], tools: Sequence[Scripted], turn: Turn, composer: Composer
    ) -> None:
        maintainer = Maintainer(composer, Summariser(AtOnce(), composer, Ledger()))
        began = time.perf_counter()
        if is_due(state, tools, composer):
            outcome = await maintainer.maintain(
                state, tools, thread="timed", before=tools, say=lambda text: None
            )
            state |= outcome.update
            self.steps[turn.number] = _milliseconds(began)
        spent = _milliseconds(began)
        for step in range(len(turn.steps) + 1):
            came = _results(turn, step - 1, state["messages"]) if step else []
            began = time.perf_counter()
            most = composer.result_tokens(state, tools)
            for message in came:
                if isinstance(message, ToolMessage):
                    composer.clip(message, most)
            state["messages"] = [*state["messages"], *came]
            state |= composer.compose(state, tools).update
            spent += _milliseconds(began)
        self.times[turn.number] = spent

    def around(self, times: Mapping[int, float]) -> tuple[list[float], list[float]]:
        """Those of `times` of the `SPAN` turns around turn `EARLY`, and of the last ones."""
        ends = (EARLY + SPAN // 2, TURNS)
        early, late = ([times[n] for n in times if end - SPAN < n <= end] for end in ends)
        return early, late


def _milliseconds(began: float) -> float:
    return 1000 * (time.perf_counter() - began)


def _results(turn: Turn, step: int, messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The calls of a step of a turn and their results as the graph stores them."""
    first = next_number(messages)
    call = turn.call_message(step)
    call.additional_kwargs["first_call"] = first
    made = [
        result_of({"id": c.id, "name": c.name, "handle": f"r{first + at}"}, c.result, "success")
        for at, c in enumerate(turn.steps[step])
    ]
    return [call, *made]


@dataclass(frozen=True, slots=True)
class Growth:
    """Prompts in tokens; times in milliseconds of the turns around 100 and of the last ones."""

    tally: Tally
    early: Sequence[float]
    late: Sequence[float]
    steps: Sequence[float]
    busy: tuple[Sequence[float], Sequence[float]]  # early and late, of the processor

    @property
    def verdicts(self) -> dict[str, bool]:
        """What must hold, see the head of `benchmarks/context.py`, with yes or no."""
        prompts = self.tally.prompts
        at_early, at_late = max(prompts[EARLY - LAST : EARLY]), max(prompts[-LAST:])
        first, rest = max(prompts[:EARLY]), max(prompts[EARLY:])
        times = [*self.early, *self.late]
        middle, mean, grown = median(times), fmean(times), fmean(self.late) / fmean(self.early)
        most = math.log(TURNS) / math.log(EARLY)
        return {
            f"largest prompt of turns {TURNS - LAST + 1} to {TURNS}: {at_late:,} (at most"
            f" {at_early:,}, the largest of {EARLY - LAST + 1} to {EARLY})": at_late <= at_early,
            f"largest prompt beyond turn {EARLY}: {rest:,} (at most {first:,}, the largest"
            f" up to there)": rest <= first,
            f"overflows: {self.tally.overflows} (at most 0)": not self.tally.overflows,
            f"own code for the view of a turn, median: {middle:.1f} ms"
            f" (under {MOST_MS:g} ms)": middle < MOST_MS,
            f"own code for the view of a turn, mean: {mean:.1f} ms (under {MOST_MS:g} ms)": mean
            < MOST_MS,
            f"mean before turn {TURNS} / around {EARLY}: {fmean(self.late):.1f} /"
            f" {fmean(self.early):.1f} ms = {grown:.2f} (at most log {TURNS} / log {EARLY} ="
            f" {most:.2f})": grown <= most,
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
    early, late = clock.around(clock.times)
    steps, busy = list(clock.steps.values()), clock.around(clock.busy)
    return Growth(counted, early, late, steps, busy)


def lines(grown: Growth) -> Iterator[str]:
    """A line for each limit, and what the steps took, which are in the means."""
    yield f"{TURNS:,} turns on a context of {LOADED:,} tokens, read anew {grown.tally.read:,}"
    for text, holds in grown.verdicts.items():
        yield f"  {'yes' if holds else 'NO '} {text}"
    steps = grown.steps
    yield (
        f"      {len(steps)} of {len(grown.early) + len(grown.late)} turns began with a step:"
        f" mean {fmean(steps):.1f} ms, worst {max(steps):.1f} ms; the worst turn took"
        f" {max(*grown.early, *grown.late):.1f} ms"
    )
    early, late = grown.busy
    yield (
        f"      of the processor: median {median([*early, *late]):.1f} ms, mean"
        f" {fmean([*early, *late]):.1f} ms, {fmean(late):.1f} / {fmean(early):.1f} ms ="
        f" {fmean(late) / fmean(early):.2f}; the wall clock has in it what else the machine does"
    )
