"""The messages of a thread as plain mappings, put together from what is stored without LangGraph.

It does what LangGraph's channel of messages does when it loads a thread: from the nearest
checkpoint that holds the whole list, the updates since are applied in their order. Used where a
thread is only looked through; what goes on is loaded by LangGraph.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from local_agent.memory.chain import Plain, Step, read_chain
from local_agent.memory.raw import messages_in, plain_value

_ALL = "__remove_all__"  # LangGraph's id of a removal of everything
_OVERWRITE = "__overwrite__"
_CHECKPOINT = """
    SELECT type, checkpoint FROM checkpoints
    WHERE thread_id = ? AND checkpoint_ns = '' AND checkpoint_id = ?
"""
_UPDATES = """
    SELECT type, value FROM writes
    WHERE thread_id = ? AND checkpoint_ns = '' AND checkpoint_id = ? AND channel = 'messages'
    ORDER BY task_path, task_id, idx
"""
Message = Mapping[str, Any]
# What reading a thread can raise that holds something else than we or LangGraph write.
DAMAGE = (ValueError, TypeError, LookupError, AttributeError)


def is_damage(exc: BaseException) -> bool:
    """Whether `exc` says that what is stored of a thread is no thread; others may be whole."""
    if isinstance(exc, sqlite3.Error):
        return getattr(exc, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_ERROR  # no JSON
    return isinstance(exc, DAMAGE)


def plain_messages(
    conn: sqlite3.Connection, thread: str, plain: Plain = plain_value, head: str | None = None
) -> list[Message]:
    """The messages of the thread at `head` (default: where it stands), oldest first."""
    chain = read_chain(conn, thread, head)
    messages: list[Message] = []
    for i in range(len(chain) - 1, -1, -1):
        whole = _whole_list(conn, thread, chain[i], plain)
        if whole is not None or i == 0:
            messages, chain = whole or [], chain[i:-1]  # updates of the last one are not in yet
            break
    for step in chain:
        for kind, blob in conn.execute(_UPDATES, (thread, step.checkpoint_id)):
            messages = _updated(messages, plain(kind, blob))
    return messages


def _whole_list(
    conn: sqlite3.Connection, thread: str, step: Step, plain: Plain
) -> list[Message] | None:
    row = conn.execute(_CHECKPOINT, (thread, step.checkpoint_id)).fetchone()
    value = plain(*row) if row else None
    values = value.get("channel_values") if isinstance(value, Mapping) else None
    if not isinstance(values, Mapping) or "messages" not in values:
        return None
    return messages_in(values["messages"])


def _updated(messages: list[Message], update: Any) -> list[Message]:
    if isinstance(update, Mapping) and _OVERWRITE in (update.get("type"), *update):
        return messages_in(update.get("value", update.get(_OVERWRITE)))
    known = {message.get("id"): i for i, message in enumerate(messages)}
    out: list[Message | None] = list(messages)
    for message in messages_in(update):
        at = message.get("id")
        if message["type"] == "remove" and at == _ALL:
            out, known = [], {}
        elif message["type"] == "remove":
            if at in known:
                out[known.pop(at)] = None
        elif at is not None and at in known:
            out[known[at]] = message
        else:
            known[at] = len(out)
            out.append(message)
    return [message for message in out if message is not None]
