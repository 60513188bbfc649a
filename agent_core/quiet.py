"""Turns that need no tool: their first reply, and when it says that one was needed after all.

A small model that sees tools calls one at "Hello!". So where the router says that none is needed,
the prompt keeps its tools, that it begins as before, but a line behind the newest message says so,
and no call is asked for. A reply that calls all the same, or says that it cannot, is thrown away,
and the turn goes on as any other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from langchain_core.messages import AIMessage

from agent_core.hear import Hearer, repaired
from agent_core.reply import Delta, emit, emit_delta, emit_text, emit_usage
from agent_core.steer import Steering
from agent_core.turn import answer_of
from context import text_of

OPENING = 200  # characters of a reply in which it says that it cannot, if it does

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
    r"|\b(?:let me|I(?:['’]ll| will)) (?:just |now |quickly )?(?:check|look (?:that|it) up"
    r"|search|fetch|retrieve)"
    r"|\bich (?:kann|habe) (?:leider )?(?:nicht|kein\w*)[^.!?\n]{0,80}?(?:zugriff|zugreifen"
    r"|abrufen|nachsehen|echtzeit)"
    r"|\bje (?:ne peux pas|n['’]ai pas)[^.!?\n]{0,80}?(?:acc[eè]s|acc[eé]der|temps r[eé]el)"
    r"|\bno (?:puedo|tengo)[^.!?\n]{0,80}?(?:acceso|acceder|tiempo real)"
    r"|(?:无法|不能|没有)(?:直接)?(?:访问|获取|查询|实时))",
    re.I,
)


def declines(text: str) -> bool:
    """Whether a reply begins with saying that it cannot, or will look something up first."""
    return _CANNOT.search(text[: 2 * OPENING]) is not None


class Opening:
    """Holds back the beginning of a reply until it is seen that it does not decline."""

    def __init__(self, tell: Delta) -> None:
        self._tell = tell
        self._held: str | None = ""

    def __call__(self, kind: Literal["text", "thinking"], text: str) -> None:
        """Take a piece; `tell` gets it once it is sure to be part of the answer."""
        if kind != "text" or self._held is None:
            self._tell(kind, text)
            return
        self._held += text
        if len(self._held) >= OPENING and not declines(self._held):
            self.release()

    def release(self) -> None:
        """Give out what was held back; nothing is held from then on."""
        held, self._held = self._held, None
        if held:
            self._tell("text", held)


async def answered_quietly(
    values: Mapping[str, Any], thread: str, steering: Steering, hearer: Hearer
) -> tuple[AIMessage | None, dict[str, Any]]:
    """The answer of a turn that needs no tool, and what goes into the state `values` with it.

    None: the turn goes on with tools, because the reply called one, said that it cannot do without,
    or was empty. Where it is sure that none is needed, a call is met by one more request first,
    without any tool.
    """
    opening, update, is_sure = Opening(emit_delta), dict[str, Any](), values["quiet"] == "sure"
    offered, called = steering.tools_of(values), list[str]()
    for tools in (offered, []) if is_sure and offered else (offered,):
        now = {**values, **update}
        reply, more = await hearer.asker.reply(now, tools, last=True, thread=thread, tell=opening)
        update |= more
        reply.additional_kwargs["route"] = values.get("route", "")
        known, messages = steering.known(offered, now), values["messages"]
        heard, unshown = repaired(reply, hearer.repair, known, messages, last=False)
        text, has_calls = text_of(heard.content), heard.tool_calls or heard.invalid_tool_calls
        if text.strip() and not has_calls and (is_sure or not declines(text)):
            opening.release()
            emit_text(unshown)
            return answer_of(heard), update
        called += [str(call["name"]) for call in (*heard.tool_calls, *heard.invalid_tool_calls)]
    more, usage = await steering.not_quiet({**values, **update}, called)
    if usage:
        hearer.asker.ledger.side_call("router")
    emit_usage(usage)
    update |= more
    emit(event="route", name=update["route"])
    return None, update
