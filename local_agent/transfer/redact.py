"""Takes secrets out of a document by their usual shapes; each gets a placeholder of its own.

A secret of some strength that was found once is taken out wherever it stands in the document, also
where nothing says what it is: a password in an address, and later alone in an answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import AnyMessage

from local_agent.transfer.document import Course, Document, Step

STRONG = 8  # characters, of two kinds at least: such a text stands nowhere by chance
_NAME = (
    r"(?:api[_-]?key|apikey|access[_-]?key|token|secret|passw(?:or)?d|passphrase|pwd|credential)"
    r"(?![a-z])"
)
# Quoted, or up to what ends a value; not a call or a look-up, as in a program's text.
_VALUE = (
    r"""(?:"([^"\r\n]{4,4000}+)"|'([^'\r\n]{4,4000}+)'"""
    r"""|([^\s"'`,;<>(){}\[\]&\\]{4,4000}+)(?![(\[]))"""
)

# What each group of a pattern catches is a secret, or all of it; the name is in its placeholder.
# Repeats have a limit where a text could hold many beginnings: none may make the search quadratic.
PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        (
            "private-key",
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]{1,9000}?"
            r"-----END [A-Z0-9 ]*PRIVATE KEY-----",
        ),
        ("jwt", r"\beyJ[A-Za-z0-9_-]{8,400}\.eyJ[A-Za-z0-9_-]{8,9000}\.[A-Za-z0-9_-]*"),
        ("anthropic-key", r"\bsk-ant-[A-Za-z0-9_-]{16,}"),
        ("openai-key", r"\bsk-[A-Za-z0-9_-]{16,}"),
        ("github-token", r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{40,})"),
        ("gitlab-token", r"\bgl(?:pat|dt|rt|ptt|cbt)-[A-Za-z0-9_-]{20,}"),
        ("aws-key", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
        ("google-key", r"\bAIza[A-Za-z0-9_-]{35}"),
        ("google-token", r"\bya29\.[A-Za-z0-9_-]{20,}"),
        ("slack-token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
        ("slack-hook", r"https://hooks\.slack\.com/services/([A-Za-z0-9/]{20,})"),
        ("stripe-key", r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"),
        ("huggingface-token", r"\bhf_[A-Za-z0-9]{30,}"),
        ("npm-token", r"\bnpm_[A-Za-z0-9]{36}"),
        ("pypi-token", r"\bpypi-[A-Za-z0-9_-]{40,}"),
        ("telegram-token", r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}\b"),
        ("sendgrid-key", r"\bSG\.[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}"),
        (
            "url-password",
            r"\b[a-zA-Z][a-zA-Z0-9+.-]{0,30}://[^\s/:@\"'<>]{0,200}:([^\s/@\"'<>]{1,500})@",
        ),
        ("bearer-token", r"(?i)\bbearer\s{1,4}([A-Za-z0-9._~+/=-]{8,})"),
        (
            "basic-login",
            r"\b(?i:basic)\s{1,4}(?=[a-z+/]*[A-Z0-9])([A-Za-z0-9+/]{12,}={0,2})(?![\w+/=])",
        ),
        # KEY=…, "key": "…", also inside a JSON text where the quotes have a stroke before them.
        (
            "secret",
            rf"(?i){_NAME}[A-Z0-9_-]{{0,30}}\\?[\"']?\s{{0,8}}(?:=>|=|:)\s{{0,8}}\\?{_VALUE}",
        ),
        (
            "secret",
            rf"(?i)(?<![\w-])--?[a-z0-9-]{{0,30}}{_NAME}[a-z0-9-]{{0,30}}[ \t]{{1,8}}{_VALUE}",
        ),
    )
)
_SECRET_KEY = re.compile(rf"(?i){_NAME}|^(?:proxy-)?authorization$|^(?:set-)?cookie$")
# What stands behind such a name and is none; a number is a count.
_WORDS = re.compile(
    r"(?i)(?:true|false|none|null|undefined|required|optional|string|text|[0-9.]+|x+|\.+)"
)
_PLACEHOLDER = re.compile(r"\[redacted [a-z-]+ [0-9]+\]|\$\{?\w+\}?|<[^<>]*>|\*{3,}")
_KINDS = (re.compile("[a-z]"), re.compile("[A-Z]"), re.compile("[0-9]"), re.compile(r"[^\w\s]"))


@dataclass(slots=True)
class Redactor:
    """What was found so far. `known` are values that are secrets for certain, such as settings."""

    known: Iterable[str] = ()
    found: dict[str, str] = field(default_factory=dict)  # secret -> placeholder
    _sure: set[str] = field(default_factory=set)
    _counts: dict[str, int] = field(default_factory=dict)
    _anywhere: re.Pattern[str] | None = None

    def __post_init__(self) -> None:
        for value in sorted(set(self.known)):
            if len(value) >= STRONG:
                self._note("configured", value)
                self._sure.add(value)

    def look(self, value: Any, key: str = "") -> None:
        """Note the secrets in a value of JSON's kinds; its `key` may say what it is."""
        for text, name in _texts(value, key):
            if _SECRET_KEY.search(name) and _is_secret(text):
                self._note("secret", text)
            for kind, start, end in _spans(text):
                self._note(kind, text[start:end])

    def _note(self, kind: str, secret: str) -> None:
        if secret in self.found:
            return
        self._counts[kind] = self._counts.get(kind, 0) + 1
        self.found[secret] = f"[redacted {kind} {self._counts[kind]}]"
        self._anywhere = None

    def clean(self, value: Any, key: str = "") -> Any:
        """A copy of the value without the secrets that were noted."""
        if isinstance(value, str):
            if value in self.found and _SECRET_KEY.search(key):
                return self.found[value]
            return self._text(value)
        if isinstance(value, Mapping):
            return {name: self.clean(item, str(name)) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.clean(item, key) for item in value]
        return value

    def _text(self, text: str) -> str:
        """Strong secrets wherever they stand, then the others where their place says it."""
        text = self._everywhere().sub(lambda match: self.found[match[0]], text)
        spans = sorted(
            (start, end) for _, start, end in _spans(text) if text[start:end] in self.found
        )
        out, at = [], 0
        for start, end in spans:
            if start >= at:
                out += [text[at:start], self.found[text[start:end]]]
                at = end
        return "".join([*out, text[at:]])

    def _everywhere(self) -> re.Pattern[str]:
        if self._anywhere is None:
            strong = [one for one in self.found if one in self._sure or _is_strong(one)]
            strong.sort(key=lambda one: (-len(one), one))
            self._anywhere = re.compile("|".join(map(re.escape, strong)) or r"(?!)")
        return self._anywhere


def _texts(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """All texts in a value, each with the key that it stands under."""
    if isinstance(value, str):
        yield value, key
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _texts(item, str(name))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item, key)


def _spans(text: str) -> Iterator[tuple[str, int, int]]:
    """Where secrets stand in a text, each with its kind."""
    for kind, pattern in PATTERNS:
        for match in pattern.finditer(text):
            groups = [n for n in range(1, pattern.groups + 1) if match[n] is not None] or [0]
            for group in groups:
                start, end = match.span(group)
                while end > start and text[end - 1] == "\\":
                    end -= 1
                if _is_secret(text[start:end]):
                    yield kind, start, end


def _is_secret(text: str) -> bool:
    return len(text) >= 4 and not _WORDS.fullmatch(text) and not _PLACEHOLDER.fullmatch(text)


def _is_strong(text: str) -> bool:
    return len(text) >= STRONG and sum(bool(kind.search(text)) for kind in _KINDS) >= 2


# -- documents ------------------------------------------------------------------------------------

_FIELDS = (
    *("content", "name", "additional_kwargs", "response_metadata"),
    *("tool_calls", "invalid_tool_calls", "artifact"),
)


def redacted(document: Document, known: Iterable[str] = ()) -> tuple[Document, int]:
    """The document without secrets, and how many different ones were found."""
    redactor = Redactor(known)
    redactor.look([document.title, document.name, document.parent or ""])
    for step in document.all_steps():
        for message in step.added:
            for name in _FIELDS:
                redactor.look(getattr(message, name, None))
        redactor.look(dict(step.state))
    for course in document.branches:
        redactor.look([course.prompt, course.why])
    redactor.look(list(document.bases.values()))

    def steps(old: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple(_step(step, redactor) for step in old)

    def course_of(old: Course) -> Course:
        prompt, why = redactor.clean(old.prompt), redactor.clean(old.why)
        return replace(old, prompt=prompt, why=why, steps=steps(old.steps))

    parent = document.parent and redactor.clean(document.parent)[:200]
    clean = replace(
        document,
        name=redactor.clean(document.name)[:200],
        title=redactor.clean(document.title),
        parent=parent,
        steps=steps(document.steps),
        branches=tuple(map(course_of, document.branches)),
        # One with a secret in it is no longer what its key says.
        bases={k: text for k, text in document.bases.items() if redactor.clean(text) == text},
    )
    return clean, len(redactor.found)


def _step(step: Step, redactor: Redactor) -> Step:
    added = tuple(_message(message, redactor) for message in step.added)
    return replace(step, added=added, state=redactor.clean(dict(step.state)))


def _message(message: AnyMessage, redactor: Redactor) -> AnyMessage:
    old = {name: getattr(message, name) for name in _FIELDS if getattr(message, name, None)}
    new = {name: redactor.clean(value) for name, value in old.items()}
    changed = {name: value for name, value in new.items() if value != old[name]}
    return message.model_copy(update=changed) if changed else message
