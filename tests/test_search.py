"""The search over threads: what it finds, that it is the thread as it stands, and never in the way.

The threads are made by the real graph on real files; `agent threads search` runs as a process.
"""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, RemoveMessage, ToolMessage

from agent_core import compaction
from local_agent.cli import run
from local_agent.errors import ThreadError
from local_agent.lock import thread_lock
from local_agent.memory import open_memory
from local_agent.memory.heads import config_of
from local_agent.memory.index import Hit
from local_agent.memory.tables import MIGRATIONS
from local_agent.memory.words import parse
from local_agent.threads.prune import prune_open
from local_agent.threads.search import search_threads
from local_agent.timeline.edits import edit_result
from tests.graph_kit import ScriptedModel, ScriptedTool, call, collect, open_session, say
from tests.timeline_kit import answer, open_line

TOOLS = [ScriptedTool("look"), ScriptedTool("book_room", read_only=False)]


KEY = "a key of the user"


def found(path: Path, query: str, **options: Any) -> list[tuple[str, int, str, str]]:
    """(thread, turn, kind, handle) of the hits, sorted; the search must have had its index."""
    result = search_threads(path, parse(query), **options)
    assert result.notes == ()
    assert result.total == len(result.hits)
    return sorted(map(place, result.hits))


def place(hit: Hit) -> tuple[str, int, str, str]:
    return hit.thread, hit.turn, hit.kind, hit.handle


def head(path: Path) -> str:
    """What the index holds as the newest checkpoint of the only thread."""
    with closing(sqlite3.connect(path)) as conn:
        return str(conn.execute("SELECT head FROM agent_indexed").fetchone()[0])


async def talk(path: Path, *replies: Any, prompts: list[str], **options: Any) -> None:
    async with open_session(path, ScriptedModel(list(replies)), TOOLS, **options) as session:
        for prompt in prompts:
            await collect(session.send(prompt))


async def test_prompts_answers_calls_and_results_are_found(tmp_path: Path) -> None:
    """Each is a text of its own, with its turn, its handle and when it was said."""
    path, start = tmp_path / "m.db", datetime.now(UTC)
    await talk(
        path,
        call(("look", {"where": "the hotel\nAdler", "deep": [{"x": "needle"}]})),
        say("Nothing."),
        say("The Adler has rooms."),
        prompts=["Where can I sleep?", "Which rooms?"],
        thread="trip",
    )
    assert found(path, "sleep") == [("trip", 1, "prompt", "")]
    assert found(path, "adler") == [("trip", 1, "call", "r1"), ("trip", 2, "answer", "")]
    assert found(path, "needle look") == [("trip", 1, "call", "r1")]
    assert found(path, '"look done"') == [("trip", 1, "result", "r1")]
    assert found(path, "room*") == [("trip", 2, "answer", ""), ("trip", 2, "prompt", "")]
    assert found(path, "room") == []
    (first,) = search_threads(path, parse("sleep")).hits
    (second,) = search_threads(path, parse("Which")).hits
    assert start - timedelta(seconds=1) < first.said < second.said < datetime.now(UTC)


async def test_texts_of_scripts_without_spaces_are_found(tmp_path: Path) -> None:
    """One Chinese character is enough, and a word of several is found within a sentence."""
    path = tmp_path / "m.db"
    await talk(path, say("北京大学在海淀区。"), prompts=["서울에서 ラーメン"])
    assert found(path, "海") == found(path, "大学") == [("t", 1, "answer", "")]
    assert found(path, "学大") == []
    assert found(path, "서울") == found(path, "ラーメン") == [("t", 1, "prompt", "")]


async def test_the_best_come_first_and_of_equal_ones_the_newest(tmp_path: Path) -> None:
    """Rare words in short texts count more; the limit cuts, and the total is said."""
    path = tmp_path / "m.db"
    for thread in ("a", "b", "c"):
        await talk(path, say("filler " * 40 + "adler"), prompts=["the adler"], thread=thread)
    others = [say(f"other {i}") for i in range(5)]
    await talk(path, *others, prompts=["of no interest"] * 5, thread="d")
    result = search_threads(path, parse("adler"), limit=4)
    assert result.total == 6
    assert [(h.thread, h.kind) for h in result.hits] == [
        ("c", "prompt"),
        ("b", "prompt"),
        ("a", "prompt"),
        ("c", "answer"),
    ]
    assert found(path, "adler", thread="b") == [("b", 1, "answer", ""), ("b", 1, "prompt", "")]
    with pytest.raises(ThreadError, match="no thread 'bb'"):
        search_threads(path, parse("adler"), thread="bb")


