"""What comes of a command of the chat."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from local_agent.events import Event


@dataclass(frozen=True, slots=True)
class Reply:
    """What comes of a command, in this order: a text, another thread, a turn, the next draft.

    `thread` is gone to; `turn` is run and shown like a prompt's; `look`: a turn that the thread
    now stands in is finished first; `draft` stands in the next prompt.
    """

    text: str = ""
    thread: str | None = None
    turn: AsyncIterator[Event] | None = None
    look: bool = False
    draft: str = ""
