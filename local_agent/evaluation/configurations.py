"""The ways of running that are compared: the whole program, and it without one part or all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from local_agent.config import ContextSettings, RepairSettings, RouterSettings, Settings
from local_agent.errors import UsageError

LONGEST = 1_000_000  # tokens: as long as the loaded context, so that all tools have room
BASELINE = "baseline"


@dataclass(frozen=True, slots=True)
class Configuration:
    """`change` makes it out of the settings of a full run."""

    name: str
    about: str
    change: Callable[[Settings], Settings]


def _plain(settings: Settings) -> Settings:
    return replace(
        settings,
        router=RouterSettings(mode="off", max_tools=LONGEST, shorten=False),
        repair=RepairSettings(calls="exact", constrained=False),
    )


CONFIGURATIONS: Mapping[str, Configuration] = {
    one.name: one
    for one in (
        Configuration(BASELINE, "all tools bound, no router, no repair", _plain),
        Configuration("full", "the program as it is", lambda settings: settings),
        Configuration(
            "no-router",
            "all tools bound",
            lambda settings: replace(
                settings, router=replace(settings.router, mode="off", max_tools=LONGEST)
            ),
        ),
        Configuration(
            "no-repair",
            "calls to the letter",
            lambda settings: replace(settings, repair=replace(settings.repair, calls="exact")),
        ),
        Configuration(
            "no-retry",
            "no request held to the schema",
            lambda settings: replace(settings, repair=replace(settings.repair, constrained=False)),
        ),
    )
}


def configurations_of(names: Sequence[str]) -> list[Configuration]:
    """The configurations of these names, in this order. Raises UsageError for one there is not."""
    unknown = [name for name in names if name not in CONFIGURATIONS]
    if unknown:
        known = ", ".join(CONFIGURATIONS)
        raise UsageError(f"There is no configuration '{unknown[0]}'.", f"There are: {known}.")
    return [CONFIGURATIONS[name] for name in dict.fromkeys(names)]


def evaluation_settings(settings: Settings, *, reply_tokens: int, max_steps: int) -> Settings:
    """The settings of a full run: nothing is kept, replies are short, and all tools have room.

    What [context] and a profile of the model say is left out: every run is compared with others
    on the same terms.
    """
    return replace(
        settings,
        model=replace(settings.model, profile=False),
        context=ContextSettings(max_tokens=LONGEST, reply_reserve=reply_tokens),
        repair=RepairSettings(),
        route="",
        max_steps=max_steps,
        timeout=None,
        on_approval="ask",
        ephemeral=True,
    )
