"""Starting servers: side by side, each with its limit, one bad one never in the way of the rest."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from local_agent.config import ServerSpec
from local_agent.mcp_client import log_path
from tests.servers.http_server import HttpServer
from tests.servers.mcp_kit import is_alive, opened, stdio_spec, tool, wait_for


async def test_a_server_that_cannot_start_leaves_the_others(tmp_path: Path) -> None:
    """M06: no such command, a closed port, a folder as command: a line each, the rest works."""
    specs = [
        stdio_spec("good"),
        ServerSpec("bad1", command="no-such-command-anywhere"),
        ServerSpec("bad2", url="http://127.0.0.1:9/mcp", transport="http"),
        ServerSpec("bad3", command=str(tmp_path)),
        ServerSpec("bad4", command="x", problem="TOKEN is not set"),
        ServerSpec("bad5", command="true", cwd=str(tmp_path / "missing")),
        ServerSpec("off", command="x", enabled=False),
    ]
    async with opened(specs, tmp_path) as servers:
        reasons = {status.name: (status.state, status.reason) for status in servers.status}

        assert (await tool(servers, "whoami")({})) == ("good", "success")

    assert reasons == {
        "good": ("ready", ""),
        "bad1": (
            "failed",
            "its command no-such-command-anywhere was not found: install it, or give its path",
        ),
        "bad2": ("failed", "cannot be reached at http://127.0.0.1:9/mcp"),
        "bad3": ("failed", f"its command {tmp_path} is a folder"),
        "bad4": ("failed", "TOKEN is not set"),
        "bad5": ("failed", f"its working folder {tmp_path / 'missing'} does not exist"),
        "off": ("disabled", ""),
    }


async def test_a_server_that_exits_at_once_is_reported_with_its_last_words(tmp_path: Path) -> None:
    """M07 (a), D15: the last stderr lines and the exit code are in the reason, secrets are not."""
    settings = {"stderr": "reading settings\nAPI_KEY not set, had s3cr3t-v4lue", "exit": 2}
    async with opened([stdio_spec("a", settings, secrets=("s3cr3t-v4lue",))], tmp_path) as servers:
        (status,) = servers.status

    assert status.state == "failed"
    assert status.reason == (
        "ended before it answered, exit code 2: reading settings | API_KEY not set, had ***"
    )
    assert "s3cr3t-v4lue" not in log_path(tmp_path / "log", "a").read_text()


async def test_silent_servers_cost_one_time_limit_together(tmp_path: Path) -> None:
    """M07 (b)(c)(d): never answering, answering too late, all at once; a good one still works."""
    slow = {"startup_timeout_sec": 1.0}
    specs = [
        stdio_spec("silent", {"silent": True}, **slow),
        stdio_spec("late", {"delay": 25}, **slow),
        stdio_spec("deaf", {"silent": True, "deaf": True}, **slow),
        stdio_spec("good"),
    ]
    began = time.monotonic()
    async with opened(specs, tmp_path) as servers:
        waited = time.monotonic() - began
        seconds = [status.seconds for status in servers.status]
        reasons = [status.reason for status in servers.status]

        assert (await tool(servers, "whoami")({})) == ("good", "success")

    assert reasons == ["did not answer within 1 s (startup_timeout_sec)"] * 3 + [""]
    assert waited < sum(seconds) / 2  # side by side: in a row it would be the sum


@pytest.mark.skipif(os.name == "nt", reason="looks at POSIX processes")
async def test_interrupting_the_start_leaves_no_process(tmp_path: Path) -> None:
    """M07: a start that is cancelled ends at once, also with a server that looks at nothing."""
    pid_file = tmp_path / "pid"
    script = (
        f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    )
    spec = ServerSpec("x", command=sys.executable, args=("-S", "-c", script))
    start = asyncio.create_task(opened([spec], tmp_path).__aenter__())
    while not (pid_file.exists() and pid_file.read_text()):
        await asyncio.sleep(0.02)
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start

    assert not is_alive(int(pid_file.read_text()))


@pytest.mark.skipif(os.name == "nt", reason="looks at POSIX processes")
@pytest.mark.parametrize("settings", [{}, {"deaf": True}, {"child": True}])
async def test_no_process_is_left_at_the_end(tmp_path: Path, settings: dict[str, bool]) -> None:
    """A server that ignores EOF and SIGTERM, and the child of a server, are gone as well."""
    async with opened([stdio_spec("a", settings)], tmp_path) as servers:
        pids = [int((await tool(servers, "pid")({}))[0])]
        if settings.get("child"):
            pids.append(int((await tool(servers, "get")({"key": "child"}))[0]))

        assert all(map(is_alive, pids))

    assert wait_for(lambda: not any(map(is_alive, pids)), 2.0)


async def test_paging(tmp_path: Path) -> None:
    """M05: all pages; an empty cursor ends; a repeated one stops; an error keeps what came."""

    def names(first: int, count: int) -> list[str]:
        return [f"t{number}" for number in range(first, first + count)]

    two = {"": {"tools": ["a"], "next": "2"}, "2": {"tools": ["b"]}}
    empty = {"": {"tools": ["a"], "next": ""}}
    same = {"": {"tools": ["a"], "next": "x"}, "x": {"tools": ["a"], "next": "x"}}
    error = {"": {"tools": ["a"], "next": "2"}, "2": {"tools": [], "error": True}}
    four = {
        "" if page == 0 else str(page): {"tools": names(page * 30, 30), "next": str(page + 1)}
        for page in range(4)
    }
    del four["3"]["next"]
    pages = {"two": two, "empty": empty, "same": same, "error": error, "four": four}
    specs = [stdio_spec(name, {"pages": value}) for name, value in pages.items()]
    async with opened(specs, tmp_path) as servers:
        found = {
            name: [tool.original for tool in servers.tools if tool.server == name] for name in pages
        }
        warnings = servers.warnings

    assert found == {
        "two": ["a", "b"],
        "empty": ["a"],
        "same": ["a"],
        "error": ["a"],
        "four": names(0, 120),
    }
    assert warnings == [
        "Server same gives the same page of its tool list again: stopped there.",
        "Server same lists twice, kept once: a.",
        "Server error listed only 1 tools, then answered: no such page today.",
    ]


async def test_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """M15: PATH is kept beside the configured variables, other variables are not handed on."""
    monkeypatch.setenv("UNASKED_SECRET", "x")
    async with opened([stdio_spec("a", env={"API_KEY": "k"})], tmp_path) as servers:
        environment = json.loads((await tool(servers, "env")({}))[0])

    assert environment["API_KEY"] == "k"
    assert environment["PATH"] == os.environ["PATH"]
    assert "UNASKED_SECRET" not in environment


@pytest.mark.skipif(os.name == "nt", reason="a script with a first line")
async def test_a_command_is_found_through_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M15: a command without a folder is looked up in PATH, also when `env` is configured."""
    command = tmp_path / "my-server"
    good = stdio_spec("a")
    arguments = " ".join(f"'{argument}'" for argument in good.args)
    command.write_text(f"#!/bin/sh\nexec {good.command} {arguments}\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    spec = ServerSpec("a", command="my-server", env={"API_KEY": "k"})
    async with opened([spec], tmp_path) as servers:
        assert [status.state for status in servers.status] == ["ready"]


async def test_stderr_goes_to_a_bounded_log_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """M14: a server that writes for ever is not blocked, our terminal clean, the file small."""
    async with opened([stdio_spec("loud", {"spam": True, "noise": True})], tmp_path) as servers:
        path = log_path(tmp_path / "log", "loud")
        old = path.with_name(path.name + ".1")
        while not old.exists():
            assert (await tool(servers, "whoami")({})) == ("loud", "success")
            await asyncio.sleep(0.05)

    assert capfd.readouterr() == ("", "")
    assert path.stat().st_size <= 1_000_000
    assert old.stat().st_size <= 1_000_000
    assert "\x1b" not in old.read_text()
    assert "still here" in old.read_text()
    if os.name != "nt":
        assert (path.stat().st_mode & 0o777, old.stat().st_mode & 0o777) == (0o600, 0o600)


async def test_http_does_not_go_through_a_proxy_to_loopback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy in the environment does not see what is meant for this machine."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with HttpServer() as server:
        async with opened([ServerSpec("web", url=server.url, transport="http")], tmp_path) as all_:
            assert [status.state for status in all_.status] == ["ready"]


QUIET = """
import asyncio, sys
from pathlib import Path
from local_agent.config import ServerSpec
from tests.servers.http_server import HttpServer
from tests.servers.mcp_kit import opened, stdio_spec, tool

async def main():
    web = HttpServer()
    specs = [
        stdio_spec("loud", {"noise": True, "stderr": "hello"}),
        ServerSpec("web", url=web.url, transport="http"),
    ]
    with web:
        servers = opened(specs, Path(sys.argv[1]))
        tools = (await servers.__aenter__()).tools
        for failure in ("html", "cut json", 503):
            web.fail["tools/call"] = [failure]
            for tool in tools:
                if tool.original in ("put", "whoami"):
                    print((await tool({}))[1])
    await servers.__aexit__(None, None, None)  # the session cannot be ended any more

asyncio.run(main())
"""


def test_no_library_writes_to_our_terminal(tmp_path: Path) -> None:
    """M14: junk on stdout, failures of HTTP and of its end are not logged to stderr."""
    done = subprocess.run(
        [sys.executable, "-c", QUIET, str(tmp_path)],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout.split(), done.stderr) == (["success", "error"] * 3, "")
