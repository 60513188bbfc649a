"""The list of facts that stands beside a summary: what of the folded turns it lost.

A summary by a small model loses what it does not find worth saying. So each new one is compared
with the messages it replaces, and with the list before it; what it does not say is kept as lines,
by the weight of who said it, in a limit of characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain

from langchain_core.messages import AnyMessage, ToolMessage

from agent_core.fact_patterns import has_single_names, is_lasting, weight_of
from agent_core.facts import (
    ASKING,
    NOT_ANSWERED,
    USER,
    Fact,
    Source,
    by_sentence,
    in_sentence,
    is_known,
    is_said,
    normal,
    unanswered,
)

# 0 what the user said for good, 1 what they decided or left open, 2 what else they told, 3 what an
# answer decided or left open, 4 what else it said and what the user asked, 5 results.
_WEIGHTS, _RESULT = 6, 5
_SHORTEST = 24  # characters that a line has at least, or hardly any has less
# In which order the weights take their lines, and up to which part of the limit.
_SHARES = ((0, 0.5), (1, 0.7), (2, 0.9), (3, 1.0), (4, 1.0), (5, 1.0), (0, 1.0), (1, 1.0), (2, 1.0))
_HANDLE = re.compile(r"r\d+: ")


def surviving(
    messages: Sequence[AnyMessage], previous: Sequence[str], summary: str, limit_chars: int
) -> list[str]:
    """The lines to keep beside `summary`: facts of the folded `messages` and of `previous` lines.

    What the summary says already is left out. All lines together, with one character for each
    line's end, have at most `limit_chars`. The order is by weight: what the user decided or left
    open, what else they said, then the same of answers, then results; within one weight as it was
    said. Where not all fit, the older ones of the lowest weights go.
    """
    known = normal(summary)
    groups: list[list[_Line]] = [[] for _ in range(_WEIGHTS)]
    for line in previous:
        if not _is_line_said(line, known):
            groups[_weight_of_line(line)].append(_Line(line, _names_in(line)))
    said = [m for m in messages if not isinstance(m, ToolMessage)]
    for weight, entry in _missing(said, known):
        groups[weight].append(entry)
    *spoken, older = _without_repeats(groups)
    results = [m for m in messages if isinstance(m, ToolMessage)]
    return _chosen(spoken, chain(_newest_first(results, known), reversed(older)), limit_chars)


@dataclass(frozen=True, slots=True)
class _Line:
    """A line and the normalised facts for which it is kept."""

    text: str
    facts: tuple[str, ...]


def _missing(messages: Sequence[AnyMessage], known: str) -> Iterator[tuple[int, _Line]]:
    """A weight and a line for each fact that normalised `known` does not say; one a sentence."""
    for message in messages:
        yield from _missing_of(message, known)
    for fact in unanswered(messages):
        if not is_said(fact.text, known):
            yield 1, _Line(fact.line, (fact.name,))


def _missing_of(message: AnyMessage, known: str) -> Iterator[tuple[int, _Line]]:
    """The same of one message."""
    for facts in by_sentence(message):
        lines: dict[str, list[Fact]] = {}
        for fact in facts:
            if not is_known(fact, known):
                lines.setdefault(fact.line, []).append(fact)
        for line, of_line in lines.items():
            weight = min(_weight(fact) for fact in of_line)
            yield weight, _Line(line, tuple(fact.name for fact in of_line))


def _newest_first(results: Sequence[AnyMessage], known: str) -> Iterator[_Line]:
    """The lines of results from the last on; found one by one, as there is seldom room for many."""
    for message in reversed(results):
        for _, line in reversed(list(_missing_of(message, known))):
            yield line


def _weight(fact: Fact) -> int:
    if fact.source == "result":
        return _RESULT
    heavy = fact.kind in ("decision", "open")
    if fact.source == "user" and heavy and is_lasting(fact.text):
        return 0
    told = fact.source == "user" and not (fact.in_question and not heavy)
    return (1 if told else 3) + (not heavy)


@lru_cache(maxsize=256)
def _weight_of_line(line: str) -> int:
    """The weight of a line of an earlier list, by its mark and its words."""
    if _HANDLE.match(line):
        return _RESULT
    by_user = line.startswith(USER)
    if by_user and is_lasting(line):
        return 0
    heavy = weight_of(line, by_user=by_user) or line.endswith(NOT_ANSWERED)
    told = by_user and (heavy or not line.endswith(ASKING))
    return (1 if told else 3) + (not heavy)


def _without_repeats(groups: Sequence[Sequence[_Line]]) -> list[list[_Line]]:
    """The lines but for those whose facts all stand in heavier or earlier ones."""
    seen: set[str] = set()
    out: list[list[_Line]] = []
    for group in groups:
        out.append([])
        for line in group:
            if line.text not in seen and not seen.issuperset(line.facts):
                out[-1].append(line)
            seen.update((line.text, *line.facts))
    return out


def _chosen(spoken: Sequence[Sequence[_Line]], results: Iterator[_Line], limit: int) -> list[str]:
    """As many lines as fit: those of what was `spoken` by weight, then `results`, newest first.

    The heaviest leave some room to the others at first.
    """
    kept = _Kept(limit)
    taken: list[dict[int, str]] = [{} for _ in spoken]
    newest: list[str] = []
    for weight, share in _SHARES:
        least = limit - int(limit * share)
        if weight == _RESULT:
            newest += kept.of(results)
            continue
        group = spoken[weight]
        for at in range(len(group) - 1, -1, -1):
            if at not in taken[weight] and kept.take(group[at], least):
                taken[weight][at] = group[at].text
    lines = [text for group in taken for _, text in sorted(group.items())]
    return [*lines, *reversed(newest)]


@dataclass(slots=True)
class _Kept:
    """What is kept: the `lines`, what they say, normalised, and the `room` left, in characters."""

    room: int
    said: str = " "
    lines: set[str] = field(default_factory=set)

    def take(self, line: _Line, least: int = 0) -> bool:
        """Keep a line, if `least` characters stay free and it says something new."""
        cost = len(line.text) + 1
        if cost > self.room - least or line.text in self.lines:
            return False
        if all(fact in self.said for fact in line.facts):
            return False
        self.lines.add(line.text)
        self.said += normal(line.text)
        self.room -= cost
        return True

    def of(self, lines: Iterator[_Line]) -> Iterator[str]:
        """Those of `lines` that are kept, while there is room for any."""
        while self.room >= _SHORTEST and (line := next(lines, None)):
            if self.take(line):
                yield line.text


# -- lines of an earlier list ----------------------------------------------------------------------


def _bare(line: str) -> str:
    """A line of a list without what was put before and behind it."""
    return _HANDLE.sub("", line.removeprefix(USER).removesuffix(NOT_ANSWERED), count=1)


@lru_cache(maxsize=256)
def _facts_of_line(line: str) -> Sequence[Fact]:
    source: Source = "result" if _HANDLE.match(line) else "answer"
    source = "user" if line.startswith(USER) else source
    return tuple(in_sentence(_bare(line), source, "", has_single_names(line)))


def _names_in(line: str) -> tuple[str, ...]:
    """The facts for which a line of an earlier list is kept, normalised."""
    return tuple(fact.name for fact in _facts_of_line(line)) or (normal(_bare(line)),)


def _is_line_said(line: str, known: str) -> bool:
    """Whether normalised `known` says each fact of a line, or the line where it has none."""
    facts = _facts_of_line(line)
    if not facts or line.endswith(NOT_ANSWERED):
        return is_said(_bare(line), known)
    return all(is_known(fact, known) for fact in facts)
