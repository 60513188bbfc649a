"""A tool result in fewer characters: what of it a person would want to see, whatever it is."""

from __future__ import annotations

import csv
import io
import json
import random
import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_clip import SHORTEST, clip_result
from agent_clip_html import text_of_html
from agent_clip_json import parse
from agent_clip_text import head_and_tail, place

LONGEST = 900_000  # characters, as in M22


def lines_of(text: str) -> list[str]:
    return text.split("\n")


def json_of(clip: str) -> object:
    """The value behind the line that says what it was."""
    note, _, value = clip.partition("\n")
    assert note.startswith("[JSON, ")
    return json.loads(value)


# -- every text -----------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        *("word ", "Satz. ", "\n", "\r\n", "\t", "  ", "|", ",", ";", "{", "}", "[", "]", '"', ":"),
        *(
            "<p>",
            "</p>",
            "<script>",
            "<!--",
            "&amp;",
            "&#99999999999;",
            "ERROR ",
            "Traceback (most",
        ),
        *(
            "\\",
            "\\u00e9",
            "\\ud83d\\ude00",
            "%C3%A9",
            "e\u0301",
            "👩‍👩‍👧",
            "🇩🇪",
            "\u200d",
            "각",
            "한국",
        ),
        *(
            "\x1b[31m",
            "\x1b]8;;u\x1b\\",
            "\x00",
            "\ufffd",
            "\ud800",
            "2025-01-01 10:00:00 INFO x\n",
        ),
        *("A" * 70, "iVBORw0KGgo" * 30, "deadbeef" * 40, "diff --git a/x b/x\n", "+++ b/x\n"),
        *("| a | b |\n", "|---|---|\n", "a,b,c\n", "commit 1\n", "def f():\n", '{"a": [1, 2]}\n'),
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(PIECES, st.text(max_size=20)), max_size=60), st.integers(-5, 600))
def test_no_clip_is_longer_than_asked_for(pieces: list[str], chars: int) -> None:
    """At most `chars` characters, the same each time, whole where it fits; nothing raises."""
    text = "".join(pieces)
    clip = clip_result(text, chars)
    assert len(clip) <= max(chars, 0)
    assert clip == clip_result(text, chars)
    if len(text) <= chars:
        assert clip == text


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, min_size=20, max_size=60), st.integers(SHORTEST, 400))
def test_a_clip_says_with_numbers_that_it_is_one(pieces: list[str], chars: int) -> None:
    """What is cut is said in a line in brackets with a number in it; colours may go unsaid."""
    text = "".join(pieces).replace("\x1b", "").replace("\r", "") * 5
    if len(text) > chars:
        assert re.search(r"\[[^\n]*\d[^\n]*\]|…", clip_result(text, chars))


@settings(max_examples=80, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=12), inner),
        max_leaves=40,
    ),
    st.integers(SHORTEST, 2000),
)
def test_clipped_json_is_json(value: object, chars: int) -> None:
    """Behind its note a clipped value can be parsed, or only its shape is told."""
    text = json.dumps({"value": value, "again": [value] * 20}, indent=1)
    clip = clip_result(text, chars)
    assert len(clip) <= chars
    if len(text) > chars and clip.startswith("[JSON") and "left out:" not in clip:
        assert isinstance(json_of(clip), dict)


@pytest.mark.parametrize(
    "unit",
    [
        "x",
        "word ",
        "<",
        "<p>",
        "\\",
        "e\u0301",
        "\u0301",
        "[",
        '{"a":',
        '"',
        "\n",
        "a,b\n",
        "\x1b[",
        "\r",
    ],
)
def test_one_huge_line_is_cut_at_both_ends(unit: str) -> None:
    """M22: 900,000 characters of anything come down to what was asked for."""
    text = (unit * LONGEST)[:LONGEST]
    for chars in (SHORTEST, 3000):
        assert len(clip_result(text, chars)) <= chars


def test_one_huge_line_keeps_start_and_end() -> None:
    """M22: start and end are there, and a line says how much is not."""
    clip = clip_result("begin " + "x" * LONGEST + " end", 1000)
    assert clip.startswith("begin xxx")
    assert clip.endswith("xxx end")
    assert re.search(r"\n\[… 89\d{4} of 900010 characters left out …\]\n", clip)


def test_below_eighty_characters_it_is_a_plain_cut() -> None:
    assert clip_result("abcdefghij" * 20, 25) == ("abcdefghij" * 3)[:25]
    assert clip_result("abc", 0) == ""
    assert clip_result("abc", -1) == ""


