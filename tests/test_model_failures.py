"""Every way in which a model server fails is one error of ours, in one line, with what to do."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage

from local_agent.config import ModelSettings
from local_agent.errors import (
    ContextOverflow,
    ModelError,
    ModelNotLoaded,
    ModelTimeout,
    ModelUnreachable,
    StreamBroken,
)
from local_agent.model import ChatModel, connect_model
from local_agent.model.failures import from_status, one_line, overflow_numbers
from local_agent.testing import Broken, Deltas, Fail, Hang, Say, ScriptedServer

Start = Callable[..., ScriptedServer]
Connect = Callable[..., Any]
HI: list[BaseMessage] = [HumanMessage("hi")]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Connect to a scripted server; the connection is closed with the test."""
    async with AsyncExitStack() as stack:

        async def start(server: ScriptedServer, *, timeout: float = 20.0, **more: Any) -> ChatModel:
            settings = ModelSettings(base_url=server.base_url, **more)
            return await stack.enter_async_context(await connect_model(settings, timeout=timeout))

        yield start


def check_text(error: ModelError) -> None:
    """Message and hint are one line each and no longer than a line should be."""
    for text in (error.message, error.hint):
        assert "\n" not in text
        assert len(text) < 500


@pytest.mark.parametrize("shape", ["llama.cpp", "object", "string", "json_200", "event"])
async def test_overflow_in_every_shape(scripted: Start, connect: Connect, shape: str) -> None:
    """L14: an overflow is recognised however it is told, with both numbers, and sent once."""
    server = scripted([Say("fits")], max_prompt_chars=400, overflow=shape)
    model = await connect(server)
    with pytest.raises(ContextOverflow) as caught:
        await model.reply([HumanMessage("x" * 4000)])
    assert caught.value.prompt_tokens
    assert caught.value.prompt_tokens > 1000
    assert caught.value.context_length == 100
    assert "100" in caught.value.message
    check_text(caught.value)
    assert len(server.requests) == 1
    assert (await model.reply(HI)).content == "fits"


@pytest.mark.parametrize(
    ("body", "numbers"),
    [
        ({"error": {"message": "... n_keep: 10247 >= n_ctx: 4096"}}, (10247, 4096)),
        ({"error": "... n_keep: 10247 >= n_ctx: 4096"}, (10247, 4096)),
        ({"error": "Trying to keep the first 9000 tokens ..."}, (9000, None)),
        (
            "Trying to keep the first 5000 tokens when context the overflows. However, the model "
            "is loaded with context length of only 4096 tokens, which is not enough.",
            (5000, 4096),
        ),
        ({"type": "exceed_context_size_error", "n_prompt_tokens": 9, "n_ctx": 8}, (9, 8)),
        ("request (12020 tokens) exceeds the available context size (8192 tokens)", (12020, 8192)),
        (
            "This model's maximum context length is 4096 tokens. However, your messages resulted "
            "in 5000 tokens.",
            (5000, 4096),
        ),
        ({"error": {"code": "context_length_exceeded", "message": "too long"}}, (None, None)),
        ("The model has reached its context length.", (None, None)),
    ],
)
def test_overflow_texts(body: Any, numbers: tuple[int | None, int | None]) -> None:
    """L14: the texts that servers are known to send, and the numbers in them."""
    error = from_status(400, body, base_url="http://x/v1")
    assert isinstance(error, ContextOverflow)
    assert (error.prompt_tokens, error.context_length) == numbers
    check_text(error)


def test_numbers_of_nothing() -> None:
    """No numbers said is no numbers."""
    assert overflow_numbers(None, "") == (None, None)


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("error_event", "The model has crashed"),
        ("error_event_dict", "The model has crashed"),
        ("close", "ended early"),
        ("reset", "connection was lost"),
        ("mid_args", "ended early"),
    ],
)
async def test_broken_stream(scripted: Start, connect: Connect, how: Any, reason: str) -> None:
    """L15: a stream that breaks off is an error with the part that came, and is not sent again."""
    server = scripted([Broken("The total is 4", how), Say("42")])
    model = await connect(server)
    with pytest.raises(StreamBroken, match=reason) as caught:
        await model.reply(HI)
    assert caught.value.partial == "The total is 4"
    check_text(caught.value)
    assert len(server.requests) == 1
    assert (await model.reply(HI)).content == "42"


async def test_no_finish_reason(scripted: Start, connect: Connect) -> None:
    """L15: a stream that ends in good form but names no reason is not whole."""
    model = await connect(scripted([Deltas([{"content": "half"}], finish=None)]))
    with pytest.raises(StreamBroken) as caught:
        await model.reply(HI)
    assert caught.value.partial == "half"


async def test_error_event_first(scripted: Start, connect: Connect) -> None:
    """L15: an error event before any text is the server's error, not half an answer."""
    model = await connect(scripted([Broken("", "error_event", message="Out of memory")]))
    with pytest.raises(ModelError, match="Out of memory") as caught:
        await model.reply(HI)
    assert not isinstance(caught.value, StreamBroken)


async def test_nothing_listens(scripted: Start, connect: Connect) -> None:
    """L16: the address and what to start are in the text; it works once the server is up."""
    server = scripted([Say("unused")])
    model = await connect(server)
    server.close()
    with pytest.raises(ModelUnreachable) as caught:
        await model.reply(HI)
    assert str(caught.value).startswith(f"No model server at {server.base_url}. Start LM Studio")
    check_text(caught.value)
    again = scripted([Say("back")], port=server.port)
    assert again.base_url == server.base_url
    assert (await model.reply(HI)).content == "back"


