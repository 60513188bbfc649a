"""A document as JSON, {"format": "local-agent-thread", …}, and back with every part checked.

The same thread is always the same text. What is brought in is data: ids are looked at, fields that
say what a person allowed are refused, and what is not known is refused too, because it would be
lost.
"""

from __future__ import annotations

import json
import re
import types
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, get_args, get_origin

from agent_core.sent import key_of
from local_agent.config import check_thread_name
from local_agent.errors import TransferError, UsageError
from local_agent.memory.order import LONGEST
from local_agent.transfer.check import Place
from local_agent.transfer.collect import FIELDS
from local_agent.transfer.document import Course, Document, Step
from local_agent.transfer.messages import message_from_json, message_to_json
from local_agent.transfer.plain import NotPlain, from_plain, storable, to_plain

FORMAT = "local-agent-thread"
VERSION = 1
LONGEST_TITLE = 1000  # characters; ours have 80, a person may have given a longer one
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-6[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_AHEAD = timedelta(seconds=LONGEST)
_THREAD = ("name", "title", "created", "model", "parent")
_TOP = ("format", "version", "thread", "open", "turns_left_out", "bases", "steps", "branches")
_STEP = ("id", "parent", "turn", "time", "asks", "keep", "messages", "like", "state")
_DESCRIBED = ("name", "description")
_COURSE = ("end", "created", "first_turn", "turns", "prompt", "why", "undone", "stops", "steps")


def to_json(document: Document) -> tuple[dict[str, Any], list[str]]:
    """The document as an object, and the kinds of values that JSON has only as their text."""
    lost: list[str] = []

    def as_text(value: Any) -> None:
        lost.append(type(value).__name__)

    def step_of(step: Step) -> dict[str, Any]:
        table: dict[str, Any] = {"id": step.id, "parent": step.parent}
        if step.is_start:
            table |= {"turn": True, "time": step.time.isoformat()}
        if step.asks:
            table["asks"] = True
        optional = {
            "keep": step.keep,
            "like": step.like,
            "messages": [message_to_json(m, as_text) for m in step.added] or None,
            "state": to_plain(dict(step.state), as_text) or None,
        }
        return table | {key: value for key, value in optional.items() if value is not None}

    table: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "thread": {
            "name": document.name,
            "title": document.title,
            "created": document.created.isoformat(),
            "model": document.model,
            "parent": document.parent,
        },
    }
    if document.is_open:
        table["open"] = True
    if document.left_out:
        table["turns_left_out"] = document.left_out
    if document.bases:
        table["bases"] = dict(sorted(document.bases.items()))
    table["steps"] = [step_of(step) for step in document.steps]
    table["branches"] = [
        {
            "end": one.end,
            "created": one.created.isoformat(),
            "first_turn": one.first_turn,
            "turns": one.turns,
            "prompt": one.prompt,
            "why": one.why,
            "undone": one.is_undone,
            "stops": list(one.stops),
            "steps": [step_of(step) for step in one.steps],
        }
        for one in document.branches
    ]
    return table, sorted(set(lost))


def from_json(table: Mapping[str, Any]) -> Document:
    """The document of an object that says to be one. Raises TransferError with the place."""
    at = Place()
    version = at.need(table, "version", int)
    if version > VERSION:
        raise TransferError(
            f"It was written by a newer version of this program, in form {version}.",
            f"Update the program: this one knows form {VERSION}.",
        )
    if version < 1:
        raise at["version"].wrong("must be at least 1")
    at.known(table, _TOP)
    thread: dict[str, Any] = at.need(table, "thread", dict)
    at["thread"].known(thread, _THREAD)
    known: dict[str, str | None] = {}
    steps = _steps(at.need(table, "steps", list), at["steps"], known)
    if not steps:
        raise at["steps"].wrong("must have a step")
    courses: list[Any] = at.get(table, "branches", list, [])
    branches = tuple(_course(one, at["branches"][i], known) for i, one in enumerate(courses))
    document = Document(
        name=_name(thread.get("name"), at["thread"]["name"]),
        title=_text(thread, "title", at["thread"], LONGEST_TITLE),
        created=_instant(at["thread"].need(thread, "created", str), at["thread"]["created"]),
        steps=steps,
        branches=branches,
        model=_text(thread, "model", at["thread"], 500),
        parent=_parent(thread, at["thread"]),
        is_open=at.get(table, "open", bool, False),
        left_out=at.get(table, "turns_left_out", int, 0),
        bases=_bases(at.get(table, "bases", dict, {}), at["bases"]),
    )
    _check_order(document, at)
    return document


def _steps(values: Sequence[Any], at: Place, known: dict[str, str | None]) -> tuple[Step, ...]:
    """The steps of a course; `known` are the ids so far, with the parent of each."""
    found: list[Step] = []
    for i, value in enumerate(values):
        place = at[i]
        table: dict[str, Any] = place.of(value, dict)
        place.known(table, _STEP)
        step = _step(table, place)
        if step.id in known:
            raise place["id"].wrong("is there twice")
        if found and step.parent != found[-1].id:
            raise place["parent"].wrong("is not the step before it")
        if step.parent is not None and step.parent not in known:
            raise place["parent"].wrong("is no step of this file")
        if step.like is not None and known.get(step.like, "") != step.parent:
            raise place["like"].wrong("is no step with the same parent")
        known[step.id] = step.parent
        found.append(step)
    return tuple(found)


