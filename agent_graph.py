"""The agent: state, nodes and edges of the graph that runs one turn of a thread.

    START -> router -> agent -> END
                       |   ^
                 calls |   | none open
                       v   |
                     collect -> approve
                       ^  |        |
                       |  v        v
                       tools <-----+ (by way of collect)

The graph is handed all it works with and finds nothing itself. `collect` looks at the calls of the
last message that have no result yet, in order: a run of calls that need no asking goes to `tools`
at once, one task each, so that what has finished is not run again after a crash; the first that
needs asking sends all that do to `approve`, which asks once and runs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Send, interrupt

from agent_hear import Hearer
from agent_ports import Journal, Model, Policy, Repair, Router, Run, Seal, Tool
from agent_reply import Asker, Limits, emit, emit_result, emit_usage
from agent_turn import (
    BAD_REPLIES,
    answer_of,
    bad_in_a_row,
    closing,
    current_turn,
    is_looping,
    last_answer,
    open_calls,
    result_of,
    split_calls,
    steps_of,
)
from context import Window, text_of

# Snapshots copy the whole conversation. Measured with 4 KB results: each fixed period makes the
# file grow with the square of the turns, and a snapshot saves at most half of the time of loading
# a long thread (building the messages is the rest: 38 of 96 ms at 700 turns). So none is taken,
# but for those LangGraph takes by itself: at a fork, at an `Overwrite`, after 5,000 supersteps.
NEVER = 1_000_000_000


def messages_channel() -> Any:
    """What stands in `Annotated[list[AnyMessage], messages_channel()]`.

    A channel that stores each update once and builds the list again from the stored updates.
    Where this LangGraph has no such channel: the reducer that stores the list at every step.
    Either reads what the other wrote.
    """
    try:
        # The reducer has no public name yet; the channel is marked beta.
        from langgraph.channels.delta import DeltaChannel
        from langgraph.graph.message import _messages_delta_reducer
    except ImportError:
        return add_messages
    reducer: Any = _messages_delta_reducer
    return DeltaChannel(reducer, snapshot_frequency=NEVER)


# Where the answers to an approval stand in the configuration of a run, by call id, each with what
# was shown. LangGraph keeps configuration out of the checkpoint where its name begins like this.
ANSWERS = "__answers"
RESULT_LOST = "[it ran; its result was lost]"


class State(TypedDict, total=False):
    """Messages and plain JSON values only, so that nothing else is ever read back from disk."""

    messages: Annotated[list[AnyMessage], messages_channel()]
    route: str
    summary: str  # of the turns that are folded; empty while there are none
    summary_upto: str  # id of the last message that is folded
    facts: list[str]  # what the summary lost and must survive
    compacted_upto: str  # id of the last message whose older results are stubs
    pinned: list[str]  # handles of results that stay whole
    decisions: dict[str, str]  # call id -> the mark of a yes to it
    unknown: dict[str, int]  # ids of writes that may have run -> how often they were started
    allowed: dict[str, str]  # "server/tool" allowed for this thread -> the mark of that yes


# -- nodes ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Agent:
    """The nodes, over the collaborators that they share."""

    asker: Asker
    tools: Mapping[str, Tool]
    routes: Mapping[str, Sequence[str]]
    route: Router
    policy: Policy
    hearer: Hearer
    journal: Journal
    seal: Seal
    max_steps: int

    async def router(self, state: State) -> State:
        name, usage = await self.route(state["messages"], state.get("route", ""))
        emit_usage(usage)
        emit(event="route", name=name)
        return {"route": name, "decisions": {}, "unknown": {}}

    async def agent(self, state: State) -> State:
        turn = current_turn(state["messages"])
        why = self._why_last(turn)
        reply = await self.asker.reply(state["messages"], self._tools_of(state), last=bool(why))
        reply.additional_kwargs["route"] = state.get("route", "")
        reply = await self.hearer.hear(reply, state, self._tools_of(state), last=bool(why))
        if why:
            return {"messages": [last_answer(reply, why, turn)]}
        if not reply.tool_calls and not reply.invalid_tool_calls:
            return {"messages": [answer_of(reply)]}
        reply, refused = split_calls(reply, state["messages"])
        if reply.additional_kwargs.get("bad_calls") and bad_in_a_row(turn) + 1 >= BAD_REPLIES:
            error = f"The model wrote no usable tool call. {text_of(refused[-1].content)}"
            return {"messages": [closing(reply, "error", error)]}
        for message in refused:
            emit_result(message)
        return {"messages": [reply, *refused]}

    def _why_last(self, turn: Sequence[AnyMessage]) -> str:
        """Why this model call must be the last of the turn; empty while it need not."""
        if steps_of(turn) >= self.max_steps:
            return "step_limit"
        return "loop" if is_looping(turn) else ""

    def _tools_of(self, state: State) -> Sequence[Tool]:
        names = self.routes.get(state.get("route", ""), ())
        return [self.tools[name] for name in names if name in self.tools]

    async def collect(
        self, state: State, config: RunnableConfig
    ) -> Command[Literal["tools", "approve", "agent", "collect"]]:
        thread = config["configurable"]["thread_id"]
        message_id, calls = open_calls(state["messages"])
        granted = _granted(state)
        ready: list[Send] = []
        for call in calls:
            tool = self.tools.get(call["name"])
            if tool is None:
                run = await self.journal.find(thread, message_id, call["id"])
                return Command(goto="collect", update={"messages": [_gone(call, run)]})
            verdict = self._verdict(call, tool, (thread, message_id), granted)
            if verdict == "deny":
                text = "Not run: the user's rules forbid this call. It is not a failure."
                return Command(goto="collect", update={"messages": [_refuse(call, text, "denied")]})
            if verdict == "ask":
                return Command(goto=ready or "approve")
            task = Send("tools", {"call": call, "message_id": message_id, "granted": granted})
            if not tool.read_only:  # runs alone, so that what stands behind it sees its effect
                return Command(goto=ready or [task])
            ready.append(task)
        return Command(goto=ready or "agent")

    def _verdict(
        self, call: Mapping[str, Any], tool: Tool, place: tuple[str, str], granted: State
    ) -> Literal["allow", "ask", "deny"]:
        """What becomes of `call` in the message at `place` (thread, message id)."""
        yes = granted["decisions"].get(call["id"], "")
        starts = granted["unknown"].get(call["id"], 0)
        if self.seal.holds(yes, *_yes_to_call(call, tool, place, starts)):
            return "allow"
        if starts:
            return "ask"
        name = _full_name(tool)
        mark = granted["allowed"].get(name, "")
        allowed = [name] if self.seal.holds(mark, *_yes_to_tool(tool, place[0])) else []
        verdict = self.policy(tool, call["args"], allowed)
        # What the model did not write in so many words is never allowed by a rule.
        is_asked = verdict == "allow" and call.get("repaired") and not tool.read_only
        return "ask" if is_asked else verdict

    def approve(self, state: State, config: RunnableConfig) -> Command[Literal["collect"]]:
        """Ask once for all open calls that need it. Nothing may happen before the interrupt.

        What a person answered comes in the configuration of this very run, with what they were
        shown. The value that the interrupt gives back is not looked at: it can come from the disk.
        """
        thread = config["configurable"]["thread_id"]
        answers: Mapping[str, Any] = config["configurable"].get(ANSWERS) or {}
        message_id, calls = open_calls(state["messages"])
        place, granted = (thread, message_id), _granted(state)
        unknown = granted["unknown"]
        known = [(call, tool) for call in calls if (tool := self.tools.get(call["name"]))]
        asked = [pair for pair in known if self._verdict(*pair, place, granted) == "ask"]
        pending = [_pending(call, tool, unknown) for call, tool in asked]
        if asked:
            interrupt({"kind": "approval", "message_id": message_id, "calls": pending})
        if any(answers[p["call_id"]]["shown"] != p for p in pending if p["call_id"] in answers):
            return Command(goto="collect")  # something else was shown: ask about what there is
        decisions, allowed = dict(granted["decisions"]), dict(granted["allowed"])
        refused: list[AnyMessage] = []
        asked_ids = {call["id"] for call, _ in asked}
        for call, tool in known:
            answer = answers.get(call["id"], {"approve": call["id"] not in asked_ids})
            if not answer["approve"]:  # also of a call that would not be asked about any more
                refused.append(_no(call, call["id"] in unknown, str(answer.get("reason") or "")))
            elif call["id"] in asked_ids:
                yes = _yes_to_call(call, tool, place, unknown.get(call["id"], 0))
                decisions[call["id"]] = self.seal.sign(*yes)
                if answer["scope"] == "thread":
                    allowed[_full_name(tool)] = self.seal.sign(*_yes_to_tool(tool, thread))
        update = {"messages": refused, "decisions": decisions, "allowed": allowed}
        return Command(goto="collect", update=update)

    async def run_tool(self, task: dict[str, Any], config: RunnableConfig) -> dict[str, Any]:
        """Run one call, unless the journal says that a write of it may already have run.

        What may run is decided once more: the task may have been read back from disk.
        """
        call, message_id, granted = task["call"], task["message_id"], task["granted"]
        thread, tool = config["configurable"]["thread_id"], self.tools.get(call["name"])
        key = (thread, message_id, call["id"])
        if tool is None or self._verdict(call, tool, key[:2], granted) != "allow":
            return {}
        run = await self.journal.find(*key)
        is_write = not tool.read_only or (run is not None and run.is_write)
        if run and is_write and run.outcome is not None:
            return {"messages": [result_of(call, run.result or RESULT_LOST, run.outcome)]}
        if run and is_write and run.starts > granted["unknown"].get(call["id"], 0):
            return {"unknown": {call["id"]: run.starts}}
        await self.journal.begin(*key, tool.name, is_write)
        emit(
            event="start",
            call_id=call["id"],
            name=call["name"],
            server=tool.server,
            tool=tool.original,
            args=call["args"],
        )
        text, status = await tool(call["args"])
        await self.journal.end(*key, status, text if is_write else None)
        message = result_of(call, text, status)
        emit_result(message)
        return {"messages": [message]}


def _granted(state: State) -> State:
    """The part of the state that says what was allowed; a task carries it along."""
    return {
        "decisions": state.get("decisions", {}),
        "unknown": state.get("unknown", {}),
        "allowed": state.get("allowed", {}),
    }


def _full_name(tool: Tool) -> str:
    return f"{tool.server}/{tool.original}"


def _yes_to_call(
    call: Mapping[str, Any], tool: Tool, place: tuple[str, str], starts: int
) -> tuple[str, ...]:
    """What a yes to a call is marked over: it counts for the starts of it that were known."""
    args = json.dumps(call["args"], sort_keys=True)
    return ("run", *place, call["id"], _full_name(tool), tool.identity, args, str(starts))


def _yes_to_tool(tool: Tool, thread: str) -> tuple[str, ...]:
    """What a yes to a tool for the rest of the thread is marked over."""
    return ("allow", thread, _full_name(tool), tool.identity)


def _pending(call: Mapping[str, Any], tool: Tool, unknown: Mapping[str, int]) -> dict[str, Any]:
    return {
        "call_id": call["id"],
        "name": call["name"],
        "server": tool.server,
        "tool": tool.original,
        "args": call["args"],
        "why": "unknown_outcome" if call["id"] in unknown else "write",
        "repaired": call.get("repaired", ""),
    }


def _gone(call: Mapping[str, Any], run: Run | None) -> ToolMessage:
    """The result of a call whose tool is not there (any more)."""
    if run and run.is_write and run.outcome is None:
        return _no(call, True, "")
    if run and run.is_write and run.outcome is not None:
        return result_of(call, run.result or RESULT_LOST, run.outcome)
    text = f"The tool {call['name']} is not there any more; its server may be down."
    return _refuse(call, text, "error")


def _refuse(call: Mapping[str, Any], text: str, outcome: str) -> ToolMessage:
    message = result_of(call, text, outcome)
    emit_result(message)
    return message


def _no(call: Mapping[str, Any], is_unknown: bool, reason: str) -> ToolMessage:
    """The result of a call that a person did not allow, in words that a small model can follow."""
    if is_unknown:
        text = (
            "The program was interrupted while this call ran. Whether it was carried out is "
            "unknown. It was not run again."
        )
        return _refuse(call, text, "unknown")
    text = "The user did not allow this call; it was not run. This is no failure: do not repeat it."
    return _refuse(call, f"{text} Reason: {reason}" if reason else text, "denied")


# -- wiring ---------------------------------------------------------------------------------------


def build_graph(
    model: Model,
    tools: Sequence[Tool],
    *,
    routes: Mapping[str, Sequence[str]],
    route: Router,
    policy: Policy,
    repair: Repair,
    journal: Journal,
    seal: Seal,
    window: Window,
    system_prompt: str,
    limits: Limits | None = None,
    checkpointer: BaseCheckpointSaver[str] | None = None,
    state: type[Any] = State,
) -> CompiledStateGraph[Any, None, Any, Any]:
    """The compiled agent. `routes` maps each route's name to the names of its tools.

    `state` is for another way to store the same values: a benchmark compares two.
    """
    limits = limits or Limits()
    by_name = {tool.name: tool for tool in tools}
    asker = Asker(model, window, system_prompt, limits)
    hearer = Hearer(asker, repair)
    agent = _Agent(asker, by_name, routes, route, policy, hearer, journal, seal, limits.max_steps)
    graph = StateGraph(state)
    graph.add_node("router", agent.router, input_schema=state)
    graph.add_node("agent", agent.agent, input_schema=state)
    graph.add_node("collect", agent.collect, input_schema=state)
    graph.add_node("approve", agent.approve, input_schema=state)
    graph.add_node("tools", agent.run_tool)  # type: ignore[arg-type]  # its input is a task of Send
    graph.add_edge(START, "router")
    graph.add_edge("router", "agent")
    graph.add_conditional_edges("agent", _next_of_agent, {"collect": "collect", END: END})
    graph.add_edge("tools", "collect")
    return graph.compile(checkpointer=checkpointer)


def _next_of_agent(state: Mapping[str, Any]) -> str:
    """To `collect` while the last reply had calls, also when each of them was refused already."""
    last = next(m for m in reversed(state["messages"]) if isinstance(m, AIMessage))
    return "collect" if last.tool_calls else END
