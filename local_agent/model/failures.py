"""Failures of the model server, in whatever shape they come, as errors of our own tree."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

import httpx2
import openai

from local_agent.errors import (
    ContextOverflow,
    ModelError,
    ModelNotLoaded,
    ModelTimeout,
    ModelUnreachable,
    StreamBroken,
)

from .template import NEEDS_JINJA, refuses

WORDS_MAX = 300  # characters of the server's own words that are shown

_OVERFLOW = re.compile(
    r"context[ _](length|size|window)|maximum context|n_ctx|exceed_context_size|n_keep"
    r"|tokens to keep|keep the first|prompt is too long|input tokens exceed",
    re.I,
)
_NOT_LOADED = re.compile(
    r"no models? (is |are )?(currently )?loaded|model (is )?(unloaded|not loaded|not found)"
    r"|failed to load model|model ['\"`]?[^ ]+['\"`]? (was )?(not found|does not exist)",
    re.I,
)
_NO_PATH = re.compile(r"unexpected endpoint|file not found|not found\W*$", re.I)
_NUMBERS = (  # (prompt, limit) or (limit, prompt): the larger one is the prompt
    re.compile(r"n_keep: (\d+) >= n_ctx: (\d+)"),
    re.compile(r"\((\d+) tokens\).*?context size \((\d+) tokens\)"),
    re.compile(r"context length is (\d+) tokens.*?(\d+) tokens", re.S),
    re.compile(r"first (\d+) tokens.*?only (\d+) tokens", re.S),
)
_LIMIT = re.compile(r"context (?:length|size|window)\D{0,20}(\d+)", re.I)
_FIRST = re.compile(r"first (\d+) tokens", re.I)

START = "Start LM Studio's server (lms server start) and load a model (lms load), or set base_url."
STRICT = "Its chat template refuses the messages: try another template, or another model."
JINJA = "Start llama-server with --jinja: without it the model gets no tools."
LOAD = "Load one: lms load, or in LM Studio's window; llama-server takes it by -m."


class ServerSaid(Exception):
    """An error object inside an answer that HTTP calls a success."""

    def __init__(self, body: Any) -> None:
        super().__init__(words_of(body))
        self.body = body


def one_line(text: str, secrets: tuple[str, ...] = ()) -> str:
    """`text` as one line of at most WORDS_MAX characters: no control characters, no secrets."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "***")
    if re.match(r"\s*<(!doctype|html)", text, re.I):
        return "an HTML page"
    kept = "".join(" " if unicodedata.category(c) in ("Cc", "Cf", "Cs") else c for c in text)
    line = " ".join(kept.split())
    return line if len(line) <= WORDS_MAX else line[: WORDS_MAX - 1] + "…"


def words_of(body: Any) -> str:
    """The server's own words in an error body of any of the usual shapes."""
    if isinstance(body, str):
        return body
    if isinstance(body, Mapping):
        for key in ("error", "message", "detail"):
            if body.get(key):
                return words_of(body[key])
    return json.dumps(body, ensure_ascii=False, default=str) if body else ""


def said_by(exc: Exception) -> str:
    """The server's own words in one of the client's errors; empty where it said nothing."""
    if isinstance(exc, openai.APIStatusError):
        return words_of(exc.body if exc.body is not None else exc.response.text)
    if isinstance(exc, ServerSaid):
        return words_of(exc.body)
    if isinstance(exc, openai.APIConnectionError) or not isinstance(exc, openai.APIError):
        return ""
    return words_of(exc.body) or exc.message


def overflow_numbers(body: Any, words: str) -> tuple[int | None, int | None]:
    """(prompt tokens, context length) as far as the server said them."""
    fields = body.get("error", body) if isinstance(body, Mapping) else {}
    if isinstance(fields, Mapping) and isinstance(fields.get("n_ctx"), int):
        prompt = fields.get("n_prompt_tokens")
        return (prompt if isinstance(prompt, int) else None), fields["n_ctx"]
    for pattern in _NUMBERS:
        found = pattern.search(words)
        if found:
            one, other = int(found[1]), int(found[2])
            return max(one, other), min(one, other)
    first, limit = _FIRST.search(words), _LIMIT.search(words)
    return (int(first[1]) if first else None), (int(limit[1]) if limit else None)


def overflow_error(body: Any, words: str) -> ContextOverflow:
    """The overflow, with its two numbers in the text where they are known."""
    prompt, limit = overflow_numbers(body, words)
    if prompt and limit:
        text = f"The prompt has {prompt} tokens, the model is loaded with a context of {limit}."
    elif limit:
        text = f"The prompt is longer than the model's context of {limit} tokens."
    else:
        text = "The prompt is longer than the context the model is loaded with."
    hint = "Load the model with a larger context, or start a new thread."
    return ContextOverflow(text, hint, prompt_tokens=prompt, context_length=limit)


