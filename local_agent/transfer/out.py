"""A document as the text of a file, with what has to be said about it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal

from context import text_of
from local_agent.transfer.cut import last_turns
from local_agent.transfer.document import Document
from local_agent.transfer.json_form import to_json
from local_agent.transfer.markdown import to_markdown
from local_agent.transfer.read import LARGEST
from local_agent.transfer.redact import redacted

Format = Literal["md", "json"]


@dataclass(frozen=True, slots=True)
class Wish:
    """How a thread is to be taken out. `last` is in turns, None for all."""

    format: Format = "md"
    last: int | None = None
    redact: bool = False


@dataclass(frozen=True, slots=True)
class Taken:
    """The text of the file, and what is not in it or should be known of it, a line each."""

    text: str
    notes: tuple[str, ...]
    turns: int
    messages: int
    secrets: int


def take_out(
    document: Document,
    wish: Wish,
    visible: Callable[[str], str],
    *,
    secrets: Collection[str] = (),
    files: str = "",
) -> Taken:
    """The file of a document. `secrets` are redacted for certain; `files` is the folder beside the
    database whose files results name. `visible` makes characters that nobody sees visible."""
    names_files = bool(files) and any(files in text_of(m.content) for m in document.messages)
    if wish.last is not None:
        document = last_turns(document, wish.last)
    found = 0
    if wish.redact:
        document, found = redacted(document, secrets)
    notes = _notes(document, wish, found)
    if names_files:
        notes.append(f"Files that results name are not in it; they are in {files}.")
    if wish.format == "json":
        table, as_text = to_json(document)
        text = json.dumps(table, ensure_ascii=False, indent=1) + "\n"
        if as_text:
            notes.append(f"Values of these kinds became their text: {', '.join(as_text)}.")
        if len(text.encode()) > LARGEST:
            notes.append("It is larger than what an import takes.")
    else:
        text = to_markdown(document, visible, notes)
    messages = document.messages
    return Taken(text, tuple(notes), document.turns, len(messages), found)


def _notes(document: Document, wish: Wish, secrets: int) -> list[str]:
    notes = []
    if document.damage:
        notes.append(f"This is what is left of the thread: {document.damage}")
    if document.left_out:
        notes.append(f"{_count(document.left_out, 'earlier turn')} not in it.")
    if document.branches and wish.format == "md":
        left = _count(len(document.branches), "branch", "branches")
        notes.append(f"{left} not in it; the JSON form has them.")
    if document.is_open:
        notes.append(
            "The last turn is not finished; what waits for an answer cannot go on from it."
        )
    if wish.redact:
        what = "secret was" if secrets == 1 else "secrets were"
        notes.append(f"{secrets} {what} found and replaced; others may have no known shape.")
    if wish.format == "json":
        notes.append("What was allowed is not in it: that counts on this machine alone.")
    return notes


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'} {'is' if number == 1 else 'are'}"