# -- where a cut may lie --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "whole",
    [
        *("e\u0301", "👩‍👩‍👧", "👍🏽", "🇩🇪", "각", "\r\n", "❤️", "नि"),
        *("\\n", "\\u00e9", "\\ud83d\\ude00", "\\U0001F600", "\\x41", "%C3", "&amp;", "&#8364;"),
    ],
)
def test_no_cut_within(whole: str) -> None:
    """Neither a grapheme nor an escape is cut in two, wherever the cut would fall."""
    text = f"abc{whole}def"
    for at in range(len(text) + 1):
        cut = place(text, at)
        assert cut <= at
        assert cut <= 3 or cut >= 3 + len(whole)


def test_an_escaped_backslash_is_no_escape() -> None:
    """In `\\\\n` the second backslash is the escaped one; a cut may lie before the n."""
    text = "ab\\\\ncd"
    assert [place(text, at) for at in range(len(text))] == [0, 1, 2, 2, 4, 5, 6]


def test_flags_are_cut_in_pairs() -> None:
    assert [place("🇩🇪🇫🇷", at) for at in range(5)] == [0, 0, 2, 2, 4]


@settings(deadline=None)
@given(st.text(alphabet="ab\u0301👩\u200d🏽🇩🇪\\u0041n\r\n \ud83d", max_size=80), st.integers(0, 80))
def test_a_piece_begins_and_ends_whole(text: str, at: int) -> None:
    """Nothing that joins the character before it stands first behind a cut."""
    cut = place(text, at)
    assert 0 <= cut <= max(at, 0)
    if 0 < cut < len(text):
        assert unicodedata.category(text[cut])[0] != "M"
        assert not (text[cut - 1] == "\r" and text[cut] == "\n")


def test_head_and_tail_end_at_lines() -> None:
    text = "\n".join(f"line {n} with some words" for n in range(1, 101))
    clip = head_and_tail(text, 300)
    first, note, last = re.split(r"\n(?=\[…)|(?<=…\])\n", clip)
    assert all(re.fullmatch(r"line \d+ with some words", line) for line in lines_of(first))
    assert all(re.fullmatch(r"line \d+ with some words", line) for line in lines_of(last))
    shown = len(lines_of(first)), len(lines_of(last))
    assert note.startswith(f"[… lines {shown[0] + 1}-{100 - shown[1]} of 100 left out, ")


def test_prose_ends_at_a_sentence_where_one_is_near() -> None:
    clip = head_and_tail("This is a sentence of words. " * 50, 400)
    assert clip.split("\n")[0].endswith("words.")


# -- JSON -----------------------------------------------------------------------------------------

ISSUES = [
    {
        "number": n,
        "title": f"Crash when opening file {n}",
        "state": "open" if n % 3 else "closed",
        "labels": ["bug", "ui"],
        "user": {"login": f"user{n}", "id": n},
        "body": "Steps to reproduce: open it and look. " * 20,
    }
    for n in range(1, 61)
]


def test_an_array_by_its_shape_first_and_last_rows_and_count() -> None:
    clip = clip_result(json.dumps(ISSUES), 2000)
    note = lines_of(clip)[0]
    assert "60 items {number, title, state, labels[], user{}, body}" in note
    assert "state: 40 open, 20 closed" in note
    rows = json_of(clip)
    assert isinstance(rows, list)
    assert rows[0]["number"] == 1
    assert rows[-1]["number"] == 60
    assert rows[0]["body"].startswith("Steps to reproduce")
    left_out = next(row for row in rows if isinstance(row, str))
    assert left_out == f"… {60 - len(rows) + 1} of 60 items left out …"


def test_an_object_keeps_its_keys_and_is_shortened_inside() -> None:
    value = {"id": 7, "total": 60, "next": None, "ok": True, "items": ISSUES, "note": "n" * 900}
    short = json_of(clip_result(json.dumps(value), 1500))
    assert isinstance(short, dict)
    assert list(short) == list(value)
    assert [short[key] for key in ("id", "total", "next", "ok")] == [7, 60, None, True]
    assert short["note"].startswith("nnn")
    assert re.search(r"…\(\+\d+\)$", short["note"])
    assert short["items"][0]["title"] == "Crash when opening file 1"


def test_an_object_of_like_objects_is_shown_like_an_array() -> None:
    value = {f"package{n}": {"version": f"1.{n}", "files": list(range(50))} for n in range(200)}
    short = json_of(clip_result(json.dumps(value), 1000))
    assert isinstance(short, dict)
    assert short["package0"]["version"] == "1.0"
    assert "of 200 keys left out: package" in short["…"]


