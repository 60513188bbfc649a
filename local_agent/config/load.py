"""Puts the settings together: flags > environment > file > default."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from local_agent.config.address import normalize_base_url
from local_agent.config.document import Document, read_document
from local_agent.config.masking import url_secrets, visible
from local_agent.config.outline import outline
from local_agent.config.places import Folders, Places, full_path, locate, user_folders
from local_agent.config.servers import server_spec
from local_agent.config.settings import (
    DEFAULT_MAX_STEPS,
    DEFAULT_THREAD,
    ContextSettings,
    Flags,
    MemorySettings,
    ModelSettings,
    OnApproval,
    RepairSettings,
    RouterSettings,
    RouteSpec,
    ServerSpec,
    Settings,
)
from local_agent.config.variables import Filler
from local_agent.errors import AgentError, ConfigError, UsageError

EMBEDDED = "embedded"
SHORTEST_KEY = 8  # characters of [memory] key
_ON_APPROVAL: Mapping[str, OnApproval] = {
    "ask": "ask",
    "park": "park",
    "deny": "deny",
    "allow": "allow",
}


def load_settings(
    flags: Flags, environ: Mapping[str, str], cwd: Path, folders: Folders | None = None
) -> Settings:
    """Return the settings of a run in folder `cwd`. Reads the configuration file, nothing else.

    `folders` are the user's own (default: as the system has them). Raises UsageError for an option
    that cannot be, ConfigError for the environment and the file. Does not ask about trust: call
    `local_agent.trust.check_trust` before anything of the result is used.
    """
    cwd = Path(cwd).absolute()
    places = locate(flags, environ, cwd, folders or user_folders())
    named = places.found in ("flag", "environment")
    document = read_document(places.config, named=named) if places.config else Document()
    origins = {"config_path": places.config_origin, "db": places.db_origin, "log_dir": "default"}
    pick = _Pick(flags, environ, document, places, cwd, origins)
    return Settings(
        model=_model(pick),
        context=_context(pick),
        router=RouterSettings(**pick.table("router", document.router, RouterSettings)),
        routes=_routes(pick),
        servers=_servers(pick),
        db=places.db,
        config_path=places.config,
        log_dir=places.log_dir,
        memory=_memory(pick),
        repair=RepairSettings(**pick.table("repair", document.repair, RepairSettings)),
        thread=_thread(pick),
        route=_route(pick),
        max_steps=_max_steps(pick),
        timeout=_timeout(pick),
        on_approval=_on_approval(pick),
        ephemeral=bool(pick.flag("ephemeral", flags.ephemeral, False)),
        origins=origins,
        config_found=places.found,
        config_sha256=document.sha256,
        outline=tuple(outline(document, places.db)) if places.config else (),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Pick:
    """Chooses among the sources and writes down in `origins` which one it was."""

    flags: Flags
    environ: Mapping[str, str]
    document: Document
    places: Places
    cwd: Path
    origins: dict[str, str]
    filled: list[str] = dataclasses.field(default_factory=list)  # secrets among the variables

    def flag(self, key: str, given: Any, default: Any) -> Any:
        """An option that has neither a variable nor a place in the file."""
        option = "--" + key.replace("_", "-")
        self.origins[key] = "default" if given is None else option
        return default if given is None else given

    def text(self, key: str, option: str, given: str | None, variable: str) -> str | None:
        """Flag > variable > file, for a text; None if in none of them. The file's is filled in."""
        if given is not None:
            self.origins[key] = option
            return given
        if variable and self.environ.get(variable):
            self.origins[key] = variable
            return self.environ[variable]
        table, _, name = key.partition(".")
        if table == "model" and name in self.document.model:
            self.origins[key] = self.document.file
            return self.fill(key, str(self.document.model[name]))
        self.origins[key] = "default"
        return None

    def fill(self, key: str, template: str) -> str:
        """Fill in the variables of a text of [model], which the whole run needs."""
        filler = Filler(self.environ)
        value = filler.fill(template)
        if problem := filler.problem():
            raise ConfigError(f"{key} in {visible(self.document.file)}: {problem}.")
        self.filled.extend(filler.values)
        return value

    def table(self, prefix: str, values: Mapping[str, Any], shape: type) -> dict[str, Any]:
        """The values of a table that only the file has; writes an origin for every field."""
        for item in dataclasses.fields(shape):
            source = self.document.file if item.name in values else "default"
            self.origins[f"{prefix}.{item.name}"] = source
        return dict(values)


