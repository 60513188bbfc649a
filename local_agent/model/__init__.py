"""The chat model: finds it on its server, talks to it, and names what went wrong."""

from __future__ import annotations

from .chat import ChatModel, connect_model
from .discovery import Found, ModelInfo, discover, list_models
from .thinking import ThinkSplitter

__all__ = [
    "ChatModel",
    "Found",
    "ModelInfo",
    "ThinkSplitter",
    "connect_model",
    "discover",
    "list_models",
]
