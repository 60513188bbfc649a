"""Tools in the graph: `find_tools`, tools that are not in the prompt, turns that need none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from agent_core import toolset
from agent_core.ledger import Ledger
from agent_core.says import declines
from agent_core.toolset import FIND, shrunk, widened
from agent_core.view import NO_TOOL, Limits
from context import Window, text_of, weigh_tool
from local_agent.events import RouteChosen, TextDelta, TurnFinished
from local_agent.routing import Router, Shelf, routes_of
from local_agent.timeline.looking import moment, places
from tests.graph_kit import ScriptedModel, ScriptedTool, call, collect, open_session, say
from tests.routing_kit import tools as kit
from tests.timeline_kit import open_line, send

MOST = 12
GIT = ["git_status", "git_diff", "git_log", "git_commit", "git_create_branch", "git_checkout"]


def scripted(*, writes: Sequence[str] = ()) -> list[ScriptedTool]:
    """The tools of the kit, as ones that can be called."""
    return [
        ScriptedTool(
            tool.name,
            read_only=tool.name not in writes,
            server=tool.server,
            description=tool.description,
            schema=tool.schema,
        )
        for tool in kit()
    ]


def opened(path: Path, model: ScriptedModel, tools: Sequence[ScriptedTool], **options: Any) -> Any:
    """A session with the real router over `tools`."""
    window = options.pop("window", None) or Window(8192)
    routes = routes_of((), tools)
    router = Router(Shelf(routes, tools, window, options.pop("most", MOST)), model, "words")
    return open_session(
        path, model, tools, window=window, routes=routes.tools, route=router, **options
    )


def names(asked: Mapping[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in asked["tools"]]


def newest(asked: Mapping[str, Any]) -> str:
    return next(
        text_of(m.content) for m in reversed(asked["messages"]) if isinstance(m, HumanMessage)
    )


# -- find_tools -----------------------------------------------------------------------------------


async def test_found_tools_are_in_the_next_prompt_at_the_end(tmp_path: Path) -> None:
    """What `find_tools` names can be called at once, and the list before it stays as it was."""
    model = ScriptedModel(
        [
            call(("find_tools", {"query": "weather forecast"})),
            call(("get_forecast", {"city": "Oslo"})),
            say("Rain."),
        ]
    )
    tools, ledger = scripted(), Ledger()
    async with opened(tmp_path / "m.db", model, tools, ledger=ledger) as session:
        events = await collect(session.send("Show the last commits"))

    first, second, third = map(names, model.asked)
    assert first == [*GIT, "find_tools"]
    assert second[: len(first)] == first
    assert "get_forecast" in second[len(first) :]
    assert third == second
    result = text_of(model.asked[1]["messages"][-1].content)
    assert "get_forecast: Weather forecast for the next days" in result
    assert isinstance(events[-1], TurnFinished)
    assert events[-1].status == "ok"
    assert next(t for t in tools if t.name == "get_forecast").ran == [{"city": "Oslo"}]


async def test_what_was_found_is_there_after_a_restart(tmp_path: Path) -> None:
    """The set is in the thread's state, and small talk in a new process does not change it."""
    model = ScriptedModel([call(("find_tools", {"query": "convert units"})), say("Found.")])
    async with opened(tmp_path / "m.db", model, scripted()) as session:
        await collect(session.send("Show the last commits"))
    again = ScriptedModel([say("You are welcome."), say("It is clean.")])
    async with opened(tmp_path / "m.db", again, scripted()) as session:
        await collect(session.send("Thanks!"))
        await collect(session.send("git status?"))

    assert "convert_units" in names(model.asked[1])
    assert names(again.asked[0]) == names(again.asked[1]) == names(model.asked[1])


async def test_the_ledger_says_that_the_tools_changed(tmp_path: Path) -> None:
    """A found tool costs a reading of what stands behind the tools, and the ledger names it."""
    model = ScriptedModel([call(("find_tools", {"query": "weather"})), say("Found.")])
    ledger = Ledger()
    async with opened(tmp_path / "m.db", model, scripted(), ledger=ledger) as session:
        await collect(session.send("Show the last commits"))

    entry, tools = ledger.last("t"), model.asked[0]["tools"]
    assert entry is not None
    assert entry.changed_by == "tools"
    assert entry.unchanged >= entry.system + sum(map(weigh_tool, tools))  # the list grew at its end
    assert 0 < entry.reread < entry.turn
    assert ledger.changes("t") == (1, entry.reread)


