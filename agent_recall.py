"""Looking things up in the stored messages: one result by its handle, or words in all of them.

What the view shortened is not lost: the model asks for it by `read_result` and `search_history`.
Pure functions on the stored messages; both tools only read.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from agent_clip import clip_result
from agent_turn import handles_of
from context import text_of

Outcome = tuple[str, Literal["success", "error"]]

READ, SEARCH = "read_result", "search_history"
_AROUND = 200  # characters of a hit
_HITS = 8  # hits of a search when no limit is given
_CONTEXT = 1  # lines before and behind a line found by grep


@dataclass(frozen=True, slots=True)
class Lookup:
    """One of the two tools, as the model is told of it; `answer` runs it."""

    name: str
    description: str
    schema: Mapping[str, Any] = field(hash=False)
    server: str = "agent"
    identity: str = "agent"
    read_only: bool = True

    @property
    def original(self) -> str:
        return self.name


def _object(required: str, **types: str) -> dict[str, Any]:
    properties = {name: {"type": kind} for name, kind in types.items()}
    return {"type": "object", "properties": properties, "required": [required]}


TOOLS = (
    Lookup(
        READ,
        "Rest of a shortened tool result, e.g. handle r7, lines 10-40",
        _object(
            "handle",
            handle="string",
            lines="string",
            grep="string",
            json_path="string",
            offset="integer",
        ),
    ),
    Lookup(SEARCH, "Find words in older messages", _object("query", query="string")),
)


def answer(
    name: str, args: Mapping[str, Any], messages: Sequence[AnyMessage], chars: int = 4000
) -> Outcome:
    """What the tool `name` says to `args`, in at most `chars` characters; never raises."""
    if name == READ:
        text, status = _read(args, messages, chars)
    elif name == SEARCH:
        text, status = _search(args, messages, chars)
    else:
        text, status = f"There is no tool {name}.", "error"
    return clip_result(text, chars), status


# -- read_result ----------------------------------------------------------------------------------


def _read(args: Mapping[str, Any], messages: Sequence[AnyMessage], chars: int) -> Outcome:
    handles = handles_of(messages)
    handle = "r" + str(args.get("handle", "")).strip().strip("[]()'\"").lower().lstrip("r")
    if handle not in handles:
        return _unknown(str(args.get("handle", "")), list(handles)), "error"
    text = text_of(handles[handle].content)
    if args.get("json_path"):
        return _by_path(text, str(args["json_path"]), chars)
    if args.get("grep"):
        return _grep(text, str(args["grep"]), chars)
    if args.get("lines"):
        return _lines(text, str(args["lines"]), chars)
    return _page(text, _int(args.get("offset"), 0), _int(args.get("limit"), chars), chars)


def _unknown(asked: str, handles: Sequence[str]) -> str:
    if not handles:
        return f"There is no result {asked[:40]!r}: no tool has run in this conversation yet."
    return f"There is no result {asked[:40]!r}. There are {handles[0]} to {handles[-1]}."


def _int(value: Any, default: int) -> int:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return default


def _page(text: str, offset: int, limit: int, chars: int) -> Outcome:
    """`limit` characters from `offset`; a negative offset counts from the end."""
    start = max(len(text) + offset, 0) if offset < 0 else offset
    if start >= len(text) > 0:
        return f"The result has {len(text)} characters; offset {offset} is behind its end.", "error"
    end = min(start + max(min(limit, chars - 100), 1), len(text))
    if start == 0 and end == len(text):
        return text, "success"
    note = f"[characters {start} to {end} of {len(text)}"
    note += f"; goes on at offset {end}]" if end < len(text) else "; this is the end]"
    return f"{text[start:end]}\n{note}", "success"


def _lines(text: str, wanted: str, chars: int) -> Outcome:
    lines = text.split("\n")
    numbers = [int(n) for n in re.findall(r"\d{1,9}", wanted)[:2]]
    if not numbers:
        return "lines must be like 10-40.", "error"
    first, last = numbers[0], numbers[-1]
    if len(numbers) == 1 and "-" in wanted:
        first, last = (first, len(lines)) if wanted.strip().endswith("-") else (1, first)
    first, last = max(min(first, last), 1), min(max(first, last), len(lines))
    if first > len(lines):
        return f"The result has {len(lines)} lines.", "error"
    out: list[str] = []
    room = chars - 80
    for number in range(first, last + 1):
        room -= len(lines[number - 1]) + 1
        if room < 0 and out:
            last = number - 1
            break
        out.append(lines[number - 1])
    note = f"[lines {first}-{last} of {len(lines)}]"
    return "\n".join([*out, note]), "success"


def _grep(text: str, wanted: str, chars: int) -> Outcome:
    lines = text.split("\n")
    low = wanted.casefold()
    found = [i for i, line in enumerate(lines) if low in line.casefold()]
    if not found and "|" in low:
        parts = [part for part in low.split("|") if part]
        found = [i for i, line in enumerate(lines) if any(p in line.casefold() for p in parts)]
    if not found:
        return f"No line of the result has {wanted[:80]!r}; it has {len(lines)} lines.", "success"
    near = sorted({j for i in found for j in range(i - _CONTEXT, i + _CONTEXT + 1)})
    hits = set(found)
    out = [f"[{len(found)} of {len(lines)} lines]"]
    room = chars - len(out[0]) - 60
    for number in near:
        if not 0 <= number < len(lines):
            continue
        sign = ":" if number in hits else "-"
        line = f"{number + 1}{sign} {_window(lines[number], low)}"
        room -= len(line) + 1
        if room < 0:
            out.append("[… more lines found …]")
            break
        out.append(line)
    return "\n".join(out), "success"


def _window(line: str, word: str) -> str:
    """A long line around the word that was found in it."""
    if len(line) <= 2 * _AROUND:
        return line
    at = max(line.casefold().find(word), 0)
    start = max(at - _AROUND // 2, 0)
    return f"{'…' if start else ''}{line[start : start + _AROUND]}…"


_STEP = re.compile(r"\.?([^.\[\]]{1,200})|\[(-?\d{1,9})\]|\[['\"]([^'\"]{0,200})['\"]\]|\[\*\]")


def _by_path(text: str, path: str, chars: int) -> Outcome:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return "The result is not JSON; use lines or grep.", "error"
    at = 1 if path.startswith("$") else 0
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            return f"The path cannot be read at {path[at : at + 20]!r}.", "error"
        try:
            value = _step(value, step)
        except (KeyError, IndexError, TypeError):
            return f"There is nothing at {path[: step.end()][:100]}: {_has(value)}.", "error"
        at = step.end()
    out = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return clip_result(out, chars), "success"


def _step(value: Any, step: re.Match[str]) -> Any:
    if step[2] is not None:
        return value[int(step[2])]
    key = step[1] if step[1] is not None else step[3]
    if key is None:
        return list(value)
    if isinstance(value, list) and not key.isdigit():
        return [row[key] for row in value if isinstance(row, dict) and key in row]
    return value[int(key)] if isinstance(value, list) else value[key]


def _has(value: Any) -> str:
    if isinstance(value, dict):
        return "there are " + ", ".join(list(value)[:20])
    if isinstance(value, list):
        return f"there are {len(value)} items"
    return "there is a plain value"


# -- search_history -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """One text that can be found: the turn's number, who said it, and the handle of a result."""

    turn: int
    who: str
    text: str


