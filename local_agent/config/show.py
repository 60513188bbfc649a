"""Every setting with where it came from, for people: secrets masked whatever their length."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from local_agent.config.masking import MASK, mask, show_url, visible
from local_agent.config.settings import ServerSpec, Settings

_RUN = ("thread", "route", "max_steps", "timeout", "on_approval", "ephemeral", "db", "log_dir")
_NOT_SHOWN = ("name", "secrets")
_OF_URL = ("url", "headers")
_OF_COMMAND = ("command", "args", "env", "cwd")


@dataclasses.dataclass(frozen=True, slots=True)
class Shown:
    """One setting: a dotted key, a value of plain JSON types, and its origin."""

    key: str
    value: Any
    origin: str


def secrets_of(settings: Settings) -> tuple[str, ...]:
    """Return all values that must never be shown: of model, memory and servers; for `mask`."""
    found = {*settings.model.secrets, settings.memory.key} - {""}
    for server in settings.servers:
        found.update(server.secrets)
    return tuple(sorted(found))


def shown(settings: Settings) -> Iterator[Shown]:
    """Yield every setting in the order of the file, then those of this run."""
    secrets = secrets_of(settings)
    for table in ("model", "context", "router", "repair", "memory"):
        values = getattr(settings, table)
        for item in dataclasses.fields(values):
            value = getattr(values, item.name)
            if item.name == "secrets":
                continue
            if item.name in ("api_key", "key") and value:
                value = MASK
            elif item.name == "base_url":
                value = show_url(value)
            yield _one(settings, f"{table}.{item.name}", value, secrets)
    for route in settings.routes:
        for key in ("description", "tools"):
            value = getattr(route, key)
            yield _one(settings, f"routes.{route.name}.{key}", value, secrets)
    for server in settings.servers:
        yield from _server(settings, server, secrets)
    for key in _RUN:
        yield _one(settings, key, getattr(settings, key), secrets)


def _server(settings: Settings, server: ServerSpec, secrets: tuple[str, ...]) -> Iterator[Shown]:
    for item in dataclasses.fields(server):
        value = getattr(server, item.name)
        if item.name in _NOT_SHOWN or (item.name == "problem" and not value):
            continue
        # What does not go with this kind of server is not set and would only be noise.
        if item.name in (_OF_URL if server.command else _OF_COMMAND):
            continue
        if item.name in ("env", "headers"):
            value = dict.fromkeys(value, MASK)
        elif item.name == "url":
            value = show_url(value)
        elif item.name == "args":
            value = [MASK if arg in server.secrets else arg for arg in value]
        yield _one(settings, f"servers.{server.name}.{item.name}", value, secrets)


def _one(settings: Settings, key: str, value: Any, secrets: tuple[str, ...]) -> Shown:
    return Shown(key, _plain(value, secrets), settings.origins.get(key, "default"))


def _plain(value: Any, secrets: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {visible(name): item for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, secrets) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return visible(mask(str(value), secrets))
