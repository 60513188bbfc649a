"""Reads a configuration file and checks its shape: keys, types, ranges; fills in nothing."""

from __future__ import annotations

import difflib
import hashlib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from local_agent.config.masking import visible
from local_agent.errors import ConfigError

LARGEST = 1_000_000  # bytes; a configuration has some thousand, /dev/zero has no end
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """What a key takes: `expected` completes "must be ...", `fits` says whether a value does.

    `show`: a wrong value may be quoted; not where one could have written a secret.
    """

    expected: str
    fits: Callable[[Any], bool]
    show: bool = False


@dataclass(frozen=True, slots=True)
class Document:
    """A checked file. `sha256` is of the bytes the tables were read from."""

    file: str = ""
    sha256: str = ""
    model: Values = field(default_factory=dict)
    context: Values = field(default_factory=dict)
    router: Values = field(default_factory=dict)
    routes: Mapping[str, Values] = field(default_factory=dict)
    servers: Mapping[str, Values] = field(default_factory=dict)
    memory: Values = field(default_factory=dict)
    repair: Values = field(default_factory=dict)


def _whole(least: int) -> Kind:
    return Kind(
        f"a whole number of at least {least}",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= least,
        show=True,
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _share(least: float, most: float) -> Kind:
    return Kind(
        f"a number from {least} to {most}",
        lambda value: _is_number(value) and least <= value <= most,
        show=True,
    )


def _choice(*words: str) -> Kind:
    listed = ", ".join(f'"{word}"' for word in words[:-1])
    expected = f'{listed} or "{words[-1]}"' if listed else f'"{words[-1]}"'
    return Kind(expected, lambda value: value in words, show=True)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_text_table(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


_TEXT = Kind("a string", lambda value: isinstance(value, str))
_NAME = Kind(
    "a string without control characters",
    lambda value: isinstance(value, str) and visible(value) == value,
)
_FLAG = Kind("true or false", lambda value: isinstance(value, bool))
_TEXTS = Kind("a list of strings", _is_texts)
_TEXT_TABLE = Kind('a table of strings, like { NAME = "value" }', _is_text_table)
_SECONDS = Kind(
    "a number of seconds above 0 and at most 86400",
    lambda value: _is_number(value) and 0 < value <= 86_400,
    show=True,
)

MODEL: Mapping[str, Kind] = {
    "base_url": _TEXT,
    "name": _NAME,
    "temperature": Kind(
        "a number from 0 to 2", lambda value: _is_number(value) and 0 <= value <= 2, show=True
    ),
    "context_length": _whole(256),
    "api_key": _TEXT,
    "embedded": _NAME,
    "parallel_calls": _FLAG,
    "json_schema": _FLAG,
    "profile": _FLAG,
    "strict_template": Kind(
        '"auto", true or false', lambda value: value == "auto" or isinstance(value, bool), show=True
    ),
}
CONTEXT: Mapping[str, Kind] = {
    "strategy": _choice("compact", "trim", "last", "all"),
    "step": _choice("cache", "turn"),
    "keep_turns": _whole(0),
    "keep_chars": _whole(0),
    "max_tokens": _whole(256),
    "reply_reserve": _whole(1),
    "high_water": _share(0.3, 1.0),
    "low_water": _share(0.05, 0.9),
    "result_share": _share(0.05, 0.9),
    "last_messages": _whole(1),
    "trim_tokens": _whole(256),
    "summary": _FLAG,
    "summary_tokens": _whole(32),
}
ROUTER: Mapping[str, Kind] = {
    "mode": _choice("auto", "words", "model", "off"),
    "max_tools": _whole(1),
    "shorten": _FLAG,
}
REPAIR: Mapping[str, Kind] = {"calls": _choice("all", "native", "exact"), "constrained": _FLAG}
MEMORY: Mapping[str, Kind] = {"key": _TEXT}
ROUTE: Mapping[str, Kind] = {"description": _TEXT, "tools": _TEXTS}
SERVER: Mapping[str, Kind] = {
    "command": _TEXT,
    "args": _TEXTS,
    "env": _TEXT_TABLE,
    "cwd": _TEXT,
    "url": _TEXT,
    "transport": _choice("stdio", "http", "sse"),
    "headers": _TEXT_TABLE,
    "enabled_tools": _TEXTS,
    "disabled_tools": _TEXTS,
    "read": _TEXTS,
    "write": _TEXTS,
    "startup_timeout_sec": _SECONDS,
    "tool_timeout_sec": _SECONDS,
    "enabled": _FLAG,
}
_TABLES = ("model", "context", "router", "routes", "servers", "memory", "repair")
_TABLES_LATER = frozenset({"approval"})


def content_hash(data: bytes) -> str:
    """SHA-256 of a configuration file's bytes, line ends taken as LF.

    A checkout on Windows may turn LF into CRLF. TOML reads both as the same line end, also in
    strings of several lines, so two files with one hash always mean the same.
    """
    return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()


def read_document(path: Path, *, named: bool = True) -> Document:
    """Read and check the file. Raises ConfigError, one line, for all that can be wrong with it.

    `named`: the user named it, so a pipe is read too (`--config <(...)`). One that was only found
    must be a plain file: nobody would write to a pipe that lies in a cloned folder.
    """
    if not named and path.exists() and not path.is_file() and not path.is_dir():
        raise ConfigError(f"The configuration {visible(str(path))} is not a plain file.")
    data = _read(path)
    file = visible(str(path))
    tables = _parse(data, file)
    check = _Check(file)
    check.keys("", tables, _TABLES, _TABLES_LATER)
    for name in _TABLES:
        if not isinstance(tables.setdefault(name, {}), dict):
            raise check.mismatch(name, f"a table, written [{name}]", tables[name])
    return Document(
        file=str(path),
        sha256=content_hash(data),
        model=check.table("model", tables["model"], MODEL),
        context=check.table("context", tables["context"], CONTEXT),
        router=check.table("router", tables["router"], ROUTER),
        routes=check.named("routes", tables["routes"], ROUTE),
        servers=check.named("servers", tables["servers"], SERVER),
        memory=check.table("memory", tables["memory"], MEMORY),
        repair=check.table("repair", tables["repair"], REPAIR),
    )


def _read(path: Path) -> bytes:
    file = visible(str(path))
    try:
        if path.is_dir():  # Windows says "permission denied" to the open below
            raise ConfigError(f"The configuration {file} is a folder.", "Name the file in it.")
        with path.open("rb") as stream:
            data = stream.read(LARGEST + 1)
    except FileNotFoundError as exc:
        raise ConfigError(f"There is no configuration file {file}.") from exc
    except PermissionError as exc:
        raise ConfigError(f"The configuration {file} cannot be read: permission denied.") from exc
    except (OSError, ValueError) as exc:  # ValueError: a NUL in the path
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else "not a file name"
        raise ConfigError(f"The configuration {file} cannot be read: {reason}.") from exc
    if len(data) > LARGEST:
        raise ConfigError(f"{file} is larger than 1 MB and so no configuration file.")
    return data


def _parse(data: bytes, file: str) -> dict[str, Any]:
    try:
        text = data.decode("utf-8-sig")  # some editors put a byte order mark in front
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise ConfigError(f"{file} line {line} is not UTF-8.", "Save the file as UTF-8.") from exc
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(_syntax(str(exc), text, file)) from exc
    except (ValueError, RecursionError) as exc:
        # A number of thousands of digits; brackets a thousand deep.
        raise ConfigError(f"{file} has a value that cannot be read.") from exc


def _syntax(said: str, text: str, file: str) -> str:
    """The parser's sentence with the line in front; it quotes keys, but never a value."""
    reason, _, place = said.rpartition(" (at ")
    found = re.search(r"line (\d+)", place)
    # "end of document" is where the parser stood, so the last line that is not blank is meant.
    line = int(found[1]) if found else text.rstrip().count("\n") + 1
    return visible(f"{file} line {line} is not valid TOML: {reason or said}.")


@dataclass(frozen=True, slots=True)
class _Check:
    """The checks of one file, each raising the ConfigError that names it."""

    file: str

    def named(self, group: str, tables: Values, kinds: Mapping[str, Kind]) -> dict[str, Values]:
        """Check [group.NAME] tables and their names."""
        checked = {}
        for name, table in tables.items():
            if not NAME.fullmatch(name):
                raise ConfigError(
                    f'The name "{_short(name)}" in [{group}] of {self.file} cannot be.',
                    "A name has 1 to 64 of the characters A-Z a-z 0-9 _ and -.",
                )
            if not isinstance(table, dict):
                hint = f"a table, written [{group}.{name}]"
                raise self.mismatch(f"{group}.{name}", hint, table)
            checked[name] = self.table(f"{group}.{name}", table, kinds)
        return checked

    def table(self, place: str, table: Values, kinds: Mapping[str, Kind]) -> Values:
        """Check the keys of one table and the value of each."""
        self.keys(place, table, kinds)
        for key, value in table.items():
            kind = kinds[key]
            if not kind.fits(value):
                raise self.mismatch(f"{place}.{key}", kind.expected, value, kind.show)
        return table

    def keys(
        self, place: str, table: Values, known: Iterable[str], later: frozenset[str] = frozenset()
    ) -> None:
        """Check that all keys are known ones."""
        known = list(known)
        for key in table:
            if key in known:
                continue
            if key in later:
                raise self.not_yet(f"{place}.{key}" if place else f"[{key}]")
            where = f"in [{place}] of {self.file}" if place else f"in {self.file}"
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
            hint = f'Did you mean "{near[0]}"?' if near else f"Known: {', '.join(known)}."
            raise ConfigError(f'Unknown key "{_short(key)}" {where}.', hint)

    def not_yet(self, what: str) -> ConfigError:
        """The answer to a word that is reserved for a later version."""
        return ConfigError(
            f"{what} in {self.file} is not in this version yet.", "Take it out for now."
        )

    def mismatch(self, key: str, expected: str, value: Any, show: bool = False) -> ConfigError:
        """The answer to a value of the wrong type or out of range."""
        return ConfigError(f"{key} in {self.file} must be {expected}, not {_got(value, show)}.")


def _got(value: Any, show: bool) -> str:
    if show and isinstance(value, str):
        return f'"{_short(value)}"'
    if show and _is_number(value):
        return _short(str(value))
    if isinstance(value, list):
        odd = next((item for item in value if not isinstance(item, str)), None)
        return "a list" if odd is None else f"a list with {_type_name(odd)} in it"
    if isinstance(value, dict):
        name = next((key for key, item in value.items() if not isinstance(item, str)), None)
        inner = f" where {_short(name)} is {_type_name(value[name])}" if name is not None else ""
        return "a table" + inner
    return _type_name(value)


def _type_name(value: Any) -> str:
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}
    names |= {list: "a list", dict: "a table"}
    return names.get(type(value), "a date or time")


def _short(text: str) -> str:
    text = visible(text)
    return text if len(text) <= 60 else text[:59] + "…"
