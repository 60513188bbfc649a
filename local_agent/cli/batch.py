"""Runs without a chat: one prompt by `-p`, or the prompts of a pipe, a line each."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from dataclasses import replace

from local_agent import errors
from local_agent.app import App, open_app
from local_agent.cli.asking import asking
from local_agent.cli.opening import (
    exit_code,
    finish_open_turn,
    first_line,
    model_line,
    with_figures,
)
from local_agent.cli.options import Run, is_terminal
from local_agent.cli.stdin import read_all, read_prompts, read_whole
from local_agent.cli.turns import Decide, Show, decide_unasked, run_turn
from local_agent.errors import AgentError, ServerError, ThreadError, UsageError
from local_agent.events import ApprovalRequested, Decisions, Event, Notice, TurnFinished
from local_agent.session import Session
from local_agent.ui.machine import JsonRenderer, StreamJsonRenderer
from local_agent.ui.plain import NotesRenderer, PlainRenderer
from local_agent.ui.prompt import ChatPrompt
from local_agent.ui.terminal import TerminalRenderer, make_console

Renderer = PlainRenderer | TerminalRenderer | JsonRenderer | StreamJsonRenderer


class Shown:
    """How a run shows what happens: the answers by its renderer, the rest by notes on stderr."""

    def __init__(self, run: Run) -> None:
        self.renderer = _renderer(run)
        self.notes = NotesRenderer(sys.stderr, quiet=run.quiet, options=run.given)
        show = self.renderer.show
        self._show = with_figures(show, self.notes.show) if run.verbose else show

    def say(self, text: str, level: str) -> None:
        """Show a line that belongs to no turn; `level` is "info" or "warning"."""
        self.notes.show(Notice(text, "warning" if level == "warning" else "info"))

    async def turn(
        self, session: Session, events: AsyncIterator[Event], decide: Decide, timeout: float | None
    ) -> TurnFinished | None:
        """Run `events` and what follows to the end of the turn."""
        if not isinstance(self.renderer, TerminalRenderer):
            return await run_turn(session, events, self._show, decide, timeout)
        self.renderer.begin_turn()
        try:
            return await run_turn(session, events, self._show, decide, timeout)
        finally:
            self.renderer.end_turn()


async def run_batch(run: Run) -> int:
    """Run all prompts in order until one does not end well; returns the exit code.

    Raises `AgentError` for what goes wrong before the first turn, except where the output is
    JSON: there it is an object, as the reader of the output expects one.
    """
    shown, thread = Shown(run), run.settings.thread
    prompts = _prompts(run, shown)
    try:
        async with open_app(run.settings, shown.say) as app, app.session(thread) as session:
            return await _run_all(run, app, session, shown, prompts)
    except AgentError as exc:
        if run.output == "text":
            raise
        shown.renderer.show(TurnFinished(thread, "", "", "error", error=str(exc)))
        return exc.exit_code


async def run_decision(run: Run, thread: str, approval_id: str, decisions: Decisions) -> int:
    """Go on with the turn that waits for `approval_id`; returns the exit code.

    Raises `ThreadError` when the thread is open elsewhere, or no longer waits for it.
    """
    shown = Shown(run)
    decide = decide_unasked(run.settings.on_approval or "park", ephemeral=False)
    async with open_app(run.settings, shown.say) as app, app.session(thread) as session:
        pending = await session.pending()
        if pending is None or pending.id != approval_id:
            raise ThreadError(f"Approval '{approval_id}' is no longer waiting.")
        _check_servers(app, pending, decisions)
        await app.model.connect()
        events = session.resume(approval_id, decisions)
        return exit_code(await shown.turn(session, events, decide, run.settings.timeout))


def _check_servers(app: App, pending: ApprovalRequested, decisions: Decisions) -> None:
    """Raises `ServerError` when an approved call has no tool now: its approval is not used up."""
    loaded = {tool.name for tool in app.servers.tools}
    for call in pending.calls:
        decision = decisions.get(call.call_id)
        if decision is not None and decision.approve and call.name not in loaded:
            raise ServerError(
                f"The tool '{call.tool}' of server '{call.server}' is not loaded; nothing was run.",
                "The approval still waits. See: agent servers test",
            )


async def _run_all(
    run: Run, app: App, session: Session, shown: Shown, prompts: AsyncIterator[str]
) -> int:
    settings, decide = run.settings, decider(run, shown.renderer)
    shown.say(await first_line(app, session), "info")
    if not (_parks(run) and await session.pending()):  # what waits is said without a model too
        await app.model.connect()
        if run.verbose:
            shown.say(model_line(app), "info")
    if isinstance(shown.renderer, StreamJsonRenderer):
        tools = len(app.servers.tools)
        shown.renderer.init(thread=session.thread, tools=tools, model=app.model.name)
    opened = await finish_open_turn(session, _earlier(shown.notes), decide, settings.timeout)
    if opened is not None and opened.status != "ok" and not await _is_over(session, opened):
        # The prompts of this run are not taken: they would come behind a turn that is still open.
        if opened.status in ("error", "timeout"):
            shown.say(
                "No prompt of this run was sent: the turn before it is still open.", "warning"
            )
        if run.output != "text":
            shown.renderer.show(replace(opened, answer=""))
        return exit_code(opened)
    async for prompt in prompts:
        finished = await shown.turn(session, session.send(prompt), decide, settings.timeout)
        if finished is None or finished.status != "ok":
            return exit_code(finished)
    return errors.OK


async def _is_over(session: Session, opened: TurnFinished) -> bool:
    """Whether the turn that was open has come to an end, if not to a good one."""
    return opened.status in ("step_limit", "error") and not await session.is_unfinished()


def _earlier(notes: NotesRenderer) -> Show:
    """Shows a turn of an earlier run on stderr: stdout is for the answers to this run's prompts."""

    def show(event: Event) -> None:
        if isinstance(event, TurnFinished) and event.answer:
            notes.show(Notice(f"Answer to the earlier prompt: {event.answer}"))
        notes.show(event)

    return show


