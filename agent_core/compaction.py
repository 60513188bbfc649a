"""What a person may do to the view between two turns; each gives an update of the state's values.

It is applied with `graph.aupdate_state(config, update, as_node="agent")`. All but `purge` are marks
and can be taken back. To compact now is `Maintainer.maintain(..., by_hand=True)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import HumanMessage, RemoveMessage, ToolMessage

from agent_core.maintain import next_step
from agent_core.ports import Tool
from agent_core.prompt import Composer
from agent_core.turn import handles_of
from agent_core.view import Marks, render


@dataclass(frozen=True, slots=True)
class Preview:
    """What compacting now would do; `before` and `after` are tokens of the messages.

    `stubs` are the handles of the results that would be shortened, `turns` would be folded.
    """

    stubs: tuple[str, ...]
    turns: int
    before: int
    after: int

    @property
    def saved(self) -> int:
        return max(self.before - self.after, 0)


def preview(values: Mapping[str, Any], tools: Sequence[Tool], composer: Composer) -> Preview:
    """What the next step would do to the state `values`; a summary is not in it."""
    step = next_step(values, tools, composer)
    now = render(values["messages"], composer.marks(values), composer.limits)
    then = render(values["messages"], step.marks, composer.limits)
    handles = {m.id: m.additional_kwargs.get("handle") or m.id for m in values["messages"]}
    shown = {m.id for m in then.messages}
    new = [i for i, kind in then.kinds.items() if kind == "stub" and now.kinds.get(i) != "stub"]
    stubs = tuple(str(handles[i]) for i in new if i in shown)
    return Preview(stubs, step.turns, step.before, step.after)


def undo(values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Give back the marks before the last compaction, once; None where there was none.

    The next turn compacts anew if the view is then over the high-water mark.
    """
    former = values.get("former")
    return {**former, "pinned": list(values.get("pinned", ())), "former": {}} if former else None


def pin(values: Mapping[str, Any], handle: str) -> dict[str, Any] | None:
    """Keep the result `handle` whole from now on; None where there is no such result."""
    pinned = list(values.get("pinned", ()))
    if handle not in handles_of(values["messages"]):
        return None
    return {"pinned": [*pinned, handle] if handle not in pinned else pinned}


def unpin(values: Mapping[str, Any], handle: str) -> dict[str, Any] | None:
    """Let the result `handle` be shortened again; None where it was not pinned."""
    pinned = list(values.get("pinned", ()))
    return {"pinned": [h for h in pinned if h != handle]} if handle in pinned else None


def with_summary(values: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Take `text` for the summary of the folded turns; the former one can be had back."""
    return {"summary": text.strip(), "former": Marks.of(values).all()}


@dataclass(frozen=True, slots=True)
class Purge:
    """What is removed for good with `update`: how many messages, turns and results."""

    update: dict[str, Any]
    messages: int
    turns: int
    results: int


def purge(values: Mapping[str, Any]) -> Purge | None:
    """Remove the messages behind the summary from the state; None where nothing is folded.

    Summary and facts stay. There is no way back: `undo` has nothing to give after it.
    """
    messages, upto = values["messages"], values.get("summary_upto", "")
    end = next((i for i, m in enumerate(messages) if m.id == upto), -1) + 1 if upto else 0
    if not end:
        return None
    gone = messages[:end]
    kept = set(handles_of(messages)) - set(handles_of(gone))
    update = {
        "messages": [RemoveMessage(id=m.id) for m in gone],
        "summary_upto": "",
        "pinned": [h for h in values.get("pinned", ()) if h in kept],
        "former": {},
    }
    turns = sum(isinstance(m, HumanMessage) for m in gone)
    return Purge(update, end, turns, sum(isinstance(m, ToolMessage) for m in gone))
