"""The index of words: kept at the current branch of each thread, and asked what a query finds.

The texts are kept packed beside it, so that an excerpt can be shown without loading a thread, and
a SQLite without FTS5 can still look through them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from local_agent.memory.chain import head_of, read_chain, time_of, turn_of, turns_of
from local_agent.memory.connection import has_fts5
from local_agent.memory.crypt import plain_of
from local_agent.memory.entries import tables_of
from local_agent.memory.tables import WORDS
from local_agent.memory.texts import Reader, Text, marks_of, plain, unpacked
from local_agent.memory.words import Phrase, expression, indexed, rank, spans, words_of

EQUAL = 1  # decimals of a rank that count: of texts that fit alike the newest comes first
_STATE = "SELECT id, messages, turns, calls, mark, head FROM agent_indexed WHERE thread = ?"
_KEEP = """
    INSERT INTO agent_indexed (thread, head, messages, turns, calls, mark)
    VALUES (:thread, :head, :messages, :turns, :calls, :mark)
    ON CONFLICT (thread) DO UPDATE SET head = :head, messages = :messages, turns = :turns,
        calls = :calls, mark = :mark
    RETURNING id
"""
_FIRST_AFTER = """
    SELECT min(checkpoint_id) FROM checkpoints
    WHERE thread_id = ? AND checkpoint_ns = '' AND checkpoint_id > ?
"""
_INSERT = """
    INSERT INTO agent_texts (owner, kind, handle, turn, said, digest, text, in_words)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_FIND = f"""
    SELECT t.id, round(bm25(agent_words), {EQUAL}) AS fit
    FROM agent_words JOIN agent_texts t ON t.id = agent_words.rowid
    JOIN agent_indexed i ON i.id = t.owner
    WHERE agent_words MATCH :words AND (:thread IS NULL OR i.thread = :thread)
        AND i.thread NOT IN (SELECT value FROM json_each(:without))
    ORDER BY fit, t.said DESC, t.id DESC
"""
_TEXTS = """
    SELECT i.thread, t.turn, t.kind, t.handle, t.said, t.text
    FROM agent_texts t JOIN agent_indexed i ON i.id = t.owner
"""
_STORED = f"""{_TEXTS}
    WHERE (:thread IS NULL OR i.thread = :thread)
        AND i.thread NOT IN (SELECT value FROM json_each(:without))
    ORDER BY t.id
"""
Messages = Sequence[Any]  # of LangChain, or their fields as a mapping


@dataclass(frozen=True, slots=True)
class Hit:
    """A text that was found. `said` is an instant in UTC; the lower `rank`, the better it fits."""

    thread: str
    turn: int
    kind: str
    handle: str
    said: datetime
    text: str
    rank: float = 0.0


# -- keeping it -----------------------------------------------------------------------------------


def sync(conn: sqlite3.Connection, thread: str, messages: Messages) -> None:
    """Bring the index to just these messages of the thread, inside the caller's transaction.

    Cheap where messages were only added since the last time; else the texts that are as they were
    up to the first that differs stay, and those behind it go.
    """
    row = conn.execute(_STATE, (thread,)).fetchone()
    owner, count, turns, calls, mark, head = row or (None, 0, 0, 0, "", "")
    known, whole = marks_of(messages, count, len(messages))
    if owner is not None and count <= len(messages) and known == mark:
        reader = Reader(turns, calls)
        new = reader.read(messages[count:])
    else:
        reader = _reader_of(conn, thread, messages)
        new = reader.read(messages)
        new = new[_cut(conn, owner, new) :]
    values = {
        "thread": thread,
        "head": head_of(conn, thread) or "",
        "messages": len(messages),
        "turns": reader.turns,
        "calls": reader.calls,
        "mark": whole,
    }
    (owner,) = conn.execute(_KEEP, values).fetchone()
    _add(conn, owner, new, _times(conn, thread, head, new))


def _reader_of(conn: sqlite3.Connection, thread: str, messages: Messages) -> Reader:
    """What reads all messages of a thread, with the numbers that its turns have."""
    fields = (plain(message) for message in messages)
    first = next((one.get("id") for one in fields if one["type"] == "human"), None)
    return Reader(turn_of(conn, thread, first, plain_of(conn)) - 1)


def _cut(conn: sqlite3.Connection, owner: int | None, texts: Sequence[Text]) -> int:
    """Remove the texts of a thread from the first on that is not as in `texts`; how many stay."""
    stored = "SELECT id, digest FROM agent_texts WHERE owner = ? ORDER BY id"
    rows = conn.execute(stored, (owner,)).fetchall()
    same = 0
    for (_, digest), text in zip(rows, texts, strict=False):
        if digest != text.digest:
            break
        same += 1
    _remove(conn, [row[0] for row in rows[same:]])
    return same


