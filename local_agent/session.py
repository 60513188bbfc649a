"""One conversation on one thread: runs the graph, turns its stream into events, ends turns cleanly.

`send`, `resume` and `proceed` are async iterators of events. They end with `TurnFinished`, or with
`ApprovalRequested` when a person must decide; then `resume` goes on, or `park` leaves it waiting.
Whoever cancels one of them calls `abandon` next, so that no call is left without a result.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command

from agent_core.ports import Journal
from agent_graph import ANSWERS
from context import PromptTooLong, text_of
from local_agent.errors import AgentError, ModelError, StorageError, StreamBroken
from local_agent.events import (
    ApprovalRequested,
    Decisions,
    Event,
    Interrupted,
    Notice,
    RouteChosen,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolCallSummary,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    pending_calls,
)
from local_agent.interrupted import closing_messages, interrupted_turn, untaken_input

ENDINGS = {
    "step_limit": "Stopped after the allowed number of model calls; this answer is unfinished.",
    "loop": "Stopped: the same tool call came three times; this answer is unfinished.",
}
GRAPH_STEPS = 2000  # above what the bounded model calls of a turn and their tool calls can take


class ThreadRecord(Protocol):
    """The table of threads, as a session writes it."""

    async def touch(
        self, thread: str, *, title: str | None, messages: int, turns: int, model: str | None
    ) -> None: ...

    async def keep_basis(self, key: str, text: str) -> None: ...


class TextIndex(Protocol):
    """The index of words, as a session keeps it. Raises nothing."""

    async def sync(self, thread: str, messages: Sequence[AnyMessage]) -> None: ...


class SessionJournal(Journal, Protocol):
    async def settle(self, thread: str) -> None: ...


@dataclass(slots=True)
class _Turn:
    """What a turn has come to so far."""

    route: str = ""
    partial: str = ""
    answer: AIMessage | None = None
    calls: dict[str, ToolCallSummary] = field(default_factory=dict)
    args: dict[str, dict[str, Any]] = field(default_factory=dict)
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    steps: int = 0


class Session:
    """A thread that is open in this process. Its lock is held by whoever made the session."""

    def __init__(
        self,
        graph: CompiledStateGraph[Any, None, Any, Any],
        thread: str,
        *,
        journal: SessionJournal,
        threads: ThreadRecord,
        model_name: Callable[[], str],
        translate: Callable[[BaseException], AgentError | None],
        index: TextIndex | None = None,
    ) -> None:
        self.thread = thread
        self._graph = graph
        self._journal = journal
        self._threads = threads
        self._model_name = model_name
        self._translate = translate
        self._index = index
        self._turn = _Turn()
        self._kept_bases: set[str] = set()
        self._config: RunnableConfig = {
            "configurable": {"thread_id": thread},
            "recursion_limit": GRAPH_STEPS,
        }

    # -- what is there ----------------------------------------------------------------------------

    async def messages(self) -> list[AnyMessage]:
        """All stored messages of the thread, oldest first."""
        state = await self._graph.aget_state(self._config)
        return list(state.values.get("messages", []))

    async def values(self) -> dict[str, Any]:
        """What the thread's state holds by the names of its fields; nothing before it began."""
        return dict((await self._graph.aget_state(self._config)).values)

    async def update(self, values: Mapping[str, Any]) -> None:
        """Put `values` into the state, between two turns."""
        await self._graph.aupdate_state(self._config, dict(values), as_node="agent")
        await self._record()

    async def pending(self) -> ApprovalRequested | None:
        """The approval that the thread waits for, if any. A damaged one raises `StorageError`."""
        state = await self._graph.aget_state(self._config)
        return next((self._approval(i.id, i.value) for i in state.interrupts), None)

    async def is_unfinished(self) -> bool:
        """Whether a turn was broken off by a crash: a step is there, and nobody to ask.

        A step that has run and whose end is not on disk yet has tasks, but no name in `next`.
        """
        state = await self._graph.aget_state(self._config)
        return bool(state.tasks) and not state.interrupts

    async def interrupted(self) -> Interrupted | None:
        """What a turn was doing that a crash broke off; None where there is no such turn."""
        state = await self._graph.aget_state(self._config)
        untaken = await untaken_input(self._graph, self._config, state)
        return await interrupted_turn(state, untaken, self.thread, self._journal)

    # -- running ----------------------------------------------------------------------------------

    async def send(self, text: str) -> AsyncIterator[Event]:
        """Run one turn with the prompt `text`. Raises nothing: a failure is the turn's status."""
        self._turn = _Turn()
        prompt = HumanMessage(text, id=uuid.uuid4().hex)
        async for event in self._run({"messages": [prompt]}):
            yield event

    async def resume(self, approval_id: str, decisions: Decisions) -> AsyncIterator[Event]:
        """Go on from the approval `approval_id`; a call of it without a decision is refused.

        An approval that is not the one the thread waits for changes nothing.
        """
        state = await self._graph.aget_state(self._config)
        value = next((i.value for i in state.interrupts if i.id == approval_id), None)
        if value is None:
            yield self._finished("error", "This approval was decided already; nothing was run.")
            return
        self._turn.route = state.values.get("route", "")
        shown = {call.call_id: asdict(call) for call in self._approval(approval_id, value).calls}
        answers = {
            call_id: {**asdict(decision), "shown": shown[call_id]}
            for call_id, decision in decisions.items()
            if call_id in shown
        }
        # The answers go by memory alone. What the graph is resumed with only says: go on.
        async for event in self._run(Command(resume={approval_id: True}), answers):
            yield event

    async def proceed(self) -> AsyncIterator[Event]:
        """Go on with a turn that a crash broke off."""
        self._turn = _Turn()
        async for event in self._run(None):
            yield event

    async def retry(self) -> AsyncIterator[Event]:
        """Ask the model again where the last turn ended without an answer; no tool runs again."""
        messages = await self.messages()
        last = messages[-1] if messages else None
        status = last.additional_kwargs.get("status") if last else None
        if last is None or status not in ("error", "cancelled", "timeout"):
            yield Notice("There is nothing to try again.", "warning")
            return
        removal = {"messages": [RemoveMessage(id=last.id or "")]}
        await self._graph.aupdate_state(self._config, removal, as_node="router")
        async for event in self.proceed():
            yield event

    async def _run(
        self, graph_input: Any, answers: Mapping[str, Any] | None = None
    ) -> AsyncIterator[Event]:
        approval: ApprovalRequested | None = None
        try:
            async for event in self._stream(graph_input, answers):
                if isinstance(event, ApprovalRequested):
                    approval = event  # shown when it is on disk: the stream has ended
                else:
                    yield event
            if approval is not None:
                await self._note_waiting()
            yield approval or await self._finish()
        except Exception as exc:  # noqa: BLE001 - one turn is isolated: it fails, the thread goes on
            yield await self.abandon("error", self._error_of(exc))

    async def _stream(
        self, graph_input: Any, answers: Mapping[str, Any] | None
    ) -> AsyncIterator[Event]:
        config = self._config
        if answers is not None:
            config = {**config, "configurable": {**config["configurable"], ANSWERS: answers}}
        stream = self._graph.astream(
            graph_input, config, stream_mode=["custom", "updates"], durability="sync"
        )
        mode: str
        chunk: dict[str, Any]
        async for mode, chunk in stream:  # type: ignore[assignment]  # two modes: pairs
            if mode == "custom" and chunk["event"] == "basis":
                await self._keep_basis(chunk["key"], chunk["text"])
                continue
            if mode == "custom":
                for event in self._event(chunk):
                    yield event
                continue
            for node, update in chunk.items():
                if node == "__interrupt__":
                    yield self._approval(update[0].id, update[0].value)
                elif node == "agent" and update.get("messages"):
                    self._note_reply(update["messages"])

    async def _keep_basis(self, key: str, text: str) -> None:
        if key not in self._kept_bases:
            self._kept_bases.add(key)
            await self._threads.keep_basis(key, text)

    def _note_reply(self, messages: list[AnyMessage]) -> None:
        reply = messages[0]
        self._turn.partial = ""
        self._turn.steps += 1
        if isinstance(reply, AIMessage):
            for call in reply.tool_calls:
                self._turn.args[call["id"] or ""] = call["args"]
            if not reply.tool_calls:
                self._turn.answer = reply

    def _event(self, chunk: dict[str, Any]) -> list[Event]:
        turn = self._turn
        match chunk["event"]:
            case "text":
                turn.partial += chunk["text"]
                return [TextDelta(chunk["text"])]
            case "thinking":
                return [ThinkingDelta(chunk["text"])]
            case "route":
                turn.route = chunk["name"]
                return [RouteChosen(chunk["name"])] if chunk["name"] else []
            case "start":
                fields = {k: v for k, v in chunk.items() if k != "event"}
                turn.args[chunk["call_id"]] = chunk["args"]
                return [ToolStarted(**fields)]
            case "result":
                fields = {k: v for k, v in chunk.items() if k != "event"}
                args = turn.args.get(chunk["call_id"], {})
                summary = ToolCallSummary(chunk["name"], args, chunk["status"])
                turn.calls[chunk["call_id"] + str(turn.steps)] = summary
                return [ToolFinished(**fields)]
            case "usage":
                turn.input_tokens += chunk["input"]
                turn.output_tokens += chunk["output"]
                turn.cached_tokens += chunk["cached"]
                return []
            case "notice":
                return [Notice(chunk["text"], chunk["level"])]
        return []

    def _approval(self, approval_id: str, value: object) -> ApprovalRequested:
        try:
            calls = pending_calls(value)
        except ValueError as exc:
            hint = "Take another thread; this one cannot go on."
            raise StorageError(f"The approval {approval_id} is damaged.", hint) from exc
        for call in calls:
            self._turn.args[call.call_id] = dict(call.args)
        return ApprovalRequested(approval_id, self.thread, calls)

    # -- ending -----------------------------------------------------------------------------------

    async def _finish(self) -> TurnFinished:
        answer = self._turn.answer
        status: Any = (answer.additional_kwargs.get("status") if answer else None) or "ok"
        error = answer.additional_kwargs.get("error") if answer else None
        await self._record()
        if status in ENDINGS:
            return self._finished("step_limit", ENDINGS[status])
        return self._finished(status, error)

    def park(self, approval: ApprovalRequested) -> TurnFinished:
        """Leave the turn waiting for its approval; it goes on whenever somebody decides."""
        count = len(approval.calls)
        text = f"{count} tool {'call waits' if count == 1 else 'calls wait'} for approval."
        return self._finished("approval_required", text, approval.id)

    async def abandon(self, status: Status, error: str | None = None) -> TurnFinished:
        """End the turn where it stands: each open call gets a result, the answer so far is kept.

        Called after a cancellation, a timeout or a failure. Nothing is raised: what cannot be
        written is said in the returned error.
        """
        whole = self._turn.answer  # it came, and could not be saved
        partial = text_of(whole.content) if whole else self._turn.partial.strip()
        text = f"{partial}\n[cut off here]" if partial and not whole else partial
        try:
            await self._close(status, error, text)
            await self._record()
        except Exception as exc:  # noqa: BLE001 - the turn is over; whatever failed, say so
            why = self._error_of(exc)
            error = why if error in (None, why) else f"{error} Not saved: {why}"
        answer = AIMessage(partial) if partial else None
        self._turn.answer = answer
        return self._finished(status, error)

    async def discard(self) -> str:
        """Close a turn that a crash broke off, without going on with it; returns its prompt."""
        self._turn = _Turn()
        turn = await self.interrupted()
        await self._close("cancelled", None, "", is_crash=True)
        await self._record()
        return turn.prompt if turn else ""

    async def _close(
        self, status: Status, error: str | None, text: str, *, is_crash: bool = False
    ) -> None:
        state = await self._graph.aget_state(self._config)
        if not state.tasks:
            return
        why = {"status": status, "error": error, "route": self._turn.route}
        untaken = await untaken_input(self._graph, self._config, state)
        place = (self.thread, self._journal)
        update = await closing_messages(state, untaken, *place, text, why, is_crash=is_crash)
        await self._graph.aupdate_state(self._config, {"messages": update}, as_node="agent")

    async def _note_waiting(self) -> None:
        """Enter the thread as it waits. Without that it waits too, and is only not listed so."""
        with suppress(StorageError):
            await self._enter(await self.messages())

    async def _record(self) -> None:
        messages = await self.messages()
        await self._enter(messages)
        await self._journal.settle(self.thread)
        if self._index is not None:
            await self._index.sync(self.thread, messages)

    async def _enter(self, messages: Sequence[AnyMessage]) -> None:
        prompts = [m for m in messages if isinstance(m, HumanMessage)]
        title = " ".join(text_of(prompts[0].content).split())[:80] if prompts else None
        await self._threads.touch(
            self.thread,
            title=title,
            messages=len(messages),
            turns=len(prompts),
            model=self._model_name(),
        )

    def _finished(
        self, status: Status, error: str | None, approval_id: str | None = None
    ) -> TurnFinished:
        turn = self._turn
        return TurnFinished(
            thread=self.thread,
            route=turn.route,
            answer=text_of(turn.answer.content) if turn.answer else "",
            status=status,
            tool_calls=tuple(turn.calls.values()),
            input_tokens=turn.input_tokens,
            output_tokens=turn.output_tokens,
            cached_tokens=turn.cached_tokens,
            steps=turn.steps,
            error=error,
            approval_id=approval_id,
        )

    def _error_of(self, exc: BaseException) -> str:
        if isinstance(exc, StreamBroken) and exc.partial and not self._turn.partial:
            self._turn.partial = exc.partial
        if isinstance(exc, AgentError):
            return str(exc)
        if isinstance(exc, PromptTooLong):
            hint = "Load the model with a longer context, or make the prompt shorter."
            return str(ModelError(f"{str(exc)[0].upper()}{str(exc)[1:]}.", hint))
        known = self._translate(exc)
        return str(known) if known else f"Unexpected: {type(exc).__name__}: {exc}"
