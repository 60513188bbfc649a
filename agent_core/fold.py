"""The summary of the oldest turns: how it is asked for, what is accepted, how the model sees it."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from agent_core.clip import clip_result
from agent_core.cut import level
from context import text_of

_OPENING, _CLOSING = "<earlier_conversation>", "</earlier_conversation>"
# Lines and not prose: of a model of 1.5B, asked for a summary, came the last message and little
# else; asked for notes from the first message on, most of what was said.
_WANTED = (
    "Write notes on everything above, any background at its start included. They will stand in for "
    "the older messages.\n"
    "- One short line for each fact, from the first message to the last.\n"
    "- Word for word: names, identifiers, file paths, addresses, amounts, dates and times.\n"
    "- Also what the user wants, what was found out, what was decided, and what is still open.\n"
    "- No greetings, no tool calls, nothing that was corrected later.\n"
    "Plain text in the language of the conversation, at most {chars} characters, no introduction. "
    "Do not call a tool."
)
_EXTEND = (
    "\nThese are the notes so far. Take over what still holds, then add what is new:\n"
    f"{_OPENING}\n{{previous}}\n{_CLOSING}"
)


def instruction(previous: str, limit_chars: int) -> str:
    """The user message behind the view that asks for a summary of at most `limit_chars` characters.

    `previous` is the summary that the new one extends; empty while there is none.
    """
    text = _WANTED.format(chars=limit_chars)
    if not previous.strip():
        return text
    return text + _EXTEND.format(previous=_inert(previous.strip()))


# -- what is folded, when the view does not fit ---------------------------------------------------

_SPOKEN = 0.6  # part of the room that prompts and answers take before results get any


def piece(messages: Sequence[AnyMessage], chars: int) -> str:
    """`messages` as one text of at most `chars` characters: who said what, in order.

    Results give way first, each clipped by what it is; what was said is clipped only where it
    alone takes more than its share.
    """
    parts = [part for message in messages for part in _parts(message)]
    room = chars - sum(len(label) + 3 for label, _, _ in parts)
    spoken = [len(text) for _, text, is_result in parts if not is_result]
    results = [len(text) for _, text, is_result in parts if is_result]
    share = max(int(room * _SPOKEN), room - sum(results))
    of_spoken = int(level(spoken, share))
    of_results = int(level(results, room - sum(min(size, of_spoken) for size in spoken)))
    lines = [
        f"{label}: {clip_result(text, of_results if is_result else of_spoken)}"
        for label, text, is_result in parts
    ]
    return clip_result("\n".join(lines), max(chars, 0))


def _parts(message: AnyMessage) -> list[tuple[str, str, bool]]:
    """Who says it, what, and whether it is a result or a call and not something said."""
    text = text_of(message.content).strip()
    if isinstance(message, HumanMessage):
        return [("User", text, False)]
    if isinstance(message, ToolMessage):
        handle = message.additional_kwargs.get("handle") or ""
        return [(" ".join(filter(None, ("Result", handle, message.name))), text, True)]
    calls = getattr(message, "tool_calls", ())
    said = [("Assistant", text, False)] if text else []
    return said + [(f"Call of {call['name']}", str(call["args"]), True) for call in calls]


# -- what is accepted -----------------------------------------------------------------------------

_THINKING = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_CALL = re.compile(
    r"</?tool_call|<function[=_ ]|\[TOOL_CALLS?\]|<\|python_tag\|>|<\|tool|```tool_code"
    r"|\"(?:name|function|tool)\"\s{0,9}:\s{0,9}\"[^\"]{1,64}\"\s{0,9},\s{0,9}\"(?:arg|param|input)"
    r"|\A\s{0,9}\w{1,64}\([^\n]{0,2000}\)\s{0,9}\Z",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"\W{0,9}(?:i(?:['’]m| am)? (?:can(?:['’]|no)?t|unable|sorry|not able)\b|sorry\b|i apologi[sz]e"
    r"|as an ai\b|i (?:do not|don['’]?t) have|there is nothing to|ich kann (?:\w{1,12} )?nicht"
    r"|(?:es )?tut mir leid|entschuldigung|leider kann ich|抱歉|对不起|申し訳)",
    re.IGNORECASE,
)
_PREAMBLE = re.compile(
    r"[\s*#]{0,9}(?:(?:sure|certainly|of course|okay|ok|gern|natürlich)\b[\s,.!*]{0,9})?"
    r"(?:(?:here(?:['’]s| is| are)|below (?:is|are)|this is|these are|hier (?:ist|sind)) "
    r"[^\n:]{0,40})?(?:(?:the |an? |my )?(?:new |updated )?"
    r"(?:summary|notes|zusammenfassung|notizen))\b[^\n:]{0,60}:[\s*]{0,9}",
    re.IGNORECASE,
)
_OFFER = re.compile(
    r"\n\s{0,9}(?:let me know|feel free|is there anything|i hope this|if you (?:need|have|want)"
    r"|lass(?:en sie)? mich wissen|wenn du|falls du)[^\n]{0,200}\Z",
    re.IGNORECASE,
)
_LEAST_RATIO = 0.12  # a text that is packed into less of its size says the same over and over


def accepted(reply: AIMessage, replaced_chars: int) -> str:
    """The text of a usable summary, or "" if nothing should change.

    Not usable: empty, an error, a tool call (also one written as text), cut off at the output
    limit, as long as the `replaced_chars` characters that it stands in for, a refusal, the request
    itself, one line over and over.
    """
    if reply.additional_kwargs.get("status", "ok") != "ok" or _has_calls(reply):
        return ""
    if reply.response_metadata.get("finish_reason") in ("length", "tool_calls", "content_filter"):
        return ""
    text = _bare(text_of(reply.content))
    if not any(map(str.isalnum, text)) or len(text) >= replaced_chars:
        return ""
    is_other = _CALL.search(text) or _REFUSAL.match(text) or _WANTED[:40] in text
    return "" if is_other or _repeats(text) else text


def _has_calls(reply: AIMessage) -> bool:
    raw = reply.additional_kwargs.get("raw_tool_calls")
    return bool(reply.tool_calls or reply.invalid_tool_calls or raw)


def _bare(text: str) -> str:
    """Without reasoning, a fence around it, and words about itself."""
    text = _THINKING.sub("", text).strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        text = text[text.index("\n") : -3].strip()
    for tag in (_OPENING, _CLOSING):
        text = text.replace(tag, "")
    return _OFFER.sub("", _PREAMBLE.sub("", text.strip(), count=1)).strip()


def _repeats(text: str) -> bool:
    """Tell whether repeated lines or sentences make two fifths of a text, or it is all one."""
    pieces = [" ".join(part.split()).casefold() for part in re.split(r"\n|(?<=[.!?。])\s", text)]
    counts = Counter(part for part in pieces if len(part) > 3)
    again = sum(len(part) * (count - 1) for part, count in counts.items())
    packed = len(zlib.compress(text.encode("utf-8", "replace")))
    return again > 0.4 * len(text) or (len(text) > 600 and packed < _LEAST_RATIO * len(text))


# -- how the model sees it ------------------------------------------------------------------------

# The fence itself and the marks of chat templates: read as such, they would end the message.
_MARKS = re.compile(
    r"[<＜](?=\s{0,9}/?\s{0,9}earlier_conversation|\|)"
    r"|<(?=/?(?:s|think|thinking|tool_call|tool_response|start_of_turn|end_of_turn)>|<?/?SYS)"
    r"|\[(?=/?(?:INST|TOOL_CALLS|TOOL_RESULTS|AVAILABLE_TOOLS)\])",
    re.IGNORECASE,
)


def fence(summary: str, facts: Sequence[str]) -> str:
    """The block before the first kept prompt: what was said earlier, as background.

    Empty without summary and facts. A text inside that imitates the fence, or a mark of a chat
    template, ends nothing.
    """
    return _fence(summary, tuple(facts))


@lru_cache(maxsize=16)
def _fence(summary: str, facts: tuple[str, ...]) -> str:
    """Remembered: it stands in each view until the next step."""
    parts = [_inert(summary.strip())] if summary.strip() else []
    kept = [f"- {_inert(' '.join(fact.split()))}" for fact in facts if fact.strip()]
    if kept:
        parts.append("\n".join(["Facts:", *kept]))
    if not parts:
        return ""
    head = f"{_OPENING}\nBackground from earlier turns. The user's message follows below it."
    return "\n".join([head, *parts, _CLOSING]) + "\n\n"


def _inert(text: str) -> str:
    return _MARKS.sub("‹", text)
