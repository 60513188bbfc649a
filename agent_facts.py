"""Facts that must survive a summary, found by rule: no model is asked what was important.

Identifiers, amounts, dates, addresses, names, decisions and open items of a conversation, each
with the words before it that tell what it is. English and German words; numbers, identifiers,
paths and addresses in any language. Every pattern is bounded, so the work is linear in the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from context import text_of

Kind = Literal["decision", "open", "identifier", "amount", "date", "address", "name"]

LONGEST = 160  # characters of one fact, a decision's sentence included
_BEFORE = 40  # characters of words before a fact
_PER_RESULT = 40  # facts taken of one tool result: it can be looked up by its handle
_LONGEST_TEXT = 20_000  # characters of a tool result that are read

_MONTH = (
    r"(?:Jan|Feb|Mar|Mär|Apr|May|Mai|Jun|Jul|Aug|Sep|Sept|Oct|Okt|Nov|Dec|Dez)(?:[a-zä]{0,6})\.?"
)
_UNIT = (
    r"(?:€|\$|£|¥|₹|%|EUR|USD|GBP|CHF|JPY|CNY|INR|Euros?|[Dd]ollars?|kg|mg|g|km|cm|mm|m²|m2|m|ml|l"
    r"|kWh|kW|MW|W|V|A|GHz|MHz|Hz|[KMGT]i?B|kB|ms|s|min|h|°C|°F|元|円|人|個|件"
    r"|hours?|days?|weeks?|months?|years?|minutes?|seconds?|pieces|tokens|rows|lines|Stunden?"
    r"|Tagen?|Wochen?|Monaten?|Jahren?|Minuten?|Sekunden?|Stück|Personen|people)"
)
_PATTERNS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("address", re.compile(r"\bhttps?://[^\s<>\"'`)\]}]{3,200}")),
    ("address", re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{2,63}){1,4}")),
    ("address", re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}(?::\d{1,5})?\b")),
    (
        "address",
        re.compile(
            r"\b[A-ZÄÖÜ][\wäöüß-]{2,30}(?:straße|strasse|str\.|weg|platz|gasse|allee) \d{1,4}[a-z]?"
            r"(?:, \d{5} [A-ZÄÖÜ]\w{2,30})?"
            r"|\b\d{1,5} (?:[A-Z]\w{1,20} ){1,3}(?:Street|St|Avenue|Ave|Road|Rd|Lane|Drive)\b"
        ),
    ),
    ("identifier", re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")),
    (
        "date",
        re.compile(
            r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d{1,6})?(?:Z|[+-]\d\d:?\d\d)?)?\b"
            r"|\b\d{1,2}[./]\d{1,2}[./](?:\d{4}|\d\d)\b|\d{4}年\d{1,2}月(?:\d{1,2}日)?"
            rf"|\b\d{{1,2}}(?:st|nd|rd|th)?\.? (?:of )?{_MONTH}(?:,? \d{{4}})?\b"
            rf"|\b{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?\b"
            r"|\b\d{1,2}:\d\d(?::\d\d)?(?: ?[AaPp]\.?[Mm]\b| Uhr)?|\b\d{1,2} ?(?:[ap]m|Uhr)\b"
        ),
    ),
    (
        "identifier",
        re.compile(
            r"(?<![\w/.~:-])(?:~|\.{1,2})?/[\w.@+-]{1,80}(?:/[\w.@+-]{1,80}){1,20}"
            r"|\b[A-Za-z]:\\[\w .@+\\-]{2,150}\b"
            r"|\b[\w-]{1,60}(?:[/.][\w-]{1,60}){0,8}\.(?:py|toml|json|ya?ml|md|txt|csv|tsv|pdf|html?|js"
            r"|ts|rs|go|c|h|cpp|java|sh|sql|db|log|ini|cfg|xml|png|jpe?g|zip|gz|docx?|xlsx?)\b"
        ),
    ),
    ("amount", re.compile(r"(?:[€$£¥₹] ?|\b(?:EUR|USD|GBP|CHF) )\d[\d.,']{0,20}\d|[€$£¥₹] ?\d")),
    ("amount", re.compile(rf"(?<![\w.,])-?\d(?:[\d.,']{{0,20}}\d)? ?{_UNIT}(?![\w²])")),
    (
        "identifier",
        re.compile(
            r"\b[A-Z]{1,10}[-_/]?\d[A-Z0-9]{0,20}(?:[-_/][A-Z0-9]{1,20}){0,4}\b"
            r"|\b(?=[0-9a-f]{0,40}\d)(?=[0-9a-f]{0,40}[a-f])[0-9a-f]{7,64}\b"
            r"|(?<![\w&])#\d{1,10}\b"
            r"|\b\d{5,20}\b|\b\d{2,6}(?:[-/]\d{2,8}){1,4}\b"
            r"|\+\d[\d ()/-]{6,18}\d\b|\bv?\d+\.\d+\.\d+\b"
        ),
    ),
    ("name", re.compile(r"[\"“„«]([^\"“”„«»\n]{2,60})[\"”“»]|「([^」\n]{1,40})」")),
    (
        "name",
        re.compile(
            r"\b[A-ZÄÖÜ][a-zäöüßéèáàíóúñç]{1,20}(?:[ -](?:(?:von|van|de|der|la|di|del|zu) ){0,2}"
            r"[A-ZÄÖÜ][a-zäöüßéèáàíóúñç]{1,20}){1,3}\b"
        ),
    ),
)
_DECISION = re.compile(
    r"\b(?:we|i|they|you)(?: have|'ve)? (?:decided|agreed|chose|settled|prefer)\b"
    r"|\blet'?s (?:use|go"
    r"|take|keep|do|call)\b|\b(?:decided|agreed|decision|remember|from now on|always|never|must not"
    r"|don'?t ever|my name is|i am called|call me|i prefer|i live|i want)\b"
    r"|\b(?:beschlossen|entschieden"
    r"|vereinbart|abgemacht|merk dir|merke dir|immer|niemals|nie|ab jetzt|wir nehmen|ich heiße"
    r"|ich möchte|mein name)\b|决定|決定|记住|記住|覚えて",
    re.IGNORECASE,
)
_OPEN = re.compile(
    r"\b(?:to-?do|still open|later|not yet|pending|remains? open|follow[- ]up|next step|need to"
    r"|have to|remind me|tbd|unresolved|waiting for)\b|\b(?:noch offen|später|noch nicht|ausstehend"
    r"|muss noch|müssen noch|erinnere mich|offen bleibt|warten auf)\b|待办|未解決|後で",
    re.IGNORECASE,
)
_SENTENCE = re.compile(
    r"[^.!?。！？\n]{1,400}(?:[.!?](?=\S)[^.!?。！？\n]{1,400}){0,40}[.!?。！？]?"
)
_NO_NAME = re.compile(
    r"(?:"
    r"The|This|That|These|Those|There|Here|What|When|Where|Which|Who|Why|How|If|It|Is|Are|"
    r"Was|In|On|At|For|From|With|And|But|Or|No|Not|Yes|Please|Can|Could|Would|Should|Do|"
    r"Does|Did|I|We|You|He|She|They|My|Your|Our|His|Her|Der|Die|Das|Ein|Eine|Einen|Den|"
    r"Dem|Des|Im|Am|Ist|Sind|War|Wer|Wie|Was|Wo|Wann|Warum|Und|Oder|Aber|Nicht|Kein|Keine|"
    r"Bitte|Kannst|Ich|Wir|Du|Sie|Er|Es|Mein|Meine|Dein|Deine|Unser|Ihr|Ihre|Mit|Von|Für|"
    r"Auf|Aus|Bei|Nach|Zu|Zum|Zur|Als|Wenn|Dann|Hier|Let|Error"
    r")\b"
)


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact: `text` as it was written, `context` the words before it that say what it is."""

    kind: Kind
    text: str
    context: str = ""

    def __str__(self) -> str:
        return f"{self.context} {self.text}".strip()


