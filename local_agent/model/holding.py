"""Holds back streamed text that may turn out to be a tool call, so that no markup is shown.

Only looks at how a text begins; what it is in the end is decided when the reply is whole. Text that
can be no call goes on at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches

from local_agent.call_marks import CALL_FENCES, CALL_KEYS, LABELS, MARKS, is_quoted, lower

_FENCE = re.compile(
    r"(?:action:\s*)?(?P<sign>`{1,2}\Z|`{3,}|~{1,2}\Z|~{3,})[ \t]*(?P<info>[\w+-]*)", re.I
)
_FIRST_KEY = re.compile(r"[\[{\s]*(?:(?P<quote>\")(?P<key>[^\"]*)(?P<end>\")?)?")
_FIRST_PAIR = re.compile(r"[\[{\s]*\"(?P<key>[^\"]*)\"\s*:\s*\"(?P<value>[^\"]*)\"")
_ARGS, _FUNCTOOLS = "[ARGS]", "functools"  # behind a name by Mistral, before calls by Phi
_NAMESPACES = ("functions", "function", "defaultapi", "tools", "tool", "mcp", "api")
_NAMESPACE = re.compile(r"^(?:functions?|tools?|default_api|mcp|api)[.:/_-]+", re.I)
_WORD = re.compile(r"\[?([\w.]*)")
# A label before the name of a tool, and a call whose opening token was taken out by the server.
_LABEL = re.compile(
    r"[ *_#]{0,8}(?P<word>[a-z_ ]{0,16}?)[*_ ]{0,4}(?P<colon>:[*_ `\n]{0,6})?\Z", re.I
)
_LABELLED = re.compile(
    r"[ *_#]{0,8}[a-z_ ]{1,16}?[*_ ]{0,4}:[*_ `\n]{0,6}(?P<name>[\w.:/-]+)", re.I
)
_NOT_IN_KEY = re.compile(r"[\s_.:/-]+")


class Holder:
    """Feed it pieces of the answer; what can be shown goes to `show`.

    names: the tools that there are. `rest` gives what was held to the end.
    """

    def __init__(self, show: Callable[[str], None], names: Sequence[str] = ()) -> None:
        self._show = show
        self._names = [*names]
        self._keys = [_key(name) for name in names]
        tags = [lower(f"<{name}{end}") for name in names for end in "> /"]
        self._starts = [mark.start for mark in MARKS] + tags
        self._line = ""  # what was shown of the line that goes on
        self._held = ""
        self._is_call = False  # nothing more is shown
        self._code = ""  # the fence around the code that is being shown

    def feed(self, piece: str) -> None:
        """Take a piece of text."""
        self._held += piece
        while not self._is_call and self._held:
            count = self._harmless()
            if not count:
                return
            self._release(count)

    def rest(self) -> str:
        """What was held back, at the end of the reply."""
        held, self._held = self._held, ""
        return held

    def _release(self, count: int) -> None:
        text, self._held = self._held[:count], self._held[count:]
        lines = (self._line + text).split("\n")
        if self._code and len(lines) > 1 and lines[-2].strip() == self._code:
            self._code = ""
        self._line = lines[-1]
        self._show(text)

    def _harmless(self) -> int:
        """How many of the held characters can be shown; sets `_is_call` when none ever can."""
        if self._code:  # to the end of the line, which may be that of the code
            return self._held.find("\n") + 1 or len(self._held)
        if not self._line.strip():
            blank = len(self._held) - len(self._held.lstrip())
            if blank:
                return blank
            count = self._at_line_start()
            if count is not None:
                return count
        return self._in_line()

    def _at_line_start(self) -> int | None:
        """The same for text at the start of a line; None where it is no call that begins so."""
        held = self._held
        if fence := _FENCE.match(held):
            return self._fence(held, fence)
        if self._may_be_labelled(held):
            return 0
        if held[0] in "{[" and self._may_be_call(held):
            return 0
        return 0 if self._may_be_python(held) else None

    def _may_be_labelled(self, held: str) -> bool:
        """Whether a text may be `Action: name`, as far as it is there."""
        if label := _LABEL.match(held):
            word = label["word"].strip(" _").lower().replace("_", " ")
            return any(
                one == word or (not label["colon"] and one.startswith(word)) for one in LABELS
            )
        found = _LABELLED.match(held)
        if found is None or not lower(held[:40].lstrip(" *_#")).replace("_", " ").startswith(
            LABELS
        ):
            return False
        name = _key(_NAMESPACE.sub("", found["name"]))
        is_whole = found.end() < len(held)
        return name in self._keys or (not is_whole and any(k.startswith(name) for k in self._keys))

    def _may_be_python(self, held: str) -> bool:
        """Whether a text may be a call in Python notation, or a name and JSON."""
        word = _WORD.match(held)
        name = _key(_NAMESPACE.sub("", word.group(1))) if word else ""
        if not word or not word.group(1):
            return False
        if word.end() == len(held):
            starts = (*self._keys, *_NAMESPACES, _FUNCTOOLS)
            return any(start.startswith(name) for start in starts)
        behind = held[word.end() :].lstrip(" \n:=→")
        if name == _FUNCTOOLS:
            return behind[:1] in ("", "[")
        return name in self._keys and (
            behind[:1] in ("", "(", "{") or _ARGS.startswith(behind[: len(_ARGS)])
        )

    def _fence(self, held: str, fence: re.Match[str]) -> int | None:
        if len(fence["sign"]) < 3 or fence.end() == len(held):
            return 0  # it may go on
        if fence["info"].lower() not in CALL_FENCES:
            self._code = fence["sign"]
            return fence.end()
        body = held[fence.end() :]
        closing = re.search(rf"^[ \t]*{fence['sign']}[ \t]*$", body, re.M)
        if closing and body[closing.end() :].strip() and not self._names_a_tool(body):
            return fence.end() + closing.end()  # text goes on behind it: it only shows something
        if self._may_be_call(body):
            return 0
        self._code = fence["sign"]
        return fence.end()

    def _names_a_tool(self, body: str) -> bool:
        """Whether a closed block of code names a tool, so that what is behind it has to be seen."""
        return self._may_be_call(body) and any(name in body for name in self._names)

    def _may_be_call(self, text: str) -> bool:
        """Whether a text may be a call, as far as it is there."""
        text = text.lstrip()
        if text[:1] == "<":
            return True
        if text[:1] not in ("{", "[", ""):
            return "print(".startswith(text[:6]) or self._may_be_python(text)
        if (pair := _FIRST_PAIR.match(text)) and pair["key"] in CALL_KEYS:
            name = _key(pair["value"])
            near = any(key in name or name in key for key in self._keys)
            return name == "function" or near or bool(get_close_matches(name, self._keys, 1))
        found = _FIRST_KEY.match(text)
        if found is None or found["quote"] is None:
            return found is not None and found.end() == len(text)
        if found["end"]:
            return found["key"] in CALL_KEYS or found["key"] in self._names
        return any(key.startswith(found["key"]) for key in (*CALL_KEYS, *self._names))

    def _in_line(self) -> int:
        """The same for marks, which may stand anywhere but within quotes."""
        low = lower(self._held)
        line_end = low.find("\n")
        stop = len(low) if line_end < 0 else line_end + 1  # the next line is looked at by itself
        at = 0
        while at < stop:
            at = min((p for p in (low.find(sign, at) for sign in "<[>✿") if p >= 0), default=stop)
            if at >= stop:
                break
            behind = low[at:]
            quoted = is_quoted(self._line + self._held[:at])
            if not quoted and any(behind.startswith(start) for start in self._starts):
                self._is_call = at == 0
                return at
            if not quoted and any(start.startswith(behind) for start in self._starts):
                return at
            at += 1
        return stop


def _key(name: str) -> str:
    return _NOT_IN_KEY.sub("", name).casefold()
