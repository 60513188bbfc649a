"""Facts that a summary lost are kept: found by rule, weighed by who said them, within a limit."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from agent_core.facts import Fact, facts_of, is_said, normal
from agent_core.kept_facts import surviving


def said(text: str) -> set[tuple[str, str]]:
    """(kind, text) of the facts in a prompt that was answered, but for whole sentences."""
    facts = facts_of([HumanMessage(text), AIMessage("ok")])
    return {(f.kind, f.text) for f in facts if f.kind not in ("decision", "open")}


def result(text: str, handle: str = "r7") -> ToolMessage:
    return ToolMessage(text, tool_call_id="c", additional_kwargs={"handle": handle})


def lines(*messages: AnyMessage, summary: str = "", limit: int = 2000) -> list[str]:
    return surviving(messages, [], summary, limit)


@pytest.mark.parametrize(
    ("sentence", "kind", "text"),
    [
        ("The order is A-4711 now.", "identifier", "A-4711"),
        ("Invoice RE-2024-0815 is paid.", "identifier", "RE-2024-0815"),
        ("see ticket #4321 please", "identifier", "#4321"),
        ("at commit 3f9a2bc1 it broke", "identifier", "3f9a2bc1"),
        ("it is 550e8400-e29b-41d4-a716-446655440000", "identifier", None),
        ("look into /home/jo/shop/config.toml, please", "identifier", "/home/jo/shop/config.toml"),
        (r"look into C:\Users\jo\notes.txt", "identifier", r"C:\Users\jo\notes.txt"),
        ("the test is in tests/test_clip.py.", "identifier", "tests/test_clip.py"),
        ("the function `build_view` and max_tokens", "identifier", "build_view"),
        ("the function build_view and max_tokens", "identifier", "max_tokens"),
        ("version 2.4.1 is out", "identifier", "2.4.1"),
        ("Ruf an: +49 40 123456", "identifier", "+49 40 123456"),
        ("it costs $1,250.50 in all", "amount", "$1,250.50"),
        ("es kostet 1.250,50 € im Jahr", "amount", "1.250,50 €"),
        ("费用是3000元。", "amount", "3000元"),
        ("订单号A-4711已付", "identifier", "A-4711"),
        ("发到anna@example.org就行", "address", "anna@example.org"),
        ("it needs 16 GB and 250 ms", "amount", "16 GB"),
        ("it needs 16 GB and 250 ms", "amount", "250 ms"),
        ("the code is 4711", "amount", "4711"),
        ("we meet on 2025-03-14T10:30:00Z", "date", "2025-03-14T10:30:00Z"),
        ("we meet on 14 March 2025", "date", "14 March 2025"),
        ("we meet on March 14th, 2025", "date", "March 14th, 2025"),
        ("wir treffen uns am 3. März 2025 um 9", "date", "3. März 2025"),
        ("am 14.03.2025 um 17:30 Uhr", "date", "14.03.2025"),
        ("am 14.03.2025 um 17:30 Uhr", "date", "17:30 Uhr"),
        ("会议在2025年3月14日举行", "date", "2025年3月14日"),
        ("next Friday at 5 pm", "date", "next Friday"),
        ("mail to anna.b@example.org.", "address", "anna.b@example.org"),
        ("see https://example.org/a/b?c=1.", "address", "https://example.org/a/b?c=1"),
        ("the host is 10.0.0.12:5432", "address", "10.0.0.12:5432"),
        ("Bahnhofstraße 12, 20095 Hamburg", "address", "Bahnhofstraße 12, 20095 Hamburg"),
        ("at 221 Baker Street", "address", "221 Baker Street"),
        ("I met Anna Schmidt there", "name", "Anna Schmidt"),
        ("I met Jean-Luc de la Cruz there", "name", "Jean-Luc de la Cruz"),
        ("I met Clara in Lisbon", "name", "Clara"),
        ("I met Clara in Lisbon", "name", "Lisbon"),
        ("Das zahlt Frau Dr. Meier", "name", "Frau Dr. Meier"),
        ("the boat's name is Heron", "name", "Heron"),
        ('the project "Blue Heron" starts', "name", "Blue Heron"),
        ("das Projekt „Blauer Reiher“ beginnt", "name", "Blauer Reiher"),
        ("名前は「青鷺」です", "name", "青鷺"),
    ],
)
def test_each_kind(sentence: str, kind: str, text: str | None) -> None:
    """What was written, to the letter: without the full stop behind it or the quotation marks."""
    found = said(sentence)
    assert text is None or (kind, text) in found
    assert kind in {k for k, _ in found}


def test_german_nouns_are_no_names() -> None:
    assert said("Bitte prüfe die Tabelle mit den Preisen für das Lager und den Versand.") == set()


def test_plain_talk_has_no_facts() -> None:
    assert said("Thanks a lot, that was helpful! Can you do it once more?") == set()


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        *(
            ("We decided to use Postgres.", "decision"),
            ("Let's go with the first one.", "decision"),
        ),
        *(("Remember that I am vegetarian.", "decision"), ("Always answer in French.", "decision")),
        *(("My daughter is five years old.", "decision"), ("Never touch the tests.", "decision")),
        *(
            ("Wir haben beschlossen, zu warten.", "decision"),
            ("Merk dir: kein Fleisch.", "decision"),
        ),
        *(("Antworte immer auf Deutsch.", "decision"), ("我们决定用数据库。", "decision")),
        *(("It is still open who pays.", "open"), ("TODO: write the tests.", "open")),
        *(("Wer zahlt, ist noch offen.", "open"), ("We will do the rest later.", "open")),
    ],
)
def test_sentences_that_decide_or_leave_open(sentence: str, kind: str) -> None:
    facts = facts_of([HumanMessage(sentence), AIMessage("ok")])
    assert (facts[0].kind, facts[0].text) == (kind, sentence)


def test_what_the_model_wants_is_no_decision() -> None:
    """ "I want" and "always" count of the user; of an answer, what was agreed."""
    assert facts_of([AIMessage("I always want to help you.")]) == []
    assert facts_of([AIMessage("We agreed on plan B.")])[0].kind == "decision"


def test_a_prompt_without_an_answer_is_open() -> None:
    talk = [
        HumanMessage("How many are there?"),
        AIMessage("", additional_kwargs={"status": "error", "error": "no"}),
        HumanMessage("And now?"),
        AIMessage("Three."),
    ]
    assert [(f.kind, f.line) for f in facts_of(talk)] == [
        ("open", "User: How many are there? (not answered)")
    ]


def test_a_fact_is_understood_alone() -> None:
    """Its context are the words before it, or the key; its line is what is kept."""
    facts = facts_of([HumanMessage("The budget of the garden is 1,250 EUR."), AIMessage("ok")])
    budget = next(f for f in facts if f.kind == "amount")
    assert budget.context == "The budget of the garden is"
    assert budget.line == "User: The budget of the garden is 1,250 EUR."
    order = facts_of([result(json.dumps({"order_id": 4711, "note": "", "due": "2025-03-14"}))])
    assert [(f.context, f.text) for f in order] == [("order_id", "4711"), ("due", "2025-03-14")]
    assert {f.line for f in order} == {"r7: order_id: 4711, due: 2025-03-14"}


def test_prompts_come_before_answers_before_results() -> None:
    talk = [
        result("host db-1.example.org at 10.0.0.1"),
        AIMessage("It is A-2."),
        HumanMessage("A-1"),
    ]
    assert [f.source for f in facts_of([*talk, AIMessage("ok")])] == ["user", "answer", "result"]


def test_a_fact_is_there_once() -> None:
    talk = [HumanMessage("Order A-4711!"), AIMessage("Order A-4711 is open."), result("id=A-4711")]
    assert [f.text for f in facts_of(talk) if f.kind == "identifier"] == ["A-4711"]


# -- what survives --------------------------------------------------------------------------------


def test_what_the_summary_says_is_not_kept() -> None:
    talk = (HumanMessage("Order A-4711 is for Anna Schmidt, 1,250 EUR."), AIMessage("ok"))
    assert lines(*talk, summary="Anna Schmidt's order a-4711 over 1250 EUR") == []
    assert lines(*talk, summary="An order of Anna Schmidt.") == [
        "User: Order A-4711 is for Anna Schmidt, 1,250 EUR."
    ]


def test_a_number_within_another_is_not_said() -> None:
    assert not is_said("4711", normal("the code is 147115"))
    assert is_said("1,250", normal("it costs 1.250 EUR"))
    assert not is_said("2025-03-14", normal("on 2025-03-15"))


def test_a_decision_in_other_words_is_said_if_most_words_are() -> None:
    decided = "We decided to use Postgres for the orders database."
    assert is_said(decided, normal("They decided that the orders database will use Postgres."))
    assert not is_said(decided, normal("They decided on a database."))


def test_the_users_words_come_first() -> None:
    talk = (
        result('{"id": "X-1", "name": "Shelf"}'),
        AIMessage("The table costs 149.90 EUR. It is still open who delivers it."),
        HumanMessage("Book it for 3 May. We agreed on two chairs. Always answer in French."),
        AIMessage("ok"),
    )
    assert lines(*talk) == [
        "User: Always answer in French.",
        "User: We agreed on two chairs.",
        "User: Book it for 3 May.",
        "It is still open who delivers it.",
        "The table costs 149.90 EUR.",
        "r7: id: X-1, name: Shelf",
    ]


def test_the_limit_holds_and_results_go_first() -> None:
    talk = [
        HumanMessage("The code is 4711."),
        AIMessage("ok"),
        *[result(f"id=X-{n}") for n in range(50)],
    ]
    kept = lines(*talk, limit=60)
    assert kept[0] == "User: The code is 4711."
    assert sum(len(line) + 1 for line in kept) <= 60


def test_many_decisions_leave_room_for_facts() -> None:
    talk: list[AnyMessage] = []
    for n in range(60):
        talk += [HumanMessage(f"We agreed on plan number {n:02}."), AIMessage("ok")]
    talk += [HumanMessage("The code is 4711."), AIMessage("ok")]
    kept = lines(*talk, limit=600)
    assert "User: The code is 4711." in kept
    assert kept[-2] == "User: We agreed on plan number 59."


def test_an_earlier_list_lives_on() -> None:
    """What it says stays, in its order, until the summary says it or there is no more room."""
    first = lines(HumanMessage("The code is 4711. My name is Jo."), AIMessage("ok"))
    assert first == ["User: My name is Jo.", "User: The code is 4711."]
    talk = [HumanMessage("The room is B-12."), AIMessage("ok")]
    assert surviving(talk, first, "", 500) == [*first, "User: The room is B-12."]
    assert surviving(talk, first, "The user is called Jo: my name is Jo.", 500) == [
        "User: The code is 4711.",
        "User: The room is B-12.",
    ]
    assert surviving([], first, "The code 4711 belongs to Jo.", 500) == ["User: My name is Jo."]


def test_a_line_is_kept_once() -> None:
    talk = [
        HumanMessage("The code is 4711."),
        AIMessage("The code is 4711."),
        HumanMessage("4711?"),
    ]
    assert surviving([*talk, AIMessage("yes")], ["User: The code is 4711."], "", 500) == [
        "User: The code is 4711."
    ]


def test_a_long_sentence_is_cut_to_its_facts() -> None:
    text = f"{'Well, ' * 40}the code is 4711 {'and so on ' * 40}and it ends on 2025-03-14."
    kept = lines(HumanMessage(text), AIMessage("ok"))
    assert len(kept) == 2
    assert kept[0].endswith("the code is 4711")
    assert kept[1].endswith("it ends on 2025-03-14")
    assert all(len(line) <= 160 for line in kept)


def test_a_result_gives_no_more_than_some_lines() -> None:
    """The rest of it is there by its handle."""
    rows = json.dumps([{"id": n, "name": f"Shelf {n}"} for n in range(500)])
    kept = lines(result(rows), limit=10_000)
    assert len(kept) == 12
    assert kept[0] == "r7: id: 0, name: Shelf 0"


PLANTED = [
    *(("identifier", "The locker is number L-{n}77."), ("amount", "The fee for it is {n}.50 EUR.")),
    *(("date", "The visit is on {n} May 2026."), ("address", "Write to desk{n}@example.org.")),
    *(("name", "The guide is called Person{n} Miller."), ("decision", "We agreed on plan {n}.")),
]


@pytest.mark.parametrize("who", [HumanMessage, AIMessage])
@pytest.mark.parametrize(("kind", "sentence"), PLANTED)
def test_planted_facts_survive_rubbish(kind: str, sentence: str, who: type[AnyMessage]) -> None:
    """Whatever the summary says, a fact of each kind among much talk is in the list."""
    talk: list[AnyMessage] = []
    for n in range(1, 21):
        talk += [
            HumanMessage("And what else is there to see?"),
            AIMessage("Some more of it. " * 20),
        ]
        if n == 7:
            talk += [who(sentence.format(n=n))]
    fact = sentence.format(n=7)
    assert any(fact.rstrip(".") in line for line in lines(*talk, summary="Lorem ipsum.", limit=800))


# -- every text -----------------------------------------------------------------------------------

TEXTS = st.lists(
    st.one_of(
        st.text(max_size=30),
        st.sampled_from(
            [
                *(
                    "A-4711 ",
                    "the code is ",
                    ". ",
                    "\n",
                    "3. Mai ",
                    "1.250,50 € ",
                    "a@b.org ",
                    "/a/b.py ",
                ),
                *(
                    "Always ",
                    "noch offen ",
                    '"id": "x", ',
                    '"',
                    "「",
                    "」",
                    "2025-03-14 ",
                    "Anna Schmidt ",
                ),
                *("10.0.0.1", "#12 ", "```", "| 1 | 2 |", "\ud800", "会议在2025年3月14日。", "🇩🇪"),
            ]
        ),
    ),
    max_size=30,
).map("".join)
MESSAGES = st.lists(
    st.one_of(
        TEXTS.map(HumanMessage),
        TEXTS.map(AIMessage),
        TEXTS.map(result),
        TEXTS.map(SystemMessage),
    ),
    max_size=6,
)


@settings(max_examples=200, deadline=None)
@given(MESSAGES, st.lists(TEXTS, max_size=4), TEXTS, st.integers(-10, 600))
def test_any_messages(
    messages: list[AnyMessage], previous: list[str], summary: str, limit: int
) -> None:
    """The limit holds, nothing raises, no line is there twice, and the same comes out again."""
    kept = surviving(messages, previous, summary, limit)
    assert sum(len(line) + 1 for line in kept) <= max(limit, 0)
    assert len(set(kept)) == len(kept)
    assert kept == surviving(messages, previous, summary, limit)
    assert all("\n" not in line for line in kept if line not in previous)


@settings(max_examples=200, deadline=None)
@given(MESSAGES)
def test_any_facts(messages: list[AnyMessage]) -> None:
    """Each is once there, is written in its message, and ranks by who said it."""
    facts = facts_of(messages)
    texts = " ".join("".join(str(m.content).split()) for m in messages)
    order = ["user", "answer", "result"]
    assert [f.source for f in facts] == sorted((f.source for f in facts), key=order.index)
    for fact in facts:
        assert isinstance(fact, Fact)
        assert "".join(fact.text.rstrip("…").split()) in texts
        assert len(fact.line) <= 200


@settings(max_examples=100, deadline=None)
@given(MESSAGES)
def test_a_summary_that_has_it_all_leaves_nothing(messages: list[AnyMessage]) -> None:
    """The facts' own lines as the summary: none is missing from it."""
    summary = "\n".join(f"{fact.context} {fact.text}" for fact in facts_of(messages))
    left = surviving(messages, [], summary, 10_000)
    assert all(not is_said(line, normal(summary)) for line in left)
