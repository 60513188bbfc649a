"""What the model sees: `compact` to the letter of its contract, and a view that always fits."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import (
    AnyMessage,
    ToolMessage,
)

from context import (
    Window,
    clip,
    compact,
    count_tokens,
    text_of,
)
from tests.view_kit import turn


def size(messages: list[AnyMessage]) -> int:
    return sum(len(text_of(m.content)) for m in messages)


def test_compact_on_the_published_example() -> None:
    """Four turns with 5,000 characters each: 20,088 characters become 10,570, stubs have 241."""
    messages = [m for n in range(4) for m in turn(n, "x" * 5000)]
    before = [m.model_dump() for m in messages]
    short = compact(messages)

    assert size(messages) == 20_088
    assert size(short) == 10_570
    assert [len(m.content) for m in short if isinstance(m, ToolMessage)] == [241, 241, 5000, 5000]
    assert short[2].content == f"[older tool result trimmed, 5000 chars] {'x' * 200}…"
    assert [m.model_dump() for m in messages] == before
    assert [m.id for m in short] == [m.id for m in messages]


@pytest.mark.parametrize(
    ("text", "stub"),
    [
        ("x" * 200, "x" * 200),
        ("x" * 201, f"[older tool result trimmed, 201 chars] {'x' * 200}…"),
        (f"  a\n\n b\t{'c' * 300}", f"[older tool result trimmed, 308 chars] a b {'c' * 192}…"),
        ("", ""),
    ],
)
def test_compact_heads(text: str, stub: str) -> None:
    """Only what is longer than keep_chars is shortened; white space runs become one space."""
    messages = [*turn(0, text), *turn(1, "y"), *turn(2, "y")]

    assert compact(messages)[2].content == stub


def test_compact_counts_text_blocks() -> None:
    """N is the length of the text of a content of blocks."""
    blocks: list[Any] = [{"type": "text", "text": "x" * 300}, {"type": "text", "text": "y"}]
    messages = [*turn(0, "z"), *turn(1, ""), *turn(2, "")]
    messages[2] = ToolMessage(blocks, tool_call_id="c0", id="t0")

    assert str(compact(messages)[2].content).startswith("[older tool result trimmed, 302 chars] xx")


def test_compact_with_upto() -> None:
    """`upto` shortens results up to that message only, and never those keep_turns protects."""
    messages = [m for n in range(5) for m in turn(n, "x" * 300)]

    def short(upto: str) -> list[bool]:
        view = compact(messages, upto=upto)
        return [len(m.content) < 300 for m in view if isinstance(m, ToolMessage)]

    assert short("t0") == [True, False, False, False, False]
    assert short("b1") == [True, True, False, False, False]
    assert short("t4") == [True, True, True, False, False]
    assert short("not there") == [False] * 5


@pytest.mark.parametrize(("keep_turns", "shortened"), [(0, 3), (1, 2), (2, 1), (3, 0), (9, 0)])
def test_compact_keep_turns(keep_turns: int, shortened: int) -> None:
    """The last keep_turns user turns stay whole."""
    messages = [m for n in range(3) for m in turn(n, "x" * 300)]
    view = compact(messages, keep_turns)

    assert sum(len(m.content) < 300 for m in view if isinstance(m, ToolMessage)) == shortened


def test_clip_keeps_short_text_and_states_the_cut() -> None:
    """A text that fits is untouched; one that does not says how much is missing."""
    assert clip("short", 10) == "short"
    assert (
        clip("ab" * 50, 40) == f"{'ab' * 15}\n[… 60 of 100 characters left out here …]\n{'ab' * 5}"
    )


def test_token_estimates_are_in_order() -> None:
    """K10: dense text counts more than prose; nothing is looked up."""
    prose, code = "the quick brown fox jumps " * 40, '{"a":[1,2],"b":{"c":"d"}}' * 40
    chinese, base64 = "今天天气很好我们去公园" * 40, "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo0NTY3" * 25
    rate = {t[:3]: count_tokens(t) / len(t) for t in (prose, code, chinese, base64)}

    assert rate[prose[:3]] < rate[code[:3]] < rate[chinese[:3]]
    assert rate[prose[:3]] < rate[base64[:3]]


def test_the_window_learns_upwards_at_once() -> None:
    """The server's count corrects the estimate; one that is too low at once, too high slowly."""
    window = Window(8192)
    before = window.scale
    window.observe(1000, 1500)
    up = window.scale
    window.observe(1000, 500)

    assert up == pytest.approx(before * 1.5)
    assert before * 1.2 < window.scale < up
    window.observe(1000, 0)
    window.observe(10, 1000)
    assert window.scale < up


def test_the_window_takes_the_servers_numbers() -> None:
    """L14: the refusal names the context length: it is believed; without numbers it shrinks."""
    window = Window(32768)
    window.overflowed(9000, 4096, 8000)
    assert window.context_length == 4096
    window = Window(32768)
    window.overflowed(None, None, 6000)
    assert window.size < 6000
