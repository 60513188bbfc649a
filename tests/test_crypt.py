"""Encryption of what threads hold: what is covered, which key opens it, and what a file can do."""

from __future__ import annotations

import asyncio
import dataclasses
import sqlite3
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate

from local_agent.config import Flags, load_memory_key, load_settings, secrets_of, shown
from local_agent.errors import AgentError, ConfigError, StorageError
from local_agent.memory import open_memory
from local_agent.memory.crypt import Cipher, Opened, WrongKey, plain_of
from local_agent.memory.sealed import SealedSerializer
from local_agent.testing import Call, Reply, Say, ScriptedServer
from local_agent.threads import list_threads, pending_approvals
from local_agent.timeline.edits import edit_result
from local_agent.transfer.database import read_thread
from local_agent.transfer.json_form import to_json
from tests.graph_kit import ScriptedTool, call, collect, say
from tests.program_kit import Program
from tests.timeline_kit import open_line, send, texts

Start = Callable[..., ScriptedServer]
KEY, OTHER = "correct horse battery", "another horse"
WORD = "tapioca"  # stands in everything that is to be hidden


def tools() -> list[ScriptedTool]:
    return [ScriptedTool("look"), ScriptedTool("write", read_only=False)]


async def talk(path: Path, key: str) -> None:
    """A thread with the word in prompt, arguments, result, answer, summary, branch and journal."""
    args = {"text": WORD}
    replies = [call(("look", args)), say(f"found {WORD}"), say(f"also {WORD}")]
    replies += [call(("write", args)), say("done"), call(("write", args))]
    async with open_line(path, replies, tools(), memory_key=key) as (session, timeline, _):
        await send(session, f"look for {WORD}")
        await send(session, f"and {WORD}?")
        await timeline.undo()
        await send(session, f"write {WORD}", True)
        await edit_result(timeline, "r1", f"corrected {WORD}")
        values = {"summary": f"about {WORD}", "facts": [WORD]}
        where: Any = {"configurable": {"thread_id": "t"}}
        await timeline.graph.aupdate_state(where, values, as_node="tools")
        await timeline.memory.journal.end("t", "m", "c", "success", WORD)
        await timeline.memory.journal.begin("t", "m", "c", "write", True)
        await timeline.memory.journal.end("t", "m", "c", "success", WORD)


def count(path: Path) -> int:
    """How often the word stands in the file and beside it."""
    return sum(p.read_bytes().count(WORD.encode()) for p in path.parent.iterdir() if p.is_file())


async def test_nothing_that_was_said_is_in_the_file(tmp_path: Path) -> None:
    """Prompts, arguments, results, answers, summary, titles, branches, journal: not in the clear.

    Without a key they are all there, so the search would find them.
    """
    for name, key in (("plain", ""), ("sealed", KEY)):
        folder = tmp_path / name
        folder.mkdir()
        await talk(folder / "m.db", key)
    assert count(tmp_path / "plain" / "m.db") > 20
    assert count(tmp_path / "sealed" / "m.db") == 0
    with closing(sqlite3.connect(tmp_path / "sealed" / "m.db")) as conn:
        assert {kind for (kind,) in conn.execute("SELECT DISTINCT type FROM writes")} == {
            "msgpack+xchacha20",
            "null+xchacha20",
        }
        (text,) = conn.execute("SELECT title FROM agent_threads").fetchone()
        assert text.startswith("sealed:1:")
        assert conn.execute("SELECT count(result) FROM tool_runs").fetchone() == (1,)


async def test_all_of_it_is_read_with_the_key(tmp_path: Path) -> None:
    """Messages, turns, branches, titles, journal and an export are those of the plain file."""
    found = []
    for name, key in (("plain", ""), ("sealed", KEY)):
        path = tmp_path / f"{name}.db"
        await talk(path, key)
        async with open_line(path, memory_key=key) as (session, timeline, _):
            run = await timeline.memory.journal.find("t", "m", "c")
            assert run is not None
            found.append(
                [
                    texts(await session.messages()),
                    [(t.number, t.prompt, t.tools) for t in await timeline.turns()],
                    [(b.prompt, b.why) for b in await timeline.branches()],
                    (run.outcome, run.result),
                    list_threads(path, key=key)[0].title,
                    to_json(read_thread(path, "t", key))[0]["thread"]["title"],
                ]
            )
    assert found[0] == found[1]
    assert WORD in str(found[1])


