"""`agent model probe | show | list` as processes, and what a profile changes in a run."""

from __future__ import annotations

import json
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from local_agent.config import user_folders
from local_agent.probe import Findings, Identity, Profile, Profiles, Share
from local_agent.testing import Call, Hang, Say, ScriptedServer, after
from tests.probe_kit import good_model, save_profile
from tests.program_kit import Program, finish, wait_for

pytestmark = pytest.mark.process

Start = Callable[..., ScriptedServer]
NOBODY = "http://127.0.0.1:9/v1"
WEAK = Findings(denial=Share(0, 3), parallel=Share(0, 3))


def profile_files() -> list[Path]:
    """The profiles that the program has written."""
    return sorted((user_folders().data / "profiles").glob("*.json"))


def test_probe_show_list(tmp_path: Path, scripted: Start) -> None:
    """A probe is told on stderr, a line a check, and kept; show and config show have it then."""
    server = scripted(good_model(), strict=False, chunk=40)
    program = Program(tmp_path, server.base_url)
    before = program.run("model", "show")
    assert before.code == 0
    assert "scripted-7b" in before.out
    assert "agent model probe" in before.out

    done = program.run("model", "probe", "--quick", "--json")
    assert done.code == 0, done.err
    assert done.json["schema_version"] == 1
    assert done.json["profile"]["findings"]["single"] == {"right": 3, "of": 3}
    assert done.json["profile"]["findings"]["parallel_asked"] is None
    assert done.json["limits"]["router.max_tools"]["value"] == 32
    lines = [line for line in done.err.splitlines() if "/17 " in line]
    assert len(lines) == 17
    assert "the right one of 8 tools … 5 of 5" in done.err
    assert "tokens a second: about" in done.err

    (path,) = profile_files()
    if sys.platform != "win32":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    shown, as_json, listed, config = program.run_all(
        ("model", "show"), ("model", "show", "--json"), ("model", "list"), ("config", "show")
    )
    assert [one.code for one in (shown, as_json, listed, config)] == [0, 0, 0, 0]
    assert "8192 tokens of context loaded" in shown.out
    assert "of 16 tools" in shown.out
    assert "router.max_tools = 32" in shown.out
    assert as_json.json == done.json
    assert listed.out == "scripted-7b  loaded  8192 tokens  probed\n"
    assert "router.max_tools = 32" in config.out
    assert "# the profile" in config.out


def test_a_profile_sets_the_limits_of_a_run(tmp_path: Path, scripted: Start) -> None:
    """Steps and parallel calls are bounded as the profile says; an option and the file win."""
    numbers = iter(range(100))
    server = scripted(lambda body: Call("add", {"a": next(numbers), "b": 1}, "c"))
    program = Program(tmp_path, server.base_url)

    def steps(*options: str) -> tuple[int, set[Any]]:
        server.requests.clear()
        done = program.run(*options, "--thread", f"t{next(numbers)}", "-p", "add")
        assert done.code == 4, done.err
        asked = [r for r in server.requests if r.get("tools")]
        calls = [r for r in asked if r.get("tool_choice") != "none"]
        return len(calls), {r.get("parallel_tool_calls") for r in asked}

    assert steps() == (12, {None})
    save_profile(server, WEAK)
    assert steps() == (6, {False})
    assert steps("--max-steps", "3") == (3, {False})
    text = program.config.read_text("utf-8").replace("[model]", "[model]\nparallel_calls = true")
    program.config.write_text(text, "utf-8")
    assert steps() == (6, {True})


def test_a_profile_sets_the_tools_of_a_prompt(tmp_path: Path, scripted: Start) -> None:
    """A model that chooses well among four gets no more of them, unless the file says so."""
    server = scripted([Say("hi")], repeat=True)
    program = Program(tmp_path, server.base_url)

    def tools(thread: str) -> int:
        server.requests.clear()
        assert program.run("--thread", thread, "-p", "write a note: milk").code == 0
        return max(len(request.get("tools", ())) for request in server.requests)

    assert tools("before") > 4
    save_profile(server, Findings(tools_4=Share(8, 8), tools_8=Share(3, 8)))
    assert tools("with") <= 4
    with program.config.open("a", encoding="utf-8") as file:
        file.write("[router]\nmax_tools = 12\n")
    assert tools("set") > 4


