"""What a request was made of, kept with its reply, so that it can be made again and compared.

The messages of a request follow from the state. The rest is its basis: system prompt, tools,
limits, and the window without what it learns. Many requests have the same one, so it is kept once,
elsewhere, under a key; the reply keeps that key and the little that differs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from langchain_core.messages import AnyMessage, BaseMessage

from context import Window, text_of

SENT = "sent"  # where it stands in a reply's `response_metadata`


def basis_of(
    system_prompt: str, functions: Sequence[Mapping[str, Any]], window: Window, limits: Any
) -> str:
    """The basis as a text, the same for the same. `limits` is the dataclass of that name."""
    room = {
        "context_length": window.context_length,
        "max_tokens": window.max_tokens,
        "reply_reserve": window.reply_reserve,
    }
    basis = {
        "system": system_prompt,
        "tools": list(functions),
        "window": room,
        "limits": asdict(limits),
    }
    return json.dumps(basis, ensure_ascii=False)


def key_of(text: str) -> str:
    """A short key of a text."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def digest(messages: Sequence[BaseMessage], functions: Sequence[Mapping[str, Any]]) -> str:
    """A short text that is the same for the same request."""
    shown = [[m.type, m.content, getattr(m, "tool_calls", None) or None] for m in messages]
    return key_of(json.dumps([shown, list(functions)], ensure_ascii=False, default=str))


def with_line(messages: Sequence[AnyMessage], line: str) -> list[AnyMessage]:
    """The messages of a request with `line` behind the last, whose beginning stays as it was."""
    *before, last = messages
    text = f"{text_of(last.content)}\n\n{line}" if line else last.content
    return [*before, last.model_copy(update={"content": text})]


def kept_of(window: Window, basis: str, part: float, behind: str = "") -> dict[str, Any]:
    """What a reply keeps of its request as it goes; its `digest` is added to it.

    `part` is the part of its room that the request may take, `behind` the line at its end.
    """
    kept = {"basis": key_of(basis), "scale": window.scale, "part": part}
    return {**kept, "behind": behind} if behind else kept
