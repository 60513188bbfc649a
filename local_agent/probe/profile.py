"""The profile of a model as plain values, to and from JSON; measures nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

SCHEMA_VERSION = 1
COUNTS = (4, 8, 16, 32)  # tools in one prompt
LEVELS = (25, 50, 75)  # per cent of the loaded context
EMBEDDED = "embedded"  # in the place of an address: the server that the program starts itself


@dataclass(frozen=True, slots=True)
class Share:
    """How many of the samples were right."""

    right: int
    of: int

    @property
    def part(self) -> float:
        return self.right / self.of if self.of else 0.0

    def __str__(self) -> str:
        return f"{self.right} of {self.of}"


@dataclass(frozen=True, slots=True)
class Identity:
    """Which model this is: its name, the address of its server, and what tells it from another.

    `details` are what the server says beside the name: the loaded context in tokens, the size of
    the file in bytes, its quantization, a hash of its chat template. `address` has no login.
    """

    model: str
    address: str
    details: Mapping[str, int | str] = field(default_factory=dict)

    @property
    def context_length(self) -> int | None:
        """The loaded context in tokens; None where the server did not say."""
        length = self.details.get("context_length")
        return length if isinstance(length, int) else None


class Known(Protocol):
    """What is known of a model that is connected."""

    @property
    def name(self) -> str: ...
    @property
    def address(self) -> str: ...
    @property
    def context_length(self) -> int | None: ...
    @property
    def details(self) -> Mapping[str, int | str]: ...


def identify(model: Known, address: str) -> Identity:
    """Which model this is, where `address` is the one of the settings.

    A server that was started for this run alone has a port of its own each time.
    """
    length = model.context_length
    details = {**model.details, **({"context_length": length} if length else {})}
    where = address if model.address == address else EMBEDDED
    return Identity(model.name, where, details)


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found. None is: not measured.

    Shares count samples that came out right. `calls_as_text` counts, of all replies that had a
    call, those that had it in their text. `parallel` is two calls in one reply as they come by
    themselves, `parallel_asked` with `parallel_tool_calls` in the request, and `takes_parallel_off`
    whether the server takes that with false. `thinking` is "no", or where it stands: "tags",
    "reasoning_content", "reasoning". Speeds are tokens a second, `speed_by` says by what: the
    server's "timings", or the "clock". `takes_…` are shapes of a history that the chat template
    may refuse; `keeps_cache` is whether `tool_choice` none leaves what was read in the cache.
    """

    single: Share | None = None
    calls_as_text: Share | None = None
    tools_4: Share | None = None
    tools_8: Share | None = None
    tools_16: Share | None = None
    tools_32: Share | None = None
    arguments: Share | None = None
    denial: Share | None = None
    parallel: Share | None = None
    parallel_asked: Share | None = None
    takes_parallel_off: bool | None = None
    structured: Share | None = None
    thinking: str | None = None
    recall_25: Share | None = None
    recall_50: Share | None = None
    recall_75: Share | None = None
    reading: float | None = None
    writing: float | None = None
    speed_by: str | None = None
    usage: bool | None = None
    cached_tokens: bool | None = None
    timings: bool | None = None
    cancels: bool | None = None
    takes_two_prompts: bool | None = None
    takes_system_inside: bool | None = None
    takes_list_content: bool | None = None
    takes_null_content: bool | None = None
    keeps_cache: bool | None = None

    def tools(self) -> dict[int, Share]:
        """The counts of tools that were measured, each with its share, in order."""
        found = {count: getattr(self, f"tools_{count}") for count in COUNTS}
        return {count: share for count, share in found.items() if share is not None}

    def recall(self) -> dict[int, Share]:
        """The levels of the context that were measured, in per cent, each with its share."""
        found = {level: getattr(self, f"recall_{level}") for level in LEVELS}
        return {level: share for level, share in found.items() if share is not None}

    def measured(self) -> list[str]:
        """The names of what was measured."""
        return [item.name for item in fields(self) if getattr(self, item.name) is not None]

    def over(self, before: Findings) -> Findings:
        """These findings, and where something was not measured that of an earlier run."""
        return replace(before, **{name: getattr(self, name) for name in self.measured()})


_FIELDS = {item.name: str(item.type).removesuffix(" | None") for item in fields(Findings)}


@dataclass(frozen=True, slots=True)
class Profile:
    """What a probe found out about a model.

    `made_at` is UTC, ISO 8601. `not_measured` has a reason for each finding that this run left
    out; where an earlier run has it, it stays, and its name is in `earlier`.
    """

    identity: Identity
    made_at: str
    findings: Findings
    not_measured: Mapping[str, str] = field(default_factory=dict)
    earlier: tuple[str, ...] = ()

    def over(self, before: Profile | None) -> Profile:
        """This profile, and what this run did not measure as an earlier one of the model has it."""
        if before is None:
            return self
        kept = set(before.findings.measured()) - set(self.findings.measured())
        return replace(self, findings=self.findings.over(before.findings), earlier=_sorted(kept))

    def as_json(self) -> dict[str, Any]:
        """The profile as an object of plain JSON values."""
        return {
            "model": self.identity.model,
            "address": self.identity.address,
            "details": dict(self.identity.details),
            "made_at": self.made_at,
            "findings": {name: _plain(getattr(self.findings, name)) for name in _FIELDS},
            "not_measured": dict(self.not_measured),
            "earlier": list(self.earlier),
        }


def from_json(value: Any) -> Profile:
    """The profile that an object of `as_json` is of. Raises ValueError for any other value."""
    try:
        findings = {name: _read(name, item) for name, item in value["findings"].items()}
        return Profile(
            identity=Identity(_text(value["model"]), _text(value["address"]), value["details"]),
            made_at=_text(value["made_at"]),
            findings=Findings(**findings),
            not_measured={_text(k): _text(v) for k, v in value["not_measured"].items()},
            earlier=tuple(map(_text, value["earlier"])),
        )
    except (AttributeError, KeyError, TypeError) as exc:
        raise ValueError(f"no profile: {exc}") from exc


def _sorted(names: set[str]) -> tuple[str, ...]:
    return tuple(name for name in _FIELDS if name in names)


def _plain(value: Any) -> Any:
    return {"right": value.right, "of": value.of} if isinstance(value, Share) else value


def _read(name: str, value: Any) -> Any:
    kind = _FIELDS[name]
    if value is None:
        return None
    if kind == "Share":
        right, of = value["right"], value["of"]
        if _is_count(right) and _is_count(of) and right <= of and of:
            return Share(right, of)
    elif (kind == "bool" and isinstance(value, bool)) or (kind == "str" and isinstance(value, str)):
        return value
    elif kind == "float" and isinstance(value, int | float) and value > 0:
        return float(value)
    raise ValueError(f"no profile: {name} is {value!r}")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
