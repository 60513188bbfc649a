"""What is a word, what a query asks for, and that the index finds what a look through finds."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from local_agent.memory.connection import open_plain, transact
from local_agent.memory.excerpt import excerpt
from local_agent.memory.index import Hit, find, look_through, sync
from local_agent.memory.texts import unpacked
from local_agent.memory.words import LONGEST, Phrase, indexed, parse, words_of


def forms(text: str) -> list[str]:
    return [word.form for word in words_of(text)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("git_commit('fix')", ["git", "commit", "fix"]),
        ("/usr/bin/python3.11", ["usr", "bin", "python3", "11"]),
        ("Äpfel NAÏVE Straße İ", ["apfel", "naive", "strasse", "i"]),
        ("e\u0301te\u0301 ﬁn", ["ete", "fin"]),  # as a file system writes an accent; a ligature
        ("北京大学in 2024年", ["北", "京", "大", "学", "in", "2024", "年"]),
        ("ラーメン食べた", list("ラーメン食べた")),
        ("서울에서", ["서", "울", "에", "서"]),
        ("ไทย", ["ไ", "ท", "ย"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("מָה العَرَبِيَّة", ["מה", "العربية"]),
        ("ok🙂", ["ok", "🙂"]),
        ("½ \ufdfa \ud800 \0", ["1⁄2", "صلىاللهعليهوسلم"]),
        ("--- ... !?", []),
        ("x" * 100, ["x" * LONGEST]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    """Letters and digits without case and accents; one character where a script has no spaces."""
    assert forms(text) == words
    assert indexed(text).split() == words


@pytest.mark.parametrize(
    ("query", "phrases"),
    [
        ("hotel adler", [Phrase(("hotel",)), Phrase(("adler",))]),
        ('"the Hotel" rooms', [Phrase(("the", "hotel")), Phrase(("rooms",))]),
        ("“the hotel” x", [Phrase(("the", "hotel")), Phrase(("x",))]),
        ('"not closed', [Phrase(("not", "closed"))]),
        ("hot*", [Phrase(("hot",), prefix=True)]),
        ('"the hot"*', [Phrase(("the", "hot"), prefix=True)]),
        ("git_commit", [Phrase(("git", "commit"))]),
        ("北京", [Phrase(("北", "京"))]),
        ("a a A", [Phrase(("a",))]),
        ("(NEAR OR -x) ^y AND: z'", [Phrase((w,)) for w in ("near", "or", "x", "y", "and", "z")]),
        ('* ** "" \'', []),
    ],
)
def test_queries(query: str, phrases: list[Phrase]) -> None:
    """Words, "phrases" and word*; no sign is an operator or an error."""
    assert list(parse(query)) == phrases


def test_an_excerpt_is_where_most_of_the_words_are() -> None:
    """The words are marked, white space is one space, and a cut says so."""
    text = "room " * 200 + "a fine\n\thotel with  a room and BREAKFAST " + "x " * 200
    parts = excerpt(text, parse("hotel breakfast"), width=60)
    shown = "".join(f"[{piece}]" if found else piece for piece, found in parts)
    assert "a fine [hotel] with a room and [BREAKFAST] x" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert len(shown) < 90


def test_an_excerpt_of_a_short_text_is_all_of_it() -> None:
    """Nothing is left out; words of a phrase are one mark."""
    assert excerpt("in 東京都 now", parse("東京")) == [
        ("in ", False),
        ("東京", True),
        ("都 now", False),
    ]
    assert excerpt("nothing of it", parse("else")) == [("nothing of it", False)]


TEXTS = st.lists(
    st.text(alphabet="abcé ab 北京_-\"'*\n", max_size=30) | st.text(max_size=30),
    min_size=1,
    max_size=8,
)
QUERIES = st.text(alphabet='abcé ab 北京_"*', max_size=12) | st.text(max_size=12)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("words") / "memory.db"


@settings(max_examples=150, deadline=None)
@given(texts=TEXTS, query=QUERIES)
def test_the_index_finds_what_a_look_finds(file: Path, texts: list[str], query: str) -> None:
    """For any texts and any query: the same texts, the best and then the newest first; no error."""
    phrases = parse(query)
    messages = [{"type": "human", "id": uuid4().hex, "content": t} for t in texts]
    with closing(open_plain(file, 15)) as conn:
        _tables(conn)
        transact(conn, lambda conn: sync(conn, "t", messages))
        if not phrases:
            return
        hits, total, used = find(conn, phrases, 100)
        stored = conn.execute("SELECT count(*) FROM agent_texts").fetchone()
        every = look_through(_all(conn), phrases)
    assert used
    assert stored == (len(texts),)
    assert total == len(hits)
    ranked = {h.turn: h.rank for h in hits}
    assert ranked == pytest.approx({h.turn: h.rank for h in every}, abs=0.11)  # they are rounded
    for some in (hits, every):
        assert [h.turn for h in some] == sorted(ranked, key=lambda t: (_rank(some, t), -t))
    found = {h.turn for h in hits}
    for turn, text in enumerate(texts, 1):
        assert (turn in found) == all(_has(text, phrase) for phrase in phrases)


def _rank(hits: list[Hit], turn: int) -> float:
    return next(h.rank for h in hits if h.turn == turn)


def _has(text: str, phrase: Phrase) -> bool:
    words, wanted = forms(text), list(phrase.words)
    size = len(wanted)
    for start in range(len(words) - size + 1):
        part = words[start : start + size]
        if part == wanted:
            return True
        if phrase.prefix and part[:-1] == wanted[:-1] and part[-1].startswith(wanted[-1]):
            return True
    return False


def _tables(conn: sqlite3.Connection) -> None:
    columns = "thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, parent_checkpoint_id TEXT"
    conn.execute(f"CREATE TABLE IF NOT EXISTS checkpoints ({columns}, metadata BLOB)")


def _all(conn: sqlite3.Connection) -> list[Hit]:
    rows = conn.execute("SELECT kind, handle, turn, said, text FROM agent_texts ORDER BY id")
    return [
        Hit("t", turn, kind, handle, datetime.fromtimestamp(said / 1000, UTC), unpacked(text))
        for kind, handle, turn, said, text in rows
    ]
