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
LEAST_GAIN = 0.1  # of the room; a step for less would be followed by the next at once


@dataclass(frozen=True, slots=True)
class Step:
    """What a step would come to, in tokens of the messages: `before` it and `after` it.

    `marks` are those after it, without a summary; `folded` is what they fold.
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
        marks, folded = fold_before(messages, marks, prompt_id, facts_chars(room))
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
        `say` is told when the model is asked. Without a usable summary nothing changes; the next
        step then folds without one, and so does this one where it is needed or done `by_hand`.
        """
        composer = self.composer
        marks, failed = composer.marks(values), values.get("unsummarised", "")
        step = next_step(values, tools, composer)
        if step.before - step.after < step.room * LEAST_GAIN and not by_hand:
            return Outcome({})  # where it does not fit, `fit` cuts what is in the way
        shown, room = composer.measure(values, tools)
        new, usage = step.marks, tuple[UsageMetadata, ...]()
        if step.folded and composer.limits.summary and (by_hand or not failed):
            say(f"Summarising {_turns(step.turns)}, so that the prompt stays short.")
            chars = summary_tokens(composer, step.room) * CHARS_A_TOKEN
            asked = await self.summariser.summarise(
                values, step.folded, chars=chars, thread=thread, tools=before
            )
            usage = tuple(asked.usage)
            if not asked.text and shown <= room and not by_hand:
                notice = "The model's summary could not be used; nothing was changed."
                return Outcome({"unsummarised": values["messages"][-1].id}, notice, usage)
            if asked.text:
                new = _with_summary(step, marks, asked.text)
        update = new.changes(marks)
        if not update:
            return Outcome({}, "", usage)
        update |= {"lookup": True, "former": marks.all()}
        if failed:
            update["unsummarised"] = ""
        return Outcome(update, _notice(step, bool(new.summary != marks.summary)), usage)


def _with_summary(step: Step, before: Marks, summary: str) -> Marks:
    """The marks of `step` with `summary`, and the facts that it lost of what it replaces."""
    old = AIMessage(before.summary)
    chars = facts_chars(step.room)
    facts = surviving([old, *step.folded], list(before.facts), summary, chars)
    return replace(step.marks, summary=summary, facts=facts)


def _notice(step: Step, is_summarised: bool) -> str:
    if not step.folded:
        return ""
    how = "summarised" if is_summarised else "left out of the prompt"
    which = _turns(step.turns)
    verb = "is" if step.turns == 1 else "are"
    return f"{which[0].upper()}{which[1:]} {verb} now {how}; all of it can still be looked up."


def _turns(count: int) -> str:
    return "the oldest turn" if count == 1 else f"the {count} oldest turns"
