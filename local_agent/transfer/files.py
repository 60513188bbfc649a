"""Reads and writes the files of transfers; nothing that is there is overwritten unasked."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from local_agent.errors import TransferError
from local_agent.transfer.read import LARGEST


def write_file(path: Path, text: str, *, force: bool = False, hint: str = "") -> None:
    """Write a file of mode 0600, whole or not at all. Raises TransferError.

    One that exists is left alone, or with `force` replaced; `hint` says what to do about it.
    """
    data = text.encode()
    try:
        if path.exists() and not path.is_file():  # a pipe, a device
            if path.is_dir():
                raise TransferError(f"{path} is a folder.", "Name a file in it.")
            with path.open("wb") as file:
                file.write(data)
            return
        if not force:
            with _new(path) as file:
                file.write(data)
            return
        part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        with _new(part) as file:
            file.write(data)
        part.replace(path)
    except FileExistsError as exc:
        raise TransferError(f"{path} exists already.", hint) from exc
    except OSError as exc:
        raise TransferError(f"{path} cannot be written: {exc.strerror or exc}.") from exc


@contextmanager
def _new(path: Path) -> Iterator[IO[bytes]]:
    """A new file that is gone again if it could not be written to its end."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


def read_file(name: str) -> bytes:
    """The bytes of a file, of standard input for "-"; not more than an import takes."""
    try:
        if name == "-":
            data = sys.stdin.buffer.read(LARGEST + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(LARGEST + 1)
    except OSError as exc:
        reason = "there is none" if isinstance(exc, FileNotFoundError) else exc.strerror or str(exc)
        raise TransferError(f"{name} cannot be read: {reason}.") from exc
    return data
