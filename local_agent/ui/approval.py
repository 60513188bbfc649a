"""The question before a write: each call whole, a key for each answer, and no way to fake it.

Every row that holds text from outside begins with a gutter sign, also where a long line goes on,
so that no value can look like the question that follows.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from typing import Any, Literal, Protocol

from local_agent.events import ApprovalRequested, Decision, PendingCall
from local_agent.ui.lines import one_line

_SCREENS = 3  # more than this is first shown as head and tail
_KEYS = "y once · a this thread · n no · n REASON"
_UNKNOWN_OUTCOME = (
    "This call was started before the program ended and may already have run.",
    "Look at its effect first, if you can: y runs it again.",
)
_RAN = (
    "This very call was run before, on a course of the conversation that was left since.",
    "What it did is not undone: y runs it once more.",
)


class Asker(Protocol):
    """Where the question is put: `ui.prompt.ChatPrompt`, or a test."""

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows of the screen."""

    def discard_typed(self) -> None:
        """Forget keys that were typed and not read yet."""

    def write(self, text: str) -> None:
        """Print text that is already harmless."""

    async def answer(self, question: str) -> str | None:
        """The next line typed; None at end of input. Ctrl-C raises KeyboardInterrupt."""


async def ask(event: ApprovalRequested, prompt: Asker) -> dict[str, Decision]:
    """A decision for every call of the event, by call id, asked one after the other.

    `a` also answers the later calls of the same tool in this event, as it will in the thread, but
    not those that ran, may have run or were repaired. KeyboardInterrupt (stop the turn) goes
    through.
    """
    decisions: dict[str, Decision] = {}
    allowed: set[tuple[str, str]] = set()
    for number, call in enumerate(event.calls, 1):
        tool = (call.server, call.tool)
        if tool in allowed and call.why == "write" and not call.repaired:
            decisions[call.call_id] = Decision(True, scope="thread")
            continue
        title = "approval" if len(event.calls) == 1 else f"approval {number} of {len(event.calls)}"
        decision = await _ask_one(call, title, prompt)
        decisions[call.call_id] = decision
        if decision.approve and decision.scope == "thread":
            allowed.add(tool)
    return decisions


def parse_answer(text: str | None) -> Decision | Literal["view"] | None:
    """What a typed line means; None: ask again. End of input (a None) and other text are a no."""
    if text is None:
        return Decision(False)
    answer = text.strip()
    word, _, rest = answer.partition(" ")
    match answer.lower():
        case "":
            return None
        case "y" | "yes":
            return Decision(True)
        case "a":
            return Decision(True, scope="thread")
        case "n" | "no":
            return Decision(False)
        case "v":
            return "view"
    return Decision(False, reason=rest.strip() if word.lower() in {"n", "no"} else answer)


def call_rows(call: PendingCall, columns: int) -> list[str]:
    """The call for a screen of that many columns: one string a row, nothing left out."""
    rows = _wrapped("│ ", f"server {one_line(call.server)} · tool {one_line(call.tool)}", columns)
    if call.repaired:
        rows += _wrapped("│ ", f"repaired: {one_line(call.repaired)}", columns)
    if not call.args:
        return [*rows, "│ (no arguments)"]
    for name, value in call.args.items():
        rows += _value_rows(_key(str(name)), value, columns)
    return rows


async def _ask_one(call: PendingCall, title: str, prompt: Asker) -> Decision:
    columns, screen_rows = prompt.size
    rows = call_rows(call, columns)
    head = [f"⏸ {title}: {one_line(call.name)}"]
    if call.why == "unknown_outcome":
        head += _UNKNOWN_OUTCOME
    elif call.why == "ran":
        head += _RAN
    short = _shortened(rows, screen_rows, _characters(call.args))
    # Before the first row, not before the question: who reads fast may answer at once.
    prompt.discard_typed()
    prompt.write("\n".join([*head, *(short or rows)]) + "\n")
    keys = _KEYS if short is None else _KEYS + " · v view all"
    question = ("Run it? " if call.why == "write" else "Run it again? ") + f"{keys}: "
    while True:
        decision = parse_answer(await prompt.answer(question))
        if decision == "view":
            prompt.write("\n".join([*head, *rows]) + "\n")
        elif decision is not None:
            prompt.write(_echo(decision))
            return decision


def _echo(decision: Decision) -> str:
    if not decision.approve:
        reason = f": {one_line(decision.reason)}" if decision.reason else "."
        return f"Not run{reason}\n"
    return "Allowed for this thread.\n" if decision.scope == "thread" else "Allowed once.\n"


def _shortened(rows: list[str], screen_rows: int, characters: int) -> list[str] | None:
    """Head and tail with the cut stated, or None if all of it fits in some screens."""
    if len(rows) <= _SCREENS * max(screen_rows, 8):
        return None
    part = max(screen_rows // 2 - 3, 4)
    left = len(rows) - 2 * part
    cut = f"… {left:,} of {len(rows):,} rows ({characters:,} characters in all) not shown: v …"
    return [*rows[:part], cut, *rows[-part:]]


def _characters(args: Mapping[str, Any]) -> int:
    return sum(len(value if isinstance(value, str) else repr(value)) for value in args.values())


def _value_rows(key: str, value: Any, columns: int) -> list[str]:
    if isinstance(value, str) and "\n" in value:
        parts = value.split("\n")
        title = f"{key}: {len(parts)} lines, {len(value):,} characters"
        shown = parts
    elif isinstance(value, Mapping | list | tuple) and value:
        title, shown = f"{key}:", _json(value, indent=2).split("\n")
    else:
        title, shown = f"{key}: {_json(value, indent=None)}", []
    rows = _wrapped("├ ", one_line(title), columns)
    for part in shown:
        rows += _wrapped("│   ", one_line(part), columns)
    return rows


def _key(name: str) -> str:
    return name if name.isidentifier() else _json(name, indent=None)


def _json(value: Any, *, indent: int | None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)


def _wrapped(gutter: str, text: str, columns: int) -> list[str]:
    """`text` in rows of at most `columns` cells, `gutter` before the first, ┆ before the others."""
    room = max(columns - len(gutter) - 1, 8)
    rows: list[str] = []
    row, used, previous = "", 0, ""
    for char in text:
        cells = _cells(char)
        if cells and used + cells > room and previous != "\u200d":
            rows.append(row)
            row, used = "", 0
        row += char
        used += cells
        previous = char
    rows.append(row)
    others = "┆" + gutter[1:]
    return [(others if number else gutter) + row for number, row in enumerate(rows)]


def _cells(char: str) -> int:
    """How many cells a character takes at most; a row that ends early does no harm."""
    if char == "\ufe0f":  # asks for the wide form of the sign before it
        return 1
    if unicodedata.combining(char) or unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
