"""What the chat model makes of answers: text, reasoning, raw calls, usage, and what it sends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    SystemMessage,
    ToolMessage,
)

from local_agent.config import ModelSettings
from local_agent.model import ChatModel, connect_model
from local_agent.testing import (
    Call,
    Calls,
    Deltas,
    Hang,
    Json,
    RawCall,
    Reply,
    Say,
    ScriptedServer,
    Slow,
)

Start = Callable[..., ScriptedServer]
HI: list[BaseMessage] = [SystemMessage("be brief"), HumanMessage("hi")]
TOOL = {"type": "function", "function": {"name": "echo", "parameters": {"type": "object"}}}


class Heard:
    """Keeps what a reply streamed, by kind."""

    def __init__(self) -> None:
        self.text = ""
        self.thinking = ""

    def __call__(self, kind: str, piece: str) -> None:
        setattr(self, kind, getattr(self, kind) + piece)


Connect = Callable[..., Any]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Connect to a scripted server; the connection is closed with the test."""
    async with AsyncExitStack() as stack:

        async def start(server: ScriptedServer, **options: Any) -> ChatModel:
            settings = ModelSettings(base_url=server.base_url, **options.pop("settings", {}))
            options = {"timeout": 20.0, "reply_tokens": 100, **options}
            return await stack.enter_async_context(await connect_model(settings, **options))

        yield start


def raw(message: AIMessage) -> list[tuple[str, str, str]]:
    """The raw calls as (id, name, arguments)."""
    calls = message.additional_kwargs.get("raw_tool_calls", [])
    return [(call["id"], call["name"], call["args"]) for call in calls]


async def test_plain_answer(scripted: Start, connect: Connect) -> None:
    """Text streams in pieces and comes back whole, with usage, finish reason and an own id."""
    server = scripted([Say("hello world"), Say("hello world")])
    model = await connect(server)
    heard = Heard()
    first = await model.reply(HI, on_delta=heard)
    assert (first.content, heard.text) == ("hello world", "hello world")
    assert first.usage_metadata["input_tokens"] > 0
    assert first.response_metadata["finish_reason"] == "stop"
    assert first.response_metadata["timings"]["prompt_n"] > 0
    second = await model.reply(HI)
    assert second.usage_metadata["input_token_details"]["cache_read"] > 0
    assert first.id
    assert first.id != second.id
    assert server.requests[0]["stream"] is True
    assert server.requests[0]["max_tokens"] == 100


@pytest.mark.parametrize("usage", ["none", "zero", {"prompt_tokens": None}])
async def test_usage_that_is_none(scripted: Start, connect: Connect, usage: Any) -> None:
    """Usage that is missing, zero or null is none, not zero tokens."""
    model = await connect(scripted([Say("x", usage=usage)]))
    assert (await model.reply(HI)).usage_metadata is None


async def test_calls_stay_raw(scripted: Start, connect: Connect) -> None:
    """L01, L02: cut arguments come back as they were sent, and nothing counts as a call yet."""
    cut = '{"path":"a.txt","text":"buy mi'
    server = scripted([RawCall("write_note", cut), RawCall("write_note", cut, finish="length")])
    model = await connect(server)
    for finish in ("tool_calls", "length"):
        reply = await model.reply(HI, tools=[TOOL])
        assert raw(reply) == [("call_1", "write_note", cut)]
        assert (reply.tool_calls, reply.invalid_tool_calls) == ([], [])
        assert reply.response_metadata["finish_reason"] == finish
    assert server.requests[0]["tools"] == [TOOL]


def part(**fields: Any) -> dict[str, Any]:
    """A delta with one tool call entry."""
    return {"tool_calls": [fields]}


def function(name: str | None, arguments: Any) -> dict[str, Any]:
    """The function part of an entry."""
    return {"name": name, "arguments": arguments}


