"""What every run does first on an open thread: say what is there, finish what was left open."""

from __future__ import annotations

from collections.abc import AsyncIterator

from local_agent import errors
from local_agent.app import App
from local_agent.cli.turns import EXIT_CODES, Decide, Show, run_turn
from local_agent.events import Event, Notice, TurnFinished
from local_agent.session import Session
from local_agent.ui.interrupted import interrupted_line


async def first_line(app: App, session: Session) -> str:
    """`Loaded 14 tools. Thread 'work': resumed 4 saved messages.`"""
    count = len(await session.messages())
    tools = len(app.servers.tools)
    plural = "" if count == 1 else "s"
    saved = f"resumed {count} saved message{plural}" if count else "new conversation"
    return f"Loaded {tools} tool{'' if tools == 1 else 's'}. Thread '{session.thread}': {saved}."


async def finish_open_turn(
    session: Session, show: Show, decide: Decide, timeout: float | None
) -> TurnFinished | None:
    """Go on with what an earlier run left open, and say so; see `go_on`."""
    turn = await session.interrupted()
    if turn is not None:
        show(Notice(f"{interrupted_line(turn)}; going on with it.", "warning"))
    return await go_on(session, show, decide, timeout)


async def go_on(
    session: Session, show: Show, decide: Decide, timeout: float | None
) -> TurnFinished | None:
    """Put a waiting approval to `decide`, or go on with a turn that a crash broke off.

    Returns how that turn ended now, None when nothing was open.
    """
    approval = await session.pending()
    if approval is not None:
        return await run_turn(session, only(approval), show, decide, timeout)
    if await session.is_unfinished():
        return await run_turn(session, session.proceed(), show, decide, timeout)
    return None


async def only(event: Event) -> AsyncIterator[Event]:
    """A stream of this one event."""
    yield event


def with_figures(show: Show, say: Show) -> Show:
    """`show`, and after each turn what it took goes to `say`; for --verbose."""

    def both(event: Event) -> None:
        show(event)
        if isinstance(event, TurnFinished) and event.steps:
            calls = f"{event.steps} model call{'' if event.steps == 1 else 's'}"
            read = f"{event.input_tokens:,} tokens read, {event.cached_tokens:,} of them cached"
            say(Notice(f"{calls}: {read}; {event.output_tokens:,} written."))

    return both


def model_line(app: App) -> str:
    """Which model answers, with which context; for --verbose."""
    address = app.settings.model.address
    return f"Model {app.model.name}, {app.window.context_length:,} tokens of context, at {address}."


def exit_code(finished: TurnFinished | None) -> int:
    """The process's exit code for how a turn ended."""
    return EXIT_CODES[finished.status] if finished else errors.OK
