"""A text edited in the user's own editor."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from local_agent.errors import UsageError

_USUAL = ("notepad",) if sys.platform == "win32" else ("nano", "vi")


async def edited(text: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """What the editor of $VISUAL or $EDITOR leaves of `text`; None if that is the same.

    The file for it is readable by the user alone, and gone afterwards. Raises `UsageError` where
    there is no editor, or it ended with an error.
    """
    command = _editor(environ)
    with tempfile.TemporaryDirectory(prefix="agent-edit-") as folder:
        path = Path(folder) / "text.txt"
        path.write_text(text, encoding="utf-8", newline="")
        try:
            process = await asyncio.create_subprocess_exec(*command, str(path))
            code = await process.wait()
        except OSError as exc:
            raise UsageError(
                f"The editor '{command[0]}' cannot be started: {exc.strerror or exc}.",
                "Set EDITOR to another.",
            ) from exc
        if code:
            raise UsageError(f"The editor ended with {code}; nothing was changed.")
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            after = file.read()
    if after == text or after == f"{text}\n":  # most editors end the last line
        return None
    return after if text.endswith("\n") else after.removesuffix("\n")


def _editor(environ: Mapping[str, str]) -> list[str]:
    named = environ.get("VISUAL") or environ.get("EDITOR")
    if named:
        return shlex.split(named, posix=sys.platform != "win32")
    path = environ.get("PATH")
    found = next((name for name in _USUAL if shutil.which(name, path=path)), None)
    if found is None:
        raise UsageError("There is no editor.", "Set EDITOR to one.")
    return [found]
