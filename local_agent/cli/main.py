"""The program `agent`: its options, its subcommands, and the one place where errors are printed."""

from __future__ import annotations

import asyncio
import importlib
import signal
import sys
from collections.abc import Awaitable
from contextlib import suppress
from typing import Annotated, Any

import typer
from typer._click.exceptions import ClickException  # it has no public name

from local_agent import __version__, errors
from local_agent.cli.options import Output, Run, is_terminal, trusted_settings, typed
from local_agent.config import Flags
from local_agent.environment import prepare_environment
from local_agent.errors import AgentError, UsageError
from local_agent.ui.sanitize import discard_output, safe_write, visible

COMMANDS = ("threads", "approvals", "servers", "config", "model", "doctor")
_added: set[str] = set()
OUTPUTS: tuple[Output, ...] = ("text", "json", "stream-json")

app = typer.Typer(
    name="agent",
    help="Chat in the terminal with a local model that uses MCP tools.",
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _add_commands(argv: list[str]) -> None:
    """Add the subcommands that `argv` can mean; importing all would slow every start.

    Only once a process: a second command line of the same process finds what is there.
    """
    everything = {"--help", "-h"} & set(argv)
    for name in COMMANDS:
        if name in _added or not (everything or name in argv):
            continue
        module = importlib.import_module(f"local_agent.cli.{name}")
        _added.add(name)
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(getattr(module, name))


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"agent {__version__}")
        raise typer.Exit


def _check_output(value: str) -> str:
    if value not in OUTPUTS:
        raise UsageError(f"--output cannot be '{visible(value)}'.", f"Use {', '.join(OUTPUTS)}.")
    return value


@app.callback()
def chat(
    ctx: typer.Context,
    thread: Annotated[
        str | None, typer.Option("--thread", metavar="NAME", help="The thread to go on with.")
    ] = None,
    go_on: Annotated[
        bool, typer.Option("--continue", "-c", help="Go on with the thread used last.")
    ] = False,
    prompt: Annotated[
        str | None,
        typer.Option("--prompt", "-p", metavar="TEXT", help="One prompt; - reads it from stdin."),
    ] = None,
    config: Annotated[
        str | None, typer.Option("--config", metavar="FILE", help="The configuration file.")
    ] = None,
    db: Annotated[
        str | None, typer.Option("--db", metavar="PATH", help="The database file.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", metavar="NAME", help="The model; embedded or embedded:FILE starts one."
        ),
    ] = None,
    base_url: Annotated[
        str | None, typer.Option("--base-url", metavar="URL", help="The model server.")
    ] = None,
    route: Annotated[
        str | None, typer.Option("--route", metavar="NAME", help="Keep to one route.")
    ] = None,
    max_steps: Annotated[
        int | None, typer.Option("--max-steps", metavar="N", help="Model calls a turn.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", help="For one turn.")
    ] = None,
    on_approval: Annotated[
        str | None,
        typer.Option("--on-approval", metavar="ask|park|deny|allow", help="What a write does."),
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            "--output", metavar="text|json|stream-json", help="Form.", callback=_check_output
        ),
    ] = "text",
    ephemeral: Annotated[bool, typer.Option("--ephemeral", help="Write nothing to disk.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Answers only.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say more.")] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Chat, or run the prompts of a pipe, a line each."""
    flags = Flags(
        config=config,
        db=db,
        thread=typed(thread),
        model=model,
        base_url=base_url,
        route=route,
        max_steps=max_steps,
        timeout=timeout,
        on_approval=on_approval,
        ephemeral=ephemeral or None,
    )
    ctx.obj = flags
    if ctx.invoked_subcommand is not None:
        return
    if go_on and thread is not None:
        raise UsageError("--continue and --thread name different threads.", "Give one of them.")
    settings = trusted_settings(_last_thread(flags) if go_on else flags)
    form: Any = output
    _chat(Run(settings, form, quiet, verbose, typed(prompt)))


def _last_thread(flags: Flags) -> Flags:
    """The flags with the thread that was used last in the database they name."""
    import dataclasses
    import os
    from pathlib import Path

    from local_agent.config import locate, user_folders
    from local_agent.threads import list_threads

    db = locate(flags, os.environ, Path.cwd(), user_folders()).db
    threads = list_threads(db, limit=1)
    return dataclasses.replace(flags, thread=threads[0].thread) if threads else flags


def _chat(run: Run) -> None:
    if run.prompt is None and is_terminal(sys.stdin):
        from local_agent.cli.chat import run_chat

        raise typer.Exit(asyncio.run(_until_told_to_end(run_chat(run))))
    from local_agent.cli.loading import import_stack

    import_stack()
    from local_agent.cli.batch import run_batch

    raise typer.Exit(asyncio.run(_until_told_to_end(run_batch(run))))


async def _until_told_to_end(work: Awaitable[int]) -> int:
    """Run `work`; SIGTERM cancels it, so that the terminal and the servers are left in order."""
    task = asyncio.current_task()
    assert task is not None
    with suppress(NotImplementedError):  # Windows ends the process without asking
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await work


def main(argv: list[str] | None = None) -> None:
    """Run the program and end the process with its exit code; no traceback reaches the user."""
    code = run(sys.argv[1:] if argv is None else argv)
    sys.exit(code)


def run(argv: list[str]) -> int:
    """Run the command line `argv` (without the program's name); returns the exit code."""
    prepare_environment()
    _add_commands(argv)
    try:
        result = app(argv, standalone_mode=False, prog_name="agent")
        return result if isinstance(result, int) else errors.OK
    except typer.Exit as exc:
        return exc.exit_code
    except AgentError as exc:
        _complain(str(exc))
        return exc.exit_code
    except ClickException as exc:
        if type(exc).__name__ == "NoArgsIsHelpError":  # its message is the whole help
            safe_write(sys.stderr, exc.format_message() + "\n")
            return errors.USAGE
        _complain(f"{exc.format_message()} Try: agent --help")
        return errors.USAGE
    except (BrokenPipeError, SystemExit):  # Typer makes the second of the first
        discard_output(sys.stdout)
        discard_output(sys.stderr)
        return errors.OK
    except (KeyboardInterrupt, asyncio.CancelledError, typer.Abort):
        return errors.INTERRUPTED
    except Exception as exc:
        if {"-v", "--verbose"} & set(argv):
            raise
        if isinstance(exc, OSError):  # a full disk behind stdout would fail again at the exit
            discard_output(sys.stdout)
        _complain(f"Unexpected: {type(exc).__name__}: {exc} (-v shows where)")
        return errors.FAILED


def _complain(text: str) -> None:
    line = " ".join(text.split())
    safe_write(sys.stderr, f"error: {visible(line)}\n")
