"""Words of a text, what a query asks for, where a text has it, and how well; pure functions.

The full-text index is fed with these very words, joined by spaces, so that it finds what a look
through the texts finds, whatever SQLite it is: its own `unicode61` takes a Chinese or Thai sentence
for one word, and its `trigram` finds nothing shorter than three characters. Here a word is a run of
letters and digits, without case and accents; in scripts that are written without spaces, and in
Korean, which glues its particles to the word, each character is one. A word of a query that has
more of them (`git_commit`, 東京) is found where they stand side by side.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

LONGEST = 40  # characters of a word that count; base64 would fill the index otherwise
PHRASES = 32  # that a query may have; SQLite refuses deep expressions
_SINGLE = (  # each character of these is a word
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\ua9e0-\ua9ff\uaa60-\uaadf"
    "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u30ff\u3100-\u312f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\uff66-\uffdc\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
    "\u2600-\u27bf\U0001f000-\U0001faff"
)
_ACCENTS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670"  # and points, harakat
_VOWELS = "\u0900-\u0963\u0966-\u0dff"  # scripts of India: Python takes their signs for no letters
_WORD = re.compile(f"[{_SINGLE}]|(?:[^\\W_{_SINGLE}]|[{_ACCENTS}{_VOWELS}])+")
_ASCII_WORD = re.compile("[A-Za-z0-9]+")
_DROPPED = re.compile(f"[{_ACCENTS}\x00-/:-@\\[-`{{-\x7f]")
_PART = re.compile(r'"([^"]*)"?(\*?)|([^\s"]+)')
_QUOTES = str.maketrans("“”„‟«»", '""""""')
_K1, _B = 1.2, 0.75  # of bm25, as SQLite's FTS5 has them


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words that stand side by side; with `prefix` the last one may go on."""

    words: tuple[str, ...]
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """A word as it is compared, and where it stands in its text (`text[start:end]`)."""

    form: str
    start: int
    end: int


def words_of(text: str) -> Iterator[Word]:
    """The words of `text` in order."""
    pattern = _ASCII_WORD if text.isascii() else _WORD
    for match in pattern.finditer(text):
        if form := _form(match.group()):
            yield Word(form, match.start(), match.end())


def indexed(text: str) -> str:
    """What the index is fed with for `text`: its words, each with a space behind it."""
    if text.isascii():
        return " ".join(word[:LONGEST] for word in _ASCII_WORD.findall(text.lower()))
    return " ".join(form for word in _WORD.findall(text) if (form := _form(word)))


@lru_cache(maxsize=20_000)
def _form(word: str) -> str:
    if word.isascii():
        return word.lower()[:LONGEST]
    # Decomposed, so that an accent is a character of its own, and composed again for Korean.
    bare = _DROPPED.sub("", unicodedata.normalize("NFKD", word.casefold()))
    return unicodedata.normalize("NFC", bare)[:LONGEST]


def parse(query: str) -> tuple[Phrase, ...]:
    """What `query` asks for: words and "phrases", all of which a text must have; `word*` may go on.

    Nothing that a person types is an error; signs ask for nothing. Empty where there is no word.
    """
    found: dict[Phrase, None] = {}
    for quoted, star, plain in _PART.findall(query.translate(_QUOTES)):
        part = quoted or plain
        words = tuple(word.form for word in words_of(part))
        if words:
            found[Phrase(words, prefix=bool(star) or plain.endswith("*"))] = None
    return tuple(found)


def expression(phrases: Sequence[Phrase]) -> str:
    """`phrases` in the language of FTS5, everything quoted."""
    parts = (f'"{" ".join(p.words)}"{" *" if p.prefix else ""}' for p in phrases)
    return " AND ".join(parts)


def spans(words: Iterable[Word], phrases: Sequence[Phrase]) -> Iterator[tuple[int, int, int]]:
    """Where `phrases` stand, as (start, end, index of the phrase), in the order of their ends."""
    length = max((len(p.words) for p in phrases), default=0)
    last: list[Word] = []
    for word in words:
        last.append(word)
        if len(last) > length:
            last.pop(0)
        for index, phrase in enumerate(phrases):
            here = last[-len(phrase.words) :]
            if len(here) == len(phrase.words) and _is_phrase(here, phrase):
                yield here[0].start, word.end, index


def _is_phrase(words: Sequence[Word], phrase: Phrase) -> bool:
    end, wanted = words[-1].form, phrase.words[-1]
    if end != wanted and not (phrase.prefix and end.startswith(wanted)):
        return False
    return all(w.form == p for w, p in zip(words[:-1], phrase.words[:-1], strict=True))


def rank(length: int, times: Sequence[int], having: Sequence[int], texts: int, words: int) -> float:
    """How well a text fits, the best lowest, as the index says it (bm25 of SQLite's FTS5).

    `length` are its words, `times` how often it has each phrase, `having` how many texts have the
    phrase at all; `texts` and `words` are those of all texts together.
    """
    score = 0.0
    for count, others in zip(times, having, strict=True):
        weight = math.log((texts - others + 0.5) / (others + 0.5))
        share = _K1 * (1 - _B + _B * length * texts / words)
        score += max(weight, 1e-6) * count * (_K1 + 1) / (count + share)
    return -score
