"""Tool calls as a small model writes them: whole calls to run, or a text that says what is wrong.

Pure: the same reply and tools give the same result. Nothing is completed or guessed: a call that
is not whole is not run, and the model reads why and what to do.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from langchain_core.messages import AIMessage, InvalidToolCall, ToolCall

RAW = "raw_tool_calls"
_ID_LENGTH = 9  # Mistral's templates take exactly nine letters or digits
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_DEPTH_MAX = 50  # deeper arguments than any tool's; the stack is finite
_SHOWN_NAMES = 12  # tool names listed to a model that asked for another
# What a checkpoint can store; beyond it the saver fails and the thread with it.
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1


class KnownTool(Protocol):
    """What repair needs of a tool."""

    @property
    def name(self) -> str: ...

    @property
    def schema(self) -> Mapping[str, Any]: ...


class _Wrong(Exception):
    """The text that the model shall read."""


def repair(reply: AIMessage, tools: Sequence[KnownTool]) -> AIMessage:
    """Turn the raw calls of `reply` into calls that can run and calls that cannot.

    In: `additional_kwargs["raw_tool_calls"]`, a list of {"id", "name", "args": text}. Out: a copy
    with the same id; `tool_calls` are whole, of known tools, with every required argument;
    `invalid_tool_calls` are the rest, `error` being the text for the model. Ids are non-empty and
    unique within the message. Entries without a name are dropped. A reply without raw calls comes
    back as it is.
    """
    if RAW not in reply.additional_kwargs:
        return reply
    raw = [entry for entry in reply.additional_kwargs[RAW] if entry["name"].strip()]
    # The place for calls that the model wrote into its text: they join `raw` here.
    cut = reply.response_metadata.get("finish_reason") == "length"
    known = {tool.name: tool for tool in tools}
    good: list[ToolCall] = []
    bad: list[InvalidToolCall] = []
    for entry, call_id in zip(raw, _ids(reply.id or "", raw), strict=True):
        name, text = entry["name"].strip(), entry["args"]
        try:
            args = _checked(name, text, known, cut)
        except _Wrong as wrong:
            bad.append(
                InvalidToolCall(
                    name=name, args=text, id=call_id, error=str(wrong), type="invalid_tool_call"
                )
            )
        else:
            good.append(ToolCall(name=name, args=args, id=call_id, type="tool_call"))
    rest = {key: value for key, value in reply.additional_kwargs.items() if key != RAW}
    return reply.model_copy(
        update={"tool_calls": good, "invalid_tool_calls": bad, "additional_kwargs": rest}
    )


def _checked(name: str, text: str, known: Mapping[str, KnownTool], cut: bool) -> dict[str, Any]:
    if cut:
        raise _Wrong(
            f"Your output was cut at the output limit, so {name} was not run. "
            "Send the call again with less in it: smaller pieces, one after the other."
        )
    if name not in known:
        raise _Wrong(_unknown(name, list(known)))
    tool = known[name]
    args = _parsed(name, text, tool)
    missing = [field for field in tool.schema.get("required") or [] if field not in args]
    if missing:
        raise _Wrong(
            f"{name} was not run: {', '.join(missing)} missing. It takes {signature(tool)}. "
            "Send the call again with all required arguments."
        )
    return args


def _parsed(name: str, text: str, tool: KnownTool) -> dict[str, Any]:
    """The arguments, which must be one whole JSON object; nothing at all counts as {}."""
    if not text.strip():
        return {}
    try:
        args = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as exc:
        tail = " ".join(text[-40:].split())
        raise _Wrong(
            f"{name} was not run: its arguments were not whole JSON; they end with: {tail} "
            f"It takes {signature(tool)}. Send the call again with one complete JSON object."
        ) from exc
    if not isinstance(args, dict):
        raise _Wrong(
            f"{name} was not run: its arguments must be one JSON object. "
            f"It takes {signature(tool)}. Send the call again."
        )
    cleaned: dict[str, Any] = _storable(name, args, _DEPTH_MAX)
    return cleaned


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is not JSON")


def _storable(name: str, value: Any, depth: int) -> Any:
    """The value without half surrogate pairs; refused where a checkpoint cannot hold it."""
    if depth == 0:
        raise _Wrong(f"{name} was not run: its arguments are nested too deep.")
    if isinstance(value, dict):
        return {
            _storable(name, key, depth - 1): _storable(name, item, depth - 1)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_storable(name, item, depth - 1) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, int) and not _INT_MIN <= value <= _INT_MAX:
        raise _Wrong(
            f"{name} was not run: the number {str(value)[:20]}… is too large. "
            "Send it as text in quotes, or a smaller one."
        )
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise _Wrong(f"{name} was not run: a number in its arguments is too large.")
    return value


def _unknown(name: str, names: Sequence[str]) -> str:
    if not names:
        return f"There is no tool {name}, and no other now. Answer in words."
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    low = name.lower()
    for other in names:  # a prefix too many or too few is far by letters
        if other not in close and (other.lower() in low or low in other.lower()):
            close.append(other)
    if close:
        return (
            f"There is no tool {name}; nothing was run. Did you mean {' or '.join(close[:5])}? "
            "Call it by exactly that name."
        )
    shown = ", ".join(names[:_SHOWN_NAMES]) + (", …" if len(names) > _SHOWN_NAMES else "")
    return f"There is no tool {name}; nothing was run. There are: {shown}. Use one or answer."


def signature(tool: KnownTool) -> str:
    """A tool in short: `write_note(path: string, text: string, tags?: array)`."""
    required = tool.schema.get("required") or []
    parts = []
    for field, schema in (tool.schema.get("properties") or {}).items():
        kind = schema.get("type", "any") if isinstance(schema, Mapping) else "any"
        kind = "|".join(map(str, kind)) if isinstance(kind, list) else kind
        parts.append(f"{field}{'' if field in required else '?'}: {kind}")
    return f"{tool.name}({', '.join(parts)})"


def _ids(message_id: str, raw: Sequence[Mapping[str, Any]]) -> list[str]:
    """The id of each call: the server's, or one of ours where it is empty or taken."""
    taken = {str(entry["id"]) for entry in raw}
    used: set[str] = set()
    ids = []
    for number, entry in enumerate(raw):
        call_id, salt = str(entry["id"]), 0
        while not call_id.strip() or call_id in used:
            call_id = _own_id(f"{message_id}/{number}/{salt}")
            call_id = "" if call_id in taken else call_id
            salt += 1
        used.add(call_id)
        ids.append(call_id)
    return ids


def _own_id(seed: str) -> str:
    number = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big")
    digits = []
    for _ in range(_ID_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(digits)
