"""A small MCP server over stdio in plain JSON-RPC; run as a script, it starts in some 50 ms.

Environment: NOTE_FILE is where `write_note` and `slow_write` append (an argument `path` wins),
SERVER_NAME what it calls itself, EXTRA_TOOLS a JSON list of further tool objects (answered with
their own name and arguments), INSTRUCTIONS the text of the initialize result.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

Args = dict[str, Any]
_TEXT = {"type": "string"}
_NUMBER = {"type": "number"}
_out = threading.Lock()


def _append(args: Args, line: str) -> None:
    path = args.get("path") or os.environ.get("NOTE_FILE")
    if not path:
        raise ValueError("no file: set NOTE_FILE or pass path")
    with open(path, "a", encoding="utf-8") as file:  # noqa: PTH123 - pathlib doubles the start time
        file.write(line + "\n")


def _write_note(args: Args) -> str:
    _append(args, args["text"])
    return f"noted: {args['text']}"


def _slow(args: Args) -> str:
    time.sleep(args["seconds"])
    return f"waited {args['seconds']}"


def _slow_write(args: Args) -> str:
    _append(args, f"start {args['text']}")
    time.sleep(args["seconds"])
    _append(args, f"end {args['text']}")
    return f"wrote: {args['text']}"


def _fail(args: Args) -> str:
    raise ValueError(args.get("text") or "it failed")


def _die(args: Args) -> str:
    os._exit(9)


def _tool(
    description: str, required: Args, optional: Args | None = None, read: bool = True
) -> Args:
    schema = {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
    }
    tool: Args = {"description": description, "inputSchema": schema}
    if read:
        tool["annotations"] = {"readOnlyHint": True}
    return tool


_WAIT = {"seconds": _NUMBER}
_NOTE = {"text": _TEXT}
_PATH = {"path": _TEXT}
TOOLS: dict[str, tuple[Args, Callable[[Args], str]]] = {
    "echo": (_tool("Give the text back.", _NOTE), lambda args: str(args["text"])),
    "add": (
        _tool("Add two numbers.", {"a": _NUMBER, "b": _NUMBER}),
        lambda args: str(args["a"] + args["b"]),
    ),
    "big": (
        _tool("Give a text of that many characters.", {"chars": {"type": "integer"}}),
        lambda args: ("lorem ipsum " * (args["chars"] // 12 + 1))[: args["chars"]],
    ),
    "fail": (_tool("Fail with that text.", {}, _NOTE), _fail),
    "die": (_tool("End the server process at once.", {}), _die),
    "slow": (_tool("Wait, then answer.", _WAIT), _slow),
    "write_note": (_tool("Append a line to the notes.", _NOTE, _PATH, read=False), _write_note),
    "slow_write": (
        _tool("Append a line, wait, append another.", {**_WAIT, **_NOTE}, _PATH, read=False),
        _slow_write,
    ),
}


def _list_tools() -> Args:
    wanted = os.environ.get("TOOLS")
    names = wanted.split(",") if wanted else list(TOOLS)
    tools = [{"name": name, **TOOLS[name][0]} for name in names]
    return {"tools": tools + json.loads(os.environ.get("EXTRA_TOOLS") or "[]")}


def _call(params: Args) -> Args:
    name, args = params["name"], params.get("arguments") or {}
    try:
        if name in TOOLS:
            text = TOOLS[name][1](args)
        else:
            text = f"{name} {json.dumps(args, ensure_ascii=False)}"
    except (ValueError, KeyError, TypeError) as exc:
        return {
            "content": [{"type": "text", "text": f"{type(exc).__name__}: {exc}"}],
            "isError": True,
        }
    return {"content": [{"type": "text", "text": text}], "isError": False}


def _result(method: str, params: Args) -> Args | None:
    if method == "initialize":
        name = os.environ.get("SERVER_NAME") or "echo"
        answer: Args = {
            "protocolVersion": params.get("protocolVersion", "2025-06-18"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": name, "version": "1"},
        }
        if os.environ.get("INSTRUCTIONS"):
            answer["instructions"] = os.environ["INSTRUCTIONS"]
        return answer
    if method == "ping":
        return {}
    if method == "tools/list":
        return _list_tools()
    if method == "tools/call":
        return _call(params)
    return None


def _answer(message: Args) -> None:
    result = _result(message["method"], message.get("params") or {})
    answer: Args = {"jsonrpc": "2.0", "id": message["id"]}
    if result is None:
        answer["error"] = {"code": -32601, "message": f"no method {message['method']}"}
    else:
        answer["result"] = result
    line = json.dumps(answer) + "\n"
    with _out:
        sys.stdout.write(line)
        sys.stdout.flush()


def main() -> None:
    """Answer requests line by line until stdin ends; each call in a thread of its own."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            threading.Thread(target=_answer, args=(message,), daemon=True).start()


if __name__ == "__main__":
    main()
