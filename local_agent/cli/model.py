"""`agent model`: fetch the small model, list what the server offers; probing is beside it."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from local_agent import weights
from local_agent.cli.model_probe import probe, show
from local_agent.cli.options import (
    base_url_option,
    config_option,
    flags_of,
    is_terminal,
    json_option,
    trusted_settings,
)
from local_agent.config import ModelSettings
from local_agent.embedded import LIBRARY
from local_agent.errors import ModelError, ModelUnreachable, UsageError
from local_agent.probe import Profiles
from local_agent.ui.sanitize import safe_write, visible

if TYPE_CHECKING:
    from local_agent.model import ModelInfo


@click.group()
def model() -> None:
    """The model that answers."""


model.add_command(probe)
model.add_command(show)


@model.command()
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--if-needed", is_flag=True, help="Only while no model server answers.")
@click.pass_context
def pull(ctx: click.Context, yes: bool, if_needed: bool) -> None:
    """Fetch a small model (1.1 GB) for --model embedded."""
    if if_needed and (address := _answering(trusted_settings(flags_of(ctx)).model)):
        click.echo(f"A model server answers at {address}: nothing was fetched.", err=True)
        return
    dest = weights.default_path()
    if dest.is_file() and weights.is_verified(dest, weights.SMALL):
        click.echo(f"The model is already there: {dest}", err=True)
        click.echo(_next_step(), err=True)
        return
    for line in weights.describe():
        click.echo(line, err=True)
    click.echo(f"It goes to {dest}", err=True)
    if not yes:
        _ask()
    try:
        _pull(dest)
    except KeyboardInterrupt:
        click.echo("Stopped. The parts fetched so far are kept for the next pull.", err=True)
        raise
    click.echo(f"The model is there: {dest}", err=True)
    click.echo(_next_step(), err=True)


@model.command("list")
@config_option
@base_url_option
@json_option
@click.pass_context
def list_(ctx: click.Context, /, *, as_json: bool, **given: Any) -> None:
    """List what the model server offers, and the context length each model is loaded with."""
    from local_agent.model import list_models
    from local_agent.model.failures import LOAD

    settings = trusted_settings(flags_of(ctx, **given)).model
    if settings.name == "embedded":
        raise UsageError("The embedded server has the one model.", "Leave --model out.")
    found = asyncio.run(list_models(settings))
    probed = Profiles().models(settings.address)
    if as_json:
        rows = [{**asdict(one), "probed": one.name in probed} for one in found]
        safe_write(sys.stdout, json.dumps({"schema_version": 1, "models": rows}) + "\n")
        return
    for line in _lines(found, probed):
        safe_write(sys.stdout, visible(line, newlines=False) + "\n")
    if not found:
        click.echo(f"No model is loaded at {settings.address}. {LOAD}", err=True)


def _lines(found: Sequence[ModelInfo], probed: Collection[str]) -> list[str]:
    states = {True: "loaded", False: "not loaded", None: ""}
    return [
        "  ".join(
            part
            for part in (
                one.name,
                states[one.loaded],
                f"{one.context_length} tokens" if one.context_length else "",
                "probed" if one.name in probed else "",
            )
            if part
        )
        for one in found
    ]


def _answering(settings: ModelSettings) -> str:
    """The address of the configured model server if it answers, else nothing."""
    from local_agent.model import list_models

    try:
        asyncio.run(list_models(settings))
    except ModelUnreachable:
        return ""
    except ModelError:
        pass  # something is there; what is wrong with it, the first turn says
    return settings.address


def _ask() -> None:
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        raise UsageError("Nobody is here to say yes.", "Run: agent model pull --yes")
    if not click.confirm("Fetch it?", default=False, err=True):
        click.echo("Nothing was fetched.", err=True)
        raise click.exceptions.Exit(0)


def _pull(dest: Path) -> None:
    """Pull with a bar where a terminal may be drawn on, else with a line for each part."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from local_agent.ui.terminal import make_console

    if not make_console(sys.stderr).is_terminal:
        weights.pull(dest, lambda done, total, what: click.echo(what, err=True))
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task("", total=weights.SMALL.size)
        weights.pull(
            dest, lambda done, total, what: progress.update(bar, completed=done, description=what)
        )


def _next_step() -> str:
    if importlib.util.find_spec("xllamacpp") is None:
        return f"Next: pip install {LIBRARY}, then: agent --model embedded"
    return "Next: agent --model embedded"
