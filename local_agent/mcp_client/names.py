"""Names of tools as the model sees them: safe, unique, and the same after every restart.

A name depends on the server's key, the tool's own name and the set of tools that are known, never
on the order in which servers answer. A server that is down this time would change that set, so
what each server offered last is kept in a file and still counts (`KnownTools`): `work__search`
does not turn into `search` because the server `home` failed to start.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

MAX_NAME = 64
_HASH = 8

Key = tuple[str, str]
"""(server, the tool's own name)"""


def _hash(*parts: str) -> str:
    joined = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(joined).hexdigest()[:_HASH]


def _with_hash(name: str, *parts: str) -> str:
    return f"{name[: MAX_NAME - _HASH - 1]}_{_hash(*parts)}"


def _safe(text: str) -> str:
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    if len(ascii_text) < len(text):  # other scripts leave nothing to tell two names apart
        ascii_text = re.sub(r"[^\x00-\x7f]", "_", text)
    return re.sub(r"[^a-z0-9_]+", "_", ascii_text.lower())


def safe_name(original: str) -> str:
    """Bring a tool's own name to [a-z0-9_]{1,64}; what is cut or empty ends in a short hash."""
    name = _safe(original)
    if not name.strip("_"):
        return f"tool_{_hash(original)}"
    return name if len(name) <= MAX_NAME else _with_hash(name, original)


def _joined(server: str, original: str) -> str:
    name = f"{_safe(server).strip('_') or 'server'}__{_safe(original)}"
    return name if len(name) <= MAX_NAME else _with_hash(name, server, original)


def assign_names(tools: Iterable[Key], reserved: Collection[str] = ()) -> dict[Key, str]:
    """Name every (server, original), whatever their order.

    A tool has its own name; where two servers have it (or it is in `reserved`), `server__name`;
    where that still clashes, a hash at the end. A tool that is called exactly so keeps its name.
    """
    keys = sorted(set(tools))
    own = {key: safe_name(key[1]) for key in keys}
    servers: defaultdict[str, set[str]] = defaultdict(set)
    for key, name in own.items():
        servers[name].add(key[0])
    shared = {name for name, of in servers.items() if len(of) > 1} | set(reserved)
    names = {key: _joined(*key) if own[key] in shared else own[key] for key in keys}

    def is_exact(key: Key) -> bool:
        return names[key] == key[1]

    exact = Counter(names[key] for key in keys if is_exact(key))
    count = Counter(names.values())
    taken = set(reserved)
    for key in keys:
        if count[names[key]] > 1 and not (is_exact(key) and exact[names[key]] == 1):
            names[key] = _with_hash(names[key], *key)
        while names[key] in taken:  # a tool that is called like the hashed name of another
            names[key] = _with_hash(names[key], names[key], *key)
        taken.add(names[key])
    return names


class KnownTools:
    """What each server offered when it was last up: {server: [original, ...]} in a small file.

    Without a path it begins empty and is not kept.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._tools: dict[str, list[str]] = {}
        if path is None:
            return
        with suppress(OSError, ValueError):
            stored = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(stored, dict):
                self._tools = {
                    str(server): [name for name in names if isinstance(name, str)]
                    for server, names in stored.items()
                    if isinstance(names, list)
                }

    def of(self, server: str) -> list[str]:
        """Give the original names that the server offered last; empty if it was never up."""
        return self._tools.get(server, [])

    def remember(self, found: Mapping[str, list[str]]) -> None:
        """Keep the lists of the servers that are up; a folder that can't be written is no error."""
        merged = {**self._tools, **found}
        if merged == self._tools:
            return
        self._tools = merged
        if self._path is None:
            return
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=".tools")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(merged, file)
            Path(name).replace(self._path)
