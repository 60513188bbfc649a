"""Text that can be shown and stored: without lone surrogates, NUL and terminal escapes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def storable(text: str) -> str:
    """Give `text` as UTF-8, JSON and SQLite take it: surrogate pairs joined, the rest U+FFFD."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def storable_value(value: Any) -> Any:
    """Give a JSON value with every string in it, keys too, made `storable`."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {storable(str(key)): storable_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable_value(item) for item in value]
    return value


def plain(text: str) -> str:
    """Give `text` without terminal escapes and control characters; tab and newline stay."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text))


def one_line(text: str, limit: int = 300) -> str:
    """Give `text` as one line of at most `limit` characters, without control characters."""
    line = " ".join(plain(storable(text)).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
