"""A raw MCP server over stdio that misbehaves on demand; starts in some 50 ms.

The first argument is a JSON object (all keys optional):
  name      what `whoami` answers
  pages     {cursor: {"tools": [name or tool object], "next": cursor, "error": true}}; first is ""
  stderr    text written to stderr at the start        spam   write to stderr for ever
  exit      exit with this code before anything        noise  junk on stdout before each answer
  silent    never answer                               delay  seconds before reading anything
  deaf      ignore the end of input and SIGTERM        child  start a child that outlives us
  record    file that gets each method received, one a line, with its params
Tools that are always callable: whoami, pid, set, get, env, echo, give, die, hang, late, note.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

Message = dict[str, Any]

CONFIG: Message = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
STORE: Message = {}
LOCK = threading.Lock()
DEFAULT = ["whoami", "pid", "set", "get", "env", "echo", "give", "die", "hang", "late", "note"]


def send(message: Message) -> None:
    with LOCK:
        if CONFIG.get("noise"):
            sys.stdout.write("Starting up... {not json\n[1, 2\n\n")
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def text(value: Any) -> Message:
    return {"content": [{"type": "text", "text": str(value)}]}


def tool(entry: Any) -> Message:
    if isinstance(entry, dict):
        return entry
    return {"name": entry, "description": f"The tool {entry}.", "inputSchema": {"type": "object"}}


def list_tools(params: Message | None) -> Message:
    pages = CONFIG.get("pages") or {"": {"tools": DEFAULT}}
    page = pages[(params or {}).get("cursor") or ""]
    if page.get("error"):
        raise ValueError("no such page today")
    result = {"tools": [tool(entry) for entry in page["tools"]]}
    if "next" in page:
        result["nextCursor"] = page["next"]
    return result


def die(args: Message) -> Message:
    os._exit(9)


def note(args: Message) -> Message:
    with open(args["file"], "a") as file:  # noqa: PTH123 - pathlib doubles the start time
        file.write(args["line"] + "\n")
    return text("noted")


TOOLS: dict[str, Callable[[Message], Message]] = {
    "whoami": lambda args: text(CONFIG.get("name", "")),
    "pid": lambda args: text(os.getpid()),
    "set": lambda args: text(STORE.update({args["key"]: args["value"]})),
    "get": lambda args: text(STORE.get(args["key"])),
    "env": lambda args: text(json.dumps(dict(os.environ))),
    "echo": lambda args: text(json.dumps(args, sort_keys=True)),
    "give": lambda args: args["result"],
    "die": die,
    "note": note,
}


def call(message: Message) -> None:
    name, args = message["params"]["name"], message["params"].get("arguments") or {}
    if name == "hang":
        return
    if name == "late":
        answer = {"id": message["id"], "result": text("late")}
        threading.Timer(args["seconds"], send, [answer]).start()
        return
    known = TOOLS.get(name)
    result = known(args) if known else text(f"{CONFIG.get('name', '')}:{name}")
    send({"id": message["id"], "result": result})


def answer(message: Message) -> None:
    method = message.get("method")
    if CONFIG.get("record"):
        with open(CONFIG["record"], "a") as file:  # noqa: PTH123 - as above
            file.write(f"{method} {json.dumps(message.get('params'))}\n")
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        info = {"name": "raw", "version": "1"}
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        send({"id": message["id"], "result": result})
    elif method == "tools/list":
        send({"id": message["id"], "result": list_tools(message.get("params"))})
    elif method == "tools/call":
        call(message)


def spam() -> None:
    while True:
        sys.stderr.write("\x1b[31mstill here\x1b[0m " + "x" * 1000 + "\n")


def main() -> None:
    if CONFIG.get("stderr"):
        print(CONFIG["stderr"], file=sys.stderr, flush=True)
    if "exit" in CONFIG:
        sys.exit(CONFIG["exit"])
    if CONFIG.get("deaf"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if CONFIG.get("child"):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        STORE["child"] = child.pid
    if CONFIG.get("spam"):
        threading.Thread(target=spam, daemon=True).start()
    time.sleep(CONFIG.get("delay", 0))
    for line in sys.stdin:
        if CONFIG.get("silent"):
            continue
        message = json.loads(line)
        try:
            answer(message)
        except (KeyError, ValueError) as exc:
            error = {"code": -32000, "message": str(exc)}
            send({"id": message.get("id"), "error": error})
    if CONFIG.get("deaf"):
        time.sleep(60)
    os._exit(0)


main()
