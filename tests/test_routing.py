"""Routes: which tools a turn gets, and when the model is asked for it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from agent_core.toolset import FIND, places
from context import Window
from local_agent.approval import decide
from local_agent.config import RouteSpec
from local_agent.errors import ConfigError, ModelUnreachable
from local_agent.routing import ALL, GENERAL, Router, Shelf, check_route, routes_of
from tests.routing_kit import PROMPTS, Answering, FakeTool, Labelled, many, tools

TOOLS = [FakeTool("git_log", "git"), FakeTool("git_add", "git"), FakeTool("now", "time")]
GIT = RouteSpec("repo", "this repository", ("git/*",))
MOST = 12


def router(
    kit: Sequence[FakeTool],
    specs: Sequence[RouteSpec] = (),
    *,
    content: str | Exception = "",
    mode: str = "auto",
    fixed: str = "",
    most: int = MOST,
    window: Window | None = None,
) -> tuple[Router, Answering]:
    model = Answering(content)
    shelf = Shelf(routes_of(specs, kit), kit, window or Window(8192), most)
    return Router(shelf, model, mode, fixed), model


def state(labelled: Labelled, toolset: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The state as the router finds it."""
    messages = labelled.messages()
    before = [m.additional_kwargs["route"] for m in messages if isinstance(m, AIMessage)]
    found = {"messages": messages, "route": before[-1] if before else ""}
    return {**found, "toolset": dict(toolset)} if toolset else found


def names(toolset: Mapping[str, Any]) -> list[str]:
    """The tools of servers in a set that is not whole."""
    return [name for name in toolset["names"] if name != FIND]


def test_what_is_told_to_a_question() -> None:
    """It is an answer to it: what was asked for goes on."""
    asked, _ = router(TOOLS)
    said = [HumanMessage("Will it rain?"), AIMessage("Which city do you live in?")]
    told = HumanMessage("I live in Berlin.")
    assert asked.judge([*said, told], {"route": "git"}).kind != "quiet"
    said[1] = AIMessage("It is dry.")
    assert asked.judge([*said, told], {"route": "git"}).quiet == "likely"


@pytest.mark.parametrize(
    ("prompt", "kind", "route"),
    [
        ("Write a short poem about autumn and save it as a note", "tools", "notes"),
        ("Tell me a joke and write it into the notes", "tools", "notes"),
        ("Schreib ein Gedicht und speichere es als Notiz", "tools", "notes"),
        (
            'translate "good morning my friend" to French and put it into the notes',
            "tools",
            "notes",
        ),
        ("Proofread this and make a note with it: I has a apple", "unclear", "notes"),
        ('Rewrite the note "trip": make it shorter please now', "tools", "notes"),
        ("polish the notes: remove old ones", "unclear", "notes"),
        ("Write a haiku about rain", "quiet", ""),
        ("My favourite colour is teal, just so you know.", "quiet", ""),
        ("By the way, my name is Ada!", "quiet", ""),
        ("I live in a small town near Porto", "quiet", ""),
        ("My favourite song is Blue, remember it in the notes", "tools", "notes"),
        ("I like the last commits of Ada", "tools", "git"),
        ("I'm a bit late, tell Anna", "unclear", ""),
        ("I like to book a table for two", "unclear", ""),
        ("My name is Ada. Show me the last commits", "tools", "git"),
        ("Write a poem about cats and dogs", "quiet", ""),
        ('Correct the grammar: "He go to school every days."', "quiet", ""),
        ("Shorten this to five words or so: The meeting is put off.", "quiet", ""),
        ("Improve this text: the note on the door was torn off", "quiet", ""),
    ],
)
def test_a_text_that_is_to_be_kept_somewhere(prompt: str, kind: str, route: str) -> None:
    """A model writes a poem out of itself, but saves it with a tool."""
    kit = [
        FakeTool("note_create", "notes", description="Save a text as a note"),
        FakeTool("note_search", "notes", description="Find words in notes"),
        FakeTool("log", "git", description="Show the last commits"),
        FakeTool("now", "time", description="The current time"),
    ]
    asked, _ = router(kit)
    verdict = asked.judge([HumanMessage(prompt)], {})

    assert (verdict.kind, verdict.route) == (kind, route)


