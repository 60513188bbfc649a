"""What every part of the prompt is made of: texts, their shortening and their count in tokens.

`compact` shortens old tool results for the model. Nothing here changes its input or keeps state,
but for `Window`, which remembers what the server said of its context length and token counts.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage, ToolMessage

UNKNOWN_CONTEXT = 4096  # tokens; LM Studio's and llama.cpp's smallest usual default


class PromptTooLong(Exception):
    """System prompt and newest message cannot fit, however much is cut. Both numbers are tokens."""

    def __init__(self, needed: int, room: int) -> None:
        super().__init__(f"the prompt needs about {needed} tokens, there is room for {room}")
        self.needed = needed
        self.room = room


def text_of(content: str | Sequence[Any]) -> str:
    """The text of a message's content, blocks joined by newlines; what is no text is left out."""
    if isinstance(content, str):
        return content
    parts = [b if isinstance(b, str) else str(b.get("text") or "") for b in content]
    return "\n".join(p for p in parts if p)


def compact(
    messages: Sequence[AnyMessage],
    keep_turns: int = 2,
    keep_chars: int = 200,
    *,
    upto: str | None = None,
) -> list[AnyMessage]:
    """Shorten old tool results, for the model only.

    A `ToolMessage` older than the last `keep_turns` user turns whose text is longer than
    `keep_chars` characters gets the content `[older tool result trimmed, N chars] HEAD…`. With
    `upto` (a message id) only results at or before that message are shortened; an id that is not
    among the messages shortens nothing. `messages` are the stored ones, never a shortened list;
    they are not changed, and order, ids and call/result pairs stay.
    """
    old = old_end(messages, keep_turns, upto)
    return [stub(m, keep_chars) if i < old else m for i, m in enumerate(messages)]


def old_end(messages: Sequence[AnyMessage], keep_turns: int, upto: str | None = None) -> int:
    """How many of the first `messages` `compact` takes for old: their results become stubs."""
    old = _start_of_last_turns(messages, keep_turns)
    if upto is None:
        return old
    reached = (i for i, m in enumerate(messages) if m.id == upto)
    return min(old, next(reached, -1) + 1)


def _start_of_last_turns(messages: Sequence[AnyMessage], turns: int) -> int:
    """Index of the first message of the last `turns` user turns; everything is old at 0 turns."""
    starts = [i for i, m in enumerate(messages) if isinstance(m, HumanMessage)]
    if turns <= 0:
        return len(messages)
    return starts[-turns] if len(starts) >= turns else 0


def stub(message: AnyMessage, keep_chars: int) -> AnyMessage:
    """A tool result as `compact` shows an old one; anything else, or a short one, as it is."""
    if not isinstance(message, ToolMessage):
        return message
    text = text_of(message.content)
    if len(text) <= keep_chars:
        return message
    head = " ".join(text[:keep_chars].split())
    content = f"[older tool result trimmed, {len(text)} chars] {head}…"
    return message.model_copy(update={"content": content})


def clip(text: str, chars: int) -> str:
    """Head and tail of `text` in about `chars` characters, with a line between that says the cut.

    The head gets three quarters: what a result is usually stands at its start.
    """
    if len(text) <= chars:
        return text
    head, tail = chars * 3 // 4, chars // 4
    note = f"\n[… {len(text) - head - tail} of {len(text)} characters left out here …]\n"
    return text[:head] + note + text[len(text) - tail :]


# -- tokens ---------------------------------------------------------------------------------------

_LETTERS = string.ascii_letters.encode()
_FREQUENT = b"etaoinETAOIN"
_DIGITS = string.digits.encode()
_BLANKS, _LINES = b" \t\r\n", b"\t\r\n"
_RUN = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/=_-]{8,}")
_HEX = re.compile(r"(?:[0-9a-f]{1,16}-)*[0-9a-f]{8,}|(?:[0-9A-F]{1,16}-)*[0-9A-F]{8,}")
_LONG_RUN = 48  # characters; a run of so many is base64 or the like, a shorter one may have hex
_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff]+")
_ALPHABETS = re.compile("[\u0400-\u06ff\u0e00-\u0eff]+")  # Cyrillic, Hebrew, Arabic, Thai
# Encodings with the first bytes of the characters that are in everyday use; the others are rare.
_IN_USE = (("gb2312", 0xB0, 0xD7), ("big5", 0xA4, 0xC6), ("shift_jis", 0x88, 0x97))
# Tokens a character, by class, measured on Qwen2.5's vocabulary of 152k and rounded to the cautious
# side: over prose, code, JSON, logs, CSV, hex, base64 and twenty languages the count is 0.6 to 1.05
# of what is estimated. A digit is one token (Llama 3: up to three digits), a line end with what
# indents the next line too. Letters that make no words are known by the share of the six most
# frequent ones, which is 0.42 and more in prose and code and 0.23 in random letters.
_LETTER, _SPACE, _LINE, _DIGIT, _SIGN, _DENSE = 0.24, 0.1, 0.9, 1.1, 0.65, 0.8
_WORDLIKE, _STRANGE = 0.42, 2.2
_COMMON_HAN, _RARE_HAN, _ALPHABET, _WIDE, _ASTRAL = 0.7, 2.0, 0.65, 1.2, 3.0
_FRAME = 6  # role marks and line ends that a chat template puts around a message
_CALL = 16  # the frame of a tool call: its tags, braces, "name", "arguments"
TOOL_HEAD = 110  # tokens of what a template says about how to call tools
_LEAP = 1.2  # the calibration grew so much that what fits is decided anew
_REMEMBERED = 20_000  # characters; longer texts are counted each time


