"""How a scripted model behaves: functions from a request to a reply, one put around another.

model = refusing(as_text(answering({"weather in Oslo": Call("get_weather", {"city": "Oslo"})})),
                 "response_format")
ScriptedServer(model)
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

from .replies import Call, Calls, Fail, RawCall, Reply, Say
from .wire import args_text

Behaviour = Callable[[dict[str, Any]], Reply]


def answering(answers: Mapping[str, Reply], otherwise: Reply | None = None) -> Behaviour:
    """Answers the first key that the last user message contains; a request that ends with a tool's
    result, or that no key is of, gets `otherwise` (default: Say("ok"))."""
    rest = otherwise or Say("ok")

    def behave(body: dict[str, Any]) -> Reply:
        text = said(body) if body["messages"][-1]["role"] == "user" else ""
        return next((reply for key, reply in answers.items() if key in text), rest)

    return behave


def said(body: Mapping[str, Any]) -> str:
    """The text of the last user message of a request."""
    texts = [m["content"] for m in body["messages"] if m["role"] == "user"]
    last = texts[-1] if texts else ""
    return last if isinstance(last, str) else json.dumps(last)


def as_text(behaviour: Behaviour, form: str = "<tool_call>\n{}\n</tool_call>") -> Behaviour:
    """Writes its calls into the text of the reply; `form` is what stands around each."""

    def behave(body: dict[str, Any]) -> Reply:
        reply = behaviour(body)
        if isinstance(reply, Call | RawCall):
            reply = Calls([reply])
        if not isinstance(reply, Calls):
            return reply
        texts = [
            f'{{"name": "{call.name}", "arguments": {args_text(call)}}}' for call in reply.calls
        ]
        return Say("\n".join([reply.text, *map(form.format, texts)]).strip())

    return behave


def one_call(behaviour: Behaviour, unless: str = "") -> Behaviour:
    """Makes one call a reply and no more, unless the request has `unless` set to true."""

    def behave(body: dict[str, Any]) -> Reply:
        reply = behaviour(body)
        if isinstance(reply, Calls) and not (unless and body.get(unless) is True):
            return reply.calls[0]
        return reply

    return behave


def refusing(behaviour: Behaviour, *keys: str) -> Behaviour:
    """Answers 400 to a request that has one of these keys, as a server that does not know it."""

    def behave(body: dict[str, Any]) -> Reply:
        found = next((key for key in keys if key in body), "")
        if found:
            return Fail(400, {"error": {"message": f"unsupported parameter: {found}"}})
        return behaviour(body)

    return behave


def only(behaviour: Behaviour, most: int, then: Reply) -> Behaviour:
    """Chooses well among at most `most` tools; with more of them the reply is `then`."""
    return lambda body: then if len(body.get("tools") or ()) > most else behaviour(body)


def after(behaviour: Behaviour, requests: int, then: Reply | Callable[[], Reply]) -> Behaviour:
    """Behaves so for some requests, and gives `then` from then on (called, if it is a function)."""
    lock = threading.Lock()
    count = 0

    def behave(body: dict[str, Any]) -> Reply:
        nonlocal count
        with lock:
            count += 1
            is_over = count > requests
        if not is_over:
            return behaviour(body)
        return then() if callable(then) else then

    return behave
