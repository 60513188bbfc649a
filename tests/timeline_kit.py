"""A session and the timeline of its thread, over scripted collaborators on a real SQLite file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from langchain_core.messages import AnyMessage

from context import text_of
from local_agent.events import ApprovalRequested, Decision
from local_agent.memory import Memory
from local_agent.session import Session
from local_agent.timeline import Timeline
from tests.graph_kit import ScriptedModel, ScriptedTool, collect, open_session


@asynccontextmanager
async def open_line(
    path: Path,
    replies: Sequence[Any] = (),
    tools: Sequence[ScriptedTool] = (),
    **options: Any,
) -> AsyncIterator[tuple[Session, Timeline, ScriptedModel]]:
    """The session, the timeline and the model of one opening of the database."""
    held: list[Memory] = []
    model = ScriptedModel(list(replies))

    def saver(memory: Memory) -> Any:
        held.append(memory)
        return memory.saver

    async with open_session(path, model, tools, saver=saver, **options) as session:
        yield session, Timeline(session._graph, held[0], session.thread), model


async def send(session: Session, text: str, yes: bool | None = None) -> Any:
    """Send a prompt; with `yes`, what is asked is answered so. The last event."""
    last = (await collect(session.send(text)))[-1]
    return last if yes is None else await answer(session, last, yes)


async def answer(session: Session, asked: Any, yes: bool = True) -> Any:
    """Answer what is asked until the turn ends. The last event."""
    while isinstance(asked, ApprovalRequested):
        decisions: Mapping[str, Decision] = {c.call_id: Decision(yes) for c in asked.calls}
        asked = (await collect(session.resume(asked.id, decisions)))[-1]
    return asked


def texts(messages: Sequence[AnyMessage]) -> list[str]:
    """The messages as "type: text", a system prompt left out."""
    return [f"{m.type}: {text_of(m.content)}" for m in messages if m.type != "system"]