@pytest.mark.parametrize(
    ("deltas", "calls"),
    [
        pytest.param(
            [part(id="a", function=function("x", "{}")), part(id="b", function=function("y", ""))],
            [("a", "x", "{}"), ("b", "y", "")],
            id="no index",
        ),
        pytest.param(
            [
                part(index=0, id="a", function=function("x", '{"n":1}')),
                part(index=0, id="b", function=function("x", '{"n":2}')),
            ],
            [("a", "x", '{"n":1}'), ("b", "x", '{"n":2}')],
            id="one index for two calls",
        ),
        pytest.param(
            [
                part(index=0, id="", function=function("x", '{"n":1}')),
                part(index=0, id="", function=function("x", '{"n":2}')),
            ],
            [("", "x", '{"n":1}'), ("", "x", '{"n":2}')],
            id="one index and no ids",
        ),
        pytest.param(
            [
                part(index=0, id="a", function=function("x", '{"n"')),
                part(index=0, id="a", function=function("x", ":1}")),
                part(index=0, id="a", function=function("x", "")),
            ],
            [("a", "x", '{"n":1}')],
            id="name and id in every piece",
        ),
        pytest.param(
            [
                part(index=0, id="a", function=function("x", '{"n"')),
                part(index=1, id="b", function=function("y", '{"m"')),
                part(index=0, function=function(None, ":1}")),
                part(index=1, function=function(None, ":2}")),
            ],
            [("a", "x", '{"n":1}'), ("b", "y", '{"m":2}')],
            id="interleaved",
        ),
        pytest.param(
            [part(index=0, id="a", function=function("x", {"n": 1}))],
            [("a", "x", '{"n": 1}')],
            id="an object as arguments",
        ),
        pytest.param(
            [part(id="a", function=function("x", '{"n"')), part(function=function(None, ":1}"))],
            [("a", "x", '{"n":1}')],
            id="no index in the second piece",
        ),
    ],
)
async def test_odd_call_pieces(
    scripted: Start, connect: Connect, deltas: list[Any], calls: list[Any]
) -> None:
    """Pieces of calls are put together whatever a server does to index and id."""
    model = await connect(scripted([Deltas(deltas, finish="tool_calls")]))
    assert raw(await model.reply(HI)) == calls


async def test_call_without_a_function(scripted: Start, connect: Connect) -> None:
    """L06: an entry with an empty id and no function part is no crash; the text is there."""
    entry = {"index": 0, "id": "", "type": "function"}
    model = await connect(scripted([Deltas([{"content": "Done."}, {"tool_calls": [entry]}])]))
    reply = await model.reply(HI)
    assert (reply.content, raw(reply)) == ("Done.", [("", "", "")])


@pytest.mark.parametrize("finish", ["stop", "tool_calls"])
async def test_empty_list_of_calls(scripted: Start, connect: Connect, finish: str) -> None:
    """L07: an empty list of calls on a plain answer is no call."""
    model = await connect(scripted([Deltas([{"content": "hi", "tool_calls": []}], finish)]))
    reply = await model.reply(HI)
    assert (reply.content, reply.tool_calls, raw(reply)) == ("hi", [], [])


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
async def test_reasoning_field(scripted: Start, connect: Connect, key: str) -> None:
    """L11: reasoning in a field of its own is told as thinking and in no part of the message."""
    model = await connect(scripted([Deltas([{key: "plan A"}, {"content": "Hello"}])]))
    heard = Heard()
    reply = await model.reply(HI, on_delta=heard)
    assert (heard.thinking, heard.text, reply.content) == ("plan A", "Hello", "Hello")
    assert "plan A" not in repr(reply)


async def test_think_tags(scripted: Start, connect: Connect) -> None:
    """L11: tags split over pieces are found; what is between them is thinking."""
    pieces = ["<thi", "nk>plan A", "</th", "ink>\n\nHello"]
    model = await connect(scripted([Deltas([{"content": piece} for piece in pieces])]))
    heard = Heard()
    reply = await model.reply(HI, on_delta=heard)
    assert (heard.thinking, heard.text, reply.content) == ("plan A", "Hello", "Hello")


async def test_only_thinking(scripted: Start, connect: Connect) -> None:
    """L11: reasoning that never closes leaves an empty answer that is marked as such."""
    model = await connect(scripted([Say("<think>plan A"), Say("ok")]))
    reply = await model.reply(HI)
    assert (reply.content, reply.response_metadata["only_thinking"]) == ("", True)
    assert "only_thinking" not in (await model.reply(HI)).response_metadata


async def test_think_closing_tag_only(scripted: Start, connect: Connect) -> None:
    """L11: a model whose template opens the tag: stripped, and from then on never shown as text."""
    model = await connect(scripted([Say("plan A</think>Hello"), Say("plan B</think>Bye")]))
    assert (await model.reply(HI)).content == "Hello"
    heard = Heard()
    assert (await model.reply(HI, on_delta=heard)).content == "Bye"
    assert (heard.thinking, heard.text) == ("plan B", "Bye")


async def test_wire_form(scripted: Start, connect: Connect) -> None:
    """L19, L04: every content is a string, unparsed calls go out as JSON, the order stands."""
    server = scripted([Say("ok")])
    model = await connect(server)
    call = {"name": "echo", "args": {"text": "x"}, "id": "a", "type": "tool_call"}
    broken = InvalidToolCall(
        name="db.query", args='{"x": ', id="b", error="cut", type="invalid_tool_call"
    )
    blocks: list[Any] = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    history = [
        *HI,
        AIMessage("", tool_calls=[call], invalid_tool_calls=[broken]),
        ToolMessage(blocks, tool_call_id="a"),
        ToolMessage([], tool_call_id="b", status="error"),
        AIMessage("half \ud800 pair"),
        HumanMessage([{"type": "text", "text": "and now?"}]),
    ]
    await model.reply(history, tools=[TOOL])
    sent = server.requests[0]["messages"]
    assert server.refused == []
    assert [m["content"] for m in sent[2:]] == [
        "",
        "one\ntwo",
        "(no output)",
        "half ? pair",
        "and now?",
    ]
    functions = [c["function"] for c in sent[2]["tool_calls"]]
    assert functions == [
        {"name": "echo", "arguments": '{"text": "x"}'},
        {"name": "db_query", "arguments": "{}"},
    ]


