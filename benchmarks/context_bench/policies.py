"""The policies that ours is compared with: from the conversation to what is sent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from benchmarks.context_bench.cache import SUMMARY as SIDE
from benchmarks.context_bench.cache import TURN, Slot
from benchmarks.context_bench.conversation import Turn, functions
from context import compact, text_of
from local_agent.app import SYSTEM_PROMPT

LAST = 20  # messages
SUMMARISE_AT = 8  # messages in the list
SUMMARISE_KEEPS = 2  # messages that stay, more where a call and its result would be parted
TRIMMED_AT = 16_000  # characters of a summary request, some 4,000 tokens; older text is cut
SUMMARY_CHARS = 1_200
ASKED_LENGTH = re.compile(r"at most (\d+) characters")
SUMMARISE = """Extract from the conversation below what is needed to go on with it: goals, facts, \
names, numbers, decisions, open questions. Your text will replace the conversation, so repeat \
nothing that is done and leave nothing out that matters. Answer with the extract alone.

<messages>
{text}
</messages>"""
SUMMARISED = "Here is a summary of the conversation to date:\n\n{text}"


class Policy(Protocol):
    """Gives what is sent before each model call; may make side calls of its own on `slot`."""

    def __call__(
        self, messages: Sequence[AnyMessage], turns: Sequence[Turn], slot: Slot
    ) -> Sequence[AnyMessage]: ...


def everything(
    messages: Sequence[AnyMessage], turns: Sequence[Turn], slot: Slot
) -> Sequence[AnyMessage]:
    """All messages. On a server with endless room this is also the floor: each new token once."""
    return messages


def published_compact(
    messages: Sequence[AnyMessage], turns: Sequence[Turn], slot: Slot
) -> Sequence[AnyMessage]:
    """`compact` before every call: results older than two turns as stubs, from each turn anew."""
    return compact(messages)


def last_messages(
    messages: Sequence[AnyMessage], turns: Sequence[Turn], slot: Slot
) -> Sequence[AnyMessage]:
    """The last 20 messages, fewer where the first would be a result without its call."""
    start = max(0, len(messages) - LAST)
    while isinstance(messages[start], ToolMessage):
        start += 1
    return messages[start:]


class Summarise:
    """A summary in place of the older messages whenever there are eight, as middlewares do it.

    Like LangChain's `SummarizationMiddleware`: looked at before each model call; the messages
    before the cut go as text into a request of its own, at most 4,000 tokens of them; its reply
    becomes the first message. The numbers are the cheapest that are in use: keeping two messages,
    where the middleware keeps 20 if nothing is said, makes the prompts shorter and the summaries
    fewer, and the instruction is shorter than the usual ones.
    """

    def __init__(self) -> None:
        self._summary = ""
        self._upto = 0  # messages that are in the summary

    def __call__(
        self, messages: Sequence[AnyMessage], turns: Sequence[Turn], slot: Slot
    ) -> Sequence[AnyMessage]:
        view = self._view(messages)
        if len(view) >= SUMMARISE_AT:
            cut = len(messages) - SUMMARISE_KEEPS
            while isinstance(messages[cut], ToolMessage):
                cut -= 1
            folded = view[: len(view) - (len(messages) - cut)]
            text = "\n".join(_line(m) for m in folded)[-TRIMMED_AT:]
            request = HumanMessage(SUMMARISE.format(text=text))
            self._summary = summary_of(text, turns)
            slot.send(SIDE, [request], (), AIMessage(self._summary))
            self._upto = cut
            view = self._view(messages)
        return view

    def _view(self, messages: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
        head = [HumanMessage(SUMMARISED.format(text=self._summary))] if self._summary else []
        return [*head, *messages[self._upto :]]


def _line(message: AnyMessage) -> str:
    calls = getattr(message, "tool_calls", None)
    return f"{message.type}: {text_of(message.content)}{calls or ''}"


def summary_of(asked: str, turns: Sequence[Turn]) -> str:
    """What the scripted summariser answers to the request text `asked`, from that text alone.

    A line for each turn whose question is in it or whose line is in the summary before; the newest
    lines are kept, in the length that is asked for, and never more than some 300 tokens.
    """
    wanted = [int(n) for n in ASKED_LENGTH.findall(asked)]
    most = min([SUMMARY_CHARS, *wanted[-1:]])
    lines = [t.gist for t in turns if t.question in asked or t.gist in asked]
    while len(lines) > 1 and sum(map(len, lines)) > most:
        del lines[0]
    return "\n".join(lines)


def replay(turns: Sequence[Turn], policy: Policy, slot: Slot) -> None:
    """Send the whole conversation as `policy` would."""
    system, tools = SystemMessage(SYSTEM_PROMPT), functions()
    messages: list[AnyMessage] = []

    def send(reply: AIMessage) -> None:
        slot.send(TURN, [system, *policy(messages, turns, slot)], tools, reply)
        messages.append(reply)

    for turn in turns:
        slot.turn = turn.number
        messages.append(turn.prompt)
        for step in range(len(turn.steps)):
            send(turn.call_message(step))
            messages += turn.results(step)
        send(turn.answer_message)
