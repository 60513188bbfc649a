"""Reasoning in tags is told from the answer, in pieces of any size."""

from __future__ import annotations

import pytest

from local_agent.model.thinking import ThinkSplitter


def split(text: str, size: int, opened: bool = False) -> tuple[ThinkSplitter, dict[str, str]]:
    """Feed `text` in pieces of `size`; the splitter and what it gave out by kind."""
    splitter = ThinkSplitter(opened)
    given = {"text": "", "thinking": ""}
    for start in range(0, len(text), size):
        for kind, piece in splitter.feed(text[start : start + size]):
            given[kind] += piece
    for kind, piece in splitter.finish():
        given[kind] += piece
    return splitter, given


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 100])
@pytest.mark.parametrize(
    ("text", "answer", "thinking"),
    [
        ("<think>plan A</think>\n\nHello", "Hello", "plan A"),
        ("\n<THINK>plan</THINK>Hello", "Hello", "plan"),
        ("<thinking>plan</thinking> Hello", "Hello", "plan"),
        ("<think>plan A", "", "plan A"),
        ("<think></think>Hello", "Hello", ""),
        ("<think>a</think>b\n<think>c</think>d", "b\nd", "ac"),
        ("plain answer", "plain answer", ""),
        ("a < b and <thing>", "a < b and <thing>", ""),
        ("Use `<think>` and `</think>` tags.", "Use `<think>` and `</think>` tags.", ""),
        ("<think>1 < 2 </thin k></think>yes", "yes", "1 < 2 </thin k>"),
        ("", "", ""),
        ("<reasoning>plan</reasoning>Hello", "Hello", "plan"),
        ("<thought>plan</thought>Hello", "Hello", "plan"),
        ("[THINK]plan[/THINK]Hello", "Hello", "plan"),
        ("◁think▷plan◁/think▷Hello", "Hello", "plan"),
        ("<seed:think>plan</seed:think>Hello", "Hello", "plan"),
        ("<|begin_of_thought|>plan<|end_of_thought|>Hello", "Hello", "plan"),
        ("<|channel>thought\nplan<channel|>Hello", "Hello", "plan"),
        (
            "<|channel|>analysis<|message|>plan<|end|><|start|>assistant<|channel|>final<|message|>"
            "Hello<|return|>",
            "Hello",
            "plan",
        ),
        ("<|channel|>final<|message|>Hello", "Hello", ""),
        ("<|channel|>commentary<|message|>Wait.<|end|>", "Wait.", ""),
        ("See <|end|> and <|channel|>final<|message|>",) * 2 + ("",),
        ("```\n<think>a</think>\n```", "```\n<think>a</think>\n```", ""),
        ("Say:\n<reasoning>a</reasoning>", "Say:\n<reasoning>a</reasoning>", ""),
        ('He wrote "</think>" there', 'He wrote "</think>" there', ""),
        ("İİ\n<THINK>a</THINK>b", "İİ\nb", "a"),
    ],
)
def test_split(text: str, answer: str, thinking: str, size: int) -> None:
    """L11: what was given out piece by piece is the answer and the reasoning."""
    splitter, given = split(text, size)
    assert (splitter.text.strip(), splitter.thinking.strip()) == (answer, thinking)
    assert given["text"].strip() == answer
    assert given["thinking"].strip() == thinking


@pytest.mark.parametrize("size", [1, 4, 100])
def test_closing_only(size: int) -> None:
    """L11: with a closing tag alone, all before it was reasoning."""
    splitter, _ = split("plan A</think>Hello", size)
    assert (splitter.text, splitter.thinking, splitter.closed_only) == ("Hello", "plan A", True)


@pytest.mark.parametrize("size", [1, 4, 100])
def test_opened_by_the_template(size: int) -> None:
    """L11: known to begin within reasoning, nothing of it is given out as text."""
    _, given = split("plan A</think>\nHello", size, opened=True)
    assert given == {"text": "Hello", "thinking": "plan A"}


def test_opened_by_assumption_only() -> None:
    """L11: where the assumption does not hold, the answer is not lost."""
    splitter, given = split("Just an answer", 4, opened=True)
    assert splitter.text == given["text"] == "Just an answer"


def test_opened_and_cut() -> None:
    """L11: reasoning that was cut off is not taken for the answer."""
    splitter = ThinkSplitter(opened=True)
    splitter.feed("plan A")
    assert splitter.finish(whole=False) == []
    assert (splitter.text, splitter.thinking) == ("", "plan A")
