"""Whether a value is what a label asks for: equal, or as the label's one rule says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

RULES = ("any", "contains", "exact", "fields", "number", "one_of", "regex", "set")
OPTIONAL = "optional"  # beside a rule: the argument may be left out


def problem(label: Any) -> str:
    """What is wrong with a label, in words that complete "it"; empty if nothing is."""
    if isinstance(label, list):
        return next(filter(None, map(problem, label)), "")
    return _problem_of_rule(label) if isinstance(label, Mapping) else ""


def _problem_of_rule(label: Mapping[str, Any]) -> str:
    rules = set(label) - {OPTIONAL}
    if len(rules) != 1 or not rules <= set(RULES):
        return f"must have one of {', '.join(RULES)}"
    rule = next(iter(rules))
    given = label[rule]
    if rule in ("contains", "regex") and not isinstance(given, str):
        return f"must have a text behind {rule}"
    if rule in ("one_of", "set") and not isinstance(given, list):
        return f"must have a list behind {rule}"
    if rule == "fields":
        if not isinstance(given, Mapping):
            return "must have a table behind fields"
        return next(filter(None, map(problem, given.values())), "")
    if rule == "number" and not _is_number(given):
        return "must have a number behind number"
    if rule == "regex":
        try:
            re.compile(given)
        except re.error as exc:
            return f"has a regex that cannot be read: {exc}"
    return ""


def is_optional(label: Any) -> bool:
    """Whether an argument with this label may be left out."""
    return isinstance(label, Mapping) and (label.get(OPTIONAL) is True or "any" in label)


def matches(label: Any, value: Any) -> bool:
    """Whether `value` is what `label` asks for.

    A plain text is compared without regard to case and outer space, a plain number by its value;
    a number in quotes is none. Lists match item by item.
    """
    if isinstance(label, Mapping):
        return _by_rule(label, value)
    if isinstance(label, str) and isinstance(value, str):
        return _plain(label) == _plain(value)
    if _is_number(label) and _is_number(value):
        return bool(abs(label - value) < 1e-6)
    if isinstance(label, list) and isinstance(value, list):
        return len(label) == len(value) and all(map(matches, label, value))
    return type(label) is type(value) and bool(label == value)


def _by_rule(label: Mapping[str, Any], value: Any) -> bool:
    rule, given = next((r, label[r]) for r in RULES if r in label)
    match rule:
        case "contains":
            return isinstance(value, str) and _plain(given) in _plain(value)
        case "regex":
            return isinstance(value, str) and bool(re.search(given, value, re.I | re.S))
        case "one_of":
            return any(matches(one, value) for one in given)
        case "set":
            return isinstance(value, list) and _same_items(given, value)
        case "number":
            return _is_number(value) and bool(abs(given - value) < 1e-6)
        case "fields":
            return isinstance(value, Mapping) and fields_match(given, value)
        case "exact":
            return type(given) is type(value) and bool(given == value)
    return True


def fields_match(labels: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    """Whether each labelled value is there and right, or may be left out and is."""
    return all(
        matches(label, values[name]) if name in values else is_optional(label)
        for name, label in labels.items()
    )


def _same_items(labels: list[Any], values: list[Any]) -> bool:
    """Whether each label has a value of its own, in whatever order."""
    left = list(values)
    for label in labels:
        found = next((at for at, value in enumerate(left) if matches(label, value)), None)
        if found is None:
            return False
        del left[found]
    return not left


def said(label: Any, text: str) -> bool:
    """Whether `text` says what a label of an answer asks for: a plain text is contained in it."""
    if isinstance(label, str):
        return _plain(label) in _plain(text)
    if isinstance(label, Mapping) and "one_of" in label:
        return any(said(one, text) for one in label["one_of"])
    return matches(label, text)


def _plain(text: str) -> str:
    return " ".join(text.replace("\u2019", "'").split()).casefold()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