async def test_tool_choice(scripted: Start, connect: Connect) -> None:
    """The choice goes out as a word, and only beside tools."""
    server = scripted([Say("a"), Call("echo"), Say("b")])
    model = await connect(server)
    await model.reply(HI, tools=[TOOL], tool_choice="none")
    await model.reply(HI, tools=[TOOL], tool_choice="required")
    await model.reply(HI, tool_choice="none")
    assert [r.get("tool_choice") for r in server.requests] == ["none", "required", None]


async def test_response_format(scripted: Start, connect: Connect) -> None:
    """A JSON schema is passed on and the content is the JSON text."""
    server = scripted([Json({"route": "repo"})])
    model = await connect(server)
    schema = {"type": "json_schema", "json_schema": {"name": "route", "schema": {}}}
    assert (await model.reply(HI, response_format=schema)).content == '{"route": "repo"}'
    assert server.requests[0]["response_format"] == schema


async def test_cancel_hangs_up(scripted: Start, connect: Connect) -> None:
    """A cancelled reply closes its connection, before the first byte and in the middle."""
    for reply in (Hang(), Hang("half")):
        server = scripted([reply])
        model = await connect(server)
        task = asyncio.create_task(model.reply(HI))
        while not server.requests:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.dropped.wait, 5)


async def test_slow_prompt_reading(scripted: Start, connect: Connect) -> None:
    """Silence before the first byte is waited out and the request is sent once."""
    server = scripted([Slow(Say("read it"), 0.3)])
    model = await connect(server)
    assert (await model.reply(HI)).content == "read it"
    assert len(server.requests) == 1


async def test_other_model_answers(scripted: Start, connect: Connect) -> None:
    """L16: another model than asked for is one notice, however many answers it gives."""
    told: list[str] = []
    server = scripted([Say("a")], repeat=True, reply_model="tiny-1b")
    model = await connect(server, on_notice=told.append)
    await model.reply(HI)
    await model.reply(HI)
    assert told == model.notices == ["Asked for scripted-7b; the answers come from tiny-1b."]


@pytest.mark.parametrize("served", ["models/Scripted-7B.gguf", "org/scripted-7b", "scripted-7b:2"])
async def test_same_model_by_another_name(scripted: Start, connect: Connect, served: str) -> None:
    """L16: folder, file ending, instance number and case make no other model."""
    model = await connect(scripted([Say("a")], reply_model=served))
    await model.reply(HI)
    assert model.notices == []


async def test_environment_stays_out(
    scripted: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proxies, OPENAI_* and LangSmith variables change neither address nor headers."""
    dead = "http://127.0.0.1:9"
    other = scripted([])
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, dead)
    for name, value in {
        "OPENAI_API_KEY": "sk-leak",
        "OPENAI_BASE_URL": other.base_url,
        "OPENAI_API_BASE": other.base_url,
        "OPENAI_PROXY": dead,
        "OPENAI_ORG_ID": "org-leak",
        "OPENAI_PROJECT_ID": "proj-leak",
        "OPENAI_CUSTOM_HEADERS": "X-Leak: leak",
        "LANGSMITH_TRACING": "true",
        "LANGSMITH_API_KEY": "leak",
        "LANGSMITH_ENDPOINT": f"http://127.0.0.1:{other.port}",
        "LANGSMITH_GATEWAY": other.base_url,
    }.items():
        monkeypatch.setenv(name, value)
    server = scripted([Say("a")], repeat=True)
    model = await connect(server)
    await model.reply(HI)
    assert "leak" not in repr(server.headers)
    assert "authorization" not in {name.lower() for name in server.headers[0]}
    assert other.paths == []


async def test_key_goes_out(scripted: Start, connect: Connect) -> None:
    """A key of the configuration is sent with every request."""
    server = scripted([Say("a")], api_key="secret-1")
    model = await connect(server, settings={"api_key": "secret-1"})
    assert (await model.reply(HI)).content == "a"


async def test_server_that_does_not_stream(scripted: Start, connect: Connect) -> None:
    """A whole answer in reply to a stream request is taken as it is."""
    whole: Reply = Calls([Call("echo", {"text": "x"})], text="so")
    server = scripted([whole], never_streams=True)
    model = await connect(server)
    reply = await model.reply(HI)
    assert (reply.content, raw(reply)) == ("so", [("call_1", "echo", '{"text": "x"}')])