def forget(conn: sqlite3.Connection, thread: str) -> None:
    """Remove a thread from the index, inside the caller's transaction."""
    row = conn.execute(_STATE, (thread,)).fetchone()
    if row is None:
        return
    texts = conn.execute("SELECT id FROM agent_texts WHERE owner = ?", (row[0],)).fetchall()
    _remove(conn, [text_id for (text_id,) in texts])
    conn.execute("DELETE FROM agent_indexed WHERE id = ?", (row[0],))


def empty(conn: sqlite3.Connection) -> None:
    """Remove all texts and words, without a trace, inside the caller's transaction."""
    if conn.execute("SELECT 1 FROM agent_texts LIMIT 1").fetchone() is None:
        return
    conn.execute("PRAGMA secure_delete=ON")
    if has_fts5(conn):
        conn.execute("DROP TABLE IF EXISTS agent_words")
    elif "agent_words_data" in tables_of(conn):  # where FTS5 keeps the words; made anew with it
        conn.execute("DELETE FROM agent_words_data")
    conn.execute("DELETE FROM agent_texts")
    conn.execute("DELETE FROM agent_indexed")


def rebuild(conn: sqlite3.Connection) -> None:
    """Make the index of words anew from the texts, inside the caller's transaction."""
    try:
        conn.execute("DROP TABLE IF EXISTS agent_words")
    except sqlite3.DatabaseError:  # too damaged to be opened, and so to be dropped
        _overwrite_words(conn)
    conn.execute("UPDATE agent_texts SET in_words = 0")
    _has_words(conn)


def _overwrite_words(conn: sqlite3.Connection) -> None:
    """Put an empty index in the place of a damaged one: what FTS5 keeps in tables of its own."""
    conn.execute(WORDS.replace("agent_words", "temp.new_words"))
    for part in ("data", "idx", "docsize", "config"):
        conn.execute(f"DELETE FROM agent_words_{part}")
        conn.execute(f"INSERT INTO agent_words_{part} SELECT * FROM temp.new_words_{part}")
    conn.execute("DROP TABLE temp.new_words")


def merge(conn: sqlite3.Connection) -> None:
    """Merge the index into one piece: until then, words that were removed are still in it."""
    if _has_words(conn):
        conn.execute("INSERT INTO agent_words (agent_words) VALUES ('optimize')")


def _remove(conn: sqlite3.Connection, ids: Iterable[int]) -> None:
    words = _has_words(conn)
    for text_id in ids:
        find = "SELECT text, in_words FROM agent_texts WHERE id = ?"
        packed, in_words = conn.execute(find, (text_id,)).fetchone()
        if words and in_words:  # the index has no text of its own to know what it holds
            conn.execute(
                "INSERT INTO agent_words (agent_words, rowid, words) VALUES ('delete', ?, ?)",
                (text_id, indexed(unpacked(packed))),
            )
        conn.execute("DELETE FROM agent_texts WHERE id = ?", (text_id,))


def _add(
    conn: sqlite3.Connection, owner: int | None, texts: Iterable[Text], times: Mapping[int, int]
) -> None:
    words = _has_words(conn)
    for text in texts:
        said = times[text.turn]
        row = (owner, text.kind, text.handle, text.turn, said, text.digest, text.packed(), words)
        text_id = conn.execute(_INSERT, row).lastrowid
        if words:
            _add_words(conn, text_id, text.text)


def _add_words(conn: sqlite3.Connection, text_id: int | None, text: str) -> None:
    conn.execute("INSERT INTO agent_words (rowid, words) VALUES (?, ?)", (text_id, indexed(text)))


def _has_words(conn: sqlite3.Connection) -> bool:
    """Whether there is an index of words; made, and filled, where a SQLite without FTS5 was."""
    if not has_fts5(conn):
        return False
    if "agent_words" not in tables_of(conn):
        conn.execute(WORDS)
        conn.execute("UPDATE agent_texts SET in_words = 0")
    left = conn.execute("SELECT id, text FROM agent_texts WHERE NOT in_words").fetchall()
    for text_id, packed in left:
        _add_words(conn, text_id, unpacked(packed))
        conn.execute("UPDATE agent_texts SET in_words = 1 WHERE id = ?", (text_id,))
    return True


