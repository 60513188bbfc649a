"""Calls over sessions that are held open: limits, deaths, restarts and cancelled waits."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from local_agent.config import ServerSpec
from local_agent.mcp_client.server import Server
from tests.servers.http_server import HttpServer
from tests.servers.mcp_kit import is_alive, opened, stdio_spec, tool, wait_for

NOTE = "[note: server a was started again; what it held in memory is gone]\n"


async def test_one_process_serves_all_calls(tmp_path: Path) -> None:
    """M12: the same pid over all calls, and the server remembers what it was told."""
    async with opened([stdio_spec("a")], tmp_path) as servers:
        pids = {await tool(servers, "pid")({}) for _ in range(3)}
        await tool(servers, "set")({"key": "k", "value": "v"})

        assert len(pids) == 1
        assert await tool(servers, "get")({"key": "k"}) == ("v", "success")


async def test_calls_run_side_by_side(tmp_path: Path) -> None:
    """Answers that come out of order reach the calls they belong to."""
    async with opened([stdio_spec("a")], tmp_path) as servers:
        slow = asyncio.create_task(tool(servers, "late")({"seconds": 0.3}))
        quick = await asyncio.gather(*(tool(servers, "echo")({"n": n}) for n in range(20)))

        assert not slow.done()
        assert [json.loads(text)["n"] for text, _ in quick] == list(range(20))
        assert await slow == ("late", "success")


async def test_a_server_that_dies_in_a_call_is_started_again_for_the_next(tmp_path: Path) -> None:
    """M10: an error at once, the next call works and says what was lost, others are untouched."""
    async with opened([stdio_spec("a"), stdio_spec("b")], tmp_path) as servers:
        await tool(servers, "set", "b")({"key": "k", "value": "v"})
        before = await tool(servers, "pid", "a")({})

        assert await tool(servers, "die", "a")({}) == (
            "Server a ended during the call. It is started again for the next call. "
            "It may have run all the same: check before trying again.",
            "error",
        )
        assert await tool(servers, "get", "b")({"key": "k"}) == ("v", "success")
        text, status = await tool(servers, "pid", "a")({})
        assert status == "success"
        assert text.startswith(NOTE)
        assert text.removeprefix(NOTE) != before[0]
        assert await tool(servers, "whoami", "a")({}) == ("a", "success")
        assert [status.state for status in servers.status] == ["ready", "ready"]


async def test_a_read_that_failed_has_no_doubt(tmp_path: Path) -> None:
    """M10: only a write is said to have run perhaps."""
    async with opened([stdio_spec("a", read=("die",))], tmp_path) as servers:
        text, status = await tool(servers, "die")({})

    assert status == "error"
    assert "may have run" not in text


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL")
async def test_a_call_to_a_server_that_died_before_is_sent_once(tmp_path: Path) -> None:
    """M10: killed between two calls: the next never reached it, so it goes to the new one."""
    file = tmp_path / "notes"
    async with opened([stdio_spec("a")], tmp_path) as servers:
        pid = int((await tool(servers, "pid")({}))[0])
        os.kill(pid, signal.SIGKILL)
        assert wait_for(lambda: not is_alive(pid))
        await asyncio.sleep(0.1)  # the end of its output is seen

        result = await tool(servers, "note")({"file": str(file), "line": "once"})

    assert result == (f"{NOTE}noted", "success")
    assert file.read_text() == "once\n"


async def test_a_server_that_always_dies_is_not_started_for_ever(tmp_path: Path) -> None:
    """Restarts are bounded; the model is told, and the program goes on."""
    server = Server(stdio_spec("a"), tmp_path, lambda: tmp_path, restart_delays=(0.0, 0.0))
    await server.start()
    texts = [(await server.call("die", {}, read_only=False))[0] for _ in range(4)]
    await server.close()

    assert "ended during the call" in texts[1]
    assert "ended 2 times in a row and is not started again before" in texts[3]


async def test_a_restart_that_fails_is_said(tmp_path: Path) -> None:
    """M10: a server that cannot be started again is an error to the model."""
    script = tmp_path / "server.py"
    good = stdio_spec("a")
    script.write_bytes(Path(good.args[1]).read_bytes())
    spec = ServerSpec("a", command=good.command, args=("-S", str(script)))
    async with opened([spec], tmp_path) as servers:
        await tool(servers, "die")({})
        script.unlink()
        text, status = await tool(servers, "whoami")({})

        assert status == "error"
        assert text.startswith("Server a was lost and could not be used again: it ended before")
        assert [status.state for status in servers.status] == ["failed"]


async def test_a_call_without_an_answer_ends_at_the_limit(tmp_path: Path) -> None:
    """M11 (a)(c): limit named, server told, late answer dropped, session usable."""
    record = tmp_path / "record"
    spec = stdio_spec("a", {"record": str(record)}, tool_timeout_sec=0.5, read=("late",))
    async with opened([spec], tmp_path) as servers:
        late = await tool(servers, "late")({"seconds": 0.7})
        hang = await tool(servers, "hang")({})
        await asyncio.sleep(0.5)  # the late answer has arrived
        after = [await tool(servers, "whoami")({}) for _ in range(3)]

    limit = "No answer within 0.5 s (tool_timeout_sec of server a). The server was told to stop."
    assert late == (limit, "error")
    assert hang == (f"{limit} It may have run all the same: check before trying again.", "error")
    assert after == [("a", "success")] * 3
    assert record.read_text().count("notifications/cancelled") == 2


async def test_a_call_that_is_interrupted_is_cancelled_on_the_server(tmp_path: Path) -> None:
    """M11 (b): Ctrl-C ends the wait at once, the server is told, the next call works."""
    record = tmp_path / "record"
    async with opened([stdio_spec("a", {"record": str(record)})], tmp_path) as servers:
        call = asyncio.create_task(tool(servers, "hang")({}))
        while "hang" not in record.read_text():
            await asyncio.sleep(0.02)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

        assert await tool(servers, "whoami")({}) == ("a", "success")

    lines = record.read_text().splitlines()
    (cancelled,) = [line for line in lines if line.startswith("notifications/cancelled")]
    assert json.loads(cancelled.partition(" ")[2])["requestId"] == 2


@pytest.mark.parametrize("args", [{"runtime": 1, "config": {"a": 1}, "run_manager": 2, "self": 3}])
async def test_arguments_of_any_name_arrive(tmp_path: Path, args: dict[str, Any]) -> None:
    """Names that the adapter keeps for itself are arguments like any other."""
    async with opened([stdio_spec("a")], tmp_path) as servers:
        text, _ = await tool(servers, "echo")(args)

    assert json.loads(text) == args


async def test_odd_values_as_arguments(tmp_path: Path) -> None:
    """Huge integers, lone surrogates and NUL pass; what is no JSON is refused."""
    args = {"big": 2**80, "text": "a\ud800b\x00c", "pair": "\ud83d\ude00", "none": None}
    async with opened([stdio_spec("a")], tmp_path) as servers:
        text, status = await tool(servers, "echo")(args)
        refused = await tool(servers, "echo")({"x": object()})

        assert await tool(servers, "whoami")({}) == ("a", "success")

    assert status == "success"
    assert json.loads(text) == {
        "big": 2**80,
        "text": "a\ufffdb\ufffdc",
        "pair": "\U0001f600",
        "none": None,
    }
    assert refused[1] == "error"


async def test_http_refused_login_at_the_start(tmp_path: Path) -> None:
    """M18 (a), D15: 401 is said in words, others work, the token is nowhere."""
    with HttpServer() as server:
        server.fail["initialize"] = [401]
        spec = ServerSpec(
            "web",
            url=server.url,
            transport="http",
            headers={"Authorization": "Bearer TESTSECRET1"},
            secrets=("Bearer TESTSECRET1", "TESTSECRET1"),
        )
        async with opened([spec, stdio_spec("good")], tmp_path) as servers:
            states = [(status.state, status.reason) for status in servers.status]

        headers = server.seen[0][1]

    assert states == [("failed", "refused the login (401)"), ("ready", "")]
    assert {name.lower(): value for name, value in headers.items()}["authorization"] == (
        "Bearer TESTSECRET1"
    )
    assert not [
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and b"TESTSECRET" in path.read_bytes()
    ]


DOUBT = " It may have run all the same: check before trying again."


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (401, "Server web refused the login (401)."),
        (503, f"Server web answered HTTP 503 Service Unavailable.{DOUBT}"),
        ("drop", f"Server web broke the connection off (RemoteProtocolError).{DOUBT}"),
        ("cut", f"Server web broke the connection off.{DOUBT}"),
        ("cut json", f"Server web broke the connection off (RemoteProtocolError).{DOUBT}"),
        ("html", f"Server web answered with something that is not MCP.{DOUBT}"),
    ],
)
@pytest.mark.parametrize("as_events", [False, True])
async def test_http_failure_of_one_call(
    tmp_path: Path, failure: int | str, text: str, as_events: bool
) -> None:
    """M18 (b)(c)(d): an error result with the status; the same session answers the next call."""
    with HttpServer() as server:
        server.as_events = as_events
        server.fail["tools/call"] = [failure]
        async with opened([ServerSpec("web", url=server.url, transport="http")], tmp_path) as all_:
            assert await tool(all_, "put")({}) == (text, "error")
            assert await tool(all_, "put")({}) == ("call 1", "success")
        assert server.sessions == 1
        assert len(server.calls) == 1  # the failed one was not sent again


async def test_http_session_that_the_server_has_forgotten(tmp_path: Path) -> None:
    """M18: a call refused for its unknown session is sent once more in a new one; that is said."""
    with HttpServer() as server:
        async with opened([ServerSpec("web", url=server.url, transport="http")], tmp_path) as all_:
            server.fail["tools/call"] = ["forget"]
            text, status = await tool(all_, "put")({})
        calls, sessions = len(server.calls), server.sessions

    assert (calls, sessions, status) == (1, 2, "success")
    assert text == ("[note: this is a new session with server web; the old one was lost]\ncall 1")


async def test_http_failure_of_a_notification_is_no_failure(tmp_path: Path) -> None:
    """M18: a server that refuses `notifications/initialized` does not take the session down."""
    with HttpServer() as server:
        server.fail["notifications/initialized"] = [500]
        async with opened([ServerSpec("web", url=server.url, transport="http")], tmp_path) as all_:
            assert await tool(all_, "put")({}) == ("call 1", "success")
