"""The interactive chat: the prompt is there at once, all else loads while the user types."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from local_agent import errors
from local_agent.cli.asking import asking
from local_agent.cli.loading import import_stack_aside
from local_agent.cli.options import Run
from local_agent.cli.turns import Interrupt, Show, decide_unasked, run_turn
from local_agent.config import check_thread_name
from local_agent.errors import AgentError, ThreadError
from local_agent.events import (
    ApprovalRequested,
    Decisions,
    Event,
    Interrupted,
    Notice,
    Status,
    TurnFinished,
)
from local_agent.threads import has_open_turn, list_threads
from local_agent.ui.commands import BadCommand, Command, help_text, parse
from local_agent.ui.interrupted import ask_to_go_on
from local_agent.ui.prompt import ChatPrompt
from local_agent.ui.sanitize import visible
from local_agent.ui.terminal import TerminalRenderer, make_console

if TYPE_CHECKING:
    from local_agent.app import App
    from local_agent.cli.reply import Reply
    from local_agent.session import Session


async def run_chat(run: Run) -> int:
    """Chat until the user leaves; returns the exit code. Raises `AgentError` if it cannot begin."""
    async with AsyncExitStack() as stack:
        return await Chat(run, stack).run()


class Chat:
    """One chat at the terminal. What it opens is closed with `stack`."""

    def __init__(self, run: Run, stack: AsyncExitStack) -> None:
        settings = run.settings
        self._run = run
        self._stack = stack
        self._thread_stack = AsyncExitStack()
        self._prompt = ChatPrompt(history=settings.history_file if settings.keeps_prompts else None)
        self._renderer = TerminalRenderer(make_console(), quiet=run.quiet, options=run.given)
        self._show: Show = self._renderer.show
        self._app: App | None = None
        self._session: Session | None = None
        self._draft = ""  # what the next prompt begins with
        self._returned = ""  # the prompt of a turn that was discarded, for a later line
        self._unsent = ""  # the last prompt, if it did not reach the model
        self._status: Status | None = None  # how the last turn ended; None: not looked at yet
        self._task = asyncio.current_task()

    async def run(self) -> int:
        self._stack.push_async_exit(self._thread_stack)
        opening = asyncio.ensure_future(self._open())
        try:
            # Ctrl-C is ignored between two steps that stop at it by themselves.
            with _interrupts_ignored(), self._prompt.silent():
                if self._is_open():  # what waits for a decision is the first thing shown
                    if not await self._waited(opening, "starting"):
                        return errors.INTERRUPTED
                    await self._finish_open_turn()
                while (text := await self._read(opening)) is not None:
                    if await self._obey(text, opening) == "quit":
                        break
        finally:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
        return errors.OK

    def _is_open(self) -> bool:
        """Whether a turn of the thread is open, by a look into the file; nothing is loaded."""
        settings = self._run.settings
        return not settings.ephemeral and has_open_turn(
            settings.db, settings.thread, settings.memory.key
        )

    def _is_ending(self) -> bool:
        """Whether the program itself was told to end, by a signal, and not only a turn."""
        return self._task is not None and self._task.cancelling() > 0

    async def _read(self, opening: asyncio.Future[None]) -> str | None:
        """The next prompt. The opening may end the waiting for it, and what it finds comes first.

        Raises the `AgentError` of an opening that failed.
        """
        was_open = opening.done()
        while True:
            if self._is_ending():  # a turn takes a cancellation for its own
                raise asyncio.CancelledError
            draft, self._draft = self._draft, ""
            if draft and not self._prompt.edits:
                self._say("It was not sent; /retry sends it.", "info")
            if not draft:
                draft, self._returned = self._returned, ""
            reading = asyncio.ensure_future(self._prompt.read(draft))
            try:
                waiting: set[asyncio.Future[Any]] = {reading, opening}
                if not was_open:
                    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if was_open or not opening.done() or not await self._has_news(opening):
                    return await reading
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
            was_open = True
            if not reading.cancelled() and reading.exception() is None:
                return reading.result()
            self._draft = self._prompt.draft
            await opening
            await self._finish_open_turn()

    async def _has_news(self, opening: asyncio.Future[None]) -> bool:
        """Whether the opening failed, or found a turn that is to be finished first."""
        if opening.exception() is not None:
            return True
        assert self._session is not None
        return await self._session.is_unfinished()

    # -- opening ----------------------------------------------------------------------------------

    async def _open(self) -> None:
        # The first drawing of the prompt would have to share the interpreter with the imports.
        await asyncio.sleep(0.05)
        await import_stack_aside()
        from local_agent.app import open_app
        from local_agent.cli.opening import with_figures

        if self._run.verbose:
            self._show = with_figures(self._renderer.show, self._renderer.show)
        self._app = await self._stack.enter_async_context(open_app(self._run.settings, self._say))
        await self._enter(self._run.settings.thread)
        # While the first prompt is typed: what is wrong is known before it is sent, and an embedded
        # model has loaded by then.
        warming = asyncio.ensure_future(self._warm_up())
        self._stack.push_async_callback(_cancelled, warming)

    async def _warm_up(self) -> None:
        assert self._app is not None
        try:
            await self._app.model.connect()
        except AgentError as exc:
            self._say(str(exc), "warning")

    async def _enter(self, thread: str) -> None:
        """Hold `thread` instead of the one before. Raises `ThreadError`, keeping the one before."""
        from local_agent.cli.opening import first_line

        stack = AsyncExitStack()
        assert self._app is not None
        self._session = await stack.enter_async_context(self._app.session(thread))
        self._status = None
        await self._thread_stack.aclose()
        self._thread_stack.push_async_exit(stack)
        if not self._run.quiet:
            self._say(await first_line(self._app, self._session), "info")

    async def _waited(self, work: asyncio.Future[Any], doing: str) -> bool:
        """Wait for `work`, saying so; False when Ctrl-C ended the waiting, and not the work.

        Raises what the work raises.
        """
        stopped = asyncio.Event()
        stopping = asyncio.ensure_future(stopped.wait())
        self._renderer.begin_turn(doing)
        try:
            with Interrupt(stopped.set):
                await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            self._renderer.end_turn()
        if not work.done():
            return False
        await work
        return True

    # -- a turn -----------------------------------------------------------------------------------

    async def _finish_open_turn(self) -> bool:
        """Decide a waiting approval; finish a turn that was broken off, or discard it.

        Whether there was one. `_status` is None afterwards while the user has not decided.
        """
        from local_agent.cli.opening import go_on

        assert self._session is not None
        session, timeout = self._session, self._run.settings.timeout
        turn = await session.interrupted()
        if turn is not None and not await self._goes_on(session, turn):
            return True
        if await self._shown(go_on(session, self._show, self._decide, timeout)) is not None:
            return True
        self._status = "ok"
        return False

    async def _goes_on(self, session: Session, turn: Interrupted) -> bool:
        """Whether to go on with a turn that was broken off, as the user says; else it is left."""
        self._status = None
        choice = await ask_to_go_on(turn, self._prompt)
        if choice == "discard":
            prompt = await session.discard()
            self._status = "cancelled"
            self._say("Discarded. /retry asks it again.", "info")
            if self._prompt.edits:
                self._returned = prompt
        elif choice == "go on":
            try:
                return await self._connected()
            except AgentError as exc:
                self._say(str(exc), "error")
        else:
            self._say("It is left as it is, and asked about before the next prompt.", "info")
        return False

    async def _connected(self) -> bool:
        """Wait for the model; False when Ctrl-C ended the waiting. Raises `AgentError`."""
        assert self._app is not None
        connecting = asyncio.ensure_future(self._app.model.connect())
        if await self._waited(connecting, "connecting to the model"):
            return True
        await _cancelled(connecting)
        return False

    async def _turn(self, events: AsyncIterator[Event]) -> None:
        assert self._session is not None
        timeout = self._run.settings.timeout
        work = run_turn(self._session, events, self._show, self._decide, timeout)
        finished = await self._shown(work)
        if finished is not None and finished.status in ("error", "timeout"):
            self._say("/retry tries it again.", "info")

    async def _shown(self, work: Awaitable[TurnFinished | None]) -> TurnFinished | None:
        self._renderer.begin_turn()
        try:
            finished = await work
        finally:
            self._renderer.end_turn()
        if finished is not None:
            self._status = finished.status
        return finished

    # -- a line -----------------------------------------------------------------------------------

    async def _obey(self, text: str, opening: asyncio.Future[None]) -> str:
        command = parse(text)
        if not text.strip():
            return ""
        if isinstance(command, BadCommand):
            self._say(command.message, "error")
        elif isinstance(command, Command) and command.name == "quit":
            return "quit"
        elif isinstance(command, Command) and command.name == "help":
            self._prompt.write(help_text() + "\n")
        elif not opening.done() and not await self._waited(opening, "starting"):
            self._draft = text  # Ctrl-C takes it back; the opening goes on
        else:
            await opening
            await self._guarded(self._command(command) if command else self._send(text))
        return ""

    async def _guarded(self, work: Awaitable[None]) -> None:
        """An error of ours is one line, and the prompt is back."""
        try:
            await work
        except AgentError as exc:
            self._say(str(exc), "error")

    async def _send(self, text: str) -> None:
        """Send a prompt; what does not reach the model stands on the next line."""
        assert self._session is not None
        self._draft = self._unsent = text
        if self._status not in ("ok", "step_limit"):
            await self._finish_open_turn()
            if self._status in (None, "approval_required"):
                return
        if not await self._connected():
            return
        self._draft = self._unsent = ""
        await self._turn(self._session.send(text.strip("\n").rstrip()))

    async def _decide(self, approval: ApprovalRequested) -> Decisions | None:
        mode, ephemeral = self._run.settings.on_approval, self._run.settings.ephemeral
        if mode in (None, "ask"):
            return await self._ask(approval)
        return await decide_unasked(mode, ephemeral=ephemeral, ask=self._ask)(approval)

    async def _ask(self, approval: ApprovalRequested) -> Decisions | None:
        try:
            return await asking(self._prompt, self._renderer)(approval)
        except asyncio.CancelledError:
            if not self._is_ending():
                raise
            return None  # the question is put again at the next start

    async def _command(self, command: Command) -> None:
        from local_agent.cli.chat_commands import run_command

        assert self._app is not None
        assert self._session is not None
        if command.name == "retry" and self._unsent:
            await self._send(self._unsent)
        elif command.name == "retry":
            if self._status is None and await self._finish_open_turn():
                return
            await self._turn(self._session.retry())
        elif command.name in ("thread", "new"):
            await self._change_thread(command)
        else:
            if command.name == "model":
                await self._waited(asyncio.ensure_future(self._app.model.connect()), "connecting")
            await self._heed(await run_command(command, self._app, self._session))

    async def _heed(self, reply: Reply) -> None:
        """Do what came of a command."""
        if reply.text:
            self._prompt.write(reply.text + "\n")
        if reply.thread is not None:
            await self._enter(reply.thread)
            if reply.turn is None:
                await self._finish_open_turn()
        if reply.turn is not None:
            await self._turn(reply.turn)
        if reply.look:
            await self._finish_open_turn()
        if reply.draft and not self._prompt.edits:  # it cannot stand on the line
            self._prompt.write(f"The prompt was: {visible(reply.draft)}\n")
        else:
            self._draft = reply.draft

    async def _change_thread(self, command: Command) -> None:
        """Raises `UsageError` for a name that cannot be, `ThreadError` for one that is taken."""
        assert self._session is not None
        settings = self._run.settings
        name = command.arg or new_thread_name()
        check_thread_name(name, f"/{command.name}")
        if name == self._session.thread:
            raise ThreadError(f"This is the thread '{name}' already.")
        known = [] if settings.ephemeral else list_threads(settings.db)
        if command.name == "new" and name in [info.thread for info in known]:
            raise ThreadError(f"There is a thread '{name}' already.", f"/thread {name} opens it.")
        await self._enter(name)
        await self._finish_open_turn()

    def _say(self, text: str, level: str) -> None:
        levels = {"warning": "warning", "error": "error"}
        self._renderer.show(Notice(text, levels.get(level, "info")))  # type: ignore[arg-type]


def new_thread_name() -> str:
    """A name for a thread that got none: the local time, as a person would look for it."""
    from datetime import datetime

    return datetime.now().strftime("chat %Y-%m-%d %H:%M:%S")


async def _cancelled(work: asyncio.Future[Any]) -> None:
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
