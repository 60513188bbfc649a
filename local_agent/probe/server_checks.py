"""The checks of what the server does: figures, speed, thinking, cancelling, templates, cache."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from context import count_tokens
from local_agent.errors import ModelError, ModelTimeout
from local_agent.model import ThinkSplitter

from .checks import Found
from .material import COUNTING, SHORT, SYSTEM, THINKING, long_text
from .talk import LEAST_PATIENCE, Heard, Talk, TimeUp, prompt
from .tools import TOOLS, WEATHER

READ_TOKENS = 300  # our own count; enough that the fixed cost of a request does not matter
WRITTEN = 64  # tokens
LONG_SECONDS = 12.0  # what is broken off would have gone on for this long
LEAST_SECONDS = 3.0  # of it that must be left for a verdict
_SEEN = 5  # pieces that come before it is broken off
_PAUSE = 0.05
_FREED = 2.0  # seconds in which a slot is free again


async def figures(talk: Talk) -> Found:
    """Which figures an answer carries, and how fast the server reads and writes.

    The first request only wakes the model up. Two with the same beginning follow: what the second
    had to read anew says whether the cache works.
    """
    await talk.ask(prompt(SHORT), tokens=4)
    text, _ = long_text(READ_TOKENS)
    first = await talk.ask(prompt(f"{text}\n\n{COUNTING}"), tokens=WRITTEN)
    again = await talk.ask(prompt(f"{text}\n\n{COUNTING}"), tokens=1)
    estimate = count_tokens(SYSTEM + text + COUNTING)
    if first.read:
        talk.scale = first.read / estimate
    timings = first.message.response_metadata.get("timings", {})
    found = {
        "usage": first.message.usage_metadata is not None,
        "cached_tokens": again.cached is not None,
        "timings": bool(timings),
    }
    by_server = _by_timings(timings)
    talk.reading, talk.writing = by_server or _by_clock(first, estimate)
    speeds = {"reading": round(talk.reading, 1), "writing": round(talk.writing, 1)}
    return {**found, **speeds, "speed_by": "timings" if by_server else "clock"}


def _by_timings(timings: Mapping[str, Any]) -> tuple[float, float] | None:
    """Tokens a second, read and written, by the server's own clock."""
    try:
        reading = 1000 * timings["prompt_n"] / timings["prompt_ms"]
        writing = 1000 * timings["predicted_n"] / timings["predicted_ms"]
    except (KeyError, TypeError, ZeroDivisionError):
        return None
    return (reading, writing) if reading > 0 and writing > 0 else None


def _by_clock(heard: Heard, estimate: float) -> tuple[float, float]:
    """The same by ours: reading until the first piece, writing from then on."""
    usage = heard.message.usage_metadata
    read = (heard.read or estimate) - (heard.cached or 0)
    written = usage["output_tokens"] if usage else count_tokens(heard.text)
    writing = max(heard.seconds - heard.started, 0.001)
    return max(read, 1) / max(heard.started, 0.001), max(written - 1, 1) / writing


async def thinking(talk: Talk) -> Found:
    """Whether the model thinks before it answers, and where that stands in the answer."""
    messages = [{"role": "user", "content": THINKING}]
    status, body = await talk.send({"messages": messages, "max_tokens": 64, "temperature": 0})
    message = _message(body) if status == 200 else None
    if message is None:
        raise ModelError("the server did not answer a request that is not streamed")
    named = next((key for key in ("reasoning_content", "reasoning") if message.get(key)), "")
    splitter = ThinkSplitter()
    splitter.feed(str(message.get("content") or ""))
    splitter.finish(whole=False)
    where = named or ("tags" if splitter.thinking or splitter.closed_only else "no")
    talk.thinks = where != "no"
    return {"thinking": where}


def _message(body: Any) -> Mapping[str, Any] | None:
    try:
        message = body["choices"][0]["message"]
    except (KeyError, IndexError, TypeError):
        return None
    return message if isinstance(message, Mapping) else None


