"""Options as settings: what was typed becomes `Flags`; a file that is not trusted asks first."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import click

from local_agent.config import (
    Flags,
    Settings,
    load_memory_key,
    load_settings,
    locate,
    user_folders,
)
from local_agent.errors import UsageError
from local_agent.trust import NeedsTrust, check_trust, refusal, trust
from local_agent.ui.sanitize import safe_write, visible

Output = Literal["text", "json", "stream-json"]
OUTPUTS: tuple[Output, ...] = ("text", "json", "stream-json")


def _check_output(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if value not in OUTPUTS:
        raise UsageError(f"--output cannot be '{visible(value)}'.", f"Use {', '.join(OUTPUTS)}.")
    return value


config_option = click.option("--config", metavar="FILE", help="The configuration file.")
db_option = click.option("--db", metavar="PATH", help="The database file.")
model_option = click.option(
    "--model", metavar="NAME", help="The model; embedded or embedded:FILE starts one itself."
)
base_url_option = click.option("--base-url", metavar="URL", help="The model server.")
json_option = click.option("--json", "as_json", is_flag=True, help="JSON.")
quiet_option = click.option("--quiet", "-q", is_flag=True, help="Answers only.")
output_option = click.option(
    "--output",
    metavar="text|json|stream-json",
    default="text",
    show_default=True,
    callback=_check_output,
    help="The form of the answers.",
)


@dataclass(frozen=True, slots=True)
class Run:
    """A run of the chat: its settings, and how it is shown. `prompt` None: from the input."""

    settings: Settings
    output: Output = "text"
    quiet: bool = False
    verbose: bool = False
    prompt: str | None = None

    @property
    def given(self) -> str:
        """The options that were given and lead a later command to the same place and model."""
        settings = self.settings
        given = {
            "--config": ("config_path", settings.config_path),
            "--db": ("db", settings.db),
            "--model": ("model.name", settings.model.name),
            "--base-url": ("model.base_url", settings.model.address),
        }
        words: list[str] = []
        for option, (key, value) in given.items():
            if settings.origins.get(key) == option:
                words += [option, str(value)]
        return subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)


def flags_of(ctx: click.Context, **given: Any) -> Flags:
    """The options before the subcommand, overridden by those after it that were `given`."""
    flags = ctx.find_object(Flags) or Flags()
    return dataclasses.replace(flags, **{k: v for k, v in given.items() if v is not None})


@dataclass(frozen=True, slots=True)
class Place:
    """A database as commands find it that only look into it, or put it in order."""

    db: Path
    key: str = field(default="", repr=False)


def place_of(ctx: click.Context, config: str | None, db: str | None) -> Place:
    """The database that the options and the environment name, with its key.

    Raises `ConfigError` where the key cannot be had.
    """
    flags = flags_of(ctx, config=config, db=db)
    found = locate(flags, os.environ, Path.cwd(), user_folders()).db
    return Place(found, load_memory_key(flags, os.environ, Path.cwd()))


def trusted_settings(flags: Flags) -> Settings:
    """The settings, once their file is trusted: asked for at a terminal, refused without one.

    Raises `ConfigError` and `UsageError`.
    """
    settings = load_settings(flags, os.environ, Path.cwd())
    needs = check_trust(settings)
    if isinstance(needs, NeedsTrust):
        if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
            raise refusal(needs)
        asyncio.run(_ask_for_trust(needs, settings))
    return settings


async def _ask_for_trust(needs: NeedsTrust, settings: Settings) -> None:
    from local_agent.ui.prompt import ChatPrompt

    prompt = ChatPrompt()
    prompt.write(f"{needs.path} was found in this folder. It would:\n")
    for line in needs.lines:
        prompt.write(f"  {line}\n")
    if not await prompt.confirm("Trust this file as it is now?"):
        raise refusal(needs)
    trust(settings)


def typed(text: str | None) -> str | None:
    """`text` from the command line, read as UTF-8 where the locale could not say what it is.

    Not for paths: the system wants those back as they came.
    """
    return text and text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def print_line(line: str) -> None:
    """Write a line to standard output, whatever its encoding."""
    safe_write(sys.stdout, line + "\n")


def is_terminal(stream: Any) -> bool:
    """Whether `stream` is there and is a terminal."""
    return stream is not None and stream.isatty()
