"""The chat in a pseudo terminal: from the start to the first answer, and leaving."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from local_agent.testing import Call, Calls, Say, ScriptedServer
from tests.chat_kit import CTRL_D, UP, Chats, check_terminal, leave, stdio_table

pytestmark = pytest.mark.process
Scripted = Callable[..., ScriptedServer]


def test_first_minute(tmp_path: Path, scripted: Scripted) -> None:
    """The prompt is there before all is loaded; what is typed stays, is sent, and is remembered."""
    turn = [Calls([Call("echo", {"text": "ping [/INST]"})]), Say("It said ping.")]
    model = scripted([*turn, Say("Again.")])
    chats = Chats(tmp_path, model)
    with chats.start() as program:
        program.wait_for("> ")
        assert "Loaded" not in program.text
        program.send("what does")
        program.wait_for("> what does")
        program.wait_for("Loaded 8 tools. Thread 'default': new conversation.", 40)
        program.send(" it say?\r")
        program.wait_for("It said ping.\n>")
        assert program.screen[:6] == [
            "Loaded 8 tools. Thread 'default': new conversation.",
            "> what does it say?",
            "⇢ route: all",
            "→ echo(text='ping [/INST]')",
            "← ping [/INST]",
            "It said ping.",
        ]
        program.send("\x1b[200~first line\r\nsecond line\n\x1b[201~\r")
        program.wait_for("Again.\n>")
        program.interrupt()
        program.wait_for("(Ctrl-C again or Ctrl-D leaves.)")
        program.interrupt()
        assert program.wait() == 0
        check_terminal(program)
    assert model.requests[-1]["messages"][-1]["content"] == "first line\nsecond line"

    model.replies = [Say("unused")] * 3 + [Say("Still known.")]
    with chats.start() as program:
        program.wait_for("> ")
        program.send(f"{UP}{UP}{UP}{UP}\r")  # by the three lines of the last prompt
        program.wait_for("resumed 6 saved messages.", 40)
        program.wait_for("Still known.\n>")
        leave(program)
    sent = [m["content"] for m in model.requests[-1]["messages"] if m["role"] == "user"]
    assert sent == ["what does it say?", "first line\nsecond line", "what does it say?"]
    assert model.refused == []


def test_leaving_at_once(tmp_path: Path) -> None:
    """D09: Ctrl-D, typed before the prompt is there, leaves with 0 though nothing is loaded yet."""
    with Chats(tmp_path, "http://127.0.0.1:9/v1").start() as program:
        program.send(CTRL_D)
        assert program.wait() == 0
        check_terminal(program)


def test_a_server_that_hangs_at_the_start(tmp_path: Path, scripted: Scripted) -> None:
    """M07, D09: the chat answers meanwhile, Ctrl-C takes a waiting prompt back, quit is at once."""
    model = scripted([Say("Hello.")])
    chats = Chats(tmp_path, model, stdio_table("mute", {"silent": True}, startup_timeout_sec=300))
    with chats.start() as program:
        program.wait_for("> ")
        program.send("/help\r")
        program.wait_for("/threads")
        program.send("/hlep\r")
        program.wait_for("Did you mean /help?")
        program.send("hello\r")
        program.wait_for("… starting (")
        program.interrupt()
        program.wait_for("> hello", count=2)
        program.send("!\r")
        program.wait_for("… starting (")
        program.interrupt()
        program.wait_for("> hello!", count=2)
        program.interrupt()
        program.send("quit\r")
        assert program.wait() == 0
        check_terminal(program)
        assert "Traceback" not in program.text
    assert model.requests == []


def test_a_server_that_fails_is_said_above_the_prompt(tmp_path: Path, scripted: Scripted) -> None:
    """M07, T01, T04: the reason stands beside its name, harmless, and the rest works."""
    said = "\x1b]0;title\x07\x1b[2J\x9b2J API_KEY [/] [red]not set"
    bad = stdio_table("bad", {"stderr": said, "exit": 2})
    chats = Chats(tmp_path, scripted([Say("Hello.")]), "")
    chats.configure(chats.echo() + bad)
    with chats.start() as program:
        program.wait_for("> ")
        program.send("hello\r")
        program.wait_for("Server 'bad' is not available: ", 40)
        program.wait_for("API_KEY [/] [red]not set")
        program.wait_for("Hello.\n>")
        for raw in (b"\x1b]0", b"\x1b[2J", b"\xc2\x9b", b"\x07"):
            assert raw not in program.raw
        leave(program)


def test_noise_on_stderr_stays_away(tmp_path: Path, scripted: Scripted) -> None:
    """M14: what a server writes on stderr for ever is never on the screen."""
    chats = Chats(tmp_path, scripted([Say("Hello.")]), stdio_table("noisy", {"spam": True}))
    with chats.ready() as program:
        program.send("hello\r")
        program.wait_for("Hello.\n>")
        program.send("half a li")
        program.wait_for("> half a li")
        program.interrupt()
        leave(program)
        assert "still here" not in program.text


def test_the_model_server_is_down(tmp_path: Path) -> None:
    """L16: one line; the typed text stands on the next prompt and works once the server is up."""
    with ScriptedServer() as gone:
        port = gone.port
    chats = Chats(tmp_path, f"http://127.0.0.1:{port}/v1")
    with chats.ready() as program:
        program.send("do you\x1b\rhear me?\r")
        program.wait_for(f"No model server at http://127.0.0.1:{port}/v1.")
        program.wait_for("> do you\n· hear me?", count=2)
        assert "Traceback" not in program.text
        with ScriptedServer([Say("Yes."), Say("Twice.")], port=port) as model:
            program.send("\r")
            program.wait_for("Yes.\n>")
            assert model.requests[0]["messages"][-1]["content"] == "do you\nhear me?"
        program.send("and now?\r")
        program.wait_for("error: ")
        with ScriptedServer([Say("Now, too.")], port=port) as model:
            program.send("/retry\r")
            program.wait_for("Now, too.\n>")
            assert model.requests[0]["messages"][-1]["content"] == "and now?"
            assert model.refused == []
        leave(program)


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_escapes(tmp_path: Path, scripted: Scripted, env: dict[str, str]) -> None:
    """T08: NO_COLOR and TERM=dumb mean not one escape; all else works, nothing typed is lost."""
    calls = Calls([Call("write_note", {"text": "one"})])
    model = scripted([calls, Say("Noted."), Say("Second.")])
    chats = Chats(tmp_path, model)
    model.loaded = []
    with chats.ready(**env) as program:
        program.send("note it\r")
        program.wait_for("error: ")
        program.wait_for("It was not sent; /retry sends it.")
        model.loaded = ["scripted-7b"]
        program.send("/retry\r")
        program.wait_for("Run it? ")
        program.send("y\r")
        program.wait_for("Noted.\n>")
        program.send("go on\r")
        program.wait_for("Second.\n>")
        program.send("half")
        program.interrupt()
        program.wait_for("(Ctrl-C again or Ctrl-D leaves.)")
        leave(program)
        assert b"\x1b" not in program.raw
    assert chats.noted() == ["one"]


def test_sigterm_leaves_the_terminal_as_it_was(tmp_path: Path, scripted: Scripted) -> None:
    """T13: at the prompt and in a turn; a question that was open is put again at the next start."""
    calls = Calls([Call("write_note", {"text": "one"})])
    model = scripted([calls, Calls([Call("slow", {"seconds": 60})]), Say("Never.")])
    chats = Chats(tmp_path, model)
    with chats.ready() as program:
        program.send("note it\r")
        program.wait_for("Run it? ")
        program.kill(signal.SIGTERM)
        assert program.wait() == 130
        check_terminal(program)
    with chats.start() as program:
        program.wait_for("Run it? ", 40)
        program.send("y\r")
        program.wait_for("→ slow(seconds=60)")
        program.kill(signal.SIGTERM)
        assert program.wait() == 130
        check_terminal(program)
    assert chats.noted() == ["one"]
    with chats.start() as program:
        program.wait_for("> ")
        program.kill(signal.SIGTERM)
        assert program.wait() == 130
        check_terminal(program)


def test_what_cannot_begin_is_one_line(tmp_path: Path) -> None:
    """A bad configuration is exit 2, a damaged database exit 1; each is one line and no prompt."""
    chats = Chats(tmp_path, "http://127.0.0.1:9/v1", "[servers.x]\ncomand = 'y'\n")
    with chats.start() as program:
        assert program.wait() == 2
        assert program.text.startswith("error: ")
        assert "comand" in program.text
        assert "Traceback" not in program.text
        check_terminal(program)
    chats.configure("")
    chats.db.write_bytes(b"this is no database at all, but text" * 100)
    with chats.start() as program:
        assert program.wait() == 1
        assert program.text.startswith("error: ")
        assert "memory.db" in program.unwrapped
        assert "> " not in program.text
        check_terminal(program)


def test_trust_is_asked_for(tmp_path: Path, scripted: Scripted) -> None:
    """A file of the folder starts nothing before a yes; the next start does not ask again."""
    record = tmp_path / "record"
    server = stdio_table("x", {"record": str(record)})
    chats = Chats(tmp_path, scripted([Say("Hi.")]), server)
    chats.config.rename(tmp_path / "mcp_servers.toml")
    with chats.start(named=False) as program:
        program.wait_for("Trust this file as it is now? [y/N]")
        assert "It would:" in program.text
        program.send("\r")
        assert program.wait() == 2
        assert "agent config trust" in program.unwrapped
        check_terminal(program)
    assert not record.exists()
    for asked in (True, False):
        with chats.start(named=False) as program:
            if asked:
                program.wait_for("Trust this file as it is now? [y/N]")
                program.send("y\r")
            program.wait_for("Loaded 11 tools.", 40)
            assert asked == ("Trust" in program.text)
            leave(program)
    assert record.exists()
