"""The program as a process: doctor, config, servers and model."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from local_agent.testing import Call, Reply, Say, ScriptedServer
from tests.program_kit import Program, echo_table, server_table

pytestmark = pytest.mark.process
Start = Callable[..., ScriptedServer]
BAD = server_table("bad", sys.executable, ["-c", "import sys; sys.exit('no key')"])


def able(body: dict[str, Any]) -> Reply:
    """A model that streams, and calls the tool it is asked to call."""
    if body.get("tools"):
        return Call("get_weather", {"city": "Paris"})
    return Say("1, 2, 3, 4, 5")


def test_doctor_finds_nothing_wrong(tmp_path: Path, scripted: Start) -> None:
    """Exit 0, a line for each thing that a turn needs; nothing is made by looking."""
    server = scripted(able)
    program = Program(tmp_path, server.base_url)
    done = program.run("doctor")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "ok    configuration",
        "ok    database",
        "ok    model server",
        "ok    context length",
        "ok    streaming",
        "ok    tool calls",
        "ok    server echo",
    ]
    assert "8192 tokens" in done.out
    assert "8 tools" in done.out
    assert not program.db.exists()


def test_doctor_says_what_to_do(tmp_path: Path, scripted: Start) -> None:
    """Exit 1; each finding has its remedy: a model that calls nothing, a server, a database."""
    server = scripted(lambda body: Say("I can't."), context_length=2048)
    program = Program(tmp_path, server.base_url, servers=echo_table(tmp_path / "n") + BAD)
    program.db.write_text("no database\n" * 100)
    url = "http://127.0.0.1:9/v1"
    done, down = program.run_all(["doctor", "--json"], ["--base-url", url, "doctor"])
    assert done.code == 1
    found = {f["what"]: (f["state"], f["text"]) for f in done.json["findings"]}
    assert {what: state for what, (state, _) in found.items()} == {
        "configuration": "ok",
        "database": "failed",
        "model server": "ok",
        "context length": "warning",
        "streaming": "ok",
        "tool calls": "failed",
        "server echo": "ok",
        "server bad": "failed",
    }
    assert "Move it away" in found["database"][1]
    assert "4096" in found["context length"][1]
    assert "tool use" in found["tool calls"][1]
    assert "no key" in found["server bad"][1]

    assert down.code == 1
    assert f"FAIL  model server: No model server at {url}. Start LM" in down.out
    assert "ok    server echo: 8 tools" in down.out


def test_config_says_where_each_value_is_from(tmp_path: Path, scripted: Start) -> None:
    """`config show` has every value with its origin, `config path` every place."""
    program = Program(tmp_path, "http://127.0.0.1:9/v1", env={"AGENT_THREAD": "from-env"})
    shown = program.run("--model", "m", "config", "show")
    assert (shown.code, shown.err) == (0, "")
    rows = dict(line.split(" = ", 1) for line in shown.out.splitlines() if " = " in line)
    assert rows["model.base_url"].split("#")[1].strip() == str(program.config)
    assert rows["model.name"].split() == ['"m"', "#", "--model"]
    assert rows["thread"].split() == ['"from-env"', "#", "AGENT_THREAD"]
    assert rows["max_steps"].split() == ["12", "#", "default"]
    values = program.run("config", "show", "--json").json["values"]
    assert values["model.base_url"] == {
        "value": "http://127.0.0.1:9/v1",
        "origin": str(program.config),
    }

    places = program.run("config", "path")
    assert places.code == 0
    assert f"config   {program.config} (--config)\n" in places.out
    assert f"db       {program.db}\n" in places.out
    assert f"{program.db}.files" in places.out
    by_env = program.run("config", "path", env={"AGENT_DB": str(tmp_path / "x.db")})
    assert f"db       {tmp_path / 'x.db'}\n" in by_env.out
    by_option = program.run("config", "path", "--db", tmp_path / "y.db")
    assert f"db       {tmp_path / 'y.db'}\n" in by_option.out


def test_servers_test_tells_by_its_exit_code(tmp_path: Path) -> None:
    """0 when the servers start, 1 when one does not, 2 for a name of none."""
    program = Program(
        tmp_path, "http://127.0.0.1:9/v1", servers=echo_table(tmp_path / "notes") + BAD
    )
    good, both, none = program.run_all(
        ["servers", "test", "echo"], ["servers", "test", "--json"], ["servers", "test", "none"]
    )
    assert (good.code, good.err) == (0, "")
    assert "8 tools: echo (read)" in good.out
    assert "write_note (write)" in good.out
    assert (both.code, none.code) == (1, 2)
    assert [(s["name"], s["state"]) for s in both.json["servers"]] == [
        ("echo", "ready"),
        ("bad", "failed"),
    ]


def test_model_list(tmp_path: Path, scripted: Start) -> None:
    """What the server offers, what of it is loaded and with how much context; a server down: 1."""
    server = scripted([], flavour="lmstudio", model="big-7b", loaded=["small-1b"])
    program = Program(tmp_path, server.base_url)
    done, as_json, down = program.run_all(
        ["model", "list"],
        ["model", "list", "--json"],
        ["--base-url", "http://127.0.0.1:9/v1", "model", "list"],
    )
    assert (done.code, done.out) == (0, "small-1b  loaded  8192 tokens\nbig-7b  not loaded\n")
    rows = as_json.json["models"]
    assert [(row["name"], row["loaded"]) for row in rows] == [("small-1b", True), ("big-7b", False)]
    assert (down.code, down.out, down.err.count("\n")) == (1, "", 1)
