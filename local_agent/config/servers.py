"""Makes a ServerSpec of one checked [servers.NAME] table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from local_agent.config.masking import argument_secrets, header_secrets, url_secrets, visible
from local_agent.config.places import full_path
from local_agent.config.settings import ServerSpec
from local_agent.config.variables import Filler
from local_agent.errors import ConfigError

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LISTS = ("enabled_tools", "disabled_tools", "read", "write")
_PLAIN = ("startup_timeout_sec", "tool_timeout_sec", "enabled")


def server_spec(
    name: str, table: Mapping[str, Any], environ: Mapping[str, str], file: Path
) -> ServerSpec:
    """Return the server with its variables filled in.

    What is wrong with the table itself raises ConfigError; what depends on the values of
    variables becomes the spec's `problem`, so that the other servers can be used.
    """
    _check_shape(name, table, visible(str(file)))
    filler = Filler(environ)
    command = filler.fill(table.get("command", ""))
    args = tuple(filler.fill(arg) for arg in table.get("args", ()))
    url = filler.fill(table.get("url", "")).strip()
    cwd = filler.fill(table.get("cwd", ""))
    # Values of env and headers are secrets whether or not they come from a variable.
    env = {key: filler.fill(value) for key, value in table.get("env", {}).items()}
    headers = {key: filler.fill(value) for key, value in table.get("headers", {}).items()}
    problem = filler.problem() or next(_problems(command, args, env, url, headers), "")
    secrets = [*filler.values, *env.values(), *argument_secrets(args), *url_secrets(url)]
    for value in headers.values():
        secrets.extend(header_secrets(value))
    rest: dict[str, Any] = {key: tuple(table[key]) for key in _LISTS if key in table}
    rest |= {key: table[key] for key in _PLAIN if key in table}
    return ServerSpec(
        name=name,
        command=command,
        args=args,
        env=env,
        cwd=_folder(cwd, file) if cwd else "",
        url=url,
        transport=table.get("transport", "http" if url else "stdio"),
        headers=headers,
        problem=problem,
        secrets=tuple(sorted({s for s in secrets if s and s not in filler.public})),
        **rest,
    )


def _check_shape(name: str, table: Mapping[str, Any], file: str) -> None:
    place = f"[servers.{name}] in {file}"
    if ("command" in table) == ("url" in table):
        has = "both command and url" if "command" in table else "neither command nor url"
        raise ConfigError(f"{place} has {has}.", "A server has exactly one of them.")
    one = "command" if "command" in table else "url"
    if not table[one].strip():
        raise ConfigError(f"{place} has an empty {one}.")
    others = ("headers",) if one == "command" else ("args", "env", "cwd")
    for key in others:
        if key in table:
            raise ConfigError(f"{place} has {key}, which does not go with {one}.")
    transport = table.get("transport")
    if transport and (transport == "stdio") != (one == "command"):
        fitting = "stdio" if one == "command" else "http or sse"
        raise ConfigError(
            f'{place} has transport = "{transport}" with {one}.', f"With {one} it is {fitting}."
        )
    for key in table.get("headers", {}):
        if not _HEADER_NAME.fullmatch(key):
            raise ConfigError(f'{place} has a header name that cannot be: "{visible(key)}".')
    for key in table.get("env", {}):
        if not key or "=" in key or "\0" in key:
            raise ConfigError(f'{place} has a variable name that cannot be: "{visible(key)}".')


def _problems(
    command: str,
    args: tuple[str, ...],
    env: Mapping[str, str],
    url: str,
    headers: Mapping[str, str],
) -> Iterator[str]:
    """Yield what is wrong with the filled-in values, without quoting one."""
    if not url and not command.strip():
        yield "its command is empty once variables are filled in"
    if any("\0" in text for text in (command, *args, *env.values())):
        yield "a NUL character in command, args or env"
    if url and (wrong := wrong_url(url)):
        yield f"its url {wrong}"
    for key, value in headers.items():
        if not value.isascii() or any(ord(c) < 32 and c != "\t" for c in value):
            yield f"the header {key} has a line break or a character that is not ASCII"


def wrong_url(url: str) -> str:
    """Say what is wrong with an http address, completing "the url ..."; "" if nothing is."""
    if any(c.isspace() or not c.isprintable() for c in url):
        return "has white space or control characters in it"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "cannot be read as an address"
    if parts.scheme not in ("http", "https") or "://" not in url:
        return "does not begin with http:// or https://"
    if not parts.hostname:
        return "names no host"
    return "has port 0" if port == 0 else ""


def _folder(cwd: str, file: Path) -> str:
    """A relative folder is meant from the file that names it, not from where one happens to be."""
    try:
        return str(full_path(cwd, file.parent))
    except ConfigError:  # "~nobody": the start says that there is no such folder
        return cwd
