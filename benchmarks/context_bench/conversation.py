"""One conversation from a seed: prompts, tool calls, their results and answers, all of them given.

The turns are the same for every policy, so that policies differ in nothing but what they send.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from benchmarks.context_bench.material import LARGEST, MAKERS, SERVICES, SMALLEST, answer


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call with the result that it will have."""

    id: str
    name: str
    args: Mapping[str, Any]
    result: str


@dataclass(frozen=True, slots=True)
class Turn:
    """A prompt, the calls of each model reply before the last, and the answer.

    `gist` is the line that a good summary would have about the turn.
    """

    number: int
    question: str
    steps: tuple[tuple[Call, ...], ...]
    answer: str
    gist: str

    @property
    def prompt(self) -> HumanMessage:
        return HumanMessage(self.question, id=f"q{self.number}")

    def call_message(self, step: int) -> AIMessage:
        """The model's reply number `step` of this turn, which has calls."""
        calls = [
            {"id": c.id, "name": c.name, "args": dict(c.args), "type": "tool_call"}
            for c in self.steps[step]
        ]
        return AIMessage("", id=f"c{self.number}-{step}", tool_calls=calls)

    def results(self, step: int) -> list[AnyMessage]:
        return [
            ToolMessage(c.result, tool_call_id=c.id, name=c.name, id=f"t-{c.id}")
            for c in self.steps[step]
        ]

    @property
    def answer_message(self) -> AIMessage:
        return AIMessage(self.answer, id=f"a{self.number}")


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of result: the tool that gives it, and what a person asks to get it."""

    tool: str
    args: Mapping[str, str]
    questions: tuple[str, ...]


_PATH = {"path": "{s}/handlers/{w}.py"}
KINDS: dict[str, _Kind] = {
    "log": _Kind(
        "read_log",
        {"service": "{s}", "since": "2026-03-{d:02d}T06:00", "level": "debug"},
        (
            "Why did {s} stop answering on the {d} March around six? Have a look at its log.",
            "Check the log of {s} since the {d} March: is anything in it that I should know of?",
        ),
    ),
    "records": _Kind(
        "call_api",
        {"path": "/v2/{s}/{w}s", "page": "{n}"},
        (
            "What does the API of {s} give for {w}s, page {n}?",
            "Fetch page {n} of the {w}s from {s} and tell me whether one looks wrong.",
        ),
    ),
    "table": _Kind(
        "run_query",
        {"sql": "SELECT * FROM {w}s WHERE placed >= '2026-03-{d:02d}' ORDER BY total LIMIT {n}"},
        (
            "Which {n} {w}s since the {d} March have the smallest total?",
            "List {n} {w}s placed from the {d} March on. I need the customers and the totals.",
        ),
    ),
    "code": _Kind(
        "read_file",
        _PATH,
        (
            "How does {s} handle a {w} that comes twice? Line {n} and what follows, I think.",
            "Explain what {s} does with a {w} when more than {n} are waiting.",
        ),
    ),
    "diff": _Kind(
        "show_commit",
        {"repository": "{s}", "commit": "HEAD~{n}"},
        (
            "What did the commit {n} before the last change in {s}, and could it break a {w}?",
            "Go {n} commits back in {s} and show me what was done about the {w}.",
        ),
    ),
    "notes": _Kind(
        "read_note",
        {"title": "{s} meeting {d} March", "section": "{w}"},
        (
            "What did we decide about the {w} in the {s} meeting of the {d} March?",
            "Sum up the minutes of {s} from the {d} March; what is open, above all on the {w}?",
        ),
    ),
    "page": _Kind(
        "fetch_page",
        {"url": "https://handbook.shop.example/{s}/{w}?rev={n}"},
        (
            "What does the handbook of {s} say about a {w}, in revision {n}?",
            "Is there a rule for the {w} in the handbook of {s}? Revision {n} is the newest.",
        ),
    ),
}
_WORDS = ("order", "refund", "invoice", "parcel", "voucher", "session", "address", "payment")
_DESCRIPTIONS = {
    "read_log": "Read the log of a service, oldest line first.",
    "call_api": "GET a path of the shop's API and return the JSON answer.",
    "run_query": "Run one read-only SQL statement on the reporting database.",
    "read_file": "Read a source file of one of the services.",
    "show_commit": "Show message and changes of one commit.",
    "read_note": "Read meeting notes by title, whole or one section.",
    "fetch_page": "Fetch a page of the handbook.",
}
_HELP = {
    "service": "Name of the service, for example billing",
    "since": "Local time, ISO 8601, from which on lines are returned",
    "level": "Least level: debug, info, warn or error",
    "path": "Path, relative to the root",
    "page": "Page number, from 1",
    "sql": "The statement; only SELECT is allowed",
    "repository": "Name of the repository",
    "commit": "Hash or relative name of the commit",
    "title": "Title of the note",
    "section": "Only this section, if it is given",
    "url": "Address of the page",
}


def schema_of(tool: str) -> dict[str, Any]:
    """The JSON schema of a tool's arguments."""
    args = next(kind.args for kind in KINDS.values() if kind.tool == tool)
    properties = {name: {"type": "string", "description": _HELP[name]} for name in args}
    return {"type": "object", "properties": properties, "required": [next(iter(args))]}


