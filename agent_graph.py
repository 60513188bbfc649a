"""The agent: state, nodes and edges of the graph that runs one turn of a thread.

    START -> router -> maintain? -> agent -> END
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
needs asking sends all that do to `approve`, which asks once and runs nothing. `maintain` runs
where the view has passed its high-water mark, and makes it short again. A turn that was to need no
tool, and does, comes to `agent` a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Send, interrupt

from agent_core.calls import (
    RESULT_LOST,
    full_name,
    granted_in,
    not_allowed,
    question_of,
    refusal,
    repeated,
    why_asked,
    without_tool,
    yes_to_call,
    yes_to_tool,
)
from agent_core.hear import Hearer
from agent_core.ledger import Ledger
from agent_core.limits import Limits
from agent_core.maintain import Maintainer, is_due
from agent_core.messages import messages_channel
from agent_core.ports import Journal, Model, Policy, Repair, Router, Seal, Tool
from agent_core.prompt import Composer
from agent_core.quiet import answered_quietly
from agent_core.repeats import answer_to_repeat, marks_of_next, wants_words
from agent_core.reply import Asker, emit, emit_notice, emit_result, emit_start, emit_usage
from agent_core.steer import Steering, next_of_agent
from agent_core.summary import Summariser
from agent_core.toolset import LOUD
from agent_core.turn import (
    BAD_REPLIES,
    answer_of,
    bad_in_a_row,
    call_key,
    closing,
    current_turn,
    is_looping,
    open_calls,
    result_of,
    split_calls,
    steps_of,
)
from agent_core.words import answered_in_words, last_words
from context import Window, text_of

# Where the answers to an approval stand in the configuration of a run, by call id, each with what
# was shown. LangGraph keeps configuration out of the checkpoint where its name begins like this.
ANSWERS = "__answers"


class State(TypedDict, total=False):
    """Messages and plain JSON values only, so that nothing else is ever read back from disk."""

    messages: Annotated[list[AnyMessage], messages_channel()]
    route: str
    toolset: dict[str, str | list[str]]  # of the prompt; see `agent_core.toolset`
    toolset_before: dict[str, str | list[str]]  # that of the turn before, where it is another
    quiet: str  # how sure it is that this turn needs no tool; "over": it does after all
    summary: str  # of the turns that are folded; empty while there are none
    summary_upto: str  # id of the last message that is folded
    facts: list[str]  # what the summary lost and must survive
    compacted_upto: str  # id of the last message whose older results are stubs
    stubbed_upto: str  # id of a result up to which all are stubs, of whatever turn
    pinned: list[str]  # handles of results that stay whole
    cuts: dict[str, int]  # message id -> characters of it shown; see `agent_core.view.Marks`
    steps: int  # how often the view was made shorter
    nudged: list[str]  # ids of results behind which the model is asked for its answer
    lookup: bool  # something is not shown whole: the lookup tools are in the prompt
    summary_asked: str  # id of the last message when a summary was last asked for
    former: dict[str, Any]  # these marks before the last compaction, to undo it
    decisions: dict[str, str]  # call id -> the mark of a yes to it
    unknown: dict[str, int]  # ids of writes that may have run -> how often they were started
    ran: dict[str, str]  # `call_key` of writes that ran on a course that was left -> when
    allowed: dict[str, str]  # "server/tool" allowed for this thread -> the mark of that yes


# -- nodes ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Agent:
    """The nodes, over the collaborators that they share."""

    asker: Asker
    maintainer: Maintainer
    composer: Composer
    ledger: Ledger
    tools: Mapping[str, Tool]
    steering: Steering
    policy: Policy
    hearer: Hearer
    journal: Journal
    seal: Seal
    max_steps: Callable[[], int]
    drops_repeats: bool

    async def router(self, state: State) -> dict[str, Any]:
        update, usage = await self.steering.turn(state)
        if usage:
            self.ledger.side_call("router")
        emit_usage(usage)
        emit(event="route", name=update["route"])
        return {**update, "decisions": {}, "unknown": {}}

    def next_of_router(self, state: Mapping[str, Any]) -> Literal["maintain", "agent"]:
        is_long = is_due(state, self.steering.tools_of(state), self.composer)
        return "maintain" if is_long else "agent"

    async def maintain(self, state: State, config: RunnableConfig) -> dict[str, Any]:
        outcome = await self.maintainer.maintain(
            state,
            self.steering.tools_of(state),
            thread=config["configurable"]["thread_id"],
            before=self.steering.tools_before(state),
            say=lambda text: emit_notice(text, "info"),
        )
        for usage in outcome.usage:
            emit_usage(usage)
        emit_notice(outcome.notice, "info")
        return outcome.update

    async def agent(self, state: State, config: RunnableConfig) -> dict[str, Any]:
        turn, thread = current_turn(state["messages"]), config["configurable"]["thread_id"]
        if state.get("quiet") not in (None, "", LOUD) and steps_of(turn) == 0:
            answer, update = await answered_quietly(state, thread, self.steering, self.hearer)
            return {**update, "messages": [answer]} if answer else update
        why, update = self._why_last(turn), dict[str, Any]()
        shared = (state, thread, self.steering, self.hearer)
        if why:
            said, update = await last_words(*shared, why)
            return {**update, "messages": [said]}
        if self.drops_repeats and (reason := wants_words(turn)):
            answer, update = await answered_in_words(*shared, reason)
            if answer:
                return {**update, "messages": [answer]}
        tools = self.steering.tools_of(state)
        reply, more = await self.asker.reply({**state, **update}, tools, last=False, thread=thread)
        reply.additional_kwargs["route"] = state.get("route", "")
        update |= more
        values = {**state, **update}
        reply = await self.hearer.hear(reply, values, tools, self.steering.known(tools, values))
        if state.get("quiet"):
            update["quiet"] = ""
        if not reply.tool_calls and not reply.invalid_tool_calls:
            return {**update, "messages": [answer_of(reply)]}
        update |= self.steering.widened(values, [call["name"] for call in reply.tool_calls])
        reply, refused = split_calls(reply, state["messages"])
        if reply.additional_kwargs.get("bad_calls") and bad_in_a_row(turn) + 1 >= BAD_REPLIES:
            error = f"The model wrote no usable tool call. {text_of(refused[-1].content)}"
            return {**update, "messages": [closing(reply, "error", error)]}
        for message in refused:
            emit_result(message)
        return {**update, "messages": [reply, *refused]}

    def _why_last(self, turn: Sequence[AnyMessage]) -> str:
        """Why the next model call must be the last of the turn; empty while it need not."""
        if steps_of(turn) >= self.max_steps():
            return "step_limit"
        return "loop" if is_looping(turn) else ""

    async def collect(
        self, state: State, config: RunnableConfig
    ) -> Command[Literal["tools", "approve", "agent", "collect"]]:
        thread = config["configurable"]["thread_id"]
        message_id, calls = open_calls(state["messages"])
        granted = granted_in(state)
        most = self.composer.result_tokens(state, self.steering.tools_of(state))
        ready: list[Send] = []
        for call in calls:
            if call["name"] in self.composer.built_in:
                if ready:
                    return Command(goto=ready)
                update = await self._look_up(call, state, (thread, message_id, call["id"]))
                return Command(goto="collect", update=update)
            tool = self.tools.get(call["name"])
            if tool is None:
                run = await self.journal.find(thread, message_id, call["id"])
                return Command(goto="collect", update={"messages": [without_tool(call, run)]})
            said = answer_to_repeat(call, message_id, state["messages"], tool.read_only)
            if said and self.drops_repeats:
                return Command(goto="collect", update={"messages": [repeated(call, said)]})
            verdict = self._verdict(call, tool, (thread, message_id), granted)
            if verdict == "deny":
                text = "Not run: the user's rules forbid this call. It is not a failure."
                return Command(goto="collect", update={"messages": [refusal(call, text, "denied")]})
            if verdict == "ask":
                return Command(goto=ready or "approve")
            task = {"call": call, "message_id": message_id, "granted": granted, "most": most}
            if not tool.read_only:  # runs alone, so that what stands behind it sees its effect
                return Command(goto=ready or [Send("tools", task)])
            ready.append(Send("tools", task))
        if ready:
            return Command(goto=ready)
        return Command(goto="agent", update=self._nudge(state))

    def _nudge(self, state: State) -> dict[str, Any]:
        """Before a model call: repeats are left out, and where it is the last call of the turn, a
        line behind the last result says so."""
        turn = current_turn(state["messages"])
        return marks_of_next(turn, state, last=self._why_last(turn), drops=self.drops_repeats)

    async def _look_up(
        self, call: Mapping[str, Any], state: State, key: tuple[str, str, str]
    ) -> dict[str, Any]:
        """What a call of a built-in tool puts into the state; it reads."""
        composer, name = self.composer, call["name"]
        await self.journal.begin(*key, name, is_write=False)
        emit_start(call, composer.built_in[name].server, name)
        most = composer.result_tokens(state, self.steering.tools_of(state))
        update: dict[str, Any] = {}
        if name == composer.find.name:
            text, update = self.steering.find(state, str(call["args"].get("query") or ""))
            status = "success"
        else:
            text, status = composer.look_up(name, call["args"], state, most)
        await self.journal.end(*key, status, text)
        message = result_of(call, text, status)
        composer.clip(message, most)
        emit_result(message)
        return {**update, "messages": [message]}

    def _verdict(
        self,
        call: Mapping[str, Any],
        tool: Tool,
        place: tuple[str, str],
        granted: Mapping[str, Any],
    ) -> Literal["allow", "ask", "deny"]:
        """What becomes of `call` in the message at `place` (thread, message id)."""
        yes = granted["decisions"].get(call["id"], "")
        starts = granted["unknown"].get(call["id"], 0)
        if self.seal.holds(yes, *yes_to_call(call, tool, place, starts)):
            return "allow"
        if starts:
            return "ask"
        name = full_name(tool)
        mark = granted["allowed"].get(name, "")
        allowed = [name] if self.seal.holds(mark, *yes_to_tool(tool, place[0])) else []
        verdict = self.policy(tool, call["args"], allowed)
        # What ran on another course, or was not written in so many words, no rule allows.
        is_doubtful = call_key(call) in granted["ran"] or bool(call.get("repaired"))
        is_asked = verdict == "allow" and is_doubtful and not tool.read_only
        return "ask" if is_asked else verdict

    def approve(self, state: State, config: RunnableConfig) -> Command[Literal["collect"]]:
        """Ask once for all open calls that need it. Nothing may happen before the interrupt.

        What a person answered comes in the configuration of this very run, with what they were
        shown. The value that the interrupt gives back is not looked at: it can come from the disk.
        """
        thread = config["configurable"]["thread_id"]
        answers: Mapping[str, Any] = config["configurable"].get(ANSWERS) or {}
        message_id, calls = open_calls(state["messages"])
        place, granted = (thread, message_id), granted_in(state)
        unknown, ran = granted["unknown"], dict(granted["ran"])
        known = [(call, tool) for call in calls if (tool := self.tools.get(call["name"]))]
        asked = [pair for pair in known if self._verdict(*pair, place, granted) == "ask"]
        pending = [question_of(call, tool, granted) for call, tool in asked]
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
                reason = str(answer.get("reason") or "")
                refused.append(not_allowed(call, why_asked(call, granted), reason))
            elif call["id"] in asked_ids:
                yes = yes_to_call(call, tool, place, unknown.get(call["id"], 0))
                decisions[call["id"]] = self.seal.sign(*yes)
                ran.pop(call_key(call), None)
                if answer["scope"] == "thread":
                    allowed[full_name(tool)] = self.seal.sign(*yes_to_tool(tool, thread))
        update = {"messages": refused, "decisions": decisions, "allowed": allowed, "ran": ran}
        return Command(goto="collect", update=update)

    async def run_tool(self, task: dict[str, Any], config: RunnableConfig) -> dict[str, Any]:
        """Run one call, unless the journal has its result, or knows a write that may have run.

        What may run is decided once more: the task may have been read back from disk. A result is
        in the journal before it is shown, so that what a person saw is in the thread.
        """
        call, message_id, granted = task["call"], task["message_id"], task["granted"]
        thread, tool = config["configurable"]["thread_id"], self.tools.get(call["name"])
        key = (thread, message_id, call["id"])
        if tool is None or self._verdict(call, tool, key[:2], granted) != "allow":
            return {}
        run = await self.journal.find(*key)
        is_write = not tool.read_only or (run is not None and run.is_write)
        starts = granted["unknown"].get(call["id"], 0)
        if run and (run.starts > starts if is_write else run.result is not None):
            if run.outcome is None:
                return {"unknown": {**granted["unknown"], call["id"]: run.starts}}
            message = result_of(call, run.result or RESULT_LOST, run.outcome)
            self.composer.clip(message, task.get("most"))
            return {"messages": [message]}
        await self.journal.begin(*key, tool.name, is_write)
        emit_start(call, tool.server, tool.original)
        text, status = await tool(call["args"])
        await self.journal.end(*key, status, text)
        message = result_of(call, text, status)
        self.composer.clip(message, task.get("most"))
        emit_result(message)
        return {"messages": [message]}


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
    ledger: Ledger | None = None,
    max_steps: Callable[[], int] | None = None,
    checkpointer: BaseCheckpointSaver[str] | None = None,
    asks_again: bool = True,
    drops_repeats: bool = True,
    state: type[Any] = State,
) -> CompiledStateGraph[Any, None, Any, Any]:
    """The compiled agent. `routes` maps each route's name to the names of its tools.

    `asks_again`: arguments that were wrong twice are asked for again, held to the schema.
    `drops_repeats`: see `agent_core.repeats`.
    `max_steps` gives the model calls of a turn where that is known only late, instead of `limits`.
    `state` is for another way to store the same values: a benchmark compares two.
    """
    composer = Composer(window, system_prompt, limits or Limits(), [tool.name for tool in tools])
    ledger, by_name = ledger or Ledger(), {tool.name: tool for tool in tools}
    asker = Asker(model, composer, ledger)
    agent = _Agent(
        asker=asker,
        maintainer=Maintainer(composer, Summariser(model, composer, ledger)),
        composer=composer,
        ledger=ledger,
        tools=by_name,
        steering=Steering(route, composer, by_name, routes),
        policy=policy,
        hearer=Hearer(asker, repair, asks_again),
        journal=journal,
        seal=seal,
        max_steps=max_steps or (lambda: composer.limits.max_steps),
        drops_repeats=drops_repeats,
    )
    graph = StateGraph(state)
    graph.add_node("router", agent.router, input_schema=state)
    graph.add_node("maintain", agent.maintain, input_schema=state)
    graph.add_node("agent", agent.agent, input_schema=state)
    graph.add_node("collect", agent.collect, input_schema=state)
    graph.add_node("approve", agent.approve, input_schema=state)
    graph.add_node("tools", agent.run_tool)  # type: ignore[arg-type]  # its input is a task of Send
    graph.add_edge(START, "router")
    graph.add_conditional_edges("router", agent.next_of_router, ["maintain", "agent"])
    graph.add_edge("maintain", "agent")
    graph.add_conditional_edges("agent", next_of_agent, ["collect", "agent", END])
    graph.add_edge("tools", "collect")
    return graph.compile(checkpointer=checkpointer)
