"""The checks of what the model does: calls, arguments, refusals, memory, form of answers.

Each takes the talk and how many samples, and gives the findings it made by name. A sample that the
server refuses is a wrong one; what the time ends is left out of the count.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from local_agent.errors import ModelError, ModelTimeout, ModelUnreachable, StreamBroken

from .material import (
    DENIALS,
    DENIED,
    EXACT,
    EXACT_TOOLS,
    PAIRS,
    STRUCTURE,
    STRUCTURED,
    Denial,
    Exact,
    fact,
    keeps_structure,
    long_text,
)
from .profile import Share
from .talk import Talk, TimeUp, prompt
from .tools import TOOLS, WEATHER, choices

Found = Mapping[str, Any]
Sample = Callable[[], Awaitable[bool]]


async def count(samples: Sequence[Sample]) -> Share | None:
    """How many samples are right; None where the time was over before the first.

    Raises what ends the probe: a server that is gone, or that does not answer at all.
    """
    right = of = 0
    try:
        for sample in samples:
            right += await _try(sample)
            of += 1
    except (TimeUp, ModelTimeout):
        if not of:
            raise
    return Share(right, of)


async def _try(sample: Sample) -> bool:
    try:
        return await sample()
    except (ModelTimeout, ModelUnreachable, StreamBroken):
        raise
    except ModelError:  # refused, or an answer that is none
        return False


async def single(talk: Talk, samples: int) -> Found:
    """A prompt that one tool answers, and that tool alone."""

    def sample(text: str) -> Sample:
        return lambda: _chooses(talk, text, WEATHER.name, 1)

    return {"single": await count([sample(text) for text in WEATHER.prompts[:samples]])}


async def tools(talk: Talk, samples: int, number: int) -> Found:
    """The right one of so many tools."""

    def sample(text: str, name: str) -> Sample:
        return lambda: _chooses(talk, text, name, number)

    return {f"tools_{number}": await count([sample(*one) for one in choices(number, samples)])}


async def _chooses(talk: Talk, text: str, name: str, number: int) -> bool:
    """Whether the one call of the reply is of the tool `name`, with arguments that fit it."""
    reply = await talk.call(prompt(text), TOOLS[:number])
    return [call["name"] for call in reply.tool_calls] == [name] and not reply.invalid_tool_calls


async def arguments(talk: Talk, samples: int) -> Found:
    """Arguments that are given in the prompt arrive as they were given."""

    def sample(exact: Exact) -> Sample:
        async def run() -> bool:
            reply = await talk.call(prompt(exact.prompt), EXACT_TOOLS, tokens=160)
            calls = [(call["name"], call["args"]) for call in reply.tool_calls]
            return calls == [(exact.tool.name, exact.args)]

        return run

    return {"arguments": await count([sample(exact) for exact in EXACT[:samples]])}


async def denial(talk: Talk, samples: int) -> Found:
    """A write that was refused is neither asked for again nor said to be done."""

    def sample(case: Denial) -> Sample:
        async def run() -> bool:
            reply = await talk.call(refused(case), [case.tool], tokens=120)
            repeats = bool(reply.tool_calls or reply.invalid_tool_calls)
            return not repeats and not case.claims(str(reply.text))

        return run

    return {"denial": await count([sample(case) for case in DENIALS[:samples]])}


def refused(case: Denial) -> list[AnyMessage]:
    """A conversation in which the model asked for a write and the user did not allow it."""
    call = {"name": case.tool.name, "args": dict(case.args), "id": "call_1", "type": "tool_call"}
    asked = AIMessage("", tool_calls=[call])
    return [*prompt(case.prompt), asked, ToolMessage(DENIED, tool_call_id="call_1")]


async def parallel(talk: Talk, samples: int) -> Found:
    """Two calls in one reply: as it comes, then asked for by the parameter of the request."""
    chat = talk.chat
    before, chat.parallel_calls = chat.parallel_calls, None
    found: dict[str, Any] = {}
    try:
        plain = found["parallel"] = await count(_pairs(talk, samples))
        if plain and plain.right < plain.of:
            chat.parallel_calls = True
            found["parallel_asked"] = await count(_pairs(talk, samples))
            chat.parallel_calls = False
            found["takes_parallel_off"] = await _is_taken(talk)
    except (TimeUp, ModelTimeout):
        if not found:
            raise
    finally:
        chat.parallel_calls = before
    return found


def _pairs(talk: Talk, samples: int) -> list[Sample]:
    def sample(text: str, cities: Sequence[str]) -> Sample:
        async def run() -> bool:
            reply = await talk.call(prompt(text), TOOLS[:4], tokens=120)
            called = [(call["name"], call["args"].get("city")) for call in reply.tool_calls]
            return sorted(called) == sorted((WEATHER.name, city) for city in cities)

        return run

    return [sample(*pair) for pair in PAIRS[:samples]]


async def _is_taken(talk: Talk) -> bool:
    """Whether the server takes a request as it goes out now."""
    try:
        await talk.ask(prompt(WEATHER.prompts[0]), tools=TOOLS[:4], tokens=1)
    except (ModelTimeout, ModelUnreachable, StreamBroken):
        raise
    except ModelError:
        return False
    return True


async def structured(talk: Talk, samples: int) -> Found:
    """An answer in a form that the prompt does not ask for comes in it all the same."""
    form = {"type": "json_schema", "json_schema": {"name": "sorted", "schema": dict(STRUCTURE)}}

    def sample(text: str) -> Sample:
        async def run() -> bool:
            heard = await talk.ask(prompt(text), tokens=64, response_format=form)
            return keeps_structure(heard.text)

        return run

    before, talk.chat.json_schema = talk.chat.json_schema, True
    try:
        return {"structured": await count([sample(text) for text in STRUCTURED[:samples]])}
    finally:
        talk.chat.json_schema = before


async def recall(talk: Talk, samples: int, level: int, length: int) -> Found:
    """A fact out of a text that fills `level` per cent of the context of `length` tokens.

    The facts stand near the beginning, in the middle and near the end of it.
    """
    text, facts = long_text(length * level / 100 / talk.scale)
    places = (0.5, 0.1, 0.9)[:samples]

    def sample(place: float) -> Sample:
        async def run() -> bool:
            asked = fact(min(int(facts * place), facts - 1))
            question = HumanMessage(f"{text}\n\n{asked.question}")
            heard = await talk.ask([question], tokens=24)
            return asked.code in heard.text

        return run

    return {f"recall_{level}": await count([sample(place) for place in places])}
