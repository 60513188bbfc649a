"""Output into pipes and files."""

from __future__ import annotations

import io

import pytest

from local_agent import events
from local_agent.ui.plain import PlainRenderer

EVIL = "\x1b[2Jend [/INST] \x9b1A \u202e"
TURN: tuple[events.Event, ...] = (
    events.RouteChosen("repo"),
    events.ThinkingDelta("hm"),
    events.TextDelta("let me look"),
    events.ToolStarted("c1", "ls", "fs", "ls", {"p": "x"}),
    events.ToolFinished("c1", "ls", "success", "a\nb"),
    events.Notice("by the way"),
    events.Notice("look out", "warning"),
    events.TextDelta("It is "),
    events.TextDelta("a and b."),
)


def render(*shown: events.Event, quiet: bool = False) -> tuple[str, str]:
    """What a PlainRenderer makes of the events: stdout, stderr."""
    out, err = io.StringIO(), io.StringIO()
    renderer = PlainRenderer(out, err, quiet=quiet)
    for event in shown:
        renderer.show(event)
    return out.getvalue(), err.getvalue()


def finished(**values: object) -> events.TurnFinished:
    """The end of a turn."""
    base: dict[str, object] = {"thread": "t", "route": "r", "answer": "", "status": "ok"}
    return events.TurnFinished(**{**base, **values})  # type: ignore[arg-type]


def test_stdout_has_the_answer_only() -> None:
    """T08: what streams before a tool call and all notes stay off stdout."""
    out, err = render(*TURN, finished(answer="It is a and b."))
    assert out == "It is a and b.\n"
    assert err.splitlines() == [
        "⇢ route: repo",
        "→ ls(p='x')",
        "← a b",
        "by the way",
        "warning: look out",
    ]


def test_a_long_line_is_not_wrapped() -> None:
    """T08: no hard line ends in redirected output."""
    assert render(finished(answer="x " * 500))[0] == "x " * 500 + "\n"


def test_quiet_leaves_warnings() -> None:
    """-q drops the running commentary and keeps what must be known."""
    assert render(*TURN, quiet=True) == ("", "warning: look out\n")


def test_no_escape_reaches_a_file() -> None:
    """T01, T04: answer, result, names, notices and errors are shown letter by letter, harmless."""
    call = events.PendingCall("c", EVIL, EVIL, EVIL, {"a": EVIL})
    out, err = render(
        events.RouteChosen(EVIL),
        events.ToolStarted("c", EVIL, EVIL, EVIL, {"a": EVIL}),
        events.ToolFinished("c", EVIL, "error", EVIL),
        events.ApprovalRequested(EVIL, EVIL, [call]),
        events.Notice(EVIL, "error"),
        finished(answer=EVIL, status="error", error=EVIL),
    )
    assert not {"\x1b", "\x9b", "\u202e"} & set(out + err)
    assert out == "␛[2Jend [/INST] <U+009B>1A <U+202E>\n"
    assert err.count("␛[2Jend [/INST]") == 8


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"status": "error", "error": "No model server."}, "error: No model server."),
        ({"status": "timeout"}, "error: the turn took longer than --timeout"),
        ({"status": "cancelled"}, "Stopped. What was there is kept."),
        ({"status": "step_limit"}, "warning: stopped at the step limit"),
    ],
)
def test_an_end_that_is_not_ok_is_said(values: dict[str, object], line: str) -> None:
    """The partial answer stays on stdout, the reason goes to stderr, also with -q."""
    assert render(finished(answer="half", **values), quiet=True) == ("half\n", line + "\n")


def test_a_parked_approval_says_how_to_decide() -> None:
    """A07: the calls that wait, whole, and the commands that decide them, also with -q."""
    calls = [events.PendingCall("c1", "rm", "fs", "rm", {"p": "x" * 300})]
    out, err = render(
        events.ApprovalRequested("7f3a", "t", calls),
        finished(status="approval_required", approval_id="7f3a"),
        quiet=True,
    )
    assert out == ""
    assert err.splitlines()[0] == f"⏸ approval: rm(p='{'x' * 300}')"
    assert "agent approvals approve 7f3a" in err


def test_a_parked_repaired_call_says_so() -> None:
    """What was repaired stands behind the call, on its line."""
    calls = [events.PendingCall("c1", "rm", "fs", "rm", {"p": "x"}, repaired="a\nb")]
    _, err = render(events.ApprovalRequested("7f3a", "t", calls))
    assert err == "⏸ approval: rm(p='x') · repaired: a␊b\n"
