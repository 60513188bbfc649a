"""Threads as a whole: listed, searched, renamed, deleted, pruned; no conversation is open."""

from local_agent.memory import ThreadInfo
from local_agent.threads.listing import (
    PendingApproval,
    has_open_turn,
    list_threads,
    pending_approvals,
)

__all__ = ["PendingApproval", "ThreadInfo", "has_open_turn", "list_threads", "pending_approvals"]