async def test_there_is_no_finder_where_all_tools_are_there(tmp_path: Path) -> None:
    """With twelve tools or fewer the prompt has them all and nothing else."""
    model = ScriptedModel([say("Hm.")])
    tools = scripted()[:MOST]
    async with opened(tmp_path / "m.db", model, tools) as session:
        await collect(session.send("Show the last commits"))

    assert names(model.asked[0]) == [tool.name for tool in tools]


async def test_no_prompt_has_more_tools_than_allowed_between_turns(tmp_path: Path) -> None:
    """A turn begins with at most `max_tools`, ours included, whatever topics came before."""
    model = ScriptedModel([say("Yes.")] * 7)
    prompts = [
        "Show the last commits",
        "List the files in /tmp",
        "What's the weather in Paris?",
        "Cancel the planning meeting",
        "Archive the mail from the newsletter",
        "What is the state of order 4711?",
        "Calculate 5 * 7",
    ]
    async with opened(tmp_path / "m.db", model, scripted()) as session:
        for prompt in prompts:
            await collect(session.send(prompt))

    assert all(len(names(asked)) <= MOST for asked in model.asked)
    assert all("find_tools" in names(asked) for asked in model.asked)
    assert "calculate" in names(model.asked[-1])


async def test_no_prompt_has_more_than_the_most(tmp_path: Path) -> None:
    """Neither with what two searches found, nor with the lookups that come when turns are folded;
    what was used stays."""
    model = ScriptedModel(
        [
            call(("find_tools", {"query": "weather in a city"})),
            call(("find_tools", {"query": "send an e-mail"})),
            call(("get_weather", {"city": "Oslo"})),
            *[say("The tree is clean. " * 40) for _ in range(9)],
        ]
    )
    limits = Limits(summary=False)
    tools, window = scripted(), Window(4096)
    async with opened(tmp_path / "m.db", model, tools, window=window, limits=limits) as session:
        for n in range(9):
            await collect(session.send(f"git status {n}? " + "And more of it. " * 60))
    lists = [names(asked) for asked in model.asked]

    assert max(map(len, lists)) <= MOST
    assert "send_mail" in lists[2]
    assert "get_weather" in lists[-1]
    assert "search_history" in lists[-1]
    # As it was found, with the whole of the route in its next turn, and with the lookups.
    assert len({tuple(one) for one in lists[3:]}) == 3


def test_least_recently_used_tools_leave() -> None:
    """Of a set that is too large the tools leave that were called longest ago, the finder never."""
    calls = [
        AIMessage("", tool_calls=[{"name": name, "args": {}, "id": name}], id=name)
        for name in ("b", "c", "a")
    ]
    left = shrunk(
        ["a", "b", FIND, "c", "d"], most=2, fits=lambda names: True, messages=calls, kept=()
    )
    grown = widened(
        [*map(str, range(toolset.places(12))), FIND],
        [f"new{n}" for n in range(9)],
        most=toolset.places(12),
        fits=lambda names: True,
        messages=(),
    )
    unused = shrunk(["a", "b", "c", "d"], most=2, fits=lambda names: True, messages=())

    assert left == ["a", FIND, "c"]
    assert [n for n in grown if n.startswith("new")] == [f"new{n}" for n in range(9)]
    assert len(grown) - 1 == toolset.places(12) == 9  # with the finder and two lookups: 12
    assert unused == ["c", "d"]  # what came last is what a follow-up is about


# -- tools that are not in the prompt -------------------------------------------------------------


