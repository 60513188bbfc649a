"""The repair of one reply: its native calls, or the calls in its text, each checked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    InvalidToolCall,
    ToolCall,
    ToolMessage,
)

from . import json_text
from .forms import Found, cut_call, find
from .ids import unique_ids
from .names import key, match, unknown
from .phrases import asks_about_calls, has_marks
from .placeholders import has_placeholder, texts_of
from .prompts import wants_code, wants_to_see
from .schemas import Schema
from .tools import KnownTool, Wrong, properties, signature
from .values import fit, storable
from .written import Written

RAW = "raw_tool_calls"
REPAIRED = "repaired"  # call id -> what was changed in it
DOUBTFUL = "doubtful"  # the whole text of a reply whose calls may not be meant
BESIDE = "beside"  # what is left of such a text behind its calls, where with them it is no answer
_TAIL = 40  # characters of broken arguments that the model is shown
# Ends that are none: the reply stopped before it was whole.
_CUT = frozenset(["length", "content_filter", "abort", "error"])
_QUOTE_MIN = 12  # characters that a text must share with a call to be what it was copied from
_ADVICE = (
    "To call it, use the tool interface, or send the call alone and nothing behind it. "
    "If no call was meant, answer in words."
)
# JSON in which the name of a tool stands as in a call.
_KEYED_NAME = re.compile(
    r"\\?\"(?:name|tool|function|action|tool_name)\\?\"\s*:\s*\\?\"[\w.:/-]+\\?\"\Z"
)
_SPACE_OR_SIGNS = re.compile(r"\\[nrt]|[\s\\\"']+")


@dataclass(slots=True)
class _Call:
    """A call on its way: what was written, and what was changed in it so far."""

    name: str
    args: str | Mapping[str, Any]
    id: str = ""
    closed: bool = False
    texts: bool = False
    wrong: str = ""
    changes: list[str] = field(default_factory=list)


def repair(
    reply: AIMessage,
    tools: Sequence[KnownTool],
    history: Sequence[AnyMessage] = (),
    *,
    text_calls: bool = True,
) -> AIMessage:
    """Turn the calls of `reply` into calls that can run and calls that cannot.

    In: `additional_kwargs["raw_tool_calls"]`, a list of {"id", "name", "args": text}, and the text.
    `history` is what the model had read: a call that it copied from there is a quotation. Without
    `text_calls` a call in the text is text.

    Out: a copy with the same id. `tool_calls` are whole, of known tools, and fit their schemas;
    `invalid_tool_calls` are the rest, `error` being the text for the model. Ids are non-empty and
    unique within the message. `additional_kwargs["repaired"]` says by call id what was changed;
    `["doubtful"]` is there where calls in the text may not be meant, and is that text; with
    `["beside"]` the text is no answer as it stands, and the content and this are what is left of
    it. Entries without a name are dropped. A reply without any call comes back as it is.
    """
    if reply.tool_calls:
        return reply
    raw = reply.additional_kwargs.get(RAW)
    calls = [
        _Call(entry["name"].strip(), entry["args"], str(entry["id"]))
        for entry in raw or []
        if entry["name"].strip()
    ]
    cut = reply.response_metadata.get("finish_reason") in _CUT
    text = str(reply.text)
    found = _in_text(text, tools, history, cut) if text_calls else None
    doubtful = text if found and found.doubt and not calls else ""
    beside = found.beside if found and doubtful else None
    if found and (not calls or _is_said_twice(found, calls)):
        calls = calls or _written(found, tools)
        text = found.before
    if raw is None and not calls:
        return reply
    good, bad, repaired = _sorted_out(calls, tools, cut, reply.id or "")
    kwargs = {k: v for k, v in reply.additional_kwargs.items() if k != RAW}
    kwargs |= {REPAIRED: repaired} if repaired else {}
    kwargs |= {DOUBTFUL: doubtful} if doubtful else {}
    kwargs |= {BESIDE: beside} if beside is not None else {}
    update: dict[str, Any] = {"additional_kwargs": kwargs}
    update |= {"tool_calls": good, "invalid_tool_calls": bad}
    if text != str(reply.text):
        update["content"] = text
    return reply.model_copy(update=update)


def _sorted_out(
    calls: Sequence[_Call], tools: Sequence[KnownTool], cut: bool, message_id: str
) -> tuple[list[ToolCall], list[InvalidToolCall], dict[str, str]]:
    """The calls that can run, those that cannot, and what was changed in the first."""
    good: list[ToolCall] = []
    bad: list[InvalidToolCall] = []
    repaired: dict[str, str] = {}
    ids = unique_ids(message_id, [call.id for call in calls])
    for call, call_id in zip(calls, ids, strict=True):
        try:
            args = _checked(call, tools, cut)
        except Wrong as wrong:
            text = call.args if isinstance(call.args, str) else json.dumps(call.args, default=str)
            entry = InvalidToolCall(
                name=call.name, args=text, id=call_id, error=str(wrong), type="invalid_tool_call"
            )
            bad.append(entry)
        else:
            good.append(ToolCall(name=call.name, args=args, id=call_id, type="tool_call"))
            if call.changes:
                repaired[call_id] = "; ".join(call.changes)
    return good, bad, repaired


# -- calls in the text ----------------------------------------------------------------------------


def _in_text(
    text: str, tools: Sequence[KnownTool], history: Sequence[AnyMessage], cut: bool
) -> Found | None:
    """The calls in the text of a reply, if that is what it is."""
    try:
        found = find(text, tools) or (cut_call(text, tools) if cut else None)
    except RecursionError:  # marks within marks within marks
        return None
    if found is None or found.broken or not found.calls:
        return found
    results = [_without_signatures(m, tools) for m in history if isinstance(m, ToolMessage)]
    if any(_is_quoted(found, result) for result in results):
        return None
    prompts = [m for m in history if isinstance(m, HumanMessage)]
    if found.doubt:
        return found
    if any(_is_retold(found, result) for result in results):
        return replace(found, doubt="it stands in what a tool gave")
    quoted = [str(m.text) for m in prompts if _is_quoted(found, str(m.text))]
    if quoted and (found.before or any(map(has_marks, quoted))):
        return replace(found, doubt="it is the user's own text")
    if has_placeholder(found.calls, [str(m.text) for m in prompts]):
        return replace(found, doubt="an argument of it only stands for a value", beside="")
    why = _why_shown(str(prompts[-1].text), found) if prompts else ""
    return replace(found, doubt=why) if why else found


def _why_shown(prompt: str, found: Found) -> str:
    """Why a prompt may want to see a call and not to have it run; "" where it does not."""
    if asks_about_calls(prompt):
        return "the user asks about such calls"
    if wants_to_see(prompt):
        return "the user only wants to see it"
    if not found.is_marked and wants_code(prompt):
        return "the user asks for code or data"
    return ""


def _without_signatures(message: ToolMessage, tools: Sequence[KnownTool]) -> str:
    """The text of a result without what we say of tools in it: `git_status()` is no call there."""
    text = str(message.text)
    for tool in tools:
        if tool.name in text:
            text = text.replace(signature(tool), "")
    return text


def _is_retold(found: Found, text: str) -> bool:
    """Whether a text has a call of the same tool and values in another form."""
    for call in found.calls:
        named = re.search(rf"(?<![\w]){re.escape(call.name)}(?![\w])", text)
        is_call = named and (has_marks(text) or _KEYED_NAME.search(text[: named.end() + 1]))
        if is_call and all(value in text for _, value in texts_of(call)):
            return True
    return False


def _is_quoted(found: Found, text: str) -> bool:
    """Whether a text has one of these very calls, however it is wrapped and escaped there."""
    text = _bare(text)
    return any(len(form) >= _QUOTE_MIN and form in text for form in _forms_of(found))


def _forms_of(found: Found) -> Iterator[str]:
    """The calls as they may be written elsewhere: as they stand, and each in the usual JSON."""
    yield from map(_bare, found.bodies)
    for call in found.calls:
        if call.args is not None:
            args = call.args
            text = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)
            for key in ("arguments", "parameters"):
                yield _bare(f"name:{call.name},{key}:{text}")


def _bare(text: str) -> str:
    return _SPACE_OR_SIGNS.sub("", text)


def _is_said_twice(found: Found, calls: Sequence[_Call]) -> bool:
    """Whether the text only repeats the native calls, as some servers do."""
    return not found.broken and [key(c.name) for c in found.calls] == [key(c.name) for c in calls]


def _written(found: Found, tools: Sequence[KnownTool]) -> list[_Call]:
    """The calls of a text, each with the reason why it is not run, if there is one."""
    wrong = ""
    if found.broken:
        wrong = f"your text has a tool call that cannot be read: {found.broken}."
    elif found.doubt:
        wrong = f"your text has a tool call, but {found.doubt}."
    calls = []
    for one in found.calls or [Written("", None)]:
        tool = match(one.name, tools)
        takes = f" It takes {signature(tool)}." if tool else ""
        calls.append(
            _Call(
                one.name,
                one.args or "",
                closed=one.closed,
                texts=one.texts,
                wrong=f"Nothing was run: {wrong}{takes} {_ADVICE}" if wrong else "",
                changes=["it was written as text", *([one.mended] if one.mended else [])],
            )
        )
    return calls


# -- one call -------------------------------------------------------------------------------------


def _checked(call: _Call, tools: Sequence[KnownTool], cut: bool) -> dict[str, Any]:
    """The arguments as the tool takes them; the call gets the tool's own name.

    Raises Wrong with the text for the model.
    """
    tool = match(call.name, tools)
    if tool is not None and tool.name != call.name:
        call.changes.append(f"{call.name} read as {tool.name}")
        call.name = tool.name
    if cut:
        raise Wrong(
            f"Your output was cut at the output limit, so {call.name or 'your call'} was not run. "
            "Send the call again with less in it: smaller pieces, one after the other."
        )
    if call.wrong and (tool is not None or not call.name):
        raise Wrong(call.wrong)
    if tool is None:
        raise unknown(call.name, tools)
    args = call.args if isinstance(call.args, Mapping) else _parsed(call, tool)
    if call.texts:
        args = _read_texts(tool, args)
    return fit(tool, dict(args), call.changes.append)


def _parsed(call: _Call, tool: KnownTool) -> dict[str, Any]:
    """The arguments, which must be one JSON object; nothing at all counts as {}."""
    text = str(call.args)
    if not text.strip():
        return {}
    try:
        args, mended = json_text.read(text, closed=call.closed)
        if isinstance(args, str) and args.strip().startswith("{"):
            args, mended = json_text.read(args)[0], "its arguments were JSON in a text"
    except ValueError as exc:
        tail = " ".join(text[-_TAIL:].split())
        raise Wrong(
            f"{call.name} was not run: its arguments were not whole JSON ({exc}); they end with: "
            f"{tail} It takes {signature(tool)}. Send the call again with one complete JSON object."
        ) from exc
    if not isinstance(args, dict):
        raise Wrong(
            f"{call.name} was not run: its arguments must be one JSON object. "
            f"It takes {signature(tool)}. Send the call again."
        )
    if mended:
        call.changes.append(mended)
    return args


def _read_texts(tool: KnownTool, args: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments without quotes: text where the schema takes text, otherwise the JSON they are."""
    schema, known = Schema(tool.schema), properties(tool.schema)
    out: dict[str, Any] = {}
    for name, value in args.items():
        part = known.get(name)
        if isinstance(value, str) and part is not None and not schema.fits(value, part):
            try:
                out[name] = storable(tool.name, json_text.loads(value))
                continue
            except (ValueError, RecursionError):
                pass
        out[name] = value
    return out