def test_lines_of_json_are_rows() -> None:
    rows = [{"ts": n, "msg": f"message {n}"} for n in range(300)]
    short = json_of(clip_result("\n".join(map(json.dumps, rows)), 800))
    assert isinstance(short, list)
    assert (short[0], short[-1]) == (rows[0], rows[-1])


def test_several_values_behind_each_other_are_rows() -> None:
    """A server that sends each item as a block of its own gives indented JSON in a row."""
    text = "\n".join(json.dumps(issue, indent=2) for issue in ISSUES)
    assert parse(text) == ISSUES


@pytest.mark.parametrize(
    ("before", "behind"), [("Found 60 issues:\n", ""), ("Result:\n\n```json\n", "\n```\nDone.")]
)
def test_words_around_json_stay(before: str, behind: str) -> None:
    text = f"{before}{json.dumps(ISSUES, indent=2)}{behind}"
    clip = clip_result(text, 1500)
    assert clip.startswith(f"{before.rstrip()}\n[JSON, ")
    assert clip.endswith(behind.strip("\n"))
    assert "60 items {number, title" in clip


def test_deep_json_is_no_error() -> None:
    """Deeper than the stack, or only deep: some clip comes back."""
    for depth in (50, 500, 5000, 100_000):
        text = "[" * depth + "1" + "]" * depth + " " * 300
        assert len(clip_result(text, 100)) <= 100
    assert json_of(clip_result('{"a":' * 80 + '"' + "x" * 500 + '"' + "}" * 80, 500))


def test_half_a_surrogate_pair_stays_an_escape() -> None:
    """What is clipped can be sent: no lone surrogate comes out of JSON that has one escaped."""
    text = json.dumps({"a": "\ud800", "b": ["é" * 50] * 50})
    clip_result(text, 300).encode("utf-8")


# -- tables, records, diffs -----------------------------------------------------------------------


def orders(delimiter: str) -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    writer.writerow(["order", "customer", "city", "amount"])
    for n in range(400):
        writer.writerow([f"A-{n:04}", f"Customer {n}", "Köln", n * 1.5])
    return out.getvalue()


@pytest.mark.parametrize(("delimiter", "kind"), [(",", "CSV"), (";", "CSV"), ("\t", "TSV")])
def test_a_table_keeps_header_rows_and_count(delimiter: str, kind: str) -> None:
    lines = lines_of(clip_result(orders(delimiter), 700))
    assert lines[0].startswith(f"[{kind}, 400 rows, ")
    assert lines[1].split(delimiter) == ["order", "customer", "city", "amount"]
    assert lines[2].startswith("A-0000")
    assert lines[-1].startswith("A-0399")
    shown = sum(line.startswith("A-") for line in lines)
    assert f"[… {400 - shown} of 400 rows left out …]" in lines


def test_a_markdown_table() -> None:
    rows = "\n".join(f"| {n} | item {n} |" for n in range(300))
    lines = lines_of(clip_result(f"Found:\n\n| id | name |\n|---|---|\n{rows}", 600))
    assert lines[:5] == [lines[0], "Found:", "", "| id | name |", "|---|---|"]
    assert lines[5] == "| 0 | item 0 |"
    assert lines[-1] == "| 299 | item 299 |"


def test_fixed_columns() -> None:
    rows = "\n".join(f"package-{n:<20}  1.{n:<10}  all" for n in range(200))
    lines = lines_of(clip_result(f"Name                          Version       Arch\n{rows}", 600))
    assert lines[0].startswith("[table, 200 rows, ")
    assert lines[1].startswith("Name ")
    assert lines[-1].startswith("package-199")


def test_prose_with_commas_is_no_table() -> None:
    text = "One, two. Three, four, five. Six.\nSeven; eight. Nine, ten.\nNo sign here.\n" * 30
    assert "rows" not in clip_result(text, 300)


GIT_LOG = "\n".join(
    f"commit {n:040x}\nAuthor: Anna <a@example.org>\nDate:   Mon Mar 3 10:00:{n % 60:02} 2025\n\n"
    f"    Change number {n}\n"
    for n in range(120)
)