def test_of_equal_topics_that_with_the_best_tool_is_meant() -> None:
    """ "Status" is said by git, "order" by the shop, and the shop's tool has more of the prompt."""
    kit = [
        FakeTool("git_status", "git", description="Show the working tree status"),
        FakeTool("git_log", "git", description="Show the commits"),
        FakeTool("get_order", "shop", description="The status of an order"),
        FakeTool("search", "shop", description="Find products"),
    ]
    asked, _ = router(kit)

    assert asked.judge([HumanMessage("status of order A9999")], {}).route == "shop"


def test_no_prompt_takes_for_ever() -> None:
    """Each of these can be read in more ways than could ever be tried."""
    asked, _ = router(TOOLS)
    for prompt in (
        "thanks a lot " * 30 + "x",
        "explain it" + " in one" * 55 + " zz zz",
        "ok " * 130,
    ):
        assert asked.judge([HumanMessage(prompt), AIMessage("a")], {}).kind in ("unclear", "quiet")
    last = [AIMessage("a"), HumanMessage("explain it" + " in one" * 55 + " zz zz")]
    assert asked.judge(last, {}).kind == "unclear"


@pytest.mark.parametrize(
    "prompt", ["天气怎么样？", "请给我的老板发一封关于明天会议的邮件", "東京の天気は？"]
)
def test_a_new_topic_without_blanks_is_no_continuation(prompt: str) -> None:
    """In a script without blanks a whole sentence is one word by its blanks."""
    asked, _ = router(TOOLS)
    said = [HumanMessage("git log"), AIMessage("Three commits."), HumanMessage(prompt)]
    before = {"route": "git", "toolset": {"route": "all", "names": ["git_log"]}}

    assert asked.judge(said, before).kind == "unclear"
    assert asked.judge([*said[:2], HumanMessage("继续")], before).kind == "tools"


@pytest.mark.parametrize(
    ("answer", "prompt"),
    [
        ("I can cancel order A1077. Please confirm.", "sounds good"),
        ("If you confirm, I will cancel order A1077.", "perfect"),
        ("Shall I cancel it?\n\n- order A1077\n- 40 EUR", "great"),
        ("Bitte bestätigen.", "super danke"),
        ('Say "yes" and I will book it.', "sounds good, thanks"),
        ("Tell me when to start.", "all right"),
        ("确认后我会取消订单。", "好的"),
    ],
)
def test_a_yes_is_no_small_talk(answer: str, prompt: str) -> None:
    """What was offered is done with the tools of the turn before."""
    asked, _ = router(TOOLS)
    said = [HumanMessage("cancel my order"), AIMessage(answer), HumanMessage(prompt)]

    assert asked.judge(said, {"route": "git"}).kind != "quiet"


def test_praise_is_small_talk_of_which_a_call_may_follow() -> None:
    """Nothing was offered, as far as can be seen; thanks are thanks."""
    asked, _ = router(TOOLS)
    said = [HumanMessage("git log"), AIMessage("Three commits.")]
    verdicts = [asked.judge([*said, HumanMessage(p)], {}) for p in ("great", "thank you, bye")]

    assert [(v.kind, v.quiet) for v in verdicts] == [("quiet", "likely"), ("quiet", "sure")]


# -- routes ---------------------------------------------------------------------------------------


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


# -- modes ----------------------------------------------------------------------------------------

UNCLEAR = "How warm is it in Rome?"


