"""The calls of a reply taken to the letter: whole JSON under the name of a tool, or an error."""

from __future__ import annotations

import json
from collections.abc import Sequence

from langchain_core.messages import AIMessage, AnyMessage, InvalidToolCall, ToolCall

from .ids import unique_ids
from .reply import RAW
from .tools import KnownTool


def exact(
    reply: AIMessage, tools: Sequence[KnownTool], history: Sequence[AnyMessage] = ()
) -> AIMessage:
    """`reply` with its native calls, in and out as `repair`, but nothing is read from the text,
    no name, no value and no JSON is mended, and whether values fit is left to the tool."""
    raw = reply.additional_kwargs.get(RAW)
    if reply.tool_calls or raw is None:
        return reply
    cut = reply.response_metadata.get("finish_reason") == "length"
    names = {tool.name for tool in tools}
    good: list[ToolCall] = []
    bad: list[InvalidToolCall] = []
    ids = unique_ids(reply.id or "", [str(entry["id"]) for entry in raw])
    for entry, call_id in zip(raw, ids, strict=True):
        name, text = str(entry["name"]), str(entry["args"])
        args = _parsed(text)
        if args is not None and name in names and not cut:
            good.append(ToolCall(name=name, args=args, id=call_id, type="tool_call"))
            continue
        why = f"{name} was not run: its arguments were not whole JSON."
        why = why if name in names else f"{name or 'That'} is not a tool."
        bad.append(
            InvalidToolCall(name=name, args=text, id=call_id, error=why, type="invalid_tool_call")
        )
    kwargs = {k: v for k, v in reply.additional_kwargs.items() if k != RAW}
    update = {"additional_kwargs": kwargs, "tool_calls": good, "invalid_tool_calls": bad}
    return reply.model_copy(update=update)


def _parsed(text: str) -> dict[str, object] | None:
    """The arguments; None where the text is no JSON object."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
