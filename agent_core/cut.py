"""Cuts what is longer than its place: a result, a prompt, an answer, the arguments of a call."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from agent_core.clip import clip_result
from agent_core.clip_text import head_and_tail
from context import text_of

_ITEMS = 4  # of a list that stay when it is cut


def level(sizes: Iterable[float], room: float) -> float:
    """The size to which all that is larger must be cut so that together they fit `room`."""
    rest = sorted(sizes)
    left = max(room, 0.0)
    for done, size in enumerate(rest):
        if size * (len(rest) - done) > left:
            return left / (len(rest) - done)
        left -= size
    return rest[-1] if rest else 0.0


@lru_cache(maxsize=64)
def clipped(text: str, chars: int) -> str:
    """`clip_result`, remembered: a result is shown in many prompts and clipped once."""
    return clip_result(text, chars)


def cut(message: AnyMessage, chars: int) -> AnyMessage:
    """`message` in about `chars` characters, with a note of what is missing.

    Of a message with calls text and arguments are cut, each to its part of `chars`; arguments stay
    valid JSON with their names, long texts in them end in `…(+N)`. They are of calls already made:
    what was run is in the stored message.
    """
    text = text_of(message.content)
    if isinstance(message, ToolMessage):
        return message.model_copy(update={"content": clipped(text, chars)})
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    if not calls:
        return message.model_copy(update={"content": head_and_tail(text, chars)})
    share = chars // (len(calls) + bool(text))
    shorter = [{**call, "args": shorter_args(call["args"], share)} for call in calls]
    return message.model_copy(update={"content": head_and_tail(text, share), "tool_calls": shorter})


def shorter_args(args: Mapping[str, Any], chars: int) -> dict[str, Any]:
    """`args` as JSON of at most about `chars` characters, long values cut."""
    whole = len(json.dumps(args, ensure_ascii=False))
    if whole <= chars:
        return dict(args)
    longest = chars
    while longest >= 8:
        shorter: dict[str, Any] = _shorter(args, longest)
        if len(json.dumps(shorter, ensure_ascii=False)) <= chars:
            return shorter
        longest //= 2
    return {"…": f"{whole} characters left out"}


def _shorter(value: Any, longest: int) -> Any:
    if isinstance(value, str) and len(value) > longest:
        return f"{value[:longest]}…(+{len(value) - longest})"
    if isinstance(value, Mapping):
        return {key: _shorter(item, longest) for key, item in value.items()}
    if isinstance(value, list | tuple):
        kept = [_shorter(item, longest) for item in value[:_ITEMS]]
        more = len(value) - len(kept)
        return [*kept, f"…(+{more} items)"] if more else kept
    return value
