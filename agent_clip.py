"""One tool result in fewer characters, by what it is: JSON, table, log, diff, HTML, code, prose.

No model is asked and nothing is random: the same text gives the same clip, so that what a model
has read once stays the same in every later prompt. The whole text stays in the stored message.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable

from agent_clip_json import clip_json
from agent_clip_lines import clip_diff, clip_log, clip_table, is_log
from agent_clip_text import head_and_tail, place

SHORTEST = 80  # characters; below that there is no room to say what is left out
# Colours and links of a terminal; each alternative ends where the next escape begins.
_TERMINAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-B])")
_DENSE = re.compile(r"(?:data:[\w/.+-]{1,80};base64,)?[A-Za-z0-9+/_-]{200,}={0,2}")
_MAGIC = (
    ("iVBORw0KGgo", "PNG image"),
    ("/9j/", "JPEG image"),
    ("R0lGOD", "GIF image"),
    ("UklGR", "RIFF (WebP or WAV)"),
    ("JVBERi0", "PDF"),
    ("UEsDB", "ZIP archive"),
    ("H4sI", "gzip"),
    ("AAAA", "MP4 or similar"),
)
_HEX = set("0123456789abcdefABCDEF")


def clip_result(text: str, chars: int) -> str:
    """`text` in at most `chars` characters, shortened by what it is, with a line that says so.

    A text that fits comes back as it is. Below 80 characters it is a plain cut. Linear in the
    length of the text; never raises.
    """
    if len(text) <= chars:
        return text
    if chars < SHORTEST:
        return text[: place(text, chars)]
    bare = _without_noise(text)
    for form in _FORMS:
        out = form(bare, chars)
        if out is not None and len(out) <= chars:
            return out
    return head_and_tail(bare, chars)


def _without_noise(text: str) -> str:
    """Without colours, and with encoded data as its size and kind."""
    if "\x1b" in text:
        text = _TERMINAL.sub("", text)
    return _DENSE.sub(lambda found: _encoded(found[0]), text)


def _encoded(run: str) -> str:
    """A run of letters without blanks: named by its kind if it is encoded data, else as it is."""
    label, comma, data = run.rpartition(",")
    sample = set(data[:2000])
    if sample <= _HEX and len(sample) >= 12:
        return f"[hex data, {len(data)} characters, {len(data) // 2} bytes, begins {data[:16]}]"
    if len(sample) < 40 or not (sample & set("0123456789")):
        return run
    kind = next((name for magic, name in _MAGIC if data.startswith(magic)), "")
    if comma:
        kind = label.removeprefix("data:").partition(";")[0]
    size = len(data.rstrip("=")) * 3 // 4
    named = f", {kind}" if kind else ""
    return f"[base64 data{named}, {len(data)} characters, {size} bytes, begins {data[:16]}]"


def _clip_encoded(text: str, chars: int) -> str | None:
    return text if len(text) <= chars else None


def _clip_binary(text: str, chars: int) -> str | None:
    """Bytes that were read as text: their size and the few words in them."""
    sample = text[:4000]
    strange = sum(c == "\ufffd" or (c < " " and c not in "\t\n\r\f\b\x1b") for c in sample)
    if strange * 10 < len(sample):
        return None
    words = re.findall(r"[A-Za-z][\w ./:-]{5,40}", sample)[:6]
    seen = f"; words in it: {', '.join(words)}" if words else ""
    return f"[binary data, {len(text)} characters{seen}]"


def _clip_diff(text: str, chars: int) -> str | None:
    found = clip_diff(text, chars)
    if found is None:
        return None
    files, whole = found
    return files + head_and_tail(whole, chars - len(files))


def _clip_log(text: str, chars: int) -> str | None:
    return clip_log(text, chars) if is_log(text) else None


# -- HTML -----------------------------------------------------------------------------------------

_HTML = re.compile(
    r"\s*(?:<!--|<\?xml|<!doctype html|<html|<head|<body|<div|<p\b|<table|<ul)", re.I
)
_SILENT = ("script", "style", "svg", "noscript", "template", "head")
_BREAKS = {"p", "div", "br", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "table", "ul", "ol"}
_BREAKS |= {"section", "article", "header", "footer", "nav", "pre", "blockquote", "title", "dt"}


def _clip_html(text: str, chars: int) -> str | None:
    if not _HTML.match(text[:2000]) or text.count("<", 0, 20_000) < 3:
        return None
    plain = text_of_html(text)
    note = f"[HTML of {len(text)} characters, as text of {len(plain)}]\n"
    return note + head_and_tail(plain, chars - len(note))


def text_of_html(text: str) -> str:
    """What a reader of the page sees: no tags, scripts, styles; list items and headings marked."""
    out: list[str] = []
    at = 0
    while True:
        start = text.find("<", at)
        end = text.find(">", start) if start >= 0 else -1
        out.append(text[at:start] if start >= 0 else text[at:])
        if start < 0 or end < 0:
            break
        name = re.match(r"/?\s{0,3}[a-zA-Z][a-zA-Z0-9]{0,20}|!--", text[start + 1 : start + 30])
        if name is None:  # a sign and not a tag
            out.append("<")
            at = start + 1
            continue
        at = _behind(text, start, end, name[0].lower())
        out.append(_sign(name[0].lower()))
    return _tidy(_unescape("".join(out)))


def _behind(text: str, start: int, end: int, name: str) -> int:
    """Where the text goes on behind a tag, its content included where nobody reads it."""
    if name == "!--":
        close = text.find("-->", start)
        return close + 3 if close >= 0 else len(text)
    if name in _SILENT:
        close = text.find(f"</{name}", end)
        return close if close >= 0 else end + 1
    return end + 1


def _sign(name: str) -> str:
    if name == "li":
        return "\n- "
    if name in ("td", "th"):
        return " | "
    if len(name) == 2 and name[0] == "h" and name[1] in "123456":
        return "\n\n" + "#" * int(name[1]) + " "
    return "\n" if name.strip("/ ") in _BREAKS else ""


def _unescape(text: str) -> str:
    try:
        return html.unescape(text)
    except ValueError:  # a number that no character has
        return text


def _tidy(text: str) -> str:
    lines = [" ".join(line.split()) for line in text.split("\n")]
    kept = [line for i, line in enumerate(lines) if line or (i and lines[i - 1])]
    return "\n".join(kept).strip()


_FORMS: tuple[Callable[[str, int], str | None], ...] = (
    _clip_encoded,
    _clip_binary,
    clip_json,
    _clip_html,
    _clip_diff,
    clip_table,
    _clip_log,
)
