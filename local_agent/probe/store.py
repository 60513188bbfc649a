"""The profiles of this user as small JSON files, one for each model as it is loaded."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from local_agent.config import user_folders
from local_agent.errors import StorageError

from .profile import SCHEMA_VERSION, Identity, Profile, from_json

FOLDER = "profiles"
LARGEST = 100_000  # bytes; a profile has some three thousand


class Profiles:
    """The files in `folder` (default: in the user's data folder).

    A file's name is made of hashes of the address, the model and its details, so that a model that
    is loaded otherwise has another one, and gets its own back when it is loaded as before. A file
    that cannot be used is told to `say`, one line, and counts as not there.
    """

    def __init__(
        self, folder: Path | None = None, say: Callable[[str], None] = lambda text: None
    ) -> None:
        self.folder = folder or user_folders().data / FOLDER
        self._say = say

    def find(self, identity: Identity) -> Profile | None:
        """The profile of this very model as it is loaded."""
        path = self._path(identity)
        found = self._read(path) if path.exists() else None
        return found if found and found.identity == identity else None

    def newest(self, address: str, model: str = "") -> Profile | None:
        """The profile made last at `address`, of that model or of any; whatever is loaded now."""
        start = f"{_hash(address)}-{_hash(model)}-" if model else f"{_hash(address)}-"
        try:
            paths = sorted(self.folder.glob(f"{start}*.json"), key=lambda p: p.stat().st_mtime)
        except OSError:
            return None
        return next(filter(None, map(self._read, reversed(paths))), None)

    def models(self, address: str) -> set[str]:
        """The names of the models at `address` that have a profile."""
        found = map(self._read, self.folder.glob(f"{_hash(address)}-*.json"))
        return {one.identity.model for one in found if one}

    def save(self, profile: Profile) -> Path:
        """Write the profile whole or not at all, readable by this user alone; its path.

        Raises StorageError.
        """
        path = self._path(profile.identity)
        text = json.dumps(
            {"schema_version": SCHEMA_VERSION, "profile": profile.as_json()}, indent=1
        )
        part: Path | None = None
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor, name = tempfile.mkstemp(prefix=".part-", dir=self.folder)  # of mode 0600
            part = Path(name)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            part.replace(path)
        except OSError as exc:
            if part:
                with contextlib.suppress(OSError):
                    part.unlink()
            raise StorageError(
                f"The profile cannot be kept in {self.folder}: {exc.strerror}.",
                "Make the folder writable.",
            ) from exc
        return path

    def _path(self, identity: Identity) -> Path:
        details = json.dumps(dict(identity.details), sort_keys=True)
        names = (identity.address, identity.model, details)
        return self.folder / ("-".join(map(_hash, names)) + ".json")

    def _read(self, path: Path) -> Profile | None:
        try:
            with path.open("rb") as file:
                value = json.loads(file.read(LARGEST))
            version = value["schema_version"]
            if isinstance(version, int) and version > SCHEMA_VERSION:
                self._say(f"The profile {path} was made by a newer version; it is not used.")
                return None
            return from_json(value["profile"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            self._say(f"The profile {path} is damaged and not used; agent model probe makes one.")
            return None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]
