"""A small index of tools by the words that describe them; nothing is stored, no model is asked.

BM25F with the weights of a field in place of lengths: what stands in a tool's name says more than
what stands in the description of an argument, and a rare word more than a frequent one. Topics are
scored apart, by in how few of them a word stands: `commit` is in half of git's tools, and says
little of which is meant, but all of where.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent_core.ports import Described

from .kin import KIN
from .words import stem, words

NAME, TOPIC, TEXT, ARGUMENT = 1.0, 0.8, 0.6, 0.35  # what a word counts for, by where it stands
_AGAIN = 0.25  # what it counts for in each further place
_KIN = 0.5  # what a word of the same kin counts for
_VAGUE = 0.5  # what a word counts for that goes with anything
_FREQUENT = 0.34  # a word in so large a part of the tools counts for a quarter
_FEW = 4  # of so few tools none is frequent
# Words of what is done, not with what, and such as go with anything.
_ANYTHING = """
add change check copy create current delete display edit fetch file find first last latest list
load look main name new open print query read remove run save search select send set show start
state stop switch today update view write
"""
VAGUE = frozenset(map(stem, _ANYTHING.split()))
_PATH = re.compile(r"\S*[\\/]\S+|\b[\w-]+\.[A-Za-z]\w{0,4}\b|\*\.\w+")
_SUM = re.compile(r"\d\s*(?:[-+*/x×÷^%]|plus|minus|times|divided by|mal|geteilt durch)\s*\(?\s*\d")


@dataclass(frozen=True, slots=True)
class Match:
    """How well a tool fits: `score`, the `words` it has, and `named`, those of them in its name."""

    name: str
    score: float
    words: frozenset[str]
    named: frozenset[str]


def query_words(prompt: str) -> list[str]:
    """The words of a prompt that are looked for. Of paths and addresses only that there are any;
    a sum is asked to be calculated."""
    bare = _PATH.sub(" ", prompt)
    found = words(bare)
    if len(bare) != len(prompt):
        found.append("fil" if "://" not in prompt else "url")
    if _SUM.search(prompt):
        found.append(stem("calculate"))
    return list(dict.fromkeys(found))


class Index:
    """The words of `tools`; `topics` has for each topic what it is called and its tools' names."""

    def __init__(
        self,
        tools: Sequence[Described],
        topics: Mapping[str, tuple[str, Sequence[str]]] | None = None,
    ) -> None:
        self._order = {tool.name: at for at, tool in enumerate(tools)}
        self._postings: dict[str, dict[str, float]] = {}
        self._named: dict[str, frozenset[str]] = {}
        about: dict[str, str] = {}
        for text, names in (topics or {}).values():
            about |= {name: f"{about.get(name, '')} {text}" for name in names}
        for tool in tools:
            self._add(tool, about.get(tool.name, ""))
        self._idf = {word: self._rarity(word) for word in self._postings}
        self._in_topics = self._topic_weights(topics or {})
        self._topic_count = len(topics or {})

    def _add(self, tool: Described, topic: str) -> None:
        name = set(words(f"{tool.name} {tool.original}"))
        self._named[tool.name] = frozenset(name)
        fields = (
            (NAME, name),
            (TOPIC, set(words(f"{tool.server} {topic}"))),
            (TEXT, set(words(tool.description))),
            (ARGUMENT, set(words(" ".join(_argument_texts(tool.schema))))),
        )
        for weight, found in fields:
            for word in found:
                has = self._postings.setdefault(word, {})
                before = has.get(tool.name)
                has[tool.name] = weight if before is None else before + weight * _AGAIN

    def _rarity(self, word: str) -> float:
        total, having = len(self._order), len(self._postings[word])
        idf = math.log(1 + (total - having + 0.5) / (having + 0.5)) + 0.3
        idf *= _VAGUE if word in VAGUE else 1.0
        return idf / 4 if total > _FEW and having > total * _FREQUENT else idf

    def _topic_weights(
        self, topics: Mapping[str, tuple[str, Sequence[str]]]
    ) -> dict[str, dict[str, float]]:
        """What each word says of each topic: 1 for a name that is of no other."""
        found: dict[str, dict[str, float]] = {}
        for topic, (_, names) in topics.items():
            of_it = set(names)
            for word, tools in self._postings.items():
                weights = [min(weight, NAME) for name, weight in tools.items() if name in of_it]
                if weights:
                    found.setdefault(word, {})[topic] = max(weights)
        total = len(topics)
        rarest = _idf(total, 1)
        for word, weights_of in found.items():
            share = _idf(total, len(weights_of)) / rarest * (_VAGUE if word in VAGUE else 1.0)
            for topic in weights_of:
                weights_of[topic] *= share
        return found

    def __contains__(self, word: str) -> bool:
        return word in self._postings

    def search(self, query: Iterable[str], among: Collection[str] | None = None) -> list[Match]:
        """The tools that have any of the words or their kin, best first; of equal ones the first.

        `query` are words as `query_words` gives them.
        """
        scores: dict[str, float] = {}
        found: dict[str, set[str]] = {}
        for word in dict.fromkeys(query):
            best: dict[str, float] = {}
            for other, part in _with_kin(word):
                for name, weight in self._postings.get(other, {}).items():
                    value = weight * self._idf[other] * part
                    if value > best.get(name, 0.0) and (among is None or name in among):
                        best[name] = value
                        found.setdefault(name, set()).add(other)
            for name, value in best.items():
                scores[name] = scores.get(name, 0.0) + value
        order = sorted(scores, key=lambda name: (-scores[name], self._order[name]))
        return [Match(n, scores[n], frozenset(found[n]), self._named[n] & found[n]) for n in order]

    def topics(self, query: Iterable[str]) -> dict[str, float]:
        """How much the words say of each topic: 1 and more where one names it as nothing else."""
        scores: dict[str, float] = {}
        for word in dict.fromkeys(query):
            best: dict[str, float] = {}
            for other, part in _with_kin(word):
                for topic, weight in self._in_topics.get(other, {}).items():
                    best[topic] = max(best.get(topic, 0.0), weight * part)
            for topic, value in best.items():
                scores[topic] = scores.get(topic, 0.0) + value
        return scores


def _idf(total: int, having: int) -> float:
    return math.log(1 + (total - having + 0.5) / (having + 0.5))


def _with_kin(word: str) -> Iterator[tuple[str, float]]:
    yield word, 1.0
    for other in KIN.get(word, ()):
        yield other, _KIN


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
