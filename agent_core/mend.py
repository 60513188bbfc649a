"""Makes a history that strict servers take of what a crash or an older program left behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from context import text_of

STOPPED = "[stopped]"
LOST = "[no result: interrupted]"


def mend(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """`messages` as a history that begins with a prompt and in which every call has its result.

    Results stand directly behind their calls in call order, a call without a result gets one,
    a result without a call goes, a prompt without an answer is marked as stopped, answers that
    follow each other are one message, all content is text. What comes out for a message depends on
    nothing that stands behind the next prompt.
    """
    out: list[AnyMessage] = []
    at = 0
    while at < len(messages):
        message = messages[at]
        at += 1
        if isinstance(message, AIMessage) and message.tool_calls:
            results: dict[str, ToolMessage] = {}
            while at < len(messages) and isinstance(result := messages[at], ToolMessage):
                results[result.tool_call_id] = result
                at += 1
            if out:
                out.append(_with_answer_before(out, message))
                out.extend(_answer(message, results))
        elif isinstance(message, AIMessage):
            _append_answer(out, message)
        elif isinstance(message, HumanMessage):
            _append_prompt(out, message)
    return out


def _with_answer_before(out: list[AnyMessage], message: AIMessage) -> AnyMessage:
    """The message with calls, which takes in an answer that it directly follows: roles alternate.

    Lists of other programs have such pairs. An answer without a text has nothing to be kept.
    """
    if not isinstance(out[-1], AIMessage):
        return as_text(message)
    before = text_of(out.pop().content)
    texts = [before if before != STOPPED else "", text_of(message.content)]
    text = "\n\n".join(filter(None, texts))
    return message.model_copy(update={"content": text})


def _answer(message: AIMessage, results: Mapping[str, ToolMessage]) -> list[AnyMessage]:
    answered: list[AnyMessage] = []
    for call in message.tool_calls:
        call_id = call["id"] or ""
        answered.append(as_text(results[call_id]) if call_id in results else _lost(call_id))
    return answered


def _lost(call_id: str) -> ToolMessage:
    return ToolMessage(LOST, tool_call_id=call_id, status="error", id=f"lost-{call_id}")


def _append_answer(out: list[AnyMessage], message: AIMessage) -> None:
    text = text_of(message.content).strip() or STOPPED
    if out and isinstance(out[-1], AIMessage):
        text = f"{text_of(out.pop().content)}\n\n{text}"
    if out:
        out.append(with_text(message, text))


def _append_prompt(out: list[AnyMessage], message: HumanMessage) -> None:
    # What is asked again after it failed is asked once; what was stopped is not a request any more.
    asked = out[-2] if len(out) > 1 and out[-1].content == STOPPED else None
    if isinstance(asked, HumanMessage) and asked.content == text_of(message.content):
        del out[-2:]
    if out and not isinstance(out[-1], AIMessage):
        out.append(AIMessage(STOPPED, id=f"stop-{message.id}"))
    out.append(as_text(message))


def as_text(message: AnyMessage) -> AnyMessage:
    """`message` with its content as one text."""
    return with_text(message, text_of(message.content))


def with_text(message: AnyMessage, text: str) -> AnyMessage:
    """`message` with `text` for its content; itself where that is so already."""
    return message if text == message.content else message.model_copy(update={"content": text})
