"""Turns that need no tool: their first reply, and when it says that one was needed after all.

A small model that sees tools calls one at "Hello!". So where the router says that none is needed,
the prompt keeps its tools, that it begins as before, but a line behind the newest message says so,
and no call is asked for. A reply that calls all the same, or says that it cannot, is thrown away,
and the turn goes on as any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage

from agent_core.hear import Hearer
from agent_core.reply import emit, emit_usage
from agent_core.says import declines
from agent_core.steer import Steering
from agent_core.turn import answer_of
from agent_core.words import Speaker


async def answered_quietly(
    values: Mapping[str, Any], thread: str, steering: Steering, hearer: Hearer
) -> tuple[AIMessage | None, dict[str, Any]]:
    """The answer of a turn that needs no tool, and what goes into the state `values` with it.

    None: the turn goes on with tools, because the reply called one, said that it cannot do without,
    or was empty. Where it is sure that none is needed, a call is met by one more request first,
    without any tool, and what is said to that is the answer.
    """
    is_sure = values["quiet"] == "sure"
    refused = (lambda _: False) if is_sure else declines
    found = await Speaker(values, thread, steering, hearer, refused).ask(bare=is_sure)
    if found.is_answer:
        return answer_of(found.reply), found.update
    called = [str(call["name"]) for call in found.calls]
    more, usage = await steering.not_quiet({**values, **found.update}, called)
    if usage:
        hearer.asker.ledger.side_call("router")
    emit_usage(usage)
    emit(event="route", name=more["route"])
    return None, {**found.update, **more}
