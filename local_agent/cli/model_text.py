"""A profile as it is printed: for people in lines, for programs as one object."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from local_agent.config import Settings
from local_agent.probe import (
    Findings,
    Identity,
    Limit,
    Profile,
    advice_of,
    limits_of,
    value_of,
    with_profile,
)

UNKNOWN = "not measured"
# What each finding is called, in the order in which they are shown, by group.
GROUPS: Mapping[str, Mapping[str, str]] = {
    "calls": {
        "single": "the one tool there is",
        "tools_4": "the right one of 4 tools",
        "tools_8": "of 8 tools",
        "tools_16": "of 16 tools",
        "tools_32": "of 32 tools",
        "arguments": "arguments as they were given",
        "calls_as_text": "calls written as text",
        "parallel": "two calls in one reply",
        "parallel_asked": "the same, with parallel_tool_calls",
        "takes_parallel_off": "takes parallel_tool_calls = false",
        "denial": "a refusal respected",
    },
    "answers": {
        "structured": "kept to a schema",
        "thinking": "thinks before it answers",
        "recall_25": "a fact found in 25 % of the context",
        "recall_50": "in 50 %",
        "recall_75": "in 75 %",
    },
    "server": {
        "reading": "reads, tokens a second",
        "writing": "writes, tokens a second",
        "speed_by": "measured by",
        "usage": "counts tokens",
        "cached_tokens": "says what was cached",
        "timings": "says how long it took",
        "cancels": "stops when told",
        "keeps_cache": "tool_choice none keeps the cache",
        "takes_two_prompts": "takes two prompts in a row",
        "takes_system_inside": "takes a system message inside",
        "takes_list_content": "takes content as a list",
        "takes_null_content": "takes content null",
    },
}
_ONLY_IF_THERE = ("parallel_asked", "takes_parallel_off")
_WIDTH = 36


def lines_of(
    profile: Profile | None, identity: Identity | None, settings: Settings
) -> Iterator[str]:
    """The lines about a model: which it is, what was found, what follows, what is not known."""
    if identity:
        length = identity.context_length
        context = f"{length} tokens of context loaded" if length else "loaded context unknown"
        yield f"{identity.model} at {identity.address}: {context}"
    if profile is None:
        return
    yield f"profile of {profile.made_at[:16].replace('T', ' ')} UTC"
    for group, titles in GROUPS.items():
        yield ""
        yield group
        yield from _findings(profile, titles)
    yield ""
    yield "limits"
    effective = with_profile(settings, profile)
    for limit in limits_of(profile.findings):
        yield from _limit(limit, effective)
    length = profile.identity.context_length
    if advice := advice_of(profile.findings, length, settings.context.max_tokens):
        yield ""
        yield advice


def _findings(profile: Profile, titles: Mapping[str, str]) -> Iterator[str]:
    for name, title in titles.items():
        value = getattr(profile.findings, name)
        if value is None and name in _ONLY_IF_THERE:
            continue
        text = _worded(value)
        if value is None and (reason := profile.not_measured.get(name)):
            text += f": {reason}"
        if name in profile.earlier:
            text += "  (by an earlier run)"
        yield f"  {title:<{_WIDTH}}{text}"


def _worded(value: Any) -> str:
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1f}" if value < 100 else f"{value:.0f}"
    return str(value)


def _limit(limit: Limit, effective: Settings) -> Iterator[str]:
    value, origin = _in_force(limit, effective)
    told = f"{limit.key} = {json.dumps(value)}"
    yield f"  {told:<{_WIDTH}}{origin}"
    if limit.value is not None and value != limit.value:
        yield f"    the profile would have {json.dumps(limit.value)}: {limit.reason}"
    elif limit.value is not None:
        yield f"    {limit.effect}; {limit.reason}"
    else:
        yield f"    {limit.reason}"


def _in_force(limit: Limit, effective: Settings) -> tuple[Any, str]:
    """The value of a limit's setting as it is used, and where it comes from."""
    value = value_of(effective, limit.key)
    return value, effective.origins.get(limit.key, "default")


def as_object(
    profile: Profile | None, identity: Identity | None, settings: Settings
) -> dict[str, Any]:
    """The same as one object; what was not measured is null."""
    findings = profile.findings if profile else Findings()
    effective = with_profile(settings, profile)
    limits = {}
    for limit in limits_of(findings):
        value, origin = _in_force(limit, effective)
        limits[limit.key] = {
            "value": value,
            "origin": origin,
            "profile": limit.value,
            "effect": limit.effect,
            "reason": limit.reason,
        }
    return {
        "schema_version": 1,
        "model": identity.model if identity else None,
        "address": identity.address if identity else None,
        "context_length": identity.context_length if identity else None,
        "profile": profile.as_json() if profile else None,
        "limits": limits,
        "advice": advice_of(findings, _length(profile), settings.context.max_tokens),
    }


def _length(profile: Profile | None) -> int | None:
    return profile.identity.context_length if profile else None
