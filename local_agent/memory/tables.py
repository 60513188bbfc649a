"""Our own tables beside the checkpoints: their shape, their versions, and what a row is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

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
    ),
)
VERSION = len(MIGRATIONS)


@dataclass(frozen=True, slots=True)
class ThreadInfo:
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


def thread_of(
    row: tuple[str, str, str, str, int | None, int | None, str, str | None],
) -> ThreadInfo:
    """The value of a row of THREAD_COLUMNS."""
    thread, title, created, updated, messages, turns, model, parent = row
    return ThreadInfo(
        thread, instant(created), instant(updated), title, messages, turns, model, parent
    )


def now() -> str:
    """The present instant as it is stored: ISO 8601 in UTC, of one length, so it sorts as text."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def instant(stored: str) -> datetime:
    """A stored instant as an aware datetime in UTC."""
    return datetime.fromisoformat(stored).astimezone(UTC)
