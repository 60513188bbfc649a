"""Our own tables beside the checkpoints: their shape, their versions, and what a row is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

# The index of words. It keeps no text of its own, and leaves the splitting of words to `words.py`.
# A SQLite may lack FTS5: then it is made later, and the texts are looked through meanwhile.
WORDS = "CREATE VIRTUAL TABLE agent_words USING fts5(words, content='', tokenize='ascii')"

# Each entry brings the file from the version of its index to the next one. An entry that has been
# released is never changed; a change of the tables is a new entry.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE IF NOT EXISTS tool_runs (
            thread TEXT NOT NULL,
            message_id TEXT NOT NULL,
            call_id TEXT NOT NULL,
            tool TEXT NOT NULL,
            is_write INTEGER NOT NULL,
            starts INTEGER NOT NULL,
            started TEXT NOT NULL,
            finished TEXT,
            outcome TEXT,
            result TEXT,
            PRIMARY KEY (thread, message_id, call_id)
        )
        """,
        """
        CREATE INDEX IF NOT EXISTS tool_runs_kept ON tool_runs (thread) WHERE result IS NOT NULL
        """,
        """
        CREATE TABLE IF NOT EXISTS agent_threads (
            thread TEXT PRIMARY KEY,
            title TEXT NOT NULL DEFAULT '',
            created TEXT NOT NULL,
            updated TEXT NOT NULL,
            messages INTEGER,
            turns INTEGER,
            model TEXT NOT NULL DEFAULT '',
            parent TEXT
        ) WITHOUT ROWID
        """,
        "CREATE INDEX IF NOT EXISTS agent_threads_updated ON agent_threads (updated)",
    ),
    (
        # What was cut from a thread, by the checkpoint that was its end.
        """
        CREATE TABLE IF NOT EXISTS agent_branches (
            thread TEXT NOT NULL,
            checkpoint_id TEXT NOT NULL,
            created TEXT NOT NULL,
            first_turn INTEGER NOT NULL,
            turns INTEGER NOT NULL,
            prompt TEXT NOT NULL,
            why TEXT NOT NULL,
            left_for TEXT,
            stops TEXT NOT NULL DEFAULT '[]',
            PRIMARY KEY (thread, checkpoint_id)
        ) WITHOUT ROWID
        """,
        # What requests were made of beside the messages, once each; replies have the key.
        "CREATE TABLE IF NOT EXISTS agent_bases (key TEXT PRIMARY KEY, text TEXT NOT NULL)",
        # Which threads the index of words holds, and up to where: `head` is the checkpoint that
        # was the newest then; there were so many messages, turns and calls; `mark` tells them.
        """
        CREATE TABLE agent_indexed (
            id INTEGER PRIMARY KEY,
            thread TEXT NOT NULL UNIQUE,
            head TEXT NOT NULL,
            messages INTEGER NOT NULL,
            turns INTEGER NOT NULL,
            calls INTEGER NOT NULL,
            mark TEXT NOT NULL
        )
        """,
        # The texts themselves, packed, in the order of the thread; `said` is in milliseconds since
        # 1970. No id is ever given twice, so that a word can never lead to another text.
        """
        CREATE TABLE agent_texts (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            owner INTEGER NOT NULL,
            kind TEXT NOT NULL,
            handle TEXT NOT NULL,
            turn INTEGER NOT NULL,
            said INTEGER NOT NULL,
            digest BLOB NOT NULL,
            text BLOB NOT NULL,
            in_words INTEGER NOT NULL
        )
        """,
        "CREATE INDEX agent_texts_owner ON agent_texts (owner)",
        "CREATE INDEX agent_texts_left ON agent_texts (id) WHERE NOT in_words",
        WORDS,
        # Threads without an entry in `agent_threads`, and up to which row of the checkpoints each
        # thread is here or there.
        "CREATE TABLE agent_others (thread TEXT PRIMARY KEY) WITHOUT ROWID",
        "CREATE TABLE agent_meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID",
    ),
    (
        # What led to the checkpoint on which a thread stood when it was last saved; see `sums.py`.
        """
        CREATE TABLE agent_sums (
            thread TEXT PRIMARY KEY,
            head TEXT NOT NULL,
            steps INTEGER NOT NULL,
            messages INTEGER NOT NULL,
            digest INTEGER NOT NULL
        ) WITHOUT ROWID
        """,
    ),
)
VERSION = len(MIGRATIONS)
# Every column that holds the name of a thread.
NAMED_BY_THREAD = (
    ("checkpoints", "thread_id"),
    ("writes", "thread_id"),
    ("tool_runs", "thread"),
    ("agent_threads", "thread"),
    ("agent_branches", "thread"),
    ("agent_indexed", "thread"),
    ("agent_others", "thread"),
    ("agent_sums", "thread"),
)


class ThreadInfo(NamedTuple):  # made in a third of the time of a dataclass: lists are long
    """A thread as a list shows it. Times are instants in UTC; counts are None where not known."""

    thread: str
    created: datetime
    updated: datetime
    title: str = ""
    messages: int | None = None
    turns: int | None = None
    model: str = ""
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """What is known of a tool call that was started. No `outcome`: it was started and not ended.

    `starts` counts how often it was begun; `result` is its text, kept until the turn is settled.
    """

    outcome: str | None
    result: str | None
    is_write: bool
    starts: int


THREAD_COLUMNS = "thread, title, created, updated, messages, turns, model, parent"
# The same to be read: a title may be encrypted (see `crypt.Opened`). Others are told from it here,
# since a function of Python for each of a thousand rows takes as long as all of the query.
THREAD_VALUES = THREAD_COLUMNS.replace(
    "title", "CASE WHEN title GLOB 'sealed:*' THEN opened(title) ELSE title END"
)


def thread_of(
    row: tuple[str, str, str, str, int | None, int | None, str, str | None],
) -> ThreadInfo:
    """The value of a row of THREAD_VALUES."""
    thread, title, created, updated, messages, turns, model, parent = row
    return ThreadInfo(
        thread, instant(created), instant(updated), title, messages, turns, model, parent
    )


def now() -> str:
    """The present instant as it is stored: ISO 8601 in UTC, of one length, so it sorts as text."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def instant(stored: str) -> datetime:
    """A stored instant as an aware datetime in UTC; 1970 for what is none any more."""
    try:
        moment = datetime.fromisoformat(stored)
    except ValueError:
        return datetime.fromtimestamp(0, UTC)
    return moment if moment.tzinfo is UTC else moment.astimezone(UTC)
