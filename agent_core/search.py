"""Words and phrases found in everything that was said in a thread, best passages first.

Case and accents don't count. A passage counts for the rare words in it: what stands in few
messages says most about what is meant. One pass over the messages with plain substring search.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from agent_core.clip_text import place
from agent_core.turn import handles_of
from context import text_of

AROUND = 200  # characters of a passage
_WORD = 24  # characters looked through for a blank to cut at
HITS, MOST_HITS = 10, 20  # passages when no number is given, and at most
_EACH = 4  # passages of one text, where there is room for more than one of each
_NEARLY = 0.7  # part of the best one's weight that makes another passage of a text worth showing
_TERMS = 12  # words of a query that are looked for
_CANDIDATES = 60  # texts whose passages are compared
_PLACES = 60  # places of one text that are compared
_COMMON = 0.5  # a word in so large a part of the texts says nothing, where others are found


@dataclass(frozen=True, slots=True)
class _Text:
    """One text that can be found: the turn's number, and who said it (or the result's handle)."""

    turn: int
    who: str
    text: str


@dataclass(frozen=True, slots=True)
class _Term:
    """A word or phrase of the query: its folded spellings, the texts that have it, its weight."""

    spellings: tuple[str, ...]
    texts: Sequence[int]
    weight: float


class _Passage(NamedTuple):
    """How much a place in a folded text says, and where it begins and ends."""

    weight: float
    start: int
    end: int


def search(
    query: str, messages: Sequence[AnyMessage], *, limit: int, chars: int, own: Collection[str]
) -> str:
    """At most `limit` passages of `messages` with words of `query`, in `chars` characters.

    `own` are the names of the tools that look things up: what they said stands elsewhere too. The
    newest prompt is left out, it asks. A query without a word, or without a hit, gets a line that
    says so.
    """
    wanted = _terms(query)
    if not wanted:
        return "The query has no words to look for."
    texts = list(_texts(messages, own))
    folded = [fold(text.text) for text in texts]
    terms, missing = _found_terms(wanted, folded)
    if not terms:
        return f'Nothing in the earlier conversation has "{" ".join(query.split())[:80]}".'
    scores = _scores(terms)
    best = sorted(scores, key=lambda i: (-scores[i], -i))[:_CANDIDATES]
    passages = {i: _passages(folded[i], terms) for i in best}
    best.sort(key=lambda i: -passages[i][0].weight - scores[i] / 2)
    order = [(i, passages[i][0]) for i in best]
    others = [(i, passage) for i in best for passage in passages[i][1:]]
    order += sorted(others, key=lambda entry: -entry[1].weight)
    lines = _distinct(order, texts, folded)
    shown = itertools.islice(lines, min(max(limit, 1), MOST_HITS))
    return _report(shown, len(scores), missing, chars)


def _distinct(
    order: Sequence[tuple[int, _Passage]], texts: Sequence[_Text], folded: Sequence[str]
) -> Iterator[tuple[int, str]]:
    """A text and a line for each passage, each once: the same result is often read again."""
    seen: set[str] = set()
    for index, passage in order:
        text = texts[index]
        first = _original(text.text, folded[index], passage.start)
        said = _cut_out(text.text, first, _original(text.text, folded[index], passage.end))
        if said not in seen:
            seen.add(said)
            yield index, f"{_where(text, first)}: {said}"


def _report(lines: Iterable[tuple[int, str]], hits: int, missing: str, chars: int) -> str:
    """The first lines in `chars` characters, and a last one with what else there is."""
    out: list[str] = []
    shown: set[int] = set()
    room = chars - len(missing) - 50
    for index, line in lines:
        room -= len(line) + 1
        if room < 0 and out:
            break
        out.append(line)
        shown.add(index)
    if len(shown) < hits:
        out.append(f"[{hits - len(shown)} more messages have some of these words]")
    return "\n".join([*out, missing] if missing else out)


# -- what is looked for ---------------------------------------------------------------------------

_SMALL = re.compile(  # words that stand in every question
    r"a|an|the|and|or|of|to|in|on|at|is|are|was|were|be|it|i|me|my|we|our|you|your|he|she|they|this"
    r"|that|what|which|who|when|where|why|how|did|do|does|has|have|had|for|with|from|about|by|as|not"
    r"|der|die|das|den|dem|des|ein|eine|einen|und|oder|ist|sind|war|im|am|zu|zum|zur|von|vom|mit|auf"
    r"|fur|was|wer|wie|wo|wann|warum|welche[rns]?|ich|mir|mein|meine|wir|sie|er|es|nicht|hat|habe"
)
_SHORT = 3  # letters; such a word counts only as a whole one
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]{3,}")


def _terms(query: str) -> list[str]:
    """Phrases in quotes, then single words, folded, each once."""
    phrases = re.findall(r'["“„]([^"“”„]{1,200})["“”]', query)
    rest = re.sub(r'["“„][^"“”„]{1,200}["“”]', " ", query)
    words = [word.strip(".,;:!?()[]{}'\"`<>*") for word in rest.split()]
    folded = (" ".join(fold(term).split()) for term in [*phrases, *words])
    terms = list(dict.fromkeys(term for term in folded if any(map(str.isalnum, term))))
    telling = [term for term in terms if not _SMALL.fullmatch(term)]
    return (telling or terms)[:_TERMS]


def _found_terms(wanted: Sequence[str], folded: Sequence[str]) -> tuple[list[_Term], str]:
    """The terms that stand somewhere, and a line that names those that stand nowhere."""
    found: list[_Term] = []
    lost: list[str] = []
    for term in wanted:
        for spellings in _ways(term):
            if at := _texts_with(spellings, folded):
                found.append(_Term(spellings, at, math.log(1 + len(folded) / len(at))))
                break
        else:
            lost.append(term)
    telling = [term for term in found if len(term.texts) <= _COMMON * len(folded)]
    missing = f"[nowhere: {', '.join(lost)[:200]}]" if lost and found else ""
    return telling or found, missing


def _texts_with(spellings: Sequence[str], folded: Sequence[str]) -> list[int]:
    """The texts that have one of the spellings; a short one as a word of its own."""
    if len(spellings) > 1:
        return [i for i, text in enumerate(folded) if any(s in text for s in spellings)]
    word = spellings[0]
    at = [i for i, text in enumerate(folded) if word in text]
    if len(word) > _SHORT or not word.isascii():
        return at
    whole = re.compile(rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])")
    return [i for i in at if whole.search(folded[i])]


def _ways(term: str) -> Iterator[tuple[str, ...]]:
    """The spellings of a word, likelier ones first; the next are tried when no text has these."""
    yield (term, term.replace("ss", "ß")) if "ss" in term else (term,)
    plain = term.replace("ae", "a").replace("oe", "o").replace("ue", "u")
    if plain != term:
        yield (plain,)
    if term.isalpha():
        yield from ((term[:-cut],) for cut in (1, 2, 3) if len(term) - cut >= 2 + cut)
    if " " in term:
        yield from ((word,) for word in sorted(term.split(), key=len, reverse=True)[:1])
    if wide := _WIDE.search(term):  # written without blanks: any two signs of it
        yield tuple(wide[0][i : i + 2] for i in range(len(wide[0]) - 1))


def _scores(terms: Sequence[_Term]) -> dict[int, float]:
    """The summed weight of the terms in each text that has any."""
    scores: dict[int, float] = {}
    for term in terms:
        for index in term.texts:
            scores[index] = scores.get(index, 0.0) + term.weight
    return scores


# -- what is looked through -----------------------------------------------------------------------


def _texts(messages: Sequence[AnyMessage], own: Collection[str]) -> Iterator[_Text]:
    """Prompts, answers, calls and results, but for the newest prompt and for look-ups."""
    handles = {id(message): handle for handle, message in handles_of(messages).items()}
    newest = max((i for i, m in enumerate(messages) if isinstance(m, HumanMessage)), default=-1)
    turn = 0
    for index, message in enumerate(messages):
        text = text_of(message.content)
        if isinstance(message, HumanMessage):
            turn += 1
            if index != newest:
                yield _Text(turn, "user", text)
        elif isinstance(message, ToolMessage):
            if message.name not in own:
                who = " ".join(filter(None, (handles.get(id(message), "result"), message.name)))
                yield _Text(turn, who, text)
        elif isinstance(message, AIMessage):
            if text:
                yield _Text(turn, "assistant", text)
            for call in message.tool_calls:
                if call["name"] not in own:
                    args = json.dumps(call["args"], ensure_ascii=False, default=str)
                    yield _Text(turn, "call", f"{call['name']} {args}")


# Letters with accents (Latin, and the Greek and Cyrillic ones that are common), marks, full width.
_ACCENTED = re.compile(
    "[à-öø-ÿ\u0100-\u024f\u0300-\u036f\u0390-\u03ce\u0439\u0450-\u045f\u1e00-\u1fff\uff01-\uff5e]"
)
_MARKS = re.compile("[\u0300-\u036f]")
_STROKES = {"ł": "l", "ø": "o", "đ": "d", "ı": "i", "æ": "ae", "œ": "oe"}


def fold(text: str) -> str:
    """`text` in small letters without accents; "ß" stays."""
    low = text.lower()
    if low.isascii():
        return low
    for char in set(_ACCENTED.findall(low)):
        bare = _STROKES.get(char) or _MARKS.sub("", unicodedata.normalize("NFKD", char))
        low = low.replace(char, bare)
    return low


# -- passages -------------------------------------------------------------------------------------


def _passages(folded: str, terms: Sequence[_Term]) -> list[_Passage]:
    """The passages of a text that have most of the terms, the best first; at least one."""
    places = sorted(_places_of(folded, terms))
    windows: list[_Passage] = []
    for n, (start, _, _) in enumerate(places):
        weights: dict[int, float] = {}
        end = start
        for at, number, length in itertools.islice(places, n, n + _TERMS):
            if at - start >= AROUND:
                break
            weight = terms[number].weight * _wholeness(folded, at, length)
            weights[number] = max(weight, weights.get(number, 0.0))
            end = max(end, at + length)
        windows.append(_Passage(sum(weights.values()), start, end))
    windows.sort(key=lambda window: -window.weight)
    out = windows[:1]
    for window in windows[1:]:
        if len(out) == _EACH or window.weight < _NEARLY * out[0].weight:
            break
        if all(abs(window.start - other.start) >= AROUND for other in out):
            out.append(window)
    return out or [_Passage(0.0, 0, 0)]


def _places_of(folded: str, terms: Sequence[_Term]) -> Iterator[tuple[int, int, int]]:
    """(place, number of the term, length) of the first places of each term."""
    for number, term in enumerate(terms):
        for spelling in term.spellings:
            at, left = folded.find(spelling), _PLACES // len(terms) + 1
            while at >= 0 and left:
                yield at, number, len(spelling)
                at, left = folded.find(spelling, at + len(spelling)), left - 1


def _wholeness(folded: str, at: int, length: int) -> float:
    """1 for a whole word, less for a part of one."""
    before, behind = folded[at - 1 : at], folded[at + length : at + length + 1]
    return 1.0 - 0.2 * before.isalnum() - 0.2 * behind.isalnum()


def _original(text: str, folded: str, at: int) -> int:
    """The place in `text` of a place in its folded form, which may be longer or shorter."""
    if len(text) == len(folded):
        return at
    low, high = 0, len(text)
    while low < high:
        middle = (low + high) // 2
        if len(fold(text[:middle])) < at:
            low = middle + 1
        else:
            high = middle
    return low


def _where(text: _Text, at: int) -> str:
    """Turn and speaker; for a result the line, by which it can be read."""
    line = text.text.count("\n", 0, at) + 1
    where = f"turn {text.turn}, {text.who}"
    if text.who[:1] == "r" and text.who[1:2].isdigit() and "\n" in text.text:
        where += f" line {line}"
    return where


def _cut_out(text: str, first: int, last: int) -> str:
    """The words of a passage with some before and behind, on one line."""
    spare = max(AROUND - (last - first), 60)
    start, end = max(first - spare // 2, 0), min(last + spare // 2, len(text))
    if start:
        blank = text.find(" ", start, min(start + _WORD, first))
        start = blank + 1 if blank >= 0 else place(text, start)
    if end < len(text):
        blank = text.rfind(" ", max(end - _WORD, last), end)
        end = blank if blank >= 0 else place(text, end)
    piece = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{piece}{'…' if end < len(text) else ''}"
