"""Text from outside cannot act on a terminal, and stays readable."""

from __future__ import annotations

import io
import os
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_agent.ui.sanitize import StreamSanitizer, discard_output, safe_write, visible

ANY_TEXT = st.text(
    st.one_of(
        st.sampled_from(
            "\r\n\t\x1b\x9b\x07ab1é漢👨\u200d\u200b\ufe0f\u202e\ud83d\ude00\u0646\u0e01"
        ),
        st.characters(exclude_categories=()),
    ),
    max_size=30,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "␛[2J"),
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("\x1b]52;c;YQ==\x07", "␛]52;c;YQ==␇"),
        ("\x1b]8;;file:///x\x1b\\y", "␛]8;;file:///x␛\\y"),
        ("50%\r100%", "50%␍100%"),
        ("no\b\byes", "no␈␈yes"),
        ("\x9b2J", "<U+009B>2J"),
        ("a\x00b\x7f", "a␀b␡"),
        ("rm \u202egpj.exe\u202c", "rm <U+202E>gpj.exe<U+202C>"),
        ("a\u2066b\u200fc\u061cd\ufeff", "a<U+2066>b<U+200F>c<U+061C>d<U+FEFF>"),
        ("pass\u200bword\u2060s\u200d", "pass<U+200B>word<U+2060>s<U+200D>"),
        ("a\u2028b", "a<U+2028>b"),
        ("x\udc9by", "x<U+DC9B>y"),
        ("hid\U000e0041den\ufe01", "hid<U+E0041>den<U+FE01>"),
    ],
)
def test_what_acts_on_a_terminal_is_shown_as_a_sign(text: str, shown: str) -> None:
    """T04: escape, C1, overwriting, reordering and invisible characters become visible ones."""
    assert visible(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "two\nlines\tand a tab",
        "[/] list[int] = a[red] [link=file:///x]y[/link] [\\]",
        "日本語 한국어 e\u0301 ä",
        "👨\u200d👩\u200d👧 🇯🇵 ❤\ufe0f\u200d🔥 1\ufe0f\u20e3 👍🏽",
        "می\u200cخواهم क्\u200dष",
        "ខ្មែរ\u200bភាសា",
        "葛\U000e0100",
    ],
)
def test_what_a_reader_needs_is_kept(text: str) -> None:
    """T01, T07: brackets, newlines, scripts and emoji come through letter by letter."""
    assert visible(text) == text


def test_line_ends_of_windows_are_line_ends() -> None:
    """A carriage return before a newline is no overwriting."""
    assert visible("a\r\nb\r\r\n") == "a\nb␍\n"
    assert visible("a\r\nb\n", newlines=False) == "a␊b␊"


def test_halves_of_a_character_are_put_together() -> None:
    """A pair of surrogates that a decoder left is the character it stands for."""
    assert visible("\ud83d\ude00") == "😀"


def test_no_control_or_format_character_of_unicode_passes() -> None:
    """T04: by category over all of Unicode; the signs of Arabic and the like that print stay."""
    printing = {"ARABIC", "SYRIAC", "KAITHI"}
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        if unicodedata.category(char) not in {"Cc", "Cf", "Zl", "Zp", "Cs"} or char in "\n\t":
            continue
        if unicodedata.name(char, "").split(" ")[0] in printing and code != 0x61C:
            continue
        assert char not in visible(f"a{char}b"), f"U+{code:04X}"


@given(ANY_TEXT)
def test_nothing_raw_is_left_of_any_text(text: str) -> None:
    """T04: whatever comes in, no C0, C1 or lone surrogate goes out, and UTF-8 can hold it."""
    shown = visible(text)
    shown.encode("utf-8")
    assert not any(unicodedata.category(c) in {"Cc", "Cs"} and c not in "\n\t" for c in shown)


@given(ANY_TEXT, st.data())
def test_pieces_show_what_the_whole_shows(text: str, data: st.DataObject) -> None:
    """T04: it does not matter where a stream is cut."""
    sanitizer, shown, rest = StreamSanitizer(), "", text
    while rest:
        cut = data.draw(st.integers(0, len(rest)))
        shown += sanitizer.feed(rest[:cut])
        rest = rest[cut:] if cut else rest
        if not cut:
            shown += sanitizer.feed(rest[:1])
            rest = rest[1:]
    assert shown + sanitizer.end() == visible(text)


def test_a_stream_can_be_used_again_after_its_end() -> None:
    """The held back character of one text does not go into the next."""
    sanitizer = StreamSanitizer()
    assert sanitizer.feed("a\r") == "a"
    assert sanitizer.end() == "␍"
    assert sanitizer.feed("\nb") == "\nb"


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("ascii", "-> a(x='caf\\xe9') ... ^[ =>\n"),
        ("latin-1", "-> a(x='café') ... ^[ =>\n"),
        ("utf-8", "→ a(x='café') … ␛ ⇢\n"),
    ],
)
def test_output_fits_the_encoding(encoding: str, shown: str) -> None:
    """T08: an ASCII stdout (LANG=C) gets a spelling in ASCII and no UnicodeEncodeError."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    safe_write(stream, "→ a(x='café') … ␛ ⇢\n")
    assert raw.getvalue().decode(encoding) == shown


def test_a_missing_stream_takes_anything() -> None:
    """A process without a stderr can still say something."""
    safe_write(None, "x")
    discard_output(None)


def test_a_reader_that_left_is_a_broken_pipe_once() -> None:
    """T08: the caller learns that nobody reads, and can then end without a second error."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    stream = os.fdopen(write_end, "w", encoding="utf-8")
    with pytest.raises(BrokenPipeError):
        safe_write(stream, "x\n")
    discard_output(stream)
    stream.close()