async def cancels(talk: Talk) -> Found:
    """Whether closing the stream stops the server, so that the next request begins at once.

    Nothing is found where the reply was over too soon, or where the server takes several requests
    at once and does not say what it is busy with.
    """
    usual = await talk.ask(prompt(SHORT), tokens=1)
    tokens = min(max(int(talk.writing * LONG_SECONDS), 64), 1200)
    begin = time.monotonic()
    if not await _break_off(talk, tokens):
        raise ModelError("there was no reply that could be broken off")
    left = tokens / talk.writing - (time.monotonic() - begin)
    if (free := await _is_free(talk)) is not None:
        return {"cancels": free}
    if left < LEAST_SECONDS or int(talk.chat.details.get("slots", 1)) > 1:
        raise ModelError("it cannot be told from outside")
    after = await talk.ask(prompt(SHORT), tokens=1)
    return {"cancels": after.started - usual.started < left / 3}


async def _break_off(talk: Talk, tokens: int) -> bool:
    """Begin a long reply and close its stream; False where it ended by itself, or never began."""
    seen = asyncio.Event()
    count = 0

    def on_delta(kind: Literal["text", "thinking"], text: str) -> None:
        nonlocal count
        count += 1
        if count >= _SEEN:
            seen.set()

    talk.chat.limit_reply(tokens)
    patience = min(max(talk.left, 0), LEAST_PATIENCE)
    reply = asyncio.ensure_future(talk.chat.reply(prompt(COUNTING), on_delta=on_delta))
    waiting = asyncio.ensure_future(seen.wait())
    try:
        await asyncio.wait((reply, waiting), timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        return seen.is_set() and not reply.done()
    finally:
        for task in (reply, waiting):
            task.cancel()
        await asyncio.gather(reply, waiting, return_exceptions=True)


async def _is_free(talk: Talk) -> bool | None:
    """Whether no slot of the server is busy, at once or soon; None where it has no such list."""
    end = time.monotonic() + _FREED
    while True:
        slots: Any = None
        with suppress(ModelError):
            slots = await talk.chat.look("/slots")
        if not isinstance(slots, list) or not slots:
            return None
        if not any(isinstance(s, Mapping) and s.get("is_processing") for s in slots):
            return True
        if time.monotonic() > end:
            return False
        await asyncio.sleep(_PAUSE)


# -- what a chat template takes -------------------------------------------------------------------

_USER = {"role": "user", "content": "Hi"}
_ANSWER = {"role": "assistant", "content": "Hello"}
_INSTRUCTION = {"role": "system", "content": SYSTEM}
_CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": WEATHER.name, "arguments": '{"city": "Oslo"}'},
}
_CALLED = {"role": "assistant", "content": None, "tool_calls": [_CALL]}
_RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "rain"}
_LIST = {"role": "user", "content": [{"type": "text", "text": "Hi"}]}
SHAPES: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "takes_two_prompts": (_INSTRUCTION, _USER, _USER),
    "takes_system_inside": (_USER, _ANSWER, _INSTRUCTION, _USER),
    "takes_list_content": (_LIST,),
    "takes_null_content": (_USER, _CALLED, _RESULT),
}


async def template(talk: Talk) -> Found:
    """Which shapes of a history the server takes that strict chat templates refuse.

    Raises ModelError where it refuses a plain one too, so that nothing follows from the others.
    """
    if not await _takes(talk, (_INSTRUCTION, _USER)):
        raise ModelError("the server refused a plain request")
    found: dict[str, bool] = {}
    with suppress(TimeUp, ModelTimeout):
        for name, messages in SHAPES.items():
            found[name] = await _takes(talk, messages)
    return found


async def _takes(talk: Talk, messages: Sequence[Mapping[str, Any]]) -> bool:
    body: dict[str, Any] = {"messages": list(messages), "max_tokens": 1, "temperature": 0}
    if any("tool_calls" in message for message in messages):
        body["tools"] = [WEATHER.function]
    status, answer = await talk.send(body)
    return status == 200 and _message(answer) is not None


async def keeps_cache(talk: Talk) -> Found:
    """Whether `tool_choice` none leaves what was read in the cache: a last call costs little then.

    Raises ModelError where the server does not say what it took from the cache.
    """
    messages = prompt(WEATHER.prompts[0])
    await talk.ask(messages, tools=TOOLS[:4], tokens=1)
    heard = await talk.ask(messages, tools=TOOLS[:4], tokens=1, tool_choice="none")
    if heard.cached is None or not heard.read:
        raise ModelError("the server does not say what it had read before")
    return {"keeps_cache": heard.cached >= heard.read * 0.8}