async def test_only_the_thread_as_it_stands_is_found(tmp_path: Path) -> None:
    """What was cut, removed or replaced is gone from the index; what stays is not written anew."""
    path = tmp_path / "m.db"
    model = ScriptedModel(
        [call(("look", {})), say("answer one"), say("answer two"), say("answer three")]
    )
    async with open_session(path, model, TOOLS) as session:
        await collect(session.send("alpha"))
        graph, config = session._graph, session._config
        end = (await graph.aget_state(config)).config
        first = [m.id for m in await session.messages()]
        await collect(session.send("beta"))
        ids = _ids(path)
        await graph.aupdate_state(end, {"route": "all"}, as_node="agent")
        await collect(session.send("gamma"))
    assert found(path, "beta") == found(path, "two") == []
    assert found(path, "gamma") == [("t", 2, "prompt", "")]
    assert found(path, "alpha") == [("t", 1, "prompt", "")]
    assert _ids(path)[: len(first)] == ids[: len(first)]

    async with open_session(path, ScriptedModel([say("answer four")]), TOOLS) as session:
        messages = await session.messages()
        result = next(m for m in messages if isinstance(m, ToolMessage))
        changed = result.model_copy(update={"content": "look down"})
        update = [RemoveMessage(id=messages[0].id or ""), changed]
        await session._graph.aupdate_state(config, {"messages": update}, as_node="agent")
        await collect(session.send("delta"))
    assert found(path, "alpha") == found(path, "done") == []
    assert found(path, "down") == [("t", 1, "result", "r1")]
    assert found(path, "gamma") == [("t", 2, "prompt", "")]  # as /rewind has it
    assert _words_match_texts(path)


