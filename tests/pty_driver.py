"""Drives a program in a pseudo terminal and reads its screen as a terminal would show it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyte


class _Screen(pyte.Screen):
    """A screen that keeps all that scrolled off, and answers what the program asks it.

    (pyte's own screen with a history takes several times as long.)
    """

    def __init__(self, columns: int, lines: int, reply: Callable[[bytes], None]) -> None:
        self._reply = reply
        self.scrolled: list[str] = []
        super().__init__(columns, lines)

    def index(self) -> None:
        if self.cursor.y == self.lines - 1 and self.margins is None:
            self.scrolled.append(self.cells(0))
        super().index()

    def cells(self, y: int) -> str:
        """A row; the second half of a wide character is a cell with no text."""
        row = self.buffer[y]
        return "".join(row[x].data for x in range(self.columns))

    def write_process_input(self, data: str) -> None:
        self._reply(data.encode())


class PtyProgram:
    """A program with a terminal of its own.

    `env` is the whole environment (None: this process's, with TERM=xterm-256color). Enter is
    "\\r". `raw` is every byte that came, `text` what a person can read, scrollback included.
    Use it as a context manager: on leaving, the program is killed if it still runs.
    """

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str] | None = None,
        cols: int = 80,
        rows: int = 24,
        cwd: str | Path | None = None,
    ) -> None:
        self.raw = bytearray()
        self._lock = threading.Lock()
        self._master, slave = os.openpty()
        _set_size(slave, cols, rows)
        self._screen = _Screen(cols, rows, self._write)
        self._stream = pyte.ByteStream(self._screen)
        self.modes_at_start = termios.tcgetattr(slave)
        try:
            self.process = subprocess.Popen(
                list(argv),
                stdin=slave,
                stdout=slave,
                stderr=slave,
                env=_sized_by_itself(env),
                cwd=cwd,
                start_new_session=True,
                preexec_fn=_take_terminal,
            )
        except BaseException:
            os.close(self._master)
            raise
        finally:
            os.close(slave)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> PtyProgram:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def send(self, text: str | bytes) -> None:
        """Type this."""
        self._write(text.encode() if isinstance(text, str) else text)

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.send(b"\x03")

    def wait_for(self, text: str, timeout: float = 20.0, count: int = 1) -> None:
        """Until `text` can be read `count` times, also across a line end of the terminal's own.

        Spaces at its end don't count: on a screen they can't be told from an empty cell.
        """
        text = text.rstrip()

        def found() -> bool:
            # Apart from the lines as they stand, the rows that are full joined to the next.
            return max(self.text.count(text), self.unwrapped.count(text)) >= count

        deadline = time.monotonic() + timeout
        seen = -1
        while True:
            alive = self._reader.is_alive()
            if len(self.raw) != seen:
                seen = len(self.raw)
                if found():
                    return
            elif not alive:
                break
            if time.monotonic() > deadline:
                break
            time.sleep(0.01)
        state = f"exit code {self.process.poll()}"
        raise AssertionError(f"{text!r} did not come ({state}); there was:\n{self.text}")

    def wait(self, timeout: float = 20.0) -> int:
        """The exit code, once the program has ended and its output is read."""
        code = self.process.wait(timeout)
        self._reader.join(timeout)
        return code

    def resize(self, cols: int, rows: int) -> None:
        """Change the size of the window."""
        with self._lock:
            self._screen.resize(rows, cols)
        _set_size(self._master, cols, rows)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send the program itself a signal."""
        self.process.send_signal(number)

    def stop(self) -> None:
        """End the program if it runs, and close the terminal."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(5)
        with contextlib.suppress(OSError):
            os.close(self._master)
        self._master = -1

    @property
    def modes(self) -> list[Any]:
        """The terminal's modes now, as `termios.tcgetattr` gives them."""
        return termios.tcgetattr(self._master)

    @property
    def screen(self) -> list[str]:
        """The rows on the screen, without spaces at their ends."""
        with self._lock:
            return [self._screen.cells(y).rstrip() for y in range(self._screen.lines)]

    @property
    def scrollback(self) -> list[str]:
        """The rows that have scrolled off, the oldest first."""
        with self._lock:
            return [row.rstrip() for row in self._screen.scrolled]

    @property
    def text(self) -> str:
        """Scrollback and screen, a row a line."""
        with self._lock:
            return "\n".join(row.rstrip() for row in self._all_rows()).rstrip()

    @property
    def unwrapped(self) -> str:
        """The same with rows that are full to the edge joined to the next one."""
        with self._lock:
            rows = self._all_rows()
        return "".join(row if row[-1:].strip() else row.rstrip() + "\n" for row in rows).rstrip()

    def _all_rows(self) -> list[str]:
        return [*self._screen.scrolled, *map(self._screen.cells, range(self._screen.lines))]

    def _read(self) -> None:
        while True:
            try:
                ready, _, _ = select.select([self._master], [], [], 0.2)
                if not ready:
                    if self.process.poll() is not None:
                        return
                    continue
                data = os.read(self._master, 65_536)
            except (OSError, ValueError):  # the other side is closed
                return
            if not data:
                return
            with self._lock:
                self.raw += data
                self._stream.feed(data)

    def _write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(self._master, data) :]


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _set_size(descriptor: int, cols: int, rows: int) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def _sized_by_itself(env: Mapping[str, str] | None) -> dict[str, str]:
    """The environment without a size that would count for more than the terminal's own.

    The workers of pytest-xdist have one.
    """
    whole = {**os.environ, "TERM": "xterm-256color"} if env is None else dict(env)
    return {name: value for name, value in whole.items() if name not in ("COLUMNS", "LINES")}
