"""The settings as frozen values; reads nothing and decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from agent_core.limits import Limits, ViewSettings
from local_agent.config.masking import show_url

Transport = Literal["stdio", "http", "sse"]
RouterMode = Literal["auto", "words", "model", "off"]
RepairCalls = Literal["all", "native", "exact"]
OnApproval = Literal["ask", "park", "deny", "allow"]
# How the configuration file was come by; only "folder" needs a trust of its own.
Found = Literal["flag", "environment", "folder", "user", "none"]

FILE_NAME = "mcp_servers.toml"
DEFAULT_THREAD = "default"
DEFAULT_MAX_STEPS = Limits().max_steps


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """One table of [servers]. Either `command` or `url` is set, never both.

    `problem` is one line and non-empty when the server cannot be started as it stands (a variable
    that is not set, say); such a server is reported and the others are used. `secrets` are values
    that must never be shown: see `mask`. Globs are over the server's own tool names; `read` and
    `write` override its `readOnlyHint` in both directions.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)  # repr ends up in logs
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str = ""
    url: str = field(default="", repr=False)
    transport: Transport = "stdio"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    enabled_tools: tuple[str, ...] = ("*",)
    disabled_tools: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    startup_timeout_sec: float = 10.0
    tool_timeout_sec: float = 60.0
    enabled: bool = True
    problem: str = ""
    secrets: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """[model]. `name` "embedded" means the server that we start ourselves, with the weights of
    `embedded` (a path; empty: the small model of the user's data folder). `parallel_calls` is what
    is sent as parallel_tool_calls, None for nothing; `json_schema` whether the server holds answers
    to a schema, `profile` whether the profile of the model sets limits. `strict_template`: whether
    messages go in a form that strict chat templates take; "auto": once one refuses them. `secrets`
    as in ServerSpec."""

    base_url: str = field(default="http://127.0.0.1:1234/v1", repr=False)
    name: str = ""
    temperature: float = 0.0
    context_length: int | None = None
    api_key: str = field(default="", repr=False)
    embedded: str = ""
    parallel_calls: bool | None = None
    json_schema: bool = True
    profile: bool = True
    strict_template: bool | Literal["auto"] = "auto"
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def address(self) -> str:
        """`base_url` as it may be shown: without a login, without the values of a query."""
        return show_url(self.base_url)


@dataclass(frozen=True, slots=True)
class ContextSettings(ViewSettings):
    """[context]: how views are made, and what of the context is used, in tokens; None where the
    program chooses."""

    max_tokens: int = 8192
    reply_reserve: int | None = None


@dataclass(frozen=True, slots=True)
class RouterSettings:
    """[router]. `max_tools` is how many tools a prompt has at most; `shorten`: what servers say of
    their tools is shortened for the prompt."""

    mode: RouterMode = "auto"
    max_tools: int = 12  # more than this a 7B model chooses badly from
    shorten: bool = True


@dataclass(frozen=True, slots=True)
class RepairSettings:
    """[repair]. `calls`: "all" reads calls that were written as text and mends those that are
    slightly wrong, "native" only the second, "exact" neither, and takes a call that is made again
    for a new one. `constrained`: the arguments of a
    call that went wrong twice are asked for once more, held to their schema."""

    calls: RepairCalls = "all"
    constrained: bool = True


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """[memory]. With a `key` what is kept is encrypted by it; empty: it is not."""

    key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class RouteSpec:
    """One table of [routes]; `tools` are globs over the names the model sees or "server/tool"."""

    name: str
    description: str = ""
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Flags:
    """What was given on the command line; None where an option was not given."""

    config: str | None = None
    db: str | None = field(default=None, repr=False)
    thread: str | None = None
    model: str | None = None
    base_url: str | None = field(default=None, repr=False)
    route: str | None = None
    max_steps: int | None = None
    timeout: float | None = None
    on_approval: str | None = None
    ephemeral: bool | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """All that a run needs to know, and where each value came from.

    `on_approval` None: ask at a terminal, park elsewhere. `timeout` is seconds for one turn, None
    for no limit. `origins` maps "model.base_url" and the like to the option, the variable, the
    file or "default". `config_sha256` and `outline` are of the very bytes that were read, so that
    nobody is asked to trust one content and given another.
    """

    model: ModelSettings
    context: ContextSettings
    router: RouterSettings
    routes: tuple[RouteSpec, ...]
    servers: tuple[ServerSpec, ...]
    db: Path
    config_path: Path | None
    log_dir: Path
    memory: MemorySettings = field(default_factory=MemorySettings)
    repair: RepairSettings = field(default_factory=RepairSettings)
    thread: str = DEFAULT_THREAD
    route: str = ""
    max_steps: int = DEFAULT_MAX_STEPS
    timeout: float | None = None
    on_approval: OnApproval | None = None
    ephemeral: bool = False
    origins: Mapping[str, str] = field(default_factory=dict)
    config_found: Found = "none"
    config_sha256: str = ""
    outline: tuple[str, ...] = ()

    @property
    def files_dir(self) -> Path:
        """The folder beside the database that is deleted with it."""
        return self.db.with_name(self.db.name + ".files")

    @property
    def keeps_prompts(self) -> bool:
        """Whether what is typed may lie in a file in the clear."""
        return not self.ephemeral and not self.memory.key

    @property
    def history_file(self) -> Path:
        """What was typed at the prompt. It lies in `files_dir`: who forgets a database must not
        be remembered by a history elsewhere."""
        return self.files_dir / "prompt_history"
