"""Models for the probe, out of its own material: what a good one would answer; and profiles."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from local_agent.config import ModelSettings
from local_agent.model import connect_model
from local_agent.probe import Findings, Identity, Profile, Profiles, identify
from local_agent.probe.material import DENIALS, EXACT, PAIRS, STRUCTURED, Fact, fact
from local_agent.probe.tools import TOOLS, WEATHER
from local_agent.testing import (
    Behaviour,
    Call,
    Calls,
    Json,
    Reply,
    Say,
    ScriptedServer,
    answering,
    said,
)

NUMBERS = "\n".join(f"number {n}" for n in range(400))
_QUESTION = re.compile(r"What is the code of the (.+)\? Answer")
_FACTS: Mapping[str, Fact] = {one.thing: one for one in map(fact, range(400))}


def sample_value(schema: Mapping[str, Any]) -> Any:
    """Some value that a simple schema takes."""
    kinds: dict[str, Any] = {"string": "x", "integer": 3, "number": 2.5, "boolean": True}
    return kinds[schema["type"]]


def good_answers() -> dict[str, Reply]:
    """The right reply by a text that only its prompt has."""
    answers: dict[str, Reply] = {}
    for text, cities in PAIRS:
        calls = [Call(WEATHER.name, {"city": city}, f"call_{city}") for city in cities]
        answers[text] = Calls(calls)
    for exact in EXACT:
        answers[exact.prompt] = Call(exact.tool.name, exact.args)
    for tool in TOOLS:
        args = {name: sample_value(part) for name, part in tool.schema["properties"].items()}
        answers |= dict.fromkeys(tool.prompts, Call(tool.name, args))
    answers |= dict.fromkeys(STRUCTURED, Json({"topic": "money", "sure": True}))
    return answers | {"Count from 1": Say(NUMBERS), "17 + 25": Say("42")}


def good_model(**changes: Reply) -> Behaviour:
    """A model that does everything right; `changes` are replies after a refused call."""
    plain = answering(good_answers())

    def behave(body: dict[str, Any]) -> Reply:
        last = body["messages"][-1]
        if last["role"] == "tool":
            called = body["messages"][-2]["tool_calls"][0]["function"]["name"]
            return changes.get(called, Say("I did not do it, since you did not allow it."))
        if asked := _QUESTION.search(said(body)):
            known = f"The code of the {asked[1]} is" in said(body)
            return Say(_FACTS[asked[1]].code if known else "I do not know.")
        return plain(body)

    return behave


WRITES = [case.tool.name for case in DENIALS]


def save_profile(server: ScriptedServer, findings: Findings) -> Path:
    """Put a profile of the server's model where the program looks for it."""
    settings = ModelSettings(base_url=server.base_url)

    async def ask() -> Identity:
        async with await connect_model(settings) as chat:
            return identify(chat, settings.address)

    return Profiles().save(Profile(asyncio.run(ask()), "2026-01-02T03:04:05+00:00", findings))
