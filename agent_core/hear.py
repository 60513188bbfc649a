"""What a reply of the model comes to: repaired, shown, and asked for again where it was no use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from agent_core.ports import Described, Repair, Tool
from agent_core.reply import Asker, emit_text
from agent_core.turn import bad_in_a_row, current_turn
from context import text_of

# Keys of `additional_kwargs` that the model adapter and the repair leave.
UNSHOWN = "unshown"  # text that was not streamed, because it might have been a call
DOUBTFUL = "doubtful"  # the whole text of a reply whose calls may not have been meant
BESIDE = "beside"  # what is left of that text behind its calls, where with them it is no answer
REPAIRED = "repaired"  # what was changed in a call, by its id
ASKED_AGAIN = "its arguments were asked for again, held to the schema"


@dataclass(frozen=True, slots=True)
class Known:
    """The tools that a reply may call: those of its prompt, and all `others` that there are.

    `hidden` are our own ones that the prompt does not have, as there is nothing to find: they
    answer, but no error names them.
    """

    tools: Sequence[Described]
    others: Sequence[Described] = ()
    hidden: Sequence[Described] = ()

    @property
    def all(self) -> list[Described]:
        return [*self.tools, *self.others, *self.hidden]


@dataclass(frozen=True, slots=True)
class Hearer:
    """Makes of replies what is stored of them.

    `asks_again`: a call that went wrong twice is asked for held to its schema.
    """

    asker: Asker
    repair: Repair
    asks_again: bool = True

    async def hear(
        self,
        reply: AIMessage,
        values: Mapping[str, Any],
        tools: Sequence[Tool],
        known: Known,
    ) -> AIMessage:
        """The reply to the state `values`, with calls that can run and calls that cannot.

        `tools` are those of the prompt. Text that was held back and is no call is shown.
        """
        messages = values["messages"]
        heard, unshown = repaired(reply, self.repair, known, messages, last=False)
        emit_text(unshown)
        tool = worth_asking_again(heard, known.all, current_turn(messages))
        if tool is None or not self.asks_again:
            return heard
        given = await self.asker.arguments(values, tools, tool)
        if given is None or not text_of(given.content).strip():
            return heard
        again = self.repair(_with_arguments(heard, given), known.all)
        return _noted(again, ASKED_AGAIN) if again.tool_calls else heard


def repaired(
    reply: AIMessage,
    repair: Repair,
    known: Known,
    messages: Sequence[AnyMessage],
    *,
    last: bool,
) -> tuple[AIMessage, str]:
    """The reply to the stored `messages`, repaired, and the text that is still to be shown.

    Calls that may not be meant are asked back about once. The second time in a row, and where the
    reply must be the last, they are taken for the text that they are, if they are shown in it.
    Where they are not, the reply keeps the rest of its text, and `BESIDE`, by which
    `agent_core.turn` knows it.
    """
    kwargs = {k: v for k, v in reply.additional_kwargs.items() if k != UNSHOWN}
    unshown = str(reply.additional_kwargs.get(UNSHOWN) or "")
    heard = _understood(
        reply.model_copy(update={"additional_kwargs": kwargs}), repair, known, messages
    )
    if DOUBTFUL in heard.additional_kwargs and (last or _was_doubtful(messages)):
        beside = heard.additional_kwargs.get(BESIDE)
        if beside is None:
            return _without_calls(heard, content=heard.additional_kwargs[DOUBTFUL]), unshown
        before = text_of(heard.content).strip()
        rest = f"\n\n{beside}" if before and beside else beside
        # Where nothing was held back, all of it was shown before it could be known for a call.
        return _without_calls(heard, content=before + rest), rest if unshown else ""
    return heard, "" if heard.tool_calls or heard.invalid_tool_calls else unshown


def _understood(
    reply: AIMessage, repair: Repair, known: Known, messages: Sequence[AnyMessage]
) -> AIMessage:
    """The reply repaired by the tools of its prompt, or by more where it calls one of those."""
    heard = repair(reply, known.tools, messages)
    if heard.tool_calls and not heard.invalid_tool_calls:
        return heard
    names = {tool.name for tool in known.tools}
    # Of a name that none has, the wider error says which of all that there are is near to it.
    is_lost = bool(heard.invalid_tool_calls) and not names & _called(heard)
    for more in (known.others, known.hidden):
        wider = repair(reply, [*known.tools, *more], messages) if more else heard
        if _called(wider) & {tool.name for tool in more}:
            return wider
        heard = wider if is_lost and more is known.others else heard
    return heard


def _called(reply: AIMessage) -> set[str]:
    return {str(c["name"]) for c in (*reply.tool_calls, *reply.invalid_tool_calls)}


def worth_asking_again(
    reply: AIMessage, tools: Sequence[Described], turn: Sequence[AnyMessage]
) -> Described | None:
    """The tool whose arguments to ask for again, held to its schema; None where that is no help.

    It is, when a call of a known tool went wrong twice, and not because it was cut or not meant.
    """
    bad = reply.invalid_tool_calls
    if len(bad) != 1 or reply.tool_calls or bad_in_a_row(turn) != 1:
        return None
    is_cut = reply.response_metadata.get("finish_reason") == "length"
    if is_cut or DOUBTFUL in reply.additional_kwargs:
        return None
    return next((tool for tool in tools if tool.name == bad[0]["name"]), None)


def _was_doubtful(messages: Sequence[AnyMessage]) -> bool:
    """Whether the reply before this one was asked back about for its doubtful calls."""
    for message in reversed(messages):
        if not isinstance(message, ToolMessage):
            return DOUBTFUL in message.additional_kwargs
    return False


def _with_arguments(reply: AIMessage, given: AIMessage) -> AIMessage:
    """The broken call of `reply` with the arguments of the reply `given`, to be repaired anew."""
    broken = reply.invalid_tool_calls[0]
    raw = [{"id": broken["id"], "name": broken["name"], "args": text_of(given.content)}]
    return _without_calls(
        reply,
        additional_kwargs={**reply.additional_kwargs, "raw_tool_calls": raw},
        response_metadata={**reply.response_metadata, **given.response_metadata},
    )


def _without_calls(reply: AIMessage, **update: Any) -> AIMessage:
    return reply.model_copy(update={"tool_calls": [], "invalid_tool_calls": [], **update})


def _noted(reply: AIMessage, text: str) -> AIMessage:
    """The reply with `text` among what was changed in each of its calls."""
    before = reply.additional_kwargs.get(REPAIRED, {})
    notes = {
        call["id"] or "": "; ".join(filter(None, (before.get(call["id"]), text)))
        for call in reply.tool_calls
    }
    kwargs = {**reply.additional_kwargs, REPAIRED: notes}
    return reply.model_copy(update={"additional_kwargs": kwargs})
