"""Looks into a thread: its checkpoints, its state at any of them, what the model was sent there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.types import StateSnapshot

from local_agent.errors import ThreadError
from local_agent.memory.branches import is_named, short_id
from local_agent.memory.chain import Step, time_of
from local_agent.memory.heads import config_of
from local_agent.timeline.course import Timeline
from local_agent.timeline.sent import Sent, sent_for


@dataclass(frozen=True, slots=True)
class Place:
    """A checkpoint as a list shows it. `node` made it, `next` comes after it; empty at an end."""

    checkpoint_id: str
    time: datetime
    step: int
    node: str
    next: tuple[str, ...]
    turn: int

    @property
    def id(self) -> str:
        """The short id that a person types."""
        return short_id(self.checkpoint_id)


@dataclass(frozen=True, slots=True)
class Moment:
    """What a thread knew at a checkpoint.

    `fields` is the state without its messages, `pending` what waited for a yes there. `sent` is
    the request of the next answer of that turn, which was made at `sent_at`; None where none was.
    """

    checkpoint_id: str
    time: datetime
    next: tuple[str, ...]
    fields: Mapping[str, Any]
    messages: Sequence[AnyMessage]
    pending: Sequence[Mapping[str, Any]]
    sent_at: str = ""
    sent: Sent | None = None
    answer: AIMessage | None = None


async def places(timeline: Timeline) -> list[Place]:
    """The checkpoints that led to where the thread stands, newest first."""
    chain, turns = await timeline.chain(), await timeline.turns()
    after = await timeline.memory.heads.following(timeline.thread)
    starts = {turn.checkpoint_start: turn.number for turn in turns}
    found: list[Place] = []
    number = next((turn.number - 1 for turn in turns if turn.checkpoint_start), len(turns))
    for step in chain:
        number = starts.get(step.checkpoint_id, number)
        node = step.source
        if node == "loop":
            node = ", ".join(after.get(step.parent or "", ())) or "loop"
        following = after.get(step.checkpoint_id, ())
        found.append(Place(step.checkpoint_id, step.time, step.step, node, following, number))
    return found[::-1]


async def moment(timeline: Timeline, typed: str) -> Moment:
    """What the thread knew at the checkpoint that `typed` names, on whatever course it lies.

    Raises `ThreadError` where it names none, or several.
    """
    steps = await timeline.memory.heads.steps(timeline.thread)
    if not steps:
        raise ThreadError(f"There is no thread '{timeline.thread}'.", "See: agent threads list")
    found = [one for one in steps.values() if is_named(one.checkpoint_id, typed)]
    if len(found) > 1:
        raise ThreadError(f"{len(found)} checkpoints begin with '{typed}'.", "Type more of it.")
    if not found:
        raise ThreadError(
            f"Thread '{timeline.thread}' has no checkpoint '{typed}'.",
            f"See: agent threads show {timeline.thread} --checkpoints",
        )
    at = found[0].checkpoint_id
    state = await timeline.graph.aget_state(config_of(timeline.thread, at))
    asking = await _asking(timeline, steps, found[0])
    if asking is None:
        return _moment(at, state)
    before = state
    if asking != at:
        before = await timeline.graph.aget_state(config_of(timeline.thread, asking))
    answer = await _answer_at(timeline, asking)
    sent = await sent_for(timeline.memory, before.values, answer)
    return _moment(at, state, asking, sent, answer)


def _moment(
    at: str,
    state: StateSnapshot,
    asking: str = "",
    sent: Sent | None = None,
    answer: AIMessage | None = None,
) -> Moment:
    fields = {name: value for name, value in state.values.items() if name != "messages"}
    messages = state.values.get("messages", [])
    pending = [
        call
        for one in state.interrupts
        if isinstance(one.value, Mapping)
        for call in one.value.get("calls") or ()
    ]
    return Moment(at, time_of(at), state.next, fields, messages, pending, asking, sent, answer)


async def _asking(timeline: Timeline, steps: Mapping[str, Step], start: Step) -> str | None:
    """The checkpoint from `start` on at which the model was asked next, in the same turn."""
    after = await timeline.memory.heads.following(timeline.thread)
    children: dict[str, list[str]] = {}
    for step in steps.values():
        children.setdefault(step.parent or "", []).append(step.checkpoint_id)
    main = {step.checkpoint_id for step in await timeline.chain()}
    at: str | None = start.checkpoint_id
    while at is not None and "agent" not in after.get(at, ()):
        following = [one for one in children.get(at, ()) if steps[one].source != "input"]
        # Of several courses the one that the thread is on, else the one taken last.
        at = max(following, key=lambda one: (one in main, one), default=None)
        if not after.get(start.checkpoint_id):
            return None  # its turn was over
    return at


async def _answer_at(timeline: Timeline, asking: str) -> AIMessage | None:
    """What the model said at the checkpoint."""
    saved = await timeline.memory.saver.aget_tuple(config_of(timeline.thread, asking))
    for _, channel, value in (saved.pending_writes if saved else None) or ():
        if channel == "messages":
            messages = value if isinstance(value, list) else [value]
            return next((one for one in messages if isinstance(one, AIMessage)), None)
    return None
