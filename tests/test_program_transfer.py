"""The program as a process: threads to files and back, by command and in the chat."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from local_agent.testing import Call, Reply, Say, ScriptedServer
from tests.chat_kit import Chats, leave
from tests.foreign import FILE
from tests.program_kit import Program, text_of

pytestmark = pytest.mark.process
Start = Callable[..., ScriptedServer]
TALK = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]


def answer(body: dict[str, Any]) -> Reply:
    last = body["messages"][-1]
    if last["content"] == "add":
        return Call("add", {"a": 1, "b": 2})
    return Say("It is 3." if last["role"] == "tool" else f"ok: {last['content']}")


def test_a_thread_goes_to_another_database(tmp_path: Path, scripted: Start) -> None:
    """Written once, never over a file or a thread; what comes out of it is the same and goes on."""
    server = scripted(answer)
    program = Program(tmp_path, server.base_url)
    done = program.run("--thread", "sums", stdin="add\nand the key is TESTSECRET6\n")
    assert done.code == 0
    whole, other = tmp_path / "sums.json", tmp_path / "other.db"
    out = ["threads", "export", "sums"]
    runs = program.run_all(
        [*out, "-o", whole],
        [*out],
        [*out, "--last", "1", "--format", "json"],
    )
    assert [done.code for done in runs] == [0, 0, 0], runs
    assert (runs[0].out, runs[0].err.split("\n")[0]) == (
        "",
        f"Thread 'sums' was written to {whole}.",
    )
    if sys.platform != "win32":
        assert whole.stat().st_mode & 0o777 == 0o600
    assert runs[1].out.startswith("# add\n\n- thread: `sums`\n")
    assert "**Result r1:** success, 1 character" in runs[1].out
    assert json.loads(runs[2].out)["turns_left_out"] == 1

    content = whole.read_bytes()
    again, taken, done = program.run_all(
        [*out, "-o", whole],
        ["threads", "import", whole],
        ["threads", "import", whole, "--db", other, "--json"],
    )
    assert (again.code, again.out, again.err.count("\n")) == (1, "", 1)
    assert f"{whole} exists already. Use --force" in again.err
    assert (taken.code, taken.out) == (1, "")
    assert "There is a thread 'sums' already" in taken.err
    assert done.json == {
        "schema_version": 1,
        "threads": [{"thread": "sums", "turns": 2, "messages": 6, "notes": []}],
    }
    there = program.run(*out, "--format", "json", "--db", other)
    assert there.stdout == content
    done = program.run("--db", other, "--thread", "sums", "-p", "more")
    assert (done.code, done.out, server.refused) == (0, "ok: more\n", [])
    assert "resumed 6 saved messages" in done.err
    assert text_of(server.requests[-1])[0] == "user: add"


def test_a_list_with_an_answer_in_front_of_calls_goes_on(tmp_path: Path, scripted: Start) -> None:
    """What another program wrote apart is sent so that a strict server takes it."""
    server = scripted(answer)
    program = Program(tmp_path, server.base_url)
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    talk = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "let me see"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "3"},
        {"role": "assistant", "content": "It is 3."},
    ]
    (tmp_path / "talk.json").write_text(json.dumps(talk), "utf-8")
    assert program.run("threads", "import", tmp_path / "talk.json", "--thread", "t").code == 0
    done = program.run("--thread", "t", "-p", "more")
    assert (done.code, done.out, server.refused) == (0, "ok: more\n", [])
    sent = ["user: hi", "assistant: let me see", "tool: 3", "assistant: It is 3.", "user: more"]
    assert text_of(server.requests[-1]) == sent


def test_secrets_are_taken_out(tmp_path: Path, scripted: Start) -> None:
    """D15: what the configuration keeps secret, and what has the shape of a secret."""
    env = {"KEY": "plain words of mine"}
    server = scripted(answer, api_key="plain words of mine")
    program = Program(tmp_path, server.base_url, model='api_key = "${KEY}"', env=env, servers="")
    prompt = "say plain words of mine and sk-" + "a1B2" * 6
    assert program.run("--thread", "x", "-p", prompt).code == 0
    plain, clean, said = program.run_all(
        ["threads", "export", "x", "--format", "json"],
        ["threads", "export", "x", "--format", "json", "--redact"],
        ["threads", "export", "x", "--redact", "-o", tmp_path / "x.md", "--json"],
    )
    assert (plain.out.count("plain words"), plain.out.count("a1B2a1B2")) == (3, 9)
    assert ("plain words" in clean.out, "a1B2" in clean.out) == (False, False)
    assert "say [redacted configured 1] and [redacted openai-key 1]" in clean.out
    assert "2 secrets were found and replaced" in clean.err
    assert (said.json["secrets"], said.json["format"]) == (2, "md")


def test_lists_of_messages_and_bad_files(tmp_path: Path, scripted: Start) -> None:
    """From a file and from a pipe; what cannot be is one line, and the database is not made."""
    program = Program(tmp_path, scripted(answer).base_url, servers="")
    talk, bad = tmp_path / "my talk.json", tmp_path / "bad.json"
    talk.write_text(json.dumps(TALK))
    bad.write_text('[{"role": "god"}]')
    refused = program.run_all(
        ["threads", "import", bad],
        ["threads", "import", tmp_path / "none.json"],
        ["threads", "import", tmp_path],
        ["threads", "import", talk, "--thread", "a\nb"],
        ["threads", "export", "none"],
        ["threads", "export", "none", "--last", "0"],
        ["threads", "export", "none", "--format", "pdf"],
        ["threads", "export", "none", "--json"],
    )
    assert [done.code for done in refused] == [1, 1, 1, 2, 1, 2, 2, 2]
    for done in refused:
        assert (done.out, done.err.count("\n"), done.err[:7]) == ("", 1, "error: "), done
    assert f"{bad} cannot be imported. [0].role is 'god'" in refused[0].err
    assert not program.db.exists()

    done = program.run("threads", "import", talk)
    assert (done.code, done.out) == (0, "Thread 'my talk': 2 messages imported.\n")
    lines = "".join(json.dumps({"messages": TALK}) + "\n" for _ in range(2))
    done = program.run("threads", "import", "-", "--thread", "t", stdin=lines)
    assert done.out == "Thread 't 1': 2 messages imported.\nThread 't 2': 2 messages imported.\n"
    listed = program.run("threads", "list", "--json").json
    rows = listed["threads"] if isinstance(listed, dict) else listed
    assert {row["thread"]: row["turns"] for row in rows} == {"my talk": 1, "t 1": 1, "t 2": 1}


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo terminal")
def test_in_the_chat(tmp_path: Path, scripted: Start) -> None:
    """/export writes beside where one stands and over nothing; /import goes to the new thread."""
    chats = Chats(tmp_path, scripted(answer), "")
    talk = tmp_path / "talk.json"
    talk.write_text(json.dumps(TALK))
    with chats.ready("--thread", "a/b c") as program:
        program.send("/export\r")
        program.wait_for("error: Thread 'a/b c' has nothing to export yet.")
        program.send("hello\r")
        program.wait_for("ok: hello")
        program.send("/export\r")
        program.wait_for("Written to a-b-c.md.")
        program.send("/export\r")
        program.wait_for("a-b-c.md exists already.")
        program.send("/export whole.json\r")
        program.wait_for("Written to whole.json.")
        program.send("/import whole.json\r")
        program.wait_for("There is a thread 'a/b c' already")
        program.send("/import talk.json\r")
        program.wait_for("Thread 'talk': resumed 2 saved messages.")
        program.send("and?\r")
        program.wait_for("ok: and?")
        leave(program)
    assert (tmp_path / "a-b-c.md").read_text().startswith("# hello\n")
    assert json.loads((tmp_path / "whole.json").read_text())["thread"]["name"] == "a/b c"


def test_an_export_of_another_programs_thread_is_quiet(tmp_path: Path) -> None:
    """What its file holds beside the conversation is not read, and no library says so."""
    program = Program(tmp_path, "http://127.0.0.1:9", servers="")
    shutil.copy(FILE, program.db)
    done = program.run("threads", "export", "chat")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("# chat")
