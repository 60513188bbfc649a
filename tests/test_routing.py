"""Routes: which tools a turn gets, and when the model is asked for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from local_agent.approval import decide
from local_agent.config import RouteSpec
from local_agent.errors import ConfigError, ModelUnreachable
from local_agent.routing import ALL, GENERAL, Router, check_route, routes_of


@dataclass
class FakeTool:
    name: str
    server: str
    read_only: bool = True
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict)

    @property
    def original(self) -> str:
        return self.name


class Answering:
    """A model that gives one content, or raises it, and counts how often it was asked."""

    def __init__(self, content: str | Exception) -> None:
        self.content = content
        self.asked: list[Any] = []

    async def reply(self, messages: Any, **options: Any) -> AIMessage:
        self.asked.append((messages, options))
        if isinstance(self.content, Exception):
            raise self.content
        return AIMessage(self.content)


TOOLS = [FakeTool("git_log", "git"), FakeTool("git_add", "git"), FakeTool("now", "time")]
GIT = RouteSpec("repo", "this repository", ("git/*",))


def test_without_routes_each_server_is_one() -> None:
    """A server's tools describe it; `all` has all tools, `general` none."""
    routes = routes_of((), TOOLS)

    assert routes.tools == {
        "git": ["git_log", "git_add"],
        "time": ["now"],
        ALL: ["git_log", "git_add", "now"],
        GENERAL: [],
    }
    assert routes.descriptions["git"] == "git log, git add"


@pytest.mark.parametrize("glob", ["git/*", "git_*", "git_[al]*"])
def test_configured_routes_match_names_and_servers(glob: str) -> None:
    """Globs are over the name that the model sees, or over server/tool."""
    routes = routes_of([RouteSpec("repo", "x", (glob,))], TOOLS)

    assert routes.tools["repo"] == ["git_log", "git_add"]


def test_an_unknown_route_is_named_with_the_known_ones() -> None:
    """--route with a wrong name says which there are."""
    with pytest.raises(ConfigError, match=r"no route 'x'.*repo"):
        check_route(routes_of([GIT], TOOLS), "x")


@pytest.mark.parametrize(
    ("mode", "fits", "fixed", "content", "current", "route", "asked"),
    [
        ("auto", True, "", '{"route": "repo"}', "", ALL, 0),
        ("off", False, "", '{"route": "repo"}', "", ALL, 0),
        ("auto", False, "repo", '{"route": "general"}', "", "repo", 0),
        ("auto", False, "", '{"route": "repo"}', "", "repo", 1),
        ("model", True, "", '{"route": "general"}', "repo", "general", 1),
        ("auto", False, "", '{"route": "nonsense"}', "repo", "repo", 1),
        ("auto", False, "", "no json", "repo", "repo", 1),
        ("auto", False, "", "[]", "", ALL, 1),
        ("auto", False, "", ModelUnreachable("down"), "repo", "repo", 1),
    ],
)
async def test_the_model_is_asked_only_where_it_must(
    mode: str,
    fits: bool,
    fixed: str,
    content: str | Exception,
    current: str,
    route: str,
    asked: int,
) -> None:
    """One route while all fits; what the model cannot say leaves the thread's route."""
    model = Answering(content)
    router = Router(routes_of([GIT], TOOLS), model, mode, lambda: fits, fixed)
    name, _ = await router([HumanMessage("what changed?")], current)

    assert (name, len(model.asked)) == (route, asked)


async def test_the_question_is_short_and_has_the_exchange_before() -> None:
    """A long prompt is clipped; the exchange before it goes along; the names are an enum."""
    model = Answering('{"route": "repo"}')
    router = Router(routes_of([GIT], TOOLS), model, "model", lambda: False)
    history = [HumanMessage("show the log"), AIMessage("It is empty."), HumanMessage("x" * 9000)]
    await router(history, "")

    messages, options = model.asked[0]
    text = str(messages[-1].content)
    assert sum(len(str(m.content)) for m in messages) < 2400
    assert "show the log" in text
    assert "It is empty." in text
    schema = options["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["route"]["enum"] == ["repo", "general"]
    assert json.dumps(schema)


@pytest.mark.parametrize(
    ("read_only", "allowed", "verdict"),
    [
        (True, [], "allow"),
        (False, [], "ask"),
        (False, ["git/git_add"], "allow"),
        (False, ["other/git_add"], "ask"),
        (False, ["git_add"], "ask"),
    ],
)
def test_a_write_asks_unless_allowed_for_that_server(
    read_only: bool, allowed: list[str], verdict: str
) -> None:
    """Only a read, or the very tool of the very server, runs unasked."""
    assert decide(FakeTool("git_add", "git", read_only), {}, allowed) == verdict