def test_a_profile_of_another_model_sets_nothing(tmp_path: Path, scripted: Start) -> None:
    """Limits are of the model as it is loaded: with another context nothing is taken over."""
    numbers = iter(range(100))
    server = scripted(lambda body: Call("add", {"a": next(numbers), "b": 1}, "c"))
    save_profile(server, WEAK)
    server.context_length = 4096
    program = Program(tmp_path, server.base_url)
    done, shown = program.run_all(("-p", "add"), ("model", "show"))
    assert done.code == 4
    assert {r.get("parallel_tool_calls") for r in server.requests} == {None}
    assert "context_length 8192 then, 4096 now" in shown.err
    assert "Not known yet" in shown.out


def test_a_damaged_profile_stops_nothing(tmp_path: Path, scripted: Start) -> None:
    """One line says so, and the run goes on with the defaults."""
    server = scripted([Say("hi")], repeat=True)
    save_profile(server, WEAK).write_text("{", "utf-8")
    program = Program(tmp_path, server.base_url)
    done, shown = program.run_all(("-p", "hello"), ("config", "show"))
    assert (done.code, done.out) == (0, "hi\n")
    assert done.err.count("is damaged") == 1
    assert shown.code == 0
    assert "the profile" not in shown.out


def test_no_server(tmp_path: Path) -> None:
    """One clear line and exit code 1; a profile that is there is shown all the same."""
    program = Program(tmp_path, NOBODY)
    runs = program.run_all(("model", "probe"), ("model", "show"), ("model", "list"))
    for done in runs:
        assert done.code == 1
        assert done.out == ""
        assert done.err.startswith("error: No model server at http://127.0.0.1:9/v1.")
        assert done.err.count("\n") == 1
    Profiles().save(Profile(Identity("old-7b", NOBODY), "2026-01-02T03:04:05+00:00", WEAK))
    done = program.run("model", "show")
    assert done.code == 0
    assert "No model server" in done.err
    assert "old-7b" in done.out


def test_nothing_measured(tmp_path: Path, scripted: Start) -> None:
    """A server that never answers: exit code 1, no profile, no invented value."""
    program = Program(tmp_path, scripted([Hang()], repeat=True).base_url)
    done = program.run("model", "probe", "--timeout", "1")
    assert done.code == 1
    assert "Nothing could be measured" in done.err
    assert profile_files() == []
    assert program.run("model", "probe", "--timeout", "0").code == 2


def test_a_server_that_dies(tmp_path: Path, scripted: Start) -> None:
    """Exit code 1 and the reason; what was found before is kept."""
    started: list[ScriptedServer] = []

    def die() -> Say:
        started[0].close()
        return Say("never heard")

    started.append(scripted(after(good_model(), 10, die), strict=False, chunk=40))
    program = Program(tmp_path, started[0].base_url)
    done = program.run("model", "probe", "--json")
    assert (done.code, done.out) == (1, "")
    assert "error: The probe ended early" in done.err
    assert "is kept" in done.err
    (path,) = profile_files()
    kept = json.loads(path.read_text("utf-8"))["profile"]
    assert kept["findings"]["single"] == {"right": 4, "of": 4}
    assert kept["findings"]["recall_75"] is None
    assert kept["not_measured"]["recall_75"]


@pytest.mark.skipif(sys.platform == "win32", reason="no signal of this kind")
def test_ctrl_c(tmp_path: Path, scripted: Start) -> None:
    """Ctrl-C ends it with 130 and no traceback; what was found is kept, and that is said."""
    server = scripted(after(good_model(), 10, Hang()), strict=False, chunk=40)
    program = Program(tmp_path, server.base_url)
    process = program.start("model", "probe")
    wait_for(lambda: len(server.requests) > 10)
    process.send_signal(signal.SIGINT)
    done = finish(process)
    assert (done.code, done.out) == (130, "")
    assert "What was found so far is kept." in done.err
    assert "Traceback" not in done.err
    (path,) = profile_files()
    findings = json.loads(path.read_text("utf-8"))["profile"]["findings"]
    assert findings["single"] == {"right": 4, "of": 4}
    assert findings["denial"] is None