async def test_an_approval_waits_encrypted(tmp_path: Path) -> None:
    """What is asked is not in the file either, and is listed with the key."""
    path = tmp_path / "m.db"
    replies = [call(("write", {"text": WORD}))]
    async with open_line(path, replies, tools(), memory_key=KEY) as (session, _, _):
        await send(session, "do it")
    assert count(path) == 0
    (one,) = pending_approvals(path, KEY)
    assert one.value["calls"][0]["args"] == {"text": WORD}
    async with open_line(path, [say("ok")], tools(), memory_key=KEY) as (session, _, _):
        asked = await session.pending()
        assert asked is not None
        last = (await collect(session.resume(asked.id, {})))[-1]
        assert (last.status, last.answer) == ("ok", "ok")


# -- keys -----------------------------------------------------------------------------------------


def files(path: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in path.parent.iterdir() if p.is_file()}


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (OTHER, "The key of [memory] is not the one that "),
        ("", "is encrypted, and no key is set. Set [memory] key"),
    ],
)
async def test_another_key_or_none(tmp_path: Path, key: str, words: str) -> None:
    """One line, known before anything is written; names and times are still listed without one."""
    path = tmp_path / "m.db"
    await talk(path, KEY)
    before = files(path)
    readers: list[Callable[[], Any]] = [lambda: read_thread(path, "t", key)]
    if key:
        readers += [lambda: list_threads(path, key=key), lambda: pending_approvals(path, key)]
    for read in readers:
        with pytest.raises(StorageError) as caught:
            read()
        assert words in str(caught.value)
    with pytest.raises(StorageError) as caught:
        async with open_memory(path, key=key):
            pass
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert key not in str(caught.value) or not key
    assert [(t.thread, t.title, t.turns) for t in list_threads(path)] == [("t", "", 2)]
    assert files(path) == before


async def test_a_plain_file_goes_over_step_by_step(tmp_path: Path) -> None:
    """What was there is read as before and what comes is encrypted; without the key no more."""
    path = tmp_path / "m.db"
    async with open_line(path, [say("old")]) as (session, _, _):
        await send(session, "before")
    async with open_line(path, [say("new")], memory_key=KEY) as (session, timeline, model):
        await send(session, f"after {WORD}")
        assert texts(model.asked[0]["messages"]) == [
            "human: before",
            "ai: old",
            f"human: after {WORD}",
        ]
        assert [t.prompt for t in await timeline.turns()] == ["before", f"after {WORD}"]
    assert count(path) == 0
    with pytest.raises(StorageError, match="no key is set"):
        async with open_memory(path):
            pass
    assert len(read_thread(path, "t", KEY).messages) == 4


async def test_two_processes_begin_at_once(tmp_path: Path) -> None:
    """Both have one salt if they have one key; of two keys the second is refused."""
    path = tmp_path / "m.db"

    async def begin(key: str) -> None:
        async with open_memory(path, key=key) as memory:
            await memory.threads.touch(key, title=WORD)

    await asyncio.gather(*(begin(KEY) for _ in range(4)))
    assert list_threads(path, key=KEY)[0].title == WORD
    other = tmp_path / "n.db"
    results = await asyncio.gather(
        begin_at(other, KEY), begin_at(other, OTHER), return_exceptions=True
    )
    assert [type(r) for r in results].count(StorageError) == 1, results


async def begin_at(path: Path, key: str) -> None:
    async with open_memory(path, key=key):
        pass


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("cost", '{"kdf": "scrypt", "n": 1099511627776, "r": 8, "p": 1}'),
        ("cost", '{"kdf": "scrypt", "n": 32768, "r": 8, "p": 100000}'),
        ("cost", '{"kdf": "none", "n": 1, "r": 1, "p": 1}'),
        ("cost", "{"),
        ("salt", 7),
        ("probe", "text"),
    ],
)
async def test_a_file_that_lies_about_its_encryption(
    tmp_path: Path, column: str, value: Any
) -> None:
    """No memory that no machine has, no other way to make a key: one line."""
    path = tmp_path / "m.db"
    async with open_memory(path, key=KEY):
        pass
    with closing(sqlite3.connect(path)) as conn, conn:
        conn.execute(f"UPDATE agent_cipher SET {column} = ?", (value,))
    with pytest.raises(StorageError, match="encryption is damaged"):
        async with open_memory(path, key=KEY):
            pass


