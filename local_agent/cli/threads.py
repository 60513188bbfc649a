"""`agent threads`: what conversations the database holds."""

from __future__ import annotations

import importlib
import json
import os
import sys
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import click

from local_agent.cli.options import (
    config_option,
    db_option,
    flags_of,
    is_terminal,
    json_option,
    place_of,
    print_line,
)
from local_agent.config import locate, user_folders
from local_agent.errors import ConfigError
from local_agent.threads import ThreadInfo, list_threads
from local_agent.ui.lines import one_line

TITLE_WIDTH = 60
NAME_WIDTH = 30  # of a name at a terminal; it may have 200 characters


# The commands that are imported when they are used, and their modules.
LATER = {
    "show": "threads_timeline",
    "search": "threads_search",
    "rewind": "threads_timeline",
    "edit": "threads_timeline",
    "fork": "threads_timeline",
    "rename": "threads_store",
    "export": "threads_transfer",
    "import": "threads_transfer",
    "delete": "threads_store",
    "prune": "threads_store",
}


class Threads(click.Group):
    """The group whose other commands are imported when they are used, so that `list` is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *LATER]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in LATER:
            return super().get_command(ctx, cmd_name)
        module = importlib.import_module(f"local_agent.cli.{LATER[cmd_name]}")
        command: click.Command = vars(module).get(cmd_name) or vars(module)[f"{cmd_name}_"]
        return command


@click.group(cls=Threads)
def threads() -> None:
    """The conversations in the database."""


@threads.command("list")
@config_option
@db_option
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="The newest N only.")
@json_option
@click.pass_context
def list_(
    ctx: click.Context, config: str | None, db: str | None, limit: int | None, as_json: bool
) -> None:
    """List the threads, the one used last first, with times in local time."""
    path = db_of(ctx, config, db)
    key = ""
    with suppress(ConfigError):  # a list without titles is better than none
        key = place_of(ctx, config, db).key
    found = list_threads(path, limit, key)
    if as_json:
        whole = {"schema_version": 1, "threads": [_fields(info) for info in found]}
        print_line(json.dumps(whole, indent=2))
    elif not found:
        click.echo(f"No threads in {one_line(str(path))}.", err=True)
    else:
        for line in table(found, NAME_WIDTH if is_terminal(sys.stdout) else None):
            print_line(line)


def db_of(ctx: click.Context, config: str | None, db: str | None) -> Path:
    """The database that the options and the environment name."""
    flags = flags_of(ctx, config=config, db=db)
    return locate(flags, os.environ, Path.cwd(), user_folders()).db


def table(found: list[ThreadInfo], name_width: int | None = NAME_WIDTH) -> list[str]:
    """Aligned lines, the first with the names of the columns; longer names are cut (None: none)."""
    cells = [_cells(info) for info in found]
    rows = [
        ("THREAD", "USED", "TURNS", "TITLE"),
        *((_cut(name, name_width or len(name)), *rest) for name, *rest in cells),
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    return [
        f"{thread:<{widths[0]}}  {used:<{widths[1]}}  {turns:>{widths[2]}}  {title}".rstrip()
        for thread, used, turns, title in rows
    ]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _cells(info: ThreadInfo) -> tuple[str, str, str, str]:
    title = _cut(one_line(info.title), TITLE_WIDTH)
    turns = "-" if info.turns is None else str(info.turns)
    return one_line(info.thread), local_time(info.updated), turns, title


def local_time(moment: datetime) -> str:
    """`moment` where the user is, to the minute, with the offset from UTC that held there then."""
    # As strftime("%Y-%m-%d %H:%M %z") has it, in a third of the time: lists are long.
    text = moment.astimezone().isoformat(" ", "minutes")
    return f"{text[:16]} {text[16:].replace(':', '')}"


def _fields(info: ThreadInfo) -> dict[str, object]:
    return {
        "thread": info.thread,
        "title": info.title,
        "created": info.created.isoformat(),
        "updated": info.updated.isoformat(),
        "messages": info.messages,
        "turns": info.turns,
        "model": info.model,
        "parent": info.parent,
    }
