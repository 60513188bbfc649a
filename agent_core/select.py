"""The strategies that send the newest messages as they are: the last ones, by number or tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage, trim_messages

from agent_core.limits import Limits
from agent_core.view import last_prompt

Tokens = Callable[[Sequence[AnyMessage]], int]


def select(
    messages: Sequence[AnyMessage], limits: Limits, tokens: Tokens, room: int
) -> Sequence[AnyMessage]:
    """The newest messages that `limits.strategy` sends; always at least the last turn.

    `tokens` counts messages as they are shown, `room` is what a request has for them. The first
    one is a prompt, so a call and its result are never parted. "compact" selects nothing: all stay.
    """
    if limits.strategy == "compact":
        return messages
    first = last_prompt(messages)
    if limits.strategy == "last":
        start = len(messages) - limits.last_messages
        first = min(first, _prompt_from(messages, max(start, 0)))
    most = room
    if limits.strategy == "trim":
        most = min(limits.trim_tokens or room, room)
        first = _covering(messages, tokens, most)
        counter: Any = tokens
        kept: list[Any] = trim_messages(
            list(messages[first:]), max_tokens=most, token_counter=counter, start_on="human"
        )
        return kept or messages[last_prompt(messages) :]
    if limits.strategy == "all":
        first = _covering(messages, tokens, most)
    return _fitting(messages[first:], tokens, most)


def _prompt_from(messages: Sequence[AnyMessage], start: int) -> int:
    """The index of the first prompt at or behind `start`, or the number of messages."""
    prompts = (i for i in range(start, len(messages)) if isinstance(messages[i], HumanMessage))
    return next(prompts, len(messages))


def _covering(messages: Sequence[AnyMessage], tokens: Tokens, most: int) -> int:
    """Where the fewest last turns begin that have more than `most` tokens; 0 if all have less.

    No more is looked at, so that a view costs what it holds and not what the thread holds.
    """
    end, total = len(messages), 0
    for at in range(len(messages) - 1, -1, -1):
        if isinstance(messages[at], HumanMessage):
            total += tokens(messages[at:end])
            end = at
            if total > most:
                return at
    return 0


def _fitting(messages: Sequence[AnyMessage], tokens: Tokens, most: int) -> Sequence[AnyMessage]:
    """The last turns of `messages` that have at most `most` tokens."""
    first = end = last_prompt(messages)
    total = tokens(messages[first:])
    for at in range(first - 1, -1, -1):
        if isinstance(messages[at], HumanMessage):
            total += tokens(messages[at:end])
            if total > most:
                break
            first = end = at
    return messages[first:]