def _ids(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as conn:
        return [i for (i,) in conn.execute("SELECT id FROM agent_texts ORDER BY id")]


def _words_match_texts(path: Path) -> bool:
    """Whether the index of words is sound and has just the texts that are there."""
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("INSERT INTO agent_words (agent_words) VALUES ('integrity-check')")
        words = {i for (i,) in conn.execute("SELECT id FROM agent_words_docsize")}
        return words == {i for (i,) in conn.execute("SELECT id FROM agent_texts")}


async def test_a_turn_that_only_adds_reads_nothing_again(tmp_path: Path) -> None:
    """The end of a turn writes its own texts and no others."""
    path = tmp_path / "m.db"
    async with open_session(path, ScriptedModel([say(f"a{i}") for i in range(5)]), []) as session:
        for i in range(5):
            await collect(session.send(f"p{i}"))
            assert len(_ids(path)) == 2 * (i + 1)
    assert _ids(path) == list(range(1, 11))


async def test_a_killed_or_parked_turn_is_found(tmp_path: Path) -> None:
    """What the end of a turn did not take in, the search does."""
    path = tmp_path / "m.db"
    model = ScriptedModel([call(("book_room", {"name": "Adler"})), say("Booked.")])
    async with open_session(path, model, TOOLS) as session:
        asked = (await collect(session.send("book it")))[-1]
        assert type(asked).__name__ == "ApprovalRequested"
        assert found(path, "adler") == [("t", 1, "call", "r1")]
    assert found(path, "book") == [("t", 1, "call", "r1"), ("t", 1, "prompt", "")]


async def test_a_corrected_result_is_found_as_it_is_now(tmp_path: Path) -> None:
    """Also one of the same length, in a turn that was not over and is in the index already."""
    path = tmp_path / "m.db"
    async with open_line(path, [call(("look", {}), ("book_room", {}))], TOOLS) as (session, _, _):
        await collect(session.send("go"))
    assert found(path, '"look done"') == [("t", 1, "result", "r1")]
    async with open_line(path, [say("answer")], TOOLS) as (session, timeline, _):
        await edit_result(timeline, "r1", "wise text")
        assert found(path, '"wise text"') == [("t", 1, "result", "r1")]
        await answer(session, (await collect(session.proceed()))[-1], yes=False)
    assert found(path, '"wise text"') == [("t", 1, "result", "r1")]
    assert found(path, '"look done"') == []


async def test_what_was_purged_is_not_found_and_the_rest_keeps_its_turns(tmp_path: Path) -> None:
    """A turn has the number that /rewind shows, also when older ones were removed for good."""
    path = tmp_path / "m.db"
    words = ["alpha", "beta", "gamma", "delta"]
    replies = [call(("look", {"n": 1})), *(say(f"about {word}") for word in words)]
    async with open_line(path, replies, TOOLS) as (session, timeline, _):
        for word in words:
            await collect(session.send(word))
        messages = await session.messages()
        folded = {"summary": "of old", "summary_upto": messages[5].id}
        await session.update(folded)
        gone = compaction.purge(await session.values())
        assert gone is not None
        assert gone.turns == 2
        await session.update(gone.update)
        numbers = {turn.prompt: turn.number for turn in await timeline.turns()}
    for _ in range(2):  # as the end of a turn left it, and made anew
        assert found(path, "alpha") == found(path, "beta") == found(path, '"look done"') == []
        for word in ("gamma", "delta"):
            assert found(path, word) == [
                ("t", numbers[word], "answer", ""),
                ("t", numbers[word], "prompt", ""),
            ]
        assert numbers["delta"] == 4
        with closing(sqlite3.connect(path)) as conn, conn:
            conn.execute("UPDATE agent_indexed SET head = '', mark = ''")
    async with open_line(path, [say("on")], TOOLS) as (session, timeline, _):
        await collect(session.send("epsilon"))
        assert found(path, "epsilon") == [("t", len(await timeline.turns()), "prompt", "")]
        async with open_memory(path) as memory:
            await prune_open(memory, "t", 2)
        assert found(path, "delta")[0][1] == 4 - 5 + len(await timeline.turns())


@pytest.mark.parametrize("change", ["replaced", "removed"])
async def test_what_was_changed_in_place_is_found_as_it_is_now(tmp_path: Path, change: str) -> None:
    """By another program, say: the old text is found no more, whatever its length."""
    path = tmp_path / "m.db"
    async with open_line(path, [say("one"), say("two"), say("three")]) as (session, timeline, _):
        for word in ("alpha", "beta"):
            await collect(session.send(word))
        assert found(path, "alpha") == [("t", 1, "prompt", "")]
        first = (await session.messages())[0]
        new = HumanMessage("omega", id=first.id)
        update = [new if change == "replaced" else RemoveMessage(id=first.id or "")]
        where = config_of("t")
        await timeline.graph.aupdate_state(where, {"messages": update}, as_node="agent")
        assert found(path, "alpha") == []
        await collect(session.send("gamma"))
    assert found(path, "alpha") == []
    assert found(path, "omega") == ([("t", 1, "prompt", "")] if change == "replaced" else [])


async def test_a_thread_that_was_turned_back_is_found_as_it_stands(tmp_path: Path) -> None:
    """Undone turns are not found, what was brought back is; a copy is a thread of its own."""
    path = tmp_path / "m.db"
    async with open_line(path, [say("one"), say("two")]) as (session, timeline, _):
        await collect(session.send("alpha"))
        await collect(session.send("beta"))
        await timeline.undo()
        assert found(path, "beta") == []
        assert found(path, "alpha") == [("t", 1, "prompt", "")]
        await timeline.redo()
        assert found(path, "beta") == [("t", 2, "prompt", "")]
        await timeline.undo()
    assert found(path, "beta") == found(path, "two") == []
    async with open_line(path) as (_, timeline, _):
        await timeline.redo()
        await timeline.fork("copy")
    assert found(path, "beta") == [("copy", 2, "prompt", ""), ("t", 2, "prompt", "")]


async def test_a_thread_that_is_open_elsewhere_is_looked_through(tmp_path: Path) -> None:
    """What another agent has not taken in yet is found, and left to it."""
    path = tmp_path / "m.db"
    model = ScriptedModel([say("one"), call(("book_room", {"name": "Adler"}))])
    async with open_session(path, model, TOOLS) as session:
        await collect(session.send("alpha"))
        await collect(session.send("beta"))
    before = head(path)
    with thread_lock(path, "t"):
        assert found(path, "beta") == [("t", 2, "prompt", "")]
        assert found(path, "alpha") == [("t", 1, "prompt", "")]
        assert head(path) == before
    assert found(path, "beta") == [("t", 2, "prompt", "")]
    assert head(path) > before


async def test_a_file_of_the_first_version_is_taken_in(tmp_path: Path) -> None:
    """D06: threads that were written before there was an index are found, with their times."""
    path = tmp_path / "m.db"
    await talk(path, say("one"), say("two"), prompts=["alpha", "beta"])
    times = {h.turn: h.said for h in search_threads(path, parse("alpha")).hits}
    times |= {h.turn: h.said for h in search_threads(path, parse("beta")).hits}
    _make_first_version(path)
    (first,) = search_threads(path, parse("alpha")).hits
    (second,) = search_threads(path, parse("beta")).hits
    assert {1: first.said, 2: second.said} == times
    assert len(_ids(path)) == 4


def _make_first_version(path: Path) -> None:
    """Take away what came after the first version of our tables."""
    with closing(sqlite3.connect(path)) as conn:
        kept = "'checkpoints', 'writes', 'tool_runs', 'agent_threads', 'sqlite_sequence'"
        conn.execute("DROP TABLE agent_words")
        rows = conn.execute(
            f"SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT IN ({kept})"
        )
        for (name,) in rows.fetchall():
            conn.execute(f"DROP TABLE {name}")
        conn.execute("PRAGMA user_version=1")
        assert len(MIGRATIONS) > 1


async def test_a_file_that_cannot_be_written_is_looked_through(tmp_path: Path) -> None:
    """A locked file is searched all the same, without an index."""
    path = tmp_path / "m.db"
    await talk(path, say("one"), prompts=["alpha"])
    _make_first_version(path)
    path.chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        if _can_write(tmp_path):
            pytest.skip("root may write everywhere")
        assert found(path, "alpha") == [("t", 1, "prompt", "")]
    finally:
        tmp_path.chmod(0o700)


def _can_write(folder: Path) -> bool:
    try:
        (folder / "probe").touch()
    except OSError:
        return False
    (folder / "probe").unlink()
    return True


async def test_d03_damage_in_one_thread_hides_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """D03: a thread that cannot be read is said and left out, by the search and the pruning."""
    path = tmp_path / "m.db"
    for thread in ("bad", "good"):
        await talk(path, say("one"), say("two"), prompts=["alpha", "beta"], thread=thread)
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("UPDATE checkpoints SET metadata = x'00ff' WHERE thread_id = 'bad'")
        conn.execute("DELETE FROM agent_indexed")
        conn.execute("DELETE FROM agent_texts")
        conn.commit()
    result = search_threads(path, parse("beta"))
    assert list(map(place, result.hits)) == [("good", 2, "prompt", "")]
    assert result.notes == ("Thread 'bad' cannot be read; it was left out.",)
    argv = ["threads", "prune", "--keep", "1", "--db", str(path)]
    assert await asyncio.to_thread(run, argv) == 0
    captured = capsys.readouterr()
    assert "1 thread pruned" in captured.out
    assert captured.err == "Thread 'bad' cannot be read; it stays as it is.\n"


# -- without an index -----------------------------------------------------------------------------


async def test_without_an_index_nothing_is_kept_in_the_clear(tmp_path: Path) -> None:
    """With a key none is written, one that is there is emptied, the threads are gone through."""
    path = tmp_path / "m.db"
    await talk(path, say("one"), prompts=["alpha"])
    await talk(path, say("two"), prompts=["beta"], memory_key=KEY)
    assert _ids(path) == []
    for table in ("agent_indexed", "agent_words_docsize"):
        with closing(sqlite3.connect(path)) as conn:
            names = {n for (n,) in conn.execute("SELECT name FROM sqlite_master")}
            assert table not in names or not conn.execute(f"SELECT * FROM {table}").fetchall()
    assert found(path, "alpha", key=KEY) == [("t", 1, "prompt", "")]
    assert found(path, "beta", key=KEY) == [("t", 2, "prompt", "")]
    assert _ids(path) == []


async def test_an_ephemeral_conversation_is_searched_in_memory(tmp_path: Path) -> None:
    """Nothing is on disk, and what was said is found."""
    async with open_memory(tmp_path / "m.db", ephemeral=True) as memory:
        assert memory.index is not None
        await memory.index.sync("t", [HumanMessage("alpha beta", id="1")])
        hits, total = await memory.index.find(parse("beta"), 5)
        assert ([hit.text for hit in hits], total) == (["alpha beta"], 1)
    assert list(tmp_path.iterdir()) == []


async def test_a_sqlite_without_fts5_leaves_texts_that_are_taken_in_later(tmp_path: Path) -> None:
    """A file without the index of words, as such a SQLite leaves it, is looked through and mended.

    The texts are there, none is in the index, and the table of the words is not.
    """
    path = tmp_path / "m.db"
    await talk(path, say("one"), say("two"), prompts=["alpha", "beta"])
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("DROP TABLE agent_words")
        conn.execute("UPDATE agent_texts SET in_words = 0")
        conn.commit()
    result = search_threads(path, parse("beta"))
    assert list(map(place, result.hits)) == [("t", 2, "prompt", "")]
    assert "no index of words" in result.notes[0]
    await talk(path, say("three"), prompts=["gamma"])
    assert found(path, "alpha") == [("t", 1, "prompt", "")]
    assert _words_match_texts(path)


async def test_a_damaged_index_harms_no_turn_and_is_made_anew(tmp_path: Path) -> None:
    """The turn is saved, the texts are looked through, and the next turn makes a sound index."""
    path = tmp_path / "m.db"
    await talk(path, say("one"), prompts=["alpha"])
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("UPDATE agent_words_data SET block = x'fffffffffffffffffffffffffffffff1'")
        conn.commit()
    result = search_threads(path, parse("alpha"))
    assert list(map(place, result.hits)) == [("t", 1, "prompt", "")]
    assert result.notes
    async with open_session(path, ScriptedModel([say("two"), say("three")]), []) as session:
        assert (await collect(session.send("beta")))[-1].status == "ok"
        assert (await collect(session.send("gamma")))[-1].status == "ok"
    assert found(path, "alpha") == [("t", 1, "prompt", "")]
    assert found(path, "gamma") == [("t", 3, "prompt", "")]
    assert _words_match_texts(path)


async def test_an_index_that_cannot_be_written_fails_no_turn(tmp_path: Path) -> None:
    """A table that is missing costs the search, not the turn."""
    path = tmp_path / "m.db"
    await talk(path, say("one"), prompts=["alpha"])
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("DROP TABLE agent_texts")
    async with open_session(path, ScriptedModel([say("two")]), []) as session:
        assert (await collect(session.send("beta")))[-1].status == "ok"
        assert len(await session.messages()) == 4


# -- the command ----------------------------------------------------------------------------------


@pytest.mark.process
async def test_the_search_needs_no_langchain(tmp_path: Path) -> None:
    """`threads search` is quick: it loads none of the model's libraries, to take in either."""
    path = tmp_path / "m.db"
    await talk(path, say("one"), prompts=["alpha"])
    _make_first_version(path)
    code = """
import sys
from local_agent.cli import run
code = run(["threads", "search", "alpha", "--db", sys.argv[1]])
heavy = {"langchain_core", "langgraph", "openai", "mcp"} & {m.split(".")[0] for m in sys.modules}
assert not heavy, heavy
sys.exit(code)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    place, text = done.stdout.splitlines()
    assert place.startswith("t  turn 1  20")
    assert place.endswith("  prompt")
    assert text == "    [alpha]"
