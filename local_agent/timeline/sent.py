"""The request that an answer came of, made again from the state before it by the program's code."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage

from agent_core.limits import Limits
from agent_core.prompt import Composer
from agent_core.sent import SENT, digest, with_line
from context import PromptTooLong, Window
from local_agent.memory import Memory

NO_FACTS = "this reply kept nothing of its request: another program or an older version wrote it"
NO_BASIS = "what the request was made of is not in this database"
CHANGED = "this version of the program makes another request of it than was sent"


@dataclass(frozen=True, slots=True)
class Sent:
    """A request: messages, system prompt first, and tools. `is_exact`: just this was sent.

    Where it is not, `why` says what is not known or has changed. `context_length` is in tokens.
    """

    messages: Sequence[AnyMessage]
    tools: Sequence[Mapping[str, Any]]
    is_exact: bool
    why: str = ""
    model: str = ""
    context_length: int | None = None


async def sent_for(memory: Memory, values: Mapping[str, Any], reply: AIMessage | None) -> Sent:
    """The request for `reply` to the state `values`; None as reply: as far as can be told."""
    said = reply.response_metadata if reply else {}
    facts, model = said.get(SENT), str(said.get("model_name") or "")
    if not isinstance(facts, Mapping):
        messages: Sequence[AnyMessage] = values.get("messages", [])
        return Sent(messages, [], False, NO_FACTS, model)
    text = await memory.threads.basis(str(facts["basis"]))
    if text is None:
        return Sent(values.get("messages", []), [], False, NO_BASIS, model)
    basis = json.loads(text)
    tools, length = basis["tools"], basis["window"]["context_length"]
    try:
        messages = _compose(values, basis, facts)
    except (PromptTooLong, TypeError) as exc:  # other limits than this version knows
        return Sent(values.get("messages", []), tools, False, f"{CHANGED} ({exc})", model, length)
    is_exact = digest(messages, tools) == facts["digest"]
    return Sent(messages, tools, is_exact, "" if is_exact else CHANGED, model, length)


def _compose(
    values: Mapping[str, Any], basis: Mapping[str, Any], facts: Mapping[str, Any]
) -> list[AnyMessage]:
    """The one place that calls the program's own view code."""
    window = Window(**basis["window"], scale=facts["scale"])
    composer = Composer(window, basis["system"], Limits(**basis["limits"]), ())
    composer.lookups.clear()  # where they were offered, they are among the tools of the basis
    tools = [_Described.of(function["function"]) for function in basis["tools"]]
    known = {**values, "lookup": True}
    messages = composer.compose(known, tools, part=facts["part"]).messages
    return with_line(messages, facts.get("behind", ""))


@dataclass(frozen=True, slots=True)
class _Described:
    """A tool as it was offered; it cannot be called."""

    name: str
    description: str
    schema: Mapping[str, Any]
    server: str = ""
    original: str = ""
    identity: str = ""
    read_only: bool = True

    @classmethod
    def of(cls, function: Mapping[str, Any]) -> _Described:
        return cls(function["name"], function["description"], function["parameters"])

    async def __call__(self, args: Mapping[str, Any]) -> tuple[str, Literal["success", "error"]]:
        raise RuntimeError("nothing is run here")
