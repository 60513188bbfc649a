"""Where llama.cpp's error output goes: to a file, or of a run that writes none, into memory."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from local_agent.errors import ConfigError

LOG_NAME = "embedded.log"
_LIMIT = 1_000_000  # bytes of the file; a start that finds more begins it anew
_READ = 200_000  # bytes from a start on in which a reason is looked for; the rest is not kept


class EmbeddedLog:
    """The error output of one start. `stderr` is for the process; close it when that has it."""

    def __init__(self, folder: Path | None) -> None:
        """Open the log in `folder`, which is made; None: in memory. Raises ConfigError."""
        self.path = folder / LOG_NAME if folder else None
        self._offset = 0
        self._kept = bytearray()
        self._reader: threading.Thread | None = None
        if self.path is not None:
            self.stderr = self._open(self.path)
            return
        read_end, self.stderr = os.pipe()
        self._reader = threading.Thread(
            target=self._keep, args=(read_end,), name="embedded log", daemon=True
        )
        self._reader.start()

    def _open(self, path: Path) -> int:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            if os.fstat(log).st_size > _LIMIT:
                os.truncate(path, 0)
            self._offset = os.fstat(log).st_size
        except OSError as exc:
            text = f"The log file {path} cannot be written: {exc.strerror}."
            raise ConfigError(text) from exc
        return log

    def _keep(self, read_end: int) -> None:
        with os.fdopen(read_end, "rb", buffering=0) as pipe:
            while chunk := pipe.read(65536):
                self._kept += chunk[: max(_READ - len(self._kept), 0)]

    def close(self) -> None:
        """Give up our end; the process has its own."""
        os.close(self.stderr)

    def text(self) -> str:
        """What the process has written since its start; call it when it has ended."""
        if self.path is not None:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                return file.read(_READ).decode("utf-8", "replace")
        if self._reader is not None:
            self._reader.join(5)  # the pipe has ended with the process
        return self._kept.decode("utf-8", "replace")
