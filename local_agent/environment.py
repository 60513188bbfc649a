"""What is set in this process before any library is imported."""

from __future__ import annotations

import os

from local_agent.tracing import forbid_tracing


def prepare_environment() -> None:
    """Whatever the user's shell says: no tracing service, no other classes out of the database.

    LangChain, LangSmith and LangGraph read these variables once, at import, and keep them.
    """
    forbid_tracing()
    os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"
