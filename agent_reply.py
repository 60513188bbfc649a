"""One reply of the model: the view that fits, the call, and what is said of it in the stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, SystemMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langgraph.config import get_stream_writer

from agent_ports import Model, Tool
from agent_turn import with_last_call
from context import View, Window, build_view, text_of

SHORTER = 0.7  # part of the room that a prompt gets after the server refused one as too long


@dataclass(frozen=True, slots=True)
class Limits:
    """`max_steps` is model calls a turn; `keep_turns` and `keep_chars` are those of `compact`."""

    max_steps: int = 12
    keep_turns: int = 2
    keep_chars: int = 200


def emit(**event: Any) -> None:
    """Put an event into the graph's custom stream; `event` names its kind."""
    get_stream_writer()(event)


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


def _emit_delta(kind: Literal["text", "thinking"], text: str) -> None:
    emit(event=kind, text=text)


def emit_text(text: str) -> None:
    """Show a piece of the answer that was held back; nothing where there is none."""
    if text:
        _emit_delta("text", text)


def _emit_cuts(view: View) -> None:
    """Say what the model does not see of this turn; what is only older goes without saying."""
    if view.dropped_turns:
        text = f"The {view.dropped_turns} oldest turns do not fit the context and are left out."
        emit(event="notice", text=text)
    if view.cut:
        emit(event="notice", text="The prompt is longer than the context: its middle is cut out.")


def function_of(tool: Tool) -> dict[str, Any]:
    """The tool as the chat API takes it."""
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.schema)}
    return {"type": "function", "function": function}


def fit_tools(
    tools: Sequence[Mapping[str, Any]], window: Window, max_tools: int | None = None
) -> tuple[list[Mapping[str, Any]], int]:
    """The first tools whose schemas fit the tool room, and how many were left out."""
    kept: list[Mapping[str, Any]] = []
    for tool in tools[:max_tools]:
        if window.tool_tokens([*kept, tool]) > window.tool_room:
            continue  # one that is too large must not take the place of those behind it
        kept.append(tool)
    return kept, len(tools) - len(kept)


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks the model for a reply to a thread, with a prompt that fits the window."""

    model: Model
    window: Window
    system_prompt: str
    limits: Limits

    async def reply(
        self, messages: Sequence[AnyMessage], tools: Sequence[Tool], *, last: bool
    ) -> AIMessage:
        """The reply to the stored `messages`. With `last` it is to be an answer, not a call.

        A prompt that the server refuses as too long is followed by one shorter prompt, an empty
        reply by one more call. Raises `PromptTooLong` and what the model raises.
        """
        functions, left_out = fit_tools([function_of(tool) for tool in tools], self.window)
        if left_out:
            emit(event="notice", text=f"{left_out} tools do not fit the context: left out.")
        choice = "none" if last and functions else None
        try:
            reply = await self._ask(messages, functions, choice, 1.0)
        except self.model.overflow:
            emit(event="notice", text="The prompt was too long for the model; a shorter one goes.")
            reply = await self._ask(messages, functions, choice, SHORTER)
        is_cut = reply.response_metadata.get("finish_reason") == "length"
        has_calls = reply.additional_kwargs.get("raw_tool_calls")
        if not (has_calls or is_cut or text_of(reply.content).strip()):
            reply = await self._ask(messages, functions, choice, 1.0)
        if reply.response_metadata.get("finish_reason") == "length" and reply.content:
            emit(event="notice", text=f"The reply was cut at {self.window.reply} tokens.")
        return reply

    async def arguments(
        self, values: Mapping[str, Any], tools: Sequence[Tool], tool: Tool
    ) -> AIMessage | None:
        """The arguments of `tool` as JSON that is held to its schema; None where that failed.

        The prompt is that of the last reply and a line behind it, so that little is read anew.
        """
        functions, _ = fit_tools([function_of(tool) for tool in tools], self.window)
        system = SystemMessage(self.system_prompt)
        fixed = self.window.tool_tokens(functions) + self.window.tokens([system])
        view = build_view(
            values["messages"],
            self.window,
            room=self.window.room(0) - fixed,
            keep_turns=self.limits.keep_turns,
            keep_chars=self.limits.keep_chars,
        )
        try:
            reply = await self.model.reply(
                [system, *_asking_for(tool, view.messages)],
                tools=functions,
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
        messages: Sequence[AnyMessage],
        functions: Sequence[Mapping[str, Any]],
        choice: str | None,
        part: float,
    ) -> AIMessage:
        """One model call with the view in `part` of the room."""
        window = self.window
        system = SystemMessage(self.system_prompt)
        fixed = window.tool_tokens(functions) + window.tokens([system])
        view = build_view(
            messages,
            window,
            room=int((window.room(0) - fixed) * part),
            keep_turns=self.limits.keep_turns,
            keep_chars=self.limits.keep_chars,
        )
        _emit_cuts(view)
        shown = with_last_call(view.messages) if choice == "none" else view.messages
        try:
            reply = await self.model.reply(
                [system, *shown], tools=functions, tool_choice=choice, on_delta=_emit_delta
            )
        except self.model.overflow as exc:
            length = getattr(exc, "context_length", None)
            window.overflowed(getattr(exc, "prompt_tokens", None), length, view.tokens + fixed)
            raise
        if reply.usage_metadata:
            window.observe(view.tokens + fixed, reply.usage_metadata["input_tokens"])
        emit_usage(reply.usage_metadata)
        return reply


def _asking_for(tool: Tool, messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The messages of a view with a line in the last that asks for the arguments of `tool`."""
    *before, last = messages
    text = f"[Write the arguments of {tool.name} as one JSON object, and nothing else.]"
    return [*before, last.model_copy(update={"content": f"{text_of(last.content)}\n\n{text}"})]
