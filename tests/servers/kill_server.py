"""An MCP server whose every call has a token of its own; a write appends it to NOTE_FILE.

Run as a script, with the machinery of the shipped echo server and tools of its own. `write` and
`slow_write` are writes, `look`, `slow_look` and `fail` are reads. Each call leaves a line in
CALL_FILE when it begins, "+" and its token, and one when it ends, "-" and its token.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ECHO = Path(__file__).resolve().parents[2] / "local_agent" / "testing" / "mcp_server.py"
WORDS = "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor "
Args = dict[str, Any]


def looked(token: str, chars: int) -> str:
    """What `look` gives: the token, then that many characters."""
    return f"saw {token}: {(WORDS * (chars // len(WORDS) + 1))[:chars]}".rstrip()


def _look(args: Args) -> str:
    return looked(args["token"], args["chars"])


def _slow_look(args: Args) -> str:
    time.sleep(args["seconds"])
    return looked(args["token"], 0)


def _fail(args: Args) -> str:
    raise ValueError(f"failed {args['token']}")


def _append(variable: str, line: str) -> None:
    with Path(os.environ[variable]).open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def _logged(run: Callable[[Args], str]) -> Callable[[Args], str]:
    def logged(args: Args) -> str:
        _append("CALL_FILE", f"+{args['token']}")
        try:
            return run(args)
        finally:
            _append("CALL_FILE", f"-{args['token']}")

    return logged


def _write(args: Args) -> str:
    _append("NOTE_FILE", args["token"])
    return f"wrote {args['token']}"


def _slow_write(args: Args) -> str:
    time.sleep(args["seconds"] / 2)
    text = _write(args)
    time.sleep(args["seconds"] / 2)
    return text


def _tool(text: str, other: str, kind: str, *, read: bool) -> Args:
    fields: Args = {"token": {"type": "string"}}
    if other:
        fields[other] = {"type": kind}
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    tool: Args = {"description": text, "inputSchema": schema}
    return {**tool, "annotations": {"readOnlyHint": True}} if read else tool


TOOLS: dict[str, tuple[Args, Callable[[Args], str]]] = {
    "look": (_tool("Look at it.", "chars", "integer", read=True), _look),
    "slow_look": (_tool("Look slowly.", "seconds", "number", read=True), _slow_look),
    "fail": (_tool("Fail.", "", "", read=True), _fail),
    "write": (_tool("Write it.", "", "", read=False), _write),
    "slow_write": (_tool("Write slowly.", "seconds", "number", read=False), _slow_write),
}


def main() -> None:
    """Answer requests until stdin ends."""
    spec = importlib.util.spec_from_file_location("echo", ECHO)
    assert spec is not None
    assert spec.loader is not None
    echo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(echo)
    echo.TOOLS.clear()
    echo.TOOLS.update({name: (tool, _logged(run)) for name, (tool, run) in TOOLS.items()})
    echo.main()


if __name__ == "__main__":
    main()