async def test_a_tool_that_is_not_in_the_prompt_is_known(tmp_path: Path) -> None:
    """A call of it runs like any other, and from then on the prompt has it."""
    model = ScriptedModel([call(("get_weather", {"city": "Oslo"})), say("Rain."), say("Yes.")])
    tools = scripted()
    async with opened(tmp_path / "m.db", model, tools) as session:
        await collect(session.send("Show the last commits"))

    assert next(t for t in tools if t.name == "get_weather").ran == [{"city": "Oslo"}]
    assert "get_weather" not in names(model.asked[0])
    assert names(model.asked[1])[-1] == "get_weather"


async def test_a_write_that_is_not_in_the_prompt_is_asked_about(tmp_path: Path) -> None:
    """The rules are the same wherever a call comes from."""
    model = ScriptedModel([call(("send_mail", {"to": "a@example.com"})), say("Sent.")])
    tools = scripted(writes=["send_mail"])
    async with opened(tmp_path / "m.db", model, tools) as session:
        await collect(session.send("Show the last commits"))
        pending = await session.pending()

    assert pending is not None
    assert [c.name for c in pending.calls] == ["send_mail"]
    assert next(t for t in tools if t.name == "send_mail").ran == []


async def test_wrong_arguments_for_it_are_answered_with_its_schema(tmp_path: Path) -> None:
    """It is never an unknown tool."""
    model = ScriptedModel([call(("get_weather", "Oslo")), say("Rain.")])
    async with opened(tmp_path / "m.db", model, scripted()) as session:
        await collect(session.send("Show the last commits"))

    said = text_of(model.asked[1]["messages"][-1].content)
    assert "get_weather(city?: string)" in said


async def test_an_unknown_tool_is_answered_with_what_is_near_to_it(tmp_path: Path) -> None:
    """Among all tools that there are; our own are named only where the prompt has them."""
    model = ScriptedModel([call(("get_weathers", {})), call(("nope", {})), say("I can't.")])
    async with opened(tmp_path / "m.db", model, scripted()) as session:
        await collect(session.send("Show the last commits"))
    near, far = (text_of(asked["messages"][-1].content) for asked in model.asked[1:])

    assert "Did you mean get_weather" in near
    assert "git_log" in far
    assert "find_tools" in far
    assert "read_result" not in far


# -- turns that need no tool ----------------------------------------------------------------------


async def test_a_greeting_has_no_tool_in_its_prompt(tmp_path: Path) -> None:
    """A thread that begins with small talk has the shortest prompt, and is answered soon."""
    model = ScriptedModel([say("Hello."), say("None.")])
    async with opened(tmp_path / "m.db", model, scripted()) as session:
        await collect(session.send("Hello!"))
        await collect(session.send("Show the last commits"))

    assert names(model.asked[0]) == []
    assert newest(model.asked[0]) == "Hello!"
    assert names(model.asked[1]) == [*GIT, "find_tools"]


async def test_thanks_leave_the_tools_and_ask_for_no_call(tmp_path: Path) -> None:
    """The prompt begins as before; a line behind the message says that no tool is needed."""
    model = ScriptedModel([say("None."), say("You are welcome."), say("Clean.")])
    async with opened(tmp_path / "m.db", model, scripted()) as session:
        await collect(session.send("Show the last commits"))
        await collect(session.send("Thanks!"))
        await collect(session.send("git status?"))
        messages = await session.messages()

    first, second, third = model.asked
    assert first["tools"] == second["tools"] == third["tools"]
    assert [asked["tool_choice"] for asked in model.asked] == [None, "none", None]
    assert newest(second) == f"Thanks!\n\n{NO_TOOL}"
    stays = [text_of(m.content) for m in third["messages"]]
    assert f"Thanks!\n\n{NO_TOOL}" in stays  # what was sent once stays, or all behind is read anew
    assert newest(third) == "git status?"
    assert "Thanks!" in [text_of(m.content) for m in messages]  # stored as it was said


async def test_a_call_at_small_talk_is_not_run(tmp_path: Path) -> None:
    """Where it is sure that no tool is needed, one more request without tools gets the answer."""
    written = say('<tool_call>{"name": "git_log", "arguments": {}}</tool_call>')
    model = ScriptedModel([say("None."), written, say("You are welcome.")])
    tools = scripted()
    async with opened(tmp_path / "m.db", model, tools) as session:
        await collect(session.send("Show the last commits"))
        last = (await collect(session.send("Thanks!")))[-1]

    assert last.answer == "You are welcome."
    assert all(tool.ran == [] for tool in tools)
    assert names(model.asked[-1]) == []


