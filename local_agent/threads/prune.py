"""Threads pruned: the past that is not needed any more goes, what was said stays whole."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from local_agent.errors import StorageError, ThreadError
from local_agent.lock import thread_lock
from local_agent.memory import Memory, open_memory
from local_agent.memory.attachments import names_in
from local_agent.memory.crypt import bytes_of
from local_agent.memory.faults import Unreadable
from local_agent.memory.prune import Plan, dropped_values, plan_of, prune
from local_agent.memory.replay import DAMAGE, is_damage
from local_agent.memory.space import size_of_file
from local_agent.memory.sums import renew, verify
from local_agent.threads.change import Cleaned, clean_up, writing
from local_agent.threads.listing import reading
from local_agent.threads.names import check_known, names_of

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

KEEP = 20  # turns that can be turned back to after a pruning, if no number is said


def plans_of(
    db_path: Path,
    name: str | None,
    keep: int,
    unread: list[str] | None = None,
    *,
    key: str = "",
) -> list[Plan]:
    """What would go from the thread, or from each (None); those with nothing to do are left out.

    With `unread`, the names of threads that cannot be read go there, and the others are planned.
    Raises ThreadError for a thread that is none, StorageError for a file that cannot be read.
    """
    plans: list[Plan | None] = []
    with reading(db_path, key) as conn:
        if name is not None:
            check_known(conn, name)
        if conn is None:
            return []
        for one in names_of(conn) if name is None else [name]:
            try:
                plans.append(plan_of(conn, one, keep))
            except (sqlite3.Error, *DAMAGE) as exc:
                if unread is None or not is_damage(exc):
                    raise
                unread.append(one)
    return [plan for plan in plans if plan is not None and not plan.is_empty]


async def prune_threads(
    db_path: Path,
    names: Sequence[str],
    keep: int,
    *,
    key: str = "",
) -> Cleaned:
    """Prune the threads to their last `keep` turns (0: their last state) and give the space back.

    One that is open in an agent stays as it is. `key` is that of a file that is encrypted. Raises
    StorageError for a file that cannot be written.
    """
    done: list[str] = []
    refused: list[str] = []
    files: set[str] = set()
    async with open_memory(db_path, key=key) as memory:
        size = await memory.statements.look(size_of_file)
        for name in names:
            try:
                with thread_lock(db_path, name):
                    files |= await prune_open(memory, name, keep)
                    done.append(name)
            except ThreadError as exc:
                refused.append(str(exc))
            except StorageError as exc:
                if isinstance(exc.__cause__, sqlite3.Error):
                    raise  # the file, and not what this thread holds
                refused.append(str(exc))
    with writing(db_path, key) as conn:
        removed, notes = clean_up(conn, db_path, files)
        freed = max(0, size - size_of_file(conn))
    return Cleaned(tuple(done), tuple(refused), removed, freed, notes)


async def prune_open(memory: Memory, thread: str, keep: int) -> set[str]:
    """Prune a thread that is held, in one transaction. Gives the names of files it may free."""
    plan = await memory.statements.look(lambda conn: plan_of(conn, thread, keep))
    if plan is None or plan.is_empty:
        return set()
    root = await _with_messages(memory, plan) if plan.rewrite else None

    loads = memory.saver.serde.loads_typed

    def change(conn: sqlite3.Connection) -> set[str]:
        try:
            verify(conn, thread, loads)
        except Unreadable as exc:
            raise exc.of(thread) from exc
        files = names_in(dropped_values(conn, plan), bytes_of(conn))
        count = prune(conn, plan, root)
        renew(conn, thread, loads, count)  # where a turn is open, its entry is older than that
        return files

    freed = await memory.statements.change(change)
    memory.saver.forget()
    return freed


async def _with_messages(memory: Memory, plan: Plan) -> tuple[str, bytes]:
    """The first checkpoint that stays, with the messages it stands for in it, as it is stored."""
    # Imported here, because a dry run must not wait for LangGraph.
    from langgraph.graph import END, START, StateGraph

    from agent_graph import State

    config: RunnableConfig = {
        "configurable": {
            "thread_id": plan.thread,
            "checkpoint_ns": "",
            "checkpoint_id": plan.root,
        }
    }
    graph = StateGraph(State)  # to read a state it needs the channels, and a node whatever it does
    graph.add_node("agent", _nothing)
    graph.add_edge(START, "agent")
    graph.add_edge("agent", END)
    state = await graph.compile(checkpointer=memory.saver).aget_state(config)
    stored = await memory.saver.aget_tuple(config)
    assert stored is not None
    checkpoint = stored.checkpoint
    if "messages" in state.values:
        checkpoint["channel_values"]["messages"] = state.values["messages"]
    kind, blob = memory.saver.serde.dumps_typed(checkpoint)
    return kind, blob


def _nothing(state: Any) -> dict[str, Any]:
    return {}
