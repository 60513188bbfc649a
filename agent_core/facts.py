"""Facts that must survive a summary, found by rule: no model is asked what was important.

A summary by a small model loses what it does not find worth saying. So each new one is compared
with the messages it replaces: identifiers, amounts, dates, addresses, names, decisions and open
items that it does not contain are kept beside it, in a short list of lines.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from agent_core.fact_patterns import (
    Kind,
    Span,
    has_single_names,
    is_lasting,
    sentences,
    spans_of,
    weight_of,
)
from context import text_of

Source = Literal["user", "answer", "result"]

LONGEST = 160  # characters of a line that is kept
_SHORT = 110  # a sentence of at most so many characters is kept as it is
_BEFORE = 48  # characters of a long sentence before a fact that say what it is
_PER_RESULT = 12  # sentences with facts taken of one result: the rest is there by its handle
_RESULT_READ = 20_000  # characters of a result that are looked at
_ASKING = ("?", "？")
_TELLING = 5  # a normalised fact of so few characters, two of them blanks, may be anything
_USER = "User: "
_NOT_ANSWERED = " (not answered)"


@dataclass(frozen=True, slots=True)
class Fact:
    """`text` as it was written, `context` the words before it, `line` both and who said it."""

    kind: Kind
    text: str
    context: str
    source: Source
    line: str
    in_question: bool = False

    @property
    def name(self) -> str:
        """Normalised; a text too short to be known by itself has the last word before it too."""
        own = normal(self.text)
        return own if len(own) > _TELLING else normal(self.context)[:-1].rpartition(" ")[2] + own


def facts_of(messages: Sequence[AnyMessage]) -> list[Fact]:
    """The facts of `messages`, each once: those of prompts first, then of answers, then results."""
    found = [fact for message in messages for fact in _facts_in(message)]
    found += _unanswered(messages)
    order: tuple[Source, ...] = ("user", "answer", "result")
    seen: set[str] = set()
    out: list[Fact] = []
    for source in order:
        for fact in found:
            key = fact.name
            if fact.source == source and key not in seen:
                seen.add(key)
                out.append(fact)
    return out


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
    for weight, entry in _missing(messages, known):
        groups[weight].append(entry)
    return _chosen(_without_repeats(groups), limit_chars)


# -- finding them ---------------------------------------------------------------------------------


def _facts_in(message: AnyMessage) -> list[Fact]:
    return [fact for facts in _by_sentence(message) for fact in facts]


def _by_sentence(message: AnyMessage) -> Iterator[list[Fact]]:
    """The facts of a message, those of each sentence together; none for a sentence without."""
    text, source = text_of(message.content), _source_of(message)
    if source is None or not text:
        return
    spoken, left = source != "result", _PER_RESULT
    single = spoken and has_single_names(text)
    for sentence in sentences(text if spoken else text[:_RESULT_READ]):
        facts = list(_of_sentence(sentence, source, _mark_of(message), single))
        if facts:
            yield facts
            left -= 1
            if not spoken and not left:
                return


def _source_of(message: AnyMessage) -> Source | None:
    if isinstance(message, HumanMessage):
        return "user"
    if isinstance(message, AIMessage):
        return "answer"
    return "result" if isinstance(message, ToolMessage) else None


def _mark_of(message: AnyMessage) -> str:
    """What a line begins with: who said it, or the handle by which it can be read again."""
    if isinstance(message, HumanMessage):
        return _USER
    handle = message.additional_kwargs.get("handle") if isinstance(message, ToolMessage) else ""
    return f"{handle}: " if handle else ""


def _of_sentence(sentence: str, source: Source, mark: str, single: bool) -> Iterator[Fact]:
    spoken = source != "result"
    spans = spans_of(sentence, spoken=spoken, single_names=single)
    plain = " ".join(sentence.split())
    weight = weight_of(plain, by_user=source == "user") if spoken and len(plain) >= 8 else ""
    if weight:
        whole = _cut(plain, LONGEST - len(mark))
        yield Fact(weight, whole, "", source, mark + whole)
    pairs = ", ".join(f"{span.key}: {span.text}" for span in spans if span.key)
    whole = _cut(pairs or plain, LONGEST - len(mark)) if pairs or len(plain) <= _SHORT else ""
    for span in spans:
        part = whole or _excerpt(sentence, span)
        context = span.key or _context(sentence, span)
        yield Fact(span.kind, span.text, context, source, mark + part, plain.endswith(_ASKING))


def _unanswered(messages: Sequence[AnyMessage]) -> list[Fact]:
    """Prompts that got no answer, or one that says that it failed: they are open."""
    out: list[Fact] = []
    prompt: HumanMessage | None = None
    for message in messages:
        if isinstance(message, HumanMessage):
            out.extend(_open_prompt(prompt))
            prompt = message
        elif isinstance(message, AIMessage) and not message.tool_calls and _is_ok(message):
            prompt = None
    return [*out, *_open_prompt(prompt)]


def _is_ok(answer: AIMessage) -> bool:
    return str(answer.additional_kwargs.get("status", "ok")) == "ok"


def _open_prompt(prompt: HumanMessage | None) -> list[Fact]:
    if prompt is None:
        return []
    text = _cut(" ".join(text_of(prompt.content)[:1000].split()), LONGEST - 20)
    return [Fact("open", text, "", "user", f"{_USER}{text}{_NOT_ANSWERED}")] if text else []


def _context(sentence: str, span: Span) -> str:
    """The last words before a fact, or those behind it where it stands first."""
    before = sentence[max(span.start - _BEFORE, 0) : span.start]
    if span.start > _BEFORE:
        before = before.partition(" ")[2]
    words = " ".join(before.replace('"', " ").split()).strip(" ,;:=|-*([{")
    if words:
        return words
    behind = sentence[span.end : span.end + _BEFORE].split()
    return " ".join(behind[:6]).strip(" ,;:=|-*)]}.")


def _excerpt(sentence: str, span: Span) -> str:
    """A fact of a long sentence with the words around it."""
    start = max(span.start - _BEFORE, 0)
    if start:
        space = sentence.find(" ", start, span.start)
        start = space + 1 if space >= 0 else span.start
    text = sentence[start : span.end]
    if start == span.start:
        text += " " + _context(sentence, span)
    return _cut(" ".join(text.split()).lstrip(" ,;:|-*)]}"), LONGEST - 8)


def _cut(text: str, chars: int) -> str:
    if len(text) <= chars:
        return text
    space = text.rfind(" ", chars // 2, chars)
    return text[: space if space > 0 else chars - 1] + "…"


# -- choosing them --------------------------------------------------------------------------------

# 0 what the user said for good, 1 what they decided or left open, 2 what else they told, 3 what an
# answer decided or left open, 4 what else it said and what the user asked, 5 results.
_WEIGHTS = 6
# In which order the weights take their lines, and up to which part of the limit.
_SHARES = ((0, 0.5), (1, 0.7), (2, 0.9), (3, 1.0), (4, 1.0), (5, 1.0), (0, 1.0), (1, 1.0), (2, 1.0))
_HANDLE = re.compile(r"r\d+: ")


@dataclass(frozen=True, slots=True)
class _Line:
    """A line and the normalised facts for which it is kept."""

    text: str
    facts: tuple[str, ...]


def _missing(messages: Sequence[AnyMessage], known: str) -> Iterator[tuple[int, _Line]]:
    """A weight and a line for each fact that normalised `known` does not say; one a sentence."""
    for message in messages:
        for facts in _by_sentence(message):
            lost = [fact for fact in facts if not _is_known(fact, known)]
            lines: dict[str, list[Fact]] = {}
            for fact in lost:
                lines.setdefault(fact.line, []).append(fact)
            for line, of_line in lines.items():
                weight = min(_weight(fact) for fact in of_line)
                yield weight, _Line(line, tuple(fact.name for fact in of_line))
    for fact in _unanswered(messages):
        if not is_said(fact.text, known):
            yield 1, _Line(fact.line, (fact.name,))


def _weight(fact: Fact) -> int:
    if fact.source == "result":
        return 5
    heavy = fact.kind in ("decision", "open")
    if fact.source == "user" and heavy and is_lasting(fact.text):
        return 0
    told = fact.source == "user" and not (fact.in_question and not heavy)
    return (1 if told else 3) + (not heavy)


def _weight_of_line(line: str) -> int:
    """The weight of a line of an earlier list, by its mark and its words."""
    if _HANDLE.match(line):
        return 5
    by_user = line.startswith(_USER)
    if by_user and is_lasting(line):
        return 0
    heavy = weight_of(line, by_user=by_user) or line.endswith(_NOT_ANSWERED)
    told = by_user and (heavy or not line.endswith(_ASKING))
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


def _chosen(groups: Sequence[Sequence[_Line]], limit: int) -> list[str]:
    """As many lines as fit, by weight; the heaviest leave some room to the others at first."""
    taken: list[set[int]] = [set() for _ in groups]
    said = " "
    room = limit
    for weight, share in _SHARES:
        least = limit - int(limit * share)
        for index in range(len(groups[weight]) - 1, -1, -1):
            line = groups[weight][index]
            cost = len(line.text) + 1
            if index in taken[weight] or cost > room - least:
                continue
            if all(fact in said for fact in line.facts):
                continue
            taken[weight].add(index)
            said += normal(line.text)
            room -= cost
    return [groups[w][i].text for w in range(len(groups)) for i in sorted(taken[w])]


# -- comparing ------------------------------------------------------------------------------------

_SIGNS = re.compile(r"[\W_]+")
_THOUSANDS = re.compile(r"(?<=\d)[.,'\u00a0](?=\d{3}(?!\d))")
_WIDE = re.compile(r"[\u2e80-\ud7a3\uf900-\ufaff]")


def normal(text: str) -> str:
    """`text` for comparing: small letters, words and numbers alone, a blank at both ends."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return f" {_SIGNS.sub(' ', _THOUSANDS.sub('', folded)).strip()} "


