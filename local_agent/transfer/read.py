"""What a file holds: a thread of this program, or lists of chat messages; all else is refused.

{"format": "local-agent-thread", …}                  one thread, whole
[{"role": …}, …]    {"messages": [{"role": …}, …]}   one conversation
a line each of {"role": …}                           one conversation
a line each of {"messages": […]}                     one conversation a line
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from local_agent.errors import TransferError
from local_agent.transfer.chat_lists import document_of
from local_agent.transfer.check import Place
from local_agent.transfer.document import Document
from local_agent.transfer.json_form import FORMAT, from_json
from local_agent.transfer.plain import DEEPEST, depth_of

LARGEST = 200_000_000  # bytes; reading takes some five times as much memory
MOST = 1000  # conversations in one file


@dataclass(frozen=True, slots=True)
class Found:
    """A thread in a file; `said` is what could not be taken over of it."""

    document: Document
    said: tuple[str, ...] = ()


def documents_in(data: bytes, name: str) -> list[Found]:
    """The threads in a file's bytes; `name` is for those that have none.

    Raises TransferError, one line, for what is no such file.
    """
    value, is_lines = _parse(_text(data))
    if isinstance(value, dict) and "format" in value:
        if value["format"] != FORMAT:
            raise TransferError(f'Its "format" is not "{FORMAT}".')
        return [Found(from_json(value))]
    if _has(value, "messages"):
        return [_conversation(value["messages"], name, Place("messages"))]
    if _has(value, "role"):
        return [_conversation([value], name, Place())]
    if not isinstance(value, list):
        raise TransferError("It holds neither a thread nor a list of messages.")
    if is_lines or (value and all(_has(one, "messages") for one in value)):
        return _of_lines(value, name)
    return [_conversation(value, name, Place())]


def _text(data: bytes) -> str:
    if len(data) > LARGEST:
        raise TransferError(f"It has more than {LARGEST // 1_000_000} MB.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise TransferError("It is no text in UTF-8.") from exc
    if not text.strip():
        raise TransferError("It is empty.")
    return text


def _parse(text: str) -> tuple[Any, bool]:
    """The value of a JSON text, or those of its lines; whether it was lines."""
    try:
        value, is_lines = json.loads(text), False
    except RecursionError as exc:
        raise _too_deep() from exc
    except ValueError as exc:
        lines = [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
        if len(lines) < 2 or not lines[0][1].lstrip().startswith("{"):
            raise TransferError(f"It is no JSON: {_reason(exc)}.") from exc
        value, is_lines = [_line(n, line) for n, line in lines], True
    if depth_of(value) > DEEPEST:
        raise _too_deep()
    return value, is_lines


def _line(number: int, text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError as exc:
        raise _too_deep() from exc
    except ValueError as exc:
        raise TransferError(f"Line {number} is no JSON: {_reason(exc)}.") from exc


def _reason(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at line {error.lineno} column {error.colno}"
    return "a number in it is too long"


def _too_deep() -> TransferError:
    return TransferError(f"Its lists and objects lie more than {DEEPEST} deep in each other.")


def _of_lines(values: Sequence[Any], name: str) -> list[Found]:
    if all(_has(value, "role") for value in values):
        return [_conversation(list(values), name, Place("line"))]
    if len(values) > MOST:
        raise TransferError(f"It has {len(values)} conversations.", f"{MOST} can be in one file.")
    found = []
    for n, value in enumerate(values, 1):
        if not _has(value, "messages"):
            raise TransferError(f'Line {n} has neither "messages" nor, as all lines, a "role".')
        given = f"{name} {n}" if len(values) > 1 else name
        found.append(_conversation(value["messages"], given, Place(f"line {n}")["messages"]))
    return found


def _has(value: Any, key: str) -> bool:
    return isinstance(value, dict) and key in value


def _conversation(value: Any, name: str, at: Place) -> Found:
    document, said = document_of(at.of(value, list), name, at)
    return Found(document, tuple(said))
