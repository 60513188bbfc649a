"""A graph over scripted collaborators on a real SQLite file, for the tests of the core."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, AnyMessage

from agent_core.ledger import Ledger
from agent_core.limits import Limits
from agent_core.toolset import OneRoute
from agent_graph import build_graph
from context import Window
from local_agent.approval import decide
from local_agent.memory import Memory, open_memory
from local_agent.repair import repair
from local_agent.seal import Seal
from local_agent.session import Session


class Overflow(Exception):
    """What the scripted model raises for a prompt that is too long."""


def say(text: str) -> AIMessage:
    return AIMessage(text, id=uuid4().hex)


def call(*calls: tuple[str, dict[str, Any]], text: str = "") -> AIMessage:
    """A reply with tool calls c1, c2, ... as the model adapter leaves it."""
    import json

    raw = [
        {"id": f"c{n}", "name": name, "args": args if isinstance(args, str) else json.dumps(args)}
        for n, (name, args) in enumerate(calls, 1)
    ]
    return AIMessage(text, id=uuid4().hex, additional_kwargs={"raw_tool_calls": raw})


@dataclass
class ScriptedModel:
    """Plays replies in order and keeps what it was asked; an exception in the list is raised."""

    replies: list[AIMessage | Exception | Callable[[], Any]]
    asked: list[dict[str, Any]] = field(default_factory=list)
    overflow: type[Exception] = Overflow

    async def reply(self, messages: Sequence[AnyMessage], **options: Any) -> AIMessage:
        self.asked.append({"messages": list(messages), **options})
        reply = self.replies.pop(0)
        if callable(reply):
            reply = await reply()
        if isinstance(reply, Exception):
            raise reply
        shown = str(reply.content).removesuffix(reply.additional_kwargs.get("unshown", ""))
        if options.get("on_delta") and shown:
            options["on_delta"]("text", shown)
        return reply


@dataclass
class ScriptedTool:
    """A tool that notes its runs; `run` may wait, fail, or give the text of the result."""

    name: str
    read_only: bool = True
    server: str = "kit"
    identity: str = "kit 1"
    description: str = "a tool"
    ran: list[dict[str, Any]] = field(default_factory=list)
    run: Callable[[Mapping[str, Any]], Any] | None = None
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})

    @property
    def original(self) -> str:
        return self.name

    async def __call__(self, args: Mapping[str, Any]) -> tuple[str, str]:
        self.ran.append(dict(args))
        said = await self.run(args) if self.run else None
        return said or f"{self.name} done", "success"


@asynccontextmanager
async def open_session(
    path: Path,
    model: ScriptedModel,
    tools: Sequence[ScriptedTool],
    *,
    max_steps: int = 12,
    window: Window | None = None,
    thread: str = "t",
    key: bytes = b"k" * 32,
    saver: Callable[[Memory], Any] = lambda memory: memory.saver,
    memory_key: str = "",
    limits: Limits | None = None,
    ledger: Ledger | None = None,
    routes: Mapping[str, Sequence[str]] | None = None,
    route: Any = None,
    asks_again: bool = True,
    drops_repeats: bool = True,
) -> AsyncIterator[Session]:
    async with open_memory(path, key=memory_key) as memory:
        graph = build_graph(
            model,
            tools,
            routes=routes or {"all": [t.name for t in tools]},
            route=route or OneRoute(),
            policy=decide,
            repair=repair,
            journal=memory.journal,
            seal=Seal(key),
            window=window or Window(8192),
            system_prompt="You are a test.",
            limits=limits or Limits(max_steps=max_steps),
            ledger=ledger,
            checkpointer=saver(memory),
            asks_again=asks_again,
            drops_repeats=drops_repeats,
        )
        yield Session(
            graph,
            thread,
            journal=memory.journal,
            threads=memory.threads,
            model_name=lambda: "scripted",
            translate=lambda exc: None,
            index=memory.index,
        )


async def collect(events: AsyncIterator[Any]) -> list[Any]:
    return [event async for event in events]


async def cancel_when(events: AsyncIterator[Any], ready: asyncio.Event) -> None:
    """Consume `events` in a task that is cancelled once `ready` is set."""
    task = asyncio.create_task(collect(events))
    await ready.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
