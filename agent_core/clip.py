"""One tool result in fewer characters, by what it is: JSON, table, log, diff, HTML, code, prose.

No model is asked and nothing is random: the same text gives the same clip, so that what a model
has read once stays the same in every later prompt. The whole text stays in the stored message.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from agent_core.clip_html import clip_html
from agent_core.clip_json import clip_json
from agent_core.clip_log import clip_log, clip_repeats, has_levels
from agent_core.clip_rows import clip_code, clip_diff, clip_records, clip_table
from agent_core.clip_text import head_and_tail, place

SHORTEST = 80  # characters; below that there is no room to say what is left out
# Colours and links of a terminal; each alternative ends where the next escape begins.
_TERMINAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-B])")
# Runs of letters and digits without a blank, or with one at the end of each line as in mails. What
# stands before keeps the search from beginning in the middle of a run again and again.
_DENSE = re.compile(
    r"(?<![A-Za-z0-9+/_-])(?:data:[\w/.+-]{1,80};base64,)?[A-Za-z0-9+/_-]{200,}={0,2}"
    r"|^(?:[A-Za-z0-9+/]{60,80}\n){4,}[A-Za-z0-9+/]{0,80}={0,2}",
    re.MULTILINE,
)
_MAGIC = (
    ("iVBORw0KGgo", "PNG image"),
    ("/9j/", "JPEG image"),
    ("R0lGOD", "GIF image"),
    ("UklGR", "RIFF (WebP or WAV)"),
    ("JVBERi0", "PDF"),
    ("UEsDB", "ZIP archive"),
    ("H4sI", "gzip"),
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
    if len(bare) <= chars:
        note = f"\n[{len(text) - len(bare)} characters of codes or encoded data left out]"
        return bare + note if len(bare) + len(note) <= chars else bare
    for form in _FORMS:
        out = form(bare, chars)
        if out is not None and len(out) <= chars:
            return out
    return head_and_tail(bare, chars)


def _without_noise(text: str) -> str:
    """Without colours and returns, and with encoded data as its size and kind."""
    if "\x1b" in text:
        text = _TERMINAL.sub("", text)
    if "\r" in text:  # also a line that was written over: its states are told as repeats
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _DENSE.sub(lambda found: _encoded(found[0]), text)


def _encoded(run: str) -> str:
    """A run of letters without blanks: named by its kind if it is encoded data, else as it is."""
    label, comma, data = run.replace("\n", "").rpartition(",")
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


def _clip_binary(text: str, chars: int) -> str | None:
    """Bytes that were read as text: their size and the few words in them."""
    sample = text[:4000]
    strange = sum(c == "\ufffd" or (c < " " and c not in "\t\n\r\f\b\x1b") for c in sample)
    if strange * 10 < len(sample):
        return None
    words = re.findall(r"[A-Za-z][\w ./:-]{5,40}", sample)[:6]
    seen = f"; words in it: {', '.join(words)}" if words else ""
    return f"[binary data, {len(text)} characters{seen}]"


def _clip_table(text: str, chars: int) -> str | None:
    return None if has_levels(text) else clip_table(text, chars)


_FORMS: tuple[Callable[[str, int], str | None], ...] = (
    _clip_binary,
    clip_json,
    clip_html,
    clip_diff,
    clip_records,
    _clip_table,
    clip_log,
    clip_code,
    clip_repeats,
)