TOOLS: tuple[tuple[str, str, dict[str, Any]], ...] = tuple(
    (name, text, schema_of(name)) for name, text in _DESCRIPTIONS.items()
)


def functions() -> list[dict[str, Any]]:
    """The tools as the chat API takes them."""
    return [
        {"type": "function", "function": {"name": n, "description": d, "parameters": s}}
        for n, d, s in TOOLS
    ]


def conversation(seed: int, turns: int, *, scale: float = 1.0) -> list[Turn]:
    """`turns` turns; the sizes of results are uniform in their logarithm, times `scale`.

    One call in half of the turns; else two, side by side or one after the other. Results stay
    between 0.2 and 8 KB also when they are scaled.
    """
    rng = Random(seed)
    return [_turn(rng, number, scale) for number in range(1, turns + 1)]


def _turn(rng: Random, number: int, scale: float) -> Turn:
    kinds = rng.sample(list(KINDS), rng.choice((1, 2)))
    about = {
        "s": rng.choice(SERVICES),
        "w": rng.choice(_WORDS),
        "n": rng.randrange(2, 60),
        "d": rng.randrange(1, 31),
    }
    calls = [_call(rng, kind, about, f"{number:04d}{i}", scale) for i, kind in enumerate(kinds)]
    in_one_step = rng.random() < 0.5
    steps = (tuple(calls),) if in_one_step else tuple((call,) for call in calls)
    asked = " ".join(rng.choice(KINDS[kind].questions).format(**about) for kind in kinds)
    said = answer(rng, calls[-1].result)
    gist = f"- {asked[:80]} Found: {said.split('`')[1][:60]}"
    return Turn(number, f"{asked} (no. {number})", steps, said, gist)


def _call(rng: Random, kind: str, about: Mapping[str, Any], call_id: str, scale: float) -> Call:
    size = math.exp(rng.uniform(math.log(SMALLEST), math.log(LARGEST))) * scale
    size = min(max(size, SMALLEST), LARGEST)
    args = {name: text.format(**about) for name, text in KINDS[kind].args.items()}
    return Call(f"call_{call_id}", KINDS[kind].tool, args, MAKERS[kind](rng, int(size)))


def messages_of(turns: Sequence[Turn]) -> list[AnyMessage]:
    """All messages of the turns in order."""
    out: list[AnyMessage] = []
    for turn in turns:
        out.append(turn.prompt)
        for step in range(len(turn.steps)):
            out += [turn.call_message(step), *turn.results(step)]
        out.append(turn.answer_message)
    return out
