"""Words that are marked in a line: bold on a terminal, in brackets elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from local_agent.ui.lines import one_line

BOLD = ("\x1b[1m", "\x1b[22m")
BRACKETS = ("[", "]")


def marks_for(stream: Any, environ: Mapping[str, str]) -> tuple[str, str]:
    """What stands before and behind a marked word on `stream`.

    NO_COLOR and TERM=dumb promise output without an escape sequence.
    """
    dumb = environ.get("NO_COLOR") or environ.get("TERM", "").lower() in {"dumb", "unknown"}
    return BOLD if stream is not None and stream.isatty() and not dumb else BRACKETS


def marked_line(parts: Iterable[tuple[str, bool]], marks: tuple[str, str]) -> str:
    """The pieces of a text as one harmless line, those with True between `marks`."""
    before, behind = marks
    shown = ((one_line(text), found) for text, found in parts)
    return "".join(f"{before}{text}{behind}" if found else text for text, found in shown)