def _times(
    conn: sqlite3.Connection, thread: str, head: str, texts: Sequence[Text]
) -> dict[int, int]:
    """When the turns of `texts` began, in milliseconds since 1970.

    `head` is the checkpoint up to which the thread was known; what one turn added after it was
    said after the next one. Else the chain of checkpoints is asked.
    """
    turns = sorted({text.turn for text in texts})
    (first,) = conn.execute(_FIRST_AFTER, (thread, head)).fetchone()
    if len(turns) <= 1 and head and first:
        return dict.fromkeys(turns, _milliseconds(time_of(first)))
    chain = read_chain(conn, thread)
    root = _milliseconds(chain[0].time if chain else datetime.now(UTC))
    known = turns_of(chain)
    # Counted from the end: a chain that was cut short lacks its first turns.
    last = turns[-1] if turns else 0
    at = {last - len(known) + t.number: _milliseconds(t.time) for t in known if t.time}
    return {turn: at.get(turn, root) for turn in turns}


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


# -- asking it ------------------------------------------------------------------------------------


def find(
    conn: sqlite3.Connection,
    phrases: Sequence[Phrase],
    limit: int,
    thread: str | None = None,
    without: Sequence[str] = (),
) -> tuple[list[Hit], int, bool]:
    """The texts that have all `phrases`, the best first, and of equal ones the newest.

    Of `thread` alone, if it is given, and of no thread in `without`. Gives the first `limit`, how
    many there are in all, and whether the index was of use: without one (no FTS5, or it is damaged)
    the texts are looked through one by one.
    """
    where = {"thread": thread, "without": json.dumps(list(without))}
    try:
        rows = conn.execute(_FIND, {"words": expression(phrases), **where}).fetchall()
        left = conn.execute("SELECT 1 FROM agent_texts WHERE NOT in_words LIMIT 1").fetchone()
    except sqlite3.DatabaseError as exc:
        if not is_unusable(exc):
            raise
        left = (1,)
    if left:
        texts = (_hit_of(row) for row in conn.execute(_STORED, where))
        hits = look_through(texts, phrases)
        return hits[:limit], len(hits), False
    return [_hit(conn, *row) for row in rows[:limit]], len(rows), True


def is_unusable(exc: BaseException) -> bool:
    """Whether `exc` says that the index of words is damaged, or that there can be none."""
    code = getattr(exc, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT)


def _hit(conn: sqlite3.Connection, text_id: int, rank: float) -> Hit:
    row = conn.execute(f"{_TEXTS} WHERE t.id = ?", (text_id,)).fetchone()
    return _hit_of(row, rank)


def _hit_of(row: tuple[str, int, str, str, int, bytes], rank: float = 0.0) -> Hit:
    thread, turn, kind, handle, said, packed = row
    moment = datetime.fromtimestamp(said / 1000, UTC)
    return Hit(thread, turn, kind, handle, moment, unpacked(packed), rank)


def look_through(texts: Iterable[Hit], phrases: Sequence[Phrase]) -> list[Hit]:
    """The same without an index: those of `texts` that have all phrases, in the same order."""
    found: list[tuple[Hit, int, list[int]]] = []
    having = [0] * len(phrases)
    count = total = 0
    for hit in texts:
        words = list(words_of(hit.text))
        count, total = count + 1, total + len(words)
        times = [0] * len(phrases)
        for _, _, phrase in spans(words, phrases):
            times[phrase] += 1
        having = [n + (t > 0) for n, t in zip(having, times, strict=True)]
        if all(times):
            found.append((hit, len(words), times))
    ranked = [
        replace(hit, rank=round(rank(length, times, having, count, total), EQUAL))
        for hit, length, times in reversed(found)  # later ones stay before equal ones
    ]
    return sorted(ranked, key=lambda hit: (hit.rank, -hit.said.timestamp()))


def as_hits(conn: sqlite3.Connection, thread: str, messages: Messages) -> Iterator[Hit]:
    """The texts of a thread that is not in the index, to be looked through."""
    texts = _reader_of(conn, thread, messages).read(messages)
    times = _times(conn, thread, "", texts)
    for text in texts:
        moment = datetime.fromtimestamp(times[text.turn] / 1000, UTC)
        yield Hit(thread, text.turn, text.kind, text.handle, moment, text.text)


def behind(conn: sqlite3.Connection, threads: Iterable[str]) -> list[str]:
    """Those of `threads` whose newest checkpoint the index does not know."""
    known: dict[str, str] = {}
    if "agent_indexed" in tables_of(conn):
        known = dict(conn.execute("SELECT thread, head FROM agent_indexed"))
    return [thread for thread in threads if head_of(conn, thread) != known.get(thread)]
