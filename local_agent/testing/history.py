"""What a strict provider refuses: checks the messages and tools of a chat request."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def check_request(body: Mapping[str, Any]) -> str | None:
    """Say why a strict provider would answer 400 to this request, or None if it would not."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return "no messages"
    for number, message in enumerate(messages):
        reason = _check_message(message)
        if reason:
            return f"message {number} ({message.get('role')}): {reason}"
    reason = _check_order(messages) or _check_tools(body.get("tools") or [])
    if reason:
        return reason
    choice = body.get("tool_choice")
    if choice is not None and choice not in ("none", "auto", "required"):
        return f"Invalid tool_choice type: {choice!r}. Supported: none, auto, required"
    return None


def _check_message(message: Mapping[str, Any]) -> str | None:
    if message.get("role") not in ("system", "user", "assistant", "tool"):
        return "unknown role"
    if not isinstance(message.get("content"), str):
        return "Invalid 'messages' in payload: content is not a string"
    seen: set[str] = set()
    for call in message.get("tool_calls") or []:
        reason = _check_call(call)
        if reason:
            return reason
        if call["id"] in seen:
            return f"call id {call['id']!r} twice"
        seen.add(call["id"])
    return None


def _check_call(call: Mapping[str, Any]) -> str | None:
    if not isinstance(call.get("id"), str) or not call["id"]:
        return "a tool call without an id"
    function = call.get("function")
    if not isinstance(function, dict):
        return "a tool call without a function"
    if not _NAME.fullmatch(str(function.get("name", ""))):
        return f"tool name {function.get('name')!r} is not allowed"
    try:
        arguments = json.loads(function.get("arguments", ""))
    except (TypeError, ValueError):
        return f"arguments of {function['name']} are not JSON"
    if not isinstance(arguments, dict):
        return f"arguments of {function['name']} are not a JSON object"
    return None


def _check_order(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """system? (user (assistant(calls) tool+)* assistant)* and a last message to answer."""
    open_ids: list[str] = []
    before = "start"
    for number, message in enumerate(messages):
        role = str(message["role"])
        where = f"message {number} ({role})"
        if role == "tool":
            call_id = message.get("tool_call_id")
            if call_id not in open_ids:
                return f"{where}: a result without a call directly before it: {call_id!r}"
            open_ids.remove(str(call_id))
        elif open_ids:
            return f"{where}: tool calls without a result: {', '.join(open_ids)}"
        elif before not in _MAY_FOLLOW[role]:
            return f"{where}: roles out of order, it follows {before}"
        if role == "assistant":
            open_ids = [str(call["id"]) for call in message.get("tool_calls") or []]
        before = role
    if open_ids:
        return f"tool calls without a result: {', '.join(open_ids)}"
    return f"the last message is from {before}" if before in ("assistant", "system") else None


_MAY_FOLLOW = {
    "system": ("start",),
    "user": ("start", "system", "assistant"),
    "assistant": ("user", "tool"),
}


def _check_tools(tools: Sequence[Mapping[str, Any]]) -> str | None:
    names = [str(tool.get("function", {}).get("name", "")) for tool in tools]
    for name in names:
        if not _NAME.fullmatch(name):
            return f"tool name {name!r} is not allowed"
    twice = {name for name in names if names.count(name) > 1}
    return f"tool names twice: {', '.join(sorted(twice))}" if twice else None


def prompt_text(body: Mapping[str, Any]) -> str:
    """The request as one text in the order a chat template renders it: tools, then messages."""
    parts = [json.dumps(body.get("tools") or [], ensure_ascii=False)]
    for message in body.get("messages") or []:
        parts.append(f"\n<{message.get('role')}>")
        content = message.get("content")
        parts.append(content if isinstance(content, str) else json.dumps(content))
        for call in message.get("tool_calls") or []:
            parts.append(json.dumps(call.get("function"), ensure_ascii=False))
    return "".join(parts)


def common_prefix(one: str, other: str) -> int:
    """How many characters two texts have in common at their start."""
    end = min(len(one), len(other))
    return next((at for at in range(end) if one[at] != other[at]), end)
