"""What a run is to be, and about what it will take; imports nothing that is slow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean

import platformdirs

from .cases import Case
from .configurations import configurations_of
from .recording import Recording

CALLS_A_PROMPT = 1.9  # measured with a 1.5B over the shipped cases: most take two
SECONDS_A_CALL = 4.0  # of the same on two cores, where nothing is recorded yet


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
        what = (
            f"{_counted(len(cases), 'case')} with {_counted(prompts, 'prompt')} in "
            f"{_counted(count, 'configuration')}"
        )
        calls_take = f"about {calls} model calls, {span(calls * seconds)} if none is recorded"
        return f"{what}: {calls_take} ({len(recording)} are)."


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def span(seconds: float) -> str:
    """Seconds as they are said: `40 s`, `12 min`, `1.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
