"""What must not be shown, and what cannot be seen: masks secrets, makes odd characters visible."""

from __future__ import annotations

import base64
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

MASK = "***"
SHORTEST = 4  # characters of a value that is masked in running text

# Values that stand in `env` as often as a secret does and are words of every log line.
PLAIN_WORDS = frozenset(
    {"true", "false", "none", "null", "auto", "debug", "info", "warn", "warning", "error"}
    | {"http", "https", "stdio", "utf8", "utf-8", "development", "production"}
)
_SECRET_NAME = re.compile(
    r"token|key|secret|passw|pwd|auth|credential|bearer|header|cookie|session|dsn", re.IGNORECASE
)
_OPTION = re.compile(r"--?[A-Za-z0-9][\w.-]*")
_ASSIGNMENT = re.compile(r"((?:--?)?[A-Za-z_][\w.-]*)=(.*)", re.DOTALL)
_HEADER_LINE = re.compile(r"[A-Za-z][A-Za-z0-9-]*:\s*(.+)", re.DOTALL)


def mask(text: str, secrets: Iterable[str]) -> str:
    """Return `text` with every secret replaced by ***, the longest first.

    Also found: the url-encoded form, the form inside a JSON string, and the base64 form that
    HTTP's Basic login makes of "user:password". Values shorter than four characters (and the
    empty one) stay: replacing every "a" would garble the text and hide nothing. The same goes
    for words like "true" or "info". Where a value stands by itself, as in `agent config show`,
    it is hidden whole, whatever its length.
    """
    pattern = _pattern(tuple(secrets))
    return pattern.sub(MASK, text) if pattern else text


@lru_cache(maxsize=64)
def _pattern(secrets: tuple[str, ...]) -> re.Pattern[str] | None:
    forms: set[str] = set()
    for secret in secrets:
        if len(secret) >= SHORTEST and secret.casefold() not in PLAIN_WORDS:
            forms.update(_forms(secret))
    if not forms:
        return None
    # Percent signs and hex digits of an encoded form come in either case.
    ordered = sorted(forms, key=lambda form: (-len(form), form))
    return re.compile("|".join(_either_hex_case(form) for form in ordered))


def _forms(secret: str) -> Iterator[str]:
    yield secret
    data = secret.encode("utf-8", "surrogatepass")
    yield from (quote(data, safe=""), quote(data), quote_plus(data))
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield repr(secret)[1:-1]
    for coded in (base64.b64encode(data), base64.urlsafe_b64encode(data)):
        yield coded.decode("ascii")
        if len(bare := coded.decode("ascii").rstrip("=")) >= SHORTEST:
            yield bare


def _either_hex_case(form: str) -> str:
    def either(match: re.Match[str]) -> str:
        return "".join(f"[{c.lower()}{c.upper()}]" if c.isalpha() else c for c in match.group(0))

    return re.sub(r"(?<=%)[0-9A-Fa-f]{2}", either, re.escape(form))


def visible(text: str) -> str:
    r"""Return `text` on one line, with characters that nobody sees written out as \uXXXX.

    Meant for text that comes out of a file of unknown origin: an escape sequence or a change of
    writing direction in it must not decide what the reader sees.
    """
    return "".join(_written_out(char) if _unseen(char) else char for char in text)


def _unseen(char: str) -> bool:
    # C: control, format (bidirectional marks, zero widths), surrogate, unassigned, private.
    # Zl, Zp and spaces other than the ordinary one.
    kind = unicodedata.category(char)
    return kind[0] == "C" or kind in ("Zl", "Zp") or (kind == "Zs" and char != " ")


def _written_out(char: str) -> str:
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char)
    if short:
        return short
    number = ord(char)
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def url_secrets(url: str) -> Iterator[str]:
    """Yield what of `url` is a secret: user and password, and the values of the query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    if "@" in parts.netloc:
        login = parts.netloc.rpartition("@")[0]
        user, colon, password = login.partition(":")
        # Both together are what a Basic login encodes. A user name next to a password is none.
        for value in (login, password) if colon else (user,):
            yield value
            yield unquote(value)
    for _, value in parse_qsl(parts.query):
        yield value
    for pair in parts.query.split("&"):
        yield pair.partition("=")[2]


def header_secrets(value: str) -> Iterator[str]:
    """Yield a header's value, and what follows the scheme in "Bearer abc"."""
    yield value.strip()
    scheme, _, rest = value.strip().partition(" ")
    if rest and scheme.isalpha():
        yield rest.strip()


def argument_secrets(args: Iterable[str]) -> Iterator[str]:
    """Yield what of a command's arguments is a secret.

    The value after an option named like --token or --api-key, of NAME=value with such a name,
    and what `url_secrets` finds in an argument with an address in it.
    """
    previous = ""
    for arg in args:
        if _OPTION.fullmatch(previous) and _SECRET_NAME.search(previous):
            if not _OPTION.fullmatch(arg):
                yield from _line_secrets(arg)
        elif (match := _ASSIGNMENT.fullmatch(arg)) and _SECRET_NAME.search(match[1]):
            yield from _line_secrets(match[2])
        elif previous == "-H":
            yield from _line_secrets(arg)
        for word in re.split(r"[\s=,]+(?=\w+://)", arg):
            if "://" in word:
                yield from url_secrets(word.strip())
        previous = arg


def _line_secrets(value: str) -> Iterator[str]:
    yield value
    if match := _HEADER_LINE.fullmatch(value):
        yield from header_secrets(match[1])


def show_url(url: str) -> str:
    """Return `url` without its login, with the values of its query as ***."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return MASK
    netloc = parts.netloc.rpartition("@")[2]
    if "@" in parts.netloc:
        netloc = f"{MASK}@{netloc}"
    query = "&".join(
        f"{name}={MASK}" if equals else MASK
        for name, equals, _ in (pair.partition("=") for pair in parts.query.split("&") if pair)
    )
    return visible(parts._replace(netloc=netloc, query=query, fragment="").geturl())
