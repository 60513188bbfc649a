"""What stands between the marks of a call: a name and arguments, in one of the known notations.

Reads only; which tool is meant and whether the arguments fit is decided elsewhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from local_agent.call_marks import GAP

from . import json_text
from .blocks import Block, blocks_of
from .python_calls import python_calls

_NAME = r"[A-Za-z_][\w.:/-]{0,127}"
_NAME_KEYS = ("name", "tool", "tool_name", "function_name", "action", "function")
_ARGS_KEYS = ("arguments", "parameters", "args", "params", "input", "action_input", "kwargs")
_ALSO_KEYS = frozenset(("id", "type", "index", "call_id", "tool_call_id"))
_INNER_KEYS = ("function", "function_call", "tool_call")
_AROUND_KEYS = frozenset(("tool_calls", "thought"))  # xLAM thinks first
_GUESS = re.compile(
    r"\A[\s\[{]*(?:\"type\"\s*:\s*\"function\"\s*,\s*)?"
    rf"(?:\"(?:{'|'.join(_INNER_KEYS)}|tool_calls)\"\s*:\s*[\s\[{{]*)?"
    rf"\"(?:{'|'.join(_NAME_KEYS)})\"\s*:\s*\"({_NAME})\""
)
_GUESS_TAG = re.compile(rf"\A\s*<(?:function=|function>|invoke name=[\"'])\s*({_NAME})")
_GUESS_HEAD = re.compile(rf"\A\W*(?:call:)?({_NAME})\s*(?:\(|\{{|\[(?:ARGS|CALL_ID)\]|<arg_key>)")
# With what stands between them: Mistral's tokens, those of Kimi and Hunyuan, a fence.
_NAMED = re.compile(
    rf"\A(?:call:|function<tool_sep>)?(?P<name>{_NAME})\s*(?:\[CALL_ID\]\s*\w+\s*)?"
    r"(?:\[ARGS\]\s*|<tool_sep>\s*|<\|tool_call_argument_begin\|>\s*)?"
    r"(?P<fence>```(?:json)?\s*)?(?P<args>\{.*\})(?(fence)\s*```)\s*\Z",
    re.S,
)
_NAME_TAG = re.compile(
    rf"\A(?:<server_name>[^<>]*</server_name>\s*)?<(?P<tag>function|name|tool_name)>\s*(?P<name>{_NAME})\s*</(?P=tag)>\s*"
    r"(?:<(?P<wrap>arguments|parameters|args)>)?(?P<args>.*?)(?:</(?P=wrap)>)?\s*\Z",
    re.S,
)
_PARAMETER = re.compile(
    r"<(?:[|｜]DSML[|｜])?param(?:eter)?(?:=(?P<a>[\w.-]+)|\s+name\s*=\s*[\"'](?P<b>[\w.-]+)[\"'])[^<>]*>"
)
_PARAMETER_END = re.compile(r"</(?:[|｜]DSML[|｜])?param(?:eter)?>")
_ARG_KEY = re.compile(r"<arg_key>\s*(?P<a>[\w.-]+)\s*</arg_key>\s*<arg_value>")
_ARG_END = re.compile(r"</arg_value>")
_SEP = rf"<[|｜]tool{GAP}sep[|｜]>"
_DEEPSEEK = re.compile(
    rf"(?:<[|｜]tool{GAP}call{GAP}begin[|｜]>)?\s*(?:function\s*{_SEP})?(?P<name>{_NAME})\s*"
    rf"(?:{_SEP}|\n)\s*(?:```json\s*)?(?=\{{)"
)
_DEEPSEEK_END = re.compile(rf"<[|｜]tool{GAP}call{GAP}end[|｜]>|\Z")
_TICKED = re.compile(r"`(\{[^`]*\})`")
_BLANKS = re.compile(r"\s*")
_QUOTED = re.compile(r"<\|\"\|>(.*?)<\|\"\|>|<escape>(.*?)<escape>", re.S)


@dataclass(frozen=True, slots=True)
class Written:
    """A call as it was written.

    `args` is the text of a JSON object, or the arguments themselves, None where there are none.
    closed: a mark stood behind them. texts: they were written without quotes, and are whatever
    the schema says. `mended` says what was mended so far.
    """

    name: str
    args: str | Mapping[str, Any] | None
    closed: bool = False
    texts: bool = False
    mended: str = ""


class NotACall(Exception):
    """The text is no call; `name` is the tool it seems to name, if any."""

    def __init__(self, why: str, name: str = "") -> None:
        super().__init__(why)
        self.name = name


def read_calls(
    body: str, name: str = "", *, closed: bool = False, marked: bool = False, keyed: bool = False
) -> list[Written]:
    """The calls that `body` consists of; at least one.

    name: the tool, where the mark before the body says it; the body is then its arguments.
    closed: a mark stood behind it. marked: it stands between marks, so that it must be a call.
    keyed: as a list of `{"tool": {arguments}}`. Raises NotACall.
    """
    text = body.strip()
    if name:
        return [_with_arguments(name, text, closed)]
    if not text:
        raise NotACall("there is nothing in it")
    if fence := re.fullmatch(r"```\w*\s*\n(.*?)\n?\s*```", text, re.S):
        text, closed = fence[1].strip(), True
    if re.match(r"functools\s*\[\s*\{", text):  # as Phi writes it
        text = text.removeprefix("functools").lstrip()
    if text[:1] == "{" or text[:2] in ("[{", "[\n", "[ "):
        return _objects(text, closed, keyed)
    if marked and closed and re.fullmatch(_NAME, text):
        return [Written(text, None, True)]
    for reader in (_marked, _tags, _arg_pairs, _deepseek, _named, _python):
        if calls := reader(text, closed):
            return calls
    raise NotACall("it is no call in a form that is known", guess(text))


def read_block(block: Block) -> list[Written]:
    """The calls in a block. Raises NotACall."""
    mark = block.mark
    marked, keyed = mark is not None and not mark.plain, mark is not None and mark.keyed
    return read_calls(block.body, block.name, closed=block.closed, marked=marked, keyed=keyed)


def guess(body: str) -> str:
    """The tool that a broken call names at its beginning; empty where it names none."""
    for pattern in (_GUESS, _GUESS_TAG, _GUESS_HEAD):
        if found := pattern.match(body):
            return found.group(1)
    return ""


def _with_arguments(name: str, text: str, closed: bool) -> Written:
    if ticked := _TICKED.fullmatch(text):
        return Written(name, ticked[1], True)
    if values := pairs(text, _PARAMETER, _PARAMETER_END):
        if not closed:  # there may have been more of them
            raise NotACall("it does not end", name)
        return Written(name, values, texts=True)
    return Written(name, text or None, closed)


# -- JSON -----------------------------------------------------------------------------------------


def _objects(text: str, closed: bool, keyed: bool) -> list[Written]:
    """Calls as JSON: one object or list, or several one after the other."""
    try:
        value, mended = json_text.read(text, closed=closed)
    except ValueError as exc:
        values = list(_one_by_one(text))
        if len(values) < 2:
            raise NotACall(str(exc), guess(text)) from None
        value, mended = values, ""
    entries = value if isinstance(value, list) else [value]
    if keyed:
        entries = [_as_named(entry) for entry in entries]
    calls = [call for entry in entries for call in _from_value(entry, mended)]
    if not calls:
        raise NotACall("the list is empty")
    return calls


def _one_by_one(text: str) -> Iterator[Any]:
    """JSON values that stand one behind the other; none at all where anything else is there."""
    values = []
    rest = text.strip()
    while rest:
        try:
            value, end = json_text.starts(rest)
        except (ValueError, RecursionError):
            return
        values.append(value)
        rest = rest[end:].lstrip(" \t\r\n,;")
    yield from values


def _as_named(entry: Any) -> Any:
    """`{"tool": {arguments}}`, as Apertus lists its calls, in the usual form."""
    if isinstance(entry, Mapping) and len(entry) == 1:
        ((name, args),) = entry.items()
        if isinstance(args, Mapping) and name not in (*_INNER_KEYS, *_ARGS_KEYS, *_NAME_KEYS):
            return {"name": name, "arguments": args}
    return entry


def _from_value(value: Any, mended: str) -> Iterator[Written]:
    """The call that a JSON value is. Raises NotACall for any other value."""
    if not isinstance(value, Mapping):
        raise NotACall("it is no JSON object")
    if isinstance(several := value.get("tool_calls"), list) and set(value) <= _AROUND_KEYS:
        for one in several:
            yield from _from_value(one, mended)
        return
    rest = set(value) - _ALSO_KEYS
    for key in _INNER_KEYS:
        if rest == {key} and isinstance(value[key], Mapping):
            yield from _from_value(value[key], mended)
            return
    names = [key for key in _NAME_KEYS if key in rest]
    args = [key for key in _ARGS_KEYS if key in rest]
    name = value[names[0]] if len(names) == 1 else None
    if not isinstance(name, str) or not re.fullmatch(_NAME, name.strip()):
        raise NotACall("it has no name of a tool")
    if len(args) > 1 or rest - {names[0], *args}:
        raise NotACall("it is not name and arguments alone", name)
    given = value[args[0]] if args else None
    if not isinstance(given, Mapping | str | None) or is_schema(given):
        raise NotACall("its arguments are no JSON object", name)
    if isinstance(given, str):
        given = given or None
    yield Written(name.strip(), given, True, mended=mended)


def is_schema(args: Any) -> bool:
    """Whether the arguments are a description of arguments: a tool was listed, not called."""
    return (
        isinstance(args, Mapping)
        and args.get("type") == "object"
        and isinstance(args.get("properties"), Mapping)
    )


def is_exact(body: str) -> bool:
    """Whether `body` is one JSON object of a name and an object of arguments, and no more."""
    try:
        value = json_text.loads(body.strip())
    except (ValueError, RecursionError):
        return False
    return isinstance(value, Mapping) and any(
        set(value) == {"name", key} and isinstance(value[key], Mapping) for key in _ARGS_KEYS
    )


# -- other notations ------------------------------------------------------------------------------


def _marked(text: str, closed: bool) -> list[Written]:
    """Calls between marks of their own within it: `<tool_call><function=name>…`."""
    blocks, _ = blocks_of(text)
    if not blocks or any(block.kind != "mark" for block in blocks) or blocks[0].start:
        return []
    gaps = zip(blocks, [*blocks[1:], None], strict=True)
    if any(text[a.end : b.start if b else len(text)].strip(" \t\r\n,;") for a, b in gaps):
        return []
    ends = [block.closed or (closed and block is blocks[-1]) for block in blocks]
    pairs = zip(blocks, ends, strict=True)
    return [
        call for b, end in pairs for call in read_calls(b.body, b.name, closed=end, marked=True)
    ]


def _tags(text: str, closed: bool) -> list[Written]:
    """`<function>name</function>{…}` and the like."""
    if named := _NAME_TAG.match(text):
        return [_with_arguments(named["name"], named["args"].strip(), closed)]
    return []


def pairs(text: str, opening: re.Pattern[str], closing: re.Pattern[str] | str) -> dict[str, str]:
    """The arguments in tags of their own that `text` consists of; none where anything else stands
    between them.

    opening: what a value stands behind, with the name as group `a`, or `b`. closing: what ends it,
    or that as a text with the name as `{a}`. One that is not there is looked for once.
    """
    values: dict[str, str] = {}
    at = 0
    while (at := _blank_end(text, at)) < len(text):
        found = opening.match(text, at)
        if found is None:
            return {}
        groups = found.groupdict()
        name = groups["a"] or groups["b"]
        pattern = closing if isinstance(closing, re.Pattern) else _literal(closing.format(a=name))
        end = pattern.search(text, found.end())
        if end is None or name in values:
            return {}
        values[name] = _trimmed(text[found.end() : end.start()])
        at = end.end()
    return values


def _blank_end(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return found.end() if found else at


def _literal(text: str) -> re.Pattern[str]:
    return re.compile(re.escape(text))


def _trimmed(value: str) -> str:
    """A value without the line break that some models put at both of its ends."""
    return re.sub(r"\A\r?\n|\r?\n\Z", "", value)


def _arg_pairs(text: str, closed: bool) -> list[Written]:
    """`name` and then `<arg_key>…</arg_key><arg_value>…</arg_value>`, as GLM writes it."""
    head = re.match(rf"(?P<name>{_NAME})\s*(?:<tool_sep>\s*)?(?P<rest><arg_key>.*)\Z", text, re.S)
    if not head:
        return []
    values = pairs(head["rest"], _ARG_KEY, _ARG_END)
    if values and not closed:
        raise NotACall("it does not end", head["name"])
    return [Written(head["name"], values, texts=True)] if values else []


def _deepseek(text: str, closed: bool) -> list[Written]:
    """`name<sep>{…}` once or more, each to its closing token or to the end."""
    if not re.search(_SEP, text):
        return []
    calls = []
    at = 0
    while (at := _blank_end(text, at)) < len(text):
        head = _DEEPSEEK.match(text, at)
        if head is None:
            return []
        end = _DEEPSEEK_END.search(text, head.end())
        assert end is not None  # the end of the text is one
        args = text[head.end() : end.start()].strip().removesuffix("```").strip()
        if not args.endswith("}"):
            return []
        calls.append(Written(head["name"], args, closed or bool(end.group())))
        at = end.end()
    return calls


def _named(text: str, closed: bool) -> list[Written]:
    """`name{…}`, with `[ARGS]` between them or `call:` before them."""
    plain = _QUOTED.sub(_as_json, text)
    found = _NAMED.match(plain)
    if not found:
        return []
    try:
        args, mended = json_text.read(found["args"], closed=closed)
    except ValueError as exc:
        raise NotACall(str(exc), found["name"]) from None
    return [Written(found["name"], args, mended=mended)] if isinstance(args, dict) else []


def _as_json(quoted: re.Match[str]) -> str:
    text = quoted[1] if quoted[1] is not None else quoted[2]
    return json.dumps(text, ensure_ascii=False)


def _python(text: str, closed: bool) -> list[Written]:
    return [Written(name, args) for name, args in python_calls(text)]
