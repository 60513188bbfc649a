"""The files of cases: how they are read, what is wrong with them, and the shipped set."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from local_agent.errors import ConfigError
from local_agent.evaluation.cases import CATEGORIES, Case, read_cases, sample
from local_agent.evaluation.world import check_world
from local_agent.evaluation.world_server import answer, load
from local_agent.routing.manner import plain
from local_agent.routing.question import INSTRUCTION

ROOT = Path(__file__).resolve().parent.parent
EVALS = sorted((ROOT / "evals").glob("*.toml"))
WORLDS = sorted((ROOT / "evals" / "servers").glob("*.toml"))


def read(tmp_path: Path, text: str) -> list[Case]:
    """The cases of a file with this text."""
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return read_cases([path])


def test_a_case_of_one_prompt_and_one_of_several(tmp_path: Path) -> None:
    """What stands at the case holds for its turns; a turn may say otherwise."""
    one, two = read(
        tmp_path,
        """
        servers = ["servers/a.toml"]
        free_arguments = ["path"]
        [[case]]
        id = "one"
        category = "tool"
        prompt = "Delete it"
        approve = "not today"
        calls = [{ tool = "a/delete", args = { name = "x" } }]
        other_calls = [[]]
        [[case]]
        id = "two"
        category = "tool"
        turns = [{ prompt = "A" }, { prompt = "B", category = "follow_up", answer = ["b"] }]
        """,
    )
    (turn,) = one.turns
    assert (turn.approve, turn.reason, turn.needs_tool) == (False, "not today", False)
    assert [[call.tool for call in calls] for calls in turn.calls] == [["a/delete"], []]
    assert (one.topic, one.free, one.servers) == ("a", ("path",), (tmp_path / "servers/a.toml",))
    assert [(t.prompt, t.category, t.answer) for t in two.turns] == [
        ("A", "tool", ()),
        ("B", "follow_up", ("b",)),
    ]


CASE = '[[case]]\nid = "a"\ncategory = "tool"\nprompt = "p"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[case", "is not valid TOML"),
        ("", "There are no cases to run."),
        ("cases = []", "unknown key 'cases'"),
        ('servers = "a"', "servers must be a list"),
        ("case = [1]", "case must be tables"),
        ("[[case]]", "case 1 has no id"),
        (CASE + CASE, "Two cases have the id 'a'."),
        ('[[case]]\nid = "a"\nprompt = "p"', "case 'a' has no category"),
        ('[[case]]\nid = "a"\ncategory = "tool"', "has a turn without a prompt"),
        (CASE + "turns = []", "both prompt and turns"),
        (CASE + "aproove = true", "unknown key 'aproove'"),
        (CASE + "approve = 1", "approve must be true, false or the reason"),
        (CASE + "route = 1", "route must be a name"),
        (CASE + "calls = 1", "calls must be a list"),
        (CASE + "calls = [1]", "a call is written"),
        (CASE + 'calls = [{ tool = "a" }]', 'a tool is named "server/tool"'),
        (CASE + 'calls = [{ tool = "a/b", args = { c = { d = 1 } } }]', "the label of c must have"),
        (CASE + "other_calls = [1]", "other_calls must be a list of lists"),
        (CASE + "answer = [1]", "answer must be a list of texts"),
        (CASE + 'answer = [{ regex = "(" }]', "a label of answer has a regex that cannot be read"),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path: Path, text: str, said: str) -> None:
    """One line that names the file and the case; it is the user's configuration, exit 2."""
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, text)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
    assert raised.value.exit_code == 2


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """The file is named, with the reason."""
    with pytest.raises(ConfigError, match=r"none\.toml cannot be read: No such file"):
        read_cases([tmp_path / "none.toml"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('name = "a"', "is no server"),
        ('[[tool]]\nname = "b"', "is no server"),
        ('name = "a"\n[[tool]]', "without a name"),
        ('name = "a"\n[[tool]]\nname = "b"', "tool 'b' has no schema that is JSON"),
        ('name = "a"\n[[tool]]\nname = "b"\nschema = "[]"', "a schema that is no JSON object"),
        (
            'name = "a"\n[[tool]]\nname = "b"\nschema = "{}"\n[[tool.result]]\nwhen = 1',
            "when takes values",
        ),
    ],
)
def test_what_is_wrong_with_a_server(tmp_path: Path, text: str, said: str) -> None:
    """One line that names the file and the tool."""
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"^[^\n]*$") as raised:
        check_world(path)
    assert said in str(raised.value)


