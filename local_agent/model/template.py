"""What a model's chat template refuses, and the form of a conversation that it takes.

A server renders the messages by a template that came with the model. Many raise an error for what
the API allows: a system message (Gemma, older Mistral), a second one (Qwen 3.5), two messages of
one role in a row (Mistral, Gemma), the role `tool`, ids of calls that are not nine letters.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]

_REFUSED = re.compile(
    r"jinja|chat[ _]template|prompt template|raise_exception|TemplateError|parser for this template"
    r"|roles? must alternate|must alternate (?:between )?user|alternat\w+ roles"
    r"|system (?:role|message)s? (?:is |are )?not (?:supported|allowed)|does not support '?system"
    r"|system message must be|must be at the beginning|only user\b.{0,40}\broles?"
    r"|(?:unexpected|unknown|invalid|unsupported) (?:message )?role|roles? .{0,40}not supported"
    r"|role.{0,20}must be one of|invalid 'messages' in payload|null content|content.{0,20}\bnull\b"
    r"|content.{0,40}must be a string|tool call ids? (?:should|must)"
    r"|content.{0,40}(?:non-?empty|(?:must|should|can) ?not be empty|is empty)|empty content",
    re.I | re.S,
)
# No template was asked: the server was started without the part that renders tools.
NEEDS_JINJA = re.compile(r"requires? --jinja", re.I)
_KEEPS_SYSTEM = re.compile(r"optional system message|must be at the beginning", re.I)
_NO_TOOL_ROLE = re.compile(
    r"only user\b.{0,40}\broles?|(?:unexpected|unknown|invalid|unsupported) (?:message )?role"
    r"|role.{0,20}must be one of|\btool\b.{0,9}\brole"
    r"|\bempty\b",  # content: what a message has that only calls
    re.I | re.S,
)
_ID_LENGTH = 9  # letters of a call's id, as Mistral's templates ask for


@dataclass(frozen=True, slots=True)
class Form:
    """How messages are sent. In each strict form roles alternate and no message is in two parts.

    `system`: there may be one system message, at the start; otherwise it stands in the first
    prompt. `tools`: calls and results have their own fields; otherwise they are texts.
    """

    strict: bool = True
    system: bool = False
    tools: bool = False

    def applied(self, messages: Sequence[Message]) -> list[Message]:
        """The messages in this form; those given are not changed."""
        if not self.strict:
            return list(messages)
        shown = [_with_short_ids(m) for m in messages] if self.tools else _as_texts(messages)
        return _alternating(_one_system(shown, keep=self.system))


USUAL = Form(strict=False, system=True, tools=True)
STRICTEST = Form()


def refuses(words: str) -> bool:
    """Whether a server's error says that the template does not take the messages."""
    return _REFUSED.search(words) is not None and NEEDS_JINJA.search(words) is None


def stricter(form: Form, words: str) -> Form | None:
    """The form to try after `form` was refused with `words`; None where there is no other."""
    if form == STRICTEST or not refuses(words):
        return None
    if form.strict:
        return STRICTEST
    has_tools = _NO_TOOL_ROLE.search(words) is None
    return Form(system=_KEEPS_SYSTEM.search(words) is not None, tools=has_tools)


# -- parts of a form ------------------------------------------------------------------------------


def _one_system(messages: Sequence[Message], *, keep: bool) -> list[Message]:
    """All system texts in one message at the start, or before the text of the first prompt."""
    texts = [str(m["content"]) for m in messages if m["role"] == "system"]
    others = [dict(m) for m in messages if m["role"] != "system"]
    text = "\n\n".join(filter(None, texts))
    if not text:
        return others
    if keep:
        return [{"role": "system", "content": text}, *others]
    if others and others[0]["role"] == "user":
        others[0]["content"] = f"{text}\n\n{others[0]['content']}"
        return others
    return [{"role": "user", "content": text}, *others]


def _alternating(messages: Sequence[Message]) -> list[Message]:
    """Messages of one role behind each other as one, but for results; a prompt comes first."""
    out: list[Message] = []
    for message in messages:
        last = out[-1] if out else None
        is_same = last is not None and last["role"] == message["role"] != "tool"
        if last is not None and is_same and not last.get("tool_calls"):
            content = f"{last['content']}\n\n{message['content']}".strip()
            out[-1] = {**last, **message, "content": content}
        else:
            out.append(message)
    first = next((m for m in out if m["role"] != "system"), None)
    if first is not None and first["role"] != "user":
        out.insert(out.index(first), {"role": "user", "content": "(continued)"})
    return out


def _as_texts(messages: Sequence[Message]) -> list[Message]:
    """Calls as the text that models write for them, results as what the user says.

    A model imitates what it sees: a call that it writes like this is understood.
    """
    out: list[Message] = []
    names: dict[str, str] = {}
    for message in messages:
        calls = message.get("tool_calls") or ()
        names |= {str(call["id"]): str(call["function"]["name"]) for call in calls}
        if message["role"] == "tool":
            name = names.get(str(message.get("tool_call_id")), "a tool")
            out.append({"role": "user", "content": f"[Result of {name}]\n{message['content']}"})
        elif calls:
            written = "\n".join(_written(call["function"]) for call in calls)
            content = f"{message['content']}\n{written}".strip()
            out.append({"role": message["role"], "content": content})
        else:
            out.append(message)
    return out


def _written(function: Mapping[str, Any]) -> str:
    name = json.dumps(function["name"])
    return f'<tool_call>\n{{"name": {name}, "arguments": {function["arguments"]}}}\n</tool_call>'


def _with_short_ids(message: Message) -> Message:
    """The message with ids of nine letters and digits, the same for the same one."""
    out = dict(message)
    if out.get("tool_call_id"):
        out["tool_call_id"] = _short_id(str(out["tool_call_id"]))
    if out.get("tool_calls"):
        out["tool_calls"] = [{**c, "id": _short_id(str(c["id"]))} for c in out["tool_calls"]]
    return out


def _short_id(call_id: str) -> str:
    if len(call_id) == _ID_LENGTH and call_id.isalnum() and call_id.isascii():
        return call_id
    return hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:_ID_LENGTH]
