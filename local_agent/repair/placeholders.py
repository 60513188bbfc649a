"""Values that only stand for one, as a model copies them from a description: `<path>`, `$city`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import json_text
from .names import key
from .written import Written

# Words that name a kind of value. Alone they stand for one only in capitals, or as a type.
_KIND_WORDS = (
    "arg argument category city content country date day directory email entry event "
    "field file filename filepath folder id input item key keyword keywords location "
    "message name number output param parameter path person place previous prompt query "
    "question result room search subject term text time title topic url user username "
    "value word"
)
_KINDS = frozenset(_KIND_WORDS.split())
_TYPES = ("string", "str", "integer", "boolean", "any")
_TAG_NAMES = (
    "a b body br button code div em form h1 h2 h3 head header html i img input label li "
    "link main meta nav ol option p pre script section select span strong style svg table "
    "tbody td th title tr u ul video"
)
_TAGS = frozenset(_TAG_NAMES.split())
_IN_SIGNS = re.compile(
    r"<{1,2}(?P<angle>[^<>=/@]{1,60})>{1,2}|\{{1,2}(?P<brace>[^{}\":,]{1,60})\}{1,2}"
    r"|\[(?P<square>[^\[\]\"\d,]{1,60})\]|\$\{(?P<shell>[^{}]{1,60})\}(?P<rest>[\w./-]*)"
    r"|\$(?P<dollar>[A-Za-z_]\w{0,40}|[0-9])|%(?:[sdr]|\(\w+\)s|[A-Z_]+%)"
)
_FILL_IN = re.compile(
    r"\.\.\.|…|[\[<]?(?:your|insert|enter|dein\w*|ihr\w*|votre|su|tu)[_ -][\w.' -]{1,60}[\]>]?"
    r"|/?path[/_]to[/_]\S+|x{3,}|tbd|(?:name|path|result|output)_of_\w+",
    re.I,
)
# `<name>` or `{name}` within a value: a part of a path that is to be put in.
_PART = re.compile(r"(?:\A|[/\\_.-])(?:<[A-Za-z_][\w -]*>|\{[A-Za-z_]\w*\})(?:\Z|[/\\_.-])")
_PATH_MAX = 200  # characters of a value that may be a path with a part to be put in
_BIG_WORDS = re.compile(r"[A-Z]+(?:_[A-Z]+)*")


def has_placeholder(calls: Sequence[Written], prompts: Sequence[str]) -> bool:
    """Whether a text among the arguments stands for a value, and no prompt has that very text."""
    for call in calls:
        for name, value in texts_of(call):
            said = any(value.strip() in prompt for prompt in prompts)
            if is_placeholder(name, value) and not said:
                return True
    return False


def is_placeholder(name: str, value: str) -> bool:
    """Whether the text `value` of the argument `name` stands for one that is to be put in."""
    text = value.strip()
    if _FILL_IN.fullmatch(text) or text.lower() in _TYPES or "$(" in text[:_PATH_MAX]:
        return True
    if _is_big_word(name, text) or _is_description(name, text):
        return True
    found = _IN_SIGNS.fullmatch(text)
    if found is None:
        return len(text.split()) == 1 and len(text) < _PATH_MAX and bool(_PART.search(text))
    if found["dollar"]:  # "$AAPL" is a share, "$5" a price
        return not found["dollar"].isdigit() and _names_a_kind(name, found["dollar"])
    if found["shell"] or found["brace"]:
        return True
    if inner := found["angle"]:
        return inner.strip().lower() not in _TAGS
    if inner := found["square"]:  # "[draft]" is a word in brackets
        return _names_a_kind(name, inner) or not inner.isascii()
    return True  # what `printf` puts in


def _is_big_word(name: str, text: str) -> bool:
    """`PATH`, `CITY_NAME`: README and NASA are values."""
    return bool(_BIG_WORDS.fullmatch(text)) and _names_a_kind(name, text) and text != "ID"


def _is_description(name: str, text: str) -> bool:
    """`city name` for city, `user_query` for query: nothing but kinds, and its own among them."""
    words = re.split(r"[\s_-]+", text.lower())
    return 1 < len(words) < 5 and name.lower() in words and all(w in _KINDS for w in words)


def _names_a_kind(name: str, inner: str) -> bool:
    """Whether what stands between the signs names the argument, or a kind of value."""
    words = re.findall(r"[^\W_]+", inner.lower())
    near = key(name) in key(inner) or (len(inner) > 2 and key(inner) in key(name))
    return near or any(word in _KINDS or word in ("your", "insert") for word in words)


def texts_of(call: Written) -> Iterator[tuple[str, str]]:
    """The texts among the arguments, each with the name of its argument."""
    args: Any = call.args
    if isinstance(args, str):
        try:
            args = json_text.read(args, closed=call.closed)[0]
        except ValueError:
            return
    if isinstance(args, Mapping):
        yield from _within("", args, 10)


def _within(name: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping) and depth:
        for inner, item in value.items():
            yield from _within(str(inner), item, depth - 1)
    elif isinstance(value, list) and depth:
        for item in value:
            yield from _within(name, item, depth - 1)
