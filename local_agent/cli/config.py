"""`agent config`: show the settings and where they come from, the places, and trust a file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from local_agent.cli.options import config_option, db_option, flags_of, json_option, print_line
from local_agent.config import (
    FILE_NAME,
    Places,
    Settings,
    Shown,
    load_settings,
    locate,
    shown,
    user_folders,
    visible,
)
from local_agent.probe import EMBEDDED, Profile, Profiles, with_profile
from local_agent.trust import Trusted, check_trust, describe, trust


@click.group()
def config() -> None:
    """Show the configuration, where it comes from, and trust a file."""


@config.command()
@config_option
@db_option
@json_option
@click.pass_context
def show(ctx: click.Context, config: str | None, db: str | None, as_json: bool) -> None:
    """Print every value and where it came from. Secrets are shown as ***."""
    settings = load_settings(flags_of(ctx, config=config, db=db), os.environ, Path.cwd())
    settings = with_profile(settings, _profile(settings))
    if as_json:
        print_line(json.dumps(_as_object(settings), indent=2))
        return
    print_line(f"# {_about(settings)}")
    for line in _lines(shown(settings)):
        print_line(line)


@config.command()
@config_option
@db_option
@click.pass_context
def path(ctx: click.Context, config: str | None, db: str | None) -> None:
    """Print where the configuration, the database, the logs and the prompt history are."""
    places = locate(flags_of(ctx, config=config, db=db), os.environ, Path.cwd(), user_folders())
    # The history lies in the folder that is deleted with the database: see Settings.
    history = places.db.with_name(places.db.name + ".files") / "prompt_history"
    print_line(f"config   {_config_line(places)}")
    print_line(f"db       {visible(str(places.db))}")
    print_line(f"logs     {visible(str(places.log_dir))}")
    print_line(f"history  {visible(str(history))}")


@config.command("trust")
@click.argument("file", required=False)
@click.pass_context
def trust_file(ctx: click.Context, file: str | None) -> None:
    """Show what a configuration file starts and sends, and trust it as it now is."""
    # Without FILE it is the one of this folder, whatever AGENT_CONFIG says: no other asks for it.
    settings = load_settings(flags_of(ctx, config=file or FILE_NAME), os.environ, Path.cwd())
    name = visible(str(settings.config_path))
    print_line(f"{name}:")
    for line in describe(settings):
        print_line(f"  {line}")
    trust(settings)
    print_line("Trusted with this content. If the file changes, you are asked again.")


def _profile(settings: Settings) -> Profile | None:
    """The profile that a run would use, unless another model is loaded than was probed last."""
    name = settings.model.name
    where, name = (EMBEDDED, "") if name == EMBEDDED else (settings.model.address, name)
    return Profiles(say=lambda text: click.echo(visible(text), err=True)).newest(where, name)


def _config_line(places: Places) -> str:
    if places.config is None:
        looked = " nor ".join(visible(str(place)) for place in places.candidates)
        return f"none (neither {looked})"
    there = "" if places.config.exists() else ", not there"
    return f"{visible(str(places.config))} ({places.config_origin}{there})"


def _about(settings: Settings) -> str:
    if settings.config_path is None:
        return "no configuration file; all values are defaults unless said otherwise"
    state = "trusted" if isinstance(check_trust(settings), Trusted) else "NOT TRUSTED YET"
    origin = settings.origins["config_path"]
    return f"{visible(str(settings.config_path))} (from {origin}; {state})"


def _lines(values: Iterable[Shown]) -> Iterator[str]:
    rows = [(f"{one.key} = {_written(one.value)}", one) for one in values]
    width = min(max(len(text) for text, _ in rows), 60)
    for text, one in rows:
        yield f"{text:<{width}}  # {visible(one.origin)}"


def _written(value: object) -> str:
    return "(not set)" if value is None else json.dumps(value, ensure_ascii=False)


def _as_object(settings: Settings) -> dict[str, object]:
    file = settings.config_path
    return {
        "schema_version": 1,
        "config": {
            "path": None if file is None else str(file),
            "origin": settings.origins["config_path"],
            "trusted": isinstance(check_trust(settings), Trusted),
        },
        "values": {one.key: {"value": one.value, "origin": one.origin} for one in shown(settings)},
    }
