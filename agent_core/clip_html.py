"""HTML and XML as the text that a reader sees, in one pass over the tags."""

from __future__ import annotations

import html
import re

from agent_core.clip_text import head_and_tail

_HTML = re.compile(
    r"\s*(?:<!--|<\?xml|<!doctype|<(?:html|head|body|main|div|p|table|ul|ol|span|h\d|rss|feed|svg)\b)",
    re.IGNORECASE,
)
_PARAGRAPH = "\v"  # where an empty line is wanted; in the page's own text it is a blank
_TAG = re.compile(r"/?([a-zA-Z][\w:-]{0,40})")
# Tags whose content nobody reads, and tags that do not end a line.
_SILENT = frozenset(("script", "style", "svg", "noscript", "template", "head", "iframe"))
_INLINE = frozenset(
    (
        *("a", "abbr", "b", "bdi", "cite", "code", "data", "em", "font", "i", "img", "input"),
        *("kbd", "label", "mark", "q", "s", "samp", "small", "span", "strong", "sub", "sup"),
        *("time", "tt", "u", "var", "wbr", "button"),
    )
)


def clip_html(text: str, chars: int) -> str | None:
    """A page as its text, behind a line that says so; None if it is none."""
    if not _HTML.match(text[:2000]) or text.count("<", 0, 20_000) < 3:
        return None
    plain = text_of_html(text)
    kind = "HTML" if "<html" in text[:2000].lower() or "</" not in text[:200] else "XML or HTML"
    note = f"[{kind} of {len(text)} characters, as text of {len(plain)}]\n"
    return note + head_and_tail(plain, chars - len(note))


def text_of_html(text: str) -> str:
    """Title and text without tags, scripts and styles; of a page with a main part, that alone.

    Headings begin with `#`, list items with `-`, cells are parted by `|`.
    """
    low = text.lower()
    title = _between(text, low, "<title", "</title")
    first, last = low.find("<main"), low.rfind("</main")
    if 0 <= first < last:
        text, low = text[first:last], low[first:last]
    body = _plain(text, low)
    return f"{_tidy(_unescape(title))}\n\n{body}" if title.strip() else body


def _between(text: str, low: str, opening: str, closing: str) -> str:
    start = low.find(opening, 0, 20_000)
    start = low.find(">", start, start + 500) + 1 if start >= 0 else 0
    end = low.find(closing, start, start + 1000) if start else -1
    return text[start:end] if end >= 0 else ""


def _plain(text: str, low: str) -> str:
    out: list[str] = []
    at = 0
    while True:
        start = text.find("<", at)
        end = text.find(">", start) if start >= 0 else -1
        if start < 0 or end < 0:
            out.append(text[at:])
            return _tidy(_unescape("".join(out)))
        out.append(text[at:start])
        if text[start + 1 : start + 2] in ("!", "?"):
            at = _behind_comment(text, start, end)
            continue
        tag = _TAG.match(text[start + 1 : start + 50])
        if tag is None:  # a sign and not a tag
            out.append("<")
            at = start + 1
            continue
        name = tag[1].lower()
        at = end + 1
        if name in _SILENT and tag[0][0] != "/":
            close = low.find(f"</{name}", end)
            at = close if close >= 0 else at
        out.append(_sign(name, is_end=tag[0][0] == "/"))


def _behind_comment(text: str, start: int, end: int) -> int:
    if text.startswith("<![CDATA[", start):
        return start + 9
    if not text.startswith("<!--", start):
        return end + 1
    close = text.find("-->", start)
    return close + 3 if close >= 0 else len(text)


def _sign(name: str, *, is_end: bool) -> str:
    """What stands in the text for a tag."""
    if name in _INLINE:
        return ""
    if name in ("td", "th"):
        return "" if is_end else " | "
    if name == "li":
        return "" if is_end else "\n- "
    if len(name) == 2 and name[0] == "h" and name[1] in "123456":
        return "\n" if is_end else f"\n{_PARAGRAPH}\n" + "#" * int(name[1]) + " "
    return f"\n{_PARAGRAPH}\n" if name == "p" else "\n"


def _unescape(text: str) -> str:
    try:
        return html.unescape(text)
    except ValueError:  # a number of more digits than Python reads
        return text


def _tidy(text: str) -> str:
    """Blanks joined, no line with a sign alone; an empty one only where a paragraph begins."""
    out: list[str] = []
    for raw in text.split("\n"):
        line = " ".join(raw.split()).removeprefix("| ")
        if line.strip("-#| "):
            out.append(line)
        elif _PARAGRAPH in raw and out and out[-1]:
            out.append("")
    return "\n".join(out).strip()
