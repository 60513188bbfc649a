"""`agent servers`: which MCP servers are configured, and whether they start."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import click

from local_agent import errors
from local_agent.cli.options import config_option, flags_of, json_option, trusted_settings
from local_agent.config import ServerSpec, Settings, load_settings, mask, show_url
from local_agent.errors import UsageError
from local_agent.ui.sanitize import safe_write, visible


@dataclass(frozen=True, slots=True)
class Listed:
    """A configured server as `agent servers list` shows it; nothing in it is a secret."""

    name: str
    transport: str
    target: str
    state: Literal["enabled", "disabled", "unusable"]
    reason: str


@dataclass(frozen=True, slots=True)
class Tested:
    """What came of starting a server. `tools` has its own name of each tool and read or write."""

    name: str
    state: str
    seconds: float
    tools: dict[str, Literal["read", "write"]]
    reason: str


@click.group()
def servers() -> None:
    """The configured MCP servers."""


@servers.command("list")
@config_option
@json_option
@click.pass_context
def list_(ctx: click.Context, config: str | None, as_json: bool) -> None:
    """List the configured servers without starting them. Secrets are shown as ***."""
    # Nothing is started or sent, so a file that is not trusted may be looked at.
    settings = load_settings(flags_of(ctx, config=config), os.environ, Path.cwd())
    listed = [_listed(spec) for spec in settings.servers]
    if as_json:
        _print_json([asdict(one) for one in listed])
    elif not listed:
        click.echo(_none(settings), err=True)
    else:
        name_width = max(len(one.name) for one in listed)
        for one in listed:
            line = f"{one.name:<{name_width}}  {one.state:<8}  {one.transport:<5}  {one.target}"
            _print(f"{line}  ({one.reason})" if one.reason else line)


@servers.command("test")
@click.argument("name", required=False)
@config_option
@json_option
@click.pass_context
def test(ctx: click.Context, name: str | None, config: str | None, as_json: bool) -> None:
    """Start each server and say, a line each, what it offers or why it failed; then exit 1."""
    settings = trusted_settings(flags_of(ctx, config=config))
    specs = _chosen(settings, name)
    tested, warnings = asyncio.run(_test(specs, settings))
    if as_json:
        _print_json([asdict(one) for one in tested])
    elif not tested:
        click.echo(_none(settings), err=True)
    else:
        for one in tested:
            _print(_line(one))
    for warning in warnings:
        click.echo(visible(f"warning: {warning}", newlines=False), err=True)
    failed = any(one.state == "failed" for one in tested)
    ctx.exit(errors.FAILED if failed else errors.OK)


def _listed(spec: ServerSpec) -> Listed:
    target = show_url(spec.url) if spec.url else " ".join([spec.command, *spec.args])
    state: Literal["enabled", "disabled", "unusable"] = "enabled"
    if not spec.enabled:
        state = "disabled"
    elif spec.problem:
        state = "unusable"
    return Listed(
        name=spec.name,
        transport=spec.transport,
        target=mask(target, spec.secrets),
        state=state,
        reason=mask(spec.problem, spec.secrets),
    )


def _chosen(settings: Settings, name: str | None) -> Sequence[ServerSpec]:
    if name is None:
        return settings.servers
    for spec in settings.servers:
        if spec.name == name:
            return [dataclasses.replace(spec, enabled=True)]
    known = ", ".join(spec.name for spec in settings.servers) or "none"
    raise UsageError(f"No server is called '{visible(name)}'.", f"Configured: {known}.")


async def _test(specs: Sequence[ServerSpec], settings: Settings) -> tuple[list[Tested], list[str]]:
    from local_agent.mcp_client import open_servers

    async with open_servers(
        specs, log_dir=settings.log_dir, files_dir=lambda: settings.files_dir
    ) as opened:
        tools: dict[str, dict[str, Literal["read", "write"]]] = {spec.name: {} for spec in specs}
        for tool in opened.tools:
            tools[tool.server][tool.original] = "read" if tool.read_only else "write"
        tested = [
            Tested(
                name=status.name,
                state=status.state,
                seconds=round(status.seconds, 3),
                tools=tools[status.name],
                reason=status.reason,
            )
            for status in opened.status
        ]
        return tested, opened.warnings


def _line(one: Tested) -> str:
    if one.state == "disabled":
        return f"{one.name}: disabled"
    if one.state != "ready":
        return f"{one.name}: failed after {one.seconds:.1f} s: {one.reason}"
    count = f"{len(one.tools)} tool{'' if len(one.tools) == 1 else 's'}"
    tools = ", ".join(f"{name} ({kind})" for name, kind in one.tools.items())
    return f"{one.name}: ready in {one.seconds:.1f} s, {count}{': ' if tools else ''}{tools}"


def _none(settings: Settings) -> str:
    where = settings.config_path
    return (
        f"No servers are configured in {visible(str(where))}."
        if where
        else ("No servers are configured: there is no configuration file.")
    )


def _print(line: str) -> None:
    safe_write(sys.stdout, visible(line, newlines=False) + "\n")


def _print_json(rows: list[dict[str, object]]) -> None:
    text = json.dumps({"schema_version": 1, "servers": rows}, indent=2)
    safe_write(sys.stdout, text + "\n")
