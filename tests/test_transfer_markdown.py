"""The Markdown of a thread, read by a Markdown parser: nothing in a text leaves its place."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base.id import uuid6
from markdown_it import MarkdownIt
from markdown_it.token import Token

from local_agent.transfer.document import Document, Step
from local_agent.transfer.markdown import to_markdown
from local_agent.transfer.out import Wish, take_out
from local_agent.ui.sanitize import visible

CALL = {"name": "look", "args": {"q": "x"}, "id": "c1", "type": "tool_call"}
EVIL = [
    "```\n# Turn 9\n```` \n~~~",
    "# Turn 7, forged\n\n> quoted\n\nText\n====",
    "<!-- swallowed",
    "<script>alert(1)</script><details>",
    "~~~~\nnever closed",
    "- a\n\n    ```\n    in a list",
    "| a | b |\n|---|---|\n| 1 | `2` |",
    "[x]: http://evil 'title'",
    "text\n---\nmore\n***",
    "\x1b[2J\x9b\u202eevil\r\n\u2028end",
    "",
    "\n\n",
    "`" * 40,
]


def thread(*messages: AnyMessage, **fields: Any) -> Document:
    """A document with these messages, each a step of its own."""
    steps: list[Step] = []
    for message in messages:
        parent = steps[-1].id if steps else None
        if isinstance(message, HumanMessage):
            steps.append(Step(str(uuid6()), parent, is_start=True))
            parent = steps[-1].id
        steps.append(Step(str(uuid6()), parent, added=(message,)))
    now = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    return Document("name", "Title", now, tuple(steps), **fields)


def talk(prompt: str, text: str, result: str, answer: str) -> Document:
    return thread(
        HumanMessage(prompt, id="1"),
        AIMessage(text, id="2", tool_calls=[{**CALL, "args": {"q": result}}]),
        ToolMessage(result, id="3", tool_call_id="c1"),
        AIMessage(answer, id="4", response_metadata={"model_name": "m"}),
        HumanMessage("last", id="5"),
        AIMessage("end", id="6", response_metadata={"model_name": "m"}),
    )


def blocks(text: str) -> list[Token]:
    return MarkdownIt("gfm-like", {"linkify": False}).parse(text)


def headings(tokens: list[Token]) -> list[str]:
    """The headings that are not inside of something else."""
    return [
        tokens[i + 1].content
        for i, token in enumerate(tokens)
        if token.type == "heading_open" and token.level == 0
    ]


def check(document: Document, result: str) -> str:
    """It has the turns that it has, its fences hold what they should, and no HTML is in it."""
    text = to_markdown(document, visible, [])
    tokens = blocks(text)
    found = headings(tokens)
    assert [head.split(",")[0] for head in found] == ["Title", "Turn 1", "Turn 2"]
    fences = [
        t for t in tokens if t.type == "fence" and t.level == 0 and t.info in ("text", "json")
    ]
    shown = visible(result)
    assert fences[-1].content == (shown if shown.endswith("\n") else shown + "\n")
    assert not [t for t in tokens if t.type == "html_block" and t.level == 0]
    last = [t.content for t in tokens if t.type == "inline"][-1]
    assert last == "end"
    assert text.isprintable() or not {c for c in text if not c.isprintable()} - {"\n", "\t"} - set(
        "\u00a0\u3000"
    )
    return text


@pytest.mark.parametrize("evil", EVIL)
@pytest.mark.parametrize("place", range(4))
def test_nothing_leaves_its_place(evil: str, place: int) -> None:
    """Fences, headings, HTML, control characters in prompt, answer, arguments and result."""
    parts = ["prompt", "text", "result", "answer"]
    parts[place] = evil
    check(talk(*parts), parts[2])


MARKDOWN = st.lists(
    st.sampled_from(
        ["`", "~", "#", ">", "-", "=", "*", "<!--", "<b>", "\n", " ", "    ", "a", "|"]
    ),
    max_size=25,
).map("".join)


@settings(max_examples=300, deadline=None)
@given(prompt=MARKDOWN, text=MARKDOWN, result=MARKDOWN, answer=MARKDOWN)
def test_no_mix_of_signs_leaves_its_place(prompt: str, text: str, result: str, answer: str) -> None:
    """The same for anything that is made of Markdown's signs."""
    check(talk(prompt, text, result, answer), result)


def test_how_it_reads() -> None:
    """Title, what it is, the turns with calls and results, how a turn ended."""
    document = thread(
        HumanMessage("Look,\nplease", id="1"),
        AIMessage(
            "",
            id="2",
            tool_calls=[CALL, {**CALL, "id": "c2", "name": "odd`name"}],
            response_metadata={"model_name": "m7"},
        ),
        ToolMessage("two\nlines", id="3", tool_call_id="c1", additional_kwargs={"edited": "x"}),
        AIMessage(
            "It is *so*.",
            id="4",
            additional_kwargs={"status": "step_limit"},
            response_metadata={"model_name": "other"},
        ),
        model="m7",
        parent="origin",
    )
    text = to_markdown(document, visible, ["A note."])
    lines = text.split("\n")
    assert lines[:8] == [
        "# Title",
        "",
        "- thread: `name`",
        lines[3],
        "- copied from: `origin`",
        "- model: `m7`",
        "- turns: 1, messages: 4",
        "- A note.",
    ]
    assert lines[3].startswith("- begun: 2026-01-0")
    assert "\n".join(lines[9:]).split("\n", 2)[2] == (
        "> Look,\n> please\n\n"
        '**Call r1:** `look`\n\n```json\n{\n  "q": "x"\n}\n```\n\n'
        '**Call:** ``odd`name``\n\n```json\n{\n  "q": "x"\n}\n```\n\n*It has no result.*\n\n'
        "**Result r1:** success, 9 characters, edited by the user\n\n```text\ntwo\nlines\n```\n\n"
        "*From here on by `other`.*\n\n"
        "It is *so*.\n\n"
        "*Stopped at the allowed number of model calls.*\n"
    )


def test_what_is_not_in_it_is_said() -> None:
    """Turns that were cut, branches, an unfinished turn, a summary in place of turns, files."""
    document = talk("p", "t", "saved in /data/memory.db.files/x.png", "a")
    step = document.steps[-1]
    state = {"summary": "They # spoke\n```"}
    document = replace(document, steps=(*document.steps[:-1], replace(step, state=state)))
    document = replace(document, is_open=True)
    taken = take_out(document, Wish(last=1), visible, files="/data/memory.db.files")
    assert taken.notes == (
        "1 earlier turn is not in it.",
        "The last turn is not finished; what waits for an answer cannot go on from it.",
        "Files that results name are not in it; they are in /data/memory.db.files.",
    )
    tokens = blocks(taken.text)
    assert [h.split(",")[0] for h in headings(tokens)] == [
        "Title",
        "Summary of earlier turns",
        "Turn 2",
    ]
    for note in taken.notes:
        assert note.split(".")[0] in taken.text.replace("\\", "")
    whole = take_out(document, Wish("json", redact=True), visible)
    assert whole.notes[-1] == "What was allowed is not in it: that counts on this machine alone."
    assert whole.notes[-2].startswith("0 secrets were found")
