"""Runs a turn to its end: shows its events, has approvals decided, stops it cleanly."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

from local_agent import errors
from local_agent.events import (
    ApprovalRequested,
    Decision,
    Decisions,
    Event,
    PendingCall,
    Status,
    TurnFinished,
)

EXIT_CODES: dict[Status, int] = {
    "ok": errors.OK,
    "error": errors.FAILED,
    "approval_required": errors.APPROVAL_WAITING,
    "step_limit": errors.STEP_LIMIT,
    "timeout": errors.TIMEOUT,
    "cancelled": errors.INTERRUPTED,
}
NO_TERMINAL = "there is no terminal to ask at"

Show = Callable[[Event], None]
# The decisions for an approval, or None to leave it waiting.
Decide = Callable[[ApprovalRequested], Awaitable[Decisions | None]]


class TurnSession(Protocol):
    """A session, as a turn needs it."""

    def resume(self, approval_id: str, decisions: Decisions) -> AsyncIterator[Event]: ...

    def park(self, approval: ApprovalRequested) -> TurnFinished: ...

    async def abandon(self, status: Status, error: str | None = None) -> TurnFinished: ...


async def run_turn(
    session: TurnSession,
    events: AsyncIterator[Event],
    show: Show,
    decide: Decide,
    timeout: float | None = None,
) -> TurnFinished | None:
    """Show `events` and what follows from them until the turn ends; returns how it ended.

    Ctrl-C ends it as "cancelled", more than `timeout` seconds (without the time a person takes to
    decide) as "timeout"; either way its open calls are closed. None: there was nothing to run.
    """
    with Interrupt() as interrupt:

        async def ask(approval: ApprovalRequested) -> Decisions | None:
            try:
                return await decide(approval)
            except KeyboardInterrupt as exc:  # out of a task it would end the event loop
                raise asyncio.CancelledError from exc
            finally:
                interrupt.arm()  # a prompt takes the signal for itself and does not give it back

        turn = asyncio.ensure_future(_follow(session, events, show, ask, timeout))
        interrupt.callback = turn.cancel
        try:
            return await turn
        except TimeoutError:
            error = f"The turn took longer than {timeout:g} seconds."
            return _shown(show, await session.abandon("timeout", error))
        except asyncio.CancelledError:
            return _shown(show, await session.abandon("cancelled"))


async def _follow(
    session: TurnSession,
    events: AsyncIterator[Event],
    show: Show,
    decide: Decide,
    timeout: float | None,
) -> TurnFinished | None:
    async with asyncio.timeout(timeout) as limit:
        while True:
            approval, finished = None, None
            async for event in events:
                show(event)
                if isinstance(event, ApprovalRequested):
                    approval = event
                elif isinstance(event, TurnFinished):
                    finished = event
            if approval is None or finished is not None:
                return finished
            left = (limit.when() or 0.0) - asyncio.get_running_loop().time()
            limit.reschedule(None)
            decisions = await decide(approval)
            if decisions is None:
                return _shown(show, session.park(approval))
            if timeout is not None:
                limit.reschedule(asyncio.get_running_loop().time() + left)
            events = session.resume(approval.id, decisions)


def _shown(show: Show, event: TurnFinished) -> TurnFinished:
    show(event)
    return event


def decide_unasked(on_approval: str, *, ephemeral: bool, ask: Decide | None = None) -> Decide:
    """How approvals are decided without asking: "park", "deny" or "allow".

    A call whose outcome is unknown is never run again unasked, nor is one that was repaired run:
    the model wrote something else, and "allow" was said before anybody saw it. That one is put to
    `ask`, where somebody is there. Nothing can be parked in a run that leaves nothing on disk: it
    is denied.
    """
    mode = "deny" if ephemeral and on_approval not in ("allow", "deny") else on_approval

    async def decide(approval: ApprovalRequested) -> Decisions | None:
        if all(call.why == "unknown_outcome" for call in approval.calls):
            return {}
        if mode == "deny":
            return {c.call_id: Decision(False, NO_TERMINAL) for c in approval.calls}
        is_repaired = any(call.repaired for call in approval.calls)
        if mode == "allow" and is_repaired and ask is not None:
            return await ask(approval)
        if mode == "allow" and (ephemeral or not is_repaired):
            return {c.call_id: _allowed(c) for c in approval.calls}
        return None

    return decide


def _allowed(call: PendingCall) -> Decision:
    """What an "allow" that was said beforehand says to this call."""
    if call.repaired:
        return Decision(False, f"it was repaired ({call.repaired}), and {NO_TERMINAL}")
    return Decision(call.why != "unknown_outcome")


class Interrupt:
    """While open, Ctrl-C calls `callback` in the event loop instead of ending the program."""

    def __init__(self, callback: Callable[[], object] = lambda: None) -> None:
        self.callback = callback
        self._loop = asyncio.get_running_loop()
        self._before: Any = None

    def __enter__(self) -> Interrupt:
        self._before = signal.getsignal(signal.SIGINT)
        self.arm()
        return self

    def __exit__(self, *exc: object) -> None:
        with contextlib.suppress(NotImplementedError):
            self._loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, self._before or signal.default_int_handler)

    def arm(self) -> None:
        """Take the signal, again if something took it meanwhile."""
        try:
            self._loop.add_signal_handler(signal.SIGINT, self._call)
        except NotImplementedError:  # Windows has no signals in the loop
            signal.signal(signal.SIGINT, lambda *_: self._loop.call_soon_threadsafe(self._call))

    def _call(self) -> None:
        self.callback()
