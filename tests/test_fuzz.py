"""Mutated replies: whatever comes, nothing is raised and nothing runs that the schema forbids."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from langchain_core.messages import AIMessage

from local_agent.call_marks import MARKS
from local_agent.model.answer import Answer
from local_agent.repair import repair
from tests.corpus_kit import Case, Tool, load_corpus, make_tools

EXAMPLES = 1_500
LONG_SECONDS = 600
FINISHES = ("stop", "tool_calls", "length")
SNIPPETS = (
    *(mark.start for mark in MARKS),
    *("</tool_call>", "[END_TOOL_REQUEST]", "<|tool_call_end|>", "</function>", "<|message|>"),
    *("<think>", "</think>", "[THINK]", "◁/think▷", "<|channel|>analysis<|message|>", "<|end|>"),
    *("```", "```json\n", "```python\n", "\n", "\n\n", "> ", "`", '"', "'", "\\", "\\u", "“"),
    *("{", "}", "[", "]", "(", ")", ":", ",", "null", "true", "1e999", "NaN", "-", "01", "0"),
    *('{"name": "delete_file", "arguments": {"path": "x"}}', 'delete_file(path="x")', "list_dir("),
    *('"arguments":', '"name":', '"path":', "<parameter=path>", "</parameter>", "<arg_key>"),
    *("\ud800", "\x00", "\x1b[2J", "İ", "😀", "  ", "\t", "例", "for example", "If I could call"),
    *("Action: list_dir\nAction Input: ", "\nObservation: ", "<list_dir>", "</list_dir>", "<path>"),
    *("✿FUNCTION✿: list_dir\n✿ARGS✿: ", "✿RESULT✿", '{"list_dir": {"path": "x"}}', "````\n"),
    *("I will look.\n", "Should I?\n", "<example>\n", "<path_to_file>", "$path"),
)


def schemas() -> list[Tool]:
    """The tools of the corpus, and some whose schemas are hard to read."""
    point = {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}
    odd: dict[str, dict[str, Any]] = {
        "refs": {
            "$defs": {"point": point},
            "type": "object",
            "properties": {"at": {"$ref": "#/$defs/point"}, "path": {"type": "string"}},
        },
        "either": {
            "type": "object",
            "properties": {
                "path": {"oneOf": [{"type": "integer"}, {"type": "boolean"}, {"type": "null"}]},
                "n": {"type": ["integer", "array"], "items": {"type": "integer"}},
            },
            "minProperties": 1,
        },
        "free": {"type": "object", "additionalProperties": {"type": "integer"}},
        "round": {
            "$defs": {"list": {"type": "array", "items": {"$ref": "#/$defs/list"}}},
            "type": "object",
            "properties": {"path": {"$ref": "#/$defs/list"}},
            "required": ["path"],
        },
    }
    return [*make_tools(), *(Tool(name, "odd", schema) for name, schema in odd.items())]


TOOLS = schemas()
BY_NAME = {tool.name: tool for tool in TOOLS}
VALIDATORS = {tool.name: Draft202012Validator(tool.schema) for tool in TOOLS}


# -- mutations ------------------------------------------------------------------------------------


def _span(text: str, dice: random.Random) -> tuple[int, int]:
    start = dice.randint(0, len(text))
    return start, min(len(text), start + dice.choice((1, 1, 2, 5, 20)))


def _deleted(text: str, dice: random.Random) -> str:
    start, end = _span(text, dice)
    return text[:start] + text[end:]


def _doubled(text: str, dice: random.Random) -> str:
    start, end = _span(text, dice)
    return text[:end] + text[start:end] * dice.choice((1, 2, 50)) + text[end:]


def _cut_off(text: str, dice: random.Random) -> str:
    return text[: dice.randint(0, len(text))]


def _inserted(text: str, dice: random.Random) -> str:
    start, _ = _span(text, dice)
    return text[:start] + dice.choice(SNIPPETS) + text[start:]


def _replaced(text: str, dice: random.Random) -> str:
    start, end = _span(text, dice)
    return text[:start] + dice.choice(SNIPPETS) + text[end:]


def _spliced(text: str, dice: random.Random) -> str:
    other = dice.choice(CASES)
    more = dice.choice([other.text, *(call["args"] for call in other.calls or ())])
    return text[: dice.randint(0, len(text))] + more[dice.randint(0, len(more)) :]


def _renamed(text: str, dice: random.Random) -> str:
    return re.sub(r"\b[a-z]+_+[a-z]+\b", lambda m: dice.choice(list(BY_NAME)), text, count=1)


def _other_case(text: str, dice: random.Random) -> str:
    start, end = _span(text, dice)
    return text[:start] + text[start:end].swapcase() + text[end:]


CASES = load_corpus()
MUTATIONS: tuple[Callable[[str, random.Random], str], ...] = (
    _deleted,
    _doubled,
    _cut_off,
    _inserted,
    _replaced,
    _spliced,
    _renamed,
    _other_case,
)


def mutated(dice: random.Random) -> Case:
    """A case of the corpus with some of its texts changed."""
    case = dice.choice(CASES)

    def change(text: str) -> str:
        for _ in range(dice.choice((0, 1, 1, 2, 4))):
            text = dice.choice(MUTATIONS)(text, dice)
        return text

    calls = [
        {"name": change(call["name"]), "args": change(call["args"]), "id": call["id"]}
        for call in case.calls or ()
    ]
    finish = dice.choice((case.finish, *FINISHES))
    text, thinking = change(case.text), change(case.thinking)
    return replace(case, text=text, thinking=thinking, calls=calls, finish=finish, pieces=())


# -- what must hold -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Heard:
    """What the adapter made of a stream."""

    message: AIMessage
    shown: str
    unshown: str
    closed_only: bool


def hear(case: Case, size: int) -> Heard:
    """Stream the case through the adapter in pieces of that size."""
    shown: list[str] = []
    answer = Answer(
        lambda kind, text: shown.append(text) if kind == "text" else None, names=list(BY_NAME)
    )
    reply = case.reply(size)
    for delta in reply.deltas:
        answer.add({"choices": [{"index": 0, "delta": dict(delta)}]})
    answer.add({"choices": [{"index": 0, "delta": {}, "finish_reason": reply.finish}]})
    answer.end()
    message = answer.message()
    message.id = "m1"
    unshown = message.additional_kwargs.pop("unshown", "")
    return Heard(message, "".join(shown), unshown, answer.closed_only)


def check(case: Case, sizes: tuple[int, int]) -> int:
    """Play the case in pieces of two sizes; how many calls would run."""
    one, other = (hear(case, size) for size in sizes)
    assert one.message.content == other.message.content
    for heard in (one, other):
        if not heard.closed_only:  # else what was shown turned out to be reasoning
            assert heard.shown + heard.unshown == heard.message.content
    after = repair(one.message, TOOLS)
    assert after == repair(other.message, TOOLS)
    calls = after.tool_calls
    for call in calls:
        assert call["name"] in BY_NAME
        VALIDATORS[call["name"]].validate(call["args"])
        json.dumps(call["args"], allow_nan=False).encode("utf-8")
        assert_not_invented(call["args"], case)
    assert not (calls and case.finish == "length")
    ids = [call["id"] for call in [*calls, *after.invalid_tool_calls]]
    assert all(ids)
    assert len(set(ids)) == len(ids)
    assert all(0 < len(call["error"] or "") < 2_000 for call in after.invalid_tool_calls)
    assert not calls or repair(after, TOOLS) is after
    return len(calls)


def assert_not_invented(args: Any, case: Case) -> None:
    """Each text in the arguments was written, letter by letter."""
    raw = "\n".join([case.text, *(call["args"] for call in case.calls or ())])
    if "\\u" in raw or "\ud800" in raw:
        return
    written = _letters(raw)
    for text in _texts(args):
        assert _letters(text) in written, text


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _letters(text: str) -> str:
    """A text without what escapes and notations may change in it."""
    return re.sub(r"\\[nrtbf]|[\s\\\"'“”\x08\x0c_.:/-]+|<\|>|<escape>", "", text).casefold()


def fuzz(dice: random.Random) -> int:
    """One mutated reply; how many calls would run."""
    case = mutated(dice)
    sizes = (dice.choice((1, 2, 3)), dice.choice((5, 17, 10_000)))
    try:
        return check(case, sizes)
    except Exception as exc:
        raise AssertionError(f"{case!r} in pieces of {sizes}: {exc!r}") from exc


def test_mutated_replies() -> None:
    """No exception, no unknown tool, nothing the schema forbids, nothing invented, none cut."""
    dice = random.Random(7)
    ran = sum(fuzz(dice) for _ in range(EXAMPLES))
    assert ran > EXAMPLES // 20  # the mutations leave enough whole to mean something


@pytest.mark.slow
@pytest.mark.timeout(LONG_SECONDS + 120)
def test_mutated_replies_for_ten_minutes(capsys: pytest.CaptureFixture[str]) -> None:
    """The same, from another seed each time, which is printed."""
    seed = random.SystemRandom().randrange(2**32)
    dice, end, count, ran = random.Random(seed), time.monotonic() + LONG_SECONDS, 0, 0
    while time.monotonic() < end:
        ran += fuzz(dice)
        count += 1
    with capsys.disabled():
        print(f"\nseed {seed}: {count:,} replies, {ran:,} calls that would run")
    assert ran
