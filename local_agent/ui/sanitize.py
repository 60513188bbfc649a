"""Text from models, tools and files made harmless for a screen, without losing a character of it.

A control character is shown as its picture (ESC as ␛), an invisible or reordering one by its
number (<U+202E>), so nothing that came from outside can move the cursor, set the title, hide what
stands there or imitate our own questions. Newline and tab stay. What scripts need stays too:
joiners in Arabic and Indic text and in emoji, variation selectors after such signs.
"""

from __future__ import annotations

import os
import re
import sys
from typing import IO

_SUSPICIOUS = re.compile(
    "\r\n|[\ud800-\udbff][\udc00-\udfff]|["
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\ud800-\udfff\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
_JOINERS = "\u200c\u200d"
_ZERO_WIDTH_SPACE = "\u200b"
# Scripts that have joined forms (Arabic to Mongolian and the later Indic blocks), and signs that
# emoji sequences are made of.
_JOINING = re.compile(
    "[\u0600-\u08ff\u0900-\u109f\u1780-\u18af\u1b00-\u1bff\ua800-\uabff\ufb50-\ufdff\ufe70-\ufefc"
    "\u2190-\u2bff\u3030\u303d\ufe0f\U00010a00-\U00011fff\U0001f000-\U0001faff]"
)
# Scripts that are written without spaces and mark a possible line end by U+200B.
_SPACELESS = re.compile("[\u0e00-\u0eff\u0f00-\u109f\u1780-\u17ff\u1950-\u1aaf\ua9e0-\uaa7f]")
_ASCII_SIGNS = {
    "⇢": "=>",
    "→": "->",
    "←": "<-",
    "⏸": "||",
    "…": "...",
    "·": "-",
    "│": "|",
    "┆": ":",
    "├": "+",
    "↩": "$",
    "␡": "^?",
    **{chr(0x2400 + code): "^" + chr(code + 64) for code in range(32)},
}


def visible(text: str, *, newlines: bool = True) -> str:
    """`text` with everything that could act on a terminal shown as a sign instead.

    `\\r\\n` becomes `\\n`; with `newlines=False` a newline is shown too, as ␊. Never raises.
    """
    shown, _ = _show(text, "")
    return shown if newlines else shown.replace("\n", "␊")


class StreamSanitizer:
    """`visible` for a text that arrives in pieces, cut anywhere.

    The pieces that `feed` and `end` return are together what `visible` makes of the whole.
    """

    def __init__(self) -> None:
        self._held = ""
        self._before = ""

    def feed(self, chunk: str) -> str:
        """What can be shown so far; a last character whose meaning is open waits."""
        text = self._held + chunk
        self._held = ""
        if text and (text[-1] == "\r" or "\ud800" <= text[-1] <= "\udbff"):
            text, self._held = text[:-1], text[-1]
        shown, self._before = _show(text, self._before)
        return shown

    def end(self) -> str:
        """What was still held back; the next `feed` begins a new text."""
        shown, _ = _show(self._held, self._before)
        self._held = self._before = ""
        return shown


def safe_write(stream: IO[str] | None, text: str) -> None:
    """Write and flush, whatever the stream's encoding; what it lacks is spelt in ASCII.

    `stream` is None in a process without that stream: nothing happens. A reader that has gone
    is a BrokenPipeError on every system.
    """
    if stream is None or not text:
        return
    try:
        try:
            stream.write(text)
        except UnicodeEncodeError:
            stream.write(_spell(text, getattr(stream, "encoding", None) or "ascii"))
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as exc:
        # Windows reports a closed pipe as "invalid argument".
        if sys.platform == "win32" and exc.errno == 22:
            raise BrokenPipeError(*exc.args) from exc
        raise


def discard_output(stream: IO[str] | None) -> None:
    """After a BrokenPipeError: point the stream at nothing, so that the exit can flush it."""
    if stream is None:
        return
    try:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, stream.fileno())
        os.close(descriptor)
    except (OSError, ValueError):
        return


def _show(text: str, before: str) -> tuple[str, str]:
    """The shown form, and the last source character; `before` is the one ahead of `text`."""
    if not text:
        return "", before
    if _SUSPICIOUS.search(text) is None:
        return text, text[-1]

    def replace(match: re.Match[str]) -> str:
        start = match.start()
        return _sign(match.group(), text[start - 1] if start else before)

    return _SUSPICIOUS.sub(replace, text), text[-1]


def _sign(found: str, previous: str) -> str:
    if found == "\r\n":
        return "\n"
    if len(found) == 2:  # halves of one character that a decoder left apart
        return found.encode("utf-16", "surrogatepass").decode("utf-16")
    if _is_needed(found, previous):
        return found
    code = ord(found)
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"<U+{code:04X}>"


def _is_needed(found: str, previous: str) -> bool:
    if not previous:
        return False
    if found in _JOINERS:
        return _JOINING.match(previous) is not None
    if found == _ZERO_WIDTH_SPACE:
        return _SPACELESS.match(previous) is not None
    if "\ufe00" <= found <= "\ufe0f" or "\U000e0100" <= found <= "\U000e01ef":
        # 0-9, # and * begin keycap emoji; after other ASCII a selector only hides.
        return previous in "0123456789#*" or (
            previous > "\x9f" and _SUSPICIOUS.match(previous) is None
        )
    return False


def _spell(text: str, encoding: str) -> str:
    def fits(char: str) -> str:
        try:
            char.encode(encoding)
        except UnicodeEncodeError:
            return _ASCII_SIGNS.get(char) or char.encode("ascii", "backslashreplace").decode()
        return char

    return "".join(fits(char) for char in text)
