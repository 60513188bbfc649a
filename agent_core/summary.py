"""Asks the model to summarise the turns that are to be folded.

A server with one slot has the view of the last request, so the request is the beginning of that
view, up to what is to be kept, and one instruction behind it: nothing but the instruction is read
anew. Where that is too long, the folded messages go as text, in pieces that fit, each summary
extending the one before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata

from agent_core.fit import CHARS_A_TOKEN
from agent_core.fold import accepted, instruction, piece
from agent_core.ledger import Ledger
from agent_core.offer import Offer
from agent_core.ports import Model, Tool
from agent_core.prompt import Composer, Request
from agent_core.view import View, render
from context import text_of

MOST_PIECES = 4  # requests that one summary may take
_SHORTER = 0.8  # of a piece that is still too long, as our estimate goes by the characters
NO_TOOLS = Offer([], {}, 0)


@dataclass(slots=True)
class Asked:
    """The usable summary, or ""; and what asking for it took."""

    text: str = ""
    usage: list[UsageMetadata] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Summariser:
    """Asks for summaries; a failure of any kind is an empty one."""

    model: Model
    composer: Composer
    ledger: Ledger

    async def summarise(
        self,
        values: Mapping[str, Any],
        folded: Sequence[AnyMessage],
        *,
        chars: int,
        thread: str,
        tools: Sequence[Tool],
    ) -> Asked:
        """A summary, of about `chars` characters, of what is `folded` and of the one before.

        `values` are the state, `tools` those of the request before on `thread`.
        """
        asked = Asked()
        marks = self.composer.marks(values)
        whole = self._continuing(values, folded, chars, tools)
        replaced = len(marks.summary) + sum(len(text_of(m.content)) for m in folded)
        if whole is not None:
            asked.text = await self._ask(whole, replaced, thread, asked)
            return asked
        text = marks.summary
        for part in self._parts(folded):
            request = self._piece(part, text, chars)
            if request is None:
                return asked
            replaced = len(text) + sum(len(text_of(m.content)) for m in part)
            text = await self._ask(request, replaced, thread, asked)
            if not text:
                return asked
        asked.text = text
        return asked

    async def _ask(self, request: Request, replaced: int, thread: str, asked: Asked) -> str:
        window, choice = self.composer.window, "none" if request.offer.functions else None
        self.ledger.sent(thread, "summary", request, window)
        try:
            reply = await self.model.reply(
                request.messages, tools=request.offer.functions, tool_choice=choice
            )
        except self.model.overflow as exc:
            length = getattr(exc, "context_length", None)
            window.overflowed(getattr(exc, "prompt_tokens", None), length, request.tokens)
            return ""
        except Exception:  # noqa: BLE001 - without a summary the turn goes on as it was
            return ""
        if reply.usage_metadata:
            window.observe(request.tokens, reply.usage_metadata["input_tokens"])
            asked.usage.append(reply.usage_metadata)
        return accepted(reply, replaced)

    def _continuing(
        self,
        values: Mapping[str, Any],
        folded: Sequence[AnyMessage],
        chars: int,
        tools: Sequence[Tool],
    ) -> Request | None:
        """The request that begins like the last one; None where it does not fit."""
        messages, last = values["messages"], folded[-1].id
        end = next(i for i in range(len(messages) - 1, -1, -1) if messages[i].id == last) + 1
        ask = HumanMessage(instruction("", chars), id="summarise")
        limits = self.composer.limits
        view = render([*messages[:end], ask], self.composer.marks(values), limits)
        offered = self.composer.offer(tools, lookup=bool(values.get("lookup")))
        tokens = self.composer.window.tokens(view.messages)
        # A summary is shorter than an answer may be: twice its length is kept free for it.
        spare = max(self.composer.window.reply - 2 * chars // CHARS_A_TOKEN, 0)
        if tokens > self.composer.room(offered) + spare:
            return None
        fixed = self.composer.window.room(0) - self.composer.room(offered)
        return Request(self.composer.system, view, offered, tokens + fixed, {})

    def _parts(self, folded: Sequence[AnyMessage]) -> list[Sequence[AnyMessage]]:
        """`folded` in as many runs of about one size as requests are needed, at most four."""
        most = max(self.composer.room(NO_TOOLS) // 2, 1)
        whole = [self.composer.window.tokens([m]) for m in folded]
        # Of a long result no more goes in than of several short ones.
        sizes = [
            min(size, most // 4) if isinstance(m, ToolMessage) else size
            for m, size in zip(folded, whole, strict=True)
        ]
        count = min(MOST_PIECES, -(-sum(sizes) // most), len(folded))
        parts: list[Sequence[AnyMessage]] = []
        start, taken = 0, 0
        for at, size in enumerate(sizes):
            taken += size
            if taken * count >= sum(sizes) * (len(parts) + 1) or at + 1 == len(sizes):
                parts.append(folded[start : at + 1])
                start = at + 1
        return [part for part in parts if part]

    def _piece(self, part: Sequence[AnyMessage], previous: str, chars: int) -> Request | None:
        """A request with `part` as text, cut so that it fits; None where nothing would be left."""
        room, ask = self.composer.room(NO_TOOLS), instruction(previous, chars)
        longest = room * 4.0
        while longest > 200:
            content = f"{piece(part, int(longest))}\n\n{ask}"
            prompt = HumanMessage(content, id="summarise")
            tokens = self.composer.window.tokens([prompt])
            if tokens <= room:
                fixed = self.composer.window.room(0) - room
                view = View([prompt], {}, "", False)
                return Request(self.composer.system, view, NO_TOOLS, tokens + fixed, {})
            longest *= _SHORTER
        return None
