"""`agent threads rename`, `delete` and `prune`."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from local_agent import errors
from local_agent.cli.options import (
    config_option,
    db_option,
    is_terminal,
    json_option,
    place_of,
    print_line,
    typed,
)
from local_agent.config import check_thread_name
from local_agent.errors import UsageError
from local_agent.memory.prune import Plan
from local_agent.threads.change import (
    Cleaned,
    delete_threads,
    rename_thread,
    sizes_of,
    unused_since,
)
from local_agent.threads.prune import KEEP, plans_of, prune_threads
from local_agent.ui.lines import one_line
from local_agent.ui.sanitize import visible

dry_run_option = click.option("--dry-run", is_flag=True, help="Only say what would go.")


@click.command()
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@config_option
@db_option
@json_option
@click.pass_context
def rename(
    ctx: click.Context, old: str, new: str, config: str | None, db: str | None, as_json: bool
) -> None:
    """Give the thread OLD the name NEW."""
    old, new = typed(old) or "", typed(new) or ""
    check_thread_name(new, "NEW")
    place = place_of(ctx, config, db)
    rename_thread(place.db, old, new, place.key)
    if as_json:
        print_line(json.dumps({"schema_version": 1, "thread": new, "was": old}))
    else:
        print_line(renamed_line(old, new))


def renamed_line(old: str, new: str) -> str:
    """What is said when a thread has another name."""
    return (
        f"Thread '{one_line(old)}' is now '{one_line(new)}'."
        " What you allowed in it counts for the old name, so you are asked again."
    )


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1)
@click.option("--older-than", metavar="AGE", help="Not used for 30d (h, d, w), or since a date.")
@dry_run_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@config_option
@db_option
@json_option
@click.pass_context
def delete(
    ctx: click.Context,
    /,
    *,
    names: tuple[str, ...],
    older_than: str | None,
    dry_run: bool,
    yes: bool,
    config: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Delete threads with all that belongs to them, and give the space back."""
    if bool(names) == bool(older_than):
        raise UsageError("delete takes names of threads or --older-than.", "Give one of the two.")
    place = place_of(ctx, config, db)
    moment = moment_of(older_than, datetime.now().astimezone()) if older_than else None
    chosen = _chosen(place.db, [typed(name) or "" for name in names], moment)
    if dry_run or not chosen:
        _show_chosen(chosen, as_json)
        return
    if not yes and not _is_wanted(chosen):
        click.echo("Nothing was deleted.", err=True)
        ctx.exit(errors.FAILED)
    done = delete_threads(place.db, list(chosen), unused=moment, key=place.key)
    _report(done, "deleted", as_json)


def _chosen(path: Path, names: list[str], moment: datetime | None) -> dict[str, int]:
    """The threads that would go, and about how many bytes each takes."""
    if moment is not None:
        names = [info.thread for info in unused_since(path, moment)]
    return sizes_of(path, list(dict.fromkeys(names)))


def _show_chosen(chosen: dict[str, int], as_json: bool) -> None:
    if as_json:
        threads = [{"thread": name, "bytes": size} for name, size in chosen.items()]
        print_line(json.dumps({"schema_version": 1, "dry_run": True, "threads": threads}, indent=2))
        return
    for name, size in chosen.items():
        print_line(f"Would delete '{one_line(name)}', about {size_text(size)}.")
    if not chosen:
        click.echo("There is no such thread.", err=True)


def _is_wanted(chosen: dict[str, int]) -> bool:
    """Ask whether to delete. Raises UsageError where there is no terminal."""
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        raise UsageError("Deleting is asked about, and there is no terminal.", "Add --yes.")
    for name, size in chosen.items():
        click.echo(f"'{one_line(name)}', about {size_text(size)}", err=True)
    return click.confirm(f"Delete {counted(len(chosen), 'thread')}?", err=True)


