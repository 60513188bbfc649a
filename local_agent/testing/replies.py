"""The replies a scripted model server can be told to give, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Usage = Mapping[str, Any] | Literal["auto", "none", "zero"]
How = Literal["close", "reset", "error_event", "error_event_dict", "mid_args"]

Overflow = Literal["llama.cpp", "object", "string", "json_200", "event"]


@dataclass(frozen=True, slots=True)
class Say:
    """A text answer. `thinking` goes out before it as `reasoning_content`.

    `usage`: "auto" (estimated from the request), "none", "zero", or the object itself.
    """

    text: str
    usage: Usage = "auto"
    finish: str | None = "stop"
    thinking: str = ""


@dataclass(frozen=True, slots=True)
class Json:
    """An answer to a request with `response_format`: `obj` as JSON text."""

    obj: Any


@dataclass(frozen=True, slots=True)
class Call:
    """One well-formed tool call."""

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    id: str = "call_1"


@dataclass(frozen=True, slots=True)
class Calls:
    """Several tool calls in one message, behind `text`."""

    calls: Sequence[Call | RawCall]
    text: str = ""
    finish: str | None = "tool_calls"


@dataclass(frozen=True, slots=True)
class RawCall:
    """A tool call whose arguments are sent as they stand, whole JSON or not."""

    name: str
    args_text: str
    id: str = "call_1"
    finish: str | None = "tool_calls"


@dataclass(frozen=True, slots=True)
class Deltas:
    """A stream of exactly these `delta` objects: for servers that bend the format."""

    deltas: Sequence[Mapping[str, Any]]
    finish: str | None = "stop"


@dataclass(frozen=True, slots=True)
class Fail:
    """An HTTP status and a body (text as it stands, anything else as JSON)."""

    status: int
    body: Any


@dataclass(frozen=True, slots=True)
class Broken:
    """An answer that breaks off behind `text`.

    `how`: "close" ends the body without a finish reason or [DONE]; "reset" drops the connection;
    "error_event" sends {"error": message}; "error_event_dict" {"error": {"message": message}}
    and [DONE]; "mid_args" ends the body inside the arguments of a call to `tool`.
    """

    text: str
    how: How = "close"
    message: str = "The model has crashed"
    tool: str = "write_note"


@dataclass(frozen=True, slots=True)
class Slow:
    """`reply`, after `seconds` in which not one byte is sent (a long prompt being read)."""

    reply: Reply
    seconds: float


@dataclass(frozen=True, slots=True)
class Hang:
    """`text` (nothing if empty, not even headers), then silence until somebody hangs up."""

    text: str = ""


Reply = Say | Json | Call | Calls | RawCall | Deltas | Fail | Broken | Slow | Hang


def overflow_reply(shape: Overflow, tokens: int, limit: int) -> Reply:
    """An overflow error in one of the shapes that servers use; both numbers are tokens."""
    text = (
        "Trying to keep the first tokens when context the overflows. However, the model is "
        f"loaded with context length of only {limit} tokens. n_keep: {tokens} >= n_ctx: {limit}"
    )
    match shape:
        case "object":
            return Fail(400, {"error": {"message": text}})
        case "string":
            return Fail(400, {"error": text})
        case "json_200":
            return Fail(200, {"error": text})
        case "event":
            return Broken("", how="error_event_dict", message=text)
        case "llama.cpp":
            error = {
                "code": 400,
                "message": "the request exceeds the available context size, try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": tokens,
                "n_ctx": limit,
            }
            return Fail(400, {"error": error})
