"""Lines that have a text, a pattern or all of some words; no pattern can make it slow.

Patterns come from a model and lines from any tool, so Python's matching with all its backtracking
is not let loose on them. What is taken is the part of the syntax that people search with: letters,
classes, `^ $ \\b`, `|`, groups that are not repeated, `.*` between pieces, and some repetitions of
single signs. Anything else is looked for as plain text. How many ways a pattern has to match at
one place is known before, and the lines are tried only as far as that allows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

_LONGEST = 200  # characters of a pattern
_MOST = 32  # repetitions of one sign
_WAYS = 1100  # ways to match at one place: two free repetitions, or ten signs that may be missing
_WORK = 60_000_000  # ways times characters that are tried; half a second if each is gone
_LINE = 10_000  # characters of a line that a pattern is tried on
_TOKEN = re.compile(
    r"(?P<any>\.[*+]\??)|(?P<open>\((?:\?:)?)|(?P<close>\))|(?P<bar>\|)"
    r"|(?P<atom>\\[dDwWsSbB]|\\[^0-9A-Za-z]|\\[nt]|\[\^?\]?(?:\\.|[^\]\\\[])*\]|[^\\()\[\]{}*+?|])"
    r"(?P<times>[*+?]|\{\d{1,2}(?:,\d{0,2})?\})?(?P<lazy>\?)?"
)
_SET_SIGNS = ("--", "&&", "||", "~~")  # a later Python may read these as set operations


class Found(NamedTuple):
    """Index and column of the lines that have it, and how many lines were tried."""

    hits: list[tuple[int, int]]
    tried: int


def find_lines(lines: Sequence[str], wanted: str) -> Found:
    """The lines that have `wanted`, whatever the case, with the column where it stands.

    As plain text first; if no line has it, as a pattern; then the lines that have all its words.
    """
    low = [line.lower() for line in lines]
    text = wanted.lower()
    hits = [(index, at) for index, line in enumerate(low) if (at := line.find(text)) >= 0]
    if not hits and (pattern := compiled(wanted)):
        found = pattern.find(low)
        if found.hits:
            return found
    words = text.split()
    if not hits and len(words) > 1:
        hits = [
            (index, line.find(words[0]))
            for index, line in enumerate(low)
            if all(word in line for word in words)
        ]
    return Found(hits, len(lines))


# -- patterns -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pattern:
    """Alternatives, each of pieces that must stand one behind the other in a line."""

    alternatives: tuple[tuple[re.Pattern[str], ...], ...]
    ways: int

    def find(self, lines: Sequence[str]) -> Found:
        """The lines that have one of the alternatives, as far as `_WORK` goes."""
        hits: list[tuple[int, int]] = []
        work = _WORK
        for index, line in enumerate(lines):
            part = line[:_LINE]
            work -= (len(part) + 20) * self.ways
            if work < 0:
                return Found(hits, index)
            at = next((at for pieces in self.alternatives if (at := _at(pieces, part)) >= 0), -1)
            if at >= 0:
                hits.append((index, at))
        return Found(hits, len(lines))


def compiled(wanted: str) -> Pattern | None:
    """`wanted` as a pattern, or None where it is none that is safe and sensible."""
    source = wanted.removeprefix("(?i)")
    if not 0 < len(source) <= _LONGEST or not re.search(r"[\\.*+?|^$()\[{]", source):
        return None
    alternatives: list[tuple[re.Pattern[str], ...]] = []
    total = 0
    for part in _parts(source):
        read = _pieces(part)
        if read is None or not read[0]:
            return None
        alternatives.append(read[0])
        total += read[1]
    return Pattern(tuple(alternatives), total) if total <= 2 * _WAYS else None


def _at(pieces: Sequence[re.Pattern[str]], line: str) -> int:
    """Where the pieces stand in `line` one behind the other; each is looked for once."""
    first = end = -1
    for piece in pieces:
        found = piece.search(line, max(end, 0))
        if found is None:
            return -1
        first, end = (found.start() if first < 0 else first), found.end()
    return first


def _parts(source: str) -> Iterator[str]:
    """What stands between the bars that are in no group."""
    depth = start = 0
    for token in _TOKEN.finditer(source):
        depth += bool(token["open"]) - bool(token["close"])
        if token["bar"] and depth == 0:
            yield source[start : token.start()]
            start = token.end()
    yield source[start:]


def _pieces(source: str) -> tuple[tuple[re.Pattern[str], ...], int] | None:
    """The compiled pieces between `.*`, and their ways to match; None for what is not taken."""
    texts, ways, at, depth = [""], [1], 0, 0
    while at < len(source):
        token = _TOKEN.match(source, at)
        if token is None:
            return None
        at = token.end()
        depth += bool(token["open"]) - bool(token["close"])
        if token["any"] and depth:
            return None
        if token["any"]:
            texts.append("")
            ways.append(1)
            continue
        read = _read(token)
        if read is None:
            return None
        texts[-1] += read[0]
        ways[-1] *= read[1]
        if ways[-1] > _WAYS:
            return None
    try:
        return tuple(re.compile(text, re.IGNORECASE) for text in texts if text), sum(ways)
    except (re.error, OverflowError):
        return None


def _read(token: re.Match[str]) -> tuple[str, int] | None:
    """A token with its repetition bounded, and the factor that it is to the ways to match."""
    atom, times, lazy = token["atom"], token["times"], token["lazy"] or ""
    if atom is None:
        return token[0], 2 if token["bar"] else 1
    if atom[0] == "[" and any(sign in atom for sign in _SET_SIGNS):
        return None
    if times is None:
        return atom, 1
    if times == "?":
        return f"{atom}?{lazy}", 2
    if times in ("*", "+"):
        least, most = int(times == "+"), _MOST
    else:
        first, comma, last = times.strip("{}").partition(",")
        least = int(first)
        most = int(last) if last else (_MOST if comma else least)
    if not least <= most <= _MOST:
        return None
    return f"{atom}{{{least},{most}}}{lazy}", most - least + 1
