"""What is read back from the database, put together here or by LangGraph, is the same."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import ormsgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from local_agent.memory.back import may_hold
from local_agent.memory.faults import Unreadable
from local_agent.memory.saver import StrictSerializer
from local_agent.memory.shape import check_built

logging.getLogger("langgraph").setLevel(logging.ERROR)  # it says what it does not build

STRICT = StrictSerializer("memory.db")
SLOW = JsonPlusSerializer(allowed_msgpack_modules=None)

numbers = st.integers(-(2**40), 2**40)
plain = st.recursive(
    st.none() | st.booleans() | numbers | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
names = st.none() | st.text(max_size=5)
extras = st.dictionaries(
    st.sampled_from(["route", "outcome", "tool_calls", "status"]) | st.text(max_size=3),
    plain,
    max_size=3,
)
contents = st.text(max_size=20) | st.lists(
    st.text(max_size=3) | st.dictionaries(st.text(max_size=3), plain, max_size=2), max_size=2
)
base = {
    "content": contents,
    "additional_kwargs": extras,
    "response_metadata": extras,
    "name": names,
    "id": names,
}
calls = st.fixed_dictionaries(
    {"name": st.text(max_size=5), "args": st.dictionaries(st.text(max_size=3), plain), "id": names}
)
counts = st.integers(0, 10**6)
usages = st.none() | st.fixed_dictionaries(
    dict.fromkeys(("input_tokens", "output_tokens", "total_tokens"), counts),
    optional={
        "input_token_details": st.dictionaries(st.sampled_from(["cache_read", "audio"]), counts),
        "output_token_details": st.dictionaries(st.sampled_from(["reasoning"]), counts),
    },
)
result = {"tool_call_id": st.text(max_size=5), "artifact": plain}
result["status"] = st.sampled_from(["success", "error"])
reply = {"tool_calls": st.lists(calls, max_size=2), "usage_metadata": usages}


def built(kind: type[BaseMessage], fields: Mapping[str, Any]) -> st.SearchStrategy[BaseMessage]:
    return st.fixed_dictionaries(dict(fields)).map(lambda given: kind(**given))


messages = st.one_of(
    built(HumanMessage, base),
    built(SystemMessage, base),
    built(ToolMessage, {**base, **result}),
    built(AIMessage, {**base, **reply}),
    built(RemoveMessage, {"id": st.text(max_size=5)}),
)
values = st.lists(messages, max_size=4) | plain | st.lists(messages).map(_DeltaSnapshot)


def parts(value: Any) -> Any:
    """A value with all that a message holds, so that nothing hides behind an `==`."""
    if isinstance(value, BaseMessage):
        state = value.__getstate__()
        fields = [(name, parts(field)) for name, field in state.pop("__dict__").items()]
        return type(value), fields, state
    if isinstance(value, _DeltaSnapshot):
        return "snapshot", parts(value.value)
    if isinstance(value, (list, tuple)):
        return [type(value), *map(parts, value)]
    if isinstance(value, dict):
        return {key: parts(item) for key, item in value.items()}
    return type(value), value


def assert_same(stored: tuple[str, bytes]) -> None:
    """Read as LangGraph reads it, or refused where LangGraph leaves a message without content."""
    slow = SLOW.loads_typed(stored)
    try:
        check_built(slow)
    except Unreadable:
        with pytest.raises(Unreadable):
            STRICT.loads_typed(stored)
    else:
        assert parts(STRICT.loads_typed(stored)) == parts(slow)


def packed(fields: tuple[Any, ...]) -> tuple[str, bytes]:
    """One object in a list, as it is stored: module, name, fields, and how LangGraph built it."""
    blob = ormsgpack.packb(fields, option=ormsgpack.OPT_NON_STR_KEYS)
    return "msgpack", ormsgpack.packb([ormsgpack.Ext(5, blob)])


@settings(max_examples=100, deadline=None)
@given(values)
def test_a_stored_value_is_read_as_langgraph_reads_it(value: Any) -> None:
    """Messages of all kinds, alone and in snapshots, equal in every field and in what is set."""
    assert_same(STRICT.dumps_typed(value))


anything = plain | st.dictionaries(numbers, plain, max_size=2) | st.lists(calls, max_size=2)


@settings(max_examples=150, deadline=None)
@given(messages, st.data())
def test_a_bent_message_is_read_as_langgraph_reads_it(message: BaseMessage, data: Any) -> None:
    """Fields of a wrong type, missing, unknown, or hidden in a call: nothing slips past a check."""
    fields = message.model_dump()
    kinds = [message] if isinstance(message, RemoveMessage) else [message, HumanMessage("")]
    kind = type(data.draw(st.sampled_from(kinds)))
    for _ in range(data.draw(st.integers(1, 2))):
        target = fields
        found = [call for call in fields.get("tool_calls") or [] if isinstance(call, dict)]
        usage = fields.get("usage_metadata")
        if isinstance(usage, dict):
            found.append(usage)
        if found and data.draw(st.booleans()):
            target = data.draw(st.sampled_from(found))
        name = data.draw(st.sampled_from([*target, "extra"]))
        if name in target and data.draw(st.booleans()):
            del target[name]
        else:
            target[name] = data.draw(anything)
    assert_same(packed((kind.__module__, kind.__name__, fields, "model_validate_json")))


def test_a_message_in_a_message_is_left_to_langgraph() -> None:
    """A field that is itself a stored object is not put together here."""
    inner = ormsgpack.Ext(5, ormsgpack.packb(("builtins", "eval", {"x": 1}, "y")))
    fields = {**HumanMessage("a", id="1").model_dump(), "additional_kwargs": {"k": inner}}
    payload = (HumanMessage.__module__, "HumanMessage", fields, "model_validate_json")
    assert_same(packed(payload))
    assert_same(packed(payload[:3]))


texts = st.sampled_from(["messages", "channel_values", "channel_versions", "__start__", "x" * 40])
channel_values = st.dictionaries(
    texts | st.text(max_size=3),
    st.recursive(
        texts | st.none() | st.lists(texts),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
        max_leaves=4,
    ),
    max_size=4,
)


@settings(max_examples=150, deadline=None)
@given(channel_values, st.sampled_from(["messages", "x" * 40, "y"]), st.booleans())
def test_a_value_in_a_checkpoint_is_never_passed_over(
    found: dict[str, Any], channel: str, is_swapped: bool
) -> None:
    """Whatever else a checkpoint holds, also names of its parts, in whatever order it is."""
    versions = dict.fromkeys(found, "1")
    checkpoint = {"v": 4, "channel_values": found, "channel_versions": versions}
    if is_swapped:
        checkpoint = dict(reversed(checkpoint.items()))
    blob = STRICT.dumps_typed({**checkpoint, "versions_seen": {"agent": versions}})[1]
    assert may_hold(blob, ormsgpack.packb(channel)) or channel not in found


def test_most_checkpoints_are_seen_to_hold_no_messages() -> None:
    """Those of a turn, and its first one, which has the prompt as the graph's input."""
    versions = {"messages": "1", "__start__": "1"}
    start = {"__start__": {"messages": [HumanMessage("messages?", id="1")]}}
    for values in ({"route": "all", "decisions": {}}, start):
        checkpoint = {"v": 4, "channel_values": values, "channel_versions": versions}
        blob = STRICT.dumps_typed(checkpoint)[1]
        assert not may_hold(blob, ormsgpack.packb("messages"))
