"""Whether the text before a call announces it: rules of form, where no list of phrases ends.

A call is certain where nothing stands before it, or a sentence in which the model says what it is
about to do, or one that says nothing at all ("Sure!"). Where the text asks, says no, leaves a tag
open, is a label or a heading, or speaks of anything else, the call may as well be quoted or shown,
and the model is asked, which costs one more reply.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .intent_words import (
    BEGINS,
    FIRST_PERSON,
    FORM,
    GREEK_QUESTION,
    HARMLESS_NO,
    NO,
    POINTS,
    QUESTION,
    REPORTED,
    SMALL_TALK,
)

_LONGEST = 1_000  # characters of the text before a call that are looked at
ASKS = "the text before it asks about it"
SAYS_NO = "the text before it says no"
SHOWS = "the text before it does not say that you make it"
UNSAID = "the text before it says nothing of it"  # so that it is shown no more than meant
_ENDS = re.compile(r"[.!…。！।][*_)\"”»]*\Z")
_CODE = re.compile(r"`[^`\n]*`")
_SENTENCE = re.compile(r"(?<=[.!?…。！？؟])[*_)\"”»]*(?:\s+|(?<=[。！？])|\Z)|\n")
_CLAUSE = re.compile(
    r"[,;:，；：、،–—]|\s-\s|\b(?:and|but|so|und|also|daher|et|donc|y|pero|e|ma)\s"
)
_HEADING = re.compile(
    r"(?:#{1,6}\s|\*\*[^*]+\*\*:?\Z|__[^_]+__:?\Z|[-=]{3,}\Z|<h\d|[`|~]|\d+[.)]\s[^.!…:：]*\Z)"
)
# A label that a model writes before the call that it makes, and nothing else.
# The last of them is what our template for small models tells them, and they repeat.
_OWN_LABEL = re.compile(
    r"[*_#\s]*(?:action|(?:tool|function) call)[*_]*:?[*_]*"
    r"|\s*to call one, reply with nothing but this block:",
    re.I,
)
# The beginning of the same in an answer that thinks aloud.
_THINKS = re.compile(r"\A[*_\s]*thought[*_]*:", re.I)
_TAG = re.compile(
    r"(?:^|(?<=>))[ \t]*(?:<(?P<end>/?)(?P<name>[A-Za-z][\w:.-]*)(?:\s[^<>]*)?(?P<self>/?)>)"
    r"|(?:^|(?<=>))[ \t]*(?P<comment><!--)|^[ \t]*\[(?P<bb>quote|code|example|user)\b[^\]]*\]",
    re.M | re.I,
)
_CLOSING = re.compile(r"</(?P<name>[A-Za-z][\w:.-]*)\s*>|(?P<comment>-->)|\[/(?P<bb>\w+)\]")
# Tags that have no end, and those in which a model puts what it really says.
_NO_PLACE = ("br", "hr", "p", "li", "img", "input", "answer", "response", "final", "action", "step")


def doubt_of_intent(before: str) -> str:
    """Why the text before a call leaves open whether the model makes it; "" where it does not."""
    if place := open_tag(before):
        return f"it stood within {place}"
    text = _CODE.sub("code", before).rstrip()[-_LONGEST:]
    if not text.strip() or _OWN_LABEL.fullmatch(text):
        return ""
    paragraphs = re.split(r"\n[ \t]*\n", text)
    last = "\n".join(paragraphs[-1].split("\n")[-3:])
    if not _is_excused(last, _asks):
        return ASKS
    if not _is_excused("\n".join(paragraphs[-2:]), _says_no):
        return SAYS_NO
    line = last.split("\n")[-1].strip()
    if _HEADING.match(line):
        return SHOWS
    sentences = _sentences(last)
    sentence = sentences[-1] if sentences else last
    if announces(sentence) or (_THINKS.match(last) and not _HEADING.search(last)):
        return ""
    if SMALL_TALK.fullmatch(sentence):
        return ""
    return UNSAID if _ENDS.search(line) and not points(sentence) else SHOWS


def announces(sentence: str) -> bool:
    """Whether a sentence says what the model is about to do."""
    if REPORTED.search(sentence):
        return False
    clauses = [c for c in _CLAUSE.split(sentence) if c.strip()]
    return any(BEGINS.match(c) for c in clauses) or bool(FIRST_PERSON.search(sentence))


def points(sentence: str) -> bool:
    """Whether a sentence speaks of the call as of a thing: "this", "such a block", "the format"."""
    return bool(POINTS.search(sentence) or FORM.search(sentence))


def explains(after: str) -> bool:
    """Whether the text behind a call goes on about it: "… is how one writes it.", "This lists it."

    A sentence that announces something, or says what a tool gave, does not.
    """
    after = after[:_LONGEST]
    sentences = _sentences(after)
    first = sentences[0] if sentences else after
    goes_on = after[:1].islower() or after[:1] in ",;:)"
    return goes_on or (points(first) and not announces(first))


def open_tag(before: str) -> str:
    """The tag that is open where `before` ends, as `<example>`; "" for none.

    Only tags at the start of a line count: others are spoken of.
    """
    text = _CODE.sub("", before)
    if "<" not in text and "[" not in text:
        return ""
    ends: dict[str, int] = {}
    for closing in _CLOSING.finditer(text):
        name = closing["name"] or closing["comment"] or closing["bb"] or ""
        ends[name.lower()] = closing.start()
    for tag in _TAG.finditer(text):
        name = (tag["name"] or tag["bb"] or "").lower()
        if tag["end"] or tag["self"] or name in _NO_PLACE:
            continue
        if ends.get(name or "-->", -1) < tag.start():
            return f"[{name}]" if tag["bb"] else f"<{name or '!--'}>"
    return ""


def _sentences(text: str) -> list[str]:
    return [one.strip() for one in _SENTENCE.split(text) if one and one.strip()]


def _is_excused(text: str, finds: Callable[[str], bool]) -> bool:
    """Whether nothing is found in `text`, or the model announces something behind it."""
    clauses = [c for s in _sentences(text) for c in _clauses(s)]
    for number in range(len(clauses) - 1, -1, -1):
        if finds(clauses[number]):
            return any(_is_strong(clause) for clause in clauses[number + 1 :])
    return True


def _clauses(sentence: str) -> list[str]:
    return [c.strip() for c in _CLAUSE.split(sentence) if c.strip()] or [sentence]


def _is_strong(clause: str) -> bool:
    """Whether a clause says by itself that the model is about to act."""
    return announces(clause) and not re.match(r"\W*here\b", clause, re.I)


def _asks(clause: str) -> bool:
    return bool(QUESTION.search(clause) or GREEK_QUESTION.search(clause))


def _says_no(clause: str) -> bool:
    return bool(NO.search(HARMLESS_NO.sub(" ", clause)))
