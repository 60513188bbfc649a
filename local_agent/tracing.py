"""Keeps the conversation on this machine: LangSmith tracing is off whatever variables are set."""

from __future__ import annotations

import os
import sys

_PREFIXES = ("LANGSMITH_", "LANGCHAIN_TRACING", "LANGCHAIN_API_KEY", "LANGCHAIN_ENDPOINT")


def forbid_tracing() -> None:
    """Take the tracing variables out of this process; call it before LangChain is imported.

    The values are cached where they are first read, so LangSmith is told too if it is already
    loaded. LANGCHAIN_TRACING, which asks for a tracer that no longer exists, would end the
    first run with an error if it stayed.
    """
    for name in list(os.environ):
        if name.startswith(_PREFIXES):
            del os.environ[name]
    os.environ["LANGSMITH_TRACING"] = "false"
    if "langsmith" in sys.modules:
        import langsmith

        langsmith.configure(enabled=False)