@pytest.mark.parametrize(
    ("mode", "many_tools", "fixed", "content", "current", "route", "asked"),
    [
        ("auto", False, "", '{"route": "git"}', "", ALL, 0),
        ("off", True, "", '{"route": "git"}', "", ALL, 0),
        ("words", True, "", '{"route": "git"}', "mail", "mail", 0),
        ("auto", True, "git", '{"route": "general"}', "", "git", 0),
        ("auto", True, "", '{"route": "weather"}', "", "weather", 1),
        ("auto", True, "", '{"route": "general"}', "mail", "general", 1),
        ("model", False, "", '{"route": "general"}', "", "general", 1),
        ("auto", True, "", '{"route": "nonsense"}', "mail", "mail", 1),
        ("auto", True, "", "no json", "mail", "mail", 1),
        ("auto", True, "", "[]", "", ALL, 1),
        ("auto", True, "", ModelUnreachable("down"), "mail", "mail", 1),
    ],
)
async def test_the_model_is_asked_only_where_it_must(
    mode: str,
    many_tools: bool,
    fixed: str,
    content: str | Exception,
    current: str,
    route: str,
    asked: int,
) -> None:
    """Not while all tools fit, nor where words are clear; what it cannot say leaves the route."""
    kit = tools() if many_tools else tools()[:6]
    under, model = router(kit, content=content, mode=mode, fixed=fixed)
    messages = [HumanMessage(UNCLEAR)]
    choice = await under(messages, {"messages": messages, "route": current})

    assert (choice.route, len(model.asked)) == (route, asked)


