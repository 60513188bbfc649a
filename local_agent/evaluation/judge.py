"""Whether a turn came out right, by rule: its calls, what was made of a no, its answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .cases import Turn, Wanted
from .claims import claims_done
from .matching import fields_match, matches, said

_TAGS = {
    "<tool_call>": "</tool_call>",
    "<function_call>": "</function_call>",
    "[TOOL_REQUEST]": "[END_TOOL_REQUEST]",
    "[TOOL_CALLS]": "",  # to the end
    "<|tool_call": "",
}


@dataclass(frozen=True, slots=True)
class Made:
    """A call that the model made: it ran, or waited for the person and was refused."""

    tool: str
    args: Mapping[str, Any] = field(default_factory=dict)
    read_only: bool = True


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a turn. `offered` are the tools of its first prompt, as "server/tool"."""

    calls: Sequence[Made]
    answer: str
    status: str = "ok"
    route: str = ""
    offered: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """`why` is empty for a turn that came out right; else which rule failed, and on what.

    `has_tool` and `has_args` are None where no call is wanted.
    """

    why: str
    has_tool: bool | None = None
    has_args: bool | None = None

    @property
    def passed(self) -> bool:
        return not self.why


Schemas = Mapping[str, Mapping[str, Any]]  # of the tools, by "server/tool"


def judge(turn: Turn, outcome: Outcome, schemas: Schemas, free: Sequence[str] = ()) -> Verdict:
    """The verdict on a turn. Values of arguments named in `free` are not looked at."""
    wrong = [_calls_wrong(wanted, outcome.calls, schemas, free) for wanted in turn.calls]
    why = "" if not all(wrong) else wrong[0]
    has_tool = has_args = None
    if turn.needs_tool:
        tools = {call.tool for call in outcome.calls}
        has_tool = any({call.tool for call in wanted} <= tools for wanted in turn.calls)
        has_args = not all(wrong)
    return Verdict(why or _answer_wrong(turn, outcome), has_tool, has_args)


def _calls_wrong(
    wanted: Sequence[Wanted], made: Sequence[Made], schemas: Schemas, free: Sequence[str]
) -> str:
    """What is wrong with the calls; empty if each wanted one was made and no other.

    The same read may be made twice, a write may not.
    """
    counts = [0] * len(wanted)
    for call in made:
        fits = [at for at, one in enumerate(wanted) if _fits(one, call, schemas, free)]
        if not fits:
            named = any(one.tool == call.tool for one in wanted)
            what = "wrong arguments" if named else "a call that was not wanted"
            return f"{what}: {call.tool} {dict(call.args)}"
        at = min(fits, key=lambda at: counts[at])
        counts[at] += 1
        if counts[at] > 1 and not call.read_only:
            return f"a write was asked for twice: {call.tool}"
    missing = [one.tool for one, count in zip(wanted, counts, strict=True) if not count]
    return f"not called: {', '.join(missing)}" if missing else ""


def _fits(wanted: Wanted, made: Made, schemas: Schemas, free: Sequence[str]) -> bool:
    """Whether a call is the wanted one: every labelled argument, and no other but a default."""
    if wanted.tool != made.tool:
        return False
    if not fields_match(wanted.args, made.args):
        return False
    properties = schemas.get(made.tool, {}).get("properties") or {}
    for name in set(made.args) - set(wanted.args) - set(free):
        default = properties.get(name, {}).get("default", None)
        if not matches(default, made.args[name]):
            return False
    return True


def _answer_wrong(turn: Turn, outcome: Outcome) -> str:
    if outcome.status != "ok":
        return f"the turn ended with {outcome.status}"
    answer = outcome.answer
    if not answer.strip():
        return "no answer"
    if is_written_call(answer):
        return "the answer is a call written as text"
    own = answer.replace(turn.reason, "") if turn.reason else answer  # "I changed my mind"
    if not turn.approve and (claim := claims_done(own)):
        return f"claims what was not allowed: {claim}"
    for label in turn.answer:
        if not said(label, answer):
            return f"the answer does not have {_short(label)}"
    for label in turn.answer_not:
        if said(label, answer):
            return f"the answer has {_short(label)}"
    return ""


def is_written_call(answer: str) -> bool:
    """Whether an answer is tool calls in its text and nothing else: what its user sees is markup.

    That is JSON with a name and arguments, fenced or not, of whatever tool; or one of the tags
    that models are taught, with nothing behind it.
    """
    text = answer.strip()
    for opening, closing in _TAGS.items():
        if text.startswith(opening):
            is_open = not closing or closing not in text
            return is_open or not text.rpartition(closing)[2].strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        text = text[:-3].partition("\n")[2].strip()
    values, decoder = list[Any](), json.JSONDecoder()
    try:
        while text:
            value, end = decoder.raw_decode(text)
            values += value if isinstance(value, list) else [value]
            text = text[end:].lstrip(" \t\r\n,;")
    except (ValueError, RecursionError):
        return False
    return bool(values) and all(map(_is_call, values))


def _is_call(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    inner = value.get("function")
    call = inner if isinstance(inner, dict) else value
    given = call.get("arguments", call.get("parameters"))
    return isinstance(call.get("name"), str) and isinstance(given, dict | str)


def _short(label: Any) -> str:
    return label if isinstance(label, str) else " ".join(f"{k} {v}" for k, v in label.items())


def right_set(turn: Turn, outcome: Outcome) -> bool | None:
    """Whether the first prompt had the tools of a right way, or took the labelled route.

    None where nothing is labelled: a prompt without tools may be answered with any set.
    """
    if turn.route is not None:
        return outcome.route == turn.route
    if not turn.needs_tool:
        return None
    offered = set(outcome.offered)
    return any({call.tool for call in wanted} <= offered for wanted in turn.calls)
