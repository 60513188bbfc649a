"""A whole run: its plan, what it will take, and one configuration after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean

import platformdirs

from local_agent.config import Settings
from local_agent.errors import AgentError

from .cases import Case
from .configurations import configurations_of, evaluation_settings
from .recorder import Recorder
from .recording import Recording
from .results import Run, row_of
from .runner import TurnResult, run_cases

CALLS_A_PROMPT = 1.9  # measured with a 1.5B over the shipped cases: most take two
SECONDS_A_CALL = 4.0  # of the same on two cores, where nothing is recorded yet

Say = Callable[[str], None]


def date_of_today() -> str:
    """The day of a run, in UTC."""
    return datetime.now(UTC).date().isoformat()


def default_folder() -> Path:
    """Where replies are kept when no file is named."""
    return platformdirs.user_cache_path("local-agent", appauthor=False) / "eval"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run: names of configurations, the limits of a turn, and how the run is told."""

    configurations: Sequence[str]
    reply_tokens: int
    max_steps: int
    label: str
    command: str
    date: str

    def estimate(self, cases: Sequence[Case], recording: Recording) -> str:
        """One line that says how large the run is, and about how long where nothing is known."""
        prompts = sum(len(case.turns) for case in cases)
        count = len(configurations_of(self.configurations))
        calls = round(prompts * count * CALLS_A_PROMPT)
        seconds = mean(recording.seconds) if recording.seconds else SECONDS_A_CALL
        return (
            f"{len(cases)} cases with {prompts} prompts in {count} configurations: about {calls} "
            f"model calls, {_span(calls * seconds)} if none is recorded ({len(recording)} are)."
        )


async def run_plan(
    plan: Plan, cases: Sequence[Case], settings: Settings, recorder: Recorder, say: Say
) -> Run:
    """Run all configurations over all cases. Raises as `run_cases`."""
    settings = evaluation_settings(
        settings, reply_tokens=plan.reply_tokens, max_steps=plan.max_steps
    )
    results: list[TurnResult] = []
    for configuration in configurations_of(plan.configurations):
        progress = Progress(configuration.name, sum(len(case.turns) for case in cases), say)
        try:
            results += await run_cases(configuration, cases, settings, recorder, progress)
        except AgentError as exc:
            exc.hint = exc.hint or "Run it again: what was answered so far is recorded."
            raise
    return Run(
        model=model_of(recorder.recording),
        date=plan.date,
        command=plan.command,
        label=plan.label,
        server=recorder.recording.server,
        reply_tokens=plan.reply_tokens,
        max_steps=plan.max_steps,
        rows=[row_of(result, with_details=False) for result in results],
    )


class Progress:
    """Says how far a configuration is: every tenth prompt, with the time that is left."""

    def __init__(self, name: str, prompts: int, say: Say) -> None:
        self._name, self._prompts, self._say = name, prompts, say
        self._done = self._passed = 0
        self._started = time.monotonic()

    def __call__(self, result: TurnResult) -> None:
        self._done += 1
        self._passed += result.passed
        if self._done % 10 and self._done != self._prompts:
            return
        left = (time.monotonic() - self._started) / self._done * (self._prompts - self._done)
        text = f"{self._name}: {self._done} of {self._prompts} prompts, {self._passed} right"
        self._say(f"{text}, {_span(left)} left" if left >= 1 else text)


def model_of(recording: Recording) -> str:
    """The name of the model as its server has it."""
    import json

    try:
        rows = json.loads(recording.about["/v1/models"].body)["data"]
        return ", ".join(str(row["id"]) for row in rows)
    except (KeyError, TypeError, ValueError):
        return "unknown"


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
