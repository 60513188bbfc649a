"""One reply of the model: the request that fits, the call, and what is said of it in the stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langgraph.config import get_stream_writer

from agent_core.ledger import Ledger
from agent_core.ports import Described, Model, Tool
from agent_core.prompt import Composer
from agent_core.sent import SENT, basis_of, digest, kept_of, key_of, with_line
from agent_core.turn import is_blank
from agent_core.view import EMPTY
from context import PromptTooLong, text_of

Delta = Callable[[Literal["text", "thinking"], str], None]

ARGUMENTS = "[Write the arguments of {name} as one JSON object, and nothing else.]"
SHORTER = 0.7  # part of the room that messages get after the server refused a prompt as too long


def emit(**event: Any) -> None:
    """Put an event into the graph's custom stream; `event` names its kind."""
    get_stream_writer()(event)


def emit_start(call: Mapping[str, Any], server: str, tool: str) -> None:
    """Say that `call` runs now: the `tool` of `server`."""
    emit(
        event="start",
        call_id=call["id"],
        name=call["name"],
        server=server,
        tool=tool,
        args=call["args"],
    )


def emit_result(message: ToolMessage) -> None:
    """Say what became of a call."""
    emit(
        event="result",
        call_id=message.tool_call_id,
        name=message.name,
        status=message.additional_kwargs["outcome"],
        text=text_of(message.content),
    )


def emit_usage(usage: UsageMetadata | None) -> None:
    """Say what a model call took, where the server told."""
    if usage:
        cached = usage.get("input_token_details", {}).get("cache_read", 0)
        read, written = usage["input_tokens"], usage["output_tokens"]
        emit(event="usage", input=read, output=written, cached=cached)


def emit_notice(text: str, level: Literal["info", "warning"] = "warning") -> None:
    """Say something that the user should know; nothing where there is nothing to say."""
    if text:
        emit(event="notice", text=text, level=level)


def emit_delta(kind: Literal["text", "thinking"], text: str) -> None:
    """Show a piece of a reply."""
    emit(event=kind, text=text)


def _untold(kind: Literal["text", "thinking"], text: str) -> None:
    """Where a reply is read before any of it is shown."""


def emit_text(text: str) -> None:
    """Show a piece of the answer that was held back; nothing where there is none."""
    if text:
        emit_delta("text", text)


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks the model for a reply to a thread, with a prompt that fits the window."""

    model: Model
    composer: Composer
    ledger: Ledger

    async def reply(
        self,
        values: Mapping[str, Any],
        tools: Sequence[Tool],
        *,
        last: bool,
        thread: str,
        tell: Delta = emit_delta,
    ) -> tuple[AIMessage, dict[str, Any]]:
        """The reply to the state `values`, and what else goes into the state.

        With `last` it is to be an answer, not a call. `tell` gets it as it comes. A prompt that the
        server refuses as too long is followed by one shorter prompt. An empty reply is followed by
        one more call, which says so: the same prompt again gets the same reply at temperature 0.
        Raises `PromptTooLong` and what the model raises.
        """
        choice = "none" if last else None
        try:
            reply, update = await self._ask(values, tools, choice, thread, tell)
        except self.model.overflow:
            emit_notice("The prompt was too long for the model; a shorter one goes.")
            reply, update = await self._ask(values, tools, choice, thread, tell, part=SHORTER)
        is_cut = reply.response_metadata.get("finish_reason") == "length"
        has_calls = reply.additional_kwargs.get("raw_tool_calls")
        if not has_calls and not is_cut and is_blank(text_of(reply.content)):
            now = {**values, **update}
            reply, more = await self._ask(now, tools, choice, thread, tell, behind=EMPTY)
            update |= more
        if reply.response_metadata.get("finish_reason") == "length" and reply.content:
            emit_notice(f"The reply was cut at {self.composer.window.reply} tokens.")
        return reply, update

    async def bare(self, values: Mapping[str, Any], thread: str) -> AIMessage:
        """The reply to the state `values` with no tool in the prompt; nothing of it is shown.

        What it would put into the state is for a prompt of that kind alone, and left out. Raises
        `PromptTooLong` and what the model raises.
        """
        reply, _ = await self._ask(values, (), None, thread, _untold, bare=True)
        return reply

    async def arguments(
        self, values: Mapping[str, Any], tools: Sequence[Tool], tool: Described
    ) -> AIMessage | None:
        """The arguments of `tool` as JSON that is held to its schema; None where that failed.

        The prompt is that of the last reply and a line behind it, so that little is read anew.
        """
        try:
            request = self.composer.compose(values, tools)
        except PromptTooLong:
            return None
        self.ledger.side_call("arguments")
        try:
            reply = await self.model.reply(
                with_line(request.messages, ARGUMENTS.format(name=tool.name)),
                tools=request.offer.functions,
                tool_choice="none",
                response_format={
                    "type": "json_schema",
                    "json_schema": {"name": "arguments", "schema": dict(tool.schema)},
                },
            )
        except Exception:  # noqa: BLE001 - a server without it: the call stays as broken as it was
            return None
        emit_usage(reply.usage_metadata)
        return reply

    async def _ask(
        self,
        values: Mapping[str, Any],
        tools: Sequence[Tool],
        choice: str | None,
        thread: str,
        tell: Delta,
        part: float = 1.0,
        behind: str = "",
        bare: bool = False,
    ) -> tuple[AIMessage, dict[str, Any]]:
        """One model call with the messages in `part` of their room, `behind` at their end."""
        window = self.composer.window
        request = self.composer.compose(values, tools, part=part, bare=bare).ending(behind)
        for text in request.notices:
            emit_notice(text)
        functions = request.offer.functions
        basis = basis_of(
            text_of(self.composer.system.content), functions, window, self.composer.limits
        )
        emit(event="basis", key=key_of(basis), text=basis)
        kept = kept_of(window, basis, part, behind)
        self.ledger.sent(thread, "turn", request, window)
        try:
            reply = await self.model.reply(
                request.messages,
                tools=functions,
                tool_choice=choice if functions else None,
                on_delta=tell,
            )
        except self.model.overflow as exc:
            length = getattr(exc, "context_length", None)
            window.overflowed(getattr(exc, "prompt_tokens", None), length, request.tokens)
            raise
        if reply.usage_metadata:
            window.observe(request.tokens, reply.usage_metadata["input_tokens"])
        reply.response_metadata[SENT] = {**kept, "digest": digest(request.messages, functions)}
        self.ledger.answered(thread, reply)
        emit_usage(reply.usage_metadata)
        return reply, dict(request.update)
