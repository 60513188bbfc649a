"""Turns a thread back, forward and aside, turn by turn, and copies it under another name."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.graph import END
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateSnapshot

from context import text_of
from local_agent.errors import ThreadError
from local_agent.memory import Memory
from local_agent.memory.branches import Branch, drop_branch, is_named, put_branch
from local_agent.memory.chain import Step, Turn
from local_agent.memory.heads import Change, config_of
from local_agent.timeline.pending import bring_back
from local_agent.timeline.ran import ran_elsewhere

Graph = CompiledStateGraph[Any, None, Any, Any]


@dataclass(frozen=True, slots=True)
class Moved:
    """Where a thread stands now: after `turns` turns. `draft` is the prompt that was taken back.

    `branch` is the id of what was left, empty if nothing new was. `is_open`: the last turn is not
    finished, or waits for an approval.
    """

    turns: int
    draft: str = ""
    branch: str = ""
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Forked:
    """A copy of a thread, with its first `turns` turns.

    `left_out` is the prompt of a last turn that is not finished and stays with the original alone.
    """

    thread: str
    turns: int
    left_out: str = ""


class Timeline:
    """A thread that this process holds, over the graph that runs it.

    All that is wrong with what is asked raises `ThreadError`, and then nothing was changed.
    """

    def __init__(self, graph: Graph, memory: Memory, thread: str) -> None:
        self.graph = graph
        self.memory = memory
        self.thread = thread

    async def turns(self, head: str | None = None) -> list[Turn]:
        """The turns of the thread, or those up to the checkpoint `head`, oldest first."""
        return await self.memory.heads.turns(self.thread, head)

    async def branches(self) -> list[Branch]:
        """What was left and can be gone to, the newest first."""
        return await self.memory.heads.branches(self.thread)

    # -- back and forward -------------------------------------------------------------------------

    async def rewind(self, to: int, why: str = "rewind") -> Moved:
        """Stand where the thread stood before turn `to`, with its prompt as the draft."""
        turns = await self.turns()
        turn = self.pick(turns, to)
        branch = await self.left(turns, turn, why)
        branch = replace(branch, stops=(*branch.stops, len(turns)))
        await self._leave(branch, turn.checkpoint_before)
        return Moved(to - 1, turn.prompt, branch.id)

    async def undo(self) -> Moved:
        """Take back the last turn."""
        turns = await self.turns()
        if not turns:
            raise ThreadError("There is no turn to take back.")
        return await self.rewind(len(turns), "undo")

    async def redo(self) -> Moved:
        """Take back the last step back, if nothing came after it."""
        head = await self.memory.heads.head(self.thread)
        branch = await self._undone(head) if head else None
        if branch is None or not branch.stops:
            raise ThreadError("There is nothing to bring back.", "/rewind shows the branches.")
        *stops, wanted = branch.stops
        turns = await self.turns(branch.checkpoint_id)
        if wanted >= len(turns):
            return await self._bring(branch, None)
        after = turns[wanted]
        left = replace(
            branch,
            first_turn=after.number,
            turns=len(turns) - wanted,
            prompt=after.prompt,
            stops=tuple(stops),
        )
        await self._leave(left, after.checkpoint_before)
        return Moved(wanted)

    async def go_to(self, typed: str) -> Moved:
        """Go on where a branch was left; what the thread stands on becomes one."""
        found = [one for one in await self.branches() if is_named(one.checkpoint_id, typed)]
        if len(found) != 1:
            hint = f"See: agent threads show {self.thread} --branches"
            raise _no_such("branch", typed, len(found), hint)
        head = await self.head()
        # An untouched copy of a part of a branch is kept by that branch.
        kept = await self._undone(head)
        kept_head = kept.checkpoint_id if kept else head
        turns, there = await self.turns(kept_head), await self.turns(found[0].checkpoint_id)
        return await self._bring(found[0], _apart(kept_head, turns, there))

    async def _leave(self, branch: Branch, base: str | None) -> None:
        """Leave `branch` for the end of a turn, `base`."""

        def enter(conn: sqlite3.Connection, new: str) -> None:
            put_branch(conn, self.thread, replace(branch, left_for=new))

        async with self.memory.statements.together():
            new = await self.stand_on(base, enter)
            if (settled := await self._settle()) != new:
                await self.memory.heads.enter(self.thread, replace(branch, left_for=settled))

    async def _bring(self, branch: Branch, left: Branch | None) -> Moved:
        """Stand at the end of `branch`, as open as it was; `left` is entered as a branch."""

        def enter(conn: sqlite3.Connection, new: str) -> None:
            if left is not None:
                put_branch(conn, self.thread, left)
            drop_branch(conn, self.thread, branch.checkpoint_id)

        async with self.memory.statements.together():
            new = await self.stand_on(branch.checkpoint_id, enter)
            is_open = await bring_back(
                self.graph, self.memory.heads, self.thread, branch.checkpoint_id, new
            )
            # By its id: what waits beside its last step does not belong to it yet.
            await self._record(await self.graph.aget_state(config_of(self.thread, new)))
        turns = len(await self.turns())
        is_new = left is not None and left.checkpoint_id != branch.checkpoint_id
        return Moved(turns, branch=left.id if left and is_new else "", is_open=is_open)

    # -- a copy -----------------------------------------------------------------------------------

    async def fork(self, new: str, at: int | None = None) -> Forked:
        """Copy the thread into `new`, which must not exist, up to the end of turn `at`.

        A last turn that is not finished, or waits for an approval, is left out: it could come to
        its end twice, and do twice what it does. With it asked for, `ThreadError`.
        """
        head, left_out = await self.head(), ""
        turns = await self.turns(head)
        if not turns:
            raise ThreadError(f"Thread '{self.thread}' has nothing to copy.")
        last = len(turns) if at is None else at
        self.pick(turns, last, is_end=True)
        if last == len(turns) and await self.is_open(head):
            if at is not None or last == 1:
                raise ThreadError(
                    f"Turn {last} is not finished and cannot be copied.",
                    "Finish it first, or name an earlier turn.",
                )
            last, left_out = last - 1, turns[-1].prompt
        if last < len(turns):
            head = turns[last].checkpoint_before or ""
        heads = self.memory.heads
        if not await heads.fork(self.thread, new, head):
            raise ThreadError(f"There is a thread '{new}' already.", "Choose another name.")
        copy = Timeline(self.graph, self.memory, new)
        await copy._settle(parent=self.thread)
        return Forked(new, last, left_out)

    # -- steps ------------------------------------------------------------------------------------

    async def head(self) -> str:
        """The checkpoint that the thread stands on. `ThreadError` if there is no such thread."""
        head = await self.memory.heads.head(self.thread)
        if head is None:
            raise ThreadError(f"There is no thread '{self.thread}'.", "See: agent threads list")
        return head

    async def chain(self) -> list[Step]:
        """The checkpoints that led to where the thread stands, oldest first."""
        return await self.memory.heads.chain(self.thread, await self.head())

    async def is_open(self, head: str | None = None) -> bool:
        """Whether the thread stands inside a turn, or stood at `head`."""
        state = await self.graph.aget_state(config_of(self.thread, head))
        return bool(state.tasks)

    def pick(self, turns: Sequence[Turn], number: int, *, is_end: bool = False) -> Turn:
        """The turn of that number, if the thread can stand before it (`is_end`: at its end)."""
        if not 1 <= number <= len(turns):
            has = f"it has {len(turns)}" if turns else "it has none"
            raise ThreadError(f"Thread '{self.thread}' has no turn {number}: {has}.")
        stood_before = turns[number - 1 + is_end :]
        if stood_before and not stood_before[0].is_reachable:
            first = next((one.number for one in turns if one.is_reachable), None)
            hint = f"The earliest that can is turn {first}." if first else ""
            raise ThreadError(f"Turn {number} cannot be gone back to: its steps are gone.", hint)
        return turns[number - 1]

    async def stand_on(
        self, base: str | None, also: Change, values: Mapping[str, Any] | None = None
    ) -> str:
        """Put the head onto a copy of `base`, and into it what ran on other courses than that."""
        heads = self.memory.heads
        steps = await heads.chain(self.thread, base) if base else []
        ran = await ran_elsewhere(heads, self.thread, steps)
        given = dict(values or {})
        ran |= given.pop("ran", {})
        if ran:
            given["ran"] = ran
        return await heads.put(self.thread, base, given, also)

    async def left(self, turns: Sequence[Turn], turn: Turn, why: str) -> Branch:
        """The branch that is left when the thread goes another way at `turn`, one of its `turns`.

        Where it stands on an untouched step back, that is what was left by it, and all is in it.
        """
        head = await self.head()
        undone = await self._undone(head)
        if undone is None:
            count = len(turns) - turn.number + 1
            return Branch(head, now(), turn.number, count, turn.prompt, why)
        more = undone.first_turn - turn.number
        return replace(
            undone, first_turn=turn.number, turns=undone.turns + more, prompt=turn.prompt
        )

    async def _undone(self, head: str) -> Branch | None:
        """The branch that was left for just this head, where nothing came after it."""
        return next((one for one in await self.branches() if one.left_for == head), None)

    async def _settle(self, parent: str | None = None) -> str:
        """Leave no step open at the end of a turn, and enter the thread into the list; its head.

        Other programs send a prompt while steps are open; turned back to, they would run.
        """
        state = await self.graph.aget_state(config_of(self.thread))
        if state.tasks:
            await self.graph.aupdate_state(config_of(self.thread), None, as_node=END)
            state = await self.graph.aget_state(config_of(self.thread))
        await self._record(state, parent)
        return str(state.config["configurable"]["checkpoint_id"])

    async def _record(self, state: StateSnapshot, parent: str | None = None) -> int:
        """Enter the thread into the list as it stands; the number of its turns."""
        messages = state.values.get("messages", [])
        prompts = [message for message in messages if isinstance(message, HumanMessage)]
        threads, title = self.memory.threads, None
        if prompts and await threads.info(self.thread) is None:
            title = " ".join(text_of(prompts[0].content).split())[:80]
        await threads.touch(
            self.thread, title=title, messages=len(messages), turns=len(prompts), parent=parent
        )
        return len(prompts)


def _apart(head: str, turns: Sequence[Turn], there: Sequence[Turn]) -> Branch:
    """The course `turns` as a branch of the course `there`."""
    same = 0
    for one, other in zip(turns, there, strict=False):
        if one.checkpoint_start != other.checkpoint_start:
            break
        same += 1
    first = min(same, len(turns) - 1)  # the same turns: the last of them went another way
    turn = turns[first] if turns else Turn(1)
    return Branch(head, now(), turn.number, len(turns) - first, turn.prompt, "branch")


def now() -> datetime:
    """The present instant, in UTC."""
    return datetime.now(UTC)


def _no_such(kind: str, typed: str, count: int, hint: str) -> ThreadError:
    if count:
        return ThreadError(f"{count} {kind}es begin with '{typed}'.", "Type more of it.")
    return ThreadError(f"There is no {kind} '{typed}'.", hint)
