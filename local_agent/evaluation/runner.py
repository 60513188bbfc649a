"""Runs cases through the program, one thread each, and judges every turn."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Protocol

from local_agent.app import App, open_app
from local_agent.config import Settings
from local_agent.errors import ConfigError
from local_agent.events import (
    ApprovalRequested,
    Decision,
    Event,
    Notice,
    ToolStarted,
    TurnFinished,
)
from local_agent.session import Session

from .cases import Case, Half, Turn
from .configurations import Configuration
from .judge import Made, Outcome, Schemas, Verdict, judge, right_set
from .recorder import Exchange, Recorder
from .world import specs_of

ROUTER = "route"  # the name of the schema that the router holds the model to
MOST_APPROVALS = 6  # questions of one turn; a model that asks on is stopped


class Progress(Protocol):
    """Is told of each result, and of what the program would say to its user."""

    def __call__(self, result: TurnResult) -> None: ...

    def notice(self, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class TurnResult:
    """One turn in one configuration. Tokens are summed over the model calls of the turn."""

    configuration: str
    case: str
    turn: int
    category: str
    half: Half
    needs_tool: bool
    why: str
    has_tool: bool | None
    has_args: bool | None
    has_set: bool | None
    route: str
    tools: int  # in the first prompt
    model_calls: int
    router_calls: int
    constrained_calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    prompt: str = ""
    answer: str = ""
    calls: Sequence[Made] = field(default_factory=tuple)

    @property
    def passed(self) -> bool:
        return not self.why


async def run_cases(
    configuration: Configuration,
    cases: Sequence[Case],
    settings: Settings,
    recorder: Recorder,
    progress: Progress,
) -> list[TurnResult]:
    """The results of all turns. Raises `ModelError` when a request could not be answered,
    ConfigError for servers that cannot be used."""
    results: list[TurnResult] = []
    model = replace(settings.model, base_url=recorder.base_url, temperature=0.0)
    settings = configuration.change(replace(settings, model=model))
    for _, group in groupby(cases, key=lambda case: case.servers):
        together = list(group)
        specs = specs_of(together[0].servers) if together[0].servers else settings.servers
        routes = () if together[0].servers else settings.routes
        async with open_app(replace(settings, servers=specs, routes=routes), _silent) as app:
            _check_servers(app)
            await app.model.connect()  # before the first prompt: its tools need the context length
            if settings.router.mode == "off":
                _check_room(configuration.name, app)
            for case in together:
                async for result in _run_case(configuration.name, case, app, recorder, progress):
                    results.append(result)
                    progress(result)
    return results


def _silent(text: str, level: str) -> None:
    pass


def _check_servers(app: App) -> None:
    failed = [status for status in app.servers.status if status.state == "failed"]
    if failed:
        raise ConfigError(f"Server '{failed[0].name}' is not available: {failed[0].reason}")


def _check_room(configuration: str, app: App) -> None:
    """Raises ConfigError where not all tools are in the prompt that is to have all: a comparison
    with it would say nothing."""
    tools = app.servers.tools
    bound = len(app.maintainer.composer.offer(tools, lookup=False).functions)
    if bound < len(tools):
        raise ConfigError(
            f"Only {bound} of {len(tools)} tools have room in the prompts of '{configuration}': "
            f"tools may take a third of the context, which has {app.window.size} tokens.",
            "Load the model with a longer context, or take other --configurations.",
        )


async def _run_case(
    configuration: str, case: Case, app: App, recorder: Recorder, progress: Progress
) -> AsyncIterator[TurnResult]:
    names = {tool.name: f"{tool.server}/{tool.original}" for tool in app.servers.tools}
    schemas = {f"{tool.server}/{tool.original}": tool.schema for tool in app.servers.tools}
    _check_labels(case, schemas, app.routes.tools)
    reads = {f"{tool.server}/{tool.original}" for tool in app.servers.tools if tool.read_only}
    async with app.session(case.id) as session:
        for number, turn in enumerate(case.turns, 1):
            recorder.take()
            watch = _Watch(turn, reads, bool(case.servers), progress)
            finished = await watch.run(session)
            recorder.check()
            exchanges = recorder.take()
            first = next((e for e in exchanges if e.purpose == "chat"), None)
            offered = [names.get(name, name) for name in (first.tools if first else ())]
            calls = [call for call in watch.calls.values() if call.tool in schemas]
            status = "too many questions" if watch.is_stopped else finished.status
            outcome = Outcome(calls, finished.answer, status, finished.route, offered)
            verdict = judge(turn, outcome, schemas, case.free)
            counted = _counted(configuration, case, number, turn, verdict, exchanges)
            yield replace(
                counted,
                has_set=right_set(turn, outcome),
                route=finished.route,
                tools=len(offered),
                input_tokens=finished.input_tokens,
                output_tokens=finished.output_tokens,
                cached_tokens=finished.cached_tokens,
                answer=finished.answer,
                calls=tuple(calls),
            )


def _counted(
    configuration: str,
    case: Case,
    number: int,
    turn: Turn,
    verdict: Verdict,
    exchanges: Sequence[Exchange],
) -> TurnResult:
    purposes = [exchange.purpose for exchange in exchanges]
    return TurnResult(
        configuration=configuration,
        case=case.id,
        turn=number,
        category=turn.category,
        half=case.half,
        needs_tool=turn.needs_tool,
        why=verdict.why,
        has_tool=verdict.has_tool,
        has_args=verdict.has_args,
        has_set=None,
        route="",
        tools=0,
        model_calls=len(purposes),
        router_calls=purposes.count(ROUTER),
        constrained_calls=sum(purpose not in ("chat", ROUTER) for purpose in purposes),
        input_tokens=0,
        output_tokens=0,
        cached_tokens=0,
        prompt=turn.prompt,
    )


def _check_labels(case: Case, schemas: Schemas, routes: Collection[str]) -> None:
    for turn in case.turns:
        if turn.route is not None and turn.route not in routes:
            raise ConfigError(
                f"Case '{case.id}' wants the route {turn.route}, which there is not.",
                f"There are: {', '.join(routes)}.",
            )
        for wanted in (call for calls in turn.calls for call in calls):
            if wanted.tool not in schemas:
                known = ", ".join(schemas)
                raise ConfigError(
                    f"Case '{case.id}' wants {wanted.tool}, which no server has.",
                    f"There are: {known}." if 0 < len(known) < 400 else "",
                )


@dataclass(slots=True)
class _Watch:
    """Runs one turn, answers its questions as the label says, and notes its calls.

    A write on servers that are not synthetic is never run: an evaluation must change nothing.
    """

    turn: Turn
    reads: set[str]
    is_synthetic: bool
    progress: Progress
    calls: dict[str, Made] = field(default_factory=dict)
    is_stopped: bool = False

    async def run(self, session: Session) -> TurnFinished:
        finished = await self._until_asked(session.send(self.turn.prompt))
        for _ in range(MOST_APPROVALS):
            if isinstance(finished, TurnFinished):
                return finished
            decisions = {
                call.call_id: Decision(self.turn.approve and self.is_synthetic, self.turn.reason)
                for call in finished.calls
            }
            finished = await self._until_asked(session.resume(finished.id, decisions))
        if isinstance(finished, TurnFinished):
            return finished
        self.is_stopped = True
        return await session.abandon("cancelled")

    async def _until_asked(self, events: AsyncIterator[Event]) -> TurnFinished | ApprovalRequested:
        async with aclosing(events) as stream:  # type: ignore[type-var]  # it is a generator
            async for event in stream:
                if isinstance(event, ToolStarted):
                    self._note(event.call_id, event.server, event.tool, event.args)
                elif isinstance(event, ApprovalRequested):
                    for call in event.calls:
                        self._note(call.call_id, call.server, call.tool, call.args)
                    return event
                elif isinstance(event, Notice):
                    self.progress.notice(event.text)
                elif isinstance(event, TurnFinished):
                    return event
        raise RuntimeError("a turn without an end")

    def _note(self, call_id: str, server: str, tool: str, args: Mapping[str, Any]) -> None:
        name = f"{server}/{tool}"
        plain = json.loads(json.dumps(dict(args)))
        self.calls[call_id] = Made(name, plain, name in self.reads)
