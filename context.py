"""What the model sees of a thread: compaction, token budget, view (the *window*, not a runtime).

State is the record and holds every message whole. What one model call gets is built here from it,
each time from the stored messages: nothing in this module changes its input or keeps state, but
for `Window`, which remembers what the server said about its context length and token counts.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage

UNKNOWN_CONTEXT = 4096  # tokens; LM Studio's and llama.cpp's smallest usual default
RESULT_SHARE = 0.4  # one tool result may take this part of the room
SHORTEST = 40  # characters that a cut message keeps at least
STOPPED = "[stopped]"
LOST = "[no result: interrupted]"


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
    old = _start_of_last_turns(messages, keep_turns)
    if upto is not None:
        reached = (i for i, m in enumerate(messages) if m.id == upto)
        old = min(old, next(reached, -1) + 1)
    return [_stub(m, keep_chars) if i < old else m for i, m in enumerate(messages)]


def _start_of_last_turns(messages: Sequence[AnyMessage], turns: int) -> int:
    """Index of the first message of the last `turns` user turns; everything is old at 0 turns."""
    starts = [i for i, m in enumerate(messages) if isinstance(m, HumanMessage)]
    if turns <= 0:
        return len(messages)
    return starts[-turns] if len(starts) >= turns else 0


def _stub(message: AnyMessage, keep_chars: int) -> AnyMessage:
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
_DIGITS = string.digits.encode()
_SPACES = b" \t\r\n"
_DENSE_RUN = re.compile(r"[A-Za-z0-9+/=_-]{48,}")
# Tokens a character, by class, measured on Qwen2.5's vocabulary of 152k and rounded to the cautious
# side: prose has 4.2 characters a token and a digit is one token (Llama 3: up to three digits);
# JSON has 3.4, base64 1.7, Chinese 1.9, Russian 2.4, Arabic 3.2, Hindi and emoji 1.0.
_LETTER, _SPACE, _DIGIT, _SIGN, _DENSE, _WIDE = 0.24, 0.1, 1.0, 0.65, 0.65, 1.0
_FRAME = 6  # role marks and line ends that a chat template puts around a message
_CALL = 14  # the frame of a tool call: braces, "name", "arguments"


def count_tokens(text: str) -> float:
    """A cautious estimate of the tokens of `text`, from its characters by class; no look-up."""
    dense = sum(len(run) for run in _DENSE_RUN.findall(text)) if len(text) >= 48 else 0
    data = text.encode("ascii", "ignore")
    letters, digits, spaces = (_count(data, some) for some in (_LETTERS, _DIGITS, _SPACES))
    signs, wide = len(data) - letters - digits - spaces, len(text) - len(data)
    dense = min(dense, letters)  # such runs are mostly letters, and then count as dense
    plain = letters - dense
    ascii_tokens = plain * _LETTER + spaces * _SPACE + digits * _DIGIT + signs * _SIGN
    return ascii_tokens + dense * _DENSE + wide * _WIDE


def _count(data: bytes, some: bytes) -> int:
    return len(data) - len(data.translate(None, some))


def _count_message(message: BaseMessage) -> float:
    tokens = _FRAME + count_tokens(text_of(message.content))
    for call in getattr(message, "tool_calls", ()):
        tokens += _CALL + count_tokens(call["name"] + json.dumps(call["args"], ensure_ascii=False))
    return tokens


@dataclass(slots=True)
class Window:
    """The context length that is loaded, and how the server's token counts relate to ours.

    `context_length` and all other numbers are tokens. `max_tokens` bounds the prompt of a model
    that could take more; `reply_reserve` None means min(1,024, a quarter of the window).
    """

    context_length: int = UNKNOWN_CONTEXT
    max_tokens: int = 8192
    reply_reserve: int | None = None
    scale: float = field(default=1.1)

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
        return int(sum(map(_count_message, messages)) * self.scale) + 1

    def tool_tokens(self, tools: Sequence[Mapping[str, Any]]) -> int:
        text = "".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
        return int(count_tokens(text) * self.scale) + 1 if tools else 0

    def observe(self, estimated: int, actual: int) -> None:
        """Learn from the server's own count of a prompt; small prompts say little and are passed.

        Upwards at once, downwards slowly: too low a count overflows, too high only costs room.
        """
        if estimated < 200 or actual <= 0:
            return
        wanted = min(max(self.scale * actual / estimated, 0.6), 2.5)
        self.scale += (wanted - self.scale) * (1.0 if wanted > self.scale else 0.2)

    def overflowed(self, prompt_tokens: int | None, context_length: int | None, sent: int) -> None:
        """The server refused a prompt: take its numbers, or without numbers a third less."""
        if context_length:
            self.context_length = min(self.context_length, context_length)
        if prompt_tokens and sent:
            self.scale = min(max(self.scale, self.scale * prompt_tokens / sent), 4.0)
        if not context_length:
            self.context_length = min(self.context_length, max(sent * 2 // 3 + self.reply, 512))


# -- the view -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class View:
    """What one model call gets: messages without the system prompt, and what was done to them.

    `clipped` counts results over their share, `cut` messages shortened because all else failed.
    """

    messages: list[AnyMessage]
    tokens: int
    dropped_turns: int = 0
    clipped: int = 0
    cut: int = 0


def build_view(
    messages: Sequence[AnyMessage],
    window: Window,
    *,
    room: int,
    keep_turns: int = 2,
    keep_chars: int = 200,
) -> View:
    """The stored `messages` as the model gets them, in at most `room` tokens.

    In this order, each only while it is still too long: old results as stubs (`compact`, always),
    results over their share as head and tail (always), older results of any turn as stubs, the
    oldest turns left out, the oldest calls of this turn with their results left out, the longest
    messages cut. Raises `PromptTooLong`.
    """
    recent, left_out = _recent(messages, window, room, keep_chars)
    view = compact(mend(recent), keep_turns, keep_chars)
    view, clipped = _clip_results(view, window, int(room * RESULT_SHARE))
    if window.tokens(view) > room:
        view = _stub_oldest(view, window, room, keep_chars)
    view, dropped = _drop_turns(view, window, room)
    view = _drop_groups(view, window, room)
    view, cut = _cut_longest(view, window, room)
    tokens = window.tokens(view)
    if tokens > room:
        raise PromptTooLong(tokens, room)
    return View(view, tokens, left_out + dropped, clipped, cut)


def _recent(
    messages: Sequence[AnyMessage], window: Window, room: int, keep_chars: int
) -> tuple[Sequence[AnyMessage], int]:
    """The newest turns that could fit with all results as stubs, and how many are older.

    No more is looked at, so a view costs what it holds and not what the thread holds.
    """
    starts = [i for i, m in enumerate(messages) if isinstance(m, HumanMessage)]
    tokens, end = 0, len(messages)
    for kept, start in enumerate(reversed(starts)):
        tokens += window.tokens([_stub(m, keep_chars) for m in messages[start:end]])
        if tokens > room and kept:
            return messages[end:], len(starts) - kept
        end = start
    return messages, 0


def mend(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """A history that strict servers accept, whatever a crash or an older program left in state.

    Results stand directly behind their calls in call order, a call without a result gets one,
    a result without a call goes, a prompt without an answer is marked as stopped, all content is
    text.
    """
    out: list[AnyMessage] = []
    at = 0
    while at < len(messages):
        message = messages[at]
        at += 1
        if isinstance(message, AIMessage) and message.tool_calls:
            results: dict[str, ToolMessage] = {}
            while at < len(messages) and isinstance(result := messages[at], ToolMessage):
                results[result.tool_call_id] = result
                at += 1
            out.append(_as_text(message))
            out.extend(_answer(message, results))
        elif isinstance(message, AIMessage):
            _append_answer(out, message)
        elif isinstance(message, HumanMessage):
            _append_prompt(out, message)
    return out


def _answer(message: AIMessage, results: Mapping[str, ToolMessage]) -> list[AnyMessage]:
    answered: list[AnyMessage] = []
    for call in message.tool_calls:
        call_id = call["id"] or ""
        lost = ToolMessage(LOST, tool_call_id=call_id, status="error", id=f"lost-{call_id}")
        answered.append(_as_text(results.get(call_id, lost)))
    return answered


def _append_answer(out: list[AnyMessage], message: AIMessage) -> None:
    text = text_of(message.content).strip() or STOPPED
    if out and isinstance(out[-1], AIMessage):
        text = f"{text_of(out.pop().content)}\n\n{text}"
    if out:
        out.append(message.model_copy(update={"content": text}))


def _append_prompt(out: list[AnyMessage], message: HumanMessage) -> None:
    # What is asked again after it failed is asked once; what was stopped is not a request any more.
    asked = out[-2] if len(out) > 1 and out[-1].content == STOPPED else None
    if isinstance(asked, HumanMessage) and asked.content == text_of(message.content):
        del out[-2:]
    if out and not isinstance(out[-1], AIMessage):
        out.append(AIMessage(STOPPED, id=f"stop-{message.id}"))
    out.append(_as_text(message))


def _as_text(message: AnyMessage) -> AnyMessage:
    text = text_of(message.content)
    return message if text == message.content else message.model_copy(update={"content": text})


def _chars_for(text: str, tokens: float, window: Window) -> int:
    """How many characters of `text` take about `tokens`, by its own average."""
    per_char = max(count_tokens(text) * window.scale / max(len(text), 1), 0.01)
    return max(int(tokens / per_char) - 80, 0)  # 80: the line that says the cut


def _clip_results(
    view: list[AnyMessage], window: Window, share: int
) -> tuple[list[AnyMessage], int]:
    out, clipped = [], 0
    for message in view:
        text = text_of(message.content)
        if isinstance(message, ToolMessage) and count_tokens(text) * window.scale > share:
            content = clip(text, _chars_for(text, share, window))
            message = message.model_copy(update={"content": content})
            clipped += 1
        out.append(message)
    return out, clipped


def _stub_oldest(
    view: list[AnyMessage], window: Window, room: int, keep_chars: int
) -> list[AnyMessage]:
    """Oldest results as stubs until it fits; those behind the last call message stay."""
    last_call = max((i for i, m in enumerate(view) if getattr(m, "tool_calls", ())), default=0)
    out = list(view)
    over = window.tokens(out) - room
    for i in range(last_call):
        if over <= 0:
            break
        before, out[i] = window.tokens([out[i]]), _stub(out[i], keep_chars)
        over -= before - window.tokens([out[i]])
    return out


def _drop_turns(view: list[AnyMessage], window: Window, room: int) -> tuple[list[AnyMessage], int]:
    starts = [i for i, m in enumerate(view) if isinstance(m, HumanMessage)]
    sizes = [window.tokens([m]) for m in view]
    total, dropped, first = sum(sizes), 0, 0
    for start in starts[1:]:
        if total <= room:
            break
        total -= sum(sizes[first:start])
        first, dropped = start, dropped + 1
    return view[first:], dropped


def _drop_groups(view: list[AnyMessage], window: Window, room: int) -> list[AnyMessage]:
    """Calls and their results left out together, oldest first, while cutting would not be enough.

    What is cut keeps `SHORTEST` characters, so only a turn of very many calls comes to this.
    """
    out = list(view)
    while window.tokens(_all_cut(out)) > room:
        groups = [i for i, m in enumerate(out) if getattr(m, "tool_calls", ())]
        if len(groups) < 2:
            break
        end = groups[0] + 1
        while isinstance(out[end], ToolMessage):
            end += 1
        del out[groups[0] : end]
    return out


def _all_cut(view: list[AnyMessage]) -> list[AnyMessage]:
    return [_shorten(m, text_of(m.content), SHORTEST) for m in view]


def _shorten(message: AnyMessage, text: str, chars: int) -> AnyMessage:
    """`message` with its `text` in `chars` characters; below 160 there is no room for a note."""
    if len(text) <= chars:
        return message
    content = clip(text, chars) if chars >= 160 else f"{text[:chars]}…"
    return message.model_copy(update={"content": content})


def _cut_longest(view: list[AnyMessage], window: Window, room: int) -> tuple[list[AnyMessage], int]:
    """Halve the longest message of what is left until it fits or nothing long is left."""
    out = list(view)
    whole = {i: text_of(m.content) for i, m in enumerate(out)}
    chars = {i: len(text) for i, text in whole.items()}
    cut: set[int] = set()
    while window.tokens(out) > room:
        longest = max(chars, key=lambda i: chars[i], default=-1)
        if longest < 0 or chars[longest] <= SHORTEST:
            break
        chars[longest] = max(chars[longest] // 2, SHORTEST)
        out[longest] = _shorten(out[longest], whole[longest], chars[longest])
        cut.add(longest)
    return out, len(cut)
