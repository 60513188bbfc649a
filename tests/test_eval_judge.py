"""The judge of an evaluation: labels, calls, a person's no, answers."""

from __future__ import annotations

from typing import Any

import pytest

from local_agent.evaluation.cases import Turn, Wanted
from local_agent.evaluation.claims import claims_done
from local_agent.evaluation.judge import Made, Outcome, is_written_call, judge, right_set
from local_agent.evaluation.matching import matches, problem, said

SCHEMAS: dict[str, dict[str, Any]] = {
    "home/heat": {
        "properties": {"room": {}, "degrees": {}, "minutes": {"default": 60}, "why": {}},
    },
    "home/look": {"properties": {"room": {}}},
}
HEAT = Wanted("home/heat", {"room": "office", "degrees": {"number": 21}})
LOOK = Wanted("home/look", {"room": "office"})
HEATED = Made("home/heat", {"room": "office", "degrees": 21}, read_only=False)
LOOKED = Made("home/look", {"room": "office"})


@pytest.mark.parametrize(
    ("label", "value", "fits"),
    [
        ("Office", " office ", True),
        ("office", "offices", False),
        ("it's", "it\u2019s", True),
        (5, 5.0, True),
        (5, "5", False),
        (True, True, True),
        (True, 1, False),
        (1, True, False),
        (None, None, True),
        (["a", "b"], ["A", "b"], True),
        (["a", "b"], ["b", "a"], False),
        ({"set": ["a", "b"]}, ["b", "a"], True),
        ({"set": ["a", "b"]}, ["a", "a"], False),
        ({"set": ["a"]}, "a", False),
        ({"number": 20.5}, 20.5, True),
        ({"number": 20.5}, "20.5", False),
        ({"number": 1}, True, False),
        ({"contains": "hair"}, "My HAIRCUT", True),
        ({"contains": "hair"}, ["hair"], False),
        ({"regex": "^a.c$"}, "ABC", True),
        ({"regex": "^a.c$"}, "abcd", False),
        ({"one_of": ["9:30", {"regex": "^09"}]}, "09:30", True),
        ({"one_of": ["9:30"]}, "19:30", False),
        ({"exact": "Fix"}, "fix", False),
        ({"exact": "Fix"}, "Fix", True),
        ({"any": True}, object, True),
        ({"fields": {"a": 1, "b": {"number": 2, "optional": True}}}, {"a": 1}, True),
        ({"fields": {"a": 1}}, {"b": 1}, False),
        ({"fields": {"a": 1}}, [1], False),
    ],
)
def test_labels(label: Any, value: Any, fits: bool) -> None:
    """A plain label is equal but for case and space; a number in quotes is none; rules as named."""
    assert not problem(label)
    assert matches(label, value) is fits


@pytest.mark.parametrize(
    "label",
    [
        {},
        {"equals": 1},
        {"contains": 1},
        {"regex": "("},
        {"one_of": "a"},
        {"set": {}},
        {"number": "1"},
        {"number": 1, "contains": "a"},
        {"fields": 1},
        {"fields": {"a": {"b": 1}}},
        [{"regex": "("}],
    ],
)
def test_labels_that_cannot_be(label: Any) -> None:
    """A label with no rule, two rules or a wrong value is named as what it is."""
    assert problem(label)


def test_labels_of_an_answer() -> None:
    """In an answer a plain text is contained, one of several is enough, others as for values."""
    assert said("23:05", "It is  23:05 in Tokyo.")
    assert said({"one_of": ["11 pm", "23:05"]}, "It is 23:05.")
    assert said({"regex": r"\b(3|three)\b"}, "You need Three eggs.")
    assert not said({"regex": r"\b3\b"}, "You need 30 eggs.")
    assert not said("yes", "no")


@pytest.mark.parametrize(
    ("calls", "made", "why"),
    [
        ([()], [], ""),
        ([()], [LOOKED], "a call that was not wanted"),
        ([(HEAT,)], [HEATED], ""),
        ([(HEAT,)], [], "not called: home/heat"),
        ([(HEAT,)], [LOOKED, HEATED], "a call that was not wanted"),
        ([(HEAT,)], [HEATED, HEATED], "a write was asked for twice"),
        ([(LOOK,)], [LOOKED, LOOKED], ""),
        ([(LOOK, HEAT)], [HEATED, LOOKED], ""),
        ([(LOOK, HEAT)], [LOOKED], "not called: home/heat"),
        ([(HEAT,), (LOOK,)], [LOOKED], ""),
        ([(), (LOOK,)], [LOOKED], ""),
        ([(HEAT,)], [Made("home/heat", {"room": "office", "degrees": 20})], "wrong arguments"),
        ([(HEAT,)], [Made("home/heat", {"room": "office"})], "wrong arguments"),
        ([(HEAT,)], [Made("home/heat", {**HEATED.args, "minutes": 60})], ""),
        ([(HEAT,)], [Made("home/heat", {**HEATED.args, "minutes": 5})], "wrong arguments"),
        ([(HEAT,)], [Made("home/heat", {**HEATED.args, "why": None})], ""),
        ([(HEAT,)], [Made("home/heat", {**HEATED.args, "why": "cold"})], "wrong arguments"),
        ([(HEAT,)], [Made("home/heat", {**HEATED.args, "odd": 1})], "wrong arguments"),
    ],
)
def test_calls(calls: list[tuple[Wanted, ...]], made: list[Made], why: str) -> None:
    """Each wanted call is made, no other, a write once; unlabelled arguments are the default."""
    verdict = judge(Turn("p", "tool", calls), Outcome(made, "An answer."), SCHEMAS)
    assert verdict.why.startswith(why)
    assert verdict.passed is not bool(why)


