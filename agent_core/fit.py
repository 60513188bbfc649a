"""Makes a view fit: new marks, each of them final, when the messages are longer than their room.

It happens when a result, a prompt or a smaller window does not wait for `maintain`. The steps, each
taken only while it is still too long, and each down to the low-water mark so that the next calls of
the turn have room again: the oldest results as stubs, also those of this turn; the oldest turns
folded without a summary, their facts kept by rule; what is longest cut.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log2

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from agent_core.cut import clipped, level
from agent_core.kept_facts import surviving
from agent_core.limits import Limits
from agent_core.view import (
    BLOCK,
    LEFT_OUT,
    MADE_AGAIN,
    REPEATED,
    Marks,
    View,
    last_prompt,
    render,
    shown_result,
    since,
    stub_end,
)
from context import PromptTooLong, Window, count_tokens, text_of, weigh

FALL, LOWEST = 0.05, 0.65  # of the ceiling: by each doubling of the steps, down to
FACTS_SHARE = 16  # the list of facts has a sixteenth of the room
CHARS_A_TOKEN = 3  # of a summary and of facts: names and numbers are denser than prose
_LEAST = 16  # tokens that a cut message keeps
_RESULT_LEAST = 0.1  # of the room that a result keeps when it is cut below the ceiling
_TRIES = 8  # of a cut, each a fifth shorter, as what is cut may be denser than the whole


def ceiling(room: int, steps: int) -> int:
    """The tokens that a view may have of `room` before it is made shorter for the next time.

    It falls with the log of the `steps` that were taken: turns differ, so under a level ceiling
    some late prompt would be the largest of all by chance, and under this one it is an early one.
    """
    return int(room * max(1 - FALL * log2(1 + steps), LOWEST))


@dataclass(frozen=True, slots=True)
class Fitted:
    """A view of `tokens` tokens and its marks; `folded` turns were folded without a summary."""

    marks: Marks
    view: View
    tokens: int
    folded: int = 0


def fit(
    messages: Sequence[AnyMessage], marks: Marks, limits: Limits, window: Window, room: int
) -> Fitted:
    """The view of the stored `messages` in at most `room` tokens. Raises `PromptTooLong`.

    Older results and turns give way above the `ceiling` already; what is cut is only what would
    not fit the room.
    """
    work = _Work(messages, limits, window, room)
    tokens = work.tokens(marks)
    top = ceiling(room, marks.steps) if limits.strategy == "compact" else room
    if tokens <= top:
        return Fitted(marks, work.view(marks), tokens)
    if limits.strategy != "compact" and (newest := last_prompt(messages)):
        return fit(messages[newest:], marks, limits, window, room)
    before, folded = marks, 0
    marks = work.stub_older(marks, tokens - int(top * limits.low_water))
    if limits.strategy == "compact" and work.tokens(marks) > top * limits.high_water:
        marks, folded = work.fold_older(marks)
    marks = marks.after(before)
    if limits.strategy == "compact" and work.tokens(marks) > top:
        marks = work.cut_results(marks, top)
    if work.tokens(marks) > room:
        marks = work.cut_longest(work.leave_out_calls(marks))
    tokens = work.tokens(marks)
    if tokens > room:
        raise PromptTooLong(tokens, room)
    return Fitted(marks, work.view(marks), tokens, folded)


def fold_point(view: View, window: Window, target: int, block: int) -> str:
    """The id of the first prompt to keep so that block and kept turns have at most `target` tokens.

    The last turn is always kept. Empty where nothing would be folded.
    """
    point, total = "", float(block)
    for message in reversed(view.messages):
        total += weigh(message) * window.scale
        if isinstance(message, HumanMessage):
            if point and total > target:
                return point
            point = message.id or ""
    return ""


def fold_before(
    messages: Sequence[AnyMessage], marks: Marks, prompt_id: str
) -> tuple[Marks, list[AnyMessage]]:
    """The marks with all before the prompt folded, and what was folded; facts are as before."""
    kept = since(messages, marks.summary_upto)
    end = next(i for i, m in enumerate(kept) if m.id == prompt_id)
    folded = list(kept[:end])
    return without_lost(replace(marks, summary_upto=folded[-1].id or ""), kept[end:]), folded


def without_lost(marks: Marks, kept: Sequence[AnyMessage]) -> Marks:
    """The marks without those of messages that are not shown any more."""
    ids = {m.id for m in kept}
    cuts = {k: v for k, v in marks.cuts.items() if k == BLOCK or k.removesuffix("#") in ids}
    return replace(
        marks, cuts=cuts, nudged=[n for n in marks.nudged if n.removesuffix(MADE_AGAIN) in ids]
    )


def facts_chars(room: int) -> int:
    """How long the list of facts may be, in characters, where messages have `room` tokens."""
    return room // FACTS_SHARE * CHARS_A_TOKEN


@dataclass(slots=True)
class _Work:
    """What a view is made from; the last view is remembered with its tokens."""

    messages: Sequence[AnyMessage]
    limits: Limits
    window: Window
    room: int
    _last: tuple[Marks, View, int] | None = None

    def view(self, marks: Marks) -> View:
        return self._made(marks)[1]

    def tokens(self, marks: Marks) -> int:
        return self._made(marks)[2]

    def _made(self, marks: Marks) -> tuple[Marks, View, int]:
        last = self._last
        # What is shown does not depend on how many steps were taken.
        if last is None or replace(last[0], steps=marks.steps) != marks:
            view = render(self.messages, marks, self.limits)
            last = self._last = (marks, view, self.window.tokens(view.messages))
        return last

    def stub_older(self, marks: Marks, over: int) -> Marks:
        """The oldest results as stubs until `over` tokens are saved; those just come stay."""
        kept = since(self.messages, marks.summary_upto)
        last_group = max(
            (i for i, m in enumerate(kept) if isinstance(m, AIMessage) and m.tool_calls), default=0
        )
        end = last_group if last_group > last_prompt(kept) else len(kept)
        upto = ""
        for at in range(stub_end(kept, marks, self.limits), end):
            message = kept[at]
            if over <= 0:
                break
            if isinstance(message, ToolMessage):
                before, after = (
                    weigh(shown_result(message, is_old, marks, self.limits, {}))
                    for is_old in (False, True)
                )
                over -= int((before - after) * self.window.scale)
                upto = message.id or upto
        return replace(marks, stubbed_upto=upto) if upto else marks

    def fold_older(self, marks: Marks) -> tuple[Marks, int]:
        view = self.view(marks)
        chars = facts_chars(self.room)
        block = int(count_tokens(marks.summary) * self.window.scale) + chars // CHARS_A_TOKEN
        target = int(self.room * self.limits.low_water)
        prompt_id = fold_point(view, self.window, target, block)
        if not prompt_id:
            return marks, 0
        marks, folded = fold_before(self.messages, marks, prompt_id)
        marks = replace(marks, facts=surviving(folded, marks.facts, marks.summary, chars))
        return marks, sum(isinstance(m, HumanMessage) for m in folded)

    # -- what is left when nothing older is to be had ---------------------------------------------

    def leave_out_calls(self, marks: Marks) -> Marks:
        """Calls of this turn left out with their results, oldest first, while cutting all of what
        is long would not be enough; at last most of the calls of the newest message."""
        kept = since(self.messages, marks.summary_upto)
        groups = [
            m
            for m in kept[last_prompt(kept) :]
            if isinstance(m, AIMessage)
            and m.tool_calls
            and marks.cuts.get(m.id or "") not in (LEFT_OUT, REPEATED)
        ]
        while groups and self._least(marks) > self.room:
            newest = groups[0]
            if len(groups) > 1:
                marks = _with_cut(marks, groups.pop(0).id or "", LEFT_OUT)
                continue
            key = f"{newest.id}#"
            calls = marks.cuts.get(key, len(newest.tool_calls))
            if calls <= 1:
                break
            marks = _with_cut(marks, key, calls // 2)
        return marks

    def _least(self, marks: Marks) -> int:
        """The tokens of the view with all in it cut to the least."""
        view = self.view(marks)
        return self.tokens(self._cut_to(marks, view, self._sizes(view), _LEAST))

    def _cut_to(self, marks: Marks, view: View, sizes: Mapping[str, float], most: float) -> Marks:
        """The marks with all of `sizes` that is more than `most` tokens cut to that."""
        stored = {m.id or "": m for m in since(self.messages, marks.summary_upto)}
        cuts = dict(marks.cuts)
        for key, size in sizes.items():
            if size > most and (key == BLOCK or key in stored):
                whole = view.block if key == BLOCK else "".join(_texts(stored[key]))
                chars = max(_chars_for(whole, most, self.window.scale), 1)
                cuts[key] = min(chars, cuts.get(key, chars))
        return replace(marks, cuts=cuts)

    def _sizes(self, view: View) -> dict[str, float]:
        """The tokens of what can be cut, by message id: texts and arguments of calls."""
        block = count_tokens(view.block)
        sizes = {BLOCK: block} if block else {}
        for at, message in enumerate(view.messages):
            if view.kinds.get(message.id or "") != "stub":
                size = sum(map(count_tokens, _texts(message)))
                sizes[message.id or ""] = size if at else size - block  # the block is in the first
        return {key: size * self.window.scale for key, size in sizes.items()}

    def cut_longest(self, marks: Marks) -> Marks:
        """What is longest cut, all to the same length, so that the whole fits."""
        return self._cut_all(marks, self._sizes(self.view(marks)), self.room, _LEAST)

    def cut_results(self, marks: Marks, top: int) -> Marks:
        """The newest results cut to the same length, so that the whole has at most `top` tokens;
        each keeps a tenth of the room at least."""
        view = self.view(marks)
        newest = {m.id for m in view.messages[last_prompt(view.messages) :] if m.type == "tool"}
        sizes = {key: size for key, size in self._sizes(view).items() if key in newest}
        return self._cut_all(marks, sizes, top, self.room * _RESULT_LEAST)

    def _cut_all(self, marks: Marks, sizes: Mapping[str, float], most: int, least: float) -> Marks:
        """All of `sizes` cut to one length, `least` or more, so that the view has `most` tokens."""
        view = self.view(marks)
        fixed = self.window.tokens(view.messages) - sum(sizes.values())
        cap = level(sizes.values(), most - fixed)
        for _ in range(_TRIES):
            shorter = self._cut_to(marks, view, sizes, max(cap, least))
            if cap <= least or self.tokens(shorter) <= most:
                return shorter
            cap *= 0.8
        return self._cut_to(marks, view, sizes, least)


def shown_chars(text: str, tokens: int | None, scale: float) -> int | None:
    """In how many characters `text` is shown to take at most about `tokens`; None: it is whole."""
    if tokens is None or count_tokens(text) * scale <= tokens:
        return None
    chars = _chars_for(text, tokens, scale)
    for _ in range(_TRIES):
        if count_tokens(clipped(text, chars)) * scale <= tokens * 1.05:
            break
        chars = chars * 4 // 5
    return max(chars, 1)


def _chars_for(text: str, tokens: float, scale: float) -> int:
    """How many characters of `text` take about `tokens`, by its own average."""
    per_char = max(count_tokens(text) * scale / max(len(text), 1), 0.01)
    return int(tokens / per_char)


def _with_cut(marks: Marks, key: str, chars: int) -> Marks:
    cuts: Mapping[str, int] = {**marks.cuts, key: chars}
    return replace(marks, cuts=cuts)


def _texts(message: AnyMessage) -> Iterator[str]:
    yield text_of(message.content)
    for call in getattr(message, "tool_calls", ()):
        yield json.dumps(call["args"], ensure_ascii=False)
