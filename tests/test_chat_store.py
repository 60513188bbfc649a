"""The chat's commands over stored threads: search, rename, delete, prune."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from local_agent.testing import Say, ScriptedServer
from local_agent.threads import list_threads
from tests.chat_kit import ESCAPE, Chats, check_terminal, leave

pytestmark = pytest.mark.process
Scripted = Callable[..., ScriptedServer]

BOLD = "\x1b[1m"


def test_commands_over_stored_threads(tmp_path: Path, scripted: Scripted) -> None:
    """Each does what its command does outside, and the chat goes on."""
    server = scripted([Say("The Adler has rooms.") for _ in range(9)])
    chats = Chats(tmp_path, server, servers="")
    with chats.ready("--thread", "trip") as program:

        def type_(text: str, shown: str) -> None:
            seen = program.text.count(shown)
            program.send(f"{text}\r")
            program.wait_for(shown, count=seen + 1)

        type_("/rename x", "Nothing is saved in this thread yet. /new NAME starts one.")
        type_("/prune", "There is nothing to prune.")
        type_("a hotel?", "The Adler has rooms.")
        type_("/search ***", "There is no word in '***'.")
        type_("/search nowhere", "Nothing found for 'nowhere'.")
        type_('/search "adler has" room*', "trip  turn 1  20")
        assert f"The {BOLD}Adler has\x1b[22m {BOLD}rooms" in program.raw.decode()
        type_("/rename trip", "There is a thread 'trip' already.")
        type_("/rename Rome 2026", "Thread 'trip' is now 'Rome 2026'. What you allowed")
        program.wait_for("Thread 'Rome 2026': resumed 2 saved messages.")
        type_("and now?", "The Adler has rooms.")
        assert "a hotel?" in [m["content"] for m in server.requests[-1]["messages"]]
        type_("/delete Rome 2026", "This thread is open here.")
        type_("/prune x", "/prune takes a number of turns, not 'x'.")
        type_("/prune 1", "'Rome 2026': the way back to 1 turn; about")
        program.wait_for("1 thread pruned;")
        type_("and then?", "The Adler has rooms.")
        type_("/new other", "Thread 'other': new conversation.")
        type_("hello", "The Adler has rooms.")
        type_("/delete rome", "There is no thread 'rome'. Did you mean 'Rome 2026'?")
        type_("/delete Rome 2026", "deletes it.")
        program.wait_for("> /delete Rome 2026 --yes")
        assert {info.thread for info in list_threads(chats.db)} == {"Rome 2026", "other"}
        program.send("\r")
        program.wait_for("1 thread deleted;")
        type_("/search adler", "other  turn 1  20")
        leave(program)
    assert [info.thread for info in list_threads(chats.db)] == ["other"]
    with closing(sqlite3.connect(chats.db)) as conn:
        assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_search_without_escapes_and_without_a_file(tmp_path: Path, scripted: Scripted) -> None:
    """An ephemeral chat searches what it has; with NO_COLOR the words are in brackets."""
    chats = Chats(tmp_path, scripted([Say("The Adler has rooms.")]), servers="")
    before = sorted(tmp_path.iterdir())
    with chats.ready("--ephemeral", NO_COLOR="1") as program:
        program.send("a hotel?\r")
        program.wait_for("The Adler has rooms.")
        program.send("/search adler\r")
        program.wait_for("The [Adler] has rooms.")
        program.send("/delete x\r")
        program.wait_for("This conversation is not on the disk.")
        program.send("/rename other\r")
        program.wait_for("Thread 'other': resumed 2 saved messages.")
        program.send("/quit\r")
        assert program.wait() == 0
        check_terminal(program)
        assert ESCAPE not in program.raw.decode()
    assert sorted(tmp_path.iterdir()) == before


def test_a_thread_of_an_encrypted_file_is_deleted(tmp_path: Path, scripted: Scripted) -> None:
    """/delete has the key that the chat has."""
    table = '[memory]\nkey = "a good passphrase"\n'
    chats = Chats(tmp_path, scripted([Say("Yes.")]), servers=table)
    with chats.ready("--thread", "old") as program:
        program.send("a hotel?\r")
        program.wait_for("Yes.")
        program.send("/new other\r")
        program.wait_for("Thread 'other': new conversation.")
        program.send("/delete old --yes\r")
        program.wait_for("1 thread deleted;")
        leave(program)
    assert list_threads(chats.db) == []