async def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pycryptodome is not installed, the line says what to install; no file is made."""
    monkeypatch.setitem(sys.modules, "Crypto.Cipher.ChaCha20_Poly1305", None)
    with pytest.raises(ConfigError, match=r"pip install 'local-agent\[encrypt\]'"):
        async with open_memory(tmp_path / "m.db", key=KEY):
            pass
    assert list(tmp_path.iterdir()) == []


async def test_ephemeral_needs_no_key(tmp_path: Path) -> None:
    """What is in memory alone is not encrypted: it is gone at the end."""
    async with open_memory(tmp_path / "m.db", ephemeral=True, key=KEY) as memory:
        await memory.threads.touch("t", title=WORD)
        info = await memory.threads.info("t")
        assert info is not None
        assert info.title == WORD


# -- what is read back ----------------------------------------------------------------------------


def test_strictness_holds_inside() -> None:
    """An encrypted value that names a class is data, and of a kind that can name any it is none."""
    cipher = Cipher(b"k" * 32)
    serde = SealedSerializer(cipher, "m.db")
    evil = ormsgpack.Ext(0, ormsgpack.packb(["builtins", "eval", "open('owned', 'w')"]))
    name, blob = cipher.encrypt(ormsgpack.packb({"v": evil}))
    assert serde.loads_typed((f"msgpack+{name}", blob)) == {"v": "open('owned', 'w')"}
    for kind in ("json", "pickle"):
        with pytest.raises(StorageError, match=kind):
            serde.loads_typed((f"{kind}+{name}", cipher.encrypt(b"{}")[1]))
    assert serde.loads_typed(("msgpack", ormsgpack.packb({"plain": 1}))) == {"plain": 1}


async def test_compiling_a_graph_does_not_widen_it(tmp_path: Path) -> None:
    """LangGraph lets a saver read what a graph's state declares; ours stays as it is."""
    async with open_memory(tmp_path / "m.db", key=KEY) as memory:
        clone = memory.saver.with_allowlist([("builtins", "eval")])
        evil = ormsgpack.Ext(0, ormsgpack.packb(["builtins", "eval", "1 + 1"]))
        name, blob = memory.saver.serde.cipher.encrypt(ormsgpack.packb(evil))  # type: ignore[attr-defined]
        assert clone.serde.loads_typed((f"msgpack+{name}", blob)) == "1 + 1"


def test_a_value_that_was_changed_is_an_error() -> None:
    """Each bit counts: of nonce, tag and text; another cipher's name is no way around."""
    cipher = Cipher(b"k" * 32)
    name, blob = cipher.encrypt(b"text")
    assert cipher.decrypt(name, blob) == b"text"
    for at in range(len(blob)):
        changed = bytearray(blob)
        changed[at] ^= 1
        with pytest.raises(WrongKey):
            cipher.decrypt(name, bytes(changed))
    for given in (("aes", blob), (name, b""), (name, blob[:39])):
        with pytest.raises(WrongKey):
            cipher.decrypt(*given)
    with pytest.raises(StorageError, match="cannot be decrypted"):
        SealedSerializer(cipher, "m.db").loads_typed((f"msgpack+{name}", blob[:-1]))
    with closing(sqlite3.connect(":memory:", factory=Opened)) as conn:
        conn.use(cipher)
        assert plain_of(conn)(f"msgpack+{name}", blob[:-1]) is None
    assert cipher.encrypt(b"text")[1] != blob  # the same text is another value each time
    assert "k" * 32 not in repr(cipher)


def test_texts_of_columns() -> None:
    """Whatever a text looks like, it comes back; what cannot be read without the key is empty."""
    cipher = Cipher(b"k" * 32)
    with closing(sqlite3.connect(":memory:", factory=Opened)) as conn:
        conn.use(cipher)
        for text in (WORD, "", None, "sealed:1:", "sealed:1:AAAA", "ü\0x"):
            (stored,) = conn.execute("SELECT sealed(?)", (text,)).fetchone()
            assert conn.execute("SELECT opened(?)", (stored,)).fetchone() == (text,)
            assert not text or text not in stored.removeprefix("sealed:1:")
            assert conn.execute("SELECT opened(?)", (text,)).fetchone() == (text,)
        conn.use(None)
        assert conn.execute("SELECT sealed('a'), opened('b')").fetchone() == ("a", "b")
        assert conn.execute("SELECT opened(?)", (cipher.seal(WORD),)).fetchone() == ("",)


async def test_conformance_with_a_key(tmp_path: Path) -> None:
    """LangGraph's suite passes for the encrypting saver too."""
    opened = iter(range(100))

    async def sealed() -> AsyncGenerator[Any, None]:
        async with open_memory(tmp_path / f"{next(opened)}.db", key=KEY) as memory:
            yield memory.saver

    report = await validate(checkpointer_test(name="sealed")(sealed))
    assert report.passed_all_base(), [dataclasses.asdict(r) for r in report.results.values()]


