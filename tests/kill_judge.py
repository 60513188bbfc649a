"""What is known of a conversation of the kill harness, and whether its thread is as it must be."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from tests.kill_script import MARK, WRITES, Made

SHOWN_RESULT = re.compile(r"(?:saw|wrote|failed) (k\d+)")
SHOWN_ANSWER = re.compile(r"done (a\d+)\.")


class Wrong(AssertionError):
    """Something was lost, or happened twice, or was not allowed."""


def check(is_right: bool, what: str) -> None:
    """Raise `Wrong` with `what` unless that is right."""
    if not is_right:
        raise Wrong(what)


@dataclass(slots=True)
class Known:
    """What was seen of a conversation from outside, by the tokens of its calls and answers."""

    made: Mapping[str, Made]
    heard: set[int]  # numbers of the prompts that reached the model
    results: set[str] = field(default_factory=set)  # that were shown
    answers: set[str] = field(default_factory=set)
    allowed: set[str] = field(default_factory=set)  # writes that may run
    refused: set[str] = field(default_factory=set)
    always: set[str] = field(default_factory=set)  # tools that a person allowed for the thread
    again: Counter[str] = field(default_factory=Counter)  # how often a write was asked for again
    earlier: list[tuple[str, str]] = field(default_factory=list)  # messages at the last look

    def note_shown(self, text: str) -> None:
        """Results and answers that stand in `text`."""
        self.results |= set(SHOWN_RESULT.findall(text))
        self.answers |= set(SHOWN_ANSWER.findall(text))

    def permit(self, token: str, is_again: bool) -> None:
        """A person said yes to a write; `is_again`: to one that may have run."""
        self.allowed.add(token)
        self.refused.discard(token)
        self.again[token] += is_again

    def check_writes(self, noted: Iterable[str]) -> None:
        """Each write at most once, and none that nobody allowed. `noted` are those that ran."""
        for token, count in Counter(noted).items():
            check(count <= 1 + self.again[token], f"{token} was written {count} times")
            is_allowed = token in self.allowed or self.made[token].tool in self.always
            check(is_allowed, f"{token} was written unasked")
            check(token not in self.refused, f"{token} was written after a no")

    def check_thread(self, messages: Sequence[AnyMessage], noted: Iterable[str]) -> None:
        """The thread after a turn that ended: what was shown is there once, nothing has changed."""
        ids = Counter(m.id for m in messages)
        check(set(ids.values()) <= {1}, f"a message is there twice: {ids.most_common(1)}")
        calls = Counter(
            call["id"] for m in messages if isinstance(m, AIMessage) for call in m.tool_calls
        )
        given = Counter(m.tool_call_id for m in messages if isinstance(m, ToolMessage))
        check(calls == given, f"calls and results do not match: {calls - given} {given - calls}")
        now = [(str(m.id), str(m.content)) for m in messages]
        check(now[: len(self.earlier)] == self.earlier, "what was in the thread has changed")
        self.earlier = now
        self._check_prompts(messages)
        answers = Counter(
            answer
            for m in messages
            if isinstance(m, AIMessage)
            for answer in SHOWN_ANSWER.findall(str(m.content))
        )
        for answer in self.answers:
            check(answers[answer] == 1, f"the answer {answer} is lost or doubled")
        self._check_results(messages, set(noted))

    def _check_prompts(self, messages: Sequence[AnyMessage]) -> None:
        prompts = Counter(m.content for m in messages if isinstance(m, HumanMessage))
        check(set(prompts.values()) <= {1}, f"twice: {prompts.most_common(1)}")
        numbers = {int(found[1]) for text in prompts if (found := MARK.search(str(text)))}
        check(self.heard <= numbers, f"prompts are lost: {sorted(self.heard - numbers)}")

    def _check_results(self, messages: Sequence[AnyMessage], noted: set[str]) -> None:
        results = {m.tool_call_id: m for m in messages if isinstance(m, ToolMessage)}
        for token in self.results:
            result, call = results.get(self.made[token].id), self.made[token]
            check(result is not None, f"the result of {token} was shown and is lost")
            text = str(result.content if result else "")
            check(call.text in text, f"the result of {token} is another: {text}")
        for token, call in self.made.items():
            outcome = getattr(results.get(call.id), "additional_kwargs", {}).get("outcome")
            if call.tool in WRITES and outcome == "success":
                check(token in noted, f"{token} is said to be written and is not")
            if outcome == "denied":
                check(token not in noted, f"{token} was written and is said to be denied")
