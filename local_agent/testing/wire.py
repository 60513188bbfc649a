"""A scripted reply as an OpenAI-compatible server puts it on the wire, streamed or in one piece."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .replies import Call, Calls, Deltas, Json, RawCall, Reply, Say

Delta = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Frame:
    """What is the same in every piece of one answer."""

    model: str
    usage: Mapping[str, Any] | None
    timings: Mapping[str, Any] | None
    chunk: int | None


def pieces(text: str, size: int | None) -> Iterator[str]:
    """`text` in pieces of `size` characters, or whole."""
    if size is None:
        yield from [text] if text else []
        return
    for start in range(0, len(text), size):
        yield text[start : start + size]


def deltas(reply: Reply, size: int | None) -> tuple[Iterator[Delta], str | None]:
    """The delta objects of a reply and its finish reason."""
    match reply:
        case Say(text=text, finish=finish, thinking=thinking):
            thoughts = ({"reasoning_content": piece} for piece in pieces(thinking, size))
            words = ({"content": piece} for piece in pieces(text, size))
            return itertools.chain(thoughts, words), finish
        case Json(obj=obj):
            text = json.dumps(obj, ensure_ascii=False)
            return ({"content": piece} for piece in pieces(text, size)), "stop"
        case Call():
            return _call_deltas([reply], size), "tool_calls"
        case RawCall(finish=finish):
            return _call_deltas([reply], size), finish
        case Calls(calls=calls, text=text, finish=finish):
            words = ({"content": piece} for piece in pieces(text, size))
            return itertools.chain(words, _call_deltas(list(calls), size)), finish
        case Deltas(deltas=raw, finish=finish):
            return iter(raw), finish
    raise TypeError(f"not a reply that can be streamed: {reply!r}")


def _call_deltas(calls: list[Call | RawCall], size: int | None) -> Iterator[Delta]:
    for index, call in enumerate(calls):
        text = args_text(call)
        head = {
            "index": index,
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": ""},
        }
        yield {"content": None, "tool_calls": [head]}
        for piece in pieces(text, size):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def args_text(call: Call | RawCall) -> str:
    """The arguments as they go out."""
    if isinstance(call, RawCall):
        return call.args_text
    return json.dumps(dict(call.args), ensure_ascii=False)


def chunk_object(frame: Frame, delta: Delta, finish: str | None = None) -> dict[str, Any]:
    """One `chat.completion.chunk`."""
    return {
        "id": "chatcmpl-scripted",  # the same every time, as some servers do
        "object": "chat.completion.chunk",
        "created": 1,
        "model": frame.model,
        "choices": [{"index": 0, "delta": dict(delta), "finish_reason": finish}],
    }


def last_chunk(frame: Frame) -> dict[str, Any]:
    """The chunk without choices that carries `usage`."""
    last = chunk_object(frame, {})
    last["choices"] = []
    last["usage"] = frame.usage
    if frame.timings:
        last["timings"] = frame.timings
    return last


def completion_object(frame: Frame, reply: Reply) -> dict[str, Any]:
    """The whole reply as one `chat.completion`."""
    stream, finish = deltas(reply, None)
    message: dict[str, Any] = {"role": "assistant", "content": None}
    calls: dict[int, dict[str, Any]] = {}
    for delta in stream:
        for key in ("content", "reasoning_content", "reasoning"):
            if delta.get(key):
                message[key] = (message.get(key) or "") + delta[key]
        for call in delta.get("tool_calls") or []:
            known = calls.setdefault(call.get("index", len(calls)), {"type": "function"})
            known.update({key: call[key] for key in ("id",) if key in call})
            function = known.setdefault("function", {"name": "", "arguments": ""})
            for key, value in (call.get("function") or {}).items():
                function[key] += value
    if calls:
        message["tool_calls"] = list(calls.values())
    whole: dict[str, Any] = {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 1,
        "model": frame.model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }
    if frame.usage is not None:
        whole["usage"] = frame.usage
    if frame.timings:
        whole["timings"] = frame.timings
    return whole
