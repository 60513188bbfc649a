"""JSON in fewer characters that is still JSON: long texts cut, arrays by first and last items.

What is left out is said inside: `"… 117 items left out …"` in an array, `"…": "90 keys left out"`
in an object, `…(+480)` at the end of a text. A line before the value says what it was.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent_clip_text import shorten

# Longest text and most keys tried, from generous to bare; the number of items is searched in each.
_STEPS = ((2000, 200), (600, 100), (240, 60), (120, 40), (60, 30), (30, 20), (12, 12))
_ROWS_WANTED = 6  # a step is good enough if it shows so many items of each array
_DEEPEST = 60  # levels; what lies deeper is named by its shape


class _TooLong(Exception):
    """The value does not fit at this step."""


def clip_json(text: str, chars: int) -> str | None:
    """`text` as shorter JSON behind a line that says what it was, or None if it is not JSON."""
    value = parse(text)
    if not isinstance(value, (list, dict)):
        return None
    note = f"[JSON, {len(text)} characters, shortened: {_outline(value)}]\n"
    if len(note) > chars // 2:
        note = f"[JSON, {len(text)} characters, shortened: {_size(value)}]\n"
    best = _fit(value, chars - len(note))
    return None if best is None else note + best


def parse(text: str) -> Any:
    """The value of a JSON text or of lines of JSON objects (as a list); None if it is neither."""
    bare = text.strip()
    if not bare or bare[0] not in "[{":
        return None
    try:
        return json.loads(bare)
    except (ValueError, RecursionError):
        pass
    try:
        rows = [json.loads(line) for line in bare.splitlines() if line.strip()]
    except (ValueError, RecursionError):
        return None
    return rows if len(rows) > 1 and all(isinstance(row, dict) for row in rows) else None


def _fit(value: Any, room: int) -> str | None:
    """The fullest form of `value` in `room` characters, or None if even the barest is longer."""
    best: str | None = None
    for longest, keys in _STEPS:
        rows, shown = 0, None
        low, high = 0, max(room // 2, 1)
        while low <= high:
            middle = (low + high + 1) // 2
            done = _render(value, _Limits(middle, longest, keys, room))
            if done is None:
                high = middle - 1
            else:
                rows, shown, low = middle, done, middle + 1
            if low > _most(value) and shown is not None:
                break
        if shown is not None:
            if rows >= min(_ROWS_WANTED, _most(value)):
                return shown
            best = shown
    return best


def _most(value: Any) -> int:
    return len(value) if isinstance(value, list) else 1_000_000


@dataclass(slots=True)
class _Limits:
    """`items` an array shows, `text` characters of a string, `keys` of an object, `room` in all."""

    items: int
    text: int
    keys: int
    room: int

    def spend(self, chars: int) -> None:
        self.room -= chars
        if self.room < 0:
            raise _TooLong


def _render(value: Any, limits: _Limits) -> str | None:
    room = limits.room
    try:
        short = _prune(value, limits, 0)
    except _TooLong:
        return None
    if isinstance(short, list):
        rows = ",\n".join(dump(row) for row in short)
        out = f"[\n{rows}\n]"
    elif isinstance(short, dict):
        members = ",\n".join(f"{dump(key)}: {_member(item)}" for key, item in short.items())
        out = f"{{\n{members}\n}}"
    else:
        out = dump(short)
    return out if len(out) <= room else None


def _member(value: Any) -> str:
    """A member of the outermost object; an array of objects in lines of its own."""
    if isinstance(value, list) and any(isinstance(row, dict) for row in value):
        return "[\n" + ",\n".join(dump(row) for row in value) + "\n]"
    return dump(value)


def dump(value: Any) -> str:
    """`value` as JSON on one line; half a surrogate pair stays an escape, it could not be sent."""
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def _prune(value: Any, limits: _Limits, depth: int) -> Any:
    if isinstance(value, str):
        if len(value) > limits.text + 8:
            short = shorten(value, limits.text)
            value = f"{short}(+{len(value) - len(short) + 1})"
        limits.spend(len(value) + 2)
        return value
    if isinstance(value, (list, dict)) and depth >= _DEEPEST:
        limits.spend(12)
        return f"… {_size(value)} …"
    if isinstance(value, list):
        return _prune_list(value, limits, depth)
    if isinstance(value, dict):
        return _prune_dict(value, limits, depth)
    limits.spend(1)
    return value


def _prune_list(value: list[Any], limits: _Limits, depth: int) -> list[Any]:
    limits.spend(2)
    first, last = _split(limits.items if depth < 2 else max(limits.items // 2, 1))
    if len(value) <= first + last + 1:
        return [_prune(item, limits, depth + 1) for item in value]
    out = [_prune(item, limits, depth + 1) for item in value[:first]]
    note = f"… {len(value) - first - last} of {len(value)} items left out …"
    limits.spend(len(note))
    return [*out, note, *(_prune(item, limits, depth + 1) for item in value[len(value) - last :])]


def _split(items: int) -> tuple[int, int]:
    """How many items from the start and from the end are shown."""
    last = min(items // 4 + (items > 1), items)
    return items - last, last


def _prune_dict(value: dict[str, Any], limits: _Limits, depth: int) -> dict[str, Any]:
    limits.spend(2)
    out: dict[str, Any] = {}
    for key, item in value.items():
        if len(out) >= limits.keys:
            out["…"] = f"{len(value) - len(out)} of {len(value)} keys left out"
            break
        limits.spend(len(key) + 4)
        out[key] = _prune(item, limits, depth + 1)
    return out


def _outline(value: Any) -> str:
    """The shape in words: `120 items {id, name, tags[], owner{}, note?}`."""
    if isinstance(value, list):
        rows = [row for row in value if isinstance(row, dict)]
        return f"{len(value)} items" + (f" {_keys(rows)}" if rows else "")
    parts = []
    for key, item in value.items():
        if isinstance(item, list) and len(item) > 3:
            parts.append(f"{shorten(key, 40)} has {_outline(item)}")
    return "; ".join(parts[:4]) or _size(value)


def _keys(rows: Sequence[dict[str, Any]]) -> str:
    """The keys of objects, in the order of their first use; `?` where some have none of it."""
    counts: dict[str, int] = {}
    signs: dict[str, str] = {}
    for row in rows:
        for key, item in row.items():
            counts[key] = counts.get(key, 0) + 1
            sign = "[]" if isinstance(item, list) else "{}" if isinstance(item, dict) else ""
            signs[key] = sign or signs.get(key, "")
    names = [
        f"{shorten(key, 40)}{signs[key]}{'' if count == len(rows) else '?'}"
        for key, count in list(counts.items())[:30]
    ]
    more = f", … {len(counts)} keys" if len(counts) > len(names) else ""
    return "{" + ", ".join(names) + more + "}"


def _size(value: Any) -> str:
    if isinstance(value, list):
        return f"{len(value)} items"
    return f"object of {len(value)} keys"
