"""What each model call took, in tokens: by part, how much of it was as before, and what changed.

A server with one slot has the last prompt it read, of whatever thread, and reads anew what stands
behind the first difference from it. The ledger compares each request with the one before on its
thread and says what changed it, and with the server's own figures where they come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage

from agent_core.prompt import Request
from agent_core.view import EMPTY, LAST_CALL, NO_TOOL, SAID, Kind, View, last_prompt
from context import TOOL_HEAD, Window, count_tokens, text_of, weigh, weigh_tool

_LINES = (  # behind a message, with what they are called
    (LAST_CALL, "last call line"),
    (NO_TOOL, "no tool line"),
    (SAID, "made again line"),
    (EMPTY, "empty reply line"),
)
_THREADS = 8  # whose last request is remembered
_REMEMBERED = 32  # requests in between that can be named


@dataclass(frozen=True, slots=True)
class Entry:
    """One request. All numbers are tokens by our estimate, but for those the server gave.

    `kind` is "turn", "summary" or "retry". `tools` are by server. `history` is what was before this
    turn, without `summary`. `unchanged` is what was the same as in the request before on this
    thread, from the start; `changed_by` names the first difference, empty where there is none.
    `between` names what the server read since then. `shortened` has the results that are not whole,
    by handle or message id. `reread` is what stood in that request too and is read anew because the
    tools before it changed. `read` and `cached` are what the server said it read of the prompt anew
    and had, None where it said nothing; `timings` are llama.cpp's.
    """

    thread: str
    kind: str
    system: int
    tools: Mapping[str, int]
    summary: int
    history: int
    turn: int
    reply_reserve: int
    context_length: int
    unchanged: int
    changed_by: str
    between: tuple[str, ...]
    shortened: Mapping[str, Kind]
    reread: int = 0
    input_tokens: int | None = None
    read: int | None = None
    cached: int | None = None
    timings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return self.system + sum(self.tools.values()) + self.summary + self.history + self.turn


class Ledger:
    """The last request of each of the last threads; noting one costs what it holds."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[Request, Entry, int]] = {}
        self._log: deque[tuple[int, str]] = deque(maxlen=_REMEMBERED)
        self._count = 0
        self._changes: dict[str, tuple[int, int]] = {}

    def changes(self, thread: str) -> tuple[int, int]:
        """How often the tools of `thread` changed in this process, and the tokens it cost."""
        return self._changes.get(thread, (0, 0))

    def last(self, thread: str) -> Entry | None:
        """The last request of a turn on `thread`; None before the first one in this process."""
        found = self._last.get(thread)
        return found[1] if found else None

    def preview(self, thread: str, request: Request, window: Window) -> Entry:
        """What `request` would be if it went out now."""
        before = self._last.get(thread)
        return _entry(thread, "turn", request, window, before[0] if before else None, ())

    def side_call(self, name: str) -> None:
        """Note that the server read another prompt: of the router, say."""
        self._count += 1
        self._log.append((self._count, name))

    def sent(self, thread: str, kind: str, request: Request, window: Window) -> Entry:
        """Note a request that goes out now; the server reads it also where no answer comes."""
        before, _, at = self._last.get(thread, (None, None, self._count))
        between = tuple(dict.fromkeys(name for number, name in self._log if number > at))
        entry = _entry(thread, kind, request, window, before, between)
        if kind == "summary":
            self.side_call(kind)
            return entry
        self.side_call(f"thread {thread}")
        if entry.changed_by == "tools":
            times, tokens = self.changes(thread)
            self._changes[thread] = (times + 1, tokens + entry.reread)
        self._last.pop(thread, None)
        self._last[thread] = (request, entry, self._count)
        while len(self._last) > _THREADS:
            oldest = next(iter(self._last))
            del self._last[oldest]
            self._changes.pop(oldest, None)
        return entry

    def answered(self, thread: str, reply: AIMessage) -> None:
        """Add what the server says with its `reply` to the last request of a turn on `thread`."""
        if found := self._last.get(thread):
            request, entry, at = found
            self._last[thread] = (request, replace(entry, **_figures(reply)), at)


