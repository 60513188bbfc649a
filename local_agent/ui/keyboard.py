"""The terminal as it is without line editing: its own lines, its interrupts, its typed keys."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import IO, Any

from local_agent.ui.sanitize import safe_write


class PlainLines:
    """Lines as the terminal itself edits them; nothing is written but the message."""

    def __init__(self) -> None:
        self._read = b""

    @property
    def draft(self) -> str:
        return ""  # the terminal holds what was typed, and still has it for the next line

    async def read_prompt(self, message: str, hint: Callable[[], None], draft: str) -> str | None:
        armed = False
        while True:
            try:
                return await self.read_line(message)
            except EOFError:
                safe_write(message_stream(), "\n")
                return None
            except KeyboardInterrupt:
                # Whether something stood on the line cannot be known: the terminal held it.
                safe_write(message_stream(), "\n")
                if armed:
                    return None
                armed = True
                hint()

    async def read_line(self, message: str) -> str:
        while b"\n" not in self._read:
            chunk = await _read_chunk(message)
            message = ""
            if not chunk and not self._read:
                raise EOFError
            self._read += chunk or b"\n"
        safe_write(message_stream(), message)  # a line was there already
        line, _, self._read = self._read.partition(b"\n")
        return line.decode(sys.stdin.encoding or "utf-8", "replace").rstrip("\r")

    def discard_typed(self) -> None:
        self._read = b""
        flush_keyboard()


async def _read_chunk(message: str) -> bytes:
    """What the terminal hands over next: a line, or b"" at its end.

    `message` is written once Ctrl-C is taken: who sees it may press that.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[bytes] = loop.create_future()
    descriptor = sys.stdin.fileno()

    def settle(chunk: bytes) -> None:
        if not future.done():
            future.set_result(chunk)

    def read() -> None:
        try:
            settle(os.read(descriptor, 65_536))
        except OSError:  # the terminal is gone
            settle(b"")

    with _interrupts_into(future, loop):
        safe_write(message_stream(), message)
        try:
            loop.add_reader(descriptor, read)
        except (NotImplementedError, OSError):  # Windows
            wait = threading.Thread(
                target=lambda: loop.call_soon_threadsafe(settle, sys.stdin.buffer.readline()),
                daemon=True,
            )
            wait.start()
            return await future
        try:
            return await future
        finally:
            loop.remove_reader(descriptor)


@contextlib.contextmanager
def _interrupts_into(
    future: asyncio.Future[Any], loop: asyncio.AbstractEventLoop
) -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt from the future, and the former handler comes back."""

    def interrupt() -> None:
        if not future.done():
            future.set_exception(KeyboardInterrupt())

    former = signal.getsignal(signal.SIGINT)
    try:
        loop.add_signal_handler(signal.SIGINT, interrupt)
    except (NotImplementedError, RuntimeError, ValueError):  # Windows, or not the main thread
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, former)


def flush_keyboard() -> None:
    """Forget what was typed and not read yet."""
    if sys.platform == "win32":
        import msvcrt

        while msvcrt.kbhit():
            msvcrt.getwch()
    else:
        import termios

        with contextlib.suppress(termios.error, OSError, ValueError):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


@contextlib.contextmanager
def without_echo() -> Iterator[None]:
    """What is typed is kept for the next line that is read, but not shown where others write."""
    if sys.platform == "win32":  # keys are shown by whoever reads them there
        yield
        return
    import termios

    try:
        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
        silent = list(before)
        silent[3] &= ~termios.ECHO
        termios.tcsetattr(descriptor, termios.TCSANOW, silent)
    except (termios.error, OSError, ValueError):
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(termios.error, OSError, ValueError):
            termios.tcsetattr(descriptor, termios.TCSANOW, before)


def message_stream() -> IO[str] | None:
    """Where questions go: stdout is for answers when it is redirected."""
    return sys.stdout if is_terminal(sys.stdout) else sys.stderr


def is_terminal(stream: IO[str] | None) -> bool:
    """Whether a person is at the other end; also for a missing or closed stream."""
    try:
        return stream is not None and bool(stream.isatty())
    except ValueError:  # closed
        return False
