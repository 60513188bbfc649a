"""The part of a text that shows best why it was found, with the found words marked."""

from __future__ import annotations

import re
from collections.abc import Sequence

from local_agent.memory.words import Phrase, spans, words_of

WIDTH = 160  # characters of an excerpt, about two lines of a terminal
_ENOUGH = 200  # places in a text that are looked at; further ones show nothing new
_SPACES = re.compile(r"\s+")

Part = tuple[str, bool]  # a piece of the text, and whether it is one of the found words


def excerpt(text: str, phrases: Sequence[Phrase], width: int = WIDTH) -> list[Part]:
    """About `width` characters of `text` as pieces; white space runs are one space.

    Where something is left out before or behind, the first or last piece is "…". A text without
    the phrases gives its beginning.
    """
    places = _places(text, phrases)
    start, end = _window(places, len(text), width)
    parts: list[Part] = [("…", False)] if start else []
    at = start
    for first, last in _merged(places):
        if first < start or last > end:
            continue
        parts += [(text[at:first], False), (text[first:last], True)]
        at = last
    parts.append((text[at:end], False))
    if end < len(text):
        parts.append(("…", False))
    parts = [(_SPACES.sub(" ", piece), found) for piece, found in parts]
    return [part for part in parts if part[0]]


def _places(text: str, phrases: Sequence[Phrase]) -> list[tuple[int, int, int]]:
    """Up to `_ENOUGH` places, or more if a phrase did not come before."""
    found: list[tuple[int, int, int]] = []
    missing = set(range(len(phrases)))
    for place in spans(words_of(text), phrases):
        if len(found) < _ENOUGH or place[2] in missing:
            found.append(place)
        missing.discard(place[2])
        if not missing and len(found) >= _ENOUGH:
            break
    return sorted(found)


def _window(places: Sequence[tuple[int, int, int]], size: int, width: int) -> tuple[int, int]:
    """Where the excerpt begins and ends: around the place that has the most phrases near it."""
    if size <= width or not places:
        return 0, min(size, width)
    best, most = places[0], 0
    for i, place in enumerate(places):
        near = {p[2] for p in places[i : i + 20] if p[1] <= place[0] + width}
        if len(near) > most:
            best, most = place, len(near)
    inside = [p[1] for p in places if best[0] <= p[0] and p[1] <= best[0] + width]
    last = max([best[1], *inside])
    margin = max(0, min(40, (width - (last - best[0])) // 2))
    start = max(0, best[0] - margin)
    return start, min(size, max(start + width, last))


def _merged(places: Sequence[tuple[int, int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end, _ in places:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