def _model(pick: _Pick) -> ModelSettings:
    values = pick.table("model", pick.document.model, ModelSettings)
    default = ModelSettings()
    file_dir = pick.places.config.parent if pick.places.config else pick.cwd
    name = pick.text("model.name", "--model", pick.flags.model, "AGENT_MODEL") or ""
    weights = pick.text("model.embedded", "", None, "") or ""
    weights = str(full_path(weights, file_dir)) if weights else ""
    if name.startswith(EMBEDDED + ":"):
        origin = pick.origins["model.name"]
        base = file_dir if origin == pick.document.file else pick.cwd
        given = name.removeprefix(EMBEDDED + ":")
        if not given:
            raise _error(origin)(f'{_from(origin)} names no file after "{EMBEDDED}:".')
        name, weights = EMBEDDED, str(full_path(given, base))
        pick.origins["model.embedded"] = origin
    if visible(name) != name:
        raise _error(origin := pick.origins["model.name"])(
            f"The model name of {_from(origin)} has control characters in it."
        )
    key = _api_key(pick)
    url = _base_url(pick) or default.base_url
    return ModelSettings(
        base_url=url,
        name=name,
        temperature=float(values.get("temperature", default.temperature)),
        context_length=values.get("context_length"),
        api_key=key,
        embedded=weights,
        parallel_calls=values.get("parallel_calls"),
        json_schema=values.get("json_schema", default.json_schema),
        profile=values.get("profile", default.profile),
        strict_template=values.get("strict_template", default.strict_template),
        secrets=_model_secrets(key, url, name, weights, pick.filled),
    )


def _model_secrets(
    key: str, url: str, name: str, weights: str, filled: list[str]
) -> tuple[str, ...]:
    """A key in the path of the address is one too; host, model and file are in every message."""
    host = urlsplit(url).netloc.rpartition("@")[2]
    shown = (host, name, weights)
    secrets = {
        value for value in filled if "://" not in value and not any(value in s for s in shown)
    }
    return tuple(sorted((secrets | {key, *url_secrets(url)}) - {""}))


def _base_url(pick: _Pick) -> str:
    given = pick.text("model.base_url", "--base-url", pick.flags.base_url, "AGENT_BASE_URL")
    if given is None:
        return ""
    url, wrong = normalize_base_url(given)
    if wrong:
        origin = pick.origins["model.base_url"]
        raise _error(origin)(
            f"The base_url of {_from(origin)} {wrong}.", "Write it like http://127.0.0.1:1234/v1"
        )
    return url


def _api_key(pick: _Pick) -> str:
    key = (pick.text("model.api_key", "", None, "LM_API_TOKEN") or "").strip()
    if key and (not key.isascii() or not key.isprintable()):
        origin = _from(pick.origins["model.api_key"])
        raise ConfigError(f"The api_key of {origin} has characters that a header cannot carry.")
    return key


def _context(pick: _Pick) -> ContextSettings:
    values = pick.table("context", pick.document.context, ContextSettings)
    context = ContextSettings(**values)
    file = visible(pick.document.file)
    if context.low_water >= context.high_water:
        raise ConfigError(
            f"context.low_water in {file} must be less than high_water ({context.high_water:g}).",
            f"It is {context.low_water:g}.",
        )
    if context.trim_tokens is not None and context.trim_tokens > context.max_tokens:
        raise ConfigError(
            f"context.trim_tokens in {file} must be at most max_tokens ({context.max_tokens})."
        )
    if context.reply_reserve is not None and context.reply_reserve >= context.max_tokens:
        raise ConfigError(
            f"context.reply_reserve in {file} must be less than max_tokens ({context.max_tokens})."
        )
    return context