@pytest.mark.parametrize("head", ["", "Commit history:\n"])
def test_records_stay_whole(head: str) -> None:
    """`git log`: whole commits from the start, the last one, and how many there are."""
    clip = clip_result(head + GIT_LOG, 900)
    assert clip.startswith(f"[120 records, {len(lines_of(head + GIT_LOG)) - 1} lines, ")
    assert "Change number 0\n" in clip
    assert clip.rstrip().endswith("Change number 119")
    shown = clip.count("\ncommit ")
    assert f"[… {120 - shown} of 120 records left out …]" in clip


def test_a_diff_names_its_files_with_their_changes() -> None:
    files = [
        f"diff --git a/src/f{n}.py b/src/f{n}.py\nindex 1..2 100644\n--- a/src/f{n}.py\n"
        f"+++ b/src/f{n}.py\n"
        f"@@ -1,3 +1,{n} @@\n" + f"+added {n}\n" * (10 * n) + "-removed\n" * n
        for n in range(1, 7)
    ]
    lines = lines_of(clip_result("".join(files), 1500))
    assert lines[0].startswith("[diff, 6 files, +210 -21, ")
    assert lines[1:7] == [f"src/f{n}.py +{10 * n} -{n}" for n in range(1, 7)]
    assert "+added 1" in lines
    assert "+added 2" in lines


# -- logs -----------------------------------------------------------------------------------------

FAULT = """\
2025-03-14 10:07:24 ERROR [worker] request 444 failed
Traceback (most recent call last):
  File "/srv/app/main.py", line 88, in handle
    return run(x)
OperationalError: connection refused to db:5432"""


def log(count: int = 1500) -> list[str]:
    return [f"2025-03-14 10:00:{n % 60:02} INFO request {n} took {n % 90} ms" for n in range(count)]


def test_a_log_keeps_its_faults_and_drops_its_repeats() -> None:
    lines = log()
    lines[700:700] = FAULT.split("\n")
    lines.insert(300, "2025-03-14 10:05:00 WARNING disk is nearly full")
    clip = clip_result("\n".join(lines), 900)
    assert clip.startswith("[log, 1506 lines, 5 with errors, 1 with warnings, ")
    assert FAULT in clip
    assert "WARNING disk is nearly full" in clip
    assert re.search(r"INFO request 0 took 0 ms \[\+\d+ alike\]", clip)
    assert clip.endswith(lines[-1])


def test_the_frames_of_a_trace_stay_with_their_fault() -> None:
    """Java and JavaScript say first what happened; some frames of many follow."""
    lines = log(300)
    trace = [
        "java.lang.IllegalStateException: no more seats",
        "\tat org.shop.Seats.take(Seats.java:8)",
    ]
    trace += [f"\tat org.shop.Deep{chr(97 + n)}.call(Deep.java:9)" for n in range(25)]
    lines[200:200] = [*trace, "Caused by: java.io.IOException: disk full"]
    clip = clip_result("\n".join(lines), 900)
    assert "\n".join(trace[:4]) in clip
    assert "Caused by: java.io.IOException: disk full" in clip
    assert trace[-1] not in clip


def test_many_faults_are_kept_from_both_ends() -> None:
    """The first fault is often the cause, the last what came of it."""
    lines = [f"10:00:00 ERROR cause-{chr(97 + n % 26) * 3}-{chr(97 + n // 26)}" for n in range(400)]
    clip = clip_result("\n".join(lines), 600)
    assert lines[0] in clip
    assert lines[-1] in clip


def test_the_end_of_a_test_run_is_kept() -> None:
    run = ["=== test session starts ===", "collected 900 items", ""]
    run += [f"tests/test_{chr(97 + n % 26)}{chr(97 + n // 26)}.py ....." for n in range(300)]
    run += [
        "=== FAILURES ===",
        "E       AssertionError: assert 1 == 2",
        "tests/test_x.py:7: AssertionError",
    ]
    run += [
        "FAILED tests/test_x.py::test_y - AssertionError: assert 1 == 2",
        "=== 1 failed, 899 passed ===",
    ]
    clip = clip_result("\n".join(run), 500)
    assert "E       AssertionError: assert 1 == 2" in clip
    assert clip.endswith("\n".join(run[-2:]))


def test_a_very_long_log_is_thinned_but_its_faults_are_not() -> None:
    lines = log(60_000)
    lines[30_000] = "2025-03-14 10:07:24 ERROR in the middle of it all"
    assert "ERROR in the middle of it all" in clip_result("\n".join(lines), 1000)


def test_a_package_with_error_in_its_name_is_no_error() -> None:
    lines = [f"2025-03-14 10:00:00 status installed liberror-perl:all {n}" for n in range(100)]
    assert "with errors" not in clip_result("\n".join(lines), 400)


