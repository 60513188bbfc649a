"""Facts that must survive a summary, found by rule: no model is asked what was important.

They are identifiers, amounts, dates, addresses, names, decisions and open items in what was said
and in results, each with the line that tells it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from agent_core.fact_patterns import (
    Kind,
    Span,
    has_single_names,
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
ASKING = ("?", "？")
_TELLING = 5  # a normalised fact of so few characters, two of them blanks, may be anything
USER = "User: "
NOT_ANSWERED = " (not answered)"


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
    found += unanswered(messages)
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


# -- finding them ---------------------------------------------------------------------------------


def _facts_in(message: AnyMessage) -> list[Fact]:
    return [fact for facts in by_sentence(message) for fact in facts]


def by_sentence(message: AnyMessage) -> Sequence[Sequence[Fact]]:
    """The facts of a message, those of each sentence together; none for a sentence without."""
    text, source = text_of(message.content), _source_of(message)
    if source is None or not text:
        return ()
    return _found(text if source != "result" else text[:_RESULT_READ], source, _mark_of(message))


@lru_cache(maxsize=256)
def _found(text: str, source: Source, mark: str) -> Sequence[Sequence[Fact]]:
    """Remembered: a message is asked for its facts when it is folded and when it is summarised."""
    spoken = source != "result"
    single = spoken and has_single_names(text)
    found: list[Sequence[Fact]] = []
    for sentence in sentences(text):
        if facts := tuple(in_sentence(sentence, source, mark, single)):
            found.append(facts)
            if not spoken and len(found) == _PER_RESULT:
                break
    return tuple(found)


def _source_of(message: AnyMessage) -> Source | None:
    if isinstance(message, HumanMessage):
        return "user"
    if isinstance(message, AIMessage):
        return "answer"
    return "result" if isinstance(message, ToolMessage) else None


def _mark_of(message: AnyMessage) -> str:
    """What a line begins with: who said it, or the handle by which it can be read again."""
    if isinstance(message, HumanMessage):
        return USER
    handle = message.additional_kwargs.get("handle") if isinstance(message, ToolMessage) else ""
    return f"{handle}: " if handle else ""


def in_sentence(sentence: str, source: Source, mark: str, single: bool) -> Iterator[Fact]:
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
        yield Fact(span.kind, span.text, context, source, mark + part, plain.endswith(ASKING))


def unanswered(messages: Sequence[AnyMessage]) -> list[Fact]:
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
    return [Fact("open", text, "", "user", f"{USER}{text}{NOT_ANSWERED}")] if text else []


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


# -- comparing ------------------------------------------------------------------------------------

_SIGNS = re.compile(r"[\W_]+")
_THOUSANDS = re.compile(r"(?<=\d)[.,'\u00a0](?=\d{3}(?!\d))")
_WIDE = re.compile(r"[\u2e80-\ud7a3\uf900-\ufaff]")


@lru_cache(maxsize=2048)
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


def is_known(fact: Fact, known: str) -> bool:
    """The same of a fact; of one that is short, that the word before it is there as well."""
    short = len(normal(fact.text)) <= _TELLING
    word = normal(fact.context)[:-1].rpartition(" ")[2] if short else ""
    return is_said(fact.text, known) and word in known
