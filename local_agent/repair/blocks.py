"""Cuts a reply into prose and the blocks in which calls may stand: marks, and fences of code."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from local_agent.call_marks import CALL_FENCES, MARKS, Mark, is_quoted

from . import json_text

_OPENING = re.compile(
    "|".join(
        f"(?P<m{n}>{re.sub('<name>', f'<n{n}>', mark.opening)})" for n, mark in enumerate(MARKS)
    ),
    re.I | re.M,
)
_CLOSINGS = tuple(re.compile(mark.closing, re.I) if mark.closing else None for mark in MARKS)
_FENCE = re.compile(  # Command-R says what it is before it
    r"^[ \t]{0,3}(?:Action:\s*)?(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[\w+-]*)", re.M
)
_JSON_BEGINS = re.compile(r"[\s,;]*[\[{]")
_SURPLUS = re.compile(r"\s*[}\])]+")
_LIST_SIGN = re.compile(r"\s*\w{1,3}\.\s*")
_SENTENCE_END = ".!?…。！？"

Place = Literal["line", "inline", "quoted"]


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the reply from `start` to `end` (positions in its text) that may be a call.

    kind: between marks, or in a fence. place: on a line of its own or behind a whole sentence; in
    the middle of one; quoted. name: the tool, where the opening mark says it. closed: the closing
    mark is there. info: the word behind the signs of a fence.
    is_shown: its fence is one that people write around code with fences in it.
    """

    kind: Literal["mark", "fence"]
    start: int
    end: int
    body: str
    closed: bool
    place: Place = "line"
    name: str = ""
    info: str = ""
    mark: Mark | None = None
    is_shown: bool = False


def blocks_of(text: str) -> tuple[list[Block], bool]:
    """The blocks of a reply in order, and whether it has code that can be no call."""
    found: list[Block] = []
    other_code = False
    ends = _Ends(text)
    at = 0
    fence, mark = _FENCE.search(text), _OPENING.search(text)
    while True:
        if fence is not None and fence.start() < at:
            fence = _FENCE.search(text, at)
        if mark is not None and mark.start() < at:
            mark = _OPENING.search(text, at)
        if fence is None and mark is None:
            return found, other_code
        if mark is None or (fence is not None and fence.start() <= mark.start()):
            assert fence is not None
            block = _fenced(text, fence)
            at = block.end
            if block.info in CALL_FENCES:
                found.append(block)
            else:
                other_code = True
            continue
        place = _place(text, mark.start(), found[-1].end if found else 0)
        if place == "quoted":
            at = mark.end()
            continue
        found.append(_marked(text, mark, place, ends))
        at = max(found[-1].end, mark.end())


def _fenced(text: str, fence: re.Match[str]) -> Block:
    """The block of the fence that opens here: to its closing one, or to one at the very end."""
    sign, info = fence["fence"], fence["info"].lower()
    start, body = fence.start(), fence.end()
    is_shown = len(sign) > 3 or sign[0] == "~"
    closing = re.compile(rf"^[ \t]*{sign[0]}{{{len(sign)},}}[ \t]*$", re.M)
    end = closing.search(text, body)
    if end is not None:
        inner = text[body : end.start()]
        return Block("fence", start, end.end(), inner, True, info=info, is_shown=is_shown)
    whole = text.rstrip()
    closed = whole.endswith(sign) and len(whole) - len(sign) >= body
    stop = len(whole) - len(sign) if closed else len(text)
    inner = text[body:stop]
    return Block("fence", start, len(text), inner, closed, info=info, is_shown=is_shown)


class _Ends:
    """Finds closing marks; one that is not there is looked for once, however many are open."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found: dict[int, tuple[int, re.Match[str] | None]] = {}

    def behind(self, number: int, at: int) -> re.Match[str] | None:
        """The first closing mark of that number from `at` on."""
        closing = _CLOSINGS[number]
        if closing is None:
            return None
        start, found = self._found.get(number, (len(self._text) + 1, None))
        if start > at or (found is not None and found.start() < at):
            found = closing.search(self._text, at)
            self._found[number] = (at, found)
        return found


def _marked(text: str, opening: re.Match[str], place: Place, ends: _Ends) -> Block:
    """The block behind an opening mark: to its closing mark, but not to one within its JSON."""
    number = _number(opening)
    name = (opening[f"n{number}"] or "") if "<name>" in MARKS[number].opening else ""
    mark, body = MARKS[number], opening.end()
    block = Block("mark", opening.start(), 0, "", True, place, name, mark=mark)
    json_end = _json_end(text, body)
    end = ends.behind(number, json_end or body)
    if end is not None and not (json_end and text[json_end : end.start()].strip()):
        return replace(block, end=end.end(), body=text[body : end.start()])
    # Not closed, or what closes there is another one: the JSON is the body, or all up to the next.
    stop = json_end
    if not json_end:
        same = (m for m in _OPENING.finditer(text, body) if _number(m) == number)
        stop = next((m.start() for m in same), len(text))
    return replace(block, end=stop, body=text[body:stop], closed=False)


def _number(opening: re.Match[str]) -> int:
    """Which of the marks has matched."""
    return next(n for n in range(len(MARKS)) if opening[f"m{n}"] is not None)


def _json_end(text: str, at: int) -> int:
    """Where the JSON values that stand at `at` end, with brackets too many; 0 for none there."""
    end = 0
    while begins := _JSON_BEGINS.match(text, end or at):
        start = begins.end() - 1
        try:
            end = start + json_text.starts(text[start:])[1]
        except (ValueError, RecursionError):
            break
    surplus = _SURPLUS.match(text, end) if end else None
    return surplus.end() if surplus else end


def _place(text: str, start: int, last_end: int) -> Place:
    """Where an opening mark stands: what is before it on its line says so."""
    line = text[max(text.rfind("\n", 0, start) + 1, last_end) : start]
    if not line.strip():
        indented = line.expandtabs(4).startswith("    ") and text[:start].strip()
        return "inline" if indented else "line"
    if is_quoted(line) or line.lstrip().startswith(">"):
        return "quoted"
    is_sentence = line.rstrip()[-1] in _SENTENCE_END and not _LIST_SIGN.fullmatch(line)
    return "line" if is_sentence else "inline"
