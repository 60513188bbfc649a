"""The shipped test kit: a scripted model server and a small MCP server, standard library only."""

from __future__ import annotations

import sys
from pathlib import Path

from .behaviours import Behaviour, after, answering, as_text, one_call, only, refusing, said
from .history import check_request, prompt_text
from .replies import (
    Broken,
    Call,
    Calls,
    Deltas,
    Fail,
    Hang,
    Json,
    RawCall,
    Reply,
    Say,
    Slow,
    overflow_reply,
)
from .server import ScriptedServer


def echo_server() -> tuple[str, list[str]]:
    """Command and arguments of the MCP server in `testing/mcp_server.py`.

    Its tools: echo(text), add(a, b), big(chars), slow(seconds), fail(text?), die() are reads;
    write_note(text, path?) and slow_write(seconds, text, path?) are writes that append to
    `path` or to the file named by the variable NOTE_FILE. TOOLS="echo,add" offers only those.
    """
    return sys.executable, [
        "-I",
        "-S",
        "-X",
        "utf8",
        str(Path(__file__).with_name("mcp_server.py")),
    ]


__all__ = [
    "Behaviour",
    "Broken",
    "Call",
    "Calls",
    "Deltas",
    "Fail",
    "Hang",
    "Json",
    "RawCall",
    "Reply",
    "Say",
    "ScriptedServer",
    "Slow",
    "after",
    "answering",
    "as_text",
    "check_request",
    "echo_server",
    "one_call",
    "only",
    "overflow_reply",
    "prompt_text",
    "refusing",
    "said",
]
