"""The summary: how it is asked for, which replies count as one, and how the model sees it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from agent_fold import accepted, fence, instruction, piece

GOOD = (
    "Anna Schmidt (anna@example.org) wants two shelves for 99.80 EUR, order A-4711, by 3 May. "
    "It was decided to deliver to Bahnhofstraße 12. Open: who signs for it."
)


def accept(text: str, replaced: int = 10_000, **kwargs: Any) -> str:
    return accepted(AIMessage(text, **kwargs), replaced)


# -- the request ----------------------------------------------------------------------------------


def test_the_request_says_what_is_wanted() -> None:
    text = instruction("", 900)
    for word in ("names", "identifiers", "amounts", "dates", "decided", "open", "900 characters"):
        assert word in text
    assert "Do not call a tool" in text
    assert "so far" not in text
    assert "any background at its start included" in text


def test_the_request_extends_the_summary_before() -> None:
    text = instruction(GOOD, 900)
    assert text.startswith(instruction("", 900))
    assert GOOD in text
    assert text.count("<earlier_conversation>") == text.count("</earlier_conversation>") == 1


def test_a_summary_with_braces_is_taken_as_it_is() -> None:
    assert "{previous} {chars} {}" in instruction("{previous} {chars} {}", 900)


# -- the text to be folded ------------------------------------------------------------------------


def talk(result: str) -> list[AnyMessage]:
    call = {"name": "look", "args": {"path": "/srv"}, "id": "c"}
    handle = {"handle": "r7"}
    return [
        HumanMessage("What is in there?"),
        AIMessage("I look.", tool_calls=[call]),
        ToolMessage(result, tool_call_id="c", name="look", additional_kwargs=handle),
        AIMessage("A shelf for 49.90 EUR."),
    ]


def test_a_piece_says_who_said_what() -> None:
    assert piece(talk("a shelf"), 1000) == (
        "User: What is in there?\nAssistant: I look.\nCall of look: {'path': '/srv'}\n"
        "Result r7 look: a shelf\nAssistant: A shelf for 49.90 EUR."
    )


def test_results_give_way_first() -> None:
    text = piece(talk("word " * 2000), 600)
    assert len(text) <= 600
    assert "User: What is in there?" in text
    assert "Assistant: A shelf for 49.90 EUR." in text
    assert re.search(r"\[… \d+ of 9999 characters left out …\]", text)


def test_a_long_prompt_is_cut_and_the_others_are_not() -> None:
    messages = [*talk("a shelf"), HumanMessage("note " * 2000), AIMessage("Noted.")]
    text = piece(messages, 800)
    assert len(text) <= 800
    assert "Result r7 look: a shelf" in text
    assert "Assistant: Noted." in text


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("hat"), st.text(max_size=300)), max_size=12),
    st.integers(0, 900),
)
def test_a_piece_is_never_longer(said: list[tuple[str, str]], chars: int) -> None:
    def message(kind: str, text: str) -> AnyMessage:
        if kind == "h":
            return HumanMessage(text)
        return AIMessage(text) if kind == "a" else ToolMessage(text, tool_call_id="c")

    assert len(piece([message(*entry) for entry in said], chars)) <= chars


# -- what counts as a summary ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply",
    [
        GOOD,
        f"\n{GOOD}\n\n",
        f"Here is the summary:\n{GOOD}",
        f"Sure! Here's an updated summary of the conversation so far:\n\n{GOOD}",
        f"**Summary:** {GOOD}",
        f"Here are the notes on our conversation:\n\n{GOOD}",
        f"## Zusammenfassung des Gesprächs:\n{GOOD}",
        f"```text\n{GOOD}\n```",
        f"<think>What matters?</think>\n{GOOD}",
        f"{GOOD}\n\nLet me know if you need anything else!",
        f"<earlier_conversation>\n{GOOD}\n</earlier_conversation>",
    ],
)
def test_a_summary_is_accepted_without_its_wrapping(reply: str) -> None:
    assert accept(reply) == GOOD


@pytest.mark.parametrize(
    "text",
    [
        'The config is {"name": "shop", "port": 8080}; the user wants it changed.',
        "- order A-4711\n- order A-4712\n- order A-4713\n- order A-4714",
        "Sorry notes were found in the file of Anna Schmidt."[6:],
        "There is no open item. The order A-4711 is paid.",
        "This is about the order A-4711: it is paid.",
        "用户想要两个书架,订单号A-4711,费用3000元。",
    ],
)
def test_what_only_looks_odd_is_a_summary(text: str) -> None:
    assert accept(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "  \n ", "...", "---", "<think>only thinking</think>", "```\n```"),
        *("I can't summarise this.", "I cannot do that.", "I'm sorry, but I can’t.", "Sorry, no."),
        *("As an AI I have no memory.", "Ich kann das nicht zusammenfassen.", "抱歉,我不能。"),
        '{"name": "search_history", "arguments": {"query": "x"}}',
        '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>',
        '[TOOL_CALLS] [{"name": "look", "arguments": {}}]',
        '```json\n{"name": "look", "parameters": {"a": 1}}\n```',
        'I look first: {"tool": "look", "args": {}}',
        'search_history(query="order")',
        "The order is open.\n" * 20,
        "The order is open. " * 20,
        "so " * 400,
        "abcabcabc" * 100,
        instruction("", 900),
    ],
)
def test_what_is_no_summary(text: str) -> None:
    assert accept(text) == ""


def test_a_summary_as_long_as_what_it_replaces_is_none() -> None:
    assert accept(GOOD, len(GOOD)) == ""
    assert accept(GOOD, len(GOOD) + 1) == GOOD
    assert accept(GOOD, 0) == ""


@pytest.mark.parametrize(
    "kwargs",
    [
        {"tool_calls": [{"name": "look", "args": {}, "id": "c"}]},
        {"invalid_tool_calls": [{"name": "look", "args": "{", "id": "c", "error": None}]},
        {"additional_kwargs": {"raw_tool_calls": [{"id": "c", "name": "look", "args": "{}"}]}},
        {"additional_kwargs": {"status": "error", "error": "no"}},
        {"response_metadata": {"finish_reason": "length"}},
        {"response_metadata": {"finish_reason": "tool_calls"}},
    ],
)
def test_a_reply_that_is_no_answer_is_none(kwargs: dict[str, Any]) -> None:
    assert accept(GOOD, **kwargs) == ""


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300), st.integers(-1, 400))
def test_any_reply(text: str, replaced: int) -> None:
    """What is accepted is text, stripped, and shorter than what it replaces."""
    summary = accept(text, replaced)
    assert summary == summary.strip()
    assert not summary or len(summary) < replaced


# -- the block ------------------------------------------------------------------------------------


def test_the_block_has_summary_and_facts() -> None:
    assert fence(GOOD, ["User: The code is 4711.", "r7: id: X-1"]) == (
        "<earlier_conversation>\n"
        "Background from earlier turns. The user's message follows below it.\n"
        f"{GOOD}\nFacts:\n- User: The code is 4711.\n- r7: id: X-1\n"
        "</earlier_conversation>\n\n"
    )


def test_no_block_without_anything_to_say() -> None:
    assert fence("", []) == ""
    assert fence(" \n", ["", " "]) == ""
    assert "Facts:" not in fence(GOOD, [])
    assert fence("", ["x"]).endswith("follows below it.\nFacts:\n- x\n</earlier_conversation>\n\n")


@pytest.mark.parametrize(
    "mark",
    [
        *("</earlier_conversation>", "< / Earlier_Conversation >", "＜/earlier_conversation＞"),
        *(
            "<|im_end|>",
            "<|im_start|>system",
            "</s>",
            "[INST]",
            "[/INST]",
            "<<SYS>>",
            "<end_of_turn>",
        ),
        *("<tool_call>", "</think>", "<|eot_id|>"),
    ],
)
def test_nothing_inside_ends_the_block(mark: str) -> None:
    """An imitation of the fence or of a chat template's marks is defused, in either place."""
    block = fence(f"before {mark} after", [f"a {mark} b"])
    inner = block.removeprefix("<earlier_conversation>").removesuffix("</earlier_conversation>\n\n")
    assert mark not in inner
    assert "before ‹" in inner
    assert "a ‹" in inner


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.text(max_size=8),
            st.sampled_from(
                ["<", "/", "earlier_conversation", "EARLIER_conversation", ">", " ", "\n"]
            ),
        ),
        max_size=16,
    ).map("".join)
)
def test_the_block_ends_once(text: str) -> None:
    block = fence(text, [text])
    endings = re.findall(r"<\s*/\s*earlier_conversation\s*>", block, re.IGNORECASE)
    assert len(endings) == (1 if block else 0)


def test_text_of_a_page_stays_readable() -> None:
    """Other signs and tags are left alone: a summary may be about HTML or sums."""
    assert "1 < 2 and <b>bold</b> a[0]" in fence("1 < 2 and <b>bold</b> a[0]", [])
