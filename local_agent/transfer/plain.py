"""Any stored value as JSON and back, without loss: what JSON cannot say stands under a "$" key."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from typing import Any

_MARK = "$"
DEEPEST = 200  # levels of lists and objects; LangGraph's msgpack takes 1,000
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1  # whole numbers that msgpack can hold


class NotPlain(ValueError):
    """A value that cannot be stored, or a "$" key that says nothing; one line, no full stop."""


def to_plain(value: Any, as_text: Callable[[Any], None] = lambda value: None) -> Any:
    """`value` made of what JSON has. Of another kind than the stored ones it becomes its text.

    That is lossy, and `as_text` is told of each.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, bytes | bytearray):
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            pairs = [[to_plain(k, as_text), to_plain(v, as_text)] for k, v in value.items()]
            return {"$pairs": pairs}
        plain = {key: to_plain(item, as_text) for key, item in value.items()}
        return {"$object": plain} if _is_marked(plain) else plain
    if isinstance(value, list | tuple):
        return [to_plain(item, as_text) for item in value]
    as_text(value)
    return str(value)


def from_plain(value: Any, *, marks: bool = True) -> Any:
    """What `to_plain` was given, lists for tuples. Raises NotPlain.

    Without `marks` a "$" is a sign like any other, as in what other programs write.
    """
    if isinstance(value, list):
        return [from_plain(item, marks=marks) for item in value]
    if isinstance(value, dict):
        if marks and _is_marked(value):
            return _unmarked(*next(iter(value.items())))
        return {storable(key): from_plain(item, marks=marks) for key, item in value.items()}
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, int) and not _SMALLEST <= value <= _LARGEST:
        raise NotPlain("has a whole number of more than 64 bits")
    return value


def storable(text: str) -> str:
    """`text` as UTF-8 takes it: halves of a pair that stand alone, as in "\\ud800", are U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def depth_of(value: Any, deepest: int = DEEPEST) -> int:
    """How many levels of lists and objects `value` has; more than `deepest` are not counted."""
    depth, level = 0, [value]
    while level and depth <= deepest:
        inner = [v for v in level if isinstance(v, dict | list)]
        level = [x for v in inner for x in (v.values() if isinstance(v, dict) else v)]
        depth += bool(inner)
        if not inner:
            break
    return depth


def _is_marked(value: Mapping[str, Any]) -> bool:
    return len(value) == 1 and next(iter(value)).startswith(_MARK)


def _unmarked(mark: str, value: Any) -> Any:
    try:
        if mark == "$bytes":
            return base64.b64decode(value, validate=True)
        if mark == "$float":
            return {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[value]
        if mark == "$object" and isinstance(value, dict):
            return {storable(key): from_plain(item) for key, item in value.items()}
        if mark == "$pairs":
            return {from_plain(key): from_plain(item) for key, item in value}
    except NotPlain:
        raise
    except (binascii.Error, KeyError, TypeError, ValueError) as exc:
        raise NotPlain(f'has a "{mark}" that cannot be read') from exc
    raise NotPlain(f'has the unknown mark "{mark[:20]}"')
