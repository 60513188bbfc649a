"""Marks what a person allowed, so that only this user's own yes counts when it is read back.

A database can come from anywhere: copied, sent, or lying in a folder that somebody else made. A
"yes" that is written in it counts only with a mark made by the key in this user's data folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path

from local_agent.errors import StorageError

KEY_BYTES = 32
FILE_NAME = "approval.key"


@dataclass(frozen=True, slots=True)
class Seal:
    """Makes and checks marks over texts with a secret key (HMAC-SHA256, as hexadecimal)."""

    key: bytes

    def sign(self, *parts: str) -> str:
        """The mark of exactly these parts."""
        return hmac.new(self.key, json.dumps(parts).encode(), hashlib.sha256).hexdigest()

    def bound_to(self, place: str) -> Seal:
        """A seal whose marks count at `place` alone, so that no copy of a file carries them off."""
        return Seal(hmac.new(self.key, place.encode(), hashlib.sha256).digest())

    def holds(self, mark: str, *parts: str) -> bool:
        """Whether `mark` is that of these parts under this key."""
        return hmac.compare_digest(mark.encode(), self.sign(*parts).encode())


def open_seal(folder: Path | None) -> Seal:
    """The seal whose key lies in `folder`, made there if it is missing; None: one for this run.

    Raises `StorageError` when the key can be neither read nor written.
    """
    if folder is None:
        return Seal(secrets.token_bytes(KEY_BYTES))
    path = folder / FILE_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with contextlib.suppress(FileExistsError):
            _create(path)
        key = path.read_bytes()
    except OSError as exc:
        raise StorageError(
            f"The key for approvals cannot be kept in {folder}: {exc.strerror}.",
            "Make the folder writable.",
        ) from exc
    if len(key) != KEY_BYTES:
        raise StorageError(f"{path} is damaged.", "Delete it: approvals are then asked for again.")
    return Seal(key)


def _create(path: Path) -> None:
    """Write a new key under `path` whole or not at all; FileExistsError if there is one."""
    descriptor, name = tempfile.mkstemp(prefix=path.name, dir=path.parent)  # of mode 0600
    part = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
        if path.exists():
            raise FileExistsError(path)
        try:
            os.link(part, path)  # fails if another process was first, unlike a rename
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            part.replace(path)
    finally:
        part.unlink(missing_ok=True)