async def test_the_question_is_short_and_has_the_exchange_before() -> None:
    """A long prompt is clipped; the exchange before it goes along; the names are an enum."""
    under, model = router(TOOLS, [GIT], content='{"route": "repo"}', mode="model")
    history = [HumanMessage("show the log"), AIMessage("It is empty."), HumanMessage("x" * 9000)]
    await under(history, {"messages": history})

    messages, options = model.asked[0]
    text = str(messages[-1].content)
    assert sum(len(str(m.content)) for m in messages) < 2400
    assert "show the log" in text
    assert "It is empty." in text
    schema = options["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["route"]["enum"] == ["repo", "general"]
    assert json.dumps(schema)


# -- by words -------------------------------------------------------------------------------------


async def test_words_are_enough_for_most_prompts() -> None:
    """At least four of five labelled prompts need no model call, and those are right."""
    asked, wrong = 0, []
    for labelled in PROMPTS:
        under, model = router(tools())
        values = state(labelled)
        choice = await under(values["messages"], values)
        asked += len(model.asked)
        if not model.asked and choice.route != labelled.route:
            wrong.append((labelled.prompt, choice.route))
    assert asked <= len(PROMPTS) / 5
    assert wrong == []


@pytest.mark.parametrize("labelled", PROMPTS, ids=lambda p: p.prompt[:30])
async def test_no_prompt_that_needs_a_tool_is_left_without(labelled: Labelled) -> None:
    """Words alone take only those prompts for small talk or general knowledge that are it."""
    under, _ = router(tools(), mode="words")
    values = state(labelled)
    choice = await under(values["messages"], values)

    if labelled.route != GENERAL:
        assert choice.quiet == ""
    if under.judge(values["messages"], values).kind == "tools":
        assert set(names(choice.toolset)) & set(under.shelf.routes.tools[labelled.route])


async def test_a_set_is_no_larger_than_asked_for() -> None:
    """With our own tools a set that was cut has at most `max_tools`, with `find_tools` in it."""
    for most in (1, 4, 8, 12, 20):
        for labelled in PROMPTS:
            under, _ = router(tools(), mode="words", most=most)
            values = state(labelled, {"route": GENERAL})
            choice = await under(values["messages"], values)
            if choice.quiet:
                continue
            assert 0 < len(names(choice.toolset)) <= places(most)
            assert FIND in choice.toolset["names"]


async def test_a_long_conversation_is_not_read_anew_for_a_question() -> None:
    """A server with one slot forgets it for another prompt: where tools are there, they stay."""
    messages = [
        HumanMessage("Show the last commits"),
        AIMessage("x" * 9000, additional_kwargs={"route": "git"}),
        HumanMessage("I wonder about the elephants of Africa"),
    ]
    under, model = router(tools(), content='{"route": "mail"}')
    toolset = {"route": ALL, "names": ["git_log", FIND]}
    kept = await under(messages, {"messages": messages, "route": "git", "toolset": toolset})
    fresh = await under(messages, {"messages": messages, "route": GENERAL})

    assert (kept.route, kept.toolset) == ("git", toolset)
    assert fresh.route == "mail"  # none is there yet: what comes in front is read anew in any case
    assert len(model.asked) == 1


# -- the set stays --------------------------------------------------------------------------------


async def played(under: Router, prompts: Sequence[str]) -> list[Mapping[str, Any]]:
    """The sets of a thread that gets these prompts; each turn calls the first tool that fits."""
    values: dict[str, Any] = {"messages": []}
    sets = []
    for n, prompt in enumerate(prompts):
        values["messages"] = [*values["messages"], HumanMessage(prompt, id=f"h{n}")]
        choice = await under(values["messages"], values)
        toolset = choice.toolset or {"route": choice.route}
        found = under.find(prompt)[1]
        calls = [{"name": name, "args": {}, "id": f"c{n}"} for name in found[:1]]
        route = {"route": choice.route}
        values["messages"] += [
            AIMessage("", tool_calls=calls, id=f"a{n}", additional_kwargs=route),
            AIMessage("Done.", id=f"b{n}", additional_kwargs=route),
        ]
        values |= {"route": choice.route, "toolset": toolset}
        sets.append(toolset)
    return sets


async def test_topics_that_alternate_cost_one_change() -> None:
    """What a new topic needs comes behind what is there, and then both stay."""
    under, _ = router(tools(), mode="words")
    git, rain = "Show the last commits", "What's the weather in Paris?"
    first, second, *others = await played(under, [git, rain, git, rain, "And in Rome?", git])

    assert second["names"][: len(first["names"])] == first["names"]
    assert all(toolset == second for toolset in others)


async def test_small_talk_leaves_the_set_as_it_is() -> None:
    """A turn without a tool changes nothing at the head of the prompt."""
    under, _ = router(tools(), mode="words")
    sets = await played(under, ["Show the last commits", "Thanks!", "Tell me a joke.", "Great."])

    assert all(toolset == sets[0] for toolset in sets)


async def test_what_was_used_stays_longest() -> None:
    """Where there is no room the tools leave that were not used for longest."""
    under, _ = router(tools(), mode="words")
    prompts = [
        "Show the last commits",
        "What is the state of order 4711?",
        "Archive the mail from the newsletter",
    ]
    *_, last = await played(under, prompts)

    assert {"get_order", "git_commit"} & set(last["names"])
    assert set(under.shelf.routes.tools["mail"]) <= set(last["names"])
    assert len(names(last)) == places(MOST)


async def test_a_large_route_keeps_its_set_until_another_tool_is_named() -> None:
    """Of a route with too many tools the words take the best, and the set is sticky."""
    under, _ = router(many(90), [RouteSpec("one", "everything", ("*",))], mode="words")
    sets = await played(
        under,
        ["Calculate 5 * 7", "Calculate 6 * 7", "hm, 8 and 9?", "Convert 5 miles to km"],
    )

    assert "calculate" in sets[0]["names"]
    assert sets[1] == sets[0]
    assert sets[2] == sets[0]
    assert "convert_units" in sets[3]["names"]
    assert len(names(sets[3])) <= places(MOST)


async def test_the_fixed_route_bounds_what_can_be_found() -> None:
    """/route NAME is that route's tools alone, all of them where they fit."""
    under, _ = router(tools(), fixed="mail")
    choice = await under([HumanMessage("What's the weather in Paris?")], {"messages": []})

    assert choice.toolset == {"route": "mail"}
    assert under.find("weather")[1] == []
    assert under.find("send a mail")[1][:1] == ["send_mail"]


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


async def test_a_call_of_the_model_counts_where_the_server_says_nothing_of_it() -> None:
    """The server read that prompt in place of the conversation: its tokens are estimated."""
    asking, model = router(tools(), content='{"route": "git"}', mode="model")
    choice = await asking([HumanMessage("What changed yesterday?")], {"messages": []})

    assert len(model.asked) == 1
    assert choice.usage is not None
    assert choice.usage["input_tokens"] > 100