async def _prompts(run: Run, shown: Shown) -> AsyncIterator[str]:
    if run.prompt is None:
        async for prompt in read_prompts():
            yield prompt
        return
    if run.prompt == "-":
        text = (await read_whole()).strip()
        if not text:
            raise UsageError("Standard input is empty, and -p - takes the prompt from there.")
        yield text
        return
    piped, came = ("", True) if is_terminal(sys.stdin) else await read_all()
    if not came:
        shown.say("Nothing came on standard input within a second; going on without.", "info")
    yield f"{run.prompt}\n\n{piped}".strip()


def _renderer(run: Run) -> Renderer:
    if run.output == "json":
        return JsonRenderer(sys.stdout, sys.stderr, quiet=run.quiet, options=run.given)
    if run.output == "stream-json":
        return StreamJsonRenderer(sys.stdout, sys.stderr, quiet=run.quiet, options=run.given)
    if is_terminal(sys.stdout):
        return TerminalRenderer(make_console(), quiet=run.quiet, options=run.given)
    return PlainRenderer(sys.stdout, sys.stderr, quiet=run.quiet, options=run.given)


def decider(run: Run, renderer: Renderer) -> Decide:
    """Asks where somebody can read the question and answer it, else as --on-approval says."""
    ask = asking(ChatPrompt(), renderer) if _can_ask() else None
    mode, ephemeral = run.settings.on_approval, run.settings.ephemeral
    if ask and mode in (None, "ask"):
        return ask
    return decide_unasked(mode or "park", ephemeral=ephemeral, ask=ask)


def _can_ask() -> bool:
    return is_terminal(sys.stdin) and is_terminal(sys.stdout)


def _asks(run: Run) -> bool:
    return run.settings.on_approval in (None, "ask") and _can_ask()


def _parks(run: Run) -> bool:
    return run.settings.on_approval not in ("deny", "allow") and not _asks(run)
