"""Calls that only the names of the tools tell from a text: `{"tool": {…}}`, `<tool>…</tool>`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from . import json_text
from .names import match
from .tools import KnownTool, properties, required
from .written import Written, is_schema, pairs

_CHILD = re.compile(r"<(?P<a>[A-Za-z_][\w.-]*)>")
_LONGEST = 2_000  # characters of a text that may be a call in a form that is not known
_NAME = r"[A-Za-z_][\w.:/-]{0,127}"
# A reply that is markup around the name of a tool: signs, perhaps a label, the name, and brackets.
_MARKUP = re.compile(
    r"[^\w\s`>$]{0,4}[ \t]*"
    r"(?:(?:tool|function|call|action|name)[\"'*_]*[ \t]*[ :=][ \t]*[^\w\s`]?){0,2}"
    rf"(?P<name>{_NAME})[*_\"']{{0,4}}[ \t]*(?:[({{\[<>=:,]|→|->|path=|\w+=)[^\n]*"
    r"(?:\n(?!\s*\n).*)*[)}\]>]\s*\Z",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Tagged:
    """A call between tags with the name of a tool, from `start` to `end`; broken: why not."""

    start: int
    end: int
    call: Written
    broken: str = ""


def keyed(body: str, tools: Sequence[KnownTool]) -> list[Written]:
    """The calls that `{"tool": {arguments}}` is, or a list of such; none where anything else.

    The arguments have to be those that the tool takes, so that data of that name are no call.
    """
    try:
        value = json_text.loads(body.strip())
    except (ValueError, RecursionError):
        return []
    entries = value if isinstance(value, list) else [value]
    calls = [call for entry in entries for call in _of_entry(entry, tools)]
    return calls if len(calls) == len(entries) else []


def _of_entry(entry: Any, tools: Sequence[KnownTool]) -> Iterator[Written]:
    if not isinstance(entry, Mapping) or len(entry) != 1:
        return
    ((name, args),) = entry.items()
    tool = next((tool for tool in tools if tool.name == name), None)
    if tool is not None and isinstance(args, Mapping) and not is_schema(args) and takes(tool, args):
        yield Written(name, args, closed=True)


def takes(tool: KnownTool, args: Mapping[str, Any]) -> bool:
    """Whether these are names of arguments of the tool, and all that it needs."""
    return set(required(tool.schema)) <= set(args) <= set(properties(tool.schema))


def tagged(text: str, tools: Sequence[KnownTool]) -> Tagged | None:
    """The first call in `text` as Cline writes it, `<tool><argument>value</argument></tool>`."""
    opening = _opening(tuple(tool.name for tool in tools)).search(text) if tools else None
    if opening is None:
        return None
    name, start, body_at = opening["name"], opening.start("tag"), opening.end()
    closing = re.compile(rf"</{re.escape(name)}>").search(text, body_at)
    if closing is None:
        body = text[body_at:].strip()
        is_call = body[:1] == "{" or bool(_CHILD.match(body))
        call = Written(name, None)
        return Tagged(start, len(text), call, "it does not end") if is_call else None
    call_text = text[body_at : closing.start()].strip()
    tool = next(tool for tool in tools if tool.name == name)
    if call_text.startswith("{"):
        return Tagged(start, closing.end(), Written(name, call_text, True))
    args = pairs(call_text, _CHILD, "</{a}>")
    if takes(tool, args) and bool(args) == bool(call_text):
        return Tagged(start, closing.end(), Written(name, args, texts=True))
    if _CHILD.match(call_text):
        broken = "what stands in it are not the arguments of the tool"
        return Tagged(start, closing.end(), Written(name, None), broken)
    return None


@lru_cache(maxsize=16)
def _opening(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"^[ \t]*(?P<tag><(?P<name>{'|'.join(map(re.escape, names))})>)", re.M)


def named_in_markup(text: str, tools: Sequence[KnownTool]) -> str:
    """The tool that a reply names which is nothing but markup around that name; "" for none.

    Whole JSON may be the data that was asked for.
    """
    text = text.strip()
    found = _MARKUP.match(text) if len(text) < _LONGEST and not _is_json(text) else None
    tool = match(found["name"], tools) if found else None
    return tool.name if tool else ""


def _is_json(text: str) -> bool:
    try:
        json_text.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
