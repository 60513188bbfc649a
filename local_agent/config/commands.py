"""Finds the program that a server's `command` means."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

_INTERPRETER = re.compile(r"(python|pip|pypy)[\d.]*w?(\.exe)?", re.IGNORECASE)


def resolve_command(command: str, path: str | None = None) -> str:
    """Return the full path of the program `command` means, or `command` itself if none is found.

    The folder of the running Python comes before `path` (default: the variable PATH): a server
    installed together with the agent is meant to be used with it, and when the agent is started
    by its full path, from a virtual environment that is not active, PATH does not lead there.
    `python` and `pip` are the exception, PATH first: whoever writes them means their own.
    A command with a folder in it is taken as it is, `~` filled in. The working folder is never
    searched, as Windows would, nor is a relative entry of PATH: a cloned folder could bring its
    own `mcp-server-git.exe`.
    """
    if Path(command).name != command:
        return _expand(command)
    if not command:
        return command
    given = os.environ.get("PATH", os.defpath) if path is None else path
    on_path = [part for part in given.split(os.pathsep) if Path(part).is_absolute()]
    own = [str(Path(sys.executable).parent), sysconfig.get_path("scripts")]
    order = [*on_path, *own] if _INTERPRETER.fullmatch(command) else [*own, *on_path]
    return next(_found(command, order), command)


def _found(command: str, folders: Iterable[str]) -> Iterator[str]:
    for folder in folders:
        for name in _file_names(command):
            candidate = Path(folder) / name
            if candidate.is_file() and os.access(candidate, os.X_OK):
                yield str(candidate)


def _file_names(command: str) -> list[str]:
    if sys.platform != "win32":
        return [command]
    endings = [e for e in os.environ.get("PATHEXT", ".COM;.EXE;.BAT;.CMD").split(";") if e]
    if any(command.lower().endswith(ending.lower()) for ending in endings):
        return [command]
    return [command + ending for ending in endings]


def _expand(command: str) -> str:
    try:
        return str(Path(command).expanduser()) if command.startswith("~") else command
    except RuntimeError:  # no such user: the start says that there is no such file
        return command
