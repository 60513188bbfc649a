"""The limits of a profile come with the model: when it is connected, and when it is another one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from langchain_core.messages import HumanMessage

from local_agent.config import Flags, Settings, load_settings
from local_agent.model import connect_model
from local_agent.probe import Findings, Identity, Profile, Profiles, Share
from local_agent.testing import Say, ScriptedServer
from local_agent.tuned import Tuned

Start = Callable[..., ScriptedServer]
FOUND = Findings(
    denial=Share(0, 3), parallel=Share(0, 3), structured=Share(0, 3), tools_4=Share(0, 8)
)


def tuned(server: ScriptedServer, folder: Path, name: str = "") -> tuple[Tuned, list[Settings]]:
    """The settings of a run on the server, with a profile of "mine" at 8,192 tokens."""
    settings = load_settings(Flags(base_url=server.base_url, model=name or None), {}, folder)
    profiles, applied = Profiles(folder), []
    identity = Identity("mine", settings.model.address, {"context_length": 8192})
    profiles.save(Profile(identity, "2026-01-02T03:04:05+00:00", FOUND))
    return Tuned(settings, profiles, applied.append), applied


async def test_a_model_that_is_loaded_by_the_first_request(scripted: Start, tmp_path: Path) -> None:
    """LM Studio loads a named model when it is asked: its profile counts from then on."""
    server = scripted([Say("a")], flavour="lmstudio", loaded=["other"], model="mine")
    limits, applied = tuned(server, tmp_path, "mine")
    async with await connect_model(limits.settings.model) as chat:
        limits.connected(chat)
        assert (limits.max_steps(), chat.parallel_calls, chat.json_schema) == (12, None, True)
        server.loaded = ["mine"]
        await chat.reply([HumanMessage("hi")])
        assert (limits.max_steps(), chat.parallel_calls, chat.json_schema) == (6, False, False)
    assert [one.router.max_tools for one in applied] == [12, 4]


async def test_another_model_takes_the_limits_along(scripted: Start, tmp_path: Path) -> None:
    """Asked anew, after an overflow say, the server has another model: its own limits count."""
    server = scripted([Say("a")], flavour="lmstudio", model="mine")
    limits, applied = tuned(server, tmp_path)
    async with await connect_model(limits.settings.model) as chat:
        limits.connected(chat)
        assert limits.max_steps() == 6
        server.model, server.loaded = "new-3b", ["new-3b"]
        await chat.refresh()
        assert (limits.max_steps(), chat.parallel_calls, chat.json_schema) == (12, None, True)
    assert applied[-1] == replace(applied[-1], max_steps=12)
