"""JSON in fewer characters that is still JSON: long texts cut, arrays by first and last items.

What is left out is said inside: `"… 117 of 120 items left out …"` in an array, `"…": "90 of 130
keys left out"` in an object, `…(+480)` at the end of a text, `"… 3 keys: id, name, tags"` for
what lies too deep. A line before the value says what it was.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from agent_clip_text import shorten


class _Step(NamedTuple):
    """`text` characters of a string, `keys` of an object and levels down to `depth` are shown."""

    text: int
    keys: int
    depth: int


# Tried from generous to bare; in each the number of items is searched.
_STEPS = (
    _Step(2000, 300, 60),
    _Step(600, 200, 60),
    _Step(240, 100, 60),
    _Step(120, 60, 60),
    _Step(60, 60, 60),
    _Step(30, 60, 8),
    _Step(60, 60, 4),
    _Step(30, 60, 3),
    _Step(30, 60, 2),
    _Step(30, 60, 1),
)
_BARE = (_Step(30, 20, 1), _Step(12, 6, 1))  # keys go only where nothing else fits
_ROWS_WANTED = 6  # a step is good enough if it shows so many items of each array
_WORTH = 1.5  # so many times the items are worth a barer step
_ROWS_COUNTED = 8  # values are counted from so many items on
_MAP = 13  # keys of an object of objects from which on it is shown like an array
_FEW = 5  # a key with at most so many different values has them counted


_AMID = re.compile(r"((?:[^\n]{0,300}\n){1,5}?)[ \t]{0,20}[\[{]")
_BETWEEN = re.compile(r"[ \t\r\n,]*")


class _TooLong(Exception):
    """The value does not fit at this step."""


def clip_json(text: str, chars: int) -> str | None:
    """`text` as shorter JSON behind a line that says what it was, or None if it is not JSON."""
    value = parse(text)
    if not isinstance(value, (list, dict)):
        return _clip_amid_words(text, chars)
    try:
        for note in _notes(text, value, chars):
            shown = _fit(value, chars - len(note))
            if shown is not None:
                return note + shown
    except RecursionError:  # nested deeper than Python's stack: no JSON that is worth showing
        return None
    return _shape(text, value, chars)


def _clip_amid_words(text: str, chars: int) -> str | None:
    """JSON behind a line or two that say what it is, and perhaps before some that end it."""
    found = _AMID.match(text)
    if found is None:
        return None
    start = found.end(1)
    try:
        value, end = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    before, behind = text[:start].rstrip("\n"), text[end:].strip("\n")
    room = chars - len(before) - len(behind) - 2
    if not isinstance(value, (list, dict)) or end - start < len(text) // 2 or room < 80:
        return None
    short = clip_json(text[start:end], room)
    return None if short is None else "\n".join(filter(None, (before, short, behind)))


def parse(text: str) -> Any:
    """The value of a JSON text, or of several one behind the other as a list; else None."""
    bare = text.strip()
    if not bare or bare[0] not in "[{":
        return None
    decoder = json.JSONDecoder()
    values: list[Any] = []
    at = 0
    try:
        while at < len(bare):
            value, at = decoder.raw_decode(bare, at)
            values.append(value)
            at = _BETWEEN.match(bare, at).end()  # type: ignore[union-attr]  # it may be empty
    except (ValueError, RecursionError):
        return None
    return values[0] if len(values) == 1 else values


def dump(value: Any) -> str:
    """`value` as JSON on one line; half a surrogate pair stays an escape, it could not be sent."""
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


# -- fitting --------------------------------------------------------------------------------------


def _fit(value: Any, room: int) -> str | None:
    """The fullest form of `value` in `room` characters, or None if even the barest is longer."""
    most = max((len(part) for part in _many(value)), default=0)
    best: str | None = None
    best_items = -1
    for step in (*_STEPS, *_BARE):
        if best is not None and (best_items >= min(_ROWS_WANTED, most) or step in _BARE):
            break
        items, shown = _most_items(value, step, room, most)
        if shown is not None and items > best_items * _WORTH:
            best, best_items = shown, items
    return best


def _most_items(value: Any, step: _Step, room: int, most: int) -> tuple[int, str | None]:
    """How many items of each array can be shown in `room` characters, and that form."""
    low, high = 0, min(most, room)
    best: str | None = None
    while low <= high:
        middle = (low + high) // 2 if best is not None else low
        shown = _render(value, step, middle, room)
        if shown is None:
            high = middle - 1
        else:
            best, low = shown, middle + 1
    return low - 1, best


def _many(value: Any) -> Iterator[list[Any] | dict[str, Any]]:
    """All arrays in `value`, itself included, and the objects that are used like one."""
    open_ones = [value]
    while open_ones:
        part = open_ones.pop()
        if isinstance(part, list) or (isinstance(part, dict) and _is_map(part)):
            yield part
        inner = part if isinstance(part, list) else part.values()
        open_ones.extend(item for item in inner if isinstance(item, (list, dict)))


def _is_map(value: dict[str, Any]) -> bool:
    """Tell whether the keys of an object are names of like things and not of its properties."""
    return len(value) >= _MAP and all(isinstance(item, (list, dict)) for item in value.values())


def _render(value: Any, step: _Step, items: int, room: int) -> str | None:
    try:
        short = _Pruner(step, items, room).prune(value, 0)
    except _TooLong:
        return None
    if isinstance(short, list):
        out = _in_lines(short)
    else:
        members = ",\n".join(f"{dump(key)}: {_member(item)}" for key, item in short.items())
        out = f"{{\n{members}\n}}"
    return out if len(out) <= room else None


def _member(value: Any) -> str:
    """A member of the outermost object; an array of objects in lines of its own."""
    has_rows = isinstance(value, list) and any(isinstance(row, dict) for row in value)
    return _in_lines(value) if has_rows else dump(value)


def _in_lines(rows: Sequence[Any]) -> str:
    return "[\n" + ",\n".join(dump(row) for row in rows) + "\n]"


@dataclass(slots=True)
class _Pruner:
    """Shortens a value by a step; gives up as soon as `room` characters are spent."""

    step: _Step
    items: int
    room: int

    def prune(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if not isinstance(value, (list, dict)):
            self._spend(1)
            return value
        if depth > self.step.depth and value:
            return self._note(_named(value))
        self._spend(2)
        return self._list(value, depth) if isinstance(value, list) else self._dict(value, depth)

    def _spend(self, chars: int) -> None:
        self.room -= chars
        if self.room < 0:
            raise _TooLong

    def _text(self, value: str) -> str:
        if len(value) > self.step.text + 12:
            short = shorten(value, self.step.text)
            value = f"{short}(+{len(value) - len(short) + 1})"
        self._spend(len(value) + 2)
        return value

    def _note(self, words: str) -> str:
        self._spend(len(words) + 2)
        return words

    def _list(self, value: list[Any], depth: int) -> list[Any]:
        items = self.items if depth < 3 else min(self.items, 3)
        last = items // 4 + (items > 1)
        first = items - last
        if len(value) <= items + 1 and value:
            return [self.prune(item, depth + 1) for item in value]
        out = [self.prune(item, depth + 1) for item in value[:first]]
        if len(value) > items:
            out.append(self._note(f"… {len(value) - items} of {len(value)} items left out …"))
        return out + [self.prune(item, depth + 1) for item in value[len(value) - last :]]

    def _dict(self, value: dict[str, Any], depth: int) -> dict[str, Any]:
        keys = max(self.items, 1) if _is_map(value) else self.step.keys
        out: dict[str, Any] = {}
        for key, item in value.items():
            if len(out) >= keys:
                names = _names(list(value)[keys:], self.step.text)
                out["…"] = self._note(f"{len(value) - keys} of {len(value)} keys left out: {names}")
                break
            name = key if len(key) <= 200 else shorten(key, 200)
            self._spend(len(name) + 4)
            out[name] = self.prune(item, depth + 1)
        return out


def _named(value: Any) -> str:
    """What lies too deep, in a few words."""
    if isinstance(value, list):
        return f"… {len(value)} items …"
    return f"… {len(value)} keys: {_names(list(value), 40)}"


def _names(keys: Sequence[str], chars: int) -> str:
    """As many keys as `chars` characters take, at least one."""
    out = _key(keys[0])
    for key in map(_key, keys[1:]):
        if len(out) + len(key) + 2 > chars:
            return f"{out}, …"
        out += f", {key}"
    return out


# -- what it was ----------------------------------------------------------------------------------


def _notes(text: str, value: Any, chars: int) -> Iterator[str]:
    """The line before the value, from telling to short."""
    counts = _counts(value)
    for what in (f"{_outline(value)}{counts}", _outline(value), _size(value)):
        note = f"[JSON, {len(text)} characters, shortened: {what}]\n"
        if len(note) <= chars // 3:
            yield note
    yield f"[JSON, {len(text)} characters, {_size(value)}]\n"


def _shape(text: str, value: Any, chars: int) -> str | None:
    """Only what it was, where there is no room for any of the value."""
    for what in (_outline(value), _size(value)):
        note = f"[JSON, {len(text)} characters, left out: {what}]"
        if len(note) <= chars:
            return note
    return None


def _outline(value: Any) -> str:
    """The shape in words: `120 items {id, name, tags[], owner{}, note?}`."""
    if isinstance(value, list):
        rows = [row for row in value if isinstance(row, dict)]
        return f"{len(value)} items" + (f" {_keys(rows)}" if rows else "")
    parts = [
        f"{_key(key)} has {_outline(item)}"
        for key, item in value.items()
        if isinstance(item, list) and len(item) > 3
    ]
    return "; ".join(parts[:4]) or _size(value)


def _keys(rows: Sequence[dict[str, Any]]) -> str:
    """The keys of objects, in the order of their first use; `?` where some have none of it."""
    counts: Counter[str] = Counter()
    signs: dict[str, str] = {}
    for row in rows:
        counts.update(row.keys())
        for key, item in row.items():
            sign = "[]" if isinstance(item, list) else "{}" if isinstance(item, dict) else ""
            signs[key] = sign or signs.get(key, "")
    names = [
        f"{_key(key)}{signs[key]}{'' if counts[key] == len(rows) else '?'}"
        for key in list(counts)[:30]
    ]
    more = f", … {len(counts)} keys" if len(counts) > len(names) else ""
    return "{" + ", ".join(names) + more + "}"


def _counts(value: Any) -> str:
    """How often the few values of a key come: `; state: 22 open, 18 closed`."""
    rows = value if isinstance(value, list) else max(_members(value), key=len, default=[])
    rows = [row for row in rows if isinstance(row, dict)]
    if len(rows) < _ROWS_COUNTED:
        return ""
    out = []
    for key in list(rows[0])[:40]:
        seen = [row.get(key) for row in rows]
        if not all(isinstance(item, (str, bool)) and len(str(item)) <= 20 for item in seen):
            continue
        counts = Counter(map(_word, seen)).most_common(_FEW + 1)
        if 2 <= len(counts) <= _FEW and counts[-1][1] > 1:
            words = ", ".join(f"{count} {word}" for word, count in counts)
            out.append(f"; {_key(key)}: {words}")
    return "".join(out[:3])


def _members(value: dict[str, Any]) -> Iterator[list[Any]]:
    return (item for item in value.values() if isinstance(item, list))


def _key(key: str) -> str:
    """A key as it stands in a note, which is one line."""
    return shorten(" ".join(key.split()), 40)


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else _key(value)


def _size(value: Any) -> str:
    if isinstance(value, list):
        return f"{len(value)} items"
    return f"object of {len(value)} keys"