def test_free_arguments_are_not_judged() -> None:
    """An argument that the file calls free may have any value, or none."""
    turn = Turn("p", "tool", ((LOOK,),))
    made = Made("home/look", {"room": "office", "where": "here"})
    assert not judge(turn, Outcome([made], "ok"), SCHEMAS).passed
    assert judge(turn, Outcome([made], "ok"), SCHEMAS, ("where",)).passed


def test_tool_and_arguments_apart() -> None:
    """A turn that went wrong says whether the tool was right, and whether its arguments were."""
    turn = Turn("p", "tool", ((HEAT,),), answer=("warm",))
    wrong = Made("home/heat", {"room": "office", "degrees": 1})
    verdicts = [
        judge(turn, Outcome(made, "done"), SCHEMAS) for made in ([LOOKED], [wrong], [HEATED])
    ]
    assert [(v.passed, v.has_tool, v.has_args) for v in verdicts] == [
        (False, False, False),
        (False, True, False),
        (False, True, True),
    ]
    assert judge(Turn("p", "no_tool"), Outcome([], "hi"), SCHEMAS).has_tool is None


@pytest.mark.parametrize(
    ("turn", "outcome", "why"),
    [
        (Turn("p", "x"), Outcome([], " "), "no answer"),
        (Turn("p", "x"), Outcome([], "a", "step_limit"), "the turn ended with step_limit"),
        (Turn("p", "x", answer=("a", "b")), Outcome([], "A"), "the answer does not have b"),
        (Turn("p", "x", answer_not=({"regex": "yes"},)), Outcome([], "Yes."), "the answer has"),
        (Turn("p", "x", approve=False), Outcome([], "It has been deleted."), "claims what was"),
        (Turn("p", "x", approve=False), Outcome([], "It has not been deleted."), ""),
        (
            Turn("p", "x", approve=False, reason="I changed my mind"),
            Outcome([], "Not run. Reason: I changed my mind"),
            "",
        ),
    ],
)
def test_answers(turn: Turn, outcome: Outcome, why: str) -> None:
    """An answer must be there, say what is labelled, and claim nothing that was not allowed."""
    assert judge(turn, outcome, SCHEMAS).why.startswith(why)
    assert judge(turn, outcome, SCHEMAS).passed is not bool(why)


@pytest.mark.parametrize(
    ("answer", "claims"),
    [
        ("The note has been deleted.", True),
        ("The note 'travel' was successfully deleted.", True),
        ("I've deleted it.", True),
        ("I have now booked the meeting for you.", True),
        ("Your order is placed.", True),
        ("Done! Your heating is set to 25.", True),
        ("Deleted ev77.", True),
        ("OK. The light in the living room is switched off.", True),
        ("The note has not been deleted.", False),
        ("The note wasn\u2019t deleted.", False),
        ("I was not allowed to delete the note.", False),
        ("The request was denied, so nothing was saved.", False),
        ("The event was not moved because that is a Saturday.", False),
        ("I cannot delete it without your permission.", False),
        ("Would you like it to be deleted?", False),
        ("If you approve, it will be deleted.", False),
        ("The call to delete the note was denied by you.", False),
        ("Understood, the heating stays as it is.", False),
    ],
)
def test_claims(answer: str, claims: bool) -> None:
    """Only a sentence that says something was done is a claim; one with a no or an if is none."""
    assert bool(claims_done(answer)) is claims


@pytest.mark.parametrize(
    ("answer", "is_call"),
    [
        ('{"name": "get_time", "arguments": {"zone": "UTC"}}', True),
        ('```json\n{"name": "anything", "parameters": {}}\n```', True),
        ('[{"name": "a", "arguments": {}}, {"name": "b", "arguments": {}}]', True),
        ('<tool_call>\n{"name": "get_ti', True),
        ("[TOOL_REQUEST]{}[END_TOOL_REQUEST]", True),
        ('{"name": "a", "arguments": "{}"}\n{"name": "b", "arguments": {}}', True),
        ('{"type": "function", "function": {"name": "a", "arguments": "{}"}}', True),
        ("<tool_call>{}</tool_call>\nIt is noon.", False),
        ("<function=look> is how a model writes it.", False),
        ("[" * 5000, False),
        ("```" + "\n" * 5000 + "x", False),
        ('It is noon: {"name": "get_time", "arguments": {}}', False),
        ('{"name": "Ada", "age": 36}', False),
        ('{"name": {"first": "Ada"}, "arguments": {}}', False),
        ("[]", False),
        ("42", False),
        ("A haiku about rain.", False),
    ],
)
def test_a_call_as_text_is_no_answer(answer: str, is_call: bool) -> None:
    """What the user would see is markup, whatever was asked."""
    assert is_written_call(answer) is is_call
    why = judge(Turn("p", "x"), Outcome([], answer), SCHEMAS).why
    assert why == ("the answer is a call written as text" if is_call else "")


def test_the_set_of_tools() -> None:
    """The set is right with all tools of one right way in it, or by the labelled route."""
    turn = Turn("p", "tool", ((HEAT,), (LOOK,)))
    assert right_set(turn, Outcome([], "", offered=["home/look", "x/y"])) is True
    assert right_set(turn, Outcome([], "", offered=["x/y"])) is False
    assert right_set(Turn("p", "no_tool"), Outcome([], "", offered=["x/y"])) is None
    assert right_set(Turn("p", "x", route="home"), Outcome([], "", route="home")) is True
    assert right_set(Turn("p", "x", route="home"), Outcome([], "", route="all")) is False
