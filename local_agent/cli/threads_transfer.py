"""`agent threads export` and `agent threads import`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from local_agent.cli.options import (
    config_option,
    db_option,
    flags_of,
    json_option,
    place_of,
    print_line,
    typed,
)
from local_agent.config import (
    Flags,
    check_thread_name,
    load_settings,
    secrets_of,
)
from local_agent.errors import AgentError, TransferError, UsageError
from local_agent.memory import files_dir
from local_agent.ui.lines import one_line
from local_agent.ui.sanitize import safe_write, visible

FORMATS = ("md", "json")


@click.command()
@click.argument("name", metavar="NAME")
@click.option("--format", "form", metavar="md|json", help="To read, or whole. [default: by FILE]")
@click.option("--last", type=int, metavar="N", help="Only the last N turns.")
@click.option("--redact", is_flag=True, help="Replace secrets, as far as their shape is known.")
@click.option("--output", "-o", metavar="FILE", default="-", help="- is standard output.")
@click.option("--force", is_flag=True, help="Replace a file that exists.")
@config_option
@db_option
@json_option
@click.pass_context
def export(
    ctx: click.Context,
    /,
    *,
    name: str,
    form: str | None,
    last: int | None,
    redact: bool,
    output: str,
    force: bool,
    config: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Write a thread to a file: Markdown to read, or JSON to import again.

    The JSON has all of it: branches and summaries too. What you allowed is in neither; that counts
    on this machine alone.
    """
    form = _format(form, output)
    if last is not None and last < 1:
        raise UsageError(f"--last must be at least 1, not {last}.")
    if as_json and output == "-":
        raise UsageError("--json says what was written to a file.", "Name one with --output.")
    from local_agent.transfer.database import read_thread
    from local_agent.transfer.files import write_file
    from local_agent.transfer.out import Wish, take_out

    place = place_of(ctx, config, db)
    wish = Wish(form, last, redact)  # type: ignore[arg-type]  # _format saw to it
    taken = take_out(
        read_thread(place.db, typed(name) or name, place.key),
        wish,
        visible,
        secrets=_configured_secrets(flags_of(ctx, config=config, db=db)) if redact else (),
        files=str(files_dir(place.db)),
    )
    if output == "-":
        safe_write(sys.stdout, taken.text)
    else:
        hint = "Use --force to replace it."
        write_file(Path(output), taken.text, force=force, hint=hint)
    if as_json:
        said = {"thread": typed(name), "file": output, "format": form, "notes": taken.notes}
        counts = {"turns": taken.turns, "messages": taken.messages, "secrets": taken.secrets}
        print_line(json.dumps({"schema_version": 1, **said, **counts}))
        return
    if output != "-":
        note(f"Thread '{typed(name)}' was written to {output}.")
    for line in taken.notes:
        note(line)


@click.command("import")
@click.argument("file", metavar="FILE")
@click.option("--thread", metavar="NAME", help="The name of the new thread.")
@config_option
@db_option
@json_option
@click.pass_context
def import_(
    ctx: click.Context,
    /,
    *,
    file: str,
    thread: str | None,
    config: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Make a thread of a file: what `export --format json` wrote, or a list of chat messages.

    A list is [{"role": …}, …], {"messages": […]}, or a line each of one of these. - is standard
    input. A thread that exists is never changed.
    """
    thread = typed(thread)
    if thread is not None:
        check_thread_name(thread)
    from local_agent.transfer.database import bring_in
    from local_agent.transfer.files import read_file
    from local_agent.transfer.read import documents_in

    data = read_file(file)
    shown = "standard input" if file == "-" else file
    try:
        found = documents_in(data, thread or _stem(file))
    except TransferError as exc:
        raise TransferError(f"{shown} cannot be imported. {exc.message}", exc.hint) from exc
    place = place_of(ctx, config, db)
    documents = asyncio.run(bring_in(place.db, found, thread, place.key))
    if as_json:
        rows: list[dict[str, Any]] = [
            {
                "thread": document.name,
                "turns": document.turns,
                "messages": len(document.messages),
                "notes": list(one.said),
            }
            for document, one in zip(documents, found, strict=True)
        ]
        print_line(json.dumps({"schema_version": 1, "threads": rows}))
        return
    for document, one in zip(documents, found, strict=True):
        count = len(document.messages)
        messages = f"{count} message{'' if count == 1 else 's'}"
        print_line(visible(f"Thread '{document.name}': {messages} imported.", newlines=False))
        for line in one.said:
            note(f"Thread '{document.name}': {line}.")


def note(line: str) -> None:
    """A line for the person, beside what goes to standard output."""
    safe_write(sys.stderr, visible(line, newlines=False) + "\n")


def _format(form: str | None, output: str) -> str:
    if form is None:
        return "json" if output.lower().endswith(".json") else "md"
    if form not in FORMATS:
        raise UsageError(f"--format cannot be '{one_line(form)}'.", f"Use {' or '.join(FORMATS)}.")
    return form


def _stem(file: str) -> str:
    """The name of a thread that its file does not say."""
    name = typed(Path(file).stem) or ""
    with suppress(UsageError):
        check_thread_name(name, "the file")
        if file != "-":
            return name
    return "imported"


def _configured_secrets(flags: Flags) -> tuple[str, ...]:
    """The secrets of the configuration; it may be none, or not be readable just now."""
    try:
        return secrets_of(load_settings(flags, os.environ, Path.cwd()))
    except AgentError:
        return ()
