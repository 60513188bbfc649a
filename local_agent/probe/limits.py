"""What follows from a profile: the limits of the program, each with its reason; pure.

An explicit configuration or option wins over these, and these over the defaults.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from local_agent.config import Settings

from .profile import Findings, Profile, Share

# A right choice in four of five. At eight samples that is seven: chance alone gives a model that
# chooses right half of the time such a result once in 28 runs.
ENOUGH = 0.8
FEWEST = 3  # samples; fewer say nothing
ORIGIN = "the profile"  # where a setting comes from that is set by one
DEFAULT_TOOLS = 12
DEFAULT_STEPS = 12
LEAST_STEPS = 4
WEAK_STEPS = 6
# What a step of a turn is taken to cost, in tokens: a result of some 2,000 characters is read, and
# a call or a short answer written. An assumption, on the side of the larger results.
STEP_READS, STEP_WRITES = 600, 120
TURN_SECONDS = 600  # how long a turn may take before a person gives up on it


@dataclass(frozen=True, slots=True)
class Limit:
    """One setting as the profile would have it; `value` None: it stays as it is.

    `effect` says what the value means, `reason` what it follows from.
    """

    key: str
    value: int | bool | str | None
    effect: str
    reason: str


def limits_of(findings: Findings) -> tuple[Limit, ...]:
    """All limits that a profile can set, in a fixed order."""
    return (
        _tools(findings),
        _steps(findings),
        _parallel(findings),
        _text_calls(findings),
        _json_schema(findings),
    )


def set_by_profile(settings: Settings) -> dict[str, Any]:
    """The settings that a profile has set, by their keys."""
    keys = (key for key, origin in settings.origins.items() if origin == ORIGIN)
    return {key: value_of(settings, key) for key in keys}


def value_of(settings: Settings, key: str) -> Any:
    """The value of the setting `key`, written like "router.max_tools" or "max_steps"."""
    table, _, name = key.rpartition(".")
    return getattr(getattr(settings, table) if table else settings, name)


def with_profile(settings: Settings, profile: Profile | None) -> Settings:
    """The settings with the limits of `profile` in the place of defaults.

    What comes from an option, a variable or the file stays. The origins say "the profile".
    """
    if profile is None or not settings.model.profile:
        return settings
    changed = _Changed(settings)
    for limit in limits_of(profile.findings):
        if limit.value is not None and settings.origins.get(limit.key, "default") == "default":
            changed.set(limit.key, limit.value)
    return changed.settings()


@dataclass(slots=True)
class _Changed:
    """Settings on their way to others."""

    before: Settings
    values: dict[str, dict[str, Any]] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)

    def set(self, key: str, value: Any) -> None:
        table, _, name = key.rpartition(".")
        self.values.setdefault(table, {})[name] = value
        self.origins[key] = ORIGIN

    def settings(self) -> Settings:
        top: dict[str, Any] = dict(self.values.pop("", {}))
        for table, values in self.values.items():
            top[table] = dataclasses.replace(getattr(self.before, table), **values)
        origins: Mapping[str, str] = {**self.before.origins, **self.origins}
        return dataclasses.replace(self.before, **top, origins=origins)


def advice_of(findings: Findings, length: int | None, max_tokens: int) -> str:
    """What a person could set that no profile sets by itself; empty where there is nothing.

    `length` is the loaded context, `max_tokens` the most that is used of it.
    """
    levels = {n: share for n, share in findings.recall().items() if share.of >= FEWEST}
    weak = [level for level, share in levels.items() if share.part < ENOUGH]
    good = [level for level in levels if not weak or level < min(weak)]
    if not weak or not good or not length or length * max(good) // 100 >= max_tokens:
        return ""
    return (
        f"A fact is found again in {max(good)} % of the context, but not in {min(weak)} %: "
        f"max_tokens = {length * max(good) // 100} in [context] keeps prompts below that."
    )


# -- one rule each --------------------------------------------------------------------------------


def _tools(findings: Findings) -> Limit:
    """The largest count that the model chooses well from.

    Where all that was measured went well, it is a limit only if it is above the default: what was
    not tried is no failure. Where nothing went well it is the smallest that was tried.
    """
    counts = {n: share for n, share in findings.tools().items() if share.of >= FEWEST}
    said = ", ".join(f"{n} tools: {share} right" for n, share in counts.items())
    good = [n for n, share in counts.items() if share.part >= ENOUGH]
    value: int | None = None
    if good and (max(good) < max(counts) or max(good) > DEFAULT_TOOLS):
        value = max(good)
    elif counts and not good:
        value = min(counts)
    effect = f"at most {value} tools in a prompt" if value else "as many tools as by default"
    return Limit("router.max_tools", value, effect, said or "not measured")


def _steps(findings: Findings) -> Limit:
    """Fewer steps for a model that goes wrong in them, and for a machine where they take long."""
    reasons: list[str] = []
    steps = DEFAULT_STEPS
    for share, what in (
        (findings.single, "plain calls: {} right"),
        (findings.denial, "refusals: {} respected"),
    ):
        if _is_weak(share):
            steps = min(steps, WEAK_STEPS)
            reasons.append(what.format(share))
    if findings.reading and findings.writing:
        seconds = STEP_READS / findings.reading + STEP_WRITES / findings.writing
        fit = max(int(TURN_SECONDS / seconds), LEAST_STEPS)
        if fit < steps:
            reasons.append(f"a step takes about {seconds:.0f} s, and a turn may take ten minutes")
            steps = fit
    if steps == DEFAULT_STEPS:
        measured = findings.single or findings.denial or findings.reading
        reason = "nothing speaks against it" if measured else "not measured"
        return Limit("max_steps", None, "as many steps as by default", reason)
    return Limit("max_steps", steps, f"at most {steps} model calls in a turn", "; ".join(reasons))


def _parallel(findings: Findings) -> Limit:
    """Whether `parallel_tool_calls` is sent, and with what."""
    key = "model.parallel_calls"
    plain, asked = findings.parallel, findings.parallel_asked
    if plain is None:
        return Limit(key, None, "nothing is sent about it", "not measured")
    if plain.part >= ENOUGH:
        reason = f"two calls in one reply: {plain} right"
        return Limit(key, None, "several calls in a reply come by themselves", reason)
    if asked and asked.part >= ENOUGH:
        reason = f"two calls in one reply: {plain} right, {asked} when it is asked for"
        return Limit(key, True, "parallel_tool_calls = true is sent", reason)
    reason = f"two calls in one reply: {max(plain, asked or plain, key=lambda s: s.part)} right"
    if findings.takes_parallel_off is False:
        reason += "; the server refuses the parameter"
        return Limit(key, None, "nothing is sent about it", reason)
    return Limit(key, False, "parallel_tool_calls = false is sent: one call at a time", reason)


def _text_calls(findings: Findings) -> Limit:
    """Calls in texts are read by default, and no profile turns that off: in a longer prompt they
    may yet come."""
    key, share = "repair.calls", findings.calls_as_text
    reason = f"{share} calls came as text" if share else "not measured"
    if share and share.right:
        effect = "calls in texts are read, and a write among them is always asked about"
        return Limit(key, "all", effect, reason)
    return Limit(key, None, "calls in texts are read, as by default", reason)


def _json_schema(findings: Findings) -> Limit:
    """What rests on answers that are held to a schema, only where they are."""
    key, share = "model.json_schema", findings.structured
    if share is None:
        return Limit(key, None, "answers may be held to a schema, as by default", "not measured")
    reason = f"{share} answers kept to the schema"
    if _is_weak(share, fewest=1):
        effect = "no call is asked for again by a schema, no route chosen by the model"
        return Limit(key, False, effect, reason)
    return Limit(key, None, "answers may be held to a schema, as by default", reason)


def _is_weak(share: Share | None, fewest: int = FEWEST) -> bool:
    return share is not None and share.of >= fewest and share.part < ENOUGH
