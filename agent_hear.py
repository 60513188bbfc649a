"""What a reply of the model comes to: repaired, shown, and asked for again where it was no use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from agent_ports import Repair, Tool
from agent_turn import bad_in_a_row
from context import text_of

# Keys of `additional_kwargs` that the model adapter and the repair leave.
UNSHOWN = "unshown"  # text that was not streamed, because it might have been a call
DOUBTFUL = "doubtful"  # the whole text of a reply whose calls may not have been meant
REPAIRED = "repaired"  # what was changed in a call, by its id
ASKED_AGAIN = "its arguments were asked for again, held to the schema"


def hear(
    reply: AIMessage,
    repair: Repair,
    tools: Sequence[Tool],
    messages: Sequence[AnyMessage],
) -> tuple[AIMessage, str]:
    """The reply to the stored `messages`, repaired, and the text that is still to be shown.

    Calls that may not be meant are asked back about once; the second time in a turn they are
    taken for the text that they are.
    """
    kwargs = {k: v for k, v in reply.additional_kwargs.items() if k != UNSHOWN}
    unshown = str(reply.additional_kwargs.get(UNSHOWN) or "")
    heard = repair(reply.model_copy(update={"additional_kwargs": kwargs}), tools, messages)
    if DOUBTFUL in heard.additional_kwargs and _was_doubtful(messages):
        update = {
            "content": heard.additional_kwargs[DOUBTFUL],
            "tool_calls": [],
            "invalid_tool_calls": [],
        }
        heard = heard.model_copy(update=update)
    return heard, "" if heard.tool_calls or heard.invalid_tool_calls else unshown


def _was_doubtful(messages: Sequence[AnyMessage]) -> bool:
    """Whether the reply before this one was asked back about for its doubtful calls."""
    for message in reversed(messages):
        if not isinstance(message, ToolMessage):
            return DOUBTFUL in message.additional_kwargs
    return False


def asks_for_arguments(
    reply: AIMessage, tools: Sequence[Tool], turn: Sequence[AnyMessage]
) -> Tool | None:
    """The tool whose arguments to ask for again, held to its schema; None where that is no help.

    It is, when a call of a known tool went wrong twice, and not because it was cut or not meant.
    """
    bad = reply.invalid_tool_calls
    if len(bad) != 1 or reply.tool_calls or bad_in_a_row(turn) != 1:
        return None
    if reply.response_metadata.get("finish_reason") == "length":
        return None
    if DOUBTFUL in reply.additional_kwargs:
        return None
    return next((tool for tool in tools if tool.name == bad[0]["name"]), None)


def arguments_format(tool: Tool) -> dict[str, Any]:
    """The `response_format` that holds a reply to the arguments of `tool`."""
    return {
        "type": "json_schema",
        "json_schema": {"name": "arguments", "schema": dict(tool.schema)},
    }


def arguments_request(messages: Sequence[AnyMessage], tool: Tool) -> list[AnyMessage]:
    """A view that ends with the result of the broken call, with the request behind it."""
    out = list(messages)
    text = f"[Write the arguments of {tool.name} as one JSON object, and nothing else.]"
    if out:
        last = out[-1]
        out[-1] = last.model_copy(update={"content": f"{text_of(last.content)}\n\n{text}"})
    return out


def with_arguments(reply: AIMessage, given: AIMessage) -> AIMessage:
    """The broken call of `reply` with the arguments of the reply `given`, to be repaired anew."""
    broken: Mapping[str, Any] = reply.invalid_tool_calls[0]
    text = text_of(given.content)
    raw = [{"id": broken["id"], "name": broken["name"], "args": text}]
    kwargs = {**reply.additional_kwargs, "raw_tool_calls": raw}
    metadata = {**reply.response_metadata, **given.response_metadata}
    update = {
        "tool_calls": [],
        "invalid_tool_calls": [],
        "additional_kwargs": kwargs,
        "response_metadata": metadata,
    }
    return reply.model_copy(update=update)


def noted(reply: AIMessage, text: str) -> AIMessage:
    """The reply with `text` among what was changed in each of its calls."""
    before = reply.additional_kwargs.get(REPAIRED, {})
    notes = {
        call["id"] or "": "; ".join(filter(None, (before.get(call["id"]), text)))
        for call in reply.tool_calls
    }
    return reply.model_copy(
        update={"additional_kwargs": {**reply.additional_kwargs, REPAIRED: notes}}
    )
