"""Reads JSON that a model wrote; what is not whole is mended only where nothing is made up.

The mending is done by json-repair, which would rather guess than fail: it closes strings that were
cut, fills in values, drops what it cannot place. So its result counts only if it consists of
exactly the values and brackets that the text has, in their order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

_LONGEST = 200_000  # characters; more is no call, and mending takes a time of its own
_BOMBS = 2_000  # brackets; the library calls itself for each
_OPENERS, _CLOSERS = "{[", "}]"
_ENDS = {'"': '"', "'": "'", "“": "”"}
_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<bracket>[{}\[\]])|(?P<separator>[,:])|(?P<quote>[\"'“])"
    r"|(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?=[\s,}\]]|\Z)"
    r"|(?P<word>[A-Za-z_$][\w$-]*)"
)
_WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}
_FENCED = re.compile(r"\A\s*```[ \t]*\w*\s*\n?(.*?)\n?\s*```\s*\Z", re.S)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.S)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}

_Token = tuple[str, Any]  # ("value", it), ("bracket", "{") or ("separator", ",")


def read(text: str, *, closed: bool = False) -> tuple[Any, str]:
    """The JSON value of `text`, and what was mended in it ("" for nothing).

    closed: a mark stood behind the text that shows that it was not cut; only then may a missing
    bracket at its end be added. Raises ValueError with what is wrong, for the model to read.
    """
    try:
        return loads(text), ""
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    except ValueError as exc:
        wrong = exc
    if inner := _FENCED.match(text):
        value, mended = read(inner.group(1), closed=True)
        return value, mended or "the code fence around it left out"
    if text.strip().startswith("{{") and text.strip().endswith("}}"):
        text = text.strip()[1:-1]  # as templates write a brace
    try:
        return _mended(text.strip(), closed), "its JSON was mended"
    except (ValueError, RecursionError, IndexError):
        raise ValueError(str(wrong)) from None


def loads(text: str) -> Any:
    """Strict JSON, and line breaks within strings. Raises ValueError, also for a key with two
    values and for NaN."""
    return json.loads(text, strict=False, parse_constant=_no_constant, object_pairs_hook=_object)


def starts(text: str) -> tuple[Any, int]:
    """The JSON value that `text` begins with, and where it ends. Raises ValueError."""
    decoder = json.JSONDecoder(strict=False, parse_constant=_no_constant, object_pairs_hook=_object)
    value, end = decoder.raw_decode(text)
    return value, end


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is not JSON")


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found and found[key] != value:
            raise ValueError(f"{key} is there twice, with two values")
        found[key] = value
    return found


def _mended(text: str, closed: bool) -> Any:
    """What the library makes of `text`, if that is all there is in it. Raises ValueError."""
    if len(text) > _LONGEST or sum(text.count(sign) for sign in _OPENERS) > _BOMBS:
        raise ValueError("too long")
    written, gaps = _tokens(text)
    if not written or written[0] not in [("bracket", sign) for sign in _OPENERS]:
        raise ValueError("no object")
    from json_repair import repair_json

    value = loads(_whole_letters(str(repair_json(text, ensure_ascii=False))))
    read_as, canonical = _tokens(json.dumps(value, ensure_ascii=False))
    size = next(
        (n for n, (a, b) in enumerate(zip(written, read_as, strict=False)) if not _same(a, b)),
        min(len(written), len(read_as)),
    )
    surplus, added = written[size:], read_as[size:]
    if not _all_closers(surplus) or not _all_closers(added):
        raise ValueError("not the same values")
    if added and (not closed or gaps[-1]):
        raise ValueError("cut")
    if not all(_fits(gap, canonical[n]) for n, gap in enumerate(gaps[:size])):
        raise ValueError("not the same order")
    return value


def _same(a: _Token, b: _Token) -> bool:
    return a[0] == b[0] and a[1] == b[1] and type(a[1]) is type(b[1])


def _all_closers(tokens: Sequence[_Token]) -> bool:
    return all(kind == "bracket" and sign in _CLOSERS for kind, sign in tokens)


def _fits(gap: str, canonical: str) -> bool:
    """Whether what stands before a token is its separator; a comma may lack or be too many."""
    return gap == canonical or (canonical != ":" and set(gap) <= {","})


def _tokens(text: str) -> tuple[list[_Token], list[str]]:
    """The values and brackets of `text`, and the separators before each and at its end.

    Raises ValueError for a string that does not end and for anything that is none of these.
    """
    tokens: list[_Token] = []
    gaps: list[str] = []
    gap = ""
    for kind, value in _scan(text):
        if kind == "separator":
            gap += value
            continue
        tokens.append((kind, value))
        gaps.append(gap)
        gap = ""
    return tokens, [*gaps, gap]


def _scan(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError("not JSON")
        kind, at = found.lastgroup or "", found.end()
        if kind == "quote":
            string, at = _string(text, at, _ENDS[found.group()])
            yield "value", string
        elif kind == "number":
            yield "value", json.loads(found.group())
        elif kind == "word":
            yield "value", _word(found.group(), text[at:])
        elif kind != "space":
            yield kind, found.group()


def _word(word: str, behind: str) -> Any:
    """A literal, or a key without quotes."""
    if behind.lstrip().startswith(":"):
        return word
    if word not in _WORDS:
        raise ValueError("text without quotes")
    return _WORDS[word]


def _string(text: str, start: int, end_sign: str) -> tuple[str, int]:
    """The string that begins at `start`, and where it ends."""
    at = start
    while at < len(text) and text[at] != end_sign:
        at += 2 if text[at] == "\\" else 1
    if at >= len(text):
        raise ValueError("a string that does not end")
    return _whole_letters(_ESCAPE.sub(_unescaped, text[start:at])), at + 1


def _whole_letters(text: str) -> str:
    """The text with the halves of its letters put together, as JSON writes those beyond 16 bits."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescaped(found: re.Match[str]) -> str:
    sign = found.group(1)
    if len(sign) == 5:
        return chr(int(sign[1:], 16))
    if sign in "\"'\\/":
        return sign
    if sign not in _ESCAPED:
        raise ValueError("an escape that JSON has not")
    return _ESCAPED[sign]