def facts_of(messages: Sequence[AnyMessage]) -> list[Fact]:
    """The facts of `messages`, each once: those of prompts first, then of answers, then results."""
    groups: tuple[list[Fact], list[Fact], list[Fact]] = ([], [], [])
    for message in messages:
        text = text_of(message.content)
        if isinstance(message, HumanMessage):
            groups[0].extend(_facts_in(text, spoken=True))
        elif isinstance(message, AIMessage):
            groups[1].extend(_facts_in(text, spoken=True))
        else:
            groups[2].extend(list(_facts_in(text[:_LONGEST_TEXT], spoken=False))[:_PER_RESULT])
    return _once(fact for group in groups for fact in group)


def surviving(
    messages: Sequence[AnyMessage], previous: Sequence[str], summary: str, limit_chars: int
) -> list[str]:
    """The facts to keep beside `summary`: of the folded `messages` and of the `previous` list.

    What the summary says already is left out. In: `limit_chars` characters for all lines, with one
    for each line's end. Out: lines, most important first; previous ones keep their order.
    """
    known = _normal(summary)
    new = [fact for fact in facts_of(messages) if not _is_in(fact.text, known)]
    said = [str(fact) for fact in new]
    old = [line for line in previous if not _is_line_in(line, known)]
    room_for_old = limit_chars // 2
    kept, left = _take(old, room_for_old, set())
    rest, left = _take(said, limit_chars - room_for_old + left, {_normal(k) for k in kept})
    more, _ = _take(old[len(kept) :], left, {_normal(k) for k in [*kept, *rest]})
    return [*kept, *more, *rest]


