"""After all compactions and summaries each fact of a long thread can still be got at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage

from agent_core.limits import Limits
from agent_core.recall import READ, SEARCH, answer
from agent_core.turn import handles_of
from context import Window, text_of
from tests.graph_kit import Overflow, ScriptedTool, call, collect, open_session, say
from tests.view_kit import make_text

TURNS, FACTS = 200, 60


@dataclass(frozen=True)
class Planted:
    """A fact, what a model would search for, and where it was said: prompt, answer or result."""

    text: str
    query: str
    sentence: str
    place: str
    turn: int


def planted(rng: Random) -> list[Planted]:
    """Sixty facts of six kinds, over three places, in turns of the whole thread."""
    kinds: Sequence[Callable[[int], tuple[str, str, str]]] = (
        lambda n: (f"ORD-{7000 + n}", f"order of customer {n}", "The {q} is {t}."),
        lambda n: (f"{n}{n % 9}7.{n % 90 + 10} EUR", f"deposit for room {n}", "The {q} is {t}."),
        lambda n: (
            f"2027-{n % 12 + 1:02}-{n % 28 + 1:02}",
            f"audit of site {n}",
            "The {q} is on {t}.",
        ),
        lambda n: (f"/srv/data{n}/export_{n}.csv", f"export file of job {n}", "The {q} is {t}."),
        lambda n: (f"ops{n}@depot{n}.example", f"contact for depot {n}", "The {q} is {t}."),
        lambda n: (
            f"we keep vendor {n} until renewal",
            f"vendor {n} renewal",
            "We decided: {t}.",
        ),
    )
    turns = rng.sample(range(TURNS - 10), FACTS)
    facts = []
    for n, turn in enumerate(turns):
        text, query, sentence = kinds[n % 6](n + 10)
        place = ("prompt", "answer", "result")[n // 6 % 3]
        facts.append(Planted(text, query, sentence.format(q=query, t=text), place, turn))
    return facts


@dataclass
class Chatty:
    """A model that calls a tool in most turns and says the facts; `summary` is what it sums up."""

    rng: Random
    facts: Mapping[int, Planted]
    summary: Callable[[int], str]
    turn: int = 0
    sums: int = 0
    last: Sequence[AnyMessage] = ()
    overflow: type[Exception] = Overflow
    called: bool = False
    requests: list[int] = field(default_factory=list)

    async def reply(self, messages: Sequence[AnyMessage], **options: Any) -> AIMessage:
        if messages[-1].id == "summarise":
            self.sums += 1
            return say(self.summary(self.sums))
        self.last = messages
        fact = self.facts.get(self.turn)
        wants_tool = fact.place == "result" if fact else self.turn % 3 > 0
        if wants_tool and not self.called:
            self.called = True
            return call(("look", {"n": self.turn}))
        said = make_text("english", 120, self.turn)
        return say(f"{said}. {fact.sentence if fact and fact.place == 'answer' else ''}")


@pytest.mark.parametrize("kind", ["good", "rubbish", "off"])
async def test_sixty_of_sixty_facts_can_be_found(tmp_path: Path, kind: str) -> None:
    """200 turns on 4,096 tokens: in the view, or by one call of a lookup tool, also when every
    second summary is rubbish, and without summaries."""
    rng = Random(5)
    facts = planted(rng)
    by_turn = {fact.turn: fact for fact in facts}

    def summary(n: int) -> str:
        if kind == "rubbish" and n % 2:
            return rng.choice(
                ("", "blah " * 5000, '{"name": "look", "arguments": {}}', "I cannot.")
            )
        return f"The user asked about many things, part {n}; nothing is open."

    model = Chatty(rng, by_turn, summary)

    async def result(args: Mapping[str, Any]) -> str:
        fact = by_turn.get(model.turn)
        noise = make_text(
            rng.choice(("english", "json", "log")), rng.randrange(100, 6000), model.turn
        )
        middle = len(noise) // 2
        hidden = f"\n{fact.sentence}\n" if fact else ""
        return f"{noise[:middle]}{hidden}{noise[middle:]}"

    limits = Limits(summary=kind != "off")
    async with open_session(
        tmp_path / "m.db",
        model,
        [ScriptedTool("look", run=result)],
        window=Window(4096),
        limits=limits,
    ) as session:
        for turn in range(TURNS):
            model.turn, model.called = turn, False
            fact = by_turn.get(turn)
            said = f" {fact.sentence}" if fact and fact.place == "prompt" else ""
            last = (await collect(session.send(f"{make_text('english', 60, turn)}.{said}")))[-1]
            assert last.status == "ok"
        messages = await session.messages()
    view = "\n".join(text_of(m.content) for m in model.last)
    lost = [fact for fact in facts if fact.text not in view and not can_be_found(fact, messages)]

    assert (model.sums > 10) == (kind != "off")
    assert sum(fact.text in view for fact in facts) < FACTS / 2
    assert lost == []


def can_be_found(fact: Planted, messages: Sequence[AnyMessage]) -> bool:
    """Whether one call finds the fact: a search for it, or for results a search in that result."""
    if fact.text in answer(SEARCH, {"query": fact.query}, messages)[0]:
        return True
    handles = handles_of(messages)
    return any(
        fact.text in answer(READ, {"handle": handle, "grep": fact.query}, messages)[0]
        for handle, message in handles.items()
        if fact.place == "result" and fact.query in text_of(message.content)
    )