def count_tokens(text: str) -> float:
    """A cautious estimate of the tokens of `text`, from its characters by class; no look-up."""
    return _remembered(text) if len(text) <= _REMEMBERED else _estimate(text)


@lru_cache(maxsize=1024)
def _remembered(text: str) -> float:
    return _estimate(text)


def _estimate(text: str) -> float:
    data = text.encode("ascii", "ignore")
    dense = "".join(_dense_in(text)).encode()
    letters, digits, blanks, lines = (
        _count(data, some) for some in (_LETTERS, _DIGITS, _BLANKS, _LINES)
    )
    packed = _count(dense, _LETTERS)
    plain = letters - packed
    share = (_count(data, _FREQUENT) - _count(dense, _FREQUENT)) / max(plain, 1)
    letter = min(_LETTER + max(0.0, _WORDLIKE - share) * _STRANGE, _DENSE)
    tokens = plain * letter + packed * _DENSE
    tokens += digits * _DIGIT + (len(data) - letters - digits - blanks) * _SIGN
    tokens += (blanks - lines) * _SPACE + lines * _LINE
    return tokens if len(data) == len(text) else tokens + _estimate_wide(text, len(data))


def _dense_in(text: str) -> Iterator[str]:
    """The parts of `text` that are no words: long runs of letters and digits, and hex."""
    for run in _RUN.findall(text):
        if len(run) >= _LONG_RUN:
            yield run
        else:
            yield from _HEX.findall(run)


def _estimate_wide(text: str, ascii_chars: int) -> float:
    """The tokens of the characters of `text` beyond ASCII."""
    han = "".join(_HAN.findall(text))
    letters = sum(map(len, _ALPHABETS.findall(text)))
    common = max(_in_use(han, *encoding) for encoding in _IN_USE) if han else 0
    other = len(text) - ascii_chars - len(han) - letters
    astral = max(len(text.encode("utf-16-le", "surrogatepass")) // 2 - len(text), 0)
    tokens = common * _COMMON_HAN + (len(han) - common) * _RARE_HAN + letters * _ALPHABET
    return tokens + (other - astral) * _WIDE + astral * _ASTRAL


def _in_use(han: str, encoding: str, first: int, last: int) -> int:
    return _count(han.encode(encoding, "ignore")[::2], bytes(range(first, last + 1)))


def _count(data: bytes, some: bytes) -> int:
    return len(data) - len(data.translate(None, some))


def weigh(message: BaseMessage) -> float:
    """The tokens of a message with what a chat template puts around it, before calibration."""
    tokens = _FRAME + count_tokens(text_of(message.content))
    for call in getattr(message, "tool_calls", ()):
        tokens += _CALL + count_tokens(call["name"] + json.dumps(call["args"], ensure_ascii=False))
    return tokens


def weigh_tool(tool: Mapping[str, Any]) -> float:
    """The tokens of a tool's schema, before calibration."""
    return count_tokens(json.dumps(tool, ensure_ascii=False))


@dataclass(slots=True)
class Window:
    """The context length that is loaded, and how the server's token counts relate to ours.

    `context_length` and all other numbers are tokens. `max_tokens` bounds the prompt of a model
    that could take more; `reply_reserve` None means min(1,024, a quarter of the window). `scale`
    is what estimates are multiplied by; it moves, so nothing that must stay may depend on it.
    """

    context_length: int = UNKNOWN_CONTEXT
    max_tokens: int = 8192
    reply_reserve: int | None = None
    scale: float = field(default=1.1)
    tool_scale: float = field(default=1.1)

    @property
    def size(self) -> int:
        return min(self.context_length, self.max_tokens)

    @property
    def reply(self) -> int:
        return self.reply_reserve or min(1024, self.size // 4)

    @property
    def tool_room(self) -> int:
        return self.size // 3

    def room(self, tool_tokens: int) -> int:
        """Tokens left for system prompt and messages, less a margin of 3 % for the template."""
        return int(self.size * 0.97) - self.reply - tool_tokens

    def tokens(self, messages: Sequence[BaseMessage]) -> int:
        return int(sum(map(weigh, messages)) * self.scale) + 1

    def tool_tokens(self, weight: float) -> int:
        """The tokens of tools of `weight` (see `weigh_tool`), with what a template says of them."""
        return int((TOOL_HEAD + weight) * self.scale) + 1 if weight else 0

    def fits_tools(self, weight: float) -> bool:
        """Whether tools of `weight` may all be in a prompt.

        The answer hardly ever changes: `tool_scale` follows `scale` in leaps, and never down.
        """
        return (TOOL_HEAD + weight) * self.tool_scale <= self.tool_room

    def observe(self, estimated: int, actual: int) -> None:
        """Learn from the server's own count of a prompt; small prompts say little and are passed.

        Upwards at once, downwards slowly: too low a count overflows, too high only costs room.
        Never below 1: after much prose a log would be counted too low.
        """
        if estimated < 200 or actual <= 0:
            return
        wanted = min(max(self.scale * actual / estimated, 1.0), 2.5)
        self.scale += (wanted - self.scale) * (1.0 if wanted > self.scale else 0.2)
        self._leap()

    def overflowed(self, prompt_tokens: int | None, context_length: int | None, sent: int) -> None:
        """The server refused a prompt: take its numbers, or without numbers a third less."""
        if context_length:
            self.context_length = min(self.context_length, context_length)
        if prompt_tokens and sent:
            self.scale = min(max(self.scale, self.scale * prompt_tokens / sent), 4.0)
        self._leap()
        if not context_length:
            self.context_length = min(self.context_length, max(sent * 2 // 3 + self.reply, 512))

    def _leap(self) -> None:
        if self.scale > self.tool_scale * _LEAP:
            self.tool_scale = self.scale
