"""A small index of tools by the words that describe them; nothing is stored, no model is asked.

BM25F with the weights of a field in place of lengths: what stands in a tool's name says more than
what stands in the description of an argument, and a rare word more than a frequent one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent_core.ports import Described

from .words import stem, words

NAME, TOPIC, TEXT, ARGUMENT = 1.0, 0.8, 0.6, 0.35  # what a word counts for, by where it stands
_AGAIN = 0.25  # what it counts for in each further place
_VERB = 0.6  # what a word counts for that says what is done, and not with what
_FREQUENT = 0.34  # a word in so large a part of the tools counts for a quarter
_FEW = 4  # of so few tools none is frequent


_DOING = """
add change check copy create delete display edit fetch find list load look open print query read
remove run save search select send set start stop update view write
"""
_VERBS = frozenset(map(stem, _DOING.split()))


@dataclass(frozen=True, slots=True)
class Match:
    """How well a tool fits: `score`, the `words` it has, and `named`, those of them in its name."""

    name: str
    score: float
    words: frozenset[str]
    named: frozenset[str]


class Index:
    """The words of `tools`, and of their `topics`: texts by tool name of the routes it is in."""

    def __init__(self, tools: Sequence[Described], topics: Mapping[str, str] | None = None) -> None:
        self._order = {tool.name: at for at, tool in enumerate(tools)}
        self._postings: dict[str, dict[str, float]] = {}
        self._named: dict[str, frozenset[str]] = {}
        for tool in tools:
            self._add(tool, (topics or {}).get(tool.name, ""))
        self._idf = {
            word: self._weight(len(has)) * (_VERB if word in _VERBS else 1.0)
            for word, has in self._postings.items()
        }

    def _add(self, tool: Described, topic: str) -> None:
        name = set(words(f"{tool.name} {tool.original}"))
        self._named[tool.name] = frozenset(name)
        arguments = " ".join(_argument_texts(tool.schema))
        fields = (
            (NAME, name),
            (TOPIC, set(words(f"{tool.server} {topic}"))),
            (TEXT, set(words(tool.description))),
            (ARGUMENT, set(words(arguments))),
        )
        for weight, found in fields:
            for word in found:
                has = self._postings.setdefault(word, {})
                before = has.get(tool.name)
                has[tool.name] = weight if before is None else before + weight * _AGAIN

    def _weight(self, having: int) -> float:
        total = len(self._order)
        idf = math.log(1 + (total - having + 0.5) / (having + 0.5)) + 0.3
        return idf / 4 if total > _FEW and having > total * _FREQUENT else idf

    def weight(self, word: str) -> float:
        """What a word is worth; one that no tool has, as much as the rarest."""
        return self._idf.get(word, self._weight(1))

    def __contains__(self, word: str) -> bool:
        return word in self._postings

    def search(self, query: Iterable[str], among: Collection[str] | None = None) -> list[Match]:
        """The tools that have any of the words, best first; of equal ones the first in order.

        `query` are words as `words` gives them.
        """
        scores: dict[str, float] = {}
        found: dict[str, set[str]] = {}
        for word in dict.fromkeys(query):
            for name, weight in self._postings.get(word, {}).items():
                if among is None or name in among:
                    scores[name] = scores.get(name, 0.0) + weight * self._idf[word]
                    found.setdefault(name, set()).add(word)
        best = sorted(scores, key=lambda name: (-scores[name], self._order[name]))
        return [Match(n, scores[n], frozenset(found[n]), self._named[n] & found[n]) for n in best]


def _argument_texts(schema: Mapping[str, object]) -> Iterable[str]:
    """Names and descriptions of the arguments, not those within them."""
    properties = schema.get("properties")
    for name, part in properties.items() if isinstance(properties, Mapping) else ():
        yield str(name)
        if isinstance(part, Mapping):
            yield str(part.get("description") or "")
            values = part.get("enum")
            if isinstance(values, list):
                yield " ".join(map(str, values[:20]))