@click.command()
@click.argument("name", metavar="[NAME]", required=False)
@click.option(
    "--keep",
    type=click.IntRange(min=0),
    default=KEEP,
    show_default=True,
    metavar="N",
    help="Turns that can still be turned back to; 0: only the last state.",
)
@dry_run_option
@config_option
@db_option
@json_option
@click.pass_context
def prune(
    ctx: click.Context,
    /,
    *,
    name: str | None,
    keep: int,
    dry_run: bool,
    config: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Drop abandoned branches and the way back to old turns; what was said stays.

    Of the thread NAME, or of all.
    """
    place = place_of(ctx, config, db)
    unread: list[str] = []
    plans = plans_of(place.db, typed(name), keep, unread if name is None else None, key=place.key)
    for one in unread:
        click.echo(f"Thread '{one_line(one)}' cannot be read; it stays as it is.", err=True)
    if dry_run or not plans:
        _show_plans(plans, as_json)
        return
    done = asyncio.run(
        prune_threads(place.db, [plan.thread for plan in plans], keep, key=place.key)
    )
    # Of all threads those that are in use stay as they are; of one that is no success.
    _report(done, "pruned", as_json, is_fault=name is not None)


def _show_plans(plans: Sequence[Plan], as_json: bool) -> None:
    if as_json:
        keys = ("thread", "turns", "branches", "size")
        rows = [{key: getattr(plan, key) for key in keys} for plan in plans]
        print_line(json.dumps({"schema_version": 1, "dry_run": True, "threads": rows}, indent=2))
        return
    for plan in plans:
        print_line(f"Would prune {plan_text(plan)}.")
    if not plans:
        click.echo("There is nothing to prune.", err=True)


def plan_text(plan: Plan) -> str:
    """`'work': the way back to 12 turns, 2 branches; about 3.1 MB`."""
    parts = [f"the way back to {counted(plan.turns, 'turn')}"] if plan.rewrite else []
    parts += [counted(plan.branches, "branch")] if plan.branches else []
    parts = parts or [counted(plan.checkpoints, "old step")]
    return f"'{one_line(plan.thread)}': {', '.join(parts)}; about {size_text(plan.size)}"


def _report(done: Cleaned, what: str, as_json: bool, *, is_fault: bool = True) -> None:
    """Say what was done, and leave with 1 where something was refused."""
    if as_json:
        whole = {
            "schema_version": 1,
            what: list(done.threads),
            "refused": list(done.refused),
            "files": done.files,
            "freed": done.freed,
            "notes": list(done.notes),
        }
        print_line(json.dumps(whole, indent=2))
    else:
        print_line(done_text(done, what))
        mark = "error: " if is_fault else ""
        for line in (*(mark + why for why in done.refused), *done.notes):
            click.echo(visible(line, newlines=False), err=True)
    if done.refused and is_fault:
        raise click.exceptions.Exit(errors.FAILED)


def done_text(done: Cleaned, what: str) -> str:
    """`2 threads deleted; 3.1 MB are free again.`"""
    files = f" and {counted(done.files, 'file')} removed" if done.files else ""
    freed = f"{size_text(done.freed)} given back"
    return f"{counted(len(done.threads), 'thread')} {what}{files}; {freed}."


def counted(count: int, what: str) -> str:
    """`1 turn`, `2 branches`."""
    if count == 1:
        return f"1 {what}"
    return f"{count:,} {what}{'es' if what.endswith('ch') else 's'}"


def size_text(size: int) -> str:
    """Bytes as a person reads them, in powers of 1000."""
    value, units = float(size), ["bytes", "kB", "MB", "GB", "TB"]
    while value >= 999.5 and len(units) > 1:
        value /= 1000
        units.pop(0)
    return f"{value:.3g} {units[0]}"


def moment_of(age: str, now: datetime) -> datetime:
    """The moment before which `age` lies: "30d" (hours, days, weeks) before `now`, or a date.

    A date is the beginning of that day here. Raises UsageError, also where every thread would be
    older: that is never what is meant, and one that is to go has a name.
    """
    moment = _moment(age, now)
    if moment >= now:
        raise UsageError(
            f"--older-than {one_line(age)} would be every thread.",
            "Give an age of 1h or more, or a date before now; or name the threads.",
        )
    return moment


def _moment(age: str, now: datetime) -> datetime:
    if match := re.fullmatch(r"(\d{1,6})([hdw])", age.strip()):
        hours = int(match[1]) * {"h": 1, "d": 24, "w": 168}[match[2]]
        with suppress(OverflowError):
            return now - timedelta(hours=hours)
        return datetime.min.replace(tzinfo=UTC)
    try:
        moment = datetime.fromisoformat(age.strip())
    except ValueError as exc:
        raise UsageError(
            f"--older-than cannot be '{one_line(age)}'.", "Write it like 30d, 12h, 2w, 2026-01-31."
        ) from exc
    return moment if moment.tzinfo else moment.astimezone()
