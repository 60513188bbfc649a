"""Replies that are to be an answer in words, not a call.

Where `tool_choice` is "none" a small model calls all the same, in its text, and what is left of the
reply is nothing. So it is asked with the prompt as it is, of which nothing is read anew, and where
no words come of that once more without any tool in the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.messages import AIMessage

from agent_core.hear import Hearer, repaired
from agent_core.reply import Delta, emit_delta, emit_text
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

OPENING = 200  # characters of a reply in which it says that it cannot, or what it does next

_CANNOT = re.compile(
    r"(?:\bI(?: am|['’]m)? (?:currently |still |just |only )?(?:sorry|unable|not able|afraid"
    r"|cannot|can['’]?t"
    r"|can not|do(?:n['’]t| not) (?:currently |yet |actually )?(?:have|know)|lack|have no)"
    r"[^.!?\n]{0,120}?\b(?:access|real[- ]?time|current|live|up[- ]to[- ]date|brows|internet"
    r"|search|look(?:ing)? up"
    r"|check|retriev|view|see your|read your|open|list|send|create|delete|fetch|tool|function"
    r"|perform|execut|run"
    r"|provide (?:the |you )?(?:current|live|real))"
    r"|\bas an? (?:AI|language model|text-based)\b[^.!?\n]{0,160}?\b(?:can['’]?t|cannot|unable"
    r"|not able|don['’]t)\b"
    r"|\bich (?:kann|habe) (?:leider )?(?:nicht|kein\w*)[^.!?\n]{0,80}?(?:zugriff|zugreifen"
    r"|abrufen|nachsehen|echtzeit)"
    r"|\bje (?:ne peux pas|n['’]ai pas)[^.!?\n]{0,80}?(?:acc[eè]s|acc[eé]der|temps r[eé]el)"
    r"|\bno (?:puedo|tengo)[^.!?\n]{0,80}?(?:acceso|acceder|tiempo real)"
    r"|(?:无法|不能|没有)(?:直接)?(?:访问|获取|查询|实时))",
    re.I,
)
_LOOKS = re.compile(
    r"\b(?:let me|I(?:['’]ll| will)) (?:just |now |quickly )?(?:check|look (?:that|it) up"
    r"|search|fetch|retrieve)",
    re.I,
)
_GOES_ON = re.compile(
    r"\b(?:let me|I(?:['’]ll| will|['’]m going to| am going to| need to| have to|['’]d need to"
    r"| should)|I(?:['’]m| am) now|next,? I|now,? I) "
    r"(?:(?:just|now|also|first|then|next|quickly|try to|need to|will|have to|have a) )*"
    r"(?:add|ask|attempt|book|call|cancel|change|check|commit|convert|create|delete|do|execut"
    r"|fetch|find|get|list|look|make|move|open|place|proceed|query|read|retriev|run|save|search"
    r"|see|send|set|stage|switch|try|turn|update|us(?:e|ing)|verify|write)"
    r"|\b(?:ich (?:werde|muss|schaue|suche|lese|prüfe|rufe)|lass mich) (?!\w* ?nicht\b)",
    re.I,
)


def declines(text: str) -> bool:
    """Whether a reply begins with saying that it cannot, or will look something up first."""
    opening = text[: 2 * OPENING]
    return bool(_CANNOT.search(opening) or _LOOKS.search(opening))


def goes_on(text: str) -> bool:
    """Whether a reply begins with saying what it does next, which takes another call."""
    return _GOES_ON.search(text[: 2 * OPENING]) is not None


class Opening:
    """Holds back the beginning of a reply until it is seen that it is no `refused` one."""

    def __init__(self, tell: Delta, refused: Callable[[str], bool]) -> None:
        self._tell, self._refused = tell, refused
        self._held: str | None = ""

    def __call__(self, kind: Literal["text", "thinking"], text: str) -> None:
        """Take a piece; `tell` gets it once it is sure to be part of the answer."""
        if kind != "text" or self._held is None:
            self._tell(kind, text)
            return
        self._held += text
        if len(self._held) >= OPENING and not self._refused(self._held):
            self.release()

    def release(self) -> None:
        """Give out what was held back; nothing is held from then on."""
        held, self._held = self._held, None
        if held:
            self._tell("text", held)


@dataclass(slots=True)
class Spoken:
    """What came of asking for words: the last `reply`, whether it `is_answer`, what goes into the
    state with it, and the `calls` that came instead."""

    reply: AIMessage
    is_answer: bool = False
    update: dict[str, Any] = field(default_factory=dict)
    calls: list[Mapping[str, Any]] = field(default_factory=list)


async def spoken(
    values: Mapping[str, Any],
    thread: str,
    steering: Steering,
    hearer: Hearer,
    *,
    refused: Callable[[str], bool] | None = None,
    bare: bool = True,
    known_calls: Collection[str] | None = None,
) -> Spoken:
    """Ask for an answer to the state `values`, with `bare` the second time without tools.

    A text that is `refused` is no answer, nor is one with a call in it. Without `refused` any text
    is, and calls in it are left out: nothing comes after it. With `known_calls` (as of
    `agent_core.turn.call_key`) there is no second time where another call came.
    """
    offered = steering.tools_of(values)
    found = Spoken(AIMessage(""))
    for tools in (offered, []) if bare and offered else (offered,):
        now = {**values, **found.update}
        opening = Opening(emit_delta, refused or (lambda _: False))
        reply, more = await hearer.asker.reply(
            now, tools, last=True, thread=thread, tell=opening if refused else emit_delta
        )
        found.update |= more
        reply.additional_kwargs["route"] = values.get("route", "")
        known = steering.known(offered, now)
        heard, unshown = repaired(reply, hearer.repair, known, values["messages"], last=not refused)
        calls = [] if not refused else [*heard.tool_calls, *heard.invalid_tool_calls]
        found.reply, text = heard, text_of(heard.content)
        found.is_answer = not is_blank(text) and not calls and not (refused and refused(text))
        if found.is_answer:
            opening.release()
            emit_text(unshown)
            break
        found.calls += calls
        if known_calls is not None and any(_new_key(call) not in known_calls for call in calls):
            break
    return found


async def answered_in_words(
    values: Mapping[str, Any],
    thread: str,
    steering: Steering,
    hearer: Hearer,
    why: str,
    reason: Literal["again", "denied", ""],
) -> tuple[AIMessage | None, dict[str, Any]]:
    """The answer to the state `values` that ends its turn, and what goes into the state with it.

    With `why` (see `agent_core.turn`) it is marked so and has to be the end, whatever it is. Else,
    for a `reason` of `agent_core.repeats`, None where there were no words, or words of what it does
    next: the turn goes on, unless all that came was a call for the third time.
    """
    turn = current_turn(values["messages"])
    found = await spoken(
        values,
        thread,
        steering,
        hearer,
        refused=None if why else goes_on,
        known_calls=None if why or reason == "denied" else keys_of(turn),
    )
    if found.is_answer and not why:
        return answer_of(found.reply), found.update
    if is_blank(text_of(found.reply.content)) and is_looping([*turn, *_as_replies(found.calls)]):
        why = why or "loop"
    return last_answer(found.reply, why, turn) if why else None, found.update


def _new_key(call: Mapping[str, Any]) -> str:
    """Of a broken call: empty, as of none that was made."""
    return "" if call.get("type") == "invalid_tool_call" else call_key(call)


def _as_replies(calls: Sequence[Mapping[str, Any]]) -> list[AIMessage]:
    whole = [call for call in calls if call.get("type") != "invalid_tool_call"]
    return [AIMessage("", tool_calls=[dict(call)]) for call in whole]
