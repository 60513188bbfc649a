"""What a model is asked while it is probed, the same every time, and what a right answer is.

How much a check has to read is known from these texts before it begins.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from context import count_tokens

from .tools import ProbeTool, make

SYSTEM = (
    "You are a helpful assistant. Call a tool when the answer needs one. "
    "When no tool is needed, answer directly and briefly."
)
COUNTING = "Count from 1 to 500 in words, one number a line, and leave none out."
SHORT = "Say: ok"
THINKING = "What is 17 + 25? Answer with the number."
DENIED = (  # the words of the program
    "The user did not allow this call; it was not run. This is no failure: do not repeat it."
)


@dataclass(frozen=True, slots=True)
class Exact:
    """A call whose arguments are given word by word."""

    tool: ProbeTool
    prompt: str
    args: Mapping[str, Any]


_NOTE = make("save_note", "Save a note, word by word as it is given.", "title, text")
_ORDER = ProbeTool(
    "create_order",
    "Order goods for a customer.",
    {
        "type": "object",
        "properties": {
            "customer": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "city": {"type": "string"}},
                "required": ["name", "city"],
            },
            "items": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}},
                    "required": ["sku", "count"],
                },
            },
        },
        "required": ["customer", "items"],
    },
)
_BOOKING = ProbeTool(
    "book_room",
    "Book a meeting room.",
    {
        "type": "object",
        "properties": {
            "date": {"type": "string", "description": "YYYY-MM-DD"},
            "start": {"type": "string", "description": "HH:MM, 24 hours"},
            "people": {"type": "integer"},
        },
        "required": ["date", "start", "people"],
    },
)
_PAYMENT = make("pay", "Pay an amount.", "amount:number, reference:integer, urgent:boolean")
_TAGS = ProbeTool(
    "tag_photo",
    "Put tags on a photo.",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["path", "tags"],
    },
)

EXACT: Sequence[Exact] = (
    Exact(
        _NOTE,
        'Save a note with the title Quote and exactly this text: He said "maybe" and left.',
        {"title": "Quote", "text": 'He said "maybe" and left.'},
    ),
    Exact(
        _NOTE,
        "Save a note with the title Küche and exactly this text: Größe prüfen, Äpfel für Jürgen",
        {"title": "Küche", "text": "Größe prüfen, Äpfel für Jürgen"},
    ),
    Exact(
        _PAYMENT,
        "Pay 1249.5 with the reference 70031, and not urgently.",
        {"amount": 1249.5, "reference": 70031, "urgent": False},
    ),
    Exact(
        _ORDER,
        "Order for the customer Ana Lima in Porto: 3 of sku A-17 and 12 of sku B-2.",
        {
            "customer": {"name": "Ana Lima", "city": "Porto"},
            "items": [{"sku": "A-17", "count": 3}, {"sku": "B-2", "count": 12}],
        },
    ),
    Exact(
        _BOOKING,
        "Book a room on 9 March 2027 from 2:30 pm for 4 people.",
        {"date": "2027-03-09", "start": "14:30", "people": 4},
    ),
    Exact(
        _TAGS,
        r"Put the tags red, wide open on the photo C:\Photos\new\tree.jpg (two tags).",
        {"path": r"C:\Photos\new\tree.jpg", "tags": ["red", "wide open"]},
    ),
    Exact(
        _NOTE,
        "Save a note with the title Path and exactly this text: /srv/data & it's 100% {done}",
        {"title": "Path", "text": "/srv/data & it's 100% {done}"},
    ),
    Exact(
        _BOOKING,
        "Book a room on the last day of the year 2026 at 9 in the morning for 11 people.",
        {"date": "2026-12-31", "start": "09:00", "people": 11},
    ),
)
EXACT_TOOLS: Sequence[ProbeTool] = (_NOTE, _PAYMENT, _ORDER, _BOOKING, _TAGS)


_NOT = re.compile(
    r"\b(?:no|not|never|nothing|none|neither|nor|cannot|unable|without)\b|n['’]t\b", re.I
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+|;|\b(?:but|however)\b", re.I)


@dataclass(frozen=True, slots=True)
class Denial:
    """A write that was asked for and refused. `done` are the words that say it was carried out."""

    tool: ProbeTool
    prompt: str
    args: Mapping[str, Any]
    done: str

    def claims(self, text: str) -> bool:
        """Whether `text` says that it was done: "has been sent", "I sent", in a sentence without
        any negation."""
        done = rf"(?:successfully |now |just |been |already )*(?:{self.done})"
        who = r"(?:has|have|was|were|is|are|I|I['’]ve|and)"
        said = re.compile(rf"\b{who} {done}\b|\bsuccessfully {done}\b|\A{done}\b", re.I)
        parts = (part.strip() for part in _SENTENCE.split(text))
        return any(said.search(part) and not _NOT.search(part) for part in parts)


DENIALS: Sequence[Denial] = (
    Denial(
        make("delete_file", "Delete a file.", "path"),
        "Delete the file report.txt.",
        {"path": "report.txt"},
        "deleted|removed",
    ),
    Denial(
        make("send_mail", "Send an e-mail.", "to, text"),
        "Mail ada@example.org that I come at noon.",
        {"to": "ada@example.org", "text": "I come at noon."},
        "sent|mailed|e-mailed|emailed|informed",
    ),
    Denial(
        make("save_note", "Save a note.", "text"),
        "Save the note: buy milk.",
        {"text": "buy milk"},
        "saved|noted|written|added",
    ),
)

PAIRS: Sequence[tuple[str, tuple[str, str]]] = tuple(
    (
        f"What is the weather in {one} and in {other}? "
        "Make both calls in this one reply, one for each city.",
        (one, other),
    )
    for one, other in (("Oslo", "Rome"), ("Lima", "Quito"), ("Bern", "Prague"))
)

_TOPICS = ("weather", "money", "travel")
STRUCTURED: Sequence[str] = (
    "Tell me in two friendly sentences why the sky is blue.",
    "Write a haiku about trains.",
    "List three things one can do with an old laptop.",
)
STRUCTURE: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "topic": {"type": "string", "enum": list(_TOPICS)},
        "sure": {"type": "boolean"},
    },
    "required": ["topic", "sure"],
    "additionalProperties": False,
}


def keeps_structure(text: str) -> bool:
    """Whether `text` is JSON of the form of `STRUCTURE`."""
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return (
        isinstance(value, dict)
        and set(value) == {"topic", "sure"}
        and value["topic"] in _TOPICS
        and isinstance(value["sure"], bool)
    )


# -- a long text with facts in it -----------------------------------------------------------------

_THINGS = ("cabinet", "locker", "crate", "drawer", "safe", "trunk", "shelf", "basket")
_COLOURS = ("blue", "green", "yellow", "white", "brown", "purple", "orange", "grey")
_WHO = ("The clerk", "A visitor", "The night guard", "Somebody", "The gardener")
_DID = ("counted the chairs in", "swept", "closed the windows of", "walked through", "measured")
_WHERE = ("the east wing", "the reading room", "the cellar", "the long corridor", "the yard")
EVERY = 12  # sentences from one fact to the next


@dataclass(frozen=True, slots=True)
class Fact:
    """A planted fact: what is asked for, and the code that answers it."""

    thing: str
    code: str

    @property
    def question(self) -> str:
        return f"What is the code of the {self.thing}? Answer with the code alone."


def fact(number: int) -> Fact:
    """The fact of this number; no two are of one thing, or have one code."""
    room, place = divmod(number, len(_THINGS) * len(_COLOURS))
    colour = _COLOURS[place % len(_COLOURS)]
    thing = _THINGS[(place // len(_COLOURS) + place) % len(_THINGS)]
    where = f" of room {room}" if room else ""
    return Fact(f"{colour} {thing}{where}", str(1009 + number * 137))


def long_text(tokens: float) -> tuple[str, int]:
    """A text of about this many tokens by our own count, and how many facts stand in it.

    A shorter text is the beginning of a longer one, so that a server has read it already.
    """
    parts: list[str] = []
    counted, number, facts = 0.0, 0, 0
    while counted < tokens:
        if number % EVERY == EVERY // 2:
            planted = fact(facts)
            sentence = f"The code of the {planted.thing} is {planted.code}."
            facts += 1
        else:
            who, did = _WHO[number % 5], _DID[number // 5 % 5]
            sentence = f"{who} {did} {_WHERE[(number // 25 + number) % 5]} at {_clock(number)}."
        parts.append(sentence)
        counted += count_tokens(sentence + " ")
        number += 1
    return " ".join(parts), facts


def _clock(number: int) -> str:
    return f"{number // 6 % 24:02d}:{number % 6 * 10 + number // 144 % 10:02d}"
