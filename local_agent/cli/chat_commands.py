"""What the commands of the chat print; each returns its text, harmless for the terminal."""

from __future__ import annotations

from local_agent.app import App
from local_agent.cli.threads import table
from local_agent.session import Session
from local_agent.threads import list_threads
from local_agent.ui.commands import Command
from local_agent.ui.sanitize import visible


def run_command(command: Command, app: App, session: Session) -> str:
    """The text that `command` prints. Raises `ConfigError` for a route that does not exist."""
    match command.name:
        case "tools":
            return _tools(app)
        case "servers":
            return _servers(app)
        case "threads":
            found = list_threads(app.settings.db, limit=50)
            return "\n".join(table(found)) if found else "No thread is saved yet."
        case "route":
            return _route(app, command.arg)
        case "model":
            return _model(app)
    return f"/{command.name} is not there yet."


def _tools(app: App) -> str:
    if not app.servers.tools:
        return "No tools are loaded."
    rows = []
    for tool in app.servers.tools:
        mark = "read " if tool.read_only else "write"
        about = " ".join(tool.description.split())[:100]
        rows.append(visible(f"{mark}  {tool.name}  ({tool.server})  {about}", newlines=False))
    return "\n".join(rows)


def _servers(app: App) -> str:
    rows = []
    for status in app.servers.status:
        reason = f": {status.reason}" if status.reason else ""
        text = f"{status.name}  {status.state}  {_count(status.tools)}{reason}"
        rows.append(visible(text, newlines=False))
    return "\n".join(rows) or "No servers are configured."


def _route(app: App, name: str) -> str:
    from local_agent.routing import check_route

    if name in ("", "auto"):
        if name:
            app.router.fixed = ""
        kept = f"kept on {app.router.fixed}" if app.router.fixed else "chosen for each turn"
        routes = [f"{route}  ({_count(len(tools))})" for route, tools in app.routes.tools.items()]
        return "\n".join([visible(f"The route is {kept}."), *map(visible, routes)])
    check_route(app.routes, name)
    app.router.fixed = name
    return visible(f"This chat stays on the route {name}; /route auto ends that.")


def _model(app: App) -> str:
    if not app.model.name:
        return visible(f"Not connected yet; the server is {app.settings.model.address}.")
    length = app.window.context_length
    return visible(f"{app.model.name} with a context of {length} tokens.")


def _count(tools: int) -> str:
    return f"{tools} tool{'' if tools == 1 else 's'}"