def _search(args: Mapping[str, Any], messages: Sequence[AnyMessage], chars: int) -> Outcome:
    query = str(args.get("query", ""))
    terms = _terms(query)
    if not terms:
        return "The query has no words.", "error"
    places = list(_places(messages))
    folded = [_fold(place.text) for place in places]
    found: dict[int, float] = {}
    for term in terms:
        at = [i for i, text in enumerate(folded) if term in text]
        weight = math.log(1 + len(places) / (len(at) or 1))
        for i in at:
            found[i] = found.get(i, 0.0) + weight
    if not found:
        return f"Nothing in this conversation has {query[:80]!r}.", "success"
    best = sorted(found, key=lambda i: (-found[i], -i))
    limit = max(_int(args.get("limit"), _HITS), 1)
    out: list[str] = []
    room = chars - 60
    for i in best[:limit]:
        line = f"turn {places[i].turn}, {places[i].who}: {_passage(places[i].text, terms)}"
        room -= len(line) + 1
        if room < 0 and out:
            break
        out.append(line)
    if len(out) < len(best):
        out.append(f"[{len(out)} of {len(best)} hits]")
    return "\n".join(out), "success"


def _terms(query: str) -> list[str]:
    """Phrases in quotes and single words, folded, each once."""
    phrases = re.findall(r'"([^"]{1,200})"', query)
    rest = re.sub(r'"[^"]{1,200}"', " ", query)
    words = [word.strip(".,;:!?()'\"") for word in rest.split()]
    return list(dict.fromkeys(t for t in map(_fold, [*phrases, *words]) if t.strip()))[:32]


def _fold(text: str) -> str:
    """Small letters without accents."""
    if text.isascii():
        return text.lower()
    parts = unicodedata.normalize("NFKD", text.casefold())
    return "".join(c for c in parts if not unicodedata.combining(c))


def _places(messages: Sequence[AnyMessage]) -> Iterator[_Place]:
    """All texts of the conversation but the newest prompt, which asks and does not answer."""
    handles = {id(m): handle for handle, m in handles_of(messages).items()}
    newest = max((i for i, m in enumerate(messages) if isinstance(m, HumanMessage)), default=-1)
    turn = 0
    for index, message in enumerate(messages):
        text = text_of(message.content)
        if isinstance(message, HumanMessage):
            turn += 1
            if index != newest:
                yield _Place(turn, "user", text)
        elif isinstance(message, ToolMessage):
            if message.name not in (READ, SEARCH):
                yield _Place(turn, f"result {handles.get(id(message), '')}".strip(), text)
        elif isinstance(message, AIMessage):
            if text:
                yield _Place(turn, "assistant", text)
            for call in message.tool_calls:
                if call["name"] not in (READ, SEARCH):
                    args = json.dumps(call["args"], ensure_ascii=False, default=str)
                    yield _Place(turn, "call", f"{call['name']} {args}")


def _passage(text: str, terms: Sequence[str]) -> str:
    """Some 200 characters around the place where the first of the terms stands."""
    folded = _fold(text)
    at = min((at for t in terms if (at := folded.find(t)) >= 0), default=0)
    start = max(at - _AROUND // 2, 0)
    piece = " ".join(text[start : start + _AROUND].split())
    return f"{'…' if start else ''}{piece}{'…' if start + _AROUND < len(text) else ''}"
