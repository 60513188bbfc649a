"""What a server writes to stderr: read at once, masked, kept in a small file, never shown as is.

A pipe and a thread per process: the server never waits for us to look, the file stays small
whatever is written, and secrets are masked before they reach the disk.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import IO

from local_agent.config import mask
from local_agent.mcp_client.text import one_line, plain

MAX_BYTES = 1_000_000
"""Size of a log file; the one before it is kept as `NAME.log.1`."""
TAIL_LINES = 20
_LONGEST_LINE = 8192


def log_path(log_dir: Path, server: str) -> Path:
    """Give the log file of a server. A key that is no file name gets a hash."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", server)[:80]
    if name != server:
        name += "-" + hashlib.sha256(server.encode("utf-8", "replace")).hexdigest()[:8]
    return log_dir / f"server-{name}.log"


class ServerLog:
    """The log file of one server, over all its processes. A disk that refuses is no error.

    Without `log_dir` there is no file, and only the last lines are kept, in memory.
    """

    def __init__(self, log_dir: Path | None, server: str, secrets: Sequence[str]) -> None:
        self.path = log_path(log_dir, server) if log_dir else None
        self._secrets = secrets
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._lock = threading.Lock()
        self._file: IO[bytes] | None = None
        self._size = 0
        self.exit_code: int | None = None

    def last_lines(self, count: int = 3) -> str:
        """Give the last lines that are not blank, as one masked line; empty if there is none."""
        return one_line(" | ".join(list(self._tail)[-count:]))

    def note(self, text: str) -> None:
        """Write a line of our own, with the local time."""
        now = datetime.now().astimezone().isoformat(timespec="seconds")
        self._write(f"--- {now} {mask(one_line(text, 1000), self._secrets)}")

    def open_pipe(self) -> tuple[IO[bytes], threading.Event]:
        """Give (the end for a process's stderr, an event that is set when all of it is read).

        The caller closes the file as soon as the process is started.
        """
        self._tail.clear()
        self.exit_code = None
        read_end, write_end = os.pipe()
        done = threading.Event()
        thread = threading.Thread(
            target=self._read, args=(read_end, done), name="server log", daemon=True
        )
        thread.start()
        return os.fdopen(write_end, "wb", buffering=0), done

    def close(self) -> None:
        """Close the file; a line that still comes opens it again."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def _read(self, read_end: int, done: threading.Event) -> None:
        rest = b""
        try:
            while chunk := os.read(read_end, 65536):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._take(line)
                if len(rest) > _LONGEST_LINE:
                    self._take(rest)
                    rest = b""
            if rest:
                self._take(rest)
        except OSError:  # the pipe is gone, and with it what it could still have said
            pass
        finally:
            os.close(read_end)
            self.close()
            done.set()

    def _take(self, raw: bytes) -> None:
        line = mask(plain(raw.decode("utf-8", "replace")).rstrip(), self._secrets)
        if line.strip():
            self._tail.append(line.strip())
        self._write(line[:_LONGEST_LINE])

    def _write(self, line: str) -> None:
        if self.path is None:
            return
        data = line.encode("utf-8", "replace") + b"\n"
        with self._lock, suppress(OSError):
            if self._file is None:
                self._open(self.path)
            if self._size + len(data) > MAX_BYTES and self._file is not None:
                self._file.close()
                self._file = None
                self.path.replace(self.path.with_name(self.path.name + ".1"))
                self._open(self.path)
            if self._file is not None:
                self._file.write(data)
                self._size += len(data)

    def _open(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._file = os.fdopen(os.open(path, flags, 0o600), "ab", buffering=0)
        self._size = self._file.tell() or path.stat().st_size
