"""Says in plain lines what a configuration file would start, and what it sends where."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from local_agent.config.document import Document
from local_agent.config.masking import MASK, argument_secrets, mask, show_url, visible
from local_agent.config.variables import variable_names


def outline(document: Document, db: Path) -> Iterator[str]:
    """Yield the lines, from the texts as they stand in the file: variables by name, no values.

    Written for the question whether a file of unknown origin is to be trusted, so it leaves out
    nothing that would happen, and no character of the file can hide another.
    """
    for name, table in document.servers.items():
        if not table.get("enabled", True):
            yield f"does not start {name} (enabled = false)"
        else:
            yield from _server(name, table)
    yield from _model(document.model)
    yield from _named("memory", "encrypts with", [str(document.memory.get("key", ""))])
    yield visible(f"keeps conversations in {db}, unless told otherwise")


def _server(name: str, table: Mapping[str, Any]) -> Iterator[str]:
    if "url" in table:
        yield f"{name}: sends the arguments of its tools to {show_url(table['url'])}"
        yield from _given(name, "sends the header", table.get("headers", {}))
        yield from _named(name, "fills into the address", [table["url"]])
    else:
        args = table.get("args", [])
        literal = {value for value in argument_secrets(args) if "${" not in value}
        line = " ".join(_quoted(part, literal) for part in (table["command"], *args))
        where = f" in the folder {table['cwd']}" if table.get("cwd") else ""
        yield visible(f"{name}: starts the program {line}{where}")
        yield from _given(name, "gives it the variable", table.get("env", {}))
        yield from _named(name, "fills into the command", [table["command"], *args])
    if table.get("read"):
        yield visible(f"{name}: runs without asking {', '.join(table['read'])} (read = [...])")


def _quoted(part: str, secrets: set[str]) -> str:
    """Mask, then quote: quoting first would take a secret apart. *** alone needs no quotes."""
    part = MASK if part in secrets else mask(part, secrets)
    plain = part.replace(MASK, "x")
    return part if shlex.quote(plain) == plain else shlex.quote(part)


def _given(name: str, does: str, values: Mapping[str, str]) -> Iterator[str]:
    for key, template in values.items():
        names = variable_names(template)
        source = f", made of your {', '.join(names)}" if names else ""
        yield visible(f"{name}: {does} {key}{source}")


def _named(name: str, does: str, templates: list[str]) -> Iterator[str]:
    names = [found for template in templates for found in variable_names(template)]
    if names:
        yield f"{name}: {does} your {', '.join(dict.fromkeys(names))}"


def _model(model: Mapping[str, Any]) -> Iterator[str]:
    if "base_url" in model:
        names = variable_names(str(model["base_url"]))
        source = f" (made of your {', '.join(names)})" if names else ""
        yield f"model: sends the whole conversation to {show_url(model['base_url'])}{source}"
    names = variable_names(str(model.get("api_key", "")))
    if names:
        yield f"model: sends your {', '.join(names)} to the model server as the key"
    if "base_url" in model:
        yield "model: sends your LM_API_TOKEN to it as the key, if that is set"
    weights = str(model.get("embedded", ""))
    if weights or str(model.get("name", "")).startswith("embedded"):
        yield visible(f"model: can load the weights {weights or model['name']}")
