"""Talks to the model that is probed: each request with its time, none longer than it may take."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage

from context import count_tokens, text_of
from local_agent.errors import ModelTimeout
from local_agent.model import ChatModel
from local_agent.repair import repair

from .material import SYSTEM
from .tools import ProbeTool

PATIENCE = 5.0  # a request may take this many times what it should
LEAST_PATIENCE = 30.0  # seconds
FIRST_PATIENCE = 120.0  # seconds while the speed is unknown; the model may have to be loaded
THINKING_TOKENS = 1024  # more of them in a reply of a model that thinks before it answers


class TimeUp(Exception):
    """The time for the whole probe is over."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A reply, the seconds until its first piece came, and those until it was whole."""

    message: AIMessage
    started: float
    seconds: float

    @property
    def text(self) -> str:
        return text_of(self.message.content)

    @property
    def read(self) -> int | None:
        """Tokens of the prompt, as the server says."""
        usage = self.message.usage_metadata
        return usage["input_tokens"] if usage else None

    @property
    def cached(self) -> int | None:
        """Tokens of the prompt that the server had read before, where it says so."""
        timings = self.message.response_metadata.get("timings", {})
        if isinstance(timings.get("cache_n"), int):
            return int(timings["cache_n"])
        usage = self.message.usage_metadata
        return usage.get("input_token_details", {}).get("cache_read") if usage else None


@dataclass(slots=True)
class Talk:
    """The model, when the probe has to be over (by the clock of the loop), and what was learned.

    Speeds are tokens a second; `scale` is how many tokens of the server one of our own count is.
    `as_text` and `calls` count replies with a call in their text, and with any call.
    """

    chat: ChatModel
    ends: float
    reading: float = 0.0
    writing: float = 0.0
    scale: float = 1.1
    thinks: bool = False
    as_text: int = 0
    calls: int = 0
    silent: int = field(default=0)  # requests in a row without an answer in time

    @property
    def left(self) -> float:
        """Seconds until the probe has to be over."""
        return self.ends - time.monotonic()

    def seconds(self, read: float, write: float) -> float:
        """What it takes to read and write these tokens, our own count; 0 while it is unknown."""
        if not self.reading or not self.writing:
            return 0.0
        return read * self.scale / self.reading + write / self.writing

    async def ask(
        self,
        messages: Sequence[AnyMessage],
        *,
        tools: Sequence[ProbeTool] = (),
        tokens: int = 96,
        tool_choice: str | None = None,
        response_format: Mapping[str, Any] | None = None,
    ) -> Heard:
        """One reply of at most `tokens`. Raises ModelError, and TimeUp when the time is over."""
        tokens += THINKING_TOKENS if self.thinks else 0
        self.chat.limit_reply(tokens)
        begin = time.monotonic()
        first: list[float] = []

        def on_delta(kind: Literal["text", "thinking"], text: str) -> None:
            if not first:
                first.append(time.monotonic())

        reading = sum(count_tokens(text_of(m.content)) for m in messages)
        functions = [tool.function for tool in tools]
        reading += sum(count_tokens(str(function)) for function in functions)
        async with self._limit(self.seconds(reading, tokens)):
            message = await self.chat.reply(
                messages,
                tools=functions,
                tool_choice=tool_choice,
                response_format=response_format,
                on_delta=on_delta,
            )
        end = time.monotonic()
        return Heard(message, (first[0] if first else end) - begin, end - begin)

    async def call(
        self, messages: Sequence[AnyMessage], tools: Sequence[ProbeTool], tokens: int = 96
    ) -> AIMessage:
        """A reply with its calls as the program understands them, native or in its text."""
        heard = await self.ask(messages, tools=tools, tokens=tokens)
        is_native = bool(heard.message.additional_kwargs.get("raw_tool_calls"))
        reply = repair(heard.message, tools, messages)
        if reply.tool_calls or reply.invalid_tool_calls:
            self.calls += 1
            self.as_text += not is_native
        return reply

    async def send(self, body: Mapping[str, Any]) -> tuple[int, Any]:
        """A request as it stands, not streamed: status and body. Raises as `ask`."""
        async with self._limit(0.0):
            return await self.chat.send(body)

    def _limit(self, seconds: float) -> _Limit:
        least = LEAST_PATIENCE if self.reading else FIRST_PATIENCE
        return _Limit(self, max(seconds * PATIENCE, least))


class _Limit:
    """Bounds one request by its own time and by that of the probe, and says which was over."""

    def __init__(self, talk: Talk, seconds: float) -> None:
        self._talk = talk
        self._is_last = talk.left <= seconds
        self._seconds = max(min(talk.left, seconds), 0.0)
        self._timeout = asyncio.timeout(self._seconds)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(self, *exc: Any) -> None:
        try:
            await self._timeout.__aexit__(*exc)
        except TimeoutError as error:
            if self._is_last:
                raise TimeUp from error
            self._talk.silent += 1
            text = f"no answer within {self._seconds:.0f} s"
            raise ModelTimeout(text) from error
        self._talk.silent = 0


def prompt(text: str) -> list[AnyMessage]:
    """A conversation that begins with this prompt."""
    return [SystemMessage(SYSTEM), HumanMessage(text)]
