"""A server that refuses a prompt as too long: one smaller prompt, then one plain sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from context import Window, text_of
from local_agent.config import ModelSettings
from local_agent.events import Notice
from local_agent.model import connect_model
from local_agent.testing import Say, ScriptedServer
from tests.graph_kit import collect, open_session
from tests.view_kit import make_text

SHAPES = ["llama.cpp", "object", "string", "json_200", "event"]
Start = Callable[..., ScriptedServer]


@pytest.mark.parametrize("shape", SHAPES)
async def test_one_smaller_prompt_follows(scripted: Start, tmp_path: Path, shape: str) -> None:
    """L14: the server takes less than the window was told; the turn still has its answer.

    The window has learnt it: the next prompt is not refused.
    """
    server = scripted([Say(make_text("english", 3000, n)) for n in range(6)], overflow=shape)
    window = Window(8192)
    async with (
        await connect_model(ModelSettings(base_url=server.base_url)) as model,
        open_session(tmp_path / "m.db", model, [], window=window) as session,
    ):
        for n in range(3):
            await collect(session.send(f"question {n}: {make_text('english', 3000, 9 + n)}"))
        server.max_prompt_chars = 12_000
        before = len(server.requests)
        refused = await collect(session.send("and now?"))
        after = await collect(session.send("and then?"))

    assert refused[-1].status == "ok"
    assert not list(server.refused)
    assert len(server.requests) - before == 3
    assert sum(isinstance(e, Notice) and "too long" in e.text for e in refused) == 1
    assert window.context_length == 3000
    assert after[-1].status == "ok"
    asked: list[dict[str, Any]] = server.requests[-2]["messages"]
    assert asked[-1]["content"].endswith("and now?")


@pytest.mark.parametrize("shape", SHAPES)
async def test_then_one_plain_sentence(scripted: Start, tmp_path: Path, shape: str) -> None:
    """L14: still too long: the two numbers, the prompt kept, at most three requests, no loop."""
    server = scripted([Say("hello")], max_prompt_chars=160, overflow=shape)
    async with (
        await connect_model(ModelSettings(base_url=server.base_url)) as model,
        open_session(tmp_path / "m.db", model, [], window=Window(8192)) as session,
    ):
        last = (await collect(session.send(make_text("english", 6000, 1))))[-1]
        messages = await session.messages()
        tried = len(server.requests)

    assert last.status == "error"
    assert tried <= 3
    assert "tokens" in last.error
    assert "\n" not in last.error
    assert any(digit in last.error for digit in "0123456789")
    assert text_of(messages[0].content) == make_text("english", 6000, 1)
