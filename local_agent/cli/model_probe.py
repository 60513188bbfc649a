"""`agent model probe` finds out what the model can do; `agent model show` prints what was found."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import click

from local_agent.cli.model_text import as_object, lines_of
from local_agent.cli.options import (
    base_url_option,
    config_option,
    flags_of,
    json_option,
    model_option,
    print_line,
    trusted_settings,
)
from local_agent.config import ModelSettings, Settings
from local_agent.errors import ModelError, ModelUnreachable, UsageError
from local_agent.probe import EMBEDDED, Identity, Profile, Profiles, identify
from local_agent.ui.sanitize import safe_write, visible

if TYPE_CHECKING:
    from local_agent.probe.run import Probe

HOW = "agent model probe finds out, in about five minutes."


@click.command()
@config_option
@model_option
@base_url_option
@click.option("--quick", is_flag=True, help="Fewer samples.")
@click.option(
    "--timeout", type=float, metavar="SECONDS", help="For the whole probe. [default: 300]"
)
@json_option
@click.pass_context
def probe(ctx: click.Context, /, *, quick: bool, as_json: bool, **given: Any) -> None:
    """Find out what the loaded model can do, and keep it: it sets limits from then on.

    Takes some minutes; each check is told as it ends. Ctrl-C keeps what was found so far. Checks
    that would take longer than there is time are left out.
    """
    settings = _measured(trusted_settings(flags_of(ctx, **given)))
    watcher = _Lines()
    made: list[Probe] = []
    try:
        asyncio.run(_probe(settings, quick, watcher, made))
    except KeyboardInterrupt:
        watcher.breaks_off()
        found = bool(made) and bool(made[0].found)
        what = "What was found so far is kept." if found else "Nothing was found yet."
        _tell(f"Stopped. {what}")
        raise
    done = made[0]
    if not done.found:
        raise ModelError("Nothing could be measured.", done.broken or "Give it more --timeout.")
    if done.broken:
        raise ModelError(f"The probe ended early: {done.broken} What was found before is kept.")
    profile = _profiles().find(done.identity) or done.profile
    _print(profile, settings, as_json, loaded=done.identity)


@click.command()
@config_option
@model_option
@base_url_option
@json_option
@click.pass_context
def show(ctx: click.Context, /, *, as_json: bool, **given: Any) -> None:
    """Print what is known of the loaded model, and the limits that follow from it."""
    settings = trusted_settings(flags_of(ctx, **given))
    profiles = _profiles()
    model = settings.model
    where, name = (EMBEDDED, "") if model.name == EMBEDDED else (model.address, model.name)
    newest = profiles.newest(where, name)
    try:
        loaded = None if where == EMBEDDED else asyncio.run(_loaded(model))
    except ModelUnreachable as exc:
        if newest is None:
            raise
        _tell(f"{exc.message} This is the profile that was made last.")
        loaded = None
    if loaded is None:
        if newest is None:
            raise ModelError("There is no profile of the embedded model.", HOW)
        _print(newest, settings, as_json, loaded=None)
        return
    profile = profiles.find(loaded)
    if profile is None and newest is not None:
        _tell(_other(newest, loaded))
    _print(profile, settings, as_json, loaded=loaded)


def _measured(settings: Settings) -> Settings:
    """The settings of a probe: no chance in the answers, no limit but its own."""
    seconds = settings.timeout
    if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
        raise UsageError(f"--timeout must be a number of seconds above 0, not {seconds:g}.")
    plain = dataclasses.replace(
        settings.model, temperature=0.0, parallel_calls=None, json_schema=True
    )
    return dataclasses.replace(settings, model=plain)


async def _probe(settings: Settings, quick: bool, watcher: _Lines, made: list[Probe]) -> None:
    from local_agent.late_model import connect_chat
    from local_agent.probe.run import DEFAULT_SECONDS, QUICK, Probe, Samples

    profiles = _profiles()
    async with AsyncExitStack() as stack:
        chat = await connect_chat(settings, stack, lambda text, level: watcher.says(text))
        identity = identify(chat, settings.model.address)
        length = f"{identity.context_length or 'an unknown number of'} tokens of context"
        watcher.says(f"Probing {identity.model} at {identity.address}, {length}.")
        one = Probe(
            chat,
            settings.model.address,
            watcher,
            QUICK if quick else Samples(),
            settings.timeout or DEFAULT_SECONDS,
            keep=lambda profile: profiles.save(profile.over(profiles.find(profile.identity))),
        )
        made.append(one)
        await one.run()


async def _loaded(model: ModelSettings) -> Identity:
    """Which model would answer now."""
    from local_agent.model import connect_model

    async with await connect_model(model) as chat:
        return identify(chat, model.address)


def _other(newest: Profile, loaded: Identity) -> str:
    """Why the newest profile is not that of the model which is loaded."""
    if newest.identity.model != loaded.model:
        return f"The profile made last is of {newest.identity.model}."
    before, now = newest.identity.details, loaded.details
    differ = [
        f"{name} {before.get(name, 'unknown')} then, {now.get(name, 'unknown')} now"
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]
    return f"The profile of {loaded.model} is of another way it was loaded: {'; '.join(differ)}."


def _print(
    profile: Profile | None, settings: Settings, as_json: bool, *, loaded: Identity | None
) -> None:
    identity = loaded or (profile.identity if profile else None)
    if as_json:
        print_line(json.dumps(as_object(profile, identity, settings), ensure_ascii=False))
        return
    for line in lines_of(profile, identity, settings):
        print_line(visible(line, newlines=False))
    if profile is None:
        print_line(f"Not known yet what it can do. {HOW}")


def _profiles() -> Profiles:
    return Profiles(say=_tell)


def _tell(text: str) -> None:
    safe_write(sys.stderr, visible(text, newlines=False) + "\n")


class _Lines:
    """Tells of a probe on stderr: a line for each check, begun when it begins."""

    def __init__(self) -> None:
        self._open = False

    def begins(self, at: int, of: int, title: str) -> None:
        self._open = True
        self._write(f"{at:>2}/{of} {title} … ")

    def ends(self, text: str) -> None:
        self._open = False
        self._write(visible(text, newlines=False) + "\n")

    def says(self, text: str) -> None:
        self.breaks_off()
        _tell(text)

    def breaks_off(self) -> None:
        """End a line that was begun."""
        if self._open:
            self._open = False
            self._write("\n")

    def _write(self, text: str) -> None:
        safe_write(sys.stderr, text)
        if sys.stderr is not None:
            sys.stderr.flush()
