"""Which model is talked to, and with which context, on each kind of server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from local_agent.config import ModelSettings
from local_agent.errors import ConfigError, ModelError, ModelNotLoaded
from local_agent.model import ChatModel, connect_model, discover, list_models
from local_agent.model.discovery import _lmstudio_v1, _openai
from local_agent.testing import Say, ScriptedServer

Start = Callable[..., ScriptedServer]


async def connected(server: ScriptedServer, **settings: Any) -> ChatModel:
    """Connect and close again: what was found stays readable."""
    async with await connect_model(
        ModelSettings(base_url=server.base_url, **settings), timeout=10, reply_tokens=None
    ) as model:
        return model


@pytest.mark.parametrize(
    ("flavour", "kind", "context"),
    [("llama.cpp", "llama.cpp", 6144), ("lmstudio", "lmstudio", 6144), ("plain", "other", None)],
)
async def test_loaded_model(scripted: Start, flavour: Any, kind: str, context: int | None) -> None:
    """Without a name it is the loaded model, with the context it is loaded with."""
    model = await connected(scripted(flavour=flavour, context_length=6144))
    assert (model.name, model.context_length, model.server_kind) == ("scripted-7b", context, kind)


@pytest.mark.parametrize("flavour", ["llama.cpp", "lmstudio", "plain"])
async def test_context_of_the_settings_wins(scripted: Start, flavour: Any) -> None:
    """A context length in the configuration overrides what the server says."""
    model = await connected(scripted(flavour=flavour), context_length=1234)
    assert model.context_length == 1234


@pytest.mark.parametrize("flavour", ["lmstudio", "plain", "llama.cpp"])
async def test_several_loaded(scripted: Start, flavour: Any) -> None:
    """Several loaded and none named is a configuration error that lists them; a name chooses."""
    server = scripted(flavour=flavour, loaded=["one-7b", "two-7b"], model="one-7b")
    with pytest.raises(ConfigError, match="one-7b, two-7b") as caught:
        await connected(server)
    assert caught.value.exit_code == 2
    assert (await connected(server, name="two-7b")).name == "two-7b"


@pytest.mark.parametrize("flavour", ["lmstudio", "plain", "llama.cpp"])
async def test_none_loaded(scripted: Start, flavour: Any) -> None:
    """L16: none loaded says how to load one."""
    with pytest.raises(ModelNotLoaded, match="lms load"):
        await connected(scripted(flavour=flavour, loaded=[]))


async def test_named_but_not_loaded(scripted: Start) -> None:
    """LM Studio loads a named model when it is asked: the context is known after that."""
    server = scripted([Say("a")], flavour="lmstudio", loaded=["other"], model="mine")
    settings = ModelSettings(base_url=server.base_url, name="mine")
    async with await connect_model(settings) as model:
        assert (model.name, model.context_length) == ("mine", None)
        server.loaded = ["mine"]
        await model.reply([HumanMessage("hi")])
        assert model.context_length == 8192


async def test_refresh(scripted: Start) -> None:
    """Asking again finds another model and another context."""
    server = scripted([Say("a")], flavour="lmstudio")
    async with await connect_model(ModelSettings(base_url=server.base_url)) as model:
        server.model, server.loaded, server.context_length = "new-3b", ["new-3b"], 2048
        assert await model.refresh() == 2048
        await model.reply([HumanMessage("hi")])
        assert server.requests[0]["model"] == model.name == "new-3b"


async def test_llama_cpp_serves_another_name(scripted: Start) -> None:
    """L16: llama.cpp serves whatever it has; that it is not what was asked for is said."""
    model = await connected(scripted(), name="big-70b")
    assert model.notices == ["Asked for big-70b; the server has scripted-7b."]


async def test_list(scripted: Start) -> None:
    """All models of the server, loaded ones first."""
    server = scripted(flavour="lmstudio", loaded=["b"], model="a")
    models = await list_models(ModelSettings(base_url=server.base_url))
    assert [(m.name, m.loaded, m.context_length) for m in models] == [
        ("b", True, 8192),
        ("a", False, None),
    ]


async def test_older_lm_studio(scripted: Start) -> None:
    """Without /api/v1 the state of /api/v0 decides."""
    server = scripted(flavour="lmstudio", loaded=["b"], model="a")
    server.hidden = {"/api/v1/models"}
    found = await discover(ModelSettings(base_url=server.base_url))
    assert found.kind == "lmstudio"
    assert [m.name for m in found.loaded] == ["b"]
    assert found.loaded[0].context_length == 8192


async def test_lm_studio_with_its_api_off(scripted: Start) -> None:
    """A list that holds an embedding model beside one other needs no name."""
    server = scripted(flavour="plain", loaded=["text-embedding-nomic", "qwen-7b"])
    assert (await connected(server)).name == "qwen-7b"


async def test_wrong_path(scripted: Start) -> None:
    """A base_url that misses /v1 is told, not guessed."""
    server = scripted(flavour="plain")
    with pytest.raises(ModelError, match="ends in /v1"):
        await connect_model(ModelSettings(base_url=f"http://127.0.0.1:{server.port}/wrong"))


async def test_no_url() -> None:
    """A base_url that is no address is an error of ours."""
    for url in ("localhost:1234", "http://", "ftp://x/v1"):
        with pytest.raises(ModelError):
            await connect_model(ModelSettings(base_url=url))


def test_instances() -> None:
    """Two instances of one file are two models; a name may be the file's or the instance's."""
    models = _lmstudio_v1(
        {
            "models": [
                {"type": "embedding", "key": "e", "loaded_instances": [{"id": "e"}]},
                {
                    "type": "llm",
                    "key": "q",
                    "loaded_instances": [{"id": "q", "config": {}}, {"id": "q:2"}],
                },
            ]
        }
    )
    assert models is not None
    assert [(m.name, m.key, m.context_length) for m in models] == [
        ("q", "q", None),
        ("q:2", "q", None),
    ]


def test_llama_cpp_with_several_models() -> None:
    """llama.cpp's router says of each whether it is loaded."""
    rows = [
        {"id": "a", "status": {"value": "unloaded"}},
        {"id": "b", "status": {"value": "loaded"}},
    ]
    assert [(m.name, m.loaded) for m in _openai({"data": rows})] == [("a", False), ("b", True)]
