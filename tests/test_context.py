"""What the model sees: `compact` to the letter of its contract, and a view that always fits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from agent_reply import fit_tools
from context import (
    PromptTooLong,
    Window,
    build_view,
    clip,
    compact,
    count_tokens,
    mend,
    text_of,
)


def turn(n: int, result: str, prompt: str = "q" * 11, answer: str = "a" * 11) -> list[AnyMessage]:
    """A prompt, a call, its result and the answer."""
    call = {"name": "look", "args": {}, "id": f"c{n}"}
    return [
        HumanMessage(prompt, id=f"h{n}"),
        AIMessage("", tool_calls=[call], id=f"a{n}"),
        ToolMessage(result, tool_call_id=f"c{n}", id=f"t{n}"),
        AIMessage(answer, id=f"b{n}"),
    ]


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


@settings(max_examples=150, deadline=None)
@given(threads(), st.sampled_from([1024, 4096, 8192]))
def test_a_view_fits_and_is_a_valid_history(messages: list[AnyMessage], length: int) -> None:
    """Whatever is in state, the view is in the room and strict servers take it."""
    window = Window(length)
    room = window.room(100) - 100
    before = [m.model_dump() for m in messages]
    view = build_view(messages, window, room=room)

    assert window.tokens(view.messages) <= room
    assert_strict(view.messages)
    assert [m.model_dump() for m in messages] == before
    last_prompt = next(m for m in reversed(messages) if isinstance(m, HumanMessage))
    assert any(m.id == last_prompt.id or isinstance(m, HumanMessage) for m in view.messages)


@pytest.mark.parametrize("keep", range(1, 13))
def test_ten_parallel_calls_stay_together(keep: int) -> None:
    """K01: wherever the cut falls, calls and results go or stay together."""
    calls = [{"name": "look", "args": {"n": n}, "id": f"c{n}"} for n in range(10)]
    group: list[AnyMessage] = [
        HumanMessage("go " * 100, id="h"),
        AIMessage("", tool_calls=calls, id="a"),
        *(ToolMessage("r" * 400, tool_call_id=f"c{n}", id=f"t{n}") for n in range(10)),
        AIMessage("done", id="b"),
    ]
    later = [m for n in range(keep) for m in turn(n, "x" * 500)]
    view = build_view([*group, *later], Window(4096), room=1200)

    assert_strict(view.messages)


def test_the_newest_result_is_cut_at_both_ends() -> None:
    """M22: 900,000 characters on one line: head, tail, and what was left out."""
    messages = turn(0, "A" + "x" * 900_000 + "Z")[:3]
    window = Window(4096)
    view = build_view(messages, window, room=window.room(0))

    text = str(view.messages[2].content)
    assert text.startswith("A")
    assert text.endswith("Z")
    assert "of 900002 characters left out" in text
    assert view.tokens <= window.room(0)


def test_four_large_results_of_one_message_fit() -> None:
    """M22: four parallel results of some 3,000 tokens each fit 4,096 together."""
    calls = [{"name": "look", "args": {}, "id": f"c{n}"} for n in range(4)]
    messages: list[AnyMessage] = [
        HumanMessage("go", id="h"),
        AIMessage("", tool_calls=calls, id="a"),
        *(ToolMessage("word " * 2400, tool_call_id=f"c{n}", id=f"t{n}") for n in range(4)),
    ]
    window = Window(4096)
    view = build_view(messages, window, room=window.room(0))

    assert view.tokens <= window.room(0)
    assert all(str(m.content).startswith("word") for m in view.messages[2:])


def test_what_cannot_fit_is_said() -> None:
    """No room at all: a clear error, no endless cutting."""
    with pytest.raises(PromptTooLong):
        build_view([HumanMessage("x" * 100, id="h")], Window(4096), room=5)


def test_mend_gives_a_lost_call_its_result_and_drops_strays() -> None:
    """Old databases: open calls, orphan results, stored system messages, empty answers."""
    call = {"name": "look", "args": {}, "id": "c1"}
    messages: list[AnyMessage] = [
        SystemMessage("old", id="s"),
        ToolMessage("orphan", tool_call_id="x", id="o"),
        HumanMessage("a", id="h1"),
        AIMessage("", tool_calls=[call], id="a1"),
        HumanMessage("b", id="h2"),
        AIMessage("", id="e"),
        HumanMessage("c", id="h3"),
    ]
    mended = mend(messages)

    assert_strict(mended)
    assert [m.content for m in mended] == [
        "a",
        "",
        "[no result: interrupted]",
        "[stopped]",
        "b",
        "[stopped]",
        "c",
    ]


def test_a_stopped_prompt_is_no_open_request() -> None:
    """What the user stopped is marked so; what failed and is asked again is asked once."""
    failed = AIMessage("", additional_kwargs={"status": "error"}, id="f1")
    stopped = AIMessage("", additional_kwargs={"status": "cancelled"}, id="f2")
    messages: list[AnyMessage] = [
        HumanMessage("hi", id="h1"),
        failed,
        HumanMessage("hi", id="h2"),
        AIMessage("hello", id="a2"),
        HumanMessage("commit everything", id="h3"),
        stopped,
        HumanMessage("what is the status?", id="h4"),
    ]

    tools = [m for m in turn(7, "", prompt="", answer="") if m.id != "h7"]
    assert [
        m.content for m in mend([HumanMessage("go", id="g"), *tools, HumanMessage("", id="e")])
    ] == [
        "go",
        "",
        "",
        "[stopped]",
        "",
    ]
    assert [m.content for m in mend(messages)] == [
        "hi",
        "hello",
        "commit everything",
        "[stopped]",
        "what is the status?",
    ]


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


def test_tools_take_a_third_at_most() -> None:
    """Schemas over a third of the window are left out from the end and counted."""
    tools = [
        {"type": "function", "function": {"name": f"t{n}", "description": "d " * 300}}
        for n in range(20)
    ]
    window = Window(4096)
    kept, left_out = fit_tools(tools, window)

    assert window.tool_tokens(kept) <= 4096 // 3
    assert kept == tools[: len(kept)]
    assert left_out == 20 - len(kept) > 0
