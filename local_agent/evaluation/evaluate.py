"""A whole run: one configuration after the other, and how far it is."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence

from local_agent.config import Settings
from local_agent.errors import AgentError

from .cases import Case
from .configurations import configurations_of, evaluation_settings
from .plan import Plan, span
from .recorder import Recorder
from .recording import Recording
from .results import Run, row_of
from .runner import TurnResult, run_cases

Say = Callable[[str], None]
AS_RECORDED = "Replay it with the options it was made with, or make another with --record."
GO_ON = "Run it again: what was answered so far is recorded."


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
            exc.hint = exc.hint or (AS_RECORDED if recorder.is_replay else GO_ON)
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
    """Says how far a configuration is: every tenth prompt, with the time that is left.

    What the program says to its user is said once.
    """

    def __init__(self, name: str, prompts: int, say: Say) -> None:
        self._name, self._prompts, self._say = name, prompts, say
        self._done = self._passed = 0
        self._said: set[str] = set()
        self._started = time.monotonic()

    def notice(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._say(f"{self._name}: {text}")

    def __call__(self, result: TurnResult) -> None:
        self._done += 1
        self._passed += result.passed
        if self._done % 10 and self._done != self._prompts:
            return
        left = (time.monotonic() - self._started) / self._done * (self._prompts - self._done)
        text = f"{self._name}: {self._done} of {self._prompts} prompts, {self._passed} right"
        self._say(f"{text}, {span(left)} left" if left >= 1 else text)


def model_of(recording: Recording) -> str:
    """The name of the model as its server has it."""
    try:
        rows = json.loads(recording.about["/v1/models"].body)["data"]
        return ", ".join(str(row["id"]) for row in rows)
    except (KeyError, TypeError, ValueError):
        return "unknown"
