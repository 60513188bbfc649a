"""Text streams at once unless it may be a call."""

from __future__ import annotations

import pytest

from local_agent.model.holding import Holder

NAMES = ["list_dir", "read_file"]


def hold(text: str, size: int = 1) -> tuple[str, str]:
    """What was shown of `text`, and what was held to the end."""
    shown: list[str] = []
    holder = Holder(shown.append, NAMES)
    for start in range(0, len(text), size):
        holder.feed(text[start : start + size])
    return "".join(shown), holder.rest()


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize(
    "text",
    [
        "Paris is the capital of France.",
        "a < b, [see], {x}, <b>bold</b>, <tool> and < tool_call",
        "Reading is fun.\nListing too.",
        "Use `<tool_call>` for that.\nAnd more.",
        'He wrote "<tool_call>" there.',
        "```python\ndef f():\n    return 1\n```\nThat is it.",
        "```bash\nls\n```",
        '```json\n{"version": 1}\n```\nmore',
        '{"version": 1, "name": "list_dir"}',
        '{"name": "Alice", "age": 3}',
        '[{"id": 1}, {"id": 2}]',
        "| a | b |\n| - | - |\n",
        "",
        "\n\n  x",
    ],
)
def test_text_is_shown(text: str, size: int) -> None:
    """What can be no call is shown whole."""
    assert hold(text, size) == (text, "")


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize(
    ("before", "call"),
    [
        ("", '<tool_call>{"name": "x"}</tool_call>'),
        # What stands behind such a block says whether it is meant.
        ("", '```json\n{"name": "list_dir", "arguments": {}}\n```\nThis is what a client sends.'),
        ("Let me see.\n", '<tool_call>{"name": "x"}</tool_call>'),
        ("Let me see. ", '<TOOL_CALL>{"name": "x"}'),
        ("", '[TOOL_CALLS][{"name": "x"}]'),
        ("", "<|tool_call_start|>[list_dir()]<|tool_call_end|>"),
        ("", '{"name": "list_dir", "arguments": {}}'),
        ("I call it:\n", '```json\n{"name": "list_dir", "arguments": {}}\n```'),
        ("", '```json\n{"name": "list_dir", "arg'),
        ("", 'list_dir(path="docs")'),
        ("", 'functions.list_dir(path="docs")'),
        ("", '[list_dir(path="docs")]'),
        ("", '```tool_code\nprint(list_dir(path="docs"))\n```'),
        ("Yes:\n", 'list_dir {"path": "docs"}'),
    ],
)
def test_a_call_is_held(before: str, call: str, size: int) -> None:
    """What may be a call is held from its first character on."""
    assert hold(before + call, size) == (before, call)


def test_half_a_mark_is_shown_when_it_goes_on_otherwise() -> None:
    """A beginning that turns out to be none comes with the next piece."""
    shown: list[str] = []
    holder = Holder(shown.append, NAMES)
    holder.feed("see <tool")
    assert shown == ["see "]
    holder.feed("box> there")
    assert "".join(shown) == "see <toolbox> there"
    assert holder.rest() == ""
