"""`agent doctor`: whether everything a turn needs is there, a line each with its remedy."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

import click

from local_agent import errors
from local_agent.cli.loading import import_stack
from local_agent.cli.options import (
    base_url_option,
    config_option,
    db_option,
    flags_of,
    json_option,
    model_option,
)
from local_agent.config import Flags, Settings, load_settings
from local_agent.errors import AgentError
from local_agent.trust import NeedsTrust, check_trust, refusal
from local_agent.ui.sanitize import safe_write, visible

CALL_TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was looked at, how it stands, what was found or what to do."""

    what: str
    state: Literal["ok", "warning", "failed"]
    text: str


@click.command()
@config_option
@db_option
@model_option
@base_url_option
@json_option
@click.pass_context
def doctor(ctx: click.Context, /, *, as_json: bool, **given: Any) -> None:
    """Check configuration, database, model and MCP servers; exit 1 if anything fails."""
    findings = asyncio.run(_examine(flags_of(ctx, **given), as_json))
    if as_json:
        rows = [asdict(finding) for finding in findings]
        safe_write(sys.stdout, json.dumps({"schema_version": 1, "findings": rows}) + "\n")
    failed = any(finding.state == "failed" for finding in findings)
    ctx.exit(errors.FAILED if failed else errors.OK)


async def _examine(flags: Flags, as_json: bool) -> list[Finding]:
    findings = []
    async for finding in _findings(flags):
        findings.append(finding)
        if not as_json:
            mark = {"ok": "ok  ", "warning": "warn", "failed": "FAIL"}[finding.state]
            line = visible(f"{mark}  {finding.what}: {finding.text}", newlines=False)
            safe_write(sys.stdout, line + "\n")
    return findings


async def _findings(flags: Flags) -> AsyncIterator[Finding]:
    import os
    from pathlib import Path

    try:
        settings = load_settings(flags, os.environ, Path.cwd())
    except AgentError as exc:
        yield Finding("configuration", "failed", str(exc))
        return
    needs = check_trust(settings)
    if isinstance(needs, NeedsTrust):
        yield Finding("configuration", "failed", str(refusal(needs)))
        return
    yield Finding("configuration", "ok", str(settings.config_path or "none, defaults only"))
    import_stack()
    yield await _database(settings)
    async for finding in _model(settings):
        yield finding
    async for finding in _servers(settings):
        yield finding


async def _database(settings: Settings) -> Finding:
    from local_agent.memory import open_memory
    from local_agent.threads import list_threads

    if not settings.db.exists():
        text = f"{settings.db} is made at the first prompt"
        folder = settings.db.parent
        return Finding("database", "ok" if folder.exists() else "warning", text)
    try:
        async with open_memory(settings.db, key=settings.memory.key):
            pass
        count = len(list_threads(settings.db))
    except AgentError as exc:
        return Finding("database", "failed", str(exc))
    return Finding("database", "ok", f"{settings.db}, {count} threads")


async def _model(settings: Settings) -> AsyncIterator[Finding]:
    from contextlib import AsyncExitStack

    from langchain_core.messages import HumanMessage

    from local_agent.late_model import connect_chat

    async with AsyncExitStack() as stack:
        try:
            chat = await connect_chat(settings, stack, _tell)
        except AgentError as exc:
            yield Finding("model server", "failed", str(exc))
            return
        yield Finding("model server", "ok", f"{chat.name} at {settings.model.address}")
        yield _context(chat.context_length)
        pieces: list[str] = []
        try:
            chat.limit_reply(256)
            prompt = HumanMessage("Count from 1 to 5.")
            await chat.reply([prompt], on_delta=lambda kind, text: pieces.append(text))
            call = HumanMessage("What is the weather in Paris? Use the tool.")
            reply = await chat.reply([call], tools=[CALL_TOOL])
        except AgentError as exc:
            yield Finding("model answer", "failed", str(exc))
            return
        yield _streams(len(pieces))
        yield _calls(bool(reply.additional_kwargs.get("raw_tool_calls")))


def _tell(text: str, level: str) -> None:
    """What takes its time is said while it does."""
    safe_write(sys.stderr, visible(text, newlines=False) + "\n")


def _context(length: int | None) -> Finding:
    if length is None:
        text = "the server does not say how long it is; set context_length in [model]"
        return Finding("context length", "warning", text)
    if length < 4096:
        text = f"{length} tokens is little; load the model with 4096 or more"
        return Finding("context length", "warning", text)
    return Finding("context length", "ok", f"{length} tokens")


def _streams(pieces: int) -> Finding:
    if pieces > 1:
        return Finding("streaming", "ok", f"an answer came in {pieces} pieces")
    if pieces == 1:
        return Finding("streaming", "warning", "an answer came in one piece only")
    return Finding("streaming", "failed", "the answer was empty; try another model")


def _calls(called: bool) -> Finding:
    if called:
        return Finding("tool calls", "ok", "the model called a tool")
    text = "the model did not call the tool it was asked to call; take one trained for tool use"
    return Finding("tool calls", "failed", text)


async def _servers(settings: Settings) -> AsyncIterator[Finding]:
    from local_agent.mcp_client import open_servers

    async with open_servers(
        settings.servers, log_dir=settings.log_dir, files_dir=lambda: settings.files_dir
    ) as servers:
        for status in servers.status:
            if status.state == "ready":
                yield Finding(f"server {status.name}", "ok", f"{status.tools} tools")
            elif status.state == "disabled":
                yield Finding(f"server {status.name}", "ok", "disabled")
            else:
                yield Finding(f"server {status.name}", "failed", status.reason)
        for warning in servers.warnings:
            yield Finding("servers", "warning", warning)