@pytest.mark.parametrize(
    "first",
    [
        "I'm sorry, but I don't have access to real-time data.",
        '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>',
        "",
    ],
)
async def test_a_turn_that_needs_a_tool_after_all_gets_it(tmp_path: Path, first: str) -> None:
    """A reply that cannot, or calls, is thrown away unseen, and the turn goes on with tools."""
    replies = [say(first), *([say("")] if not first else [])]
    model = ScriptedModel([*replies, call(("get_weather", {"city": "Oslo"})), say("It rains.")])
    tools = scripted()
    async with opened(tmp_path / "m.db", model, tools) as session:
        events = await collect(session.send("How far is the moon, and is Oslo nice?"))
        messages = await session.messages()

    shown = "".join(e.text for e in events if isinstance(e, TextDelta))
    assert shown == "It rains."
    assert events[-1].answer == "It rains."
    assert next(t for t in tools if t.name == "get_weather").ran == [{"city": "Oslo"}]
    route = "weather" if "get_weather" in first else "all"
    assert [e.name for e in events if isinstance(e, RouteChosen)] == ["general", route]
    assert NO_TOOL not in newest(model.asked[-1])
    assert len(messages) == 4


async def test_a_tool_that_was_called_against_expectation_is_in_the_set(tmp_path: Path) -> None:
    """In a thread that has no tools yet, and though no word of the prompt leads to it."""
    many = [ScriptedTool(f"git_{n}", server="git") for n in range(30)]
    model = ScriptedModel([call(("get_weather", {})), call(("get_weather", {})), say("Rain.")])
    async with opened(tmp_path / "m.db", model, [*many, *scripted()]) as session:
        last = (await collect(session.send("How far is the moon, and is Oslo nice?")))[-1]

    assert names(model.asked[0]) == []
    assert "get_weather" in names(model.asked[1])
    assert last.answer == "Rain."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("I'm sorry, but I can't access real-time weather information.", True),
        ("I don't have access to your e-mails.", True),
        ("As an AI language model, I cannot browse the internet.", True),
        ("I have no access to your files.", True),
        ("I am unable to check the current time.", True),
        ("Let me check that for you.", True),
        ("Ich habe leider keinen Zugriff auf aktuelle Daten.", True),
        ("Je n'ai pas accès à ces données.", True),
        ("我无法访问实时数据。", True),
        ("The capital of France is Paris.", False),
        ("You're welcome! Let me know if you need anything else.", False),
        ("I think recursion is a function that calls itself.", False),
        ("Because of Rayleigh scattering, the sky looks blue.", False),
    ],
)
def test_a_reply_that_cannot_is_known(text: str, said: bool) -> None:
    """By what small models say when they miss a tool."""
    assert declines(text) is said


async def test_the_request_of_such_turns_can_be_shown_again(tmp_path: Path) -> None:
    """What was sent for an answer follows from the state before it, also where it was the second
    request of its turn, and where the line that no tool is needed stood in it."""
    tools, window = scripted(), Window(8192)
    routes = routes_of((), tools)
    router = Router(Shelf(routes, tools, window, MOST), ScriptedModel([]), "words")
    replies = [say("None."), say("Bye."), say("I have no access to real-time data."), say("Ok.")]
    options = {"window": window, "routes": routes.tools, "route": router}
    async with open_line(tmp_path / "m.db", replies, tools, **options) as (session, line, model):
        for prompt in ("Show the last commits", "Thanks!", "How far is the moon?"):
            await send(session, prompt)
        asking = [one for one in reversed(await places(line)) if "agent" in one.next]
        assert len(asking) == len(model.asked) == 4
        for at in (0, 1, 3):
            there = await moment(line, asking[at].checkpoint_id)
            assert there.sent is not None
            assert there.sent.is_exact, there.sent.why
            assert list(there.sent.tools) == list(model.asked[at]["tools"])
