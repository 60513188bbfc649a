"""Prefix discipline: between two steps of maintenance a request begins with the one before it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from agent_core.ledger import Entry, Ledger
from agent_core.limits import Limits
from agent_core.prompt import Request
from context import Window
from local_agent.routing import Router, Shelf, routes_of
from local_agent.session import Session
from tests import routing_kit
from tests.graph_kit import Overflow, ScriptedTool, call, cancel_when, collect, open_session, say
from tests.view_kit import KINDS, assert_strict, make_text


class Noted(Ledger):
    """A ledger that keeps why each request of a turn differs from the one before."""

    def __init__(self) -> None:
        super().__init__()
        self.causes: list[str] = []

    def sent(self, thread: str, kind: str, request: Request, window: Window) -> Entry:
        entry = super().sent(thread, kind, request, window)
        if kind == "turn":
            self.causes.append(entry.changed_by)
        return entry


STEPS = {"tools", "summary", "folded", "stubs", "cuts", "clipped"}
# Behind the last message of the request before, whose own last line is all that is another one.
AT_THE_END = {"empty reply line", "made again line", "last call line"}
STEPS_OF_ROUTING = {*STEPS, "no tool line"}  # it goes where a turn needs a tool after all


def canonical(tools: Sequence[Any], messages: Sequence[AnyMessage]) -> str:
    """A request as one text in the order of a chat template: tools, then messages."""
    parts = [json.dumps(list(tools))]
    for message in messages:
        calls = [[c["name"], c["args"]] for c in getattr(message, "tool_calls", ())]
        parts.append(json.dumps([message.type, message.content, calls]))
    return "\n".join(parts)


@dataclass
class RandomModel:
    """Answers, calls tools, loops, fails, stays silent, writes half calls; all from a seed."""

    rng: Random
    requests: list[str] = field(default_factory=list)
    summaries: int = 0
    names: Sequence[str] = ("look",)
    hang: asyncio.Event | None = None
    overflow: type[Exception] = Overflow

    async def reply(
        self, messages: Sequence[AnyMessage], *, tools: Any = (), on_delta: Any = None, **rest: Any
    ) -> AIMessage:
        assert_strict(list(messages[1:]))
        if isinstance(messages[-1], HumanMessage) and messages[-1].id == "summarise":
            self.summaries += 1
            return say(self.rng.choice(("", "Said: the order 4711 was sent.", "no " * 9000)))
        if rest.get("response_format"):  # the arguments of a call that went wrong twice
            return say(self.rng.choice(('{"n": 5}', "", '{"n": ')))
        self.requests.append(canonical(tools, messages))
        if self.hang is not None:
            self.hang.set()
            await asyncio.sleep(60)
        return self._reply()

    def _reply(self) -> AIMessage:
        kind = self.rng.choice(
            ("say", "say", "call", "call", "call", "same", "bad", "none", "fail")
        )
        if kind == "fail":
            raise RuntimeError("gone")
        if kind == "say":
            return say(make_text("english", self.rng.randrange(1, 800), self.rng.randrange(99)))
        if kind == "call":
            name = self.rng.choice(self.names) if len(self.names) > 1 else self.names[0]
            calls = [(name, self._arguments(name))] * self.rng.choice((1, 1, 2, 4))
            return call(*calls, text=self.rng.choice(("", "Let me look.")))
        if kind == "same":
            return call(("look", {"n": 1}))
        return call(("look", '{"n": ')) if kind == "bad" else say("")

    def _arguments(self, name: str) -> dict[str, Any]:
        if name == "find_tools":
            return {"query": self.rng.choice(("weather", "mail order", "git", "xyzzy"))}
        return {"n": self.rng.randrange(10**6)}


async def turn(session: Session, model: RandomModel, rng: Random) -> None:
    """One turn; some are stopped, some that failed are sent again, word for word."""
    prompt = make_text("english", rng.choice((10, 200, 3000)), rng.randrange(99))
    if rng.random() < 0.15:
        model.hang = asyncio.Event()
        await cancel_when(session.send(prompt), model.hang)
        model.hang = None
        await session.abandon("cancelled")
        return
    last = (await collect(session.send(prompt)))[-1]
    if last.status == "error" and rng.random() < 0.5:
        await collect(session.retry())
    elif last.status == "error":
        await collect(session.send(prompt))


def check_beginning(before: str, request: str, why: str) -> None:
    """A request begins with the one before, or there is a cause."""
    assert request.startswith(before) == (why == "")
    if why in AT_THE_END:
        assert request.startswith(before.rpartition("\n")[0])


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("length", [2048, 4096])
async def test_a_request_begins_with_the_one_before(tmp_path: Path, seed: int, length: int) -> None:
    """Random conversations through the graph: what breaks the prefix is a step, and is named."""
    rng = Random(seed)

    async def result(args: Mapping[str, Any]) -> str:
        size = rng.choice((50, 300, 3000, 9000))
        return make_text(rng.choice(KINDS), rng.randrange(1, size), rng.randrange(99))

    model, ledger = RandomModel(rng), Noted()
    tools = [ScriptedTool("look", run=result)]
    limits = Limits(max_steps=4, low_water=0.5, step=rng.choice(("cache", "cache", "turn")))
    async with open_session(
        tmp_path / "m.db", model, tools, window=Window(length), limits=limits, ledger=ledger
    ) as session:
        for _ in range(14):
            await turn(session, model, rng)
    for (before, request), why in zip(
        zip(model.requests, model.requests[1:], strict=False), ledger.causes[1:], strict=False
    ):
        check_beginning(before, request, why)
        assert why in {"", *STEPS, *AT_THE_END}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("most", [4, 12])
async def test_it_does_with_routes_too(tmp_path: Path, seed: int, most: int) -> None:
    """Thirty tools, topics that change, small talk, tools that are found: the set of tools is
    changed seldom, each change is named, and between them requests begin as the one before."""
    rng = Random(seed)
    tools = [
        ScriptedTool(t.name, server=t.server, description=t.description)
        for t in routing_kit.tools()
    ]
    names = ["find_tools", *(tool.name for tool in tools)]
    model, ledger, window = RandomModel(rng, names=names), Noted(), Window(4096)
    routes = routes_of((), tools)
    router = Router(Shelf(routes, tools, window, most), model, "auto")
    async with open_session(
        tmp_path / "m.db",
        model,
        tools,
        window=window,
        limits=Limits(max_steps=4, low_water=0.5),
        ledger=ledger,
        routes=routes.tools,
        route=router,
    ) as session:
        for _ in range(12):
            prompt = rng.choice(routing_kit.PROMPTS).prompt
            await collect(session.send(prompt))
    pairs = zip(model.requests, model.requests[1:], strict=False)
    for (before, request), why in zip(pairs, ledger.causes[1:], strict=False):
        check_beginning(before, request, why)
        assert why in {"", *STEPS_OF_ROUTING, *AT_THE_END}
