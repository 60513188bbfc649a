"""What is longer than its place: cut so that it stays what it is."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from agent_core.cut import cut, shorter_args

VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text(max_size=12), VALUES, max_size=6), st.integers(10, 600))
def test_arguments_stay_json_and_short(args: dict[str, Any], chars: int) -> None:
    """Of calls already made: valid JSON of about the length that was asked for, never changed."""
    before = json.dumps(args)
    shorter = shorter_args(args, chars)
    text = json.dumps(shorter, ensure_ascii=False)

    assert json.loads(text) == shorter
    assert len(text) <= max(chars, 60)
    assert json.dumps(args) == before
    if len(json.dumps(args, ensure_ascii=False)) <= chars:
        assert shorter == args


def test_long_arguments_keep_their_names() -> None:
    """A file that was written is shown by its beginning, the path beside it whole."""
    shorter = shorter_args({"path": "/tmp/a.txt", "content": "line\n" * 2000}, 200)

    assert shorter["path"] == "/tmp/a.txt"
    assert shorter["content"].startswith("line\nline")
    assert "…(+" in shorter["content"]


def test_a_message_with_calls_keeps_its_calls() -> None:
    """Names and ids stay: each result still has its call."""
    calls = [{"name": "write", "args": {"text": "x" * 900}, "id": f"c{n}"} for n in range(3)]
    message = AIMessage("y" * 500, tool_calls=calls, id="a")
    shorter = cut(message, 400)

    assert isinstance(shorter, AIMessage)
    assert [(c["name"], c["id"]) for c in shorter.tool_calls] == [("write", f"c{n}") for n in "012"]
    assert len(json.dumps(shorter.tool_calls)) < 700
    assert len(str(shorter.content)) <= 100
    assert message.tool_calls[0]["args"]["text"] == "x" * 900


def test_a_prompt_is_cut_in_its_middle_with_a_note() -> None:
    """What is asked stands at the start or the end of a long prompt."""
    prompt = HumanMessage(f"Review this: {'data ' * 3000} Is it right?", id="h")
    text = str(cut(prompt, 600).content)

    assert text.startswith("Review this:")
    assert text.endswith("Is it right?")
    assert "left out" in text
    assert len(text) <= 600
