"""Names of tools as the model sees them."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from local_agent.config import ServerSpec
from local_agent.mcp_client.names import assign_names, safe_name
from tests.servers.mcp_kit import opened, stdio_spec, tool

SAFE = re.compile(r"[a-z0-9_]{1,64}")
ODD = ["db.query", "user/get", "read file", "l" * 80, "x" * 79 + "1", "x" * 79 + "2"]


async def test_odd_names_are_made_safe_and_stay_so(tmp_path: Path) -> None:
    """M01: safe, unique names that a restart does not change; the server gets the original."""
    spec = stdio_spec("a", {"pages": {"": {"tools": ODD}}})
    seen = []
    for _ in range(2):
        async with opened([spec], tmp_path) as servers:
            seen.append([tool.name for tool in servers.tools])
            answers = [await tool({}) for tool in servers.tools]

    assert seen[0] == seen[1]
    assert seen[0][:3] == ["db_query", "user_get", "read_file"]
    assert len(set(seen[0])) == len(ODD)
    assert all(SAFE.fullmatch(name) for name in seen[0])
    assert answers == [(f"a:{original}", "success") for original in ODD]


async def test_equal_names_on_two_servers(tmp_path: Path) -> None:
    """M02: both are there under their server's name, and each call goes to the right one."""
    page = {"pages": {"": {"tools": ["search", "only"]}}}
    other = {"pages": {"": {"tools": ["search", "search"]}}}
    async with opened([stdio_spec("work", page), stdio_spec("Home 1", other)], tmp_path) as servers:
        names = [(tool.name, tool.server) for tool in servers.tools]
        answers = [
            await tool(servers, "search", "work")({}),
            await tool(servers, "search", "Home 1")({}),
        ]

    assert names == [("work__search", "work"), ("only", "work"), ("home_1__search", "Home 1")]
    assert answers == [("work:search", "success"), ("Home 1:search", "success")]
    assert servers.warnings == ["Server Home 1 lists twice, kept once: search."]


async def test_a_server_that_is_down_does_not_change_names(tmp_path: Path) -> None:
    """M01, M02: a name that clashed last time keeps its form while the other server is down."""
    page = {"pages": {"": {"tools": ["search"]}}}
    async with opened([stdio_spec("work", page), stdio_spec("home", page)], tmp_path):
        pass
    down = ServerSpec("home", command="no-such-command")
    async with opened([stdio_spec("work", page), down], tmp_path) as servers:
        assert [tool.name for tool in servers.tools] == ["work__search"]
    async with opened([stdio_spec("work", page)], tmp_path) as servers:
        assert [tool.name for tool in servers.tools] == ["search"]  # no longer configured


def test_joined_names_do_not_collide() -> None:
    """M02: server a with b__c beside server a__b with c, both clashing elsewhere."""
    names = assign_names([("a", "b__c"), ("a__b", "c"), ("x", "c"), ("y", "b__c")])

    assert len(set(names.values())) == 4


def test_a_plain_name_is_kept_where_others_come_close() -> None:
    """A tool that is called exactly so keeps its name; one that was changed into it gives way."""
    names = assign_names([("a", "db_query"), ("a", "db.query"), ("a", "DB-Query")])

    assert names[("a", "db_query")] == "db_query"
    assert names[("a", "db.query")].startswith("db_query_")
    assert len(set(names.values())) == 3


def test_reserved_names_are_not_given() -> None:
    """A tool with the name of a built-in one gets its server's name."""
    assert assign_names([("a", "read_result")], ["read_result"]) == {
        ("a", "read_result"): "a__read_result"
    }


def test_names_of_other_scripts() -> None:
    """M01: names without a usable letter differ by their hash; accents are only dropped."""
    assert safe_name("naïve") == "naive"
    assert safe_name("读取") != safe_name("写入")
    assert SAFE.fullmatch(safe_name("读取"))


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "a__b", "B", "x" * 70]), st.text(min_size=1, max_size=90)),
        max_size=12,
    ),
    st.randoms(),
)
def test_names_are_safe_unique_and_independent_of_order(tools, random) -> None:  # type: ignore[no-untyped-def]
    """M01, M02: for any set of tools."""
    names = assign_names(tools)
    shuffled = list(tools)
    random.shuffle(shuffled)

    assert assign_names(shuffled) == names
    assert len(set(names.values())) == len(set(tools))
    assert all(SAFE.fullmatch(name) for name in names.values())


async def test_read_write_and_selection(tmp_path: Path) -> None:
    """The hint is overridden both ways; globs choose tools; one without a match is a warning."""
    hinted = {"inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
    tools = [{"name": "look", **hinted}, {"name": "peek", **hinted}, "make", "move", "drop"]
    spec = stdio_spec(
        "a",
        {"pages": {"": {"tools": tools}}},
        write=("pee*",),
        read=("make", "mkae"),
        disabled_tools=("drop",),
    )
    async with opened([spec], tmp_path) as servers:
        found = {tool.name: tool.read_only for tool in servers.tools}

    assert found == {"look": True, "peek": False, "make": True, "move": False}
    assert servers.warnings == ["Server a: read names mkae, but no tool is called so."]


async def test_a_tool_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    """One bad entry of a list costs a warning and not the other tools."""
    tools = ["good", {"name": "bad", "inputSchema": 3}]
    async with opened([stdio_spec("a", {"pages": {"": {"tools": tools}}})], tmp_path) as servers:
        assert [tool.name for tool in servers.tools] == ["good"]
        assert servers.warnings == ["Server a describes a tool that cannot be read: bad."]
