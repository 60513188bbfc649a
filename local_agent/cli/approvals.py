"""`agent approvals`: look at the calls that wait for a person, and decide them later."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

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
    quiet_option,
    trusted_settings,
    typed,
)
from local_agent.config import Settings
from local_agent.errors import ThreadError, UsageError
from local_agent.events import Decision, PendingCall, pending_calls
from local_agent.ui.approval import call_rows
from local_agent.ui.lines import approval_line
from local_agent.ui.sanitize import safe_write, visible

if TYPE_CHECKING:
    from local_agent.threads import PendingApproval

ROW_COLUMNS = 100
SHORTEST = 6  # digits of an id: a slip of the finger must not approve anything


@click.group()
def approvals() -> None:
    """Decide tool calls that wait for approval; `list` shows their ids."""


@approvals.command("list")
@config_option
@db_option
@json_option
@click.pass_context
def list_(ctx: click.Context, config: str | None, db: str | None, as_json: bool) -> None:
    """List what waits, newest first."""
    waiting = _waiting(_settings(ctx, config, db))
    if as_json:
        safe_write(sys.stdout, json.dumps([_as_object(one) for one in waiting]) + "\n")
        return
    for one in waiting:
        for call in _calls(one):
            line = (
                f"{one.id[:12]}  {one.thread}  {approval_line(call.name, call.args, call.repaired)}"
            )
            safe_write(sys.stdout, visible(line, newlines=False) + "\n")
    if not waiting:
        safe_write(sys.stderr, "No approval is waiting.\n")


@approvals.command()
@click.argument("approval", metavar="ID")
@config_option
@db_option
@json_option
@click.pass_context
def show(
    ctx: click.Context, approval: str, config: str | None, db: str | None, as_json: bool
) -> None:
    """Show the calls of one approval whole."""
    one = _find(_settings(ctx, config, db), approval)
    if as_json:
        safe_write(sys.stdout, json.dumps(_as_object(one)) + "\n")
        return
    safe_write(sys.stdout, visible(f"{one.id}  thread '{one.thread}'", newlines=False) + "\n")
    for number, call in enumerate(_calls(one), 1):
        rows = call_rows(call, ROW_COLUMNS)
        safe_write(sys.stdout, "\n".join([f"call {number}:", *rows]) + "\n")


@approvals.command()
@click.argument("approval", metavar="ID")
@click.option(
    "--call", type=int, multiple=True, metavar="N", help="Only this call; the others are refused."
)
@click.option("--for-thread", is_flag=True, help="And the same tools later in this thread.")
@config_option
@db_option
@model_option
@base_url_option
@output_option
@quiet_option
@click.pass_context
def approve(
    ctx: click.Context,
    /,
    *,
    approval: str,
    call: tuple[int, ...],
    for_thread: bool,
    config: str | None,
    db: str | None,
    output: Output,
    quiet: bool,
    **given: Any,
) -> None:
    """Run the calls and go on with the turn."""
    settings = _settings(ctx, config, db, **given)
    one = _find(settings, approval)
    calls = _calls(one)
    chosen = set(call or range(1, len(calls) + 1))
    if wrong := [n for n in chosen if not 1 <= n <= len(calls)]:
        raise UsageError(f"There is no call {wrong[0]}: this approval has {len(calls)}.")
    scope: Any = "thread" if for_thread else "once"
    decisions = {
        c.call_id: Decision(n in chosen, scope=scope if n in chosen else "once")
        for n, c in enumerate(calls, 1)
    }
    _decide(Run(settings, output, quiet), one, decisions)


@approvals.command()
@click.argument("approval", metavar="ID")
@click.option("--reason", default="", help="The model reads it.")
@config_option
@db_option
@model_option
@base_url_option
@output_option
@quiet_option
@click.pass_context
def deny(
    ctx: click.Context,
    /,
    *,
    approval: str,
    reason: str,
    config: str | None,
    db: str | None,
    output: Output,
    quiet: bool,
    **given: Any,
) -> None:
    """Refuse the calls and go on with the turn."""
    settings = _settings(ctx, config, db, **given)
    one = _find(settings, approval)
    decisions = {call.call_id: Decision(False, typed(reason) or "") for call in _calls(one)}
    _decide(Run(settings, output, quiet), one, decisions)


def _decide(run: Run, one: PendingApproval, decisions: dict[str, Decision]) -> None:
    from local_agent.cli.loading import import_stack

    import_stack()
    from local_agent.cli.batch import run_decision

    raise click.exceptions.Exit(asyncio.run(run_decision(run, one.thread, one.id, decisions)))


def _settings(ctx: click.Context, config: str | None, db: str | None, **given: Any) -> Settings:
    return trusted_settings(flags_of(ctx, config=config, db=db, **given))


def _waiting(settings: Settings) -> list[PendingApproval]:
    """What waits. One that cannot be read is said and left out: it must not hide the others."""
    from local_agent.threads import pending_approvals

    waiting = []
    for one in pending_approvals(settings.db, settings.memory.key):
        try:
            pending_calls(one.value)
        except ValueError:
            what = "damaged, or another program's; it is left out"
            text = f"warning: the approval of thread '{one.thread}' is {what}."
            safe_write(sys.stderr, visible(text, newlines=False) + "\n")
            continue
        waiting.append(one)
    return waiting


def _find(settings: Settings, approval: str) -> PendingApproval:
    """The waiting approval whose id begins with `approval`. Raises `ThreadError`."""
    if len(approval) < SHORTEST:
        raise UsageError(
            f"'{approval}' is too short for an id.", f"Type {SHORTEST} or more digits."
        )
    found = [one for one in _waiting(settings) if one.id.startswith(approval)]
    if not found:
        raise ThreadError(
            f"No approval '{approval}' is waiting: it was decided already, or never was.",
            "See: agent approvals list",
        )
    if len(found) > 1:
        raise UsageError(f"{len(found)} waiting approvals begin with '{approval}'.", "Type more.")
    return found[0]


def _calls(one: PendingApproval) -> list[PendingCall]:
    return list(pending_calls(one.value))


def _as_object(one: PendingApproval) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "id": one.id,
        "thread": one.thread,
        "created": one.created.isoformat(),
        "calls": one.value["calls"],
    }
