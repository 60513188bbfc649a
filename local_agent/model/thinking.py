"""Tells reasoning between tags from the answer, while both stream in pieces of any size."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from local_agent.call_marks import is_quoted, lower

Kind = Literal["text", "thinking"]


@dataclass(frozen=True, slots=True)
class _Tags:
    """One way to mark reasoning, in lower case.

    at: where an opening tag counts. A name that people also write about counts at the start of the
    answer only, others at the start of a line. alone: a closing tag may come without its opening
    one, which the template put into the prompt.
    """

    opening: tuple[str, ...]
    closing: tuple[str, ...]
    at: Literal["answer", "line"]
    alone: bool = False


# Who writes it: most reasoning models; Seed; Magistral; Kimi; Command-R; Apertus; OpenThinker;
# GPT-OSS; Gemma; and models that were told to in their prompt.
_TAGS = (
    _Tags(("<think>", "<thinking>"), ("</think>", "</thinking>"), "line", alone=True),
    _Tags(("<seed:think>",), ("</seed:think>",), "line", alone=True),
    _Tags(("[think]",), ("[/think]",), "line", alone=True),
    _Tags(("◁think▷",), ("◁/think▷",), "line", alone=True),
    _Tags(("<|start_thinking|>",), ("<|end_thinking|>",), "line", alone=True),
    _Tags(("<|inner_prefix|>",), ("<|inner_suffix|>",), "line", alone=True),
    _Tags(("<|begin_of_thought|>",), ("<|end_of_thought|>",), "line"),
    _Tags(
        ("<|channel|>analysis<|message|>",),
        ("<|end|>", "<|start|>assistant", "<|channel|>final<|message|>"),
        "line",
    ),
    _Tags(("<|channel>thought\n",), ("<channel|>",), "line"),
    _Tags(("<reasoning>",), ("</reasoning>",), "answer"),
    _Tags(("<thought>", "<thoughts>"), ("</thought>", "</thoughts>"), "answer"),
)
# What GPT-OSS puts around the parts of a reply that begins with one: no text and no reasoning.
_SPEAKER, _SPEAKS_TO = "<|start|>assistant", " to="  # to a tool: that is a call
_DROPPED = (
    _SPEAKER,
    "<|channel|>final<|message|>",
    "<|channel|>final <|constrain|>json<|message|>",
    "<|channel|>commentary<|message|>",
    "<|return|>",
    "<|end|>",
)
_PARTS = ("<|start|>", "<|channel|>")  # what the first part begins with
# What the prompt should have ended with, where a model writes it again, and what Command-R,
# OpenThinker and GLM put around an answer.
_HEADS = (
    "<|im_start|>assistant",
    "<|start_header_id|>assistant<|end_header_id|>",
    "<|header_start|>assistant<|header_end|>",
    "<|start_of_role|>assistant<|end_of_role|>",
    "<|assistant|>",
    *("<|start_response|>", "<|begin_of_solution|>", "<|begin_of_box|>"),
    ">>>all\n",
)
_TAILS = ("<|end_response|>", "<|end_of_solution|>", "<|end_of_box|>")
_OPENING = {tag: tags for tags in _TAGS for tag in tags.opening}
# Where a turn ends, which some servers leave in its text; a turn that the model then begins itself,
# the user's perhaps, is none of the answer.
_END = (
    r"(?:<\|(?:im_end|eot_id|eom_id|endoftext|end_of_text|END_OF_TURN_TOKEN)\|>|<end_of_turn>"
    r"|<｜end▁of▁sentence｜>|</s>)"
)
_TURN = (
    r"(?:<\|(?:im_start|start_header_id|start_of_role|header_start|user|assistant)\|>"
    r"|<start_of_turn>|<｜User｜>|<｜Assistant｜>)"
)
_NEXT_TURN = re.compile(rf"{_END}\s*{_TURN}", re.I)
_ENDED = re.compile(rf"{_END}(?:\s|{_END})*(?P<begun><[|｜]?[\w▁]{{0,20}}\|?)?\Z", re.I)
_ENDS_LONGEST = 400  # characters of such tokens; a model that writes more writes nothing else
_ENDS = (  # in full, to hold back what begins like them
    *("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|endoftext|>", "<|end_of_text|>", "</s>"),
    *("<|end_of_turn_token|>", "<end_of_turn>", "<｜end▁of▁sentence｜>"),
)
_FENCE = re.compile(r"^[ \t]*```", re.M)
_LONE = tuple(tag for tags in _TAGS if tags.alone for tag in tags.closing)
_SIGNS = (*_DROPPED, *_HEADS, *_TAILS, *_LONE)
# Signs that count by what is behind them: held back until that is there.
_GO_ON = (_SPEAKER + _SPEAKS_TO, *(tag + "\n" for tag in _LONE))
_BEFORE_WORD = re.compile(r"[\s(\[{]\Z")


class ThinkSplitter:
    """Feed it pieces of content; it gives (kind, text) pieces in order.

    An opening tag counts where its kind may stand, but not in code and not in quotes, so that an
    answer about the tag stays whole. A closing one counts within its reasoning; and, not in code
    or quotes, where none was opened: all text so far was reasoning then. `opened` starts within
    reasoning, for a model that is known to do so.
    """

    def __init__(self, opened: bool = False) -> None:
        self.text = ""
        self.thinking = ""
        self.closed_only = False
        self._within: _Tags | None = _TAGS[0] if opened else None
        self._assumed = opened
        self._has_parts = False  # as those of GPT-OSS
        self._is_over = False  # the reply is whole
        self._is_ended = False  # what follows is another turn
        self._held = ""

    def feed(self, piece: str) -> list[tuple[Kind, str]]:
        """Take a piece; what may be the beginning of a tag is kept back."""
        self._held += "" if self._is_ended else piece
        out: list[tuple[Kind, str]] = []
        while self._step(out):
            pass
        return out

    def finish(self, whole: bool = True) -> list[tuple[Kind, str]]:
        """The end of the answer: what was kept back, and an assumption that did not hold.

        An answer that is not `whole` may have been cut within its reasoning.
        """
        self._is_over = True
        out = self.feed("")
        ended = None if self._within else self._end(_ENDED)
        self._emit(self._held[: ended.start()] if ended else self._held, out)
        self._held = ""
        if whole and self._assumed and self._within:
            # It never closed: this was the answer after all.
            self.text, self.thinking = self.thinking.lstrip(), ""
            out = [("text", self.text)] if self.text else []
        return out

    def _step(self, out: list[tuple[Kind, str]]) -> bool:
        """Handle the held text up to the next tag; False when there is none."""
        if self._within:
            found = self._find(self._within.closing, lambda tag, before: True)
            if found:
                self._take(found, out)
                self._within = None
                return True
            self._keep(self._within.closing, out)
            return False
        opening = self._find(tuple(_OPENING), self._opens)
        lone = self._find(_LONE, self._is_lone) if not self.thinking else None
        dropped = self._find(_SIGNS, self._drops)
        found = min((f for f in (opening, lone, dropped) if f), default=None)
        if found is None:
            if ended := self._end(_NEXT_TURN):
                self._held, self._is_ended = self._held[: ended.start()], True
            self._keep((*_OPENING, *_SIGNS, *_ENDS, *_GO_ON), out)
            return False
        if found == lone:
            self.thinking += self.text + self._held[: found[0]]
            self.text, self.closed_only = "", True
            self._held = self._held[found[0] + len(found[1]) :]
            return True
        self._take(found, out)
        self._has_parts = self._has_parts or found[1].startswith(_PARTS)
        if found == opening:
            self._within, self._assumed = _OPENING[found[1]], False
        return True

    def _take(self, found: tuple[int, str], out: list[tuple[Kind, str]]) -> None:
        """Give out what stands before a tag, and the tag not."""
        self._emit(self._held[: found[0]], out)
        self._held = self._held[found[0] + len(found[1]) :]

    def _keep(self, tags: tuple[str, ...], out: list[tuple[Kind, str]]) -> None:
        """Give out all but what may be the beginning of a tag."""
        low = lower(self._held)
        if not self._within and (ended := self._end(_ENDED)):
            self._emit(self._held[: ended.start()], out)
            self._held = self._held[ended.start() :]
            self._is_ended = len(self._held) > _ENDS_LONGEST
            return
        longest = max(map(len, tags)) - 1
        size = next(
            (
                n
                for n in range(min(longest, len(low)), 0, -1)
                if any(tag.startswith(low[-n:]) for tag in tags)
            ),
            0,
        )
        self._emit(self._held[: len(low) - size], out)
        self._held = self._held[len(low) - size :]

    def _end(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """The first end of a turn in the held text that is not quoted and not in code."""
        for found in pattern.finditer(self._held):
            before = self.text + self._held[: found.start()]
            is_html = found.group().startswith("</s>") and "<s>" in before
            if not is_html and _is_bare("", before):
                return found
        return None

    def _find(
        self, tags: tuple[str, ...], counts: Callable[[str, str], bool]
    ) -> tuple[int, str] | None:
        """Where the first tag in the held text stands that counts, and which it is."""
        low = lower(self._held)
        found = []
        for tag in tags:
            at = low.find(tag)
            while at >= 0 and not counts(tag, self.text + self._held[:at]):
                at = low.find(tag, at + 1)
            if at >= 0:
                found.append((at, tag))
        return min(found, default=None)

    def _opens(self, tag: str, before: str) -> bool:
        """Whether an opening tag behind the text `before` opens reasoning."""
        at = _OPENING[tag].at
        if at == "answer":
            return not before.strip() and not self.thinking
        if _line(before).strip() and not (self._has_parts and tag.startswith(_PARTS)):
            return False
        return _is_bare(tag, before)

    def _is_lone(self, tag: str, before: str) -> bool:
        """Whether a closing tag behind the text `before` ends reasoning that was never opened.

        One that a text speaks of has a blank or a bracket before it, and the line goes on.
        """
        if not _is_bare(tag, before):
            return False
        line = _line(before)
        ends = not line.strip() or not _BEFORE_WORD.search(line)
        return ends or self._behind(tag, before).startswith("\n")

    def _behind(self, tag: str, before: str) -> str:
        """The held text behind a tag that stands behind the text `before`."""
        return self._held[len(before) - len(self.text) + len(tag) :]

    def _drops(self, tag: str, before: str) -> bool:
        """Whether a sign behind the text `before` is around the answer or between its parts."""
        if tag in _HEADS:
            return not before.strip()
        if tag in _TAILS:
            return _is_bare(tag, before)
        if tag in _LONE:  # once more, before there is an answer
            return bool(self.thinking) and not before.strip()
        if tag == _SPEAKER:
            behind = self._behind(tag, before)
            if _SPEAKS_TO.startswith(behind[: len(_SPEAKS_TO)]) and (behind or not self._is_over):
                return False
        return self._has_parts or (tag.startswith(_PARTS) and not before.strip())

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


def _is_bare(tag: str, before: str) -> bool:
    """Whether a tag behind the text `before` is not quoted and in no fence of code."""
    return not is_quoted(_line(before)) and len(_FENCE.findall(before)) % 2 == 0


def _line(text: str) -> str:
    return text.rsplit("\n", 1)[-1]
