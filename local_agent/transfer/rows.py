"""A document as the rows that LangGraph would have written for such a thread.

A step's messages are an update that is stored with the step before it, as everywhere. Only a first
step, and one that goes another way than its sister, holds its whole list.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.types import Overwrite

from local_agent.memory.branches import Branch
from local_agent.memory.courses import Rows
from local_agent.transfer.document import Document, Step


def rows_of(document: Document, serde: SerializerProtocol) -> Rows:
    """The rows; values are written by `serde`."""
    return _Builder(document, serde).rows()


class _Builder:
    def __init__(self, document: Document, serde: SerializerProtocol) -> None:
        self._document = document
        self._serde = serde
        self._states: dict[str | None, dict[str, Any]] = {None: {}}
        self._numbers: dict[str | None, int] = {None: -2}  # LangGraph's, -1 for the first input
        self._followed: set[str] = set()  # steps with whose updates one is stored already
        steps = list(document.all_steps())
        self._next = {step.parent: step for step in reversed(steps)}
        self._ends = {document.steps[-1].id, *(one.end for one in document.branches)}
        self._checkpoints: list[tuple[str, str | None, str, bytes, bytes]] = []
        self._writes: list[tuple[str, str, int, str, str, bytes]] = []

    def rows(self) -> Rows:
        document = self._document
        for step in document.all_steps():
            self._add(step)
        messages = document.messages
        prompts = sum(isinstance(message, HumanMessage) for message in messages)
        created = document.created.isoformat(timespec="microseconds")
        head = document.steps[-1].id
        return Rows(
            self._checkpoints,
            self._writes,
            [
                Branch(
                    one.end,
                    one.created,
                    one.first_turn,
                    one.turns,
                    one.prompt,
                    one.why,
                    head if one.is_undone else None,
                    one.stops,
                )
                for one in document.branches
            ],
            (document.title, created, len(messages), prompts, document.model, document.parent),
            document.bases,
        )

    def _add(self, step: Step) -> None:
        state = {**self._states[step.parent], **step.state}
        number = self._numbers[step.parent] + 1
        self._states[step.id], self._numbers[step.id] = state, number
        values: dict[str, Any] = dict(state)
        whole = self._update(step)
        if whole is not None:
            values["messages"] = whole
        if step.is_start and step.id not in self._ends:  # at an end it would be a turn to run
            values["__start__"] = {"messages": self._prompt(step)}
        if step.asks and step.id not in self._ends:
            values["branch:to:agent"] = None
        version = f"{number + 2:032}.{0:016}"
        checkpoint = {
            "v": 4,
            "id": step.id,
            "ts": step.time.isoformat(),
            "channel_values": values,
            "channel_versions": dict.fromkeys([*values, "messages"], version),
            "versions_seen": {},
            "updated_channels": None,
        }
        source = "input" if step.is_start else "loop"
        metadata: Mapping[str, Any] = {"source": source, "step": number, "parents": {}}
        kind, blob = self._serde.dumps_typed(checkpoint)
        stored = json.dumps(metadata).encode()
        self._checkpoints.append((step.id, step.parent, kind, blob, stored))

    def _update(self, step: Step) -> list[AnyMessage] | None:
        """Store what the step adds with the one before; the whole list where that cannot be."""
        if step.parent is None:
            return list(step.added) or None
        is_first = step.parent not in self._followed
        self._followed.add(step.parent)
        if step.like is not None:  # the update of its sister is its own
            return None
        if not is_first:
            return self._document.messages_at(step.id)
        if step.keep is not None:
            self._write(step.parent, Overwrite(self._document.messages_at(step.id)))
        elif step.added:
            self._write(step.parent, list(step.added))
        return None

    def _write(self, checkpoint_id: str, update: Any) -> None:
        task = str(uuid.uuid5(uuid.NAMESPACE_OID, checkpoint_id))
        kind, blob = self._serde.dumps_typed(update)
        self._writes.append((checkpoint_id, task, 0, "messages", kind, blob))

    def _prompt(self, step: Step) -> list[AnyMessage]:
        """What came in at the start of a turn: the prompts of the step that follows it."""
        after = self._next.get(step.id)
        return [m for m in after.added if isinstance(m, HumanMessage)] if after else []
