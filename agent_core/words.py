"""Replies that are to be an answer in words, not a call.

Where `tool_choice` is "none" a small model calls all the same, in its text, and what is left of the
reply is nothing. So it is asked with the prompt as it is, of which nothing is read anew, and where
no words come of that once more without any tool in the prompt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.messages import AIMessage

from agent_core.hear import Hearer, repaired
from agent_core.reply import Delta, emit_delta, emit_text
from agent_core.says import OPENING, goes_on
from agent_core.steer import Steering
from agent_core.turn import (
    answer_of,
    call_key,
    current_turn,
    is_blank,
    is_looping,
    keys_of,
    last_answer,
)
from context import text_of


class Opening:
    """Holds back the beginning of a reply until it is seen that it is no `refused` one.

    `is_out`: some of it was shown.
    """

    def __init__(self, tell: Delta, refused: Callable[[str], bool], chars: float = OPENING) -> None:
        self._tell, self._refused, self._chars = tell, refused, chars
        self._held: str | None = ""
        self.is_out = False

    def __call__(self, kind: Literal["text", "thinking"], text: str) -> None:
        """Take a piece; `tell` gets it once it is sure to be part of the answer."""
        if kind != "text" or self._held is None:
            self._tell(kind, text)
            return
        self._held += text
        if len(self._held) >= self._chars and not self._refused(self._held):
            self.release()

    def release(self) -> None:
        """Give out what was held back; nothing is held from then on."""
        held, self._held = self._held, None
        if held:
            self.is_out = True
            self._tell("text", held)


@dataclass(slots=True)
class Spoken:
    """What came of asking for words: the last `reply`, whether it `is_answer`, what goes into the
    state with it, and the `calls` that came instead."""

    reply: AIMessage
    is_answer: bool = False
    update: dict[str, Any] = field(default_factory=dict)
    calls: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def is_silent(self) -> bool:
        """Whether nothing came at all."""
        return not self.calls and is_blank(text_of(self.reply.content))


@dataclass(frozen=True, slots=True)
class Speaker:
    """Asks for words in the turn of `values`, the state of `thread`.

    refused: which texts are no answer. known: the calls (`agent_core.turn.call_key`) that are left
    out of an answer; any other makes it none. takes_new: where others came nothing more is asked.
    """

    values: Mapping[str, Any]
    thread: str
    steering: Steering
    hearer: Hearer
    refused: Callable[[str], bool]
    known: Collection[str] = ()
    takes_new: bool = False

    async def ask(self, *, bare: bool, chars: float = OPENING, last: bool = False) -> Spoken:
        """Ask with the prompt as it is, and where no answer came and `bare`, without any tool.

        Of the first reply `chars` are held back until it is seen what it is. With `last` nothing
        comes behind it: what there is of text is the answer, and calls are left out of it.
        """
        opening = Opening(emit_delta, self.refused, chars)
        tools = self.steering.tools_of(self.values)
        reply, update = await self.hearer.asker.reply(
            self.values, tools, last=True, thread=self.thread, tell=opening
        )
        now = {**self.values, **update}
        heard, unshown, calls = self._heard(reply, now, last=last)
        found = Spoken(heard, update=update, calls=calls)
        found.is_answer = self._answers(heard, calls, opening.is_out, last=last)
        has_tools = bool(tools) or bool(now.get("lookup"))
        if not found.is_answer and bare and has_tools and not (self.takes_new and self._new(calls)):
            second = await self._without_tools(now, last=last)
            if second is not None:
                found.calls, second.calls = [*calls, *second.calls], [*calls, *second.calls]
                if not is_blank(text_of(second.reply.content)):
                    second.update = update
                    return second
        if found.is_answer or (last and not found.is_silent):
            opening.release()
            emit_text(unshown)
        return found

    async def _without_tools(self, now: Mapping[str, Any], *, last: bool) -> Spoken | None:
        """None where the server has no reply to that."""
        try:
            reply = await self.hearer.asker.bare(self.values, self.thread)
        except Exception:  # noqa: BLE001 - such as one that refuses calls in a history without tools
            return None
        heard, _, calls = self._heard(reply, now, last=last)
        found = Spoken(heard, calls=calls, is_answer=self._answers(heard, calls, False, last=last))
        if found.is_answer or last:
            emit_text(text_of(heard.content))
        return found

    def _heard(
        self, reply: AIMessage, now: Mapping[str, Any], *, last: bool
    ) -> tuple[AIMessage, str, list[Mapping[str, Any]]]:
        reply.additional_kwargs["route"] = self.values.get("route", "")
        known = self.steering.known(self.steering.tools_of(self.values), now)
        repair, messages = self.hearer.repair, self.values["messages"]
        heard, unshown = repaired(reply, repair, known, messages, last=last)
        return heard, unshown, [*heard.tool_calls, *heard.invalid_tool_calls]

    def _answers(
        self, heard: AIMessage, calls: Sequence[Mapping[str, Any]], is_out: bool, *, last: bool
    ) -> bool:
        text = text_of(heard.content)
        if is_blank(text) or (self.refused(text) and not is_out):
            return False
        return not self._new(calls) or (last and is_out)

    def _new(self, calls: Sequence[Mapping[str, Any]]) -> bool:
        return any(_key(call) not in self.known for call in calls)


def _key(call: Mapping[str, Any]) -> str:
    """Of a broken call: empty, as of none that was made."""
    return "" if call.get("type") == "invalid_tool_call" else call_key(call)


async def last_words(
    values: Mapping[str, Any], thread: str, steering: Steering, hearer: Hearer, why: str
) -> tuple[AIMessage, dict[str, Any]]:
    """The last reply of a turn that has to end, marked with `why` (see `agent_core.turn`), and what
    goes into the state `values` with it."""
    speaker = Speaker(values, thread, steering, hearer, goes_on)
    found = await speaker.ask(bare=True, last=True)
    return last_answer(found.reply, why, current_turn(values["messages"])), found.update


async def answered_in_words(
    values: Mapping[str, Any],
    thread: str,
    steering: Steering,
    hearer: Hearer,
    reason: Literal["again", "denied"],
) -> tuple[AIMessage | None, dict[str, Any]]:
    """The answer to the state `values` for a `reason` of `agent_core.repeats`, and what goes into
    the state with it.

    None where there were no words, or words of what it does next: the turn goes on. It ends where
    all that came was the same call again, for the third time, or nothing.
    """
    turn = current_turn(values["messages"])
    known = keys_of(turn)
    speaker = Speaker(values, thread, steering, hearer, goes_on, known, reason == "again")
    found = await speaker.ask(bare=True, chars=math.inf)
    if found.is_answer or found.is_silent:
        return answer_of(found.reply), found.update
    keys = {_key(call) for call in found.calls}
    again = [AIMessage("", tool_calls=[dict(call)]) for call in _first_of_each(found.calls)]
    is_third = reason == "again" and keys <= known and is_looping([*turn, *again])
    if is_third and is_blank(text_of(found.reply.content)):
        return last_answer(found.reply, "loop", turn), found.update
    return None, found.update


def _first_of_each(calls: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return list({_key(call): call for call in calls if _key(call)}.values())