def _take(lines: Iterable[str], room: int, seen: set[str]) -> tuple[list[str], int]:
    """The first lines that fit `room`, and the room that is left."""
    out: list[str] = []
    for line in lines:
        key = _normal(line)
        if not key.strip() or key in seen:
            continue
        if len(line) + 1 > room:
            continue
        seen.add(key)
        out.append(line)
        room -= len(line) + 1
    return out, room


def _facts_in(text: str, *, spoken: bool) -> Iterator[Fact]:
    """The facts of one text, sentences that decide or leave open first."""
    if spoken:
        for found in _SENTENCE.finditer(text):
            sentence = " ".join(found[0].split())
            if len(sentence) < 8:
                continue
            short = sentence[:LONGEST]
            if _DECISION.search(short):
                yield Fact("decision", short)
            elif _OPEN.search(short):
                yield Fact("open", short)
    taken: list[tuple[int, int, Fact]] = []
    covered = bytearray(len(text))
    for kind, pattern in _PATTERNS:
        for found in pattern.finditer(text):
            start, end = found.span()
            if any(covered[start:end]):
                continue
            piece = next((g for g in found.groups() if g), None) or found[0]
            if kind == "name" and _NO_NAME.match(piece):
                continue
            covered[start:end] = b"\1" * (end - start)
            piece = " ".join(piece.split())[:LONGEST]
            taken.append((start, end, Fact(kind, piece, _before(text, start))))
    yield from (fact for _, _, fact in sorted(taken, key=lambda entry: entry[0]))


def _before(text: str, start: int) -> str:
    """The last words before `start` in the same sentence, at most 40 characters."""
    piece = text[max(start - _BEFORE, 0) : start]
    cut_short = start > _BEFORE
    for sign in ("\n", ". ", "! ", "? ", "; ", "},", "。"):
        at = piece.rfind(sign)
        if at >= 0:
            piece, cut_short = piece[at + len(sign) :], False
    if cut_short and " " in piece:
        piece = piece[piece.index(" ") + 1 :]
    return " ".join(piece.replace('"', " ").split()).strip(" ,{[(|-*")


def _once(facts: Iterable[Fact]) -> list[Fact]:
    seen: set[str] = set()
    out: list[Fact] = []
    for fact in facts:
        key = _normal(fact.text)
        if key.strip() and key not in seen:
            seen.add(key)
            out.append(fact)
    return out


# -- comparison -----------------------------------------------------------------------------------

_SIGNS = re.compile(r"[^\w]+")
_THOUSANDS = re.compile(r"(?<=\d)[.,'](?=\d{3}(?!\d))")


def _normal(text: str) -> str:
    """`text` in small letters and words alone, with a blank at both ends."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return f" {_SIGNS.sub(' ', _THOUSANDS.sub('', folded)).strip()} "


def _is_in(text: str, known: str) -> bool:
    """Tell whether normalised `known` says `text`: word for word, or most words of a sentence."""
    wanted = _normal(text)
    if wanted in known or not wanted.strip():
        return True
    if not text.isascii() and wanted.strip() in known:
        return True
    words = [word for word in wanted.split() if len(word) > 3 or word.isdigit()]
    return len(words) >= 4 and sum(f" {w} " in known for w in words) >= 0.8 * len(words)


def _is_line_in(line: str, known: str) -> bool:
    """The same of a line of an earlier list, by the facts in it."""
    facts = [fact for fact in _facts_in(line, spoken=True) if fact.kind not in ("decision", "open")]
    if facts:
        return all(_is_in(fact.text, known) for fact in facts)
    return _is_in(line, known)
