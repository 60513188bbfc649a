"""`agent approvals`: look at the calls that wait for a person, and decide them later."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from local_agent.cli.options import Run, flags_of, trusted_settings, typed
from local_agent.config import Settings
from local_agent.errors import ThreadError, UsageError
from local_agent.events import Decision, PendingCall
from local_agent.ui.approval import call_rows
from local_agent.ui.lines import approval_line
from local_agent.ui.sanitize import safe_write, visible

if TYPE_CHECKING:
    from local_agent.threads import PendingApproval

app = typer.Typer(
    help="Decide tool calls that wait for approval.", no_args_is_help=True, rich_markup_mode=None
)
DbOption = Annotated[str | None, typer.Option("--db", metavar="PATH", help="The database file.")]
ConfigOption = Annotated[
    str | None, typer.Option("--config", metavar="FILE", help="The configuration file.")
]
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="As `list` shows it.")]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON.")]
ROW_COLUMNS = 100


@app.command("list")
def list_(
    ctx: typer.Context,
    config: ConfigOption = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what waits, newest first."""
    waiting = _waiting(_settings(ctx, config, db))
    if as_json:
        safe_write(sys.stdout, json.dumps([_as_object(one) for one in waiting]) + "\n")
        return
    for one in waiting:
        for call in _calls(one):
            line = f"{one.id[:12]}  {one.thread}  {approval_line(call.name, call.args)}"
            safe_write(sys.stdout, visible(line, newlines=False) + "\n")
    if not waiting:
        safe_write(sys.stderr, "No approval is waiting.\n")


@app.command()
def show(
    ctx: typer.Context,
    approval: IdArgument,
    config: ConfigOption = None,
    db: DbOption = None,
    as_json: JsonOption = False,
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


@app.command()
def approve(
    ctx: typer.Context,
    approval: IdArgument,
    call: Annotated[
        list[int] | None,
        typer.Option("--call", metavar="N", help="Only this call; the others are refused."),
    ] = None,
    for_thread: Annotated[
        bool, typer.Option("--for-thread", help="And the same tools later in this thread.")
    ] = False,
    config: ConfigOption = None,
    db: DbOption = None,
    output: Annotated[str, typer.Option("--output", metavar="text|json|stream-json")] = "text",
    quiet: Annotated[bool, typer.Option("--quiet", "-q")] = False,
) -> None:
    """Run the calls and go on with the turn."""
    settings = _settings(ctx, config, db)
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
    _decide(Run(settings, _form(output), quiet), one, decisions)


@app.command()
def deny(
    ctx: typer.Context,
    approval: IdArgument,
    reason: Annotated[str, typer.Option("--reason", help="The model reads it.")] = "",
    config: ConfigOption = None,
    db: DbOption = None,
    output: Annotated[str, typer.Option("--output", metavar="text|json|stream-json")] = "text",
    quiet: Annotated[bool, typer.Option("--quiet", "-q")] = False,
) -> None:
    """Refuse the calls and go on with the turn."""
    settings = _settings(ctx, config, db)
    one = _find(settings, approval)
    decisions = {call.call_id: Decision(False, typed(reason) or "") for call in _calls(one)}
    _decide(Run(settings, _form(output), quiet), one, decisions)


def _decide(run: Run, one: PendingApproval, decisions: dict[str, Decision]) -> None:
    from local_agent.cli.loading import import_stack

    import_stack()
    from local_agent.cli.batch import run_decision

    raise typer.Exit(asyncio.run(run_decision(run, one.thread, one.id, decisions)))


def _form(output: str) -> Any:
    if output not in ("text", "json", "stream-json"):
        raise UsageError(f"--output cannot be '{visible(output)}'.", "Use text, json, stream-json.")
    return output


def _settings(ctx: typer.Context, config: str | None, db: str | None) -> Settings:
    return trusted_settings(flags_of(ctx, config=config, db=db))


def _waiting(settings: Settings) -> list[PendingApproval]:
    from local_agent.threads import pending_approvals

    return pending_approvals(settings.db)


def _find(settings: Settings, approval: str) -> PendingApproval:
    """The waiting approval whose id begins with `approval`. Raises `ThreadError`."""
    found = [one for one in _waiting(settings) if one.id.startswith(approval)] if approval else []
    if not found:
        raise ThreadError(
            f"No approval '{approval}' is waiting: it was decided already, or never was.",
            "See: agent approvals list",
        )
    if len(found) > 1:
        raise UsageError(f"{len(found)} waiting approvals begin with '{approval}'.", "Type more.")
    return found[0]


def _calls(one: PendingApproval) -> list[PendingCall]:
    return [PendingCall(**call) for call in one.value["calls"]]


def _as_object(one: PendingApproval) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "id": one.id,
        "thread": one.thread,
        "created": one.created.isoformat(),
        "calls": one.value["calls"],
    }
