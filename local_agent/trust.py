"""Which configuration files may be used: one found in a folder is code of whoever wrote it."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from local_agent.config import Settings, user_folders, visible
from local_agent.errors import ConfigError

# Of the shipped mcp_servers.toml, line ends as LF (see config.content_hash: Windows checkouts).
SAMPLE_SHA256 = "d1488b38e3e6cb71174e97d97ee591c215c3562e8864b936d04c11adaabcd9b2"
_KEPT = 20  # contents of one path that stay trusted, so that changing branches does not ask anew


@dataclass(frozen=True, slots=True)
class Trusted:
    """The file may be used. `why` completes "trusted: ..."."""

    why: str


@dataclass(frozen=True, slots=True)
class NeedsTrust:
    """The file may not be used before someone has said so. `lines` say what it would do."""

    path: Path
    sha256: str
    lines: tuple[str, ...]


def check_trust(settings: Settings, store: Path | None = None) -> Trusted | NeedsTrust:
    """Say whether the file that `settings` were read from may be used.

    Only a file found in the working folder needs to be trusted; who names one or puts it into
    their own configuration folder has said so already. `store` is for tests (`store_path()`).
    """
    if settings.config_path is None:
        return Trusted("there is no file")
    if settings.config_found != "folder":
        return Trusted("named by you, or in your own configuration folder")
    if settings.config_sha256 == SAMPLE_SHA256:
        return Trusted("the sample as it is shipped")
    path = os.path.realpath(settings.config_path)
    if settings.config_sha256 in _load(store or store_path()).get(path, ()):
        return Trusted("you said so before")
    return NeedsTrust(settings.config_path, settings.config_sha256, settings.outline)


def describe(settings: Settings) -> list[str]:
    """Return lines that say what the file starts, and what it sends where.

    Variables are named without their values, and all characters are visible ones.
    """
    return list(settings.outline)


def trust(settings: Settings, store: Path | None = None) -> None:
    """Remember that this path may be used with this content. Raises ConfigError if it can't."""
    if settings.config_path is None:
        return
    store = store or store_path()
    files = _load(store)
    path = os.path.realpath(settings.config_path)
    others = [known for known in files.get(path, ()) if known != settings.config_sha256]
    files[path] = [*others, settings.config_sha256][-_KEPT:]
    try:
        _save(store, files)
    except OSError as exc:
        raise ConfigError(
            f"Trust cannot be kept in {visible(str(store))}: {exc.strerror}.",
            f"Meanwhile, name the file: agent --config {_quoted(str(settings.config_path))}",
        ) from exc


def refusal(needs: NeedsTrust) -> ConfigError:
    """Return the error for when there is nobody to ask: it holds the exact command."""
    return ConfigError(
        f"{visible(str(needs.path))} was found here, starts programs, and is not trusted yet.",
        f"Look at it, then: agent config trust {_quoted(str(needs.path))}",
    )


def store_path() -> Path:
    """Return where trust is kept, in the user's data folder."""
    return user_folders().data / "trusted.json"


def _quoted(path: str) -> str:
    if visible(path) != path:
        return "FILE"  # cannot be written so that it can be pasted
    return subprocess.list2cmdline([path]) if sys.platform == "win32" else shlex.quote(path)


def _load(store: Path) -> dict[str, list[str]]:
    """Return the hashes by path. What cannot be read or understood trusts nothing."""
    try:
        known = json.loads(store.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    files = known.get("files") if isinstance(known, dict) else None
    if not isinstance(files, dict):
        return {}
    return {
        path: [item for item in hashes if isinstance(item, str)]
        for path, hashes in files.items()
        if isinstance(hashes, list)
    }


def _save(store: Path, files: Mapping[str, list[str]]) -> None:
    store.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # mkstemp makes the file 0600; replace changes the old one for it in one step.
    handle, name = tempfile.mkstemp(dir=store.parent, prefix=store.name, suffix=".new")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump({"version": 1, "files": files}, stream, indent=1)
        Path(name).replace(store)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