def _step(table: dict[str, Any], at: Place) -> Step:
    messages: list[Any] = at.get(table, "messages", list, [])
    keep = at.get(table, "keep", int, -1)
    if keep < -1:
        raise at["keep"].wrong("must be 0 or more")
    like = None if table.get("like") is None else _id(table["like"], at["like"])
    if like is not None and (messages or keep >= 0):
        raise at.wrong('has "like" and messages of its own')
    return Step(
        id=_id(at.need(table, "id", str), at["id"]),
        parent=None if table.get("parent") is None else _id(table["parent"], at["parent"]),
        is_start=at.get(table, "turn", bool, False),
        asks=at.get(table, "asks", bool, False),
        keep=None if keep < 0 else keep,
        added=tuple(message_from_json(m, at["messages"][i]) for i, m in enumerate(messages)),
        like=like,
        state=_state(at.get(table, "state", dict, {}), at["state"]),
    )


def _course(value: Any, at: Place, known: dict[str, str | None]) -> Course:
    table: dict[str, Any] = at.of(value, dict)
    at.known(table, _COURSE)
    stops: list[Any] = at.get(table, "stops", list, [])
    steps = _steps(at.get(table, "steps", list, []), at["steps"], known)
    end = _id(at.need(table, "end", str), at["end"])
    if end not in known:
        raise at["end"].wrong("is no step of this file")
    return Course(
        end=end,
        steps=steps,
        created=_instant(at.need(table, "created", str), at["created"]),
        first_turn=at.need(table, "first_turn", int),
        turns=at.need(table, "turns", int),
        prompt=storable(at.need(table, "prompt", str)),
        why=_text(table, "why", at, 200),
        is_undone=at.get(table, "undone", bool, False),
        stops=tuple(at["stops"][i].of(stop, int) for i, stop in enumerate(stops)),
    )


def _bases(table: dict[str, Any], at: Place) -> dict[str, str]:
    """What requests were made of; each has the key that its text makes."""
    for key, value in table.items():
        text = at[key].of(value, str)
        if key != key_of(text):
            raise at[key].wrong("has another key than its text makes")
        try:
            basis = json.loads(text)
            functions = [one["function"] for one in basis["tools"]]
            parts = [basis["system"], *(one[k] for one in functions for k in _DESCRIBED)]
            fine = all(isinstance(part, str) for part in parts)
            fine = fine and all(isinstance(one["parameters"], dict) for one in functions)
            fine = fine and isinstance(basis["window"], dict) and isinstance(basis["limits"], dict)
            fine = fine and type(basis["window"]["context_length"]) is int
        except (ValueError, KeyError, TypeError, RecursionError):
            fine = False
        if not fine:
            raise at[key].wrong("is nothing that a request is made of")
    return dict(table)


def _check_order(document: Document, at: Place) -> None:
    """The newest step is where a thread stands, here as in the database."""
    head = document.steps[-1].id
    if any(step.id > head for step in document.all_steps()):
        raise at["steps"].wrong("does not end with the newest step")
    if document.steps[-1].time > datetime.now(UTC) + _AHEAD:
        when = document.steps[-1].time.astimezone().strftime("%Y-%m-%d %H:%M:%S %z")
        raise TransferError(
            f"It was last written at {when}, which is later than now.",
            "Set the clock of this computer right.",
        )
    lengths: dict[str | None, int] = {None: 0}
    for step in document.all_steps():
        before = lengths[step.parent]
        if step.keep is not None and step.keep > before:
            raise TransferError(f"The step {step.id} keeps more messages than there are.")
        kept = before if step.keep is None else step.keep
        lengths[step.id] = lengths[step.like] if step.like else kept + len(step.added)


def _id(value: Any, at: Place) -> str:
    text = at.of(value, str)
    if not _ID.fullmatch(text):
        raise at.wrong("is no id of a step")
    return text


def _name(value: Any, at: Place) -> str:
    name = at.of(value, str)
    try:
        check_thread_name(name, at.name)
    except UsageError as exc:
        raise TransferError(str(exc)) from exc
    return name


def _parent(thread: Mapping[str, Any], at: Place) -> str | None:
    return None if thread.get("parent") is None else _name(thread["parent"], at["parent"])


def _text(table: Mapping[str, Any], key: str, at: Place, longest: int) -> str:
    text = storable(at.get(table, key, str, ""))
    if len(text) > longest:
        raise at[key].wrong(f"is longer than {longest} characters")
    return text


def _instant(text: str, at: Place) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise at.wrong("has no offset from UTC")
        return moment.astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise at.wrong("is no time") from exc


def _state(table: dict[str, Any], at: Place) -> dict[str, Any]:
    """The fields of the state that may be brought in, each of the type that it has there."""
    try:
        values = from_plain(table)
    except NotPlain as exc:
        raise at.wrong(str(exc)) from exc
    for key, value in values.items():
        if key not in FIELDS:
            raise at.wrong(f'has "{key[:40]}", which a file cannot bring')
        if not _fits(value, FIELDS[key]):
            raise at[key].wrong("has another type than it must have")
    return values  # type: ignore[no-any-return]  # of a dict


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is of the type that the state declares."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin is list:
        return isinstance(value, list) and all(_fits(item, inner[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(
            _fits(k, inner[0]) and _fits(v, inner[1]) for k, v in value.items()
        )
    if isinstance(kind, types.UnionType):
        return any(_fits(value, one) for one in inner)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
