"""A whole probe: the checks in the order of their worth, within a time, each told as it ends."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol

from context import count_tokens, weigh_tool
from local_agent.errors import ModelError, ModelUnreachable, StreamBroken
from local_agent.model import ChatModel

from . import checks, server_checks
from .checks import Found
from .material import DENIALS, EXACT_TOOLS, SYSTEM
from .profile import COUNTS, LEVELS, Findings, Identity, Profile, Share, identify
from .talk import Talk, TimeUp
from .tools import TOOLS, ProbeTool

DEFAULT_SECONDS = 300.0
_OPTIONAL = ("parallel_asked", "takes_parallel_off")  # only where the plain way failed
_ENDED = "the probe ended before it"
_TIME_UP = "the time was over"
_NO_CALL = "there was no call"
MOST_SILENT = 2  # requests in a row without an answer in time: the server is given up


class Run(Protocol):
    """A check: takes the talk, gives its findings by name."""

    async def __call__(self, talk: Talk) -> Found: ...


@dataclass(frozen=True, slots=True)
class Check:
    """A check, what it is called, the findings it makes, and the tokens it reads and writes.

    `reads` is by our own count, `exactly` by the server's, which comes on top. Both are without
    what the check before has read; `alone` and `exactly_alone` come on top where it was left out.
    `why_not` says why it cannot be made at all, if that is so.
    """

    title: str
    makes: tuple[str, ...]
    run: Run
    reads: float = 0.0
    writes: float = 0.0
    exactly: float = 0.0
    alone: float = 0.0
    exactly_alone: float = 0.0
    why_not: str = ""

    def seconds(self, talk: Talk, alone: bool = False) -> float:
        """What it takes at the speed that was measured; 0 while that is unknown."""
        reads, exactly = self.reads, self.exactly
        if alone:
            reads, exactly = reads + self.alone, exactly + self.exactly_alone
        return talk.seconds(reads + exactly / talk.scale, self.writes)


@dataclass(frozen=True, slots=True)
class Samples:
    """How many samples each check takes."""

    single: int = 4
    tools: int = 8
    arguments: int = 8
    denial: int = 3
    parallel: int = 3
    structured: int = 3
    recall: int = 3


QUICK = Samples(single=3, tools=5, arguments=4, denial=3, parallel=3, structured=2, recall=1)


class Watcher(Protocol):
    """Is told what the probe does, as it does it."""

    def begins(self, at: int, of: int, title: str) -> None: ...
    def ends(self, text: str) -> None: ...
    def says(self, text: str) -> None: ...


@dataclass(slots=True)
class Probe:
    """One probe of `chat`, over after `seconds`. `profile` is what is known so far.

    `broken` says why the probe ended before its end, empty if it did not.
    """

    chat: ChatModel
    address: str
    watcher: Watcher
    samples: Samples
    seconds: float
    keep: Callable[[Profile], object]
    found: dict[str, Any] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    broken: str = ""

    @property
    def identity(self) -> Identity:
        return identify(self.chat, self.address)

    @property
    def profile(self) -> Profile:
        """What is known so far, with a reason for all that is not."""
        findings = Findings(**self.found)
        missing = [f.name for f in fields(Findings) if self.found.get(f.name) is None]
        reasons = {
            name: self.reasons.get(name, _ENDED if name != "calls_as_text" else _NO_CALL)
            for name in missing
            if name not in _OPTIONAL or "parallel" in self.reasons
        }
        made = datetime.now(UTC).isoformat(timespec="seconds")
        return Profile(self.identity, made, findings, reasons)

    async def run(self) -> None:
        """Make all checks that there is time for; what was found is kept after each."""
        try:
            await self._all()
        finally:
            if self.found:
                self.keep(self.profile)  # with the reasons for all that is missing

    async def _all(self) -> None:
        begin = time.monotonic()
        talk = Talk(self.chat, begin + self.seconds)
        first, *_ = plan = plan_of(self.samples, self.chat.context_length)
        self.watcher.begins(1, len(plan), first.title)
        await self._one(first, talk)
        # A model that its server loads at the first request has a known context only now.
        _, *others = plan = plan_of(self.samples, self.chat.context_length)
        if talk.reading:
            self.watcher.says(_estimate(talk, others))
        left_out = False
        for number, check in enumerate(others, 2):
            if self.broken:
                return
            self.watcher.begins(number, len(plan), check.title)
            reason = _why_not(check, talk, alone=left_out)
            left_out = bool(reason)
            if reason:
                self._skip(check, reason)
            else:
                await self._one(check, talk)

    async def _one(self, check: Check, talk: Talk) -> None:
        begin = time.monotonic()
        try:
            found = {name: v for name, v in (await check.run(talk)).items() if v is not None}
        except TimeUp:
            self._skip(check, _TIME_UP)
            return
        except ModelError as exc:
            self._skip(check, exc.message)
            gone = isinstance(exc, ModelUnreachable | StreamBroken)
            if gone or talk.silent >= MOST_SILENT or not self.found:
                self.broken = str(exc)
            return
        self.found.update(found)
        if talk.calls:
            self.found["calls_as_text"] = Share(talk.as_text, talk.calls)
        seconds = time.monotonic() - begin
        self.watcher.ends(said(found) + (f" ({seconds:.0f} s)" if seconds >= 1 else ""))
        self.keep(self.profile)

    def _skip(self, check: Check, reason: str) -> None:
        self.reasons.update(dict.fromkeys(check.makes, reason))
        self.watcher.ends(f"not measured: {reason}")


def said(found: Found) -> str:
    """Findings in a few words, for the line of their check."""
    words = []
    for name, value in found.items():
        if isinstance(value, Share):
            prefix = "asked for: " if name == "parallel_asked" else ""
            words.append(f"{prefix}{value}")
        elif isinstance(value, bool):
            words.append(f"{_TITLES.get(name, name.replace('_', ' '))}: {'yes' if value else 'no'}")
        elif isinstance(value, float):
            words.append(f"{name} {value:g} tokens/s")
        elif name == "thinking":
            words.append(str(value))
    return ", ".join(words)


_TITLES = {
    "cancels": "stops",
    "keeps_cache": "keeps it",
    "takes_parallel_off": "takes false",
}


def _why_not(check: Check, talk: Talk, *, alone: bool) -> str:
    """Why a check is not made: it cannot be, or there is no time for it; empty where it is."""
    if check.why_not:
        return check.why_not
    if talk.left <= 0:
        return _TIME_UP
    seconds = check.seconds(talk, alone)
    if seconds <= talk.left:
        return ""
    return f"it takes about {seconds:.0f} s, {talk.left:.0f} s are left"


def _estimate(talk: Talk, plan: Sequence[Check]) -> str:
    total = sum(check.seconds(talk) for check in plan)
    took = f"{total / 60:.0f} minutes" if total >= 90 else f"{total:.0f} seconds"
    limit = f"; it may take {talk.left:.0f} s more (--timeout)" if total > talk.left else ""
    return (
        f"It reads {talk.reading:.0f} and writes {talk.writing:.0f} tokens a second: "
        f"about {took} for all checks{limit}."
    )


# -- the plan -------------------------------------------------------------------------------------

_ASKED = 45  # tokens of a prompt of a sample, with the marks of the template
_HEAD = 110 + count_tokens(SYSTEM)  # what a template says about tools, and the system prompt
_CALL = 30  # tokens of a call
_CODE = 12  # tokens of an answer that is one number


def plan_of(samples: Samples, length: int | None) -> list[Check]:
    """The checks in order, the most useful first and the dearest last.

    `length` is that of the loaded context in tokens, None where it is not known. What one check has
    read in common with the one before it is not read again.
    """
    return [
        Check(
            "speed and figures",
            ("usage", "cached_tokens", "timings", "reading", "writing", "speed_by"),
            server_checks.figures,
        ),
        Check("thinking", ("thinking",), server_checks.thinking, _ASKED, 64),
        _calls("one tool", "single", checks.single, samples.single, TOOLS[:1]),
        _check(
            "answers held to a schema",
            "structured",
            checks.structured,
            samples.structured,
            (_ASKED, 20),
        ),
        *_tool_checks(samples),
        _calls("exact arguments", "arguments", checks.arguments, samples.arguments, EXACT_TOOLS),
        _calls(
            "a refused write", "denial", checks.denial, samples.denial, [d.tool for d in DENIALS]
        ),
        dataclasses.replace(
            _calls(
                "two calls in one reply", "parallel", checks.parallel, samples.parallel, TOOLS[:4]
            ),
            makes=("parallel", *_OPTIONAL),
        ),
        Check("stopping when told", ("cancels",), server_checks.cancels, 3 * _ASKED, 20),
        Check(
            "shapes of a history", tuple(server_checks.SHAPES), server_checks.template, 4 * _ASKED
        ),
        Check(
            "cache with tool_choice none",
            ("keeps_cache",),
            server_checks.keeps_cache,
            _HEAD + _weight(TOOLS[:4]) + 2 * _ASKED,
        ),
        *_recall_checks(samples, length),
    ]


def _tool_checks(samples: Samples) -> list[Check]:
    found: list[Check] = []
    before = 0  # tools that were read by the check before
    for number in COUNTS:
        reads, alone = _weight(TOOLS[before:number]), _HEAD + _weight(TOOLS[:before])
        if not found:
            reads, alone = reads + alone, 0.0
        reads += samples.tools * _ASKED
        run = partial(checks.tools, samples=samples.tools, number=number)
        title, makes = f"the right one of {number} tools", (f"tools_{number}",)
        found.append(Check(title, makes, run, reads, samples.tools * _CALL, alone=alone))
        before = number
    return found


def _recall_checks(samples: Samples, length: int | None) -> list[Check]:
    why_not = "" if length else "the server does not say how long its context is"
    size, before = length or 0, 0
    found: list[Check] = []
    for level in LEVELS:
        check = Check(
            f"a fact in {level} % of the context",
            (f"recall_{level}",),
            partial(checks.recall, samples=samples.recall, level=level, length=size),
            reads=samples.recall * _ASKED,
            writes=samples.recall * _CODE,
            exactly=size * (level - before) / 100,
            exactly_alone=size * before / 100,
            why_not=why_not,
        )
        found.append(check)
        before = level
    return found


def _calls(
    title: str, makes: str, run: Callable[..., Any], samples: int, tools: Sequence[ProbeTool]
) -> Check:
    reads = _HEAD + _weight(tools) + samples * _ASKED
    return Check(title, (makes,), partial(run, samples=samples), reads, samples * _CALL)


def _check(
    title: str, makes: str, run: Callable[..., Any], samples: int, tokens: tuple[int, int]
) -> Check:
    reads, writes = tokens
    return Check(title, (makes,), partial(run, samples=samples), samples * reads, samples * writes)


def _weight(tools: Sequence[ProbeTool]) -> float:
    return sum(weigh_tool(tool.function) for tool in tools)
