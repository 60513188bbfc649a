"""The program `agent`: its options, its subcommands, and the one place where errors are printed."""

from __future__ import annotations

import asyncio
import importlib
import signal
import sys
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

import click

from local_agent import __version__, errors
from local_agent.cli.options import (
    Output,
    Run,
    base_url_option,
    config_option,
    db_option,
    is_terminal,
    model_option,
    output_option,
    quiet_option,
    trusted_settings,
    typed,
)
from local_agent.config import Flags
from local_agent.environment import prepare_environment
from local_agent.errors import AgentError, UsageError
from local_agent.ui.sanitize import discard_output, safe_write, visible

COMMANDS = ("threads", "approvals", "servers", "config", "model", "eval", "doctor")


class Agent(click.Group):
    """The group whose commands are imported when they are used, so that the chat starts at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"local_agent.cli.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command


@click.group(
    cls=Agent, invoke_without_command=True, context_settings={"help_option_names": ["--help", "-h"]}
)
@click.option("--thread", metavar="NAME", help="The thread to go on with.")
@click.option("--continue", "-c", "go_on", is_flag=True, help="Go on with the thread used last.")
@click.option("--prompt", "-p", metavar="TEXT", help="One prompt; - reads it from stdin.")
@config_option
@db_option
@model_option
@base_url_option
@click.option("--route", metavar="NAME", help="Keep to one route.")
@click.option("--max-steps", type=int, metavar="N", help="Model calls of a turn.")
@click.option("--timeout", type=float, metavar="SECONDS", help="For one turn.")
@click.option("--on-approval", metavar="ask|park|deny|allow", help="What becomes of a write.")
@output_option
@click.option("--ephemeral", is_flag=True, help="Write nothing to disk.")
@quiet_option
@click.option("--verbose", "-v", is_flag=True, help="Say more.")
@click.version_option(__version__, message="agent %(version)s")
@click.pass_context
def app(
    ctx: click.Context,
    /,
    *,
    thread: str | None,
    go_on: bool,
    prompt: str | None,
    output: Output,
    ephemeral: bool,
    quiet: bool,
    verbose: bool,
    **given: Any,
) -> None:
    """Chat in the terminal with a local model that uses MCP tools.

    Without a command it is the chat; without a terminal, each line of the input is a prompt.
    """
    flags = Flags(thread=typed(thread), ephemeral=ephemeral or None, **given)
    ctx.obj = flags
    if ctx.invoked_subcommand is not None:
        return
    if prompt is not None and not prompt.strip():
        raise UsageError("The prompt of -p is empty.", "Write it behind -p, or use -p - for stdin.")
    if go_on and thread is not None:
        raise UsageError("--continue and --thread name different threads.", "Give one of them.")
    settings = trusted_settings(_last_thread(flags) if go_on else flags)
    _chat(ctx, Run(settings, output, quiet, verbose, typed(prompt)))


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


def _chat(ctx: click.Context, run: Run) -> None:
    if run.prompt is None and is_terminal(sys.stdin):
        from local_agent.cli.chat import run_chat

        ctx.exit(asyncio.run(_until_told_to_end(run_chat(run))))
    from local_agent.cli.loading import import_stack

    import_stack()
    from local_agent.cli.batch import run_batch

    ctx.exit(asyncio.run(_until_told_to_end(run_batch(run))))


async def _until_told_to_end(work: Awaitable[int]) -> int:
    """Run `work`; SIGTERM cancels it, so that the terminal and the servers are left in order."""
    task = asyncio.current_task()
    assert task is not None
    with suppress(NotImplementedError):  # Windows ends the process without asking
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await work


def run(argv: list[str]) -> int:
    """Run the command line `argv` (without the program's name); returns the exit code."""
    try:
        prepare_environment()
        result = app.main(argv, prog_name="agent", standalone_mode=False)
        return result if isinstance(result, int) else errors.OK
    except click.exceptions.Exit as exc:
        return exc.exit_code
    except AgentError as exc:
        _complain(str(exc))
        return exc.exit_code
    except click.ClickException as exc:
        if isinstance(exc, click.exceptions.NoArgsIsHelpError):  # its message is the whole help
            safe_write(sys.stderr, exc.format_message() + "\n")
            return errors.USAGE
        _complain(_usage(exc))
        return errors.USAGE
    except (BrokenPipeError, SystemExit):  # click makes the second of the first
        discard_output(sys.stdout)
        discard_output(sys.stderr)
        return errors.OK
    except (KeyboardInterrupt, asyncio.CancelledError, click.Abort):
        return errors.INTERRUPTED
    except Exception as exc:
        if {"-v", "--verbose"} & set(argv):
            raise
        if isinstance(exc, OSError):  # a full disk behind stdout would fail again at the exit
            discard_output(sys.stdout)
        _complain(f"Unexpected: {type(exc).__name__}: {exc} (-v shows where)")
        return errors.FAILED


def _usage(exc: click.ClickException) -> str:
    """What is wrong with the command line, and where to look."""
    context = getattr(exc, "ctx", None)
    text, command = exc.format_message(), context.command_path if context else "agent"
    if text.startswith("No such command"):
        text += f' A prompt goes behind -p: {command} -p "TEXT".' if command == "agent" else ""
    return f"{text} Try: {command} --help"


def _complain(text: str) -> None:
    line = " ".join(text.split())
    safe_write(sys.stderr, f"error: {visible(line)}\n")
