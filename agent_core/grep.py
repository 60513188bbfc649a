"""Lines that have a text, a pattern or all of some words; no pattern can make it slow.

Patterns come from a model and lines from any tool, so Python's matching with all its backtracking
is not let loose on them. What is taken is the part of the syntax that people search with: letters,
classes, `^ $ \\b`, `|`, groups that are not repeated, `.*` between pieces, and at most two other
repetitions a piece. Anything else is looked for as plain text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

Hit = tuple[int, int]  # the index of a line and the column in it
_Find = Callable[[str], int]  # the column in a line in small letters, or -1

_LONGEST = 200  # characters of a pattern
_MOST = 32  # repetitions of one sign
_LINE = 10_000  # characters of a line that a pattern is tried on
_ALL = 300_000  # characters of all lines that a pattern is tried on
_TOKEN = re.compile(
    r"(?P<any>\.[*+]\??)|(?P<open>\((?:\?:)?)|(?P<close>\))|(?P<bar>\|)"
    r"|(?P<atom>\\[dDwWsSbB]|\\[^0-9A-Za-z]|\\[nt]|\[\^?\]?(?:\\.|[^\]\\\[])*\]|[^\\()\[\]{}*+?|])"
    r"(?P<times>[*+?]|\{\d{1,2}(?:,\d{0,2})?\})?(?P<lazy>\?)?"
)
_SET_SIGNS = ("--", "&&", "||", "~~")  # a later Python may read these as set operations


def find_lines(lines: Sequence[str], wanted: str) -> list[Hit]:
    """The lines that have `wanted`, whatever the case, with the column where it stands.

    As plain text first; if no line has it, as a pattern; then the lines that have all its words.
    """
    low = wanted.lower()
    hits = _all(lines, lambda line: line.find(low), len(low) + sum(map(len, lines)))
    if not hits and (pattern := compiled(wanted)):
        hits = _all(lines, pattern, _ALL)
    words = low.split()
    if not hits and len(words) > 1:
        hits = [
            (index, line.find(words[0]))
            for index, line in enumerate(map(str.lower, lines))
            if all(word in line for word in words)
        ]
    return hits


def _all(lines: Sequence[str], find: _Find, room: int) -> list[Hit]:
    hits: list[Hit] = []
    for index, line in enumerate(lines):
        room -= len(line)
        if room < 0:
            break
        column = find(line.lower())
        if column >= 0:
            hits.append((index, column))
    return hits


def compiled(pattern: str) -> _Find | None:
    """A search for `pattern` in one line, or None where it is none that is safe and sensible."""
    source = pattern.removeprefix("(?i)")
    if not 0 < len(source) <= _LONGEST or not re.search(r"[\\.*+?|^$()\[{]", source):
        return None
    parts = [_pieces(part) for part in _alternatives(source)]
    known = [pieces for pieces in parts if pieces]
    if not known or len(known) < len(parts):
        return None
    return lambda line: next((at for pieces in known if (at := _at(pieces, line)) >= 0), -1)


def _at(pieces: Sequence[re.Pattern[str]], line: str) -> int:
    """Where the pieces stand in `line` one behind the other; each is looked for once."""
    line = line[:_LINE]
    first = end = -1
    for piece in pieces:
        found = piece.search(line, max(end, 0))
        if found is None:
            return -1
        first, end = (found.start() if first < 0 else first), found.end()
    return first


def _alternatives(source: str) -> list[str]:
    """The parts between the bars that stand in no group."""
    parts, depth, start = [], 0, 0
    for token in _TOKEN.finditer(source):
        depth += bool(token["open"]) - bool(token["close"])
        if token["bar"] and depth == 0:
            parts.append(source[start : token.start()])
            start = token.end()
    return [*parts, source[start:]]


def _pieces(source: str) -> list[re.Pattern[str]] | None:
    """The pieces between `.*`, each compiled; None for what is not taken."""
    texts, at, depth, repeated, groups = [""], 0, 0, 0, 0
    while at < len(source):
        token = _TOKEN.match(source, at)
        if token is None:
            return None
        at = token.end()
        depth += bool(token["open"]) - bool(token["close"])
        if token["any"]:
            if depth:
                return None
            texts.append("")
            repeated = groups = 0
            continue
        groups += bool(token["open"])
        repeated += token["times"] is not None and token["times"] != "?"
        piece = _piece(token)
        if piece is None or repeated > 2 or groups > 3:
            return None
        texts[-1] += piece
    try:
        return [re.compile(text, re.IGNORECASE) for text in texts if text]
    except (re.error, OverflowError):
        return None


def _piece(token: re.Match[str]) -> str | None:
    """A token with its repetition bounded; a class that a later Python reads otherwise is none."""
    atom, times = token["atom"], token["times"]
    if atom is None:
        return token[0]
    if atom[0] == "[" and any(sign in atom for sign in _SET_SIGNS):
        return None
    if times in ("*", "+"):
        times = f"{{{int(times == '+')},{_MOST}}}"
    elif times and times != "?":
        least, _, most = times.strip("{}").partition(",")
        if int(least) > _MOST or int(most or 0) > _MOST:
            return None
        times = times if "," not in times or most else f"{{{least},{_MOST}}}"
    return atom + (times or "") + (token["lazy"] or "")
