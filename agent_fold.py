"""The summary of the oldest turns: how it is asked for, what is accepted, how the model sees it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from agent_clip import clip_result
from context import text_of

_WANTED = (
    "Write a summary of this conversation up to here. It will replace the older messages.\n"
    "Keep, exactly as written: names, identifiers, file paths, addresses, amounts, dates, times.\n"
    "Keep what the user wants, what was found out, what was decided, and what is still open.\n"
    "Leave out greetings, how tools were called, and what was corrected later.\n"
    "Plain text in the language of the conversation, at most {chars} characters. Begin with the "
    "summary itself. Call no tool."
)
_EXTEND = (
    "\nThe summary so far is below. Keep what it says unless it has changed, and add what is new.\n"
    "---\n{previous}\n---"
)


def instruction(previous: str, limit_chars: int) -> str:
    """The user message that asks for a summary of at most `limit_chars` characters.

    `previous` is the summary that the new one shall extend; empty while there is none.
    """
    text = _WANTED.format(chars=limit_chars)
    return text + _EXTEND.format(previous=_inert(previous.strip())) if previous.strip() else text


def piece(messages: Sequence[AnyMessage], chars: int) -> str:
    """`messages` as a text of at most `chars` characters, for when the view itself does not fit.

    Results give way first, each clipped by what it is; then the longest of the rest.
    """
    parts = [(label, text) for m in messages for label, text in _parts(m)]
    if not parts:
        return ""
    sizes = [len(text) for _, text in parts]
    fixed = sum(len(label) + 2 for label, _ in parts)
    cap = _cap(sizes, chars - fixed)
    lines = [f"{label}: {clip_result(text, cap)}" for label, text in parts]
    return clip_result("\n".join(lines), chars)


def _parts(message: AnyMessage) -> list[tuple[str, str]]:
    text = text_of(message.content).strip()
    if isinstance(message, HumanMessage):
        return [("User", text)]
    if isinstance(message, ToolMessage):
        return [(f"Result of {message.name or 'a tool'}", text)]
    calls = [(f"Call of {c['name']}", str(c["args"])) for c in getattr(message, "tool_calls", ())]
    return ([("Assistant", text)] if text else []) + calls


def _cap(sizes: Sequence[int], room: int) -> int:
    """The largest length to which all texts can be cut so that together they fit `room`."""
    left, parts = max(room, 0), len(sizes)
    for size in sorted(sizes):
        if size * parts > left:
            return left // parts
        left -= size
        parts -= 1
    return max(sizes)


# -- what is accepted -----------------------------------------------------------------------------

_THINKING = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.I)
_TEXT_CALL = re.compile(
    r"<tool_call|<function|\[TOOL_CALLS\]|<\|python_tag\|>|<\|tool|\{\s*\"(?:name|function|tool)\"\s*:"
    r"|\"arguments\"\s*:\s*[{\"]",
    re.I,
)
_REFUSAL = re.compile(
    r"^\W*(?:i(?:'m| am)? (?:can(?:'|no)?t|unable|sorry|not able)|sorry|i apologi[sz]e|as an ai"
    r"|i (?:do not|don'?t) have|ich kann (?:das |dies |leider )?nicht|es tut mir leid|tut mir leid"
    r"|entschuldigung|leider kann ich|抱歉|对不起|申し訳)",
    re.I,
)
_PREAMBLE = re.compile(
    r"^\W*(?:sure|certainly|of course|okay|ok|gern|natürlich)?\W*(?:here(?:'s| is)|this is|hier ist"
    r"|below is|summary|zusammenfassung|updated summary)\b[^\n:]{0,80}:\W*\n?",
    re.I,
)


def accepted(reply: AIMessage, replaced_chars: int) -> str:
    """The text of a usable summary, or "" if nothing should change.

    Not usable: empty, an error, a tool call (also one written as text), cut off at the output
    limit, as long as the `replaced_chars` characters that it replaces, a refusal, one line over
    and over.
    """
    if reply.additional_kwargs.get("status", "ok") != "ok" or _is_call(reply):
        return ""
    if reply.response_metadata.get("finish_reason") in ("length", "tool_calls", "content_filter"):
        return ""
    text = _without_wrapping(text_of(reply.content))
    if not text or len(text) >= replaced_chars or _TEXT_CALL.search(text):
        return ""
    return "" if _REFUSAL.match(text) or _repeats(text) else text


def _is_call(reply: AIMessage) -> bool:
    raw = reply.additional_kwargs.get("raw_tool_calls")
    return bool(reply.tool_calls or reply.invalid_tool_calls or raw)


def _without_wrapping(text: str) -> str:
    """Without reasoning, a fence around it and words about itself."""
    text = _THINKING.sub("", text).strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        text = text[text.index("\n") : -3].strip()
    return _PREAMBLE.sub("", text, count=1).strip()


def _repeats(text: str) -> bool:
    """One line, or one sentence, makes more than half of a text of at least four."""
    pieces = [" ".join(p.split()).casefold() for p in re.split(r"\n|(?<=[.!?。])\s", text)]
    pieces = [p for p in pieces if p]
    most = max((pieces.count(p) for p in set(pieces[:200])), default=0)
    return len(pieces) >= 4 and most * 2 > len(pieces)


# -- how the model sees it ------------------------------------------------------------------------

_OPENING = "<earlier_conversation>"
_CLOSING = "</earlier_conversation>"
_MARKS = re.compile(r"[<＜‹](?=\s{0,4}[/|]|\s{0,4}earlier_conversation)", re.I)


def fence(summary: str, facts: Sequence[str]) -> str:
    """The block before the first kept user message: what was before it, as background.

    A text inside that imitates the fence, or the marks of a chat template, does not end it.
    """
    lines = [_OPENING, "Notes on the earlier turns, for reference. The user's message comes below."]
    if summary.strip():
        lines.append(_inert(summary.strip()))
    if facts:
        lines.append("Facts:")
        lines.extend(f"- {_inert(' '.join(fact.split()))}" for fact in facts)
    return "\n".join([*lines, _CLOSING]) + "\n\n"


def _inert(text: str) -> str:
    return _MARKS.sub("(", text)
