"""The child process of `--model embedded`: llama.cpp's own HTTP server out of the xllamacpp wheel.

Run as a script by `local_agent.embedded`, never imported by the program. One line of JSON comes
in on stdin: {"model", "alias", "context_length", "threads", "template", "api_key"}. One line goes
out on stdout when the model is loaded: {"listening": "http://127.0.0.1:PORT"}. Everything that
llama.cpp has to say goes to stderr. The end of stdin is the end of the process: when the parent
dies, however it dies, the pipe closes and the memory is given back.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
from typing import Any

PROMPT_CACHE_MIB = 1024
"""Memory for prompts that left the slot (the router's, another thread's). llama.cpp's own
default is 8192, which a laptop with a model loaded does not have to spare."""


def main() -> int:
    """Load the model, report the address, serve until stdin ends. 1: it could not be loaded."""
    report = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a stray print of the library must not pass for the report
    wish = json.loads(sys.stdin.readline())
    try:
        server = _serve(wish)
    except RuntimeError:  # the reason is in the lines that llama.cpp has written before it
        return 1
    # Started after the load: the wheel keeps the interpreter locked while it loads, so until
    # then only a signal ends this process; the end of stdin is seen right behind the load.
    threading.Thread(target=_end_with_parent, daemon=True).start()
    report.write(json.dumps({"listening": server.listening_address}) + "\n")
    report.close()
    threading.Event().wait()
    return 0


def _serve(wish: dict[str, Any]) -> Any:
    """A running server; xllamacpp raises RuntimeError when there can be none."""
    xllamacpp: Any = importlib.import_module("xllamacpp")  # it has no types
    params = xllamacpp.CommonParams()
    params.model.path = wish["model"]
    params.model_alias = {wish["alias"]}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = wish["context_length"]
    params.n_parallel = 1
    params.cache_ram_mib = PROMPT_CACHE_MIB
    params.use_jinja = True
    if wish["template"]:
        params.chat_template = wish["template"]
    if wish["threads"]:
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = wish["threads"]
    if wish["api_key"]:
        params.api_keys = [wish["api_key"]]
    params.ui = False
    params.endpoint_slots = False  # it shows the prompt to whoever asks
    params.cors_origins = ""  # no web page has any business here
    return xllamacpp.Server(params)


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
