"""`agent servers list` and `agent servers test`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from local_agent.cli.servers import servers as app
from local_agent.config import user_folders
from local_agent.errors import ConfigError, UsageError
from tests.servers.http_server import HttpServer
from tests.servers.mcp_kit import STDIO_SERVER

TOOLS = {
    "pages": {
        "": {
            "tools": [
                {
                    "name": "look",
                    "inputSchema": {"type": "object"},
                    "annotations": {"readOnlyHint": True},
                },
                "make",
            ]
        }
    }
}


def write_config(folder: Path, text: str) -> str:
    path = folder / "servers.toml"
    path.write_text(text)
    return str(path)


def good(name: str = "good") -> str:
    args = ["-S", str(STDIO_SERVER), json.dumps(TOOLS)]
    return f"[servers.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(args)}\n"


def test_every_server_is_started_and_gets_a_line(tmp_path: Path) -> None:
    """State, tools with read or write, or the reason; exit 1 as soon as one fails."""
    config = write_config(tmp_path, f"{good()}[servers.bad]\ncommand = 'no-such-command'\n")
    result = CliRunner().invoke(app, ["test", "--config", config])
    lines = result.stdout.splitlines()

    assert result.exit_code == 1
    assert lines[0].startswith("good: ready in ")
    assert lines[0].endswith(" s, 2 tools: look (read), make (write)")
    assert lines[1].startswith("bad: failed after ")
    assert lines[1].endswith(
        " s: its command no-such-command was not found: install it, or give its path"
    )


def test_one_server_is_chosen_by_its_name(tmp_path: Path) -> None:
    """Only this one is started, also when it is disabled; an unknown name is a usage error."""
    text = f"{good()}enabled = false\n[servers.bad]\ncommand = 'no-such-command'\n"
    config = write_config(tmp_path, text)
    result = CliRunner().invoke(app, ["test", "good", "--config", config, "--json"])
    (row,) = json.loads(result.stdout)["servers"]
    unknown = CliRunner().invoke(app, ["test", "goood", "--config", config])

    assert result.exit_code == 0
    assert (row["name"], row["state"]) == ("good", "ready")
    assert row["tools"] == {"look": "read", "make": "write"}
    assert isinstance(unknown.exception, UsageError)


def test_listing_starts_nothing(tmp_path: Path) -> None:
    """What is configured is shown, with what it starts; no process runs."""
    marker = tmp_path / "started"
    script = f"open({str(marker)!r}, 'w')"
    config = write_config(
        tmp_path,
        f"[servers.a]\ncommand = {json.dumps(sys.executable)}\n"
        f"args = ['-c', {json.dumps(script)}]\n"
        "[servers.b]\ncommand = 'x'\nenabled = false\n"
        "[servers.c]\ncommand = 'x'\nenv = { K = '${NOT_SET_ANYWHERE}' }\n",
    )
    result = CliRunner().invoke(app, ["list", "--config", config, "--json"])
    rows = json.loads(result.stdout)["servers"]
    plain = CliRunner().invoke(app, ["list", "--config", config])

    assert [row["state"] for row in rows] == ["enabled", "disabled", "unusable"]
    assert "NOT_SET_ANYWHERE" in rows[2]["reason"]
    assert len(plain.stdout.splitlines()) == 3
    assert not marker.exists()


def test_a_file_of_the_working_folder_is_not_used_untrusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of a cloned folder's configuration is started before it is trusted."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mcp_servers.toml").write_text(good())
    result = CliRunner().invoke(app, ["test"])

    assert isinstance(result.exception, ConfigError)


def test_secrets_are_shown_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D15: header, environment, argument, login, query, each failing: not on screen or in logs."""
    monkeypatch.setenv("MY_KEY", "TESTSECRET2")
    leaky = json.dumps({"stderr": "key TESTSECRET2 or TESTSECRET3 is wrong", "exit": 1})
    args = json.dumps(["-S", str(STDIO_SERVER), leaky, "--token", "TESTSECRET3"])
    with HttpServer() as server:
        server.fail["initialize"] = [401]
        where = server.url.removeprefix("http://")
        config = write_config(
            tmp_path,
            f"[servers.web]\nurl = 'http://u:TESTSECRET4@{where}?key=TESTSECRET5'\n"
            "headers = { Authorization = 'Bearer TESTSECRET1' }\n"
            "[servers.closed]\nurl = 'http://u:TESTSECRET4@127.0.0.1:9/mcp?key=TESTSECRET5'\n"
            f"[servers.leaky]\ncommand = {json.dumps(sys.executable)}\nargs = {args}\n"
            "env = { API_KEY = '${MY_KEY}' }\n",
        )
        tested = CliRunner().invoke(app, ["test", "--config", config])
        listed = CliRunner().invoke(app, ["list", "--config", config])
    logs = user_folders().log
    written = "".join(path.read_text() for path in logs.iterdir())

    assert tested.exit_code == 1
    assert "refused the login (401)" in tested.stdout
    assert "key *** or *** is wrong" in tested.stdout
    assert "key *** or *** is wrong" in written
    for text in (tested.output, listed.output, written):
        assert "TESTSECRET" not in text
