"""Output for programs."""

from __future__ import annotations

import io
import json
import math
from typing import Any

from local_agent import events
from local_agent.ui.machine import JsonRenderer, StreamJsonRenderer

CALL = events.PendingCall("c1", "rm", "fs", "rm_file", {"p": "ä\x1b"})
END = events.TurnFinished(
    "t",
    "repo",
    "dóne",
    "ok",
    [events.ToolCallSummary("rm", {"p": math.nan, "s": "\ud800"}, "denied")],
    input_tokens=7,
    output_tokens=3,
    steps=2,
)
TURN: tuple[events.Event, ...] = (
    events.RouteChosen("repo"),
    events.ThinkingDelta("hm"),
    events.TextDelta("dóne"),
    events.ToolStarted("c1", "rm", "fs", "rm_file", {"p": "x"}),
    events.ApprovalRequested("7f", "t", [CALL]),
    events.ToolFinished("c1", "rm", "denied", "no\n"),
    events.Notice("n", "warning"),
    events.Notice("e", "error"),
    END,
)


def loads(text: str) -> Any:
    """Strict JSON: what Python alone would read is refused."""
    return json.loads(text, parse_constant=lambda name: (_ for _ in ()).throw(ValueError(name)))


def test_json_is_one_object_a_prompt() -> None:
    """The object of the contract, one line a prompt, ASCII, and nothing else."""
    out = io.StringIO()
    renderer = JsonRenderer(out)
    for event in (*TURN, *TURN):
        renderer.show(event)
    first, second = out.getvalue().splitlines()
    assert first == second
    assert first.isascii()
    assert loads(first) == {
        "schema_version": 1,
        "thread": "t",
        "route": "repo",
        "answer": "dóne",
        "tool_calls": [{"name": "rm", "args": {"p": "nan", "s": "\ud800"}, "status": "denied"}],
        "usage": {"input_tokens": 7, "output_tokens": 3},
        "steps": 2,
        "status": "ok",
        "error": None,
    }


def test_json_has_only_the_states_of_the_contract() -> None:
    """An interrupted or late turn is an error that says so; a parked one carries its id."""
    objects = {}
    for status in ("cancelled", "timeout", "step_limit", "approval_required"):
        out = io.StringIO()
        waits = "7f" if status == "approval_required" else None
        JsonRenderer(out).show(
            events.TurnFinished("t", "", "", status, approval_id=waits)  # type: ignore[arg-type]
        )
        objects[status] = loads(out.getvalue())
    assert [objects[key]["status"] for key in ("cancelled", "timeout")] == ["error", "error"]
    assert all(objects[key]["error"] for key in ("cancelled", "timeout"))
    assert objects["step_limit"]["status"] == "step_limit"
    assert objects["approval_required"]["approval_id"] == "7f"


def test_stream_json_is_one_event_a_line() -> None:
    """Each line is an object with one of the types of the contract; reasoning is left out."""
    out = io.StringIO()
    renderer = StreamJsonRenderer(out)
    renderer.init(thread="t", tools=14, model="m")
    for event in TURN:
        renderer.show(event)
    lines = [loads(line) for line in out.getvalue().splitlines()]
    assert [line["type"] for line in lines] == [
        *("init", "route", "text", "tool_use", "approval", "tool_result"),
        *("message", "error", "message", "result"),
    ]
    assert lines[0] == {
        **{"type": "init", "schema_version": 1, "thread": "t"},
        **{"tools": 14, "model": "m"},
    }
    assert lines[3]["args"] == {"p": "x"}
    assert lines[4]["calls"][0]["args"] == {"p": "ä\x1b"}
    assert lines[5]["text"] == "no\n"
    assert lines[-2]["text"] == lines[-1]["answer"] == "dóne"


def test_notes_go_to_stderr_beside_json() -> None:
    """With an err, the running commentary is there as in text output."""
    out, err = io.StringIO(), io.StringIO()
    renderer = JsonRenderer(out, err)
    for event in TURN:
        renderer.show(event)
    assert len(out.getvalue().splitlines()) == 1
    assert err.getvalue().splitlines()[:2] == ["⇢ route: repo", "→ rm(p='x')"]