async def test_server_back_within_the_pauses(scripted: Start, connect: Connect) -> None:
    """A refused connection is tried again a little later: nothing can have been answered."""
    server = scripted([])
    model = await connect(server)
    server.close()
    task = asyncio.create_task(model.reply(HI))
    await asyncio.sleep(0.1)
    scripted([Say("back")], port=server.port)
    assert (await task).content == "back"


async def test_nothing_listens_at_the_start() -> None:
    """L16: connecting to a closed port is told with the address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with pytest.raises(ModelUnreachable, match="No model server at"):
        await connect_model(ModelSettings(base_url=url))


@pytest.mark.parametrize("text", ["", "half"])
async def test_server_dies_while_it_reads(scripted: Start, connect: Connect, text: str) -> None:
    """A server that dies is noticed at once by its closed connection, not by a time limit."""
    server = scripted([Hang(text)])
    model = await connect(server, timeout=1000.0)
    heard = asyncio.Event()
    reply = asyncio.create_task(model.reply(HI, on_delta=lambda kind, piece: heard.set()))
    while not server.requests:
        await asyncio.sleep(0.01)
    if text:
        await heard.wait()
    server.close()
    with pytest.raises(StreamBroken if text else ModelUnreachable):
        await reply


@pytest.mark.parametrize("text", ["", "half"])
async def test_silence_over_the_limit(scripted: Start, connect: Connect, text: str) -> None:
    """Silence for longer than the set time is a timeout, sent once."""
    server = scripted([Hang(text)])
    model = await connect(server, timeout=0.2)
    with pytest.raises(ModelTimeout, match=r"0\.2 s"):
        await model.reply(HI)
    assert len(server.requests) == 1


async def test_none_loaded(scripted: Start, connect: Connect) -> None:
    """L16: a 404 for want of a model says how to load one."""
    server = scripted([Say("ok")])
    model = await connect(server)
    server.loaded = []
    with pytest.raises(ModelNotLoaded, match="lms load") as caught:
        await model.reply(HI)
    assert "No models loaded" in caught.value.message
    assert server.base_url in caught.value.message


async def test_loading_is_waited_for(scripted: Start, connect: Connect) -> None:
    """A 503 that says the model is loading is waited out, and told once."""
    loading = Fail(503, {"error": {"message": "Loading model", "type": "unavailable_error"}})
    server = scripted([loading, loading, Say("ready")])
    model = await connect(server)
    assert (await model.reply(HI)).content == "ready"
    assert model.notices == ["The model server is loading its model."]


async def test_other_errors_are_not_sent_again(scripted: Start, connect: Connect) -> None:
    """A 500 is one request and carries the server's own words."""
    server = scripted([Fail(500, {"error": {"message": "kv cache\nis \x1b[31mfull"}})])
    model = await connect(server)
    with pytest.raises(ModelError, match=r"answered 500: kv cache is \[31mfull"):
        await model.reply(HI)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "reply",
    [
        Fail(200, "<!doctype html><title>hi</title>"),
        Fail(404, "<html>nothing here</html>"),
        Fail(200, {"error": "Unexpected endpoint or method. (POST /chat/completions)"}),
    ],
)
async def test_not_an_openai_server(scripted: Start, connect: Connect, reply: Fail) -> None:
    """Something that is no such server is told with the remedy."""
    model = await connect(scripted([reply]))
    with pytest.raises(ModelError, match="ends in /v1"):
        await model.reply(HI)


async def test_a_gateway_in_front_of_the_server(scripted: Start, connect: Connect) -> None:
    """The page of a proxy says nothing of the address."""
    model = await connect(scripted([Fail(502, "<html>Bad gateway</html>")] * 5))
    with pytest.raises(ModelError, match="answered 502") as raised:
        await model.reply(HI)
    assert "base_url" not in raised.value.hint


@pytest.mark.parametrize("reply", [Fail(200, ""), Fail(200, "[]"), Fail(200, {"choices": None})])
async def test_empty_successes(scripted: Start, connect: Connect, reply: Fail) -> None:
    """A success without an answer in it is an error."""
    model = await connect(scripted([reply]))
    with pytest.raises(ModelError) as caught:
        await model.reply(HI)
    check_text(caught.value)


async def test_key_is_masked(scripted: Start, connect: Connect) -> None:
    """D15: a server that repeats the key in its error does not get it onto the screen."""
    server = scripted([Say("a")], api_key="TESTSECRET6")
    model = await connect(server, api_key="TESTSECRET6")
    server.api_key = "another"
    with pytest.raises(ModelError, match="refused the key") as caught:
        await model.reply(HI)
    assert "TESTSECRET6" not in str(caught.value)
    with pytest.raises(ModelError, match="LM_API_TOKEN") as caught:
        await connect(server, api_key="TESTSECRET6")
    assert "TESTSECRET6" not in str(caught.value)


def test_words_on_one_line() -> None:
    """The server's words lose control and bidirectional characters and end in time."""
    assert one_line("a\r\nb\x1b]0;t\x07 \u202ec", ("c",)) == "a b ]0;t ***"
    assert len(one_line("x" * 1000)) == 300