def load_memory_key(
    flags: Flags, environ: Mapping[str, str], cwd: Path, folders: Folders | None = None
) -> str:
    """Return [memory] key alone, "" where there is none, for what only looks into the database.

    What else of the configuration is not set, or not trusted, does not matter for that. Raises as
    `load_settings` does for what it reads.
    """
    cwd = Path(cwd).absolute()
    places = locate(flags, environ, cwd, folders or user_folders())
    named = places.found in ("flag", "environment")
    document = read_document(places.config, named=named) if places.config else Document()
    return _memory(_Pick(flags, environ, document, places, cwd, {})).key


def _memory(pick: _Pick) -> MemorySettings:
    values = pick.table("memory", pick.document.memory, MemorySettings)
    key = pick.fill("memory.key", str(values["key"])) if "key" in values else ""
    if key and len(key) < SHORTEST_KEY:
        file, least = visible(pick.document.file), SHORTEST_KEY
        raise ConfigError(f"memory.key in {file} has fewer than {least} characters.")
    return MemorySettings(key)


def _routes(pick: _Pick) -> tuple[RouteSpec, ...]:
    routes = []
    for name, table in pick.document.routes.items():
        values = pick.table(f"routes.{name}", table, RouteSpec)
        tools = tuple(values.get("tools", ()))
        routes.append(RouteSpec(name, values.get("description", ""), tools))
    return tuple(routes)


def _servers(pick: _Pick) -> tuple[ServerSpec, ...]:
    servers = []
    for name, table in pick.document.servers.items():
        pick.table(f"servers.{name}", table, ServerSpec)
        servers.append(server_spec(name, table, pick.environ, Path(pick.document.file)))
    return tuple(servers)


def _thread(pick: _Pick) -> str:
    given = pick.text("thread", "--thread", pick.flags.thread, "AGENT_THREAD")
    thread = DEFAULT_THREAD if given is None else given
    check_thread_name(thread, _from(pick.origins["thread"]))
    return thread


def check_thread_name(name: str, origin: str = "--thread") -> None:
    """Raise UsageError unless `name` has 1 to 200 characters and no control character."""
    if not 1 <= len(name) <= 200:
        size = f"{len(name)} characters" if name else "no character"
        raise UsageError(f"The thread name of {origin} has {size}.", "It may have 1 to 200.")
    # Surrogates: bytes of the command line that are no text, which no database would keep.
    if any(ord(c) < 32 or 127 <= ord(c) < 160 or 0xD800 <= ord(c) < 0xE000 for c in name):
        raise UsageError(f"The thread name of {origin} has control characters in it.")


def _route(pick: _Pick) -> str:
    route = str(pick.flag("route", pick.flags.route, ""))
    if visible(route) != route:
        raise UsageError("The name of --route has control characters in it.")
    return route


def _max_steps(pick: _Pick) -> int:
    steps = int(pick.flag("max_steps", pick.flags.max_steps, DEFAULT_MAX_STEPS))
    if steps < 1:
        raise UsageError(f"--max-steps must be at least 1, not {steps}.")
    return steps


def _timeout(pick: _Pick) -> float | None:
    seconds = pick.flag("timeout", pick.flags.timeout, None)
    if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
        raise UsageError(f"--timeout must be a number of seconds above 0, not {seconds:g}.")
    return None if seconds is None else float(seconds)


def _on_approval(pick: _Pick) -> OnApproval | None:
    given = pick.flag("on_approval", pick.flags.on_approval, None)
    if given is None:
        return None
    if given not in _ON_APPROVAL:
        raise UsageError(f'--on-approval takes ask, park, deny or allow, not "{visible(given)}".')
    return _ON_APPROVAL[given]


def _from(origin: str) -> str:
    return visible(origin)


def _error(origin: str) -> type[AgentError]:
    return UsageError if origin.startswith("--") else ConfigError
