"""The interactive chat: the prompt is there at once, all else loads while the user types."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from local_agent import errors
from local_agent.cli.asking import asking
from local_agent.cli.loading import import_stack
from local_agent.cli.options import Run
from local_agent.cli.turns import Interrupt, decide_unasked, run_turn
from local_agent.errors import AgentError
from local_agent.events import ApprovalRequested, Decisions, Event, Notice
from local_agent.threads import pending_approvals
from local_agent.ui.commands import BadCommand, Command, parse
from local_agent.ui.prompt import ChatPrompt
from local_agent.ui.terminal import TerminalRenderer, make_console

if TYPE_CHECKING:
    from local_agent.app import App
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
        self._prompt = ChatPrompt(history=None if settings.ephemeral else settings.history_file)
        self._renderer = TerminalRenderer(make_console(), quiet=run.quiet)
        self._app: App | None = None
        self._session: Session | None = None

    async def run(self) -> int:
        self._stack.push_async_exit(self._thread_stack)
        opening = asyncio.ensure_future(self._open())
        if self._is_asked():
            await self._ready(opening)  # a waiting approval is the first thing shown
        try:
            while (text := await self._read(opening)) is not None:
                await self._ready(opening)
                if await self._obey(text) == "quit":
                    break
        finally:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
        return errors.OK

    def _is_asked(self) -> bool:
        """Whether the thread waits for an approval, by a look into the file; nothing is loaded."""
        settings = self._run.settings
        if settings.ephemeral:
            return False
        return any(one.thread == settings.thread for one in pending_approvals(settings.db))

    async def _read(self, opening: asyncio.Future[None]) -> str | None:
        """The next prompt; an error of the opening ends the waiting for it."""
        reading = asyncio.ensure_future(self._prompt.read())
        waiting: set[asyncio.Future[object]] = {reading}  # type: ignore[arg-type]
        if not opening.done():
            waiting.add(opening)  # type: ignore[arg-type]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if opening.done() and opening.exception() is not None and not reading.done():
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await opening
        return await reading

    # -- opening ----------------------------------------------------------------------------------

    async def _open(self) -> None:
        await _in_thread(import_stack)
        from local_agent.app import open_app

        self._app = await self._stack.enter_async_context(open_app(self._run.settings, self._say))
        await self._enter(self._run.settings.thread)

    async def _enter(self, thread: str) -> None:
        """Hold `thread` instead of the one before. Raises `ThreadError`, keeping the one before."""
        from local_agent.cli.opening import first_line

        stack = AsyncExitStack()
        assert self._app is not None
        self._session = await stack.enter_async_context(self._app.session(thread))
        await self._thread_stack.aclose()
        self._thread_stack.push_async_exit(stack)
        if not self._run.quiet:
            self._say(await first_line(self._app, self._session), "info")

    async def _ready(self, opening: asyncio.Future[None]) -> None:
        if not opening.done():
            with Interrupt(opening.cancel):
                await opening
        else:
            await opening
        await self._finish_open_turn()

    async def _finish_open_turn(self) -> None:
        from local_agent.cli.opening import finish_open_turn

        assert self._session is not None
        session, timeout = self._session, self._run.settings.timeout
        self._renderer.begin_turn()
        try:
            await finish_open_turn(session, self._renderer.show, self._decide, timeout)
        finally:
            self._renderer.end_turn()

    # -- a line -----------------------------------------------------------------------------------

    async def _obey(self, text: str) -> str:
        if not text.strip():
            return ""
        command = parse(text)
        if isinstance(command, BadCommand):
            self._say(command.message, "error")
        elif isinstance(command, Command):
            if command.name == "quit":
                return "quit"
            await self._guarded(self._command(command))
        else:
            await self._guarded(self._send(text))
        return ""

    async def _guarded(self, work: Awaitable[None]) -> None:
        """An error of ours is one line, and the prompt is back."""
        try:
            await work
        except AgentError as exc:
            self._say(str(exc), "error")

    async def _send(self, text: str) -> None:
        assert self._app is not None
        assert self._session is not None
        connecting = asyncio.ensure_future(self._app.model.connect())
        with Interrupt(connecting.cancel):
            try:
                await connecting
            except asyncio.CancelledError:
                return
        await self._turn(self._session.send(text))

    async def _turn(self, events: AsyncIterator[Event]) -> None:
        assert self._session is not None
        self._renderer.begin_turn()
        try:
            await run_turn(
                self._session,
                events,
                self._renderer.show,
                self._decide,
                self._run.settings.timeout,
            )
        finally:
            self._renderer.end_turn()

    async def _decide(self, approval: ApprovalRequested) -> Decisions | None:
        mode = self._run.settings.on_approval
        if mode in (None, "ask"):
            return await asking(self._prompt, self._renderer)(approval)
        return await decide_unasked(mode, ephemeral=self._run.settings.ephemeral)(approval)

    async def _command(self, command: Command) -> None:
        from local_agent.cli.chat_commands import run_command

        assert self._app is not None
        assert self._session is not None
        if command.name == "retry":
            await self._turn(self._session.retry())
        elif command.name in ("thread", "new"):
            await self._enter(command.arg or new_thread_name())
            await self._finish_open_turn()
        else:
            self._prompt.write(run_command(command, self._app, self._session) + "\n")

    def _say(self, text: str, level: str) -> None:
        levels = {"warning": "warning", "error": "error"}
        self._renderer.show(Notice(text, levels.get(level, "info")))  # type: ignore[arg-type]


def new_thread_name() -> str:
    """A name for a thread that got none: the local time, as a person would look for it."""
    from datetime import datetime

    return datetime.now().strftime("chat %Y-%m-%d %H:%M:%S")


async def _in_thread(work: Callable[[], None]) -> None:
    """Run `work` in a daemon thread, so that leaving meanwhile does not wait for it."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def finish(error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def target() -> None:
        error: BaseException | None = None
        try:
            work()
        except BaseException as exc:  # noqa: BLE001 - it is raised again where it is awaited
            error = exc
        try:
            loop.call_soon_threadsafe(finish, error)
        except RuntimeError:
            sys.exit()  # the loop is closed, the program leaves

    threading.Thread(target=target, name="import", daemon=True).start()
    await done
