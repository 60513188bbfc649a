"""The commands of the chat, and threads that are open elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from local_agent.probe import Findings, Share
from local_agent.testing import Say, ScriptedServer
from tests.chat_kit import Chats, check_terminal, leave
from tests.probe_kit import save_profile
from tests.servers.mcp_kit import wait_for

pytestmark = pytest.mark.process
Scripted = Callable[..., ScriptedServer]


# What is typed, and what is shown then.
COMMANDS = (
    ("/help", "/quit"),
    ("/model", "scripted-7b with a context of 8192 tokens."),
    ("/tools", "read   echo  (echo)  Give the text back."),
    ("/servers", "echo  ready  8 tools"),
    ("/threads", "No thread is saved yet."),
    ("/retry", "There is nothing to try again"),
    ("hello [/INST]", "Hello."),
    ("/model", "scripted-7b with a context of 8192 tokens."),
    ("/threads", "      1  hello [/INST]"),
    ("/thread [red]a[/]", "error: This is the thread '[red]a[/]' already."),
    ("/thread", "error: /thread needs a NAME."),
    (
        "\x1b[200~/thread a\x1bb\x1b[201~",
        "The thread name of /thread has control",
    ),
    ("/thread " + "x" * 201, "201 characters"),
    ("/thread b/ c", "Thread 'b/ c': new conversation."),
    ("hello", "Hello."),
    ("/new [red]a[/]", "error: There is a thread '[red]a[/]' already. /thread [red]a[/] opens it."),
    ("/new", "Thread 'chat 20"),
    ("/thread [red]a[/]", "Thread '[red]a[/]': resumed 2 saved messages."),
    ("/route", "The route is chosen for each turn."),
    ("/route general", "This chat stays on the route general; /route auto ends that."),
    ("hello", "⇢ route: general"),
    ("/route nothing", "error: There is no route 'nothing'."),
    ("/route auto", "The route is chosen for each turn."),
    ("/hlep", "error: There is no command /hlep. Did you mean /help?"),
    ("/servers now", "error: /servers takes nothing after it."),
    ("/tools echo", "echo  (of the server echo; only reads)"),
    ("/tools find_tools", "find_tools  (of the server agent; only reads)"),
    ("/tools nothing", "error: There is no tool 'nothing'."),
    ("/etc/hosts is what?", "the script has 3 replies"),
)


def test_commands(tmp_path: Path, scripted: Scripted) -> None:
    """Each says what it should, harmless; one that cannot be says why; the prompt is back."""
    model = scripted([Say("Hello."), Say("Hello."), Say("Hello.")])
    chats = Chats(tmp_path, model)
    with chats.ready("--thread", "[red]a[/]") as program:
        assert "Thread '[red]a[/]': new conversation." in program.text
        for typed, shown in COMMANDS:
            before = program.unwrapped.count(shown)
            program.send(f"{typed}\r")
            program.wait_for(shown, count=before + 1 + (typed == shown))
            wait_for(lambda: program.unwrapped.endswith("\n>"))
        assert wait_for(lambda: program.unwrapped.endswith("\n>"))
        program.send("/quit\r")
        assert program.wait() == 0
        check_terminal(program)
        assert "Traceback" not in program.text
    assert [len(request["messages"]) for request in model.requests[:3]] == [2, 2, 4]
    assert "tools" not in model.requests[2]
    assert model.requests[-1]["messages"][-1]["content"] == "/etc/hosts is what?"
    assert model.refused == []


def test_the_profile_of_the_model(tmp_path: Path, scripted: Scripted) -> None:
    """/model says what its profile sets."""
    model = scripted([Say("Hello.")])
    save_profile(model, Findings(denial=Share(0, 3)))
    with Chats(tmp_path, model).ready() as program:
        program.send("hello\r")
        program.wait_for("Hello.\n>")
        program.send("/model\r")
        program.wait_for("of 8192 tokens. Its profile sets max_steps = 6.")
        leave(program)


def test_a_thread_that_is_open_elsewhere(tmp_path: Path, scripted: Scripted) -> None:
    """D02: refused with the pid, at the start with exit 1, by /thread with the old one kept."""
    model = scripted([Say("First."), Say("Second."), Say("Third.")])
    chats = Chats(tmp_path, model)
    with chats.ready("--thread", "work") as one, chats.ready("--thread", "other") as two:
        held = f"thread 'work' is open in another agent (pid {one.process.pid})"
        two.send("/thread work\r")
        two.wait_for(f"error: {held}")
        two.send("hello\r")
        two.wait_for("First.\n>")
        with chats.start("--thread", "work") as three:
            three.send("typed meanwhile")
            assert three.wait(40) == 1
            assert f"error: {held}" in three.unwrapped
            assert "Traceback" not in three.text
            check_terminal(three)
        one.send("hello\r")
        one.wait_for("Second.\n>")
        assert len(model.requests[-1]["messages"]) == 2
        one.kill()
        one.wait()
        two.send("/thread work\r")
        two.wait_for("Thread 'work': resumed 2 saved messages.")
        two.send("and now?\r")
        two.wait_for("Third.\n>")
        leave(two)
    assert len(model.requests[-1]["messages"]) == 4
    assert model.refused == []
