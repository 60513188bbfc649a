"""LangGraph's own suite for checkpointers, run on ours as it is opened and on the stock one."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import BASE_CAPABILITIES
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from local_agent.memory import open_memory
from local_agent.memory.saver import RESUME


async def outcome(name: str, factory: Any) -> dict[str, dict[str, Any]]:
    """What the suite finds, by capability; the texts of failures name no path of this run."""
    report = await validate(checkpointer_test(name=name)(factory))
    return {kind: dataclasses.asdict(result) for kind, result in report.results.items()}


async def test_conformance_of_the_saver(tmp_path: Path) -> None:
    """Ours has all that the stock saver has, and fails in nothing that this one passes.

    Compared in one run, so no list of exceptions can grow old. At the time of writing both pass
    every case of what they implement, and neither implements `delete_for_runs`, `copy_thread` and
    `prune`, which LangGraph calls optional.
    """
    opened = iter(range(100))

    async def ours() -> AsyncGenerator[Any, None]:
        async with open_memory(tmp_path / f"ours-{next(opened)}.db") as memory:
            yield memory.saver

    async def stock() -> AsyncGenerator[Any, None]:
        path = str(tmp_path / f"stock-{next(opened)}.db")
        async with AsyncSqliteSaver.from_conn_string(path) as saver:
            yield saver

    found, expected = await outcome("ours", ours), await outcome("stock", stock)
    for kind, theirs in expected.items():
        mine = found[kind]
        assert mine["detected"] >= theirs["detected"], kind
        failed = {text.split(":")[0] for text in mine["failures"]}
        assert failed <= {text.split(":")[0] for text in theirs["failures"]}, mine["failures"]
    for capability in BASE_CAPABILITIES:  # it did run, and on something
        assert found[capability.value]["tests_passed"] > 0


async def test_stored_answers_to_interrupts_are_not_given_back(tmp_path: Path) -> None:
    """The one place where ours differs on purpose, and which the suite does not look at.

    The stock saver hands a stored answer to the node that asked, also when it resumes after a
    crash. Ours leaves it out: an approval counts in the run it was given to, so that a yes that is
    written in a file approves nothing.
    """
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "c"}}
    writes = [("messages", ["kept"]), (RESUME, ["a yes from the file"])]
    channels: dict[str, list[str]] = {}
    async with (
        open_memory(tmp_path / "ours.db") as memory,
        AsyncSqliteSaver.from_conn_string(str(tmp_path / "stock.db")) as stock,
    ):
        for name, saver in (("ours", memory.saver), ("stock", stock)):
            empty: Any = {"v": 1, "id": "c", "ts": "", "channel_values": {}}
            empty |= {"channel_versions": {}, "versions_seen": {}, "updated_channels": None}
            where: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
            await saver.aput(where, empty, {}, {})
            await saver.aput_writes(config, writes, "task")
            found = await saver.aget_tuple(config)
            assert found is not None
            channels[name] = sorted(write[1] for write in found.pending_writes or [])
    assert channels == {"ours": ["messages"], "stock": [RESUME, "messages"]}
