"""How updates become the list of messages: as LangGraph's own reducer does it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.graph.message import _messages_delta_reducer

from agent_core.messages import appended, messages_channel

ids = st.sampled_from(["a", "b", "c", "d", "e", ""])
stored = st.builds(lambda id, text: HumanMessage(text, id=id), ids | st.none(), st.text(max_size=2))
removals = ids.map(lambda id: RemoveMessage(id=id)) | st.just(RemoveMessage(id="__remove_all__"))
loose = st.just({"role": "user", "content": "x", "id": "f"}) | st.just(("user", "y"))
updates = st.lists(st.lists(stored | removals | loose, max_size=3) | stored, max_size=4)
states = st.lists(stored, max_size=5, unique_by=lambda message: message.id or message.content)


def shown(messages: list[Any]) -> list[tuple[Any, ...]]:
    return [(type(m), m.id, m.content) for m in messages]


@given(states, updates)
def test_the_same_as_langgraphs_reducer(state: list[Any], given_updates: list[Any]) -> None:
    """Also where messages are replaced, removed, without an id or no messages yet."""
    joined = messages_channel().reducer(state, given_updates)
    assert shown(joined) == shown(_messages_delta_reducer(state, given_updates))


def test_new_messages_are_appended_without_an_index() -> None:
    """The usual update is taken; the list that was there is not changed."""
    state = [HumanMessage("q", id="1")]
    joined = appended(state, [[AIMessage("a", id="2")], AIMessage("b", id="3")])
    assert joined is not None
    assert [m.id for m in joined] == ["1", "2", "3"]
    assert len(state) == 1
    for unusual in (AIMessage("a", id="1"), AIMessage("a"), RemoveMessage(id="1")):
        assert appended(state, [[unusual]]) is None
    assert appended(state, [[AIMessage("a", id="2"), AIMessage("b", id="2")]]) is None
