"""Keeps a thread's view small, in steps: results as stubs, then the oldest turns as a summary.

A step is taken when the view passes the high-water mark and goes down to the low-water mark, so
that the prompt stays as it is for many turns. All of it is marks beside the messages: they stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata

from agent_core.fit import CHARS_A_TOKEN, ceiling, facts_chars, fold_before, fold_point
from agent_core.kept_facts import surviving
from agent_core.ports import Tool
from agent_core.prompt import Composer
from agent_core.summary import Summariser
from agent_core.view import Marks, last_prompt, render, since
from context import old_end

SUMMARY_TOKENS = 400
SUMMARY_SHARE = 8  # a summary has at most an eighth of the room
REST = 3  # turns from one summary to the next at least
LEAST_GAIN = 0.1  # of the room; a step for less would be followed by the next at once


@dataclass(frozen=True, slots=True)
class Step:
    """What a step would come to, in tokens of the messages: `before` it and `after` it.

    `marks` are those after it, without a summary of what is `folded`, or its facts.
    """

    marks: Marks
    before: int
    after: int
    room: int
    folded: tuple[AnyMessage, ...] = ()

    @property
    def turns(self) -> int:
        """How many turns are folded."""
        return sum(isinstance(m, HumanMessage) for m in self.folded)


def is_due(values: Mapping[str, Any], tools: Sequence[Tool], composer: Composer) -> bool:
    """Whether the view of the state `values` has passed the high-water mark."""
    limits = composer.limits
    if limits.strategy != "compact":
        return False
    tokens, room = composer.measure(values, tools)
    return tokens > ceiling(room, composer.marks(values).steps) * limits.high_water


def next_step(values: Mapping[str, Any], tools: Sequence[Tool], composer: Composer) -> Step:
    """What would become stubs, and which turns would be folded, to reach the low-water mark."""
    limits, window, messages = composer.limits, composer.window, values["messages"]
    old = marks = composer.marks(values)
    before, room = composer.measure({**values, "lookup": True}, tools)
    low = int(ceiling(room, marks.steps) * limits.low_water)
    kept = since(messages, marks.summary_upto)
    if limits.step == "cache" and (end := old_end(kept, limits.keep_turns)):
        marks = replace(marks, compacted_upto=kept[end - 1].id or "")
    after = window.tokens(render(messages, marks, limits).messages)
    if after <= low:
        return Step(marks.after(old), before, after, room)
    block = summary_tokens(composer, room) + facts_chars(room) // CHARS_A_TOKEN
    marks, prompt_id = _fold_point(messages, marks, composer, low, block)
    folded: list[AnyMessage] = []
    if prompt_id:
        marks, folded = fold_before(messages, marks, prompt_id)
    after = window.tokens(render(messages, marks, limits).messages)
    return Step(marks.after(old), before, after, room, tuple(folded))


def _fold_point(
    messages: Sequence[AnyMessage], marks: Marks, composer: Composer, low: int, block: int
) -> tuple[Marks, str]:
    """The id of the first prompt to keep, and the marks with which what is kept has its room.

    The last whole turn, which the newest prompt is likely to be about, is rather kept with its
    results as stubs than folded.
    """
    limits, window = composer.limits, composer.window
    newest = last_prompt(messages)
    point = fold_point(render(messages, marks, limits), window, low, block)
    if point != messages[newest].id:
        return marks, point
    results = (m.id for m in reversed(messages[:newest]) if isinstance(m, ToolMessage))
    with_stubs = replace(marks, stubbed_upto=next(results, None) or "")
    kept = fold_point(render(messages, with_stubs, limits), window, low, block)
    return (marks, point) if kept == point else (with_stubs, kept)


def summary_tokens(composer: Composer, room: int) -> int:
    """How many tokens a summary may have where messages have `room`."""
    return min(composer.limits.summary_tokens or SUMMARY_TOKENS, room // SUMMARY_SHARE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What goes into the state, what the user is told, and what the model calls took."""

    update: dict[str, Any]
    notice: str = ""
    usage: tuple[UsageMetadata, ...] = ()


@dataclass(frozen=True, slots=True)
class Maintainer:
    """Takes the steps, asking the model for a summary where one is wanted."""

    composer: Composer
    summariser: Summariser

    async def maintain(
        self,
        values: Mapping[str, Any],
        tools: Sequence[Tool],
        *,
        thread: str,
        before: Sequence[Tool],
        say: Callable[[str], None],
        by_hand: bool = False,
    ) -> Outcome:
        """Take the next step of the state `values`.

        `before` are the tools of the request before, so that the summary's request begins like it;
        `say` is told when the model is asked. That is so once in `REST` turns: in a small window,
        where each turn takes a step, the steps between fold by rule. An unusable summary changes
        nothing, but where the step is needed now or done `by_hand`: then it folds by rule.
        """
        composer, marks = self.composer, self.composer.marks(values)
        step = next_step(values, tools, composer)
        if step.before - step.after < step.room * LEAST_GAIN and not by_hand:
            return Outcome({})  # where it does not fit, `fit` cuts what is in the way
        if not step.folded:
            return _outcome(step, marks, step.marks)
        if not composer.limits.summary or not (by_hand or _is_rested(values)):
            return _outcome(step, marks, _folded(step, marks, ""))
        say(f"Summarising {_turns(step.turns)}, so that the prompt stays short.")
        chars = summary_tokens(composer, step.room) * CHARS_A_TOKEN
        asked = await self.summariser.summarise(
            values, step.folded, chars=chars, thread=thread, tools=before
        )
        usage, note = tuple(asked.usage), {"summary_asked": values["messages"][-1].id}
        if not (asked.text or by_hand or self._is_over(values, tools)):
            notice = "The model's summary could not be used; nothing was changed."
            return Outcome(note, notice, usage)
        done = _outcome(step, marks, _folded(step, marks, asked.text))
        return replace(done, update=done.update | note, usage=usage)

    def _is_over(self, values: Mapping[str, Any], tools: Sequence[Tool]) -> bool:
        """Whether the view as it is does not fit, so that something must be folded now."""
        tokens, room = self.composer.measure(values, tools)
        return tokens > room


def _is_rested(values: Mapping[str, Any]) -> bool:
    """Whether it is `REST` turns ago that a summary was asked for."""
    asked = values.get("summary_asked", "")
    turns = sum(isinstance(m, HumanMessage) for m in since(values["messages"], asked))
    return not asked or turns >= REST


def _outcome(step: Step, before: Marks, new: Marks) -> Outcome:
    update = new.changes(before)
    if not update:
        return Outcome({})
    notice = _notice(step, is_summarised=new.summary != before.summary)
    return Outcome({**update, "lookup": True, "former": before.all()}, notice)


def _folded(step: Step, before: Marks, summary: str) -> Marks:
    """The marks of `step` with `summary`, if there is one, and the facts that it does not have."""
    folded, new = list(step.folded), summary or before.summary
    if summary:  # it replaces the one before
        folded.insert(0, AIMessage(before.summary))
    facts = surviving(folded, before.facts, new, facts_chars(step.room))
    return replace(step.marks, summary=new, facts=facts)


def _notice(step: Step, *, is_summarised: bool) -> str:
    if not step.folded:
        return ""
    how = "summarised" if is_summarised else "left out of the prompt"
    which = _turns(step.turns)
    verb = "is" if step.turns == 1 else "are"
    return f"{which[0].upper()}{which[1:]} {verb} now {how}; all of it can still be looked up."


def _turns(count: int) -> str:
    return "the oldest turn" if count == 1 else f"the {count} oldest turns"
