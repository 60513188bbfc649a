"""A thread as a value: every checkpoint at which something changed, on every course of it.

A step holds what it adds to the one before: messages, and fields of the state. A step that starts a
turn says so. Where a thread was turned back it stands on a copy of an earlier step, which has the
messages of that one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage

from agent_core.sent import SENT
from local_agent.memory.chain import time_of


@dataclass(frozen=True, slots=True)
class Step:
    """A checkpoint. `parent` is the id of the step before it, None for the first of a thread.

    `is_start`: a turn begins with it; `asks`: the model is asked next, for what the following one
    has.

    Its messages are those of the parent, of which the first `keep` stay (None: all), and `added`;
    or, with `like`, those of that step, which has the same parent. `state` are the fields of the
    state that are other than at the parent.
    """

    id: str
    parent: str | None
    is_start: bool = False
    asks: bool = False
    keep: int | None = None
    added: tuple[AnyMessage, ...] = ()
    like: str | None = None
    state: Mapping[str, Any] = field(default_factory=dict)

    @property
    def time(self) -> datetime:
        """When it was made, in UTC."""
        return time_of(self.id)

    @property
    def is_empty(self) -> bool:
        """Whether nothing changed at it."""
        changed = self.added or self.state or self.is_start or self.asks
        return not changed and self.keep is None and self.like is None


@dataclass(frozen=True, slots=True)
class Course:
    """A course that was left, with those of its steps that no course before it has.

    `end` is the id of its last step; the other fields are those of a branch in the database.
    `is_undone`: it was left for where the thread stands now, so that a redo brings it back.
    """

    end: str
    steps: tuple[Step, ...]
    created: datetime
    first_turn: int
    turns: int
    prompt: str
    why: str
    is_undone: bool = False
    stops: tuple[int, ...] = ()


def basis_keys(steps: Iterable[Step]) -> set[str]:
    """The keys of what the requests for the steps' replies were made of."""
    facts = (m.response_metadata.get(SENT) for step in steps for m in step.added)
    return {str(one["basis"]) for one in facts if isinstance(one, Mapping) and "basis" in one}


@dataclass(frozen=True, slots=True)
class Document:
    """A thread: it stands at the last of `steps`. Times are instants in UTC.

    `is_open`: its last turn is not finished. `left_out` counts turns before the first step that are
    not part of the document. `bases` is what requests were made of, by the keys that replies have.
    `damage` says what is wrong with the thread where it was read, empty where nothing is.
    """

    name: str
    title: str
    created: datetime
    steps: tuple[Step, ...]
    branches: tuple[Course, ...] = ()
    model: str = ""
    parent: str | None = None
    is_open: bool = False
    left_out: int = 0
    bases: Mapping[str, str] = field(default_factory=dict)
    damage: str = ""

    @property
    def messages(self) -> list[AnyMessage]:
        """The messages where the thread stands, oldest first."""
        return self.messages_at(self.steps[-1].id) if self.steps else []

    @property
    def state(self) -> dict[str, Any]:
        """The fields of the state where the thread stands."""
        return {key: value for step in self.steps for key, value in step.state.items()}

    @property
    def turns(self) -> int:
        """How many prompts the thread has where it stands."""
        return sum(isinstance(message, HumanMessage) for message in self.messages)

    def all_steps(self) -> Iterator[Step]:
        """Those of every course; each comes behind the one that it follows."""
        yield from self.steps
        for course in self.branches:
            yield from course.steps

    def messages_at(self, step_id: str) -> list[AnyMessage]:
        """The messages at a step, oldest first."""
        by_id = {step.id: step for step in self.all_steps()}
        way: list[Step] = []
        at: str | None = step_id
        while at is not None:
            way.append(by_id[at])
            at = way[-1].like or way[-1].parent
        messages: list[AnyMessage] = []
        for step in reversed(way):
            if step.keep is not None:
                del messages[step.keep :]
            messages.extend(step.added)
        return messages
