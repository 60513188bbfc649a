"""What the commands of the chat do: each gives a `Reply`, its text harmless for the terminal."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping

from local_agent.app import App
from local_agent.cli import chat_context, chat_store, chat_timeline, chat_tools, chat_transfer
from local_agent.cli.reply import Reply
from local_agent.cli.threads import table
from local_agent.probe import set_by_profile
from local_agent.session import Session
from local_agent.threads import list_threads
from local_agent.ui.commands import Command
from local_agent.ui.sanitize import visible

Handler = Callable[[App, Session, str], Awaitable[Reply]]


async def run_command(command: Command, app: App, session: Session) -> Reply:
    """Do what `command` says. Raises an `AgentError` for what cannot be done."""
    return await HANDLERS[command.name](app, session, command.arg)


async def _threads(app: App, session: Session, arg: str) -> Reply:
    found = list_threads(app.settings.db, limit=50, key=app.settings.memory.key)
    return Reply("\n".join(table(found)) if found else "No thread is saved yet.")


async def _servers(app: App, session: Session, arg: str) -> Reply:
    rows = []
    for status in app.servers.status:
        reason = f": {status.reason}" if status.reason else ""
        text = f"{status.name}  {status.state}  {chat_tools.count(status.tools)}{reason}"
        rows.append(visible(text, newlines=False))
    return Reply("\n".join(rows) or "No servers are configured.")


async def _model(app: App, session: Session, arg: str) -> Reply:
    if not app.model.name:
        return Reply(visible(f"Not connected yet; the server is {app.settings.model.address}."))
    text = f"{app.model.name} with a context of {app.window.context_length} tokens."
    if found := set_by_profile(app.tuned.settings):
        limits = ", ".join(f"{key} = {json.dumps(value)}" for key, value in found.items())
        text += f" Its profile sets {limits}."
    return Reply(visible(text))


HANDLERS: Mapping[str, Handler] = {
    "threads": _threads,
    "tools": chat_tools.tools,
    "servers": _servers,
    "route": chat_tools.route,
    "model": _model,
    "rewind": chat_timeline.rewind,
    "undo": chat_timeline.undo,
    "redo": chat_timeline.redo,
    "fork": chat_timeline.fork,
    "edit": chat_timeline.edit,
    "show": chat_timeline.show,
    "state": chat_timeline.state,
    "context": chat_context.context,
    "compact": chat_context.compact,
    "summary": chat_context.summary,
    "pin": chat_context.pin,
    "search": chat_store.search,
    "rename": chat_store.rename,
    "delete": chat_store.delete,
    "prune": chat_store.prune,
    "export": chat_transfer.export,
    "import": chat_transfer.import_,
}
