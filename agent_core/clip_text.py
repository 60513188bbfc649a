"""Where a text may be cut, and the two ways to shorten any text: its head, or its head and tail.

A cut never falls inside a code point, a grapheme (accents, emoji sequences, flags, Hangul), a
backslash escape, a percent escape or an entity, and lies at a line's, sentence's or word's end
where one is near. All of it is linear: a place is looked for in the nearest few characters alone.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

_NEAR = 64  # characters looked back for the start of a grapheme; accents beyond that are no text
_JOINER = "\u200d"
_JOINS_LEFT = re.compile("[\u200c\u200d\u1160-\u11ff\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}"
    r"|x[0-9a-fA-F]{2}|[0-7]{1,3}|.)|%[0-9a-fA-F]{2}|&#?[0-9A-Za-z]{1,8};",
    re.DOTALL,
)
_LONGEST_ESCAPE = 12
_RUN = 4096  # backslashes or flags in a row that are counted
_SENTENCE_END = re.compile(r"[.!?][\"')\]»“”]?(?=\s)|[。！？]")


def place(text: str, at: int) -> int:
    """The last index at or before `at` where `text` may be cut in two."""
    if at <= 0 or at >= len(text):
        return min(max(at, 0), len(text))
    found = _escape_start(text, at)
    for index in range(found, max(found - _NEAR, 0), -1):
        if not _is_joined(text, index):
            return index
    return found - _splits_pair(text, found) if found > _NEAR else 0


def head(text: str, chars: int) -> str:
    """The start of `text`, at most `chars` characters, ending where a reader would stop."""
    if len(text) <= chars:
        return text
    if chars <= 0:
        return ""
    line = text.rfind("\n", chars * 3 // 5, chars + 1)
    if line >= 0:
        return text[:line]
    near = chars * 4 // 5
    ends = [m.end() for m in _SENTENCE_END.finditer(text, near, min(chars + 1, len(text)))]
    if ends and ends[-1] <= chars:
        return text[: ends[-1]]
    space = text.rfind(" ", near, chars + 1)
    return text[: space if space > 0 else place(text, chars)]


def tail(text: str, chars: int) -> str:
    """The end of `text`, at most `chars` characters, beginning where a reader would begin."""
    if len(text) <= chars:
        return text
    if chars <= 0:
        return ""
    first = len(text) - chars
    line = text.find("\n", first - 1, first + chars * 2 // 5)
    if line >= 0:
        return text[line + 1 :]
    space = text.find(" ", first - 1, first + chars // 5)
    if space >= 0:
        return text[space + 1 :]
    at = place(text, first)
    while at < first:  # the next place behind a sequence that begins before
        first += 1
        at = place(text, first)
    return text[at:]


class Cut(NamedTuple):
    """What is left of a text, and which lines (counted from 1) and characters are not."""

    first: str
    last: str
    left_out: int
    lines: tuple[int, int]


def head_and_tail(text: str, chars: int, kind: str = "") -> str:
    """`text` in at most `chars` characters, with a line between that says what is left out.

    `kind` is put into that line. Where there is no room for the line, the head alone.
    """
    if len(text) <= chars:
        return text
    lines = text.count("\n") + 1
    longest = gap_line(Cut("", "", len(text), (lines, lines)), len(text), lines, kind)
    room = chars - len(longest)
    if room < 8:
        return text[: place(text, chars)]
    cut = cut_middle(text, room)
    return cut.first + gap_line(cut, len(text), lines, kind) + cut.last


def cut_middle(text: str, room: int) -> Cut:
    """The head and tail of a longer `text`, together at most `room` characters.

    The head gets three quarters: what a result is usually stands at its start.
    """
    first = head(text, room * 3 // 4)
    last = tail(text, room - len(first))
    start, end = len(first), len(text) - len(last)
    from_line = text.count("\n", 0, start) + 1 + (text[start] == "\n")
    to_line = text.count("\n", 0, end) + 1 - (text[end - 1] == "\n")
    return Cut(first, last, end - start, (from_line, to_line))


def gap_line(cut: Cut, chars: int, lines: int, more: str = "") -> str:
    """The line between head and tail of a text of so many characters and lines."""
    numbers = f"{cut.left_out} of {chars} characters"
    if lines >= 3:
        numbers = f"lines {cut.lines[0]}-{cut.lines[1]} of {lines} left out, {numbers}"
    else:
        numbers += " left out"
    return f"\n[… {numbers}{'; ' if more else ''}{more} …]\n"


def shorten(text: str, chars: int) -> str:
    """One line or value in at most `chars` characters; an ellipsis says the cut."""
    if len(text) <= chars:
        return text
    return text[: place(text, max(chars - 1, 0))] + "…" if chars > 0 else ""


def _escape_start(text: str, at: int) -> int:
    """`at`, or the start of the escape sequence that a cut there would break."""
    start = max(at - _LONGEST_ESCAPE, 0)
    while start and text[start - 1] == "\\" and at - start < _RUN:
        start -= 1  # in a run of backslashes only the parity says which one begins an escape
    for found in _ESCAPE.finditer(text, start, min(at + _LONGEST_ESCAPE, len(text))):
        if found.start() >= at:
            break
        if found.end() > at:
            return found.start()
    return at


def _splits_pair(text: str, at: int) -> bool:
    return "\ud800" <= text[at - 1] <= "\udbff" and "\udc00" <= text[at] <= "\udfff"


def _is_joined(text: str, index: int) -> bool:
    """Tell whether the characters before and at `index` belong together."""
    before, after = text[index - 1], text[index]
    if before < "\u0300" and after < "\u0300":
        return before == "\r" and after == "\n"
    if _splits_pair(text, index) or before == _JOINER or _JOINS_LEFT.match(after):
        return True
    if unicodedata.category(after).startswith("M"):
        return True
    return _is_flag(before) and _is_flag(after) and _flags_before(text, index) % 2 == 1


def _is_flag(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _flags_before(text: str, index: int) -> int:
    count = 0
    while index > count < _RUN and _is_flag(text[index - count - 1]):
        count += 1
    return count
