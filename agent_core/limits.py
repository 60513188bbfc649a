"""How views are made, as settings: plain numbers that need no other module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ViewSettings:
    """What [context] says of the view. Shares are of the room for messages, which is the budget
    less the tools.

    keep_turns, keep_chars: as in `compact`.
    strategy: "compact", or without summary and stubs "trim" (the newest turns in `trim_tokens`),
    "last" (the newest `last_messages`) and "all".
    step: "cache" shortens in steps, "turn" in every view.
    high_water, low_water: maintenance is due above the one and goes down to the other; of what a
    view may have, which falls from the room to two thirds of it with the steps. With 0.9 and 0.25 a
    server with 8,192 tokens reads 1.16 times what is new (0.35: 1.39 times; five
    conversations of 100 turns, `benchmarks/context.py`).
    result_share: a result over this share is clipped when it arrives.
    summary: folded turns are summarised by the model; without, facts are kept by rule alone.
    summary_tokens: of the longest summary; None means 400, and never more than an eighth.
    """

    strategy: Literal["compact", "trim", "last", "all"] = "compact"
    step: Literal["cache", "turn"] = "cache"
    keep_turns: int = 2
    keep_chars: int = 200
    high_water: float = 0.9
    low_water: float = 0.25
    result_share: float = 0.35
    last_messages: int = 20
    trim_tokens: int | None = None
    summary: bool = True
    summary_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Limits(ViewSettings):
    """`ViewSettings`, and `max_steps`: the model calls of a turn.

    shorten: what servers say of their tools is shortened; see `agent_core.brief`.
    """

    max_steps: int = 12
    shorten: bool = True