# -- the configuration ----------------------------------------------------------------------------


def config(tmp_path: Path, text: str) -> Flags:
    file = tmp_path / "agent.toml"
    file.write_text(text)
    return Flags(config=str(file))


def test_the_key_of_the_configuration(tmp_path: Path) -> None:
    """It comes from a variable, is shown nowhere, and is known to be a secret."""
    flags = config(tmp_path, '[memory]\nkey = "${AGENT_KEY}"\n')
    settings = load_settings(flags, {"AGENT_KEY": KEY}, tmp_path)
    assert settings.memory.key == KEY
    assert not settings.keeps_prompts
    assert KEY not in repr(settings)
    (row,) = [row for row in shown(settings) if row.key == "memory.key"]
    assert (row.value, row.origin) == ("***", str(tmp_path / "agent.toml"))
    assert secrets_of(settings) == (KEY,)
    assert "memory: encrypts with your AGENT_KEY" in settings.outline
    assert load_memory_key(flags, {"AGENT_KEY": KEY}, tmp_path) == KEY


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('key = "${AGENT_KEY}"', "memory.key in FILE: the variable AGENT_KEY is not set."),
        ('key = "short"', "memory.key in FILE has fewer than 8 characters."),
        ("key = 7", "memory.key in FILE must be a string"),
        ("kee = 'x'", 'Unknown key "kee" in [memory] of FILE. Did you mean "key"?'),
    ],
)
def test_a_key_that_cannot_be(tmp_path: Path, text: str, words: str) -> None:
    """One line; nothing is then kept in the clear instead."""
    flags = config(tmp_path, f"[memory]\n{text}\n")
    for load in (load_settings, load_memory_key):
        with pytest.raises(ConfigError) as caught:
            load(flags, {}, tmp_path)
        assert words in str(caught.value).replace(flags.config or "", "FILE")


def test_the_key_alone_needs_nothing_else(tmp_path: Path) -> None:
    """A look into the database does not fail for a variable that only the model needs."""
    text = '[model]\napi_key = "${GONE}"\n[memory]\nkey = "${AGENT_KEY:-a default key}"\n'
    flags = config(tmp_path, text)
    with pytest.raises(AgentError, match="GONE"):
        load_settings(flags, {}, tmp_path)
    assert load_memory_key(flags, {}, tmp_path) == "a default key"
    assert load_memory_key(config(tmp_path, "[memory]\nkey = ''\n"), {}, tmp_path) == ""


# -- the program ----------------------------------------------------------------------------------


@pytest.mark.process
def test_the_program_with_a_key(tmp_path: Path, scripted: Start) -> None:
    """It keeps nothing in the clear, not even what was typed; a wrong key is one line, exit 1."""

    def answer(body: dict[str, Any]) -> Reply:
        last = body["messages"][-1]
        return Say(f"got {WORD}") if last["role"] == "tool" else Call("echo", {"text": WORD})

    program = Program(
        tmp_path,
        scripted(answer).base_url,
        model='[memory]\nkey = "${AGENT_KEY}"',
        env={"AGENT_KEY": KEY},
    )
    done = program.run("-v", "-p", f"say {WORD}")
    assert (done.code, done.out) == (0, f"got {WORD}\n")
    hidden = [p for p in tmp_path.rglob("*") if p.is_file()]
    hidden += [p for p in Path(program.env["HOME"]).rglob("*") if p.is_file()]
    for path in hidden:
        content = path.read_bytes()
        assert WORD.encode() not in content, path
        assert KEY.encode() not in content, path
    wrong = {"AGENT_KEY": OTHER}
    runs = program.run_all(["-q", "-p", "x"], ["threads", "export", "default"], env=wrong)
    runs += program.run_all(["-q", "-p", "x"], ["threads", "list"], env={"AGENT_KEY": ""})
    for done in runs[:3]:
        assert (done.code, done.out, done.err.count("\n")) == (1, "", 1), done
        assert KEY not in done.err
    assert "is not the one that" in runs[0].err
    assert "is encrypted, and no key is set" in runs[2].err
    assert (runs[3].code, WORD in runs[3].out, "default" in runs[3].out) == (0, False, True)
    exported, listed, shown_ = program.run_all(
        ["threads", "export", "default"], ["threads", "list"], ["config", "show"]
    )
    assert (exported.code, WORD in exported.out) == (0, True)
    assert (listed.code, f"say {WORD}" in listed.out) == (0, True)
    assert (shown_.code, KEY in shown_.out, "memory.key" in shown_.out) == (0, False, True)