def unreachable(base_url: str) -> ModelUnreachable:
    """Nothing listens at the address."""
    return ModelUnreachable(f"No model server at {base_url}.", START)


def wrong_path(base_url: str) -> ModelError:
    """Something answers at the address, but not in the way of an OpenAI-compatible server."""
    return ModelError(
        f"{base_url} does not answer like an OpenAI-compatible server.",
        "Check base_url; it usually ends in /v1.",
    )


def from_status(
    status: int, body: Any, *, base_url: str, secrets: tuple[str, ...] = ()
) -> ModelError:
    """The error for an HTTP status (200 for an error object in a success) and its body."""
    raw = words_of(body)
    words = one_line(raw, secrets)
    if _OVERFLOW.search(raw) or _OVERFLOW.search(json.dumps(body, default=str)):
        return overflow_error(body, raw)
    if status in (401, 403):
        return ModelError(
            f"The model server at {base_url} refused the key ({status}): {words}",
            "Set api_key in [model], or LM_API_TOKEN.",
        )
    if _NOT_LOADED.search(raw):
        return ModelNotLoaded(f"The model server at {base_url} has no model to use: {words}", LOAD)
    if (status in (200, 404, 405) and _NO_PATH.search(raw)) or (
        status < 500 and words == "an HTML page"
    ):
        return wrong_path(base_url)
    if status == 404:
        return ModelNotLoaded(f"The model server at {base_url} answered 404: {words}", LOAD)
    if status == 200:
        return ModelError(f"The model server reported an error: {words or 'no reason given'}")
    hint = JINJA if NEEDS_JINJA.search(raw) else STRICT if refuses(raw) else ""
    return ModelError(f"The model server answered {status}: {words or 'no reason given'}", hint)


def translate(
    exc: Exception,
    *,
    base_url: str,
    timeout: float,
    secrets: tuple[str, ...] = (),
    partial: str = "",
    started: bool = False,
) -> ModelError:
    """The error of ours for one of the client's.

    `partial` is the text that had come, `started` that any piece of the answer had: then whatever
    happened, the answer is broken off.
    """
    if isinstance(exc, openai.APITimeoutError | httpx2.TimeoutException):
        if _caused_by(exc, httpx2.ConnectTimeout):
            return unreachable(base_url)
        return ModelTimeout(
            f"The model server at {base_url} sent nothing for {timeout:g} s.",
            "It may be stuck or overloaded; try again, or use a smaller prompt or model.",
        )
    if started:
        return _broken(exc, partial, secrets)
    if _caused_by(exc, httpx2.ConnectError):
        return unreachable(base_url)
    if isinstance(exc, openai.APIStatusError):
        body = exc.body if exc.body is not None else exc.response.text
        return from_status(exc.status_code, body, base_url=base_url, secrets=secrets)
    if isinstance(exc, ServerSaid):
        return from_status(200, exc.body, base_url=base_url, secrets=secrets)
    if isinstance(exc, openai.APIConnectionError | httpx2.RequestError):
        return ModelUnreachable(
            f"The model server at {base_url} went away before it answered.", START
        )
    if isinstance(exc, openai.APIError):
        body = exc.body if exc.body is not None else exc.message
        return from_status(200, body, base_url=base_url, secrets=secrets)
    words = one_line(str(exc), secrets)
    return ModelError(f"The model server answered something that cannot be read: {words}")


def _broken(exc: Exception, partial: str, secrets: tuple[str, ...]) -> StreamBroken:
    if isinstance(exc, ServerSaid) or (
        isinstance(exc, openai.APIError) and not isinstance(exc, openai.APIConnectionError)
    ):
        body = getattr(exc, "body", None)
        reason = one_line(words_of(body) or str(exc), secrets)
    elif isinstance(exc, openai.APIConnectionError | httpx2.RequestError):
        reason = "the connection was lost"
    else:
        reason = f"a piece of it cannot be read: {one_line(str(exc), secrets)}"
    return broken(reason, partial)


def broken(reason: str, partial: str) -> StreamBroken:
    """An answer that began and did not end."""
    return StreamBroken(
        f"The answer broke off: {reason.rstrip('.')}.",
        "Send it again, or look at the model server.",
        partial=partial,
    )


def _caused_by(exc: BaseException, kind: type[BaseException]) -> bool:
    cause: BaseException | None = exc
    while cause is not None:
        if isinstance(cause, kind):
            return True
        cause = cause.__cause__
    return False
