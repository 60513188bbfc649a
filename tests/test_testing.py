"""The shipped test kit: a model server as strict as any, and an MCP server that serves."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest_socket import SocketConnectBlockedError

from local_agent.testing import (
    Call,
    Fail,
    Hang,
    Json,
    RawCall,
    Say,
    ScriptedServer,
    Slow,
    check_request,
    echo_server,
)

Start = Callable[..., ScriptedServer]
USER = {"role": "user", "content": "hi"}
ANSWER = {"role": "assistant", "content": "yes"}


def calling(*ids: str, arguments: str = "{}", name: str = "echo", content: Any = "") -> Any:
    """An assistant message with one call per id."""
    calls = [
        {"id": i, "type": "function", "function": {"name": name, "arguments": arguments}}
        for i in ids
    ]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def result(call_id: str, content: Any = "x") -> dict[str, Any]:
    """A tool message."""
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def post(server: ScriptedServer, **body: Any) -> tuple[int, str]:
    """Send a chat request with plain urllib."""
    data = json.dumps({"messages": [USER], **body}).encode()
    request = urllib.request.Request(server.base_url + "/chat/completions", data)
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([USER, calling("a"), USER], "without a result"),
        ([USER, calling("a")], "without a result"),
        ([USER, calling("a", "b"), result("a"), ANSWER, USER], "without a result: b"),
        ([USER, result("a")], "without a call"),
        ([USER, calling("a"), result("a"), result("a")], "without a call"),
        ([USER, calling("a", arguments='{"x": '), result("a")], "not JSON"),
        ([USER, calling("a", arguments="[]"), result("a")], "not a JSON object"),
        ([USER, calling("a", content=None), result("a")], "not a string"),
        ([USER, calling("a"), result("a", [{"type": "text", "text": "x"}])], "not a string"),
        ([USER, calling(""), result("")], "without an id"),
        ([USER, calling("a", "a"), result("a")], "twice"),
        ([USER, calling("a", name="a.b"), result("a")], "not allowed"),
        ([USER, USER], "out of order"),
        ([USER, ANSWER, ANSWER, USER], "out of order"),
        ([USER, calling("a"), result("a"), USER], "out of order"),
        ([USER, {"role": "system", "content": "x"}, USER], "out of order"),
        ([ANSWER, USER], "out of order"),
        ([USER, ANSWER], "last message"),
        ([], "no messages"),
    ],
)
def test_strict_history(messages: list[Any], words: str) -> None:
    """A history that a strict provider refuses is named as such."""
    assert words in (check_request({"messages": messages}) or "")


def test_good_history() -> None:
    """System first, tool groups whole, roles alternating: nothing to refuse."""
    messages = [{"role": "system", "content": "s"}, USER, calling("a", "b"), result("b")]
    messages += [result("a"), calling("a"), result("a"), ANSWER, USER]
    assert check_request({"messages": messages, "tool_choice": "none"}) is None


def test_tool_choice_and_names_are_checked() -> None:
    """An object as tool_choice and a tool name with a dot are refused."""
    assert "tool_choice" in (check_request({"messages": [USER], "tool_choice": {}}) or "")
    tool = {"type": "function", "function": {"name": "db.query"}}
    assert "db.query" in (check_request({"messages": [USER], "tools": [tool]}) or "")


def test_replies_in_order(scripted: Start) -> None:
    """Replies are played in order, requests recorded, and running out is a clear 500."""
    server = scripted([Say("one"), Json({"a": 1}), Call("echo", {"text": "x"})])
    assert json.loads(post(server)[1])["choices"][0]["message"]["content"] == "one"
    assert json.loads(post(server)[1])["choices"][0]["message"]["content"] == '{"a": 1}'
    message = json.loads(post(server)[1])["choices"][0]["message"]
    assert message["tool_calls"][0]["function"] == {"name": "echo", "arguments": '{"text": "x"}'}
    status, text = post(server)
    assert (status, "3 replies, this is request 4" in text) == (500, True)
    assert len(server.requests) == 4


def test_repeat_and_callable(scripted: Start) -> None:
    """The last reply repeats on demand; a function may answer instead of a list."""
    server = scripted([Say("one")], repeat=True)
    assert [post(server)[0] for _ in range(3)] == [200, 200, 200]
    echo = scripted(lambda body: Say(body["messages"][-1]["content"].upper()))
    assert json.loads(post(echo)[1])["choices"][0]["message"]["content"] == "HI"


def test_stream_form(scripted: Start) -> None:
    """A stream has pieces, a finish reason, usage where asked for, and [DONE]."""
    server = scripted([RawCall("w", '{"a": "b', finish="length")], chunk=3)
    _, text = post(server, stream=True, stream_options={"include_usage": True})
    lines = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    chunks = [json.loads(line) for line in lines]
    assert chunks[-1]["usage"]["total_tokens"] > 0
    assert chunks[-2]["choices"][0]["finish_reason"] == "length"
    calls = [c["choices"][0]["delta"].get("tool_calls") for c in chunks if c["choices"]]
    assert "".join(c[0]["function"]["arguments"] for c in calls if c) == '{"a": "b'


def test_refused_are_kept(scripted: Start) -> None:
    """A refused request gets 400 with the reason and is kept with it."""
    server = scripted([Say("never")])
    status, text = post(server, messages=[USER, USER])
    assert (status, "out of order" in text, len(server.refused)) == (400, True, 1)


@pytest.mark.parametrize("shape", ["llama.cpp", "object", "string", "json_200", "event"])
def test_overflow_shapes(scripted: Start, shape: str) -> None:
    """Too long a prompt is refused in the chosen shape, with the numbers."""
    server = scripted([Say("never")], max_prompt_chars=100, overflow=shape)
    status, text = post(server, messages=[{"role": "user", "content": "x" * 400}], stream=True)
    assert status == (200 if shape in ("json_200", "event") else 400)
    assert "25" in text


def test_none_loaded(scripted: Start) -> None:
    """Without a loaded model a chat request is a 404."""
    assert post(scripted([Say("x")], loaded=[]))[0] == 404


def test_slow_then_closed(scripted: Start) -> None:
    """A closed server drops whoever waits for it, like a killed one."""
    server = scripted([Slow(Say("later"), 0.05), Hang(), Fail(418, "tea")])
    assert post(server)[0] == 200

    async def wait() -> None:
        asyncio.get_running_loop().call_later(0.1, server.close)
        with pytest.raises((OSError, urllib.error.URLError)):
            await asyncio.to_thread(post, server)

    asyncio.run(wait())


def rpc(process: subprocess.Popen[str], method: str, **params: Any) -> dict[str, Any]:
    """One JSON-RPC request over the pipes of a child."""
    assert process.stdin
    assert process.stdout
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    return dict(answer["result"])


def test_echo_server(tmp_path: Path) -> None:
    """The MCP server lists reads and writes, runs them, and ends with its stdin."""
    command, args = echo_server()
    notes = tmp_path / "notes"
    with subprocess.Popen(
        [command, *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"NOTE_FILE": str(notes), "INSTRUCTIONS": "be kind"},
    ) as process:
        hello = rpc(process, "initialize", protocolVersion="2025-06-18")
        assert hello["instructions"] == "be kind"
        tools = {tool["name"]: tool for tool in rpc(process, "tools/list")["tools"]}
        reads = {name for name, tool in tools.items() if "annotations" in tool}
        assert set(tools) - reads == {"write_note", "slow_write"}
        call = rpc(process, "tools/call", name="add", arguments={"a": 1, "b": 2})
        assert call == {"content": [{"type": "text", "text": "3"}], "isError": False}
        rpc(process, "tools/call", name="write_note", arguments={"text": "milk"})
        slow = {"text": "b", "seconds": 0}
        rpc(process, "tools/call", name="slow_write", arguments=slow)
        assert rpc(process, "tools/call", name="fail", arguments={})["isError"]
        assert process.stdin
        process.stdin.close()
        assert process.wait(5) == 0
    assert notes.read_text() == "milk\nstart b\nend b\n"


def test_sockets_are_blocked() -> None:
    """No test reaches beyond this machine."""
    # It warns first, and warnings are errors here.
    with pytest.raises((SocketConnectBlockedError, UserWarning), match=r"192\.0\.2\.1"):
        socket.create_connection(("192.0.2.1", 80), timeout=1)
