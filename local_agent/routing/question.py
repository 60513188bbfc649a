"""The question to the model which route a prompt belongs to: one short constrained call."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langchain_core.messages.ai import UsageMetadata

from context import clip, text_of, weigh
from local_agent.errors import ModelError

from .routes import GENERAL

QUESTION_CHARS = 600  # the newest prompt, and as much of the exchange before it: some 400 tokens
DESCRIPTION_CHARS = 200

INSTRUCTION = """Sort the user's newest message into one of these topics.
{topics}
Take {general} for greetings, thanks, small talk, general knowledge and questions about what was \
already said: "Hi there!", "Cheers, I'm off.", "Which planet is the largest?", \
"Make up a riddle.", "What did I ask first?". \
Otherwise take the topic whose tools the answer needs. \
Answer with JSON: {{"route": "<topic>"}}"""


class RouterModel(Protocol):
    async def reply(
        self,
        messages: Sequence[AnyMessage],
        *,
        response_format: Mapping[str, Any] | None = None,
    ) -> AIMessage: ...


async def ask(
    model: RouterModel, descriptions: Mapping[str, str], messages: Sequence[AnyMessage]
) -> tuple[str, UsageMetadata | None]:
    """The route that the model names, empty where it named none, and what the call took.

    That is estimated where the server says nothing: it read the prompt all the same.
    """
    choices = [*descriptions, GENERAL]
    asked: list[AnyMessage] = [
        SystemMessage(_instruction(descriptions)),
        HumanMessage(_question(messages)),
    ]
    try:
        reply = await model.reply(asked, response_format=_schema(choices))
    except ModelError:
        return "", None
    try:
        name = json.loads(text_of(reply.content)).get("route")
    except (ValueError, AttributeError):
        name = ""
    return (str(name) if name in choices else ""), reply.usage_metadata or _estimated(asked, reply)


def _estimated(asked: Sequence[AnyMessage], reply: AIMessage) -> UsageMetadata:
    """The tokens of a call by our own count, before calibration."""
    read, written = round(sum(map(weigh, asked))), round(weigh(reply))
    return UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)


def _instruction(descriptions: Mapping[str, str]) -> str:
    topics = [f"- {name}: {text[:DESCRIPTION_CHARS]}" for name, text in descriptions.items()]
    return INSTRUCTION.format(topics="\n".join([*topics, f"- {GENERAL}: no tool"]), general=GENERAL)


def _question(messages: Sequence[AnyMessage]) -> str:
    """The newest prompt behind the exchange before it, which a follow-up needs to be understood."""
    said = [
        m
        for m in messages
        if isinstance(m, HumanMessage) or (isinstance(m, AIMessage) and not m.tool_calls)
    ]
    lines = [
        f"{'user' if isinstance(m, HumanMessage) else 'assistant'}: "
        f"{clip(text_of(m.content), QUESTION_CHARS // 2)}"
        for m in said[-3:-1]
    ]
    newest = clip(text_of(said[-1].content), QUESTION_CHARS) if said else ""
    return "\n".join([*lines, f"newest message of the user: {newest}"])


def _schema(choices: Sequence[str]) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {"route": {"type": "string", "enum": list(choices)}},
        "required": ["route"],
        "additionalProperties": False,
    }
    return {"type": "json_schema", "json_schema": {"name": "route", "schema": schema}}
