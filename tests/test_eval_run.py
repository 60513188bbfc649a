"""`agent eval` as a process: runs, goes on after a kill, is repeated without a model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from local_agent.testing import Call, Fail, Reply, Say, ScriptedServer
from tests.program_kit import Program, kill, wait_for

pytestmark = pytest.mark.process
Start = Callable[..., ScriptedServer]

CASES = """
servers = ["lamp.toml"]
[[case]]
id = "lamp-on"
category = "arguments"
prompt = "Lamp on"
calls = [{ tool = "lamp/switch", args = { on = true } }]
answer = ["on"]
[[case]]
id = "lamp-no"
category = "denial"
turns = [
  { prompt = "Lamp off", approve = "dark", calls = [{ tool = "lamp/switch", args.on = false }] },
  { prompt = "Is it off?", answer = ["no"] },
]
[[case]]
id = "lamp-none"
category = "no_tool"
prompt = "Hello"
"""
LAMP = """
name = "lamp"
[[tool]]
name = "switch"
description = "Switch the lamp"
schema = '{"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]}'
text = "The lamp is switched: {on}"
"""


def model(body: dict[str, Any]) -> Reply:
    """Switches with the value as a text, which has to be mended, and believes a no."""
    last = body["messages"][-1]
    if last["role"] == "tool":
        return Say("No, it was not done." if "dark" in last["content"] else "It is on.")
    said = last["content"]
    if said in ("Lamp on", "Lamp off"):
        return Call("switch", {"on": "true" if said == "Lamp on" else "false"}, id=f"id{len(body)}")
    return Say("No." if said.endswith("?") else "Hello!")


@pytest.fixture
def program(tmp_path: Path, scripted: Start) -> Program:
    """The program, its scripted model, and a file of cases in its working folder."""
    made = Program(tmp_path, scripted(model).base_url, servers="")
    (made.work / "cases.toml").write_text(CASES)
    (made.work / "lamp.toml").write_text(LAMP)
    return made


def shares(out: Any) -> dict[tuple[str, str], tuple[int, int]]:
    """Passed and count by group and configuration."""
    return {
        (line["group"], line["configuration"]): (line["both"]["passed"], line["both"]["count"])
        for line in out["success"]
    }


def test_a_run_counts_what_came_out_right(program: Program) -> None:
    """With repair the texts are booleans; to the letter the server refuses them, and no call is
    right. Writes are answered as labelled. Every other prompt is the same in both."""
    done = program.run("eval", "cases.toml", "--configurations", "baseline,full", "--json")
    assert done.code == 0, done.err
    found = shares(done.json)
    assert found["all prompts", "full"] == (4, 4)
    assert found["denial", "full"] == (2, 2)
    assert found["arguments", "baseline"] == (0, 1)
    assert found["no_tool", "baseline"] == (1, 1)
    turns = {(t["configuration"], t["case"], t["turn"]): t for t in done.json["turns"]}
    assert turns["full", "lamp-on", 1]["model_calls"] == 2
    assert "3 cases with 4 prompts in 2 configurations" in done.err


def test_the_table_and_the_failures(program: Program) -> None:
    """A block for each group; what failed is listed for the half that may be looked at."""
    done = program.run("eval", "cases.toml", "--configurations", "baseline", "--failures")
    assert done.code == 0, done.err
    assert "scripted-7b\n" in done.out
    assert "no_tool\n  configuration  n  success" in done.out
    held_out = {"lamp-on", "lamp-no", "lamp-none"} - set(tune_cases(program))
    assert not any(case in done.out for case in held_out)


def tune_cases(program: Program) -> list[str]:
    """The ids of the tune half."""
    done = program.run("eval", "cases.toml", "--configurations", "full", "--half", "tune", "--json")
    return [turn["case"] for turn in done.json["turns"]] if done.code == 0 else []


def test_the_same_request_is_sent_once(tmp_path: Path, scripted: Start) -> None:
    """A second configuration that asks the same costs nothing; nor does the same run again."""
    server = scripted(model)
    program = Program(tmp_path, server.base_url, servers="")
    (program.work / "cases.toml").write_text(CASES)
    (program.work / "lamp.toml").write_text(LAMP)
    line = ["eval", "cases.toml", "--record", "r.jsonl", "--json", "--configurations"]
    first = program.run(*line, "full")
    asked = len(server.requests)
    assert asked == 6
    more = program.run(*line, "full,no-retry")
    assert len(server.requests) == asked
    assert more.json["turns"][: len(first.json["turns"])] == first.json["turns"]


def test_a_run_goes_on_after_a_kill(tmp_path: Path, scripted: Start) -> None:
    """What was answered before the kill is not asked again, half a line in the file or not."""
    server = scripted(model)
    program = Program(tmp_path, server.base_url, servers="")
    (program.work / "cases.toml").write_text(CASES)
    (program.work / "lamp.toml").write_text(LAMP)
    record = program.work / "r.jsonl"
    line = ["eval", "cases.toml", "--record", "r.jsonl", "--json", "--configurations", "full"]
    running = program.start(*line)
    wait_for(lambda: record.exists() and record.read_bytes().count(b"\n") >= 3)
    kill(running)
    kept, asked = record.read_bytes().count(b"\n") - 1, len(server.requests)
    with record.open("a") as file:
        file.write('{"key": "cut')
    done = program.run(*line)
    assert done.code == 0, done.err
    assert shares(done.json)["all prompts", "full"] == (4, 4)
    assert len(server.requests) - asked == 6 - kept
    assert record.read_bytes().count(b"\n") == 1 + 6


def test_a_recording_is_replayed_without_a_model(program: Program) -> None:
    """The same results, bit for bit; a request that is not in it ends the run with exit 1."""
    line = ["eval", "cases.toml", "--json", "--configurations", "full,no-retry"]
    done = program.run(*line, "--record", "r.jsonl", "--case", "lamp-[on]*")
    assert done.code == 0, done.err
    nobody = ["--base-url", "http://127.0.0.1:9/v1"]
    again, other = program.run_all(
        [*line, *nobody, "--replay", "r.jsonl", "--case", "lamp-[on]*"],
        [*line, *nobody, "--replay", "r.jsonl", "--reply-tokens", "99"],
    )
    assert (again.code, again.json["turns"]) == (0, done.json["turns"])
    assert (again.json["success"], again.json["cost"]) == (done.json["success"], done.json["cost"])
    assert (other.code, other.err.count("error:")) == (1, 1)
    assert "The recording has no reply to a request of this run." in other.err
    assert "Replay it with the options it was made with" in other.err


CANNOT_BE: list[tuple[list[str], str]] = [
    (["bad.toml"], "bad.toml is not valid TOML"),
    (["cases.toml", "--configurations", "fulll"], "There is no configuration 'fulll'."),
    (["cases.toml", "--case", "x*"], "No case is left to run."),
    (["cases.toml", "--sample", "0"], "--sample and --bfcl-count must be at least 1"),
    (["cases.toml", "--half", "all"], "--half cannot be 'all'."),
    (["cases.toml", "--record", "a", "--replay", "b"], "exclude each other"),
    (["cases.toml", "--replay", "none"], "There is no recording none."),
    (["cases.toml", "--replay", "cases.toml"], "cases.toml is no recording."),
    (["--bfcl", "here"], "here has no BFCL_v4_simple_python.json."),
    (["cases.toml", "--bfcl", "here"], "--bfcl takes no FILES."),
    (["--results", "cases.toml"], "cases.toml has no results of a run."),
    (["unknown.toml"], "Case 'a' wants lamp/none, which no server has."),
    (["lost.toml"], "Case 'a' wants the route nope, which there is not."),
    (["cases.toml", "--reply-tokens", "1"], "--reply-tokens must be at least 16"),
    (["cases.toml", "--configurations", ","], "--configurations names none."),
    (["cases.toml", "--report", "nowhere/r.md"], "nowhere/r.md cannot be written"),
    (["cases.toml", "--save", "."], ". cannot be written"),
    (["empty.toml"], "case 'a' has no turns."),
]


def test_what_cannot_be(program: Program) -> None:
    """One line, exit 2."""
    (program.work / "bad.toml").write_text("[[case")
    (program.work / "unknown.toml").write_text(
        'servers = ["lamp.toml"]\n[[case]]\nid = "a"\ncategory = "tool"\nprompt = "p"\n'
        'calls = [{ tool = "lamp/none" }]\n'
    )
    (program.work / "lost.toml").write_text(
        'servers = ["lamp.toml"]\n[[case]]\nid = "a"\ncategory = "no_tool"\nprompt = "p"\n'
        'route = "nope"\n'
    )
    (program.work / "empty.toml").write_text('[[case]]\nid = "a"\nturns = []\n')
    runs = program.run_all(*(["eval", *line] for line, _ in CANNOT_BE))
    for (_, said), done in zip(CANNOT_BE, runs, strict=True):
        assert (done.code, done.out) == (2, ""), done.err
        (error,) = [one for one in done.err.splitlines() if one.startswith("error:")]
        assert said in error


def test_a_recording_of_another_model_is_refused(program: Program, scripted: Start) -> None:
    """Replies of two models are never mixed in one file: exit 2, and the file stays."""
    line = ["eval", "cases.toml", "--case", "lamp-none", "--record", "r.jsonl"]
    assert program.run(*line, "--configurations", "full").code == 0
    before = (program.work / "r.jsonl").read_bytes()
    other = scripted(model, model="other-7b")
    done = program.run(*line, "--base-url", other.base_url)
    assert done.code == 2
    assert "r.jsonl was recorded with another model or chat template." in done.err
    assert (program.work / "r.jsonl").read_bytes() == before


def test_a_server_that_goes_away_ends_the_run(tmp_path: Path, scripted: Start) -> None:
    """Exit 1, with what to do: no turn is counted that was not answered."""
    server = scripted(model)

    server.replies = lambda body: Fail(500, "gone") if len(server.requests) > 3 else model(body)
    program = Program(tmp_path, server.base_url, servers="")
    (program.work / "cases.toml").write_text(CASES)
    (program.work / "lamp.toml").write_text(LAMP)
    done = program.run("eval", "cases.toml", "--configurations", "full", "--json")
    assert (done.code, done.out) == (1, "")
    assert "The model server answered with HTTP 500." in done.err
    assert "Run it again: what was answered so far is recorded." in done.err


def test_a_baseline_without_all_tools_is_refused(tmp_path: Path, scripted: Start) -> None:
    """In a context that is too small for them it would be another comparison than it says."""
    server = scripted(model)
    server.context_length = 2048
    made = Program(tmp_path, server.base_url, servers="")
    (made.work / "cases.toml").write_text(CASES)
    tool = LAMP.replace("Switch the lamp", "Switch the lamp. " * 60).split("[[tool]]")[1]
    more = [tool.replace("switch", f"switch_{n}") for n in range(3)]
    (made.work / "lamp.toml").write_text("[[tool]]".join([LAMP, *more]))
    runs = made.run_all(
        *(["eval", "cases.toml", "--configurations", name] for name in ("baseline", "full"))
    )

    assert (runs[0].code, runs[0].out) == (2, "")
    assert "of 4 tools have room in the prompts of 'baseline'" in runs[0].err
    assert runs[1].code == 0, runs[1].err


def test_results_are_saved_and_reported(program: Program) -> None:
    """Saved runs are put side by side in one Markdown file, without a model."""
    line = ["eval", "cases.toml", "--configurations"]
    one = program.run(*line, "baseline,full", "--save", "one.json")
    two = program.run(*line, "baseline", "--label", "own template", "--save", "two.json")
    assert (one.code, two.code) == (0, 0)
    done = program.run(
        "eval",
        "--results",
        "one.json",
        "--results",
        "two.json",
        "--report",
        "R.md",
        "--note",
        "Half only.",
    )
    assert done.code == 0, done.err
    text = (program.work / "R.md").read_text()
    assert "\nHalf only.\n" in text
    assert "## scripted-7b" in text
    assert "| denial | full | 2 | 100 % |" in text
    assert "| all prompts | baseline (own template) | 4 |" in text
    assert "--label 'own template'" in text
    twice = program.run("eval", *["--results", "one.json"] * 2, "--report", "R2.md")
    assert twice.code == 0
    assert "| denial | full | 2 | 100 % |" in (program.work / "R2.md").read_text()
    saved = json.loads((program.work / "one.json").read_text())
    odd = {**saved, "turns": [{**saved["turns"][0], "tools": "3"}]}
    (program.work / "odd.json").write_text(json.dumps(odd))
    done = program.run("eval", "--results", "odd.json")
    assert (done.code, done.out) == (2, "")
    assert "odd.json has no results of a run." in done.err
    assert saved["schema_version"] == 1
    assert all((turn["details"] is None) == (turn["half"] == "held_out") for turn in saved["turns"])


def test_a_write_on_the_users_own_servers_is_never_run(tmp_path: Path, scripted: Start) -> None:
    """Cases without servers run over those of the configuration, and change nothing there."""
    asked = [Call("write_note", {"text": "x"}), Say("It was not written.")]
    program = Program(tmp_path, scripted(asked).base_url)
    (program.work / "own.toml").write_text(
        '[[case]]\nid = "own"\ncategory = "arguments"\nprompt = "Note x"\n'
        'calls = [{ tool = "echo/write_note", args = { text = "x" } }]\n'
    )
    done = program.run("eval", "own.toml", "--configurations", "full", "--json")
    assert done.code == 0, done.err
    assert shares(done.json)["all prompts", "full"] == (1, 1)
    assert program.written() == []


def test_public_cases_out_of_a_folder(program: Program) -> None:
    """Their types become JSON schema, any of the listed values is right, "" may be left out."""
    folder = program.work / "copy" / "data"
    (folder / "possible_answer").mkdir(parents=True)
    function = {
        "name": "math.add",
        "description": "Add",
        "parameters": {
            "type": "dict",
            "properties": {"a": {"type": "float"}, "b": {"type": "tuple"}, "c": {"type": "any"}},
            "required": ["a"],
        },
    }
    for name in ("simple_python", "multiple", "irrelevance"):
        question = [[{"role": "user", "content": f"Hello {name}"}]]
        row = {"id": f"{name}_0", "question": question, "function": [function]}
        (folder / f"BFCL_v4_{name}.json").write_text(json.dumps(row) + "\n")
        truth = {"id": row["id"], "ground_truth": [{"math.add": {"a": [1, 2], "b": ["", [1]]}}]}
        (folder / "possible_answer" / f"BFCL_v4_{name}.json").write_text(json.dumps(truth))
    done = program.run("eval", "--bfcl", "copy", "--configurations", "full", "--json")
    assert done.code == 0, done.err
    found = shares(done.json)
    assert found["bfcl irrelevance", "full"] == (1, 1)
    assert found["bfcl simple", "full"] == found["bfcl multiple", "full"] == (0, 1)
    assert not list(program.work.glob("*_0.json"))
