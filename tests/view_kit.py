"""Threads as they can be in state, and what strict servers ask of a history."""

from __future__ import annotations

from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage


def turn(n: int, result: str, prompt: str = "q" * 11, answer: str = "a" * 11) -> list[AnyMessage]:
    """A prompt, a call, its result and the answer."""
    call = {"name": "look", "args": {}, "id": f"c{n}"}
    return [
        HumanMessage(prompt, id=f"h{n}"),
        AIMessage("", tool_calls=[call], id=f"a{n}"),
        ToolMessage(result, tool_call_id=f"c{n}", id=f"t{n}"),
        AIMessage(answer, id=f"b{n}"),
    ]


TEXTS = st.one_of(
    st.text(max_size=60),
    st.integers(1, 6000).map(lambda n: "lorem ipsum " * (n // 12)),
    st.integers(1, 4000).map(lambda n: '{"a": [1, 2.5, null]}' * (n // 20)),
    st.integers(1, 2000).map(lambda n: "字" * n),
)


@st.composite
def threads(draw: st.DrawFn) -> list[AnyMessage]:
    """Threads as they can be in state, broken ones too."""
    messages: list[AnyMessage] = []
    for n in range(draw(st.integers(1, 8))):
        messages.append(HumanMessage(draw(TEXTS), id=f"h{n}"))
        for k in range(draw(st.integers(0, 2))):
            ids = [f"c{n}.{k}.{i}" for i in range(draw(st.integers(1, 3)))]
            calls = [
                {"name": "look", "args": {"q": draw(st.text(max_size=5))}, "id": i} for i in ids
            ]
            messages.append(AIMessage(draw(st.text(max_size=5)), tool_calls=calls, id=f"a{n}.{k}"))
            for i in ids:
                if draw(st.integers(0, 9)):
                    messages.append(ToolMessage(draw(TEXTS), tool_call_id=i, id=f"t{i}"))
        if draw(st.integers(0, 5)):
            messages.append(AIMessage(draw(TEXTS), id=f"b{n}"))
    return messages


def assert_strict(messages: list[AnyMessage]) -> None:
    """What strict servers ask of a history."""
    assert isinstance(messages[0], HumanMessage)
    at = 0
    while at < len(messages):
        message = messages[at]
        assert isinstance(message.content, str)
        at += 1
        if isinstance(message, AIMessage) and message.tool_calls:
            for call in message.tool_calls:
                assert isinstance(messages[at], ToolMessage)
                assert messages[at].tool_call_id == call["id"]  # type: ignore[union-attr]
                at += 1
            assert at == len(messages) or isinstance(messages[at], AIMessage)
        elif isinstance(message, AIMessage):
            assert message.content
            assert at == len(messages) or isinstance(messages[at], HumanMessage)
        else:
            assert isinstance(message, HumanMessage)
            assert at == len(messages) or isinstance(messages[at], AIMessage)
