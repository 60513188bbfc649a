"""Plays the cases of tests/corpus: a scripted server, the real model adapter, graph and storage."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from agent_core.limits import Limits
from agent_core.toolset import OneRoute
from agent_graph import build_graph
from context import Window
from local_agent.approval import decide
from local_agent.config import ModelSettings
from local_agent.events import ApprovalRequested, TextDelta, ToolFinished, ToolStarted, TurnFinished
from local_agent.memory import open_memory
from local_agent.model import connect_model
from local_agent.repair import repair
from local_agent.seal import Seal
from local_agent.session import Session
from local_agent.testing import Deltas, Reply, Say, ScriptedServer

CORPUS = Path(__file__).parent / "corpus"
OUTCOMES = ("run", "ask_user", "ask_back", "text", "said")
SIZES = (1, 2, 3, 5, 8, 13, 10_000)  # characters a piece
ALL_RIGHT = "All right."
_NULL = "__null__"  # TOML has no null


@dataclass(frozen=True)
class Case:
    """A reply and what must come of it; see tests/corpus/README.md."""

    id: str
    outcome: str
    text: str = ""
    thinking: str = ""
    calls: Sequence[Mapping[str, str]] | None = None
    finish: str = "stop"
    read: str = ""
    prompt: str = "go on"
    pieces: Sequence[str] = ()
    expect: Sequence[Mapping[str, Any]] = ()
    before: str = ""
    note: str | None = None
    says: str = ""
    answer: str | None = None
    trap: bool = False
    seen: bool = False
    about: str = ""

    @property
    def closes_only(self) -> bool:
        """Whether it closes reasoning that it never opened: what the model learns from."""
        return "</think>" in self.text and "<think>" not in self.text

    def reply(self, size: int) -> Deltas:
        """What the server streams, the text in pieces of that size."""
        pieces = self.pieces or cut(self.text, size)
        deltas: list[dict[str, Any]] = [
            *({"reasoning_content": piece} for piece in cut(self.thinking, size)),
            *({"content": piece} for piece in pieces),
        ]
        for index, call in enumerate(self.calls or ()):
            function = {"name": call["name"], "arguments": ""}
            head = {"index": index, "id": call["id"], "type": "function", "function": function}
            deltas.append({"tool_calls": [head]})
            for piece in cut(call["args"], size):
                entry = {"index": index, "function": {"arguments": piece}}
                deltas.append({"tool_calls": [entry]})
        if self.calls is not None and not self.calls:
            deltas = [{**delta, "tool_calls": []} for delta in deltas]
        return Deltas(deltas, self.finish)

    def expected(self) -> list[tuple[str, Any]]:
        """The calls, as (name, arguments)."""
        return [(call["name"], _with_nulls(call["args"])) for call in self.expect]


def cut(text: str, size: int) -> list[str]:
    """`text` in pieces of `size` characters."""
    return [text[start : start + size] for start in range(0, len(text), size)]


def _with_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_nulls(item) for key, item in value.items()}
    return None if value == _NULL else value


def load_corpus() -> list[Case]:
    """All cases, in the order of their files."""
    cases = []
    for path in sorted(CORPUS.glob("*.toml")):
        rows = tomllib.loads(path.read_text(encoding="utf-8"))["case"]
        cases += [Case(**row) for row in rows]
    return cases


# -- tools ----------------------------------------------------------------------------------------


def _schema(*required: str, closed: bool = False, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {**schema, "additionalProperties": False} if closed else schema


_TEXT = {"type": "string"}
_WHOLE = {"type": "integer"}
_FLAG = {"type": "boolean"}
_TEXTS = {"type": "array", "items": _TEXT}


@dataclass
class Tool:
    """A tool that notes its runs and gives `result`."""

    name: str
    server: str
    schema: Mapping[str, Any]
    read_only: bool = True
    result: str = "done"
    description: str = "a tool"
    identity: str = "kit"
    ran: list[dict[str, Any]] = field(default_factory=list)

    @property
    def original(self) -> str:
        return self.name.rpartition("__")[2]

    async def __call__(self, args: Mapping[str, Any]) -> tuple[str, Any]:
        self.ran.append(dict(args))
        return self.result, "success"


def make_tools() -> list[Tool]:
    """The tools of the corpus: reads and writes, one with a prefix, two of the same name."""
    options = _schema(remind=_WHOLE, private=_FLAG)
    rooms = {"enum": ["kitchen", "hall", "living_room"]}
    nullable = {"anyOf": [_WHOLE, {"type": "null"}]}
    reads = [
        Tool("list_dir", "files", _schema(path=_TEXT)),
        Tool("read_file", "files", _schema("path", path=_TEXT)),
        Tool(
            "search",
            "files",
            _schema("query", query=_TEXT, limit=_WHOLE, exact=_FLAG, kinds=_TEXTS),
        ),
        Tool(
            "get_weather",
            "weather",
            _schema("city", city=_TEXT, unit={"enum": ["celsius", "fahrenheit"]}),
        ),
        Tool("git_status", "git", _schema()),
        Tool("git_log", "git", _schema(count=nullable)),
        Tool("work__find", "work", _schema("text", text=_TEXT)),
        Tool("home__find", "home", _schema("text", text=_TEXT)),
        Tool("dict__lookup", "dict", _schema("text", text=_TEXT)),
    ]
    writes = [
        Tool("write_note", "notes", _schema("path", "text", path=_TEXT, text=_TEXT, tags=_TEXTS)),
        Tool("delete_file", "files", _schema("path", path=_TEXT)),
        Tool(
            "set_light",
            "home",
            _schema("room", "level", room=rooms, level={"type": "number"}, on=_FLAG),
        ),
        Tool(
            "create_event",
            "calendar",
            _schema(
                "title",
                "start",
                closed=True,
                title=_TEXT,
                start=_TEXT,
                attendees=_TEXTS,
                options=options,
            ),
        ),
    ]
    for tool in writes:
        tool.read_only = False
    return [*reads, *writes]


# -- playing --------------------------------------------------------------------------------------


@dataclass
class Played:
    """What came of a case."""

    ran: list[tuple[str, dict[str, Any]]]
    asked: list[tuple[str, Any]]
    notes: list[str]
    shown: str  # the text that streamed, up to the first call or result
    ending: TurnFinished | None
    messages: list[AnyMessage]
    requests: list[dict[str, Any]]

    @property
    def errors(self) -> list[str]:
        """The results that the model was given back in place of a run."""
        return [
            str(message.text)
            for message in self.messages
            if isinstance(message, ToolMessage) and message.additional_kwargs["outcome"] == "error"
        ]

    @property
    def reply(self) -> AIMessage:
        """The stored reply of the case: the first that is not the read before it."""
        return next(
            message
            for message in self.messages
            if isinstance(message, AIMessage) and message.additional_kwargs.get("first_call") != -1
        )


class Stage:
    """One server, one database, one graph; every case has a thread of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = AsyncExitStack()
        self._replies: list[Reply] = []
        self.server = ScriptedServer(self._next, context_length=16_384)
        self.tools = make_tools()
        self.count = 0

    def _next(self, body: dict[str, Any]) -> Reply:
        return self._replies.pop(0) if self._replies else Say(ALL_RIGHT)

    async def open(self) -> None:
        """Start the server and open all that a session needs."""
        self._stack.enter_context(self.server)
        self._memory = await self._stack.enter_async_context(open_memory(self._folder / "m.db"))
        await self._connect()

    async def _connect(self) -> None:
        """A model that has learned nothing of its template yet, and a graph around it."""
        settings = ModelSettings(base_url=self.server.base_url)
        model = await self._stack.enter_async_context(await connect_model(settings, timeout=20.0))
        memory = self._memory
        graph = build_graph(
            model,
            self.tools,
            routes={"all": [tool.name for tool in self.tools]},
            route=OneRoute(),
            policy=decide,
            repair=repair,
            journal=memory.journal,
            seal=Seal(b"k" * 32),
            window=Window(16_384),
            system_prompt="You are a test.",
            limits=Limits(),
            checkpointer=memory.saver,
        )
        self._session = lambda thread: Session(
            graph,
            thread,
            journal=memory.journal,
            threads=memory.threads,
            model_name=lambda: "scripted",
            translate=lambda exc: None,
        )

    async def close(self) -> None:
        await self._stack.aclose()

    async def play(self, case: Case, size: int) -> Played:
        """Send a prompt; the reply of the case comes in pieces of `size` characters."""
        self.count += 1
        session = self._session(f"t{self.count}")
        await self._read_before(session, case)
        for tool in self.tools:
            tool.ran.clear()
        asked_before = len(self.server.requests)
        before = len(await session.messages())
        self._replies = [case.reply(size)]
        if case.outcome == "said":  # an empty reply is asked for once more
            self._replies.append(case.reply(size))
        events = [event async for event in session.send(case.prompt)]
        self._replies = []
        messages = (await session.messages())[before:]
        if case.closes_only:
            await self._connect()
        shown = ""
        for event in events:
            if isinstance(event, TextDelta):
                shown += event.text
            elif isinstance(event, ToolStarted | ToolFinished | ApprovalRequested):
                break
        asked = [call for e in events if isinstance(e, ApprovalRequested) for call in e.calls]
        ran = [(tool.name, args) for tool in self.tools for args in tool.ran]
        return Played(
            ran=ran,
            asked=[(call.name, dict(call.args)) for call in asked],
            notes=[call.repaired for call in asked],
            shown=shown,
            ending=events[-1] if isinstance(events[-1], TurnFinished) else None,
            messages=messages,
            requests=self.server.requests[asked_before:],
        )

    async def _read_before(self, session: Session, case: Case) -> None:
        """A turn in which the model has read `case.read` with a tool."""
        if not case.read:
            return
        tool = next(tool for tool in self.tools if tool.name == "read_file")
        tool.result = case.read
        call = {"name": "read_file", "args": json.dumps({"path": "a.md"}), "id": "call_0"}
        first = Case("read", "run", calls=[call], finish="tool_calls")
        self._replies = [first.reply(50), Say("I have read it.")]
        _ = [event async for event in session.send("read a.md")]
        tool.result = "done"