def test_overwritten_lines_of_a_progress_bar_are_repeats() -> None:
    text = "Downloading\n" + "\r".join(f"{n}% of 30 MB done" for n in range(101)) + "\nSaved.\n" * 3
    clip = clip_result(text, 200)
    assert "0% of 30 MB done" in clip
    assert "Saved." in clip


# -- pages, code, data ----------------------------------------------------------------------------

PAGE = """<!DOCTYPE html><html><head><title>Shop &amp; more</title>
<style>p {color: red}</style></head>
<body><nav><ul><li>Home<li>About</ul></nav><script>if (a < b) alert("x")</script>
<main><h1>Offers</h1><p>Two <b>cheap</b> things:</p><ul><li>Shelf</li><li>Table</li></ul>
<table><tr><th>Name</th><th>Price</th></tr><tr><td>Shelf</td><td>49&nbsp;€</td></tr></table>
<!-- a comment --><p>1 &lt; 2, and 2 < 3</p></main><footer>Imprint</footer></body></html>"""


def test_a_page_as_its_reader_sees_it() -> None:
    assert text_of_html(PAGE) == (
        "Shop & more\n\n# Offers\n\nTwo cheap things:\n\n- Shelf\n- Table\n"
        "Name | Price\nShelf | 49 €\n\n1 < 2, and 2 < 3"
    )


def test_a_long_page_says_that_it_is_text_now() -> None:
    page = PAGE.replace("Two <b>", "<p>Many words. " * 200 + "<b>")
    clip = clip_result(page, 500)
    assert clip.startswith(f"[HTML of {len(page)} characters, as text of ")
    assert "<" not in clip.replace("1 < 2, and 2 < 3", "")


@pytest.mark.parametrize(
    "page", ["<p>" * 9, "<!-- " + "<p>" * 9, "<script>" * 9, "<p>&#" + "9" * 5000]
)
def test_a_broken_page_is_no_error(page: str) -> None:
    assert len(clip_result(page * 200, 300)) <= 300


def test_code_keeps_head_and_tail_and_says_what_is_defined_between() -> None:
    body = "".join(f"def function_{n}(x):\n    return x + {n}\n\n\n" for n in range(100))
    clip = clip_result(f'"""What it does."""\n\nimport os\n\n\n{body}# the end', 1000)
    assert clip.startswith('"""What it does."""\n\nimport os\n')
    assert clip.endswith("# the end")
    note = next(line for line in lines_of(clip) if line.startswith("[…"))
    name, line = re.findall(r"function_(\d+) (\d+)", note)[0]
    assert int(line) == 6 + 4 * int(name)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("iVBORw0KGgo", "[base64 data, PNG image, 4011 characters, 3008 bytes, begins iVBORw0KGgo"),
        ("data:image/webp;base64,UklG", "[base64 data, image/webp, 4004 characters, 3003 bytes,"),
        ("JVBERi0x", "[base64 data, PDF, 4008 characters, "),
        ("", "[base64 data, 4000 characters, 3000 bytes, begins "),
    ],
)
def test_encoded_data_is_named(data: str, said: str) -> None:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    text = f'{{"file": "{data}{"".join(random.Random(1).choices(letters, k=4000))}"}}'
    clip = clip_result(text, 300)
    assert clip.startswith('{"file": "' + said)


def test_hex_and_lines_of_base64_are_named_too() -> None:
    data = random.Random(2)
    assert clip_result(data.randbytes(3000).hex(), 200).startswith(
        "[hex data, 6000 characters, 3000 bytes"
    )
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    lines = "\n".join("".join(data.choices(letters, k=76)) for _ in range(40))
    assert clip_result(f"-----BEGIN X-----\n{lines}\n-----END X-----", 200).startswith(
        "-----BEGIN X-----\n[base64 data, 3040 characters, 2280 bytes"
    )


def test_bytes_read_as_text_are_told_by_size() -> None:
    text = random.Random(3).randbytes(5000).decode("utf-8", "replace") + "libcrypto.so.3"
    assert clip_result(text, 300).startswith(f"[binary data, {len(text)} characters")


def test_colours_of_a_terminal_are_left_out() -> None:
    text = "".join(f"\x1b[1;3{n % 8}mword{n}\x1b[0m " for n in range(100))
    clip = clip_result(text, 900)
    assert "\x1b" not in clip
    assert "word0 word1 " in clip
    assert "word99" in clip
