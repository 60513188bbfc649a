"""`agent threads show|rewind|fork|edit`: look into a thread, turn it back, copy it, correct it."""

from __future__ import annotations

import asyncio
import json
import shlex
from pathlib import Path
from typing import Any

import click

from local_agent.cli.options import (
    Output,
    Run,
    base_url_option,
    config_option,
    db_option,
    flags_of,
    json_option,
    model_option,
    output_option,
    place_of,
    print_line,
    quiet_option,
    trusted_settings,
    typed,
)
from local_agent.config import check_thread_name
from local_agent.errors import ThreadError, UsageError
from local_agent.ui.lines import one_line


@click.command()
@click.argument("name", metavar="NAME")
@click.option("--messages", is_flag=True, help="Every message whole.")
@click.option("--checkpoints", is_flag=True, help="The steps that were saved, newest first.")
@click.option("--branches", is_flag=True, help="What was turned back, and can be gone to.")
@click.option("--summary", is_flag=True, help="The summary of folded turns, and the facts.")
@click.option("--at", metavar="CHECKPOINT", help="What was known then, and sent to the model.")
@click.option("--result", metavar="HANDLE", help="One result (r7) whole.")
@config_option
@db_option
@json_option
@click.pass_context
def show(
    ctx: click.Context,
    /,
    *,
    name: str,
    messages: bool,
    checkpoints: bool,
    branches: bool,
    summary: bool,
    at: str | None,
    result: str | None,
    config: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Show a thread: the conversation, or what the option says."""
    wanted = {
        "--messages": messages,
        "--checkpoints": checkpoints,
        "--branches": branches,
        "--summary": summary,
        "--at": at is not None,
        "--result": result is not None,
    }
    chosen = [option for option, given in wanted.items() if given]
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(chosen)} show different things.", "Give one of them.")
    from local_agent.cli import timeline_show

    what = chosen[0].removeprefix("--") if chosen else "transcript"
    place = place_of(ctx, config, db)
    work = timeline_show.show(place, _named(name), what, (at or result or "").lower(), as_json)
    _print(asyncio.run(work))


@click.command()
@click.argument("name", metavar="NAME")
@click.option("--to", type=int, metavar="TURN", help="To before this turn.")
@click.option("--branch", metavar="ID", help="To where this branch was left.")
@config_option
@db_option
@json_option
@click.pass_context
def rewind(
    ctx: click.Context,
    /,
    *,
    name: str,
    to: int | None,
    branch: str | None,
    config: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Go back to before a turn; without an option, list the turns and the branches.

    Nothing is lost: what comes after it stays as a branch.
    """
    if to is not None and branch is not None:
        raise UsageError("--to and --branch go to different places.", "Give one of them.")
    from local_agent.cli import timeline_show

    place, thread = place_of(ctx, config, db), _named(name)
    if to is None and branch is None:
        _print(asyncio.run(timeline_show.show(place, thread, "turns", "", as_json)))
        return
    given = _given(ctx, config, db)
    _print(asyncio.run(timeline_show.rewind(place, thread, to, branch, as_json, given)))


@click.command()
@click.argument("name", metavar="NAME")
@click.argument("new", metavar="NEW")
@click.option("--at", type=int, metavar="TURN", help="Only up to the end of this turn.")
@config_option
@db_option
@json_option
@click.pass_context
def fork(
    ctx: click.Context,
    /,
    *,
    name: str,
    new: str,
    at: int | None,
    config: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Copy a thread under a new name."""
    from local_agent.cli import timeline_show

    check_thread_name(new, "NEW")
    place = place_of(ctx, config, db)
    _print(asyncio.run(timeline_show.fork(place, _named(name), _named(new), at, as_json)))


@click.command()
@click.argument("name", metavar="NAME")
@click.option("--result", metavar="HANDLE", help="Correct this result (r7); with --text or --file.")
@click.option("--prompt", type=int, metavar="TURN", help="Another prompt; with --text or --file.")
@click.option("--call", metavar="HANDLE", help="Other arguments of a waiting call; with --args.")
@click.option("--state", metavar="JSON", help="Fields of the state, as one object.")
@click.option("--text", metavar="TEXT", help="The new text.")
@click.option("--file", metavar="FILE", help="A file that holds it; - is standard input.")
@click.option("--args", "args_", metavar="JSON", help="The new arguments, as one object.")
@click.option("--no-run", is_flag=True, help="Only put it in; the next start goes on from there.")
@config_option
@db_option
@model_option
@base_url_option
@click.option("--on-approval", metavar="ask|park|deny|allow", help="What becomes of a write.")
@output_option
@json_option
@quiet_option
@click.pass_context
def edit(
    ctx: click.Context,
    /,
    *,
    name: str,
    result: str | None,
    prompt: int | None,
    call: str | None,
    state: str | None,
    text: str | None,
    file: str | None,
    args_: str | None,
    no_run: bool,
    config: str | None,
    db: str | None,
    output: Output,
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> None:
    """Correct one thing, and go on from there: only what follows runs again.

    What came after it stays as a branch, and writes are asked for again.
    """
    from local_agent.cli.timeline_edit import Change

    places = {"--result": result, "--prompt": prompt, "--call": call, "--state": state}
    chosen = [option for option, value in places.items() if value is not None]
    if len(chosen) != 1:
        raise UsageError(f"Say what to edit: one of {', '.join(places)}.")
    change: Change
    if result is not None:
        change = Change("result", result.lower(), text=_new_text(text, file))
    elif prompt is not None:
        change = Change("prompt", str(prompt), text=_new_text(text, file))
    elif call is not None:
        change = Change("call", call, values=_object(args_, "--args"))
    else:
        change = Change("state", values=_object(state, "--state"))
    _edit(
        ctx, _named(name), change, no_run, config, db, "json" if as_json else output, quiet, given
    )


def _edit(
    ctx: click.Context,
    thread: str,
    change: Any,
    no_run: bool,
    config: str | None,
    db: str | None,
    output: Output,
    quiet: bool,
    given: dict[str, Any],
) -> None:
    from local_agent.cli import timeline_edit

    if no_run:
        place, where = place_of(ctx, config, db), _given(ctx, config, db)
        _print(asyncio.run(timeline_edit.put_in(place, thread, change, output != "text", where)))
        return
    flags = flags_of(ctx, config=config, db=db, thread=thread, **given)
    settings = trusted_settings(flags)
    _needs_file(settings.db, thread)
    from local_agent.cli.loading import import_stack

    import_stack()
    run = Run(settings, output, quiet)
    raise click.exceptions.Exit(asyncio.run(timeline_edit.run_edit(run, change)))


def _named(name: str) -> str:
    return typed(name) or name


def _given(ctx: click.Context, config: str | None, db: str | None) -> str:
    """The options that were given and lead a later command to the same database."""
    flags = flags_of(ctx, config=config, db=db)
    named = {"--config": flags.config, "--db": flags.db}
    return shlex.join(word for name, path in named.items() if path for word in (name, str(path)))


def _needs_file(db: Path, thread: str) -> None:
    """Raise `ThreadError` where there is no database: none is to be made for a thread."""
    if not db.exists():
        raise ThreadError(f"There is no thread '{thread}'.", "See: agent threads list")


def _new_text(text: str | None, file: str | None) -> str:
    if (text is None) == (file is None):
        raise UsageError("The new text comes by --text or by --file.", "Give one of them.")
    if text is not None:
        return typed(text) or ""
    import sys

    if file == "-":
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    try:
        return Path(file or "").read_text(encoding="utf-8", errors="replace")
    except OSError as exc:
        raise UsageError(f"{file} cannot be read: {exc.strerror or exc}.") from exc


_OBJECT = 'Write it like {"path": "b.txt"}, in single quotes for the shell.'


def _object(text: str | None, option: str) -> dict[str, Any]:
    if text is None:
        raise UsageError(f"{option} is missing: the new values as one JSON object.", _OBJECT)
    text = typed(text) or ""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as exc:
        raise UsageError(f"{option} is not JSON: {_fault(text, exc.pos)}.", _OBJECT) from exc
    except (ValueError, RecursionError) as exc:  # a number of thousands of digits, say
        raise UsageError(f"{option} cannot be read as JSON.", _OBJECT) from exc
    if not isinstance(value, dict):
        raise UsageError(f"{option} must be one JSON object.", _OBJECT)
    return value


def _fault(text: str, at: int) -> str:
    """Where a text is not JSON any more, in words."""
    rest = text[at:].strip()
    if not text.strip():
        return "it is empty"
    if not rest:
        return f"it breaks off behind character {len(text.rstrip())}"
    shown = rest if len(rest) <= 20 else f"{rest[:19]}…"
    return f"it goes wrong at character {at + 1} ({one_line(shown)})"


def _print(lines: list[str]) -> None:
    for line in lines:
        print_line(line)
