"""Ours: the conversation through the real graph on a real database, with a model that is played."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, Protocol

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langgraph.graph.state import CompiledStateGraph

from agent_core.limits import Limits
from agent_graph import build_graph
from benchmarks.context_bench.cache import ROUTER, SUMMARY, TURN, Refused, Request, Slot, tally
from benchmarks.context_bench.conversation import TOOLS, Turn, conversation
from benchmarks.context_bench.policies import summary_of
from benchmarks.context_bench.report import Result
from context import Window, text_of
from local_agent.app import SYSTEM_PROMPT
from local_agent.approval import decide
from local_agent.config import RouteSpec
from local_agent.memory import Memory, open_memory
from local_agent.repair import repair
from local_agent.routing import Router, Shelf, routes_of
from local_agent.seal import open_seal
from local_agent.session import Session

THREAD = "benchmark"
# The default first. Without summaries is for a model that is too weak to write them, or too slow:
# facts are then kept by rule alone, and there is no side call.
OURS = {"ours": Limits(), "ours, no summary": Limits(summary=False)}


@dataclass(slots=True)
class Played:
    """The `Model` of the graph: gives the replies of the turn that is played, counts each request.

    What is no request of the turn is a side call; a summary is answered as a good small model
    would, from the text of the request alone.
    """

    slot: Slot
    turns: Sequence[Turn]
    turn: Turn = field(init=False)
    overflow: type[Exception] = Refused
    _given: int = 0  # replies of the turn that were given

    def begin(self, turn: Turn) -> None:
        """The next requests belong to `turn`."""
        self.turn = turn
        self.slot.turn = turn.number
        self._given = 0

    async def reply(
        self,
        messages: Sequence[AnyMessage],
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        tool_choice: str | None = None,
        response_format: Mapping[str, Any] | None = None,
        on_delta: Any = None,
    ) -> AIMessage:
        kind = ROUTER if response_format else self._kind(messages)
        if kind == ROUTER:
            reply = AIMessage(json.dumps({"route": "all"}))
        elif kind == SUMMARY:
            reply = AIMessage(
                summary_of("\n".join(text_of(m.content) for m in messages), self.turns)
            )
        else:
            reply = self._next()
        request = self.slot.send(kind, messages, tools, reply)
        self._given += kind == TURN  # one that was refused is asked for again
        return reply.model_copy(
            update={
                "additional_kwargs": _raw(reply),
                "tool_calls": [],
                "usage_metadata": _usage(request),
            }
        )

    def _kind(self, messages: Sequence[AnyMessage]) -> str:
        last = messages[-1]
        is_prompt = isinstance(last, HumanMessage)
        return SUMMARY if is_prompt and self.turn.question not in text_of(last.content) else TURN

    def _next(self) -> AIMessage:
        if self._given < len(self.turn.steps):
            return self.turn.call_message(self._given)
        return self.turn.answer_message


def _raw(reply: AIMessage) -> dict[str, Any]:
    """The calls as the model adapter leaves them: not read yet."""
    calls = [
        {"id": c["id"], "name": c["name"], "args": json.dumps(c["args"])} for c in reply.tool_calls
    ]
    return {"raw_tool_calls": calls} if calls else {}


def _usage(request: Request) -> UsageMetadata:
    return UsageMetadata(
        input_tokens=request.tokens,
        output_tokens=request.reply,
        total_tokens=request.tokens + request.reply,
        input_token_details=InputTokenDetails(cache_read=request.cached),
    )


@dataclass(frozen=True, slots=True)
class Scripted:
    """A tool that gives the result which the turn has for it."""

    name: str
    description: str
    schema: Mapping[str, Any]
    model: Played
    server: str = "shop"
    identity: str = "shop 1"
    read_only: bool = True

    @property
    def original(self) -> str:
        return self.name

    async def __call__(self, args: Mapping[str, Any]) -> tuple[str, Literal["success", "error"]]:
        calls = (call for step in self.model.turn.steps for call in step)
        return next(call.result for call in calls if call.name == self.name), "success"


class Observer(Protocol):
    """Is shown the state of the thread before some turns."""

    def wants(self, turn: int) -> bool: ...

    async def look(
        self, values: Mapping[str, Any], tools: Sequence[Scripted], following: Turn, window: Window
    ) -> None: ...


def _session(
    model: Played, tools: Sequence[Scripted], memory: Memory, window: Window, limits: Limits
) -> tuple[Session, CompiledStateGraph[Any, None, Any, Any]]:
    routes = routes_of([RouteSpec("shop", "the shop", tuple(t.name for t in tools))], tools)
    router = Router(Shelf(routes, tools, window, most=12), model, "off")
    graph = build_graph(
        model,
        tools,
        routes=routes.tools,
        route=router,
        policy=decide,
        repair=repair,
        journal=memory.journal,
        seal=open_seal(None),
        window=window,
        system_prompt=SYSTEM_PROMPT,
        limits=limits,
        checkpointer=memory.saver,
    )
    session = Session(
        graph,
        THREAD,
        journal=memory.journal,
        threads=memory.threads,
        model_name=lambda: "played",
        translate=memory.translate,
    )
    return session, graph


async def _play(
    turns: Sequence[Turn], slot: Slot, limits: Limits, folder: Path, observer: Observer | None
) -> None:
    assert slot.loaded is not None
    model = Played(slot, turns)
    tools = [Scripted(name, text, schema, model) for name, text, schema in TOOLS]
    async with open_memory(folder / "memory.db") as memory:
        window = Window(slot.loaded)
        session, graph = _session(model, tools, memory, window, limits)
        for turn in turns:
            if observer and observer.wants(turn.number - 1):
                state = await graph.aget_state({"configurable": {"thread_id": THREAD}})
                await observer.look(state.values, tools, turn, window)
            model.begin(turn)
            last: Any = None
            async for event in session.send(turn.question):
                last = event
            if last.status != "ok" or last.answer != turn.answer:
                raise RuntimeError(f"turn {turn.number} ended with {last}")


def play(turns: Sequence[Turn], slot: Slot, setting: str, observer: Observer | None = None) -> None:
    """Play `turns` through the program, on a new database, with one of the settings in `OURS`.

    Raises `RuntimeError` when a turn ends otherwise than with its answer.
    """
    with TemporaryDirectory() as folder:
        asyncio.run(_play(turns, slot, OURS[setting], Path(folder), observer))


@dataclass(frozen=True, slots=True)
class Job:
    """One conversation to play."""

    seed: int
    turns: int
    loaded: int
    setting: str


def play_job(job: Job) -> Result:
    """Play a conversation and add up its requests; for a process of its own."""
    slot = Slot(job.loaded)
    play(conversation(job.seed, job.turns), slot, job.setting)
    reserve = Window(job.loaded).reply
    counted = tally(slot.requests, job.loaded, reserve)
    return Result(job.seed, job.loaded, reserve, job.setting, True, counted)
