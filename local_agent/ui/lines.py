"""The one-line forms of what happens in a turn, the same on a terminal and on stderr."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from local_agent.ui.sanitize import visible

RESULT_CHARACTERS = 200  # the contract of the command line
_VALUE_CHARACTERS = 200
_LINE_CHARACTERS = 2_000  # of the arguments of a call that runs; a call to be approved is whole


def route_line(name: str) -> str:
    """`⇢ route: NAME`."""
    return f"⇢ route: {one_line(name)}"


def call_line(name: str, args: Mapping[str, Any]) -> str:
    """`→ tool(arg='x', n=2)`; long values are cut and the cut is stated."""
    shown = format_args(args, limit=_VALUE_CHARACTERS)
    if len(shown) > _LINE_CHARACTERS:
        left = len(shown) - _LINE_CHARACTERS
        shown = f"{shown[:_LINE_CHARACTERS]}… (+{left} characters)"
    return f"→ {one_line(name)}({shown})"


def result_line(text: str) -> str:
    """`← first 200 characters of the result`, with runs of white space as one space."""
    # 200 words hold at least 200 characters, so the rest of a large result is never touched.
    words = text.split(None, RESULT_CHARACTERS)[:RESULT_CHARACTERS]
    return f"← {one_line(' '.join(words)[:RESULT_CHARACTERS])}"


def approval_line(name: str, args: Mapping[str, Any], repaired: str = "") -> str:
    """`⏸ approval: tool(...)` with nothing cut: it may be all that is read before the answer."""
    note = f" · repaired: {one_line(repaired)}" if repaired else ""
    return f"⏸ approval: {one_line(name)}({format_args(args)}){note}"


def approval_help(approval_id: str, options: str = "") -> str:
    """How to decide a parked approval; `options` are what the commands need to find it."""
    shown = one_line(approval_id)[:12]  # as many digits tell it from any other
    tail = f"{shown} {one_line(options)}".rstrip()
    return (
        f"Approval {shown} is waiting: agent approvals show {tail}, "
        f"then agent approvals approve {tail} or agent approvals deny {tail}."
    )


def one_line(text: str) -> str:
    """`text` with every control character, newline and tab included, shown as a sign."""
    return visible(text, newlines=False).replace("\t", "␉")


def format_args(args: Mapping[str, Any], *, limit: int | None = None) -> str:
    """`arg='x', n=2` on one line; strings longer than `limit` characters are cut and say so."""
    return ", ".join(
        f"{_argument_name(str(name))}={format_value(value, limit=limit)}"
        for name, value in args.items()
    )


def format_value(value: Any, *, limit: int | None = None) -> str:
    """A JSON value in Python's notation; control and invisible characters are shown as signs."""
    match value:
        case str():
            return _quote(value, limit)
        case Mapping():
            items = (
                f"{_quote(str(key), None)}: {format_value(item, limit=limit)}"
                for key, item in value.items()
            )
            return "{" + ", ".join(items) + "}"
        case list() | tuple():
            return "[" + ", ".join(format_value(item, limit=limit) for item in value) + "]"
        case _:
            return one_line(repr(value))


def _argument_name(name: str) -> str:
    return one_line(name) if name.isidentifier() else _quote(name, None)


def _quote(text: str, limit: int | None) -> str:
    rest = ""
    if limit is not None and len(text) > limit:
        rest = f"…(+{len(text) - limit} characters)"
        text = text[:limit]
    mark = '"' if "'" in text and '"' not in text else "'"
    for plain, escaped in (("\\", "\\\\"), (mark, "\\" + mark), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(plain, escaped)
    return f"{mark}{one_line(text.replace(chr(9), chr(92) + 't'))}{mark}{rest}"
