"""The words of a text as the index of tools compares them: folded, stemmed, CJK in pairs."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_PIECES = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+(?:['’][^\W\d_]+)?")
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_IS_CJK = re.compile(rf"[{_CJK}]")
_LONGEST = 40  # characters; what is longer is data and no word
_MOST = 400  # words of a text that are looked at; a pasted file is not a question

# Words that say nothing of what is wanted, in the languages that people are likely to write.
_EMPTY = """
a an the this that these those some any each every all both few more most other another such same
i me my mine we us our you your yours he him his she her it its they them their who whom whose
what which when where why how there here then than so too very just only also even still yet again
am is are was were be been being do does did done doing have has had having can could will would
shall should may might must let lets ought and or but if because as until while of at by for with
about against between into through during before after above below to from up down in out on off
over under further once not no nor own please thanks thank hi hello hey ok okay yes yeah well now
really actually maybe perhaps kindly want wants wanted need needs needed like tell give get
got getting make makes made know see say says said use using used try thing things something
anything everything way lot bit kind one ones dont doesnt didnt isnt cant wont im ive id ill youre
whats thats theres der die das den dem des ein eine einen einem einer eines und oder aber wenn
weil dass ob ich du er sie es wir ihr mich dich sich uns euch mir dir ihm ihnen mein dein sein
unser euer kein keine nicht ist sind war waren bin bist wird werden wurde hat habe haben hatte
kann kannst koennen konnte soll sollte muss moechte bitte danke ja nein doch mal noch schon auch
nur sehr wie wer wo wann warum welche welcher welches von vom zu zum zur mit bei aus nach auf fuer
ueber unter um durch gib gibt zeig zeige sag sage mach mache le la les un une de et ou mais si que
qui quoi ce cet cette ces je tu il elle nous vous ils elles mon ma mes ton ta tes son sa ses notre
votre leur ne pas est sont etait suis ai avons avez ont peux peut pouvez veux veut dois doit plait
merci oui non comment quand pourquoi quel quelle dans sur sous avec sans pour par en au aux el los
las una unos unas y o pero porque como cuando donde quien cual mi su nuestro era estoy esta estan
ser estar hay puedo puede puedes quiero favor gracias del al con sin para por lo gli uno dei delle
e perche come quando dove chi sono sei siamo ho hai ha puoi puo voglio grazie per favore di da tra
os uma umas mas onde quem qual meu seu sua sao estou posso pode quero obrigado obrigada dos na nos
nas com sem
"""


def _fold(text: str) -> str:
    """Without case and accents; ß, æ and their like as they are usually written out."""
    plain = text.casefold().replace("æ", "ae").replace("ø", "o")
    split = unicodedata.normalize("NFKD", plain)
    return "".join(c for c in split if not unicodedata.combining(c))


EMPTY = frozenset(map(_fold, _EMPTY.split()))

# Longest first. Endings of English alone: in other languages a tool is seldom described.
_ENDINGS = (
    ("ational", "ate"),
    ("ization", "ize"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ations", "ate"),
    ("ation", "ate"),
    ("ments", "ment"),
    ("ings", ""),
    ("ing", ""),
    ("ies", "y"),
    ("ied", "y"),
    ("sses", "ss"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("xes", "x"),
    ("ers", ""),
    ("er", ""),
    ("ed", ""),
    ("es", "e"),
    ("ly", ""),
    ("s", ""),
)
_LEAST_STEM = 3


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """A folded word without its ending: `commits`, `committed` and `commit` become one."""
    if len(word) <= _LEAST_STEM or not word.isascii() or not word.isalpha():
        return word
    out = word
    if not word.endswith(("ss", "us", "is")) or word.endswith("sses"):
        for ending, instead in _ENDINGS:
            if word.endswith(ending) and len(word) - len(ending) >= _LEAST_STEM:
                out = word[: len(word) - len(ending)] + instead
                break
    if len(out) > _LEAST_STEM and out[-1] == out[-2] and out[-1] not in "lsz":
        out = out[:-1]  # committ(ed), runn(ing)
    return out[:-1] if len(out) > _LEAST_STEM and out[-1] == "e" else out


def words(text: str) -> list[str]:
    """The words of `text` in order, folded and stemmed, the empty ones left out.

    Names are taken apart: `getUserById` and `get_user_by_id` have the same words. A run of Chinese,
    Japanese or Korean gives each pair of characters that stand together.
    """
    return [stem(word) for word in plain_words(text) if word not in EMPTY]


def plain_words(text: str) -> list[str]:
    """The folded words of `text` in order, empty ones too, with their endings."""
    return [word for piece in _pieces(text) for word in _parts(piece)][:_MOST]


def _pieces(text: str) -> Iterator[str]:
    for found in _PIECES.finditer(text[: _MOST * _LONGEST]):
        yield from _HUMPS.split(found[0]) if len(found[0]) <= _LONGEST else ()


def _parts(piece: str) -> Iterator[str]:
    if _IS_CJK.match(piece):
        yield from (piece[at : at + 2] for at in range(max(len(piece) - 1, 1)))
        return
    folded = _fold(piece).replace("’", "'").replace("'s", "").replace("'", "")
    if len(folded) > 1 or folded.isdigit():
        yield folded