def _entry(
    thread: str,
    kind: str,
    request: Request,
    window: Window,
    before: Request | None,
    between: tuple[str, ...],
) -> Entry:
    view, scale = request.view, window.scale
    first = last_prompt(view.messages)
    block = int(count_tokens(view.block) * scale)
    older = sum(map(weigh, view.messages[:first]))
    newer = sum(map(weigh, view.messages[first:]))
    head = TOOL_HEAD if request.offer.functions else 0
    unchanged, changed_by = _compare(before, request, scale) if before else (0, "first request")
    if before and kind == "summary":
        changed_by = "summary request"
    return Entry(
        thread=thread,
        kind=kind,
        system=int((weigh(request.system) + head) * scale),
        tools={server: int(w * scale) for server, w in request.offer.weights.items()},
        summary=block,
        history=int(older * scale) - (block if first else 0),
        turn=int(newer * scale) - (0 if first else block),
        reply_reserve=window.reply,
        context_length=window.context_length,
        unchanged=unchanged,
        changed_by=changed_by,
        between=between,
        shortened=_shortened(view),
        reread=_reread(before, request, scale) if before and changed_by == "tools" else 0,
    )


def _reread(before: Request, now: Request, scale: float) -> int:
    """The tokens of tools and messages behind the first other tool that were there before, too."""
    old, new = before.offer.functions, now.offer.functions
    tools = sum(weigh_tool(tool) for tool in new[_same_tools(old, new) :] if tool in old)
    same = 0.0
    for one, other in zip(before.view.messages, now.view.messages, strict=False):
        if not _is_same(one, other):
            break
        same += weigh(other)
    return int((tools + same) * scale)


def _same_tools(old: Sequence[Any], new: Sequence[Any]) -> int:
    """With how many tools both lists begin."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(old), len(new)))


def _figures(reply: AIMessage) -> dict[str, Any]:
    """What the server said of its reading: llama.cpp's timings before the usage."""
    usage, timings = reply.usage_metadata, reply.response_metadata.get("timings") or {}
    sent = usage["input_tokens"] if usage else None
    cached = usage.get("input_token_details", {}).get("cache_read") if usage else None
    cached = timings.get("cache_n", cached)
    read = sent - cached if sent is not None and cached is not None else None
    return {
        "input_tokens": sent,
        "read": timings.get("prompt_n", read),
        "cached": cached,
        "timings": timings,
    }


def _shortened(view: View) -> dict[str, Kind]:
    names = {m.id or "": m.additional_kwargs.get("handle") or m.id or "" for m in view.messages}
    return {names.get(i, i): kind for i, kind in view.kinds.items()}


def _compare(before: Request, now: Request, scale: float) -> tuple[int, str]:
    """The tokens that two requests have in common at their start, and what ends them."""
    if before.system.content != now.system.content:
        return 0, "system prompt"
    same = weigh(now.system)
    if before.offer.functions != now.offer.functions:
        kept = now.offer.functions[: _same_tools(before.offer.functions, now.offer.functions)]
        same += sum(map(weigh_tool, kept)) + (TOOL_HEAD if kept else 0)
        return int(same * scale), "tools"
    same += now.offer.weight + (TOOL_HEAD if now.offer.functions else 0)
    pairs = list(zip(before.view.messages, now.view.messages, strict=False))
    for old, new in pairs:
        if not _is_same(old, new):
            return int(same * scale), _why(old, new, before.view, now.view)
        same += weigh(new)
    if len(pairs) == len(before.view.messages):
        return int(same * scale), ""
    # Said once more word for word, with nothing of what was before it: that is folded.
    is_other = any(old.id != new.id for old, new in pairs)
    return int(same * scale), "folded" if is_other else "rewound"


def _is_same(old: AnyMessage, new: AnyMessage) -> bool:
    if old is new:
        return True
    calls = getattr(old, "tool_calls", None) == getattr(new, "tool_calls", None)
    return calls and old.type == new.type and old.content == new.content


def _why(old: AnyMessage, new: AnyMessage, before: View, now: View) -> str:
    """What made `new` stand where `old` stood."""
    texts = sorted((text_of(old.content), text_of(new.content)), key=len)
    for line, name in _LINES:
        if texts[1] == f"{texts[0]}\n\n{line}":  # also of a prompt that was said anew
            return name
    if old.id != new.id:
        if now.kinds.get(old.id or "") == "cut":
            return "cuts"  # left out with its results
        is_first = now.messages[0] is new
        return "folded" if is_first or before.block != now.block else "edited"
    if before.block != now.block:
        return "summary"
    kind, former = now.kinds.get(new.id or ""), before.kinds.get(new.id or "")
    if former and not kind:  # the request before failed, and the step that it took with it
        kind, former = former, None
    if kind == "cut" or (kind and kind != former):
        return {"stub": "stubs", "clipped": "clipped", "cut": "cuts"}[kind]
    for line, name in _LINES:
        if text_of(new.content).endswith(line) != text_of(old.content).endswith(line):
            return name
    return "edited"
