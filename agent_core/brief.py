"""Tools as a prompt describes them: what a model needs to call one, and not a word more.

Texts are dropped and shortened, definitions put where they are used, and of an optional argument
that may be null the null is left out. No constraint is lost: what fits the schema as it is shown,
with no other properties than those shown, fits the tool's own one, by which calls are checked.
All follows from the tool alone, so that a prompt begins as the one before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

SENTENCES, PHRASE = 240, 100  # characters of the description of a tool, and of an argument
RULES = 0.6  # of that more for sentences that say how to fill in or use it, and not what it is
LEAST_SENTENCES, LEAST_PHRASE = 100, 40  # the same where not all tools have room otherwise
_DEFAULT = 24  # characters of a default that is worth saying
_INLINED = 400  # characters of a definition that is put where it is used
_DEEP = 6  # levels of definitions within definitions

_NOISE = frozenset(
    (
        *("$schema", "$id", "$comment", "title", "examples", "example", "deprecated"),
        *("readOnly", "writeOnly", "markdownDescription"),
    )
)
_ANNOTATIONS = frozenset(("description", "default", *_NOISE))
# Where schemas stand in a schema: by name, in a list, alone. What stands in the first of each can
# be narrowed without making anything fit that did not.
_NAMED, _NAMED_ELSE = ("properties",), ("patternProperties", "$defs", "definitions")
_LISTED_ELSE = ("anyOf", "oneOf", "allOf", "prefixItems")
_ONE, _ONE_ELSE = ("items",), ("contains", "propertyNames", "not", "if", "then", "else")

_FENCE = re.compile(r"```.*?(?:```|\Z)", re.S)
_SECTION = re.compile(
    r"^[ \t#*_]*(?:args|arguments|parameters|params|returns?|raises|yields|examples?|usage|notes?"
    r"|see also|input|output)[ *_]*:?[ *_]*$.*",
    re.I | re.M | re.S,
)
# Markup stands apart: in "arr[i](k)" and "2*3*4" the same signs mean something.
_LINK = re.compile(r"(?<!\w)!?\[([^\]]*)\]\([^)]*\)")
_BOLD = re.compile(r"(?<![^\s(\[\"'>])(\*{1,3})(?=\w)([^*\n]{1,200}?)(?<=\w)\1(?![\w$/*])")
_MARKS = re.compile(r"`+|^[ \t]*(?:#+|>|[-*+])[ \t]+", re.M)
_TAG = re.compile(r"</?(?:p|br|b|i|em|strong|code|pre|ul|ol|li|div|span|h[1-6])\s*/?>", re.I)
_RULE = re.compile(
    r"(?:use|do not|don['’]t|never|always|must|only|leave|omit|if|when|required|defaults?)\b", re.I
)
_STOP = re.compile(r"(?<=[.!?])\s+(?=[\"'(A-Z0-9\u00c0-\u00de])|(?<=[\u3002\uff01\uff1f])")


def brief(schema: Mapping[str, Any], text: str, *, least: bool = False) -> tuple[Any, str]:
    """The schema and the description of a tool, shortened; `least`: to what is needed most."""
    work = _Work(_definitions(schema), LEAST_PHRASE if least else PHRASE)
    short = work.schema(schema, True)
    bare = {key: part for key, part in short.items() if key not in ("$defs", "definitions")}
    return (
        short if any(_references(bare)) else bare,
        first_sentences(text, LEAST_SENTENCES if least else SENTENCES),
    )


# -- texts ----------------------------------------------------------------------------------------


def first_sentences(text: str, chars: int) -> str:
    """The first sentences of `text` in about `chars` characters, without markup, on one line.

    A sentence that says how to use it may take `RULES` more: "Use 'Europe/Berlin' if none is given"
    is what a call comes out right by.
    """
    bare = _FENCE.sub(" ", text)
    bare = _SECTION.sub("", bare, count=1) if _SECTION.sub("", bare, count=1).strip() else bare
    bare = _MARKS.sub("", _TAG.sub(" ", _BOLD.sub(r"\2", _LINK.sub(r"\1", bare))))
    line = " ".join(bare.split())
    if len(line) <= chars:
        return line
    kept, is_full = "", False
    for sentence in _STOP.split(line):
        grown, is_rule = f"{kept} {sentence}".strip(), bool(kept and _RULE.match(sentence))
        if is_full and not is_rule:
            continue
        if len(grown) <= (chars * (1 + RULES) if is_rule else chars):
            kept = grown
        else:
            is_full = True
    return kept or _cut(line, chars)


def _cut(line: str, chars: int) -> str:
    """The first words of `line`; an ellipsis says that there was more."""
    head = line[: chars - 1]
    at = head.rfind(" ")
    return f"{head[:at] if at > chars // 2 else head}…"


# -- schemas --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Work:
    """Shortens schemas of one tool. `definitions` are what a `$ref` may name."""

    definitions: Mapping[str, Any]
    phrase: int

    def schema(self, schema: Mapping[str, Any], narrow: bool) -> Any:
        """A schema without what is noise. `narrow`: fewer values may fit it than before."""
        schema = self._inlined(schema)
        if narrow and isinstance(schema.get("properties"), Mapping):
            schema = {**schema, "properties": self._without_nulls(schema)}
        out: dict[str, Any] = {}
        for key, value in schema.items():
            if not _is_noise(key, value, narrow):
                part = self._value(key, value, narrow)
                if part != "" or key != "description":
                    out[key] = part
        return out

    def _without_nulls(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """The properties of a schema, the optional ones without null."""
        needed = schema.get("required")
        names = needed if isinstance(needed, list) else []
        return {
            name: part if name in names else self._without_null(part)
            for name, part in schema["properties"].items()
        }

    def _without_null(self, part: Any) -> Any:
        """The schema of an optional argument without the null that stands for leaving it out."""
        if not isinstance(part, Mapping):
            return part
        part = self._inlined(part)
        options, kinds = part.get("anyOf"), part.get("type")
        if isinstance(kinds, list) and "null" in kinds and len(kinds) > 1 and "enum" not in part:
            left = [kind for kind in kinds if kind != "null"]
            return {**part, "type": left[0] if len(left) == 1 else left}
        if not isinstance(options, list) or {"type": "null"} not in options:
            return part
        left = [option for option in options if option != {"type": "null"}]
        rest = {key: value for key, value in part.items() if key != "anyOf"}
        if len(left) == 1 and isinstance(left[0], Mapping) and not rest.keys() - _ANNOTATIONS:
            return self._without_null({**left[0], **rest})  # which may have a null of its own
        return {**part, "anyOf": left} if left else part

    def _value(self, key: str, value: Any, narrow: bool) -> Any:
        """The value of a key of a schema, shortened where it is a text or has schemas in it."""
        if key == "description":
            return first_sentences(value, self.phrase) if isinstance(value, str) else ""
        if key in (*_NAMED, *_NAMED_ELSE) and isinstance(value, Mapping):
            inner = narrow and key in _NAMED
            return {name: self._part(part, inner) for name, part in value.items()}
        if key in _LISTED_ELSE and isinstance(value, list):
            return [self._part(part, False) for part in value]
        if key in (*_ONE, *_ONE_ELSE, "additionalProperties"):
            return self._part(value, narrow and key in _ONE)
        return value

    def _part(self, value: Any, narrow: bool) -> Any:
        return self.schema(value, narrow) if isinstance(value, Mapping) else value

    def _inlined(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """A definition in place of what only refers to it."""
        ref = schema.get("$ref")
        target = self.definitions.get(ref) if isinstance(ref, str) else None
        rest = {key: part for key, part in schema.items() if key != "$ref"}
        if not isinstance(target, Mapping) or rest.keys() - _ANNOTATIONS:
            return schema
        return self._inlined({**target, **rest})


def _is_noise(key: str, value: Any, narrow: bool) -> bool:
    if key == "default":
        return not _is_telling(value)
    if key in ("additionalProperties", "unevaluatedProperties"):
        return narrow and not isinstance(value, Mapping)
    return key in _NOISE


def _is_telling(value: Any) -> bool:
    """Whether a default is worth saying: a number, a word; not nothing, and not a text."""
    if value is None or isinstance(value, list | dict):
        return False
    return 0 < len(str(value)) <= _DEFAULT


def _definitions(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The definitions that can stand where they are used, by what `$ref` calls them.

    Those are small and do not lead to themselves.
    """
    found: dict[str, Any] = {}
    for key in ("$defs", "definitions"):
        named = schema.get(key)
        for name, part in named.items() if isinstance(named, Mapping) else ():
            found[f"#/{key}/{name}"] = part
    leads = {name: set(_references(part)) for name, part in found.items()}
    for _ in range(_DEEP):
        leads = {n: to.union(*(leads.get(o, set()) for o in to)) for n, to in leads.items()}
    is_small = {name: len(str(part)) <= _INLINED for name, part in found.items()}
    return {n: part for n, part in found.items() if is_small[n] and n not in leads[n]}


def _references(value: Any) -> Iterator[str]:
    """What any part of `value` refers to."""
    if isinstance(value, Mapping):
        if isinstance(ref := value.get("$ref"), str):
            yield ref
        value = list(value.values())
    for part in value if isinstance(value, list) else ():
        yield from _references(part)
