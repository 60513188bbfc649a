"""Looking things up in the stored messages: one result by its handle, or words in all of them.

What the view shortened is not lost: the model asks for it by `read_result` and `search_history`.
Pure functions on the stored messages; both tools only read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.messages import AnyMessage

from agent_core.clip import clip_result
from agent_core.clip_json import dump, parse
from agent_core.clip_text import place, shorten
from agent_core.grep import find_lines
from agent_core.search import HITS, search
from agent_core.turn import handles_of
from context import text_of

Outcome = tuple[str, Literal["success", "error"]]

READ, SEARCH, FIND = "read_result", "search_history", "find_tools"
_NOTE = 100  # characters kept free for the line that says where a page stands
_WIDEST = 400  # characters of a line that grep shows
_AROUND = 1  # lines before and behind a line that grep found


@dataclass(frozen=True, slots=True)
class Lookup:
    """A built-in tool, as the model is told of it. The graph answers it from what it has."""

    name: str
    description: str
    schema: Mapping[str, Any] = field(hash=False)
    server: str = "agent"
    identity: str = "agent"
    read_only: bool = True

    @property
    def original(self) -> str:
        return self.name

    async def __call__(self, args: Mapping[str, Any]) -> Outcome:
        raise RuntimeError("a built-in tool is answered by the graph")


def _schema(required: str, **types: str) -> dict[str, Any]:
    properties = {name: {"type": kind} for name, kind in types.items()}
    return {"type": "object", "properties": properties, "required": [required]}


# Each word is read by the model in every prompt: 160 tokens of Qwen2.5 for both, 98 of them the
# frame that any two tools have. `limit` is taken too and not told of.
TOOLS = (
    Lookup(
        READ,
        "Read a shortened tool result, e.g. r7, whole or only lines 10-40",
        _schema(
            "handle",
            handle="string",
            lines="string",
            grep="string",
            json_path="string",
            offset="integer",
        ),
    ),
    Lookup(SEARCH, "Find words in older messages", _schema("query", query="string")),
)
FIND_TOOLS = Lookup(
    FIND,
    "Find more tools by words of what they should do; you can call those it names",
    _schema("query", query="string"),
)


def answer(
    name: str, args: Mapping[str, Any], messages: Sequence[AnyMessage], chars: int = 4000
) -> Outcome:
    """What the tool `name` says to `args`, in at most `chars` characters; never raises.

    `messages` are all stored ones of the thread, the turn that asks included. Arguments of the
    wrong type are read as well as they can be: they come from a model.
    """
    if name == READ:
        text, status = _read(args, messages, chars)
    elif name == SEARCH:
        query, limit = str(args.get("query") or ""), _int(args.get("limit"), HITS)
        text = search(query, messages, limit=limit, chars=chars, own=(READ, SEARCH))
        status = "success"
    else:
        text, status = f"There is no tool {shorten(name, 60)}.", "error"
    return clip_result(text, chars), status


# -- read_result ----------------------------------------------------------------------------------


def _read(args: Mapping[str, Any], messages: Sequence[AnyMessage], chars: int) -> Outcome:
    handles = handles_of(messages)
    asked = str(args.get("handle") or "")
    number = re.search(r"\d{1,9}", asked)
    handle = f"r{int(number[0])}" if number else ""
    if handle not in handles:
        return _unknown(asked, number and int(number[0]), list(handles)), "error"
    text = text_of(handles[handle].content)
    if path := str(args.get("json_path") or ""):
        return _by_path(text, path, chars)
    # Lines are counted as `clip_result` counts them in what it says of the cut.
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    wanted = str(args.get("lines") or "")
    span = _span(wanted, len(lines)) if wanted else (1, len(lines))
    if span is None:
        return f"lines={shorten(wanted, 40)!r} names none of its {len(lines)} lines.", "error"
    if grep := str(args.get("grep") or ""):
        return _grep(lines, span, grep, chars), "success"
    if wanted:
        return _lines(lines, span, chars), "success"
    return _page(text, _int(args.get("offset"), 0), _int(args.get("limit"), chars), chars)


def _unknown(asked: str, number: int | None, handles: Sequence[str]) -> str:
    said = f"There is no result {shorten(asked, 40)!r}" if asked else "A handle is needed"
    if not handles:
        return f"{said}: this conversation has no tool results yet."
    there = f"{said}. There are {handles[0]} to {handles[-1]}"
    if number is not None and len(handles) > 1:
        near = min(handles, key=lambda handle: abs(int(handle[1:]) - number))
        there += f"; the nearest is {near}"
    return f"{there}."


def _int(value: Any, default: int) -> int:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return default


def _page(text: str, offset: int, limit: int, chars: int) -> Outcome:
    """At most `limit` characters from `offset` on; a negative offset counts from the end."""
    start = place(text, max(len(text) + offset, 0) if offset < 0 else offset)
    if offset >= len(text) > 0:
        return f"The result has {len(text)} characters: none at offset {offset}.", "error"
    room = chars if start == 0 and len(text) <= chars else chars - _NOTE
    end = place(text, start + max(min(limit if limit > 0 else chars, room), 1))
    end = end if end > start else min(start + max(room, 1), len(text))
    if start == 0 and end == len(text):
        return text, "success"
    more = f"; the next is offset {end}" if end < len(text) else "; this is the end"
    return f"{text[start:end]}\n[characters {start}-{end} of {len(text)}{more}]", "success"


def _span(wanted: str, count: int) -> tuple[int, int] | None:
    """First and last line meant by "10-40", "10", "10-", "-40" (the last 40); None if none is."""
    numbers = [int(n) for n in re.findall(r"\d{1,9}", wanted)[:2]]
    if not numbers:
        return None
    bare = wanted.strip()
    if len(numbers) == 1 and bare.startswith("-"):
        return max(count - numbers[0] + 1, 1), count
    last = count if len(numbers) == 1 and bare[-1] in "-–:+" else numbers[-1]
    first, last = max(min(numbers[0], last), 1), min(max(numbers[0], last), count)
    return (first, last) if first <= count else None


def _lines(lines: Sequence[str], span: tuple[int, int], chars: int) -> str:
    """The lines of a span as far as there is room, and where they go on."""
    first, last = span
    room, shown = chars - _NOTE, first - 1
    while shown < last and room - len(lines[shown]) - 1 >= 0:
        room -= len(lines[shown]) + 1
        shown += 1
    if shown < first:  # not even one line has room
        offset = sum(len(line) + 1 for line in lines[: first - 1])
        piece = lines[first - 1][: place(lines[first - 1], max(room - 40, 1))]
        length = len(lines[first - 1])
        note = f"line {first} has {length} characters; the next is offset {offset + len(piece)}"
        return f"{piece}\n[{note}]"
    more = f"; the next is line {shown + 1}" if shown < last else ""
    return "\n".join([*lines[first - 1 : shown], f"[lines {first}-{shown} of {len(lines)}{more}]"])


def _grep(lines: Sequence[str], span: tuple[int, int], wanted: str, chars: int) -> str:
    """The lines of a span that have `wanted`, each with its number and the lines around it."""
    first, last = span
    hits, tried = find_lines(lines[first - 1 : last], wanted)
    if not hits:
        return f"None of the {len(lines)} lines has {shorten(wanted, 80)!r}."
    found = {first - 1 + index: column for index, column in hits}
    short = f"; only tried up to line {first - 1 + tried}" if first - 1 + tried < last else ""
    out = [f"[{len(found)} of {len(lines)} lines{short}]"]
    room, behind = chars - _NOTE, -1
    for index in found:
        near = range(max(index - _AROUND, behind + 1), min(index + _AROUND + 1, len(lines)))
        rows = [f"{i + 1}{':' if i in found else '-'} {_row(lines[i], found.get(i))}" for i in near]
        room -= sum(len(row) + 1 for row in rows)
        if room < 0 and len(out) > 1:
            out.append(f"[the next is line {max(index - _AROUND, behind + 1) + 1}]")
            break
        out.extend(rows)
        behind = max(behind, near[-1] if near else behind)
    return "\n".join(out)


def _row(line: str, column: int | None) -> str:
    """A line that grep shows; of a long one the part around what was found."""
    if column is None or len(line) <= _WIDEST:
        return shorten(line, _WIDEST // 2 if column is None else _WIDEST)
    start = place(line, max(column - _WIDEST // 4, 0))
    end = place(line, start + _WIDEST)
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"


# -- a path into JSON -----------------------------------------------------------------------------

_STEP = re.compile(
    r"\.\.(?P<deep>[^.\[\]()?@=]{1,200})"
    r"|\[\?\(?@\.(?P<where>[^=\]<>! ]{1,100}) ?==? ?(?P<is>[^\]]{1,200}?)\)?\]"
    r"|\[(?P<index>-?\d{1,9})\]|\[(?P<from>-?\d{0,9}):(?P<to>-?\d{0,9})\]|(?P<all>\[\*?\]|\.\*)"
    r"|\[(?P<quote>['\"])(?P<quoted>[^'\"]{0,200})(?P=quote)\]|\.?(?P<key>[^.\[\]]{1,200})"
)
_DEEPEST = 40  # levels that `..name` goes down


def _by_path(text: str, path: str, chars: int) -> Outcome:
    value = parse(text)
    if value is None:
        return "The result is not JSON: json_path finds nothing, grep and lines do.", "error"
    path, many = path.strip(), False
    at = 1 if path.startswith("$") else 0
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            return f"The path cannot be read at {path[at : at + 20]!r}.", "error"
        try:
            value, many = _in_each(value, step) if many else _step(value, step)
        except (LookupError, TypeError, ValueError):
            said = shorten(path[: step.end()], 100)
            return f"Nothing at {said!r}. {_outline(value)}", "error"
        at = step.end()
    out = value if isinstance(value, str) else dump(value)
    return clip_result(out, chars), "success"


def _in_each(values: list[Any], step: re.Match[str]) -> tuple[Any, bool]:
    """The step taken from each of several values, as far as it can be."""
    out: list[Any] = []
    for value in values:
        try:
            found, many = _step(value, step)
        except (LookupError, TypeError, ValueError):
            continue
        out += found if many else [found]
    if not out:
        raise LookupError
    return out, True


def _step(value: Any, step: re.Match[str]) -> tuple[Any, bool]:
    """The value one step further, and whether it is now several of which each goes on."""
    if step["deep"]:
        return _deep(value, step["deep"], _DEEPEST), True
    if step["where"]:
        wanted = step["is"].strip("'\" ")
        return [row for row in _rows(value) if str(row.get(step["where"])) == wanted], True
    if step["index"]:
        return _list(value)[int(step["index"])], False
    if step["from"] is not None:
        first, last = (int(n) if n.strip("-") else None for n in (step["from"], step["to"]))
        return _list(value)[first:last], True
    if step["all"]:
        return (list(value.values()) if isinstance(value, dict) else _list(value)), True
    key = step["key"] if step["key"] is not None else step["quoted"]
    return _of_list(value, key) if isinstance(value, list) else (value[key], False)


def _of_list(value: list[Any], key: str) -> tuple[Any, bool]:
    """An item by number, how many there are, or the member of that name of each item."""
    if key.lstrip("-").isdigit():
        return value[int(key)], False
    if key in ("length", "length()", "#"):
        return len(value), False
    found = [row[key] for row in _rows(value) if key in row]
    if not found:
        raise KeyError(key)
    return found, True


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value


def _rows(value: Any) -> list[dict[str, Any]]:
    return [row for row in _list(value) if isinstance(row, dict)]


def _deep(value: Any, key: str, levels: int) -> list[Any]:
    found: list[Any] = []
    if levels and isinstance(value, dict):
        found += [value[key]] if key in value else []
        value = list(value.values())
    if levels and isinstance(value, list):
        for item in value:
            found += _deep(item, key, levels - 1)
    return found


def _outline(value: Any) -> str:
    """What is there instead, for the next try."""
    if isinstance(value, dict):
        more = f" and {len(value) - 20} more" if len(value) > 20 else ""
        return f"There are the keys {', '.join(shorten(k, 40) for k in list(value)[:20])}{more}."
    if isinstance(value, list):
        first = f" Item 0: {_outline(value[0])}" if value and isinstance(value[0], dict) else ""
        return f"There is a list of {len(value)} items.{first}"
    return f"There is {shorten(dump(value), 60)}."
