"""What every test gets: folders of its own, an environment without surprises, scripted servers."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from local_agent.testing import ScriptedServer

_FOREIGN = ("AGENT_", "LM_API_", "OPENAI_", "LANGCHAIN_", "LANGSMITH_", "LANGGRAPH_")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "NO_COLOR", "FORCE_COLOR")


# A shell that runs the tests in the background makes them, and all they start, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

_ASKED_FOR = {
    "slow": ("--long", "run the tests marked slow too"),
    "live": ("--live", "run the tests that need a real model too"),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --long and --live, which also run the tests marked slow and live."""
    for option, text in _ASKED_FOR.values():
        parser.addoption(option, action="store_true", help=text)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without their option, the tests marked slow and live are skipped."""
    for item in items:
        for mark, (option, text) in _ASKED_FOR.items():
            if item.get_closest_marker(mark) and not config.getoption(option):
                item.add_marker(pytest.mark.skip(reason=f"{text}: {option}"))


@pytest.fixture(autouse=True)
def own_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that lets the clock go back leaves LangGraph's last id ahead, for all that follow in
    its process: ids would then be as close as they can be."""
    monkeypatch.setattr("langgraph.checkpoint.base.id._last_v6_timestamp", None)


@pytest.fixture(autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Home and the user's folders lie in a temporary folder; the developer's variables are gone."""
    home = tmp_path_factory.mktemp("home")
    for name in list(os.environ):
        if name.startswith(_FOREIGN) or name.lower() in {p.lower() for p in _PROXIES}:
            monkeypatch.delenv(name)
    for name, folder in {
        "HOME": ".",
        "USERPROFILE": ".",
        "XDG_CONFIG_HOME": "config",
        "XDG_DATA_HOME": "data",
        "XDG_STATE_HOME": "state",
        "XDG_CACHE_HOME": "cache",
        "APPDATA": "config",
        "LOCALAPPDATA": "data",
    }.items():
        path = home / folder
        path.mkdir(exist_ok=True)
        monkeypatch.setenv(name, str(path))
    return home


@pytest.fixture
def scripted() -> Iterator[Callable[..., ScriptedServer]]:
    """Start scripted model servers: `server = scripted([Say("hi")])`; all stop with the test."""
    with ExitStack() as stack:

        def start(replies: Any = (), **options: Any) -> ScriptedServer:
            return stack.enter_context(ScriptedServer(replies, **options))

        yield start
