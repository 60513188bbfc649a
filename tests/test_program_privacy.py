"""The program as a process: what it starts, sends and shows only if it may."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from local_agent.testing import Call, Reply, Say, ScriptedServer
from tests.program_kit import ROOT, Done, Program, echo_table, quoted, server_table
from tests.servers.http_server import HttpServer

pytestmark = pytest.mark.process
Start = Callable[..., ScriptedServer]


@contextmanager
def listener() -> Iterator[tuple[str, list[bytes]]]:
    """An address, and the first bytes of whoever connects to it."""
    came: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        stop = threading.Event()

        def accept() -> None:
            while not stop.is_set():
                try:
                    connection, _ = server.accept()
                except TimeoutError:
                    continue
                with connection:
                    connection.settimeout(1)
                    came.append(connection.recv(1000))

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}", came
        finally:
            stop.set()
            thread.join()


def test_a_cloned_folder_starts_nothing_before_it_is_trusted(
    tmp_path: Path, scripted: Start
) -> None:
    """Exit 2 with the command to trust it; then it works, until the content changes."""
    server = scripted(lambda body: Say("hi"))
    program = Program(tmp_path, server.base_url)
    clone, marker = tmp_path / "clone", tmp_path / "started"
    clone.mkdir()
    code = f"import pathlib, sys; pathlib.Path({str(marker)!r}).touch(); sys.exit('no')"
    config = clone / "mcp_servers.toml"
    model = f"[model]\nbase_url = {quoted(server.base_url)}\n"
    config.write_text(f"{model}{server_table('evil', sys.executable, ['-c', code])}")

    def run(*args: str) -> Done:
        return program.run(*args, configured=False, cwd=clone)

    refused = [
        run("-p", "hi"),
        run("servers", "test"),
        run("model", "list"),
        run("approvals", "list"),
    ]
    for done in refused:
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        assert f"agent config trust {config}" in done.err
    assert run("doctor").code == 1
    assert (marker.exists(), server.paths) == (False, [])
    assert [p.name for p in clone.iterdir()] == ["mcp_servers.toml"]

    trusted = run("config", "trust", str(config))
    assert (trusted.code, "Trusted" in trusted.out, marker.exists()) == (0, True, False)
    assert str(sys.executable) in trusted.out  # what is agreed to is shown
    done = run("-p", "hi")
    assert (done.code, done.out, marker.exists()) == (0, "hi\n", True)
    config.write_text(config.read_text() + "\n# another\n")
    assert run("-p", "hi").code == 2

    config.write_bytes((ROOT / "mcp_servers.toml").read_bytes())
    sample = run("--base-url", server.base_url, "model", "list")
    assert (sample.code, "scripted-7b" in sample.out) == (0, True)


SPILL = """
import os, sys
print(os.environ.get("API_KEY"), sys.argv, file=sys.stderr)
sys.exit(2)
"""


def test_secrets_are_shown_nowhere(tmp_path: Path, scripted: Start) -> None:
    """D15: header, env, argument, address and key, each failing: not on screen, not on disk."""

    def answer(body: dict[str, Any]) -> Reply:
        last = body["messages"][-1]
        return Call("echo", {"text": "hi"}) if last["content"] == "go" else Say("done")

    model = scripted(answer, api_key="TESTSECRET6")
    web = scripted([], api_key="another")  # 401 with the header that came
    port = web.port
    tables = [
        echo_table(tmp_path / "notes"),
        server_table(
            "spill",
            sys.executable,
            ["-c", SPILL, "--token", "TESTSECRET3"],
            'env = { API_KEY = "TESTSECRET2" }',
        ),
        server_table("gone", "no-such-command", ["--token", "TESTSECRET3"]),
        "[servers.web]",
        f'url = "http://u:TESTSECRET4@127.0.0.1:{port}/mcp?key=TESTSECRET5"',
        'headers = { Authorization = "Bearer ${TOKEN}" }',
        "[servers.refused]",
        'url = "http://u:TESTSECRET4@127.0.0.1:9/mcp?key=TESTSECRET5"',
        "[servers.slow]",
        f"command = {quoted(sys.executable)}",
        'args = ["-c", "import sys; sys.stdin.read()", "--api-key=TESTSECRET3"]',
        "startup_timeout_sec = 0.3",
    ]
    program = Program(
        tmp_path,
        model.base_url,
        servers="\n".join(tables),
        model='api_key = "${KEY}"',
        env={"TOKEN": "TESTSECRET1", "KEY": "TESTSECRET6"},
    )
    bad_key, bad_url = {"KEY": "TESTSECRET7"}, "http://u:TESTSECRET8@127.0.0.1:9/v1"
    go = ["-p", "go", "--thread"]
    runs = [
        *program.run_all(
            ["-v", *go, "a"],
            ["doctor"],
            ["servers", "list"],
            ["servers", "test"],
            ["config", "show"],
            ["config", "show", "--json"],
            ["config", "trust", program.config],
            ["-v", "--base-url", bad_url, *go, "b"],
            ["--base-url", bad_url, "config", "show"],
            ["config", "path", "--db", "postgres://u:TESTSECRET9@h/db"],
        ),
        *program.run_all(
            ["-v", "--output", "stream-json", *go, "c"], ["model", "list"], env=bad_key
        ),
    ]
    assert [done.code for done in runs] == [0, 1, 0, 1, 0, 0, 0, 1, 0, 2, 1, 1]
    assert runs[0].err.count("is not available") == 5
    for number, done in enumerate(runs):
        assert b"TESTSECRET" not in done.stdout + done.stderr, (number, done)
    assert "TESTSECRET" not in json.dumps(model.requests)
    files = [p for folder in (tmp_path, Path(program.env["HOME"])) for p in folder.rglob("*")]
    logs = [p for p in files if p.name.startswith("server-")]
    assert len(logs) >= 2
    for path in files:
        if path.is_file() and path != program.config:
            assert b"TESTSECRET" not in path.read_bytes(), path
    if sys.platform != "win32":
        assert {p.stat().st_mode & 0o777 for p in logs} == {0o600}


def test_proxies_and_tracers_get_nothing(tmp_path: Path, scripted: Start) -> None:
    """Loopback is not asked of a proxy, and no tracing service hears of a turn."""
    server = scripted([Call("get"), Say("3")])
    with listener() as (address, came), HttpServer() as web:
        proxies = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"]
        tracing = {
            "LANGSMITH_TRACING": "true",
            "LANGCHAIN_TRACING_V2": "true",
            "LANGCHAIN_TRACING": "true",
            "LANGSMITH_ENDPOINT": address,
            "LANGCHAIN_ENDPOINT": address,
            "LANGSMITH_API_KEY": "k",
        }
        other = {"OPENAI_BASE_URL": f"{address}/v1", "OPENAI_PROXY": address, "OPENAI_API_KEY": "k"}
        env = {**dict.fromkeys(proxies, address), **tracing, **other}
        table = f"[servers.web]\nurl = {quoted(web.url)}\nread = ['get']\n"
        done = Program(tmp_path, server.base_url, servers=table, env=env).run("-p", "sum")
    assert (done.code, done.out, came) == (0, "3\n", [])
    assert len(web.calls) == 1


def test_the_installed_command_is_the_same_program(tmp_path: Path) -> None:
    """The console script `agent` answers from any folder."""
    script = Path(sys.executable).with_name("agent.exe" if sys.platform == "win32" else "agent")
    if not script.exists():
        pytest.skip("the package is not installed here")
    done = subprocess.run(
        [script, "--version"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.split()[0], done.stderr) == (0, "agent", "")
