"""Imports what a turn needs: some seconds, so it is done once, late, and where nobody waits."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from local_agent.errors import INTERRUPTED


def import_stack() -> None:
    """Import all that a turn needs; some seconds, so best done while the user types.

    Collecting garbage between so many new objects finds none and takes a fifth of the time.
    """
    gc.disable()
    try:
        with _ended_by_ctrl_c():
            import local_agent.app  # noqa: F401
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def _ended_by_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C end the process at once, before anything is open that would have to be closed.

    As an exception it may come up in compiled code, which prints a traceback and goes on.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def end(*_: Any) -> None:
        os._exit(INTERRUPTED)

    before = signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


async def import_stack_aside() -> None:
    """The same in a daemon thread, so that leaving meanwhile does not wait for it."""
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
            import_stack()
        except BaseException as exc:  # noqa: BLE001 - it is raised again where it is awaited
            error = exc
        try:
            loop.call_soon_threadsafe(finish, error)
        except RuntimeError:
            sys.exit()  # the loop is closed, the program leaves

    threading.Thread(target=target, name="import", daemon=True).start()
    await done