# -- the shipped set ------------------------------------------------------------------------------


def test_the_set_is_large_and_both_halves_have_each_category() -> None:
    """At least 120 prompts; the half of a case is fixed by its id."""
    cases = read_cases(EVALS)
    turns = [(case.half, turn.category) for case in cases for turn in case.turns]
    assert len(turns) >= 120
    counts = Counter(turns)
    assert {category for _, category in counts} == set(CATEGORIES)
    assert all(counts[half, name] >= 2 for half in ("tune", "held_out") for name in CATEGORIES)
    halves = Counter(half for half, _ in turns)
    assert 0.4 < halves["tune"] / len(turns) < 0.6


def test_the_half_of_a_case_never_changes() -> None:
    """Tuned on one half, reported on the other: these were fixed when the set was written."""
    halves = {case.id: case.half for case in read_cases(EVALS)}
    known = {"none-hello": "held_out", "time-tokyo": "tune", "shop-cancel": "held_out"}
    assert {case: halves[case] for case in known} == known


def test_a_sample_is_a_part_of_a_larger_one() -> None:
    """Chosen by the ids alone: the same each time, in the order of the whole."""
    cases = read_cases(EVALS)
    few, more = sample(cases, 20), sample(cases, 40)
    assert (len(few), len(more), len(sample(cases, 999))) == (20, 40, len(cases))
    assert [case for case in more if case in few] == few
    assert sample(list(reversed(cases)), 20) == list(reversed(few))


def test_the_tools_of_the_set_are_there() -> None:
    """Thirty tools over six servers; every labelled call is of one, with arguments it takes."""
    tools = {
        f"{world['name']}/{tool['name']}": tool["schema"]
        for world in map(load, map(str, WORLDS))
        for tool in world["tool"]
    }
    assert (len(WORLDS), len(tools)) == (6, 30)
    assert all(check_world(path) == path.stem for path in WORLDS)
    for case in read_cases(EVALS):
        assert set(case.servers) == set(WORLDS)
        for wanted in (w for turn in case.turns for calls in turn.calls for w in calls):
            schema = tools[wanted.tool]
            assert set(wanted.args) <= set(schema["properties"]), case.id
            assert set(schema["required"]) <= {*wanted.args, *case.free}, case.id


def test_every_tool_is_wanted_somewhere() -> None:
    """No tool stands there only to be in the way."""
    wanted = {
        call.tool
        for case in read_cases(EVALS)
        for turn in case.turns
        for calls in turn.calls
        for call in calls
    }
    assert len(wanted) == 30


def test_no_labelled_prompt_is_an_example_for_the_router() -> None:
    """A model that was shown the prompt with its route would be graded on its memory."""
    examples = {plain(example) for example in re.findall(r'"([^"]+)"', INSTRUCTION)}
    prompts = {plain(turn.prompt) for case in read_cases(EVALS) for turn in case.turns}
    assert len(examples) >= 5
    assert not examples & prompts


# -- the synthetic servers ------------------------------------------------------------------------


def test_a_result_is_chosen_by_the_arguments(tmp_path: Path) -> None:
    """The first that fits, with arguments filled in; else the tool's own; errors as such."""
    path = tmp_path / "w.toml"
    path.write_text(
        """
        name = "w"
        [[tool]]
        name = "find"
        read = true
        schema = '''
        {"properties": {"q": {"type": "string"}, "n": {"type": "integer"}}, "required": ["q"]}
        '''
        text = "nothing for {q}"
        [[tool.result]]
        when = { q = { contains = "tea" }, n = 2 }
        text = "two teas"
        [[tool.result]]
        when = { q = "bad" }
        error = "no {q}"
        """
    )
    world = load(str(path))

    def call(**args: object) -> tuple[str, bool]:
        result = answer(world, "tools/call", {"name": "find", "arguments": args})
        assert result is not None
        return result["content"][0]["text"], result["isError"]

    assert call(q="green TEA", n=2) == ("two teas", False)
    assert call(q="green tea") == ("nothing for green tea", False)
    assert call(q="Bad") == ("no Bad", True)
    assert call(q="x", n=True) == ("Input validation error: True is not of type 'integer'", True)
    assert call() == ("Input validation error: 'q' is a required property", True)
    assert answer(world, "tools/call", {"name": "other"}) is None
