"""The model of the kill harness: what it calls and answers, and what it is asked just now."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from local_agent.testing import Call, Calls, Json, Reply, Say, Slow
from tests.servers.kill_server import looked

MARK = re.compile(r"\[p(\d+)\]\s*$")
CALL_ID = re.compile(r"c(\d+)_(\d+)_")
SUMMARY = "So far tokens were looked at and written"  # how a usable summary begins
WRITES = ("write", "slow_write")
KINDS = ["look"] * 3 + ["long"] * 2 + ["write"] * 2 + ["slow_write"] * 3 + ["slow_look", "fail"]
# What each four turns have for certain, in an order by chance; None: nothing.
STEPS: tuple[tuple[str, ...] | None, ...] = (
    ("look", "slow_look", "long"),
    ("slow_write",),
    ("long", "long"),
    None,
)
SECONDS = {"model": 0.2, "router": 0.15, "summary": 0.5}  # the longest that a reply takes to begin

Kind = tuple[str, float]  # of tool, and how long or how much


@dataclass(frozen=True, slots=True)
class Made:
    """A call that the model made: its id, its tool, and the text that it gives."""

    id: str
    tool: str
    text: str

    @property
    def step(self) -> str:
        """The turn and the step that it is of."""
        return self.id.rpartition("_")[0]


@dataclass(slots=True)
class Script:
    """The model: each turn is a plan of steps, each step some calls, then an answer.

    A reply that was asked for again has tokens of its own, so that what was lost is seen.
    `heard` are the numbers of the prompts that it was asked about, `asked_for` counts what.
    """

    seed: str
    made: dict[str, Made] = field(default_factory=dict)
    heard: set[int] = field(default_factory=set)
    asked: int = 0
    asked_for: Counter[str] = field(default_factory=Counter)
    _busy: tuple[str, float] = ("", 0.0)

    def __call__(self, body: Mapping[str, Any]) -> Reply:
        self.asked += 1
        chance = random.Random(f"{self.seed}:reply:{self.asked}")
        kind, reply = self._reply(body, chance)
        seconds = chance.uniform(0, SECONDS[kind])
        self.asked_for[kind] += 1
        self._busy = kind, time.monotonic() + seconds
        return Slow(reply, seconds)

    @property
    def busy(self) -> str:
        """What a reply is being waited for: "model", "router", "summary", or nothing."""
        kind, until = self._busy
        return kind if time.monotonic() < until else ""

    def forget_busy(self) -> None:
        """Whoever asked is gone."""
        self._busy = ("", 0.0)

    def _reply(self, body: Mapping[str, Any], chance: random.Random) -> tuple[str, Reply]:
        if body.get("response_format"):
            other = Say("I would say the tools.")
            return "router", chance.choice([Json({"route": "kit"})] * 5 + [other])
        place = self._place(body["messages"])
        if place is None:
            other = Say("I cannot do that.")
            return "summary", chance.choice([Say(f"{SUMMARY}; {self.asked} times.")] * 5 + [other])
        turn, step = place
        self.heard.add(turn)
        plan = self._plan(turn)
        if step >= len(plan) or body.get("tool_choice") == "none" or not body.get("tools"):
            return "model", Say(f"{'It is all ' * chance.randrange(12)}done a{self.asked}.")
        prefix = f"c{turn}_{step}_"
        calls = [self._call(kind, prefix, n) for n, kind in enumerate(plan[step])]
        return "model", Calls(calls)

    def _place(self, messages: Sequence[Mapping[str, Any]]) -> tuple[int, int] | None:
        """Turn and step that a request asks for; None for one that is about something else."""
        last = max(n for n, message in enumerate(messages) if message["role"] == "user")
        found = MARK.search(messages[last]["content"])
        if found is None:
            return None
        calls = [call for m in messages[last:] for call in m.get("tool_calls") or ()]
        steps = [int(match[2]) for call in calls if (match := CALL_ID.match(call["id"]))]
        return int(found[1]), max(steps, default=-1) + 1

    def _plan(self, turn: int) -> list[list[Kind]]:
        """The steps of a turn, always the same: some by chance, and one that is due."""
        order = random.Random(f"{self.seed}:four:{turn // len(STEPS)}").sample(STEPS, len(STEPS))
        due, chance = order[turn % len(STEPS)], random.Random(f"{self.seed}:{turn}")
        steps = [
            chance.choices(KINDS, k=chance.choice((1, 1, 2, 3)))
            for _ in range(chance.choice((0, 0, 1, 1, 2)))
        ]
        if due:
            steps.insert(chance.randrange(len(steps) + 1), list(due))
        return [[(kind, chance.uniform(0.05, 0.4)) for kind in step] for step in steps]

    def _call(self, kind: Kind, prefix: str, number: int) -> Call:
        name, seconds = kind
        token = f"k{self.asked * 10 + number}"
        args: dict[str, Any] = {"token": token}
        text = f"wrote {token}"
        if name in ("look", "long"):
            args["chars"] = int(seconds * (8000 if name == "long" else 300))
            text, name = looked(token, args["chars"]), "look"
        elif name == "fail":
            text = f"failed {token}"
        elif name != "write":
            args["seconds"] = round(seconds, 2)
        if name == "slow_look":
            text = looked(token, 0)
        self.made[token] = Made(prefix + token, name, text)
        return Call(name, args, prefix + token)
