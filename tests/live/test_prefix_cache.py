"""What a real server has to read: a follow-up costs its own words, not the conversation.

The model is chosen as in `test_main_job`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from local_agent.app import open_app
from local_agent.config import Flags, load_settings
from local_agent.events import TurnFinished
from tests.live.test_main_job import URL, WEIGHTS, find_spec
from tests.view_kit import make_text, real_tokens

pytestmark = [pytest.mark.live, pytest.mark.timeout(1800)]


async def test_a_follow_up_reads_a_tenth_of_the_prompt_at_most(tmp_path: Path) -> None:
    """A thread of 3,000 tokens, then one more question: the server had nine tenths of it."""
    if not URL and not (WEIGHTS.is_file() and find_spec("xllamacpp")):
        pytest.skip("no model: LOCAL_AGENT_TEST_URL, or agent model pull and the extra embedded")
    config = tmp_path / "mcp_servers.toml"
    config.write_text('[servers.time]\ncommand = "mcp-server-time"\n', encoding="utf-8")
    flags = Flags(config=str(config), base_url=URL or None)
    if not URL:
        flags = Flags(config=str(config), model=f"embedded:{WEIGHTS}")
    settings = load_settings(flags, dict(os.environ), tmp_path)
    text = make_text("english", 19_000, 1)
    assert real_tokens(text) > 3000
    async with (
        open_app(settings, lambda text, level: None) as app,
        app.session("work") as session,
    ):
        await app.model.connect()
        for prompt in (f"Say in one word what language this is:\n{text}", "And in German?"):
            last = [event async for event in session.send(prompt)][-1]
            assert isinstance(last, TurnFinished)
            assert last.status == "ok", last.error
        entry = app.ledger.last("work")

    assert entry is not None
    assert entry.changed_by == ""
    assert entry.input_tokens is not None
    assert entry.input_tokens > 3000
    assert entry.read is not None
    assert entry.read <= entry.input_tokens / 10