def is_said(text: str, known: str) -> bool:
    """Tell whether `known`, which is normalised, says `text`.

    Word for word; of a sentence it is enough that four fifths of its longer words and all of its
    numbers are there. Scripts without blanks are compared without them.
    """
    wanted = normal(text)
    if wanted in known or not wanted.strip():
        return True
    if _WIDE.search(wanted) and wanted.strip() in known:
        return True
    words = wanted.split()
    long = [word for word in words if len(word) > 3]
    if len(long) < 4 or any(f" {w} " not in known for w in words if w[0].isdigit()):
        return False
    return sum(f" {word} " in known for word in long) >= 0.8 * len(long)


def _is_known(fact: Fact, known: str) -> bool:
    """The same of a fact; of one that is short, that the word before it is there as well."""
    short = len(normal(fact.text)) <= _TELLING
    word = normal(fact.context)[:-1].rpartition(" ")[2] if short else ""
    return is_said(fact.text, known) and word in known


def _bare(line: str) -> str:
    """A line of a list without what was put before and behind it."""
    return _HANDLE.sub("", line.removeprefix(_USER).removesuffix(_NOT_ANSWERED), count=1)


def _facts_of_line(line: str) -> list[Fact]:
    source: Source = "result" if _HANDLE.match(line) else "answer"
    source = "user" if line.startswith(_USER) else source
    return list(_of_sentence(_bare(line), source, "", has_single_names(line)))


def _names_in(line: str) -> tuple[str, ...]:
    """The facts for which a line of an earlier list is kept, normalised."""
    return tuple(fact.name for fact in _facts_of_line(line)) or (normal(_bare(line)),)


def _is_line_said(line: str, known: str) -> bool:
    """The same for a line of an earlier list: each fact in it, and its sentence if it decides."""
    facts = _facts_of_line(line)
    if not facts or line.endswith(_NOT_ANSWERED):
        return is_said(_bare(line), known)
    return all(_is_known(fact, known) for fact in facts)
