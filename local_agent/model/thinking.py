"""Tells reasoning in <think> tags from the answer, while both stream in pieces of any size."""

from __future__ import annotations

import re
from typing import Literal

Kind = Literal["text", "thinking"]

_OPEN = re.compile(r"<think(?:ing)?>", re.I)
_CLOSE = re.compile(r"</think(?:ing)?>", re.I)
_TAGS = ("<think>", "<thinking>", "</think>", "</thinking>")


class ThinkSplitter:
    """Feed it pieces of content; it gives (kind, text) pieces in order.

    An opening tag counts at the start of the answer and at the start of a line, so that an answer
    about the tag stays whole; a closing one counts within reasoning, and, not behind a backtick,
    where none was opened (templates may open it in the prompt): all text so far was reasoning
    then. `opened` starts within reasoning, for a model that is known to do so.
    """

    def __init__(self, opened: bool = False) -> None:
        self.text = ""
        self.thinking = ""
        self.closed_only = False
        self._within = opened
        self._assumed = opened
        self._held = ""

    def feed(self, piece: str) -> list[tuple[Kind, str]]:
        """Take a piece; what may be the beginning of a tag is kept back."""
        self._held += piece
        out: list[tuple[Kind, str]] = []
        while self._step(out):
            pass
        return out

    def finish(self, whole: bool = True) -> list[tuple[Kind, str]]:
        """The end of the answer: what was kept back, and an assumption that did not hold.

        An answer that is not `whole` may have been cut within its reasoning.
        """
        out: list[tuple[Kind, str]] = []
        self._emit(self._held, out)
        self._held = ""
        if (
            whole and self._assumed and self._within
        ):  # it never closed: this was the answer after all
            self.text, self.thinking = self.thinking.lstrip(), ""
            out = [("text", self.text)] if self.text else []
        return out

    def _step(self, out: list[tuple[Kind, str]]) -> bool:
        """Handle the held text up to the next tag; False when there is none."""
        if self._within:
            found = _CLOSE.search(self._held)
            if found:
                self._emit(self._held[: found.start()], out)
                self._held = self._held[found.end() :]
                self._within = False
                return True
        else:
            opening = self._opening()
            closing = self._lone_close()
            if opening and (not closing or opening.start() < closing.start()):
                self._emit(self._held[: opening.start()], out)
                self._held = self._held[opening.end() :]
                self._within, self._assumed = True, False
                return True
            if closing:
                self.thinking += self.text + self._held[: closing.start()]
                self.text, self.closed_only = "", True
                self._held = self._held[closing.end() :]
                return True
        keep = _possible_tag(self._held)
        self._emit(self._held[: len(self._held) - keep], out)
        self._held = self._held[len(self._held) - keep :]
        return False

    def _opening(self) -> re.Match[str] | None:
        for found in _OPEN.finditer(self._held):
            before = (self.text + self._held[: found.start()]).rsplit("\n", 1)[-1]
            if not before.strip():
                return found
        return None

    def _lone_close(self) -> re.Match[str] | None:
        if self.thinking:
            return None
        for found in _CLOSE.finditer(self._held):
            if not (self.text + self._held[: found.start()]).endswith("`"):
                return found
        return None

    def _emit(self, text: str, out: list[tuple[Kind, str]]) -> None:
        if self._within:
            self.thinking += text
            kind: Kind = "thinking"
        else:
            if self.thinking and not self.text:
                text = text.lstrip()
            self.text += text
            kind = "text"
        if text:
            out.append((kind, text))


def _possible_tag(text: str) -> int:
    """How many characters at the end may be the beginning of a tag."""
    lowered = text[-len("</thinking>") :].lower()
    for size in range(len(lowered), 0, -1):
        if any(tag.startswith(lowered[-size:]) for tag in _TAGS):
            return size
    return 0
