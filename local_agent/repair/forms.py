"""Finds the tool calls that a model wrote into its text, and tells them from text about calls.

A call counts where it is the reply: it is the last thing in it, stands by itself, and names a tool
that is there. Whatever the reply only shows, quotes or explains is text. What may be either is a
doubt, and goes back to the model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from local_agent.call_marks import without_end

from . import json_text
from .blocks import Block, blocks_of
from .by_name import keyed, named_in_markup, tagged
from .intent import UNSAID, announces, doubt_of_intent, explains
from .names import close_names, match
from .phrases import doubt_of, shows
from .tools import KnownTool
from .written import NotACall, Written, guess, is_exact, read_block, read_calls

# What stands behind a call whose result the model has made up.
_MADE_UP = re.compile(
    r"(?:```\w*\s*|[*#<\[\s]*)(?:the |tool[ _])?(?:output|result|response|observation)s?\b", re.I
)
_BARE = re.compile(
    r"^[ \t]{0,3}(?=[\[{]|(?:call:)?[A-Za-z_][\w.]{0,127}(?: ?[({]|\n\{|\[ARGS\]|\[\{))", re.M
)
# Closes a call whose opening mark is lost: a model forgot it, or a server took it for a token.
_LONE_END = re.compile(
    r"\s*(?:</(?:\w+:)?(?:tool_calls?|function_calls?|tools)>|<tool_call\|>)\s*\Z", re.I
)
_BARE_STARTS = 20  # beginnings that are tried before a text is no bare call
_BEGINS_AS_CALL = re.compile(
    r"[\s\[{]*\"(?:name|tool|function|tool_name)\"\s*:\s*\"[^\"]*\"\s*,\s*"
    r"\"(?:arguments|parameters|args)\"\s*:"
)
_LOOKS_LIKE_CALL = re.compile(r"(?:[A-Za-z_][\w.]*\(.*\)|\{\s*\"name\"\s*:.*\})\s*\Z", re.S)
_DESCRIBES = re.compile(r"\"(?:description|properties)\"")
_INLINE = "it stood in the middle of a text"
_MORE = "there was more text behind it"
_UNREAD = "it cannot be read"
_NO_ANSWER = (_INLINE, _MORE, UNSAID)  # with it no text is an answer, if a tool is named
_ENDS_LINE = re.compile(r"[.!?…。！？:：][*_)\"”]*\Z")
_CODE_FENCES = ("tool_code", "tool_call", "tool_use")  # nothing but calls stands in them


@dataclass(frozen=True, slots=True)
class Found:
    """Calls in a text, and the text before them; `bodies` is what they were read from.

    doubt: why it is not certain that they are meant as calls; "" where it is. broken: why they
    cannot be read; `calls` then holds the name that is there, or nothing. beside: where the text
    is no answer with the calls in it, what is left of it behind them; None where it may be one.
    is_marked: they have marks of their own, which code and data have not.
    """

    before: str
    calls: Sequence[Written]
    bodies: Sequence[str]
    doubt: str = ""
    broken: str = ""
    beside: str | None = None
    is_marked: bool = True


def find(text: str, tools: Sequence[KnownTool]) -> Found | None:
    """The calls that `text` is, or may be meant to be; None where it is text."""
    whole = without_end(text)
    blocks, other_code = blocks_of(whole)
    calls = [b for b in blocks if _is_call(b, tools)]
    if not calls:
        return _tagged(whole, tools) or _bare(whole, tools) or _in_markup(whole, tools)
    before = whole[: calls[0].start]
    after = without_end(_LONE_END.sub("", whole[calls[-1].end :])).strip()
    between = any(whole[a.end : b.start].strip(" \t\r\n,;") for a, b in pairwise(calls))
    # Behind a call that is shown may stand one that is meant.
    last_before = whole[calls[-2].end : calls[-1].start] if len(calls) > 1 else ""
    if shows(before) and (calls[-1].kind == "fence" or not announces(last_before.strip())):
        return None
    is_only = not (between or other_code or len(calls) < len(blocks))
    in_code = any(block.kind == "fence" for block in calls)
    is_reply = is_only and (not after or _breaks_off(before, after))
    if in_code and not is_reply and not _MADE_UP.match(after):
        return None
    is_spoken = is_only and not before.strip() and _may_be_spoken(calls, after)
    doubt = _doubt(before, (bool(after) and not is_spoken) or between, calls)
    is_shown = doubt not in _NO_ANSWER or (bool(after) and explains(after))
    beside = None if is_shown else _beside(after)
    return _read(before, calls, doubt, tools, beside)


def _breaks_off(before: str, after: str) -> bool:
    """Whether a call in code may be meant though text stands behind it: nothing shows it."""
    return not explains(after) and not doubt_of(before) and not doubt_of_intent(before)


def _may_be_spoken(blocks: Sequence[Block], after: str) -> bool:
    """Whether the text behind calls is the sentence that a model says with them by its documents.

    It is dropped: where it tells a result, that is made up.
    """
    is_so = all(block.mark and block.mark.speaks and block.closed for block in blocks)
    return is_so and bool(after) and "\n\n" not in after and not explains(after)


def _beside(after: str) -> str:
    """What is left of the text behind a call: not what a model made up for a result."""
    return "" if _MADE_UP.match(after) else after


def cut_call(text: str, tools: Sequence[KnownTool]) -> Found | None:
    """The call that a reply was in when it was cut; None where it was in none."""
    blocks, _ = blocks_of(text)
    last = blocks[-1] if blocks and not blocks[-1].closed else None
    if last is None or last.kind == "fence":
        body, start = (last.body, last.start) if last else (text, 0)
        name = guess(body)
        is_call = match(name, tools) is not None and _BEGINS_AS_CALL.match(body)
        return Found(text[:start].rstrip(), [Written(name, None)], [body]) if is_call else None
    name = last.name or guess(last.body)
    if last.mark and last.mark.plain and not match(name, tools):
        return None
    return Found(text[: last.start].rstrip(), [Written(name, None)] if name else [], [last.body])


def _doubt(before: str, more: bool, blocks: Sequence[Block]) -> str:
    if more:
        return _MORE
    if any(block.place == "inline" for block in blocks):
        return _INLINE
    if before.strip() and any(block.info == "python" for block in blocks):
        return "it stood there as code"
    if any(block.is_shown for block in blocks):
        return "it stood there as code"
    return doubt_of(before) or doubt_of_intent(before)


def _is_call(block: Block, tools: Sequence[KnownTool]) -> bool:
    """Whether a block is a call, or meant as one: a fence has to name a tool that is there, and a
    mark in a sentence has to name any."""
    is_plain = block.mark is not None and block.mark.plain
    try:
        calls = _read_block(block, tools)
    except NotACall as exc:
        if is_plain:
            return match(exc.name, tools) is not None
        if block.kind == "mark":
            return bool(exc.name) or block.place == "line"
        begins = block.info in _CODE_FENCES or bool(_BEGINS_AS_CALL.match(block.body))
        return match(exc.name, tools) is not None and begins
    if is_plain:
        return all(match(call.name, tools) for call in calls)
    is_ours = _are_ours(calls, tools) or _is_near(block.body, calls, tools)
    return block.kind == "mark" or is_ours


def _read_block(block: Block, tools: Sequence[KnownTool]) -> list[Written]:
    """The calls in a block, also in the forms that the names of the tools tell. Raises NotACall."""
    try:
        return read_block(block)
    except NotACall:
        if calls := keyed(block.body, tools):
            return calls
        body = block.body.strip()
        inner = tagged(body, tools)
        if inner and not inner.broken and (inner.start, inner.end) == (0, len(body)):
            return [inner.call]
        raise


def _are_ours(calls: Sequence[Written], tools: Sequence[KnownTool]) -> bool:
    return all(call.args is not None and match(call.name, tools) for call in calls)


def _is_near(body: str, calls: Sequence[Written], tools: Sequence[KnownTool]) -> bool:
    """Whether an unknown name is surely one of ours misspelt."""
    names = [tool.name for tool in tools]
    return len(calls) == 1 and is_exact(body) and bool(close_names(calls[0].name, names))


def _read(
    before: str,
    blocks: Sequence[Block],
    doubt: str,
    tools: Sequence[KnownTool],
    beside: str | None,
) -> Found:
    """What the blocks say; broken as a whole where one of them is."""
    bodies = [block.body for block in blocks]
    try:
        calls = list(_calls(blocks, tools))
    except NotACall as exc:
        named = [Written(exc.name, None)] if exc.name else []
        unread = doubt or _doubt_of(bodies[0])
        if beside is None and unread == _UNREAD and not _DESCRIBES.search(bodies[0]):
            beside = ""
        return Found(before.rstrip(), named, bodies, unread, str(exc), beside)
    is_marked = all(block.kind == "mark" for block in blocks)
    return Found(before.rstrip(), calls, bodies, doubt, beside=beside, is_marked=is_marked)


def _calls(blocks: Sequence[Block], tools: Sequence[KnownTool]) -> Iterator[Written]:
    for block in blocks:
        # An empty one beside others: an opening mark where a closing one was meant.
        if block.body.strip() or block.name or len(blocks) == 1:
            yield from _read_block(block, tools)


def _doubt_of(body: str) -> str:
    """Why it is not certain that what cannot be read is a call; "" where it begins as one."""
    return "" if _BEGINS_AS_CALL.match(body) else _UNREAD


def _is_meant(body: str, name: str, tools: Sequence[KnownTool]) -> bool:
    """Whether a reply that is no readable call names one of our tools as a call does."""
    if match(name, tools) is None or _DESCRIBES.search(body):
        return False
    one_line = len(body.split("\n")) == 1
    return bool(_BEGINS_AS_CALL.match(body)) or (one_line and bool(_LOOKS_LIKE_CALL.match(body)))


def _bare(whole: str, tools: Sequence[KnownTool]) -> Found | None:
    """Calls without marks: JSON or Python notation that is the reply, or its last lines."""
    for start in [m.end() for m in _BARE.finditer(whole)][:_BARE_STARTS]:
        before, body = whole[:start], whole[start:]
        if "```" in before or shows(before):
            continue
        doubt = doubt_of(before) or _bare_doubt(before, body) or doubt_of_intent(before)
        inner = _LONE_END.sub("", body)
        try:
            calls = read_calls(inner, closed=inner != body)
        except NotACall as exc:
            if calls := keyed(inner, tools):
                return Found(before.rstrip(), calls, [body], doubt, is_marked=False)
            if found := _begun(before, body, tools):
                return found
            if not before.strip() and _is_meant(body, exc.name, tools):
                doubt = doubt or _doubt_of(body)
                beside = (
                    "" if body[:1] not in "{[" else None
                )  # JSON may be the data that was asked for
                return Found("", [Written(exc.name, None)], [body], doubt, str(exc), beside)
            continue
        if _are_ours(calls, tools) or (not before.strip() and _is_near(body, calls, tools)):
            beside = "" if doubt in _NO_ANSWER else None
            return Found(before.rstrip(), calls, [body], doubt, beside=beside, is_marked=False)
    return None


def _begun(before: str, body: str, tools: Sequence[KnownTool]) -> Found | None:
    """A call as JSON at the beginning of a reply that goes on with other lines."""
    if before.strip() or body[:1] != "{":
        return None
    try:
        _, end = json_text.starts(body)
        text, after = body[:end], body[end:]
        calls = keyed(text, tools) or read_calls(text)
    except (ValueError, RecursionError, NotACall):
        return None
    if not after.lstrip(" \t").startswith("\n") or explains(after.strip()):
        return None
    ours = _are_ours(calls, tools)
    return Found("", calls, [text], _MORE, beside=_beside(after.strip())) if ours else None


def _tagged(whole: str, tools: Sequence[KnownTool]) -> Found | None:
    """A call between tags with the name of a tool."""
    found = tagged(whole, tools)
    before = whole[: found.start] if found else ""
    if found is None or "```" in before or shows(before):
        return None
    after = _LONE_END.sub("", whole[found.end :]).strip()
    if after and explains(after):
        return None
    doubt = _MORE if after else doubt_of(before) or doubt_of_intent(before)
    beside = _beside(after) if doubt in _NO_ANSWER else None
    body = whole[found.start : found.end]
    if found.broken:
        doubt, beside = doubt or _UNREAD, beside or ""
    return Found(before.rstrip(), [found.call], [body], doubt, found.broken, beside)


def _in_markup(whole: str, tools: Sequence[KnownTool]) -> Found | None:
    """A reply that names a tool and is nothing but markup, in no form that is known."""
    name = named_in_markup(whole, tools)
    if not name or _DESCRIBES.search(whole):
        return None
    why = "it is no call in a form that is known"
    return Found("", [Written(name, None)], [whole], _UNREAD, why, "")


def _bare_doubt(before: str, body: str) -> str:
    """Why a call without marks behind a text may be a part of it: the line before does not end.

    JSON behind an empty line stands by itself; what looks like code may have code before it.
    """
    lines = before.rstrip(" \t").split("\n")
    if not before.strip() or (body[:1] in "{[" and not lines[-1] and not lines[-2].strip()):
        return ""
    return "" if _ENDS_LINE.search(before.rstrip()) else _INLINE
