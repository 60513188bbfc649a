"""A document as Markdown, to be read: turns with their times, calls and results in fences.

Nothing in a text can leave its place: fences are longer than any in what they hold, prompts are
quoted, and so is an answer that has headings or HTML, or leaves a fence open.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from agent_core.turn import handles_of
from context import text_of
from local_agent.transfer.document import Document

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)
_TICKS = re.compile(r"`+")
# What would be taken for a part of the file: a heading, a line under one, HTML, a definition.
_WILD = re.compile(r"^ {0,3}(?:#|=+\s*$|-+\s*$|\[[^\]]*\]:)|<[!/?A-Za-z]", re.MULTILINE)
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")
_ENDINGS = {
    "step_limit": "Stopped at the allowed number of model calls.",
    "loop": "Stopped: the same call came again and again.",
    "cancelled": "Stopped by the user.",
    "timeout": "Stopped at the time limit.",
    "error": "Failed.",
}
Turn = tuple[datetime | None, list[AnyMessage]]


def to_markdown(document: Document, visible: Callable[[str], str], notes: Sequence[str]) -> str:
    """The text. `visible` makes characters that nobody sees visible; `notes` stand at the top."""
    return _Writer(document, visible).text(notes)


def turns_of(document: Document) -> list[Turn]:
    """The turns where the thread stands, each with the time of its start where that is known.

    Messages before the first prompt are a turn too.
    """
    begun = {step.id: step.time for step in document.steps if step.is_start}
    times: dict[str, datetime] = {}
    for step, before in zip(document.steps[1:], document.steps, strict=False):
        if before.id in begun:
            times |= {m.id or "": before.time for m in step.added if isinstance(m, HumanMessage)}
    turns: list[Turn] = []
    for message in document.messages:
        if isinstance(message, HumanMessage) or not turns:
            turns.append((times.get(message.id or ""), []))
        turns[-1][1].append(message)
    return turns


class _Writer:
    def __init__(self, document: Document, visible: Callable[[str], str]) -> None:
        self._document = document
        self._visible = visible
        self._handles = {m.id: handle for handle, m in handles_of(document.messages).items()}
        self._by_call = {
            m.tool_call_id: self._handles[m.id]
            for m in document.messages
            if isinstance(m, ToolMessage) and m.id in self._handles
        }
        self._model = document.model

    def text(self, notes: Sequence[str]) -> str:
        return "\n\n".join([*self._head(notes), *self._body()]) + "\n"

    def _head(self, notes: Sequence[str]) -> Iterator[str]:
        document = self._document
        yield f"# {self._escaped(document.title or document.name)}"
        rows = [f"thread: {self._code(document.name)}", f"begun: {_time(document.created)}"]
        if document.parent:
            rows.append(f"copied from: {self._code(document.parent)}")
        if document.model:
            rows.append(f"model: {self._code(document.model)}")
        rows.append(f"turns: {document.turns}, messages: {len(document.messages)}")
        yield "\n".join(f"- {row}" for row in [*rows, *map(self._escaped, notes)])

    def _body(self) -> Iterator[str]:
        summary = str(self._document.state.get("summary") or "")
        if summary:
            yield "## Summary of earlier turns\n\nWhat the model gets in place of the oldest turns."
            yield _quoted(self._visible(summary))
        number = self._document.left_out
        for time, messages in turns_of(self._document):
            if isinstance(messages[0], HumanMessage):
                number += 1
                yield f"## Turn {number}" + (f", {_time(time)}" if time else "")
            else:
                yield "## Before the first prompt"
            for message in messages:
                yield from self._message(message)

    def _message(self, message: AnyMessage) -> Iterator[str]:
        if isinstance(message, HumanMessage):
            yield _quoted(self._visible(text_of(message.content)))
        elif isinstance(message, ToolMessage):
            yield from self._result(message)
        elif isinstance(message, AIMessage):
            yield from self._reply(message)
        else:
            yield f"**{message.type}**"
            yield _quoted(self._visible(text_of(message.content)))

    def _reply(self, message: AIMessage) -> Iterator[str]:
        model = str(message.response_metadata.get("model_name") or self._model)
        if model != self._model:
            self._model = model
            yield f"*From here on by {self._code(model)}.*"
        text = self._visible(text_of(message.content)).strip()
        if text:
            if _is_wild(text):  # quoted as a prompt is, so it says whose it is
                yield "**Answer:**"
                yield _quoted(text)
            else:
                yield text
        for call in message.tool_calls:
            handle = self._by_call.get(call["id"] or "", "")
            yield f"**Call{f' {handle}' if handle else ''}:** {self._code(call['name'])}"
            args = json.dumps(call["args"], ensure_ascii=False, indent=2, default=str)
            yield _fenced(self._visible(args), "json")
            if not handle:
                yield "*It has no result.*"
        status = str(message.additional_kwargs.get("status") or "ok")
        if status != "ok":
            error = str(message.additional_kwargs.get("error") or "")
            ending = _ENDINGS.get(status, status)
            yield f"*{self._escaped(' '.join([ending, *error.split()]))}*"

    def _result(self, message: ToolMessage) -> Iterator[str]:
        text = self._visible(text_of(message.content))
        outcome = str(message.additional_kwargs.get("outcome") or message.status)
        handle = self._handles.get(message.id, "")
        size = f"{len(text)} character{'' if len(text) == 1 else 's'}"
        what = f"**Result{f' {handle}' if handle else ''}:** {self._escaped(outcome)}, {size}"
        edited = message.additional_kwargs.get("edited")
        yield f"{what}, edited by the user" if edited else what
        yield _fenced(text, "text")

    def _escaped(self, text: str) -> str:
        return _SPECIAL.sub(r"\\\1", " ".join(self._visible(text).split()))

    def _code(self, text: str) -> str:
        """A span of code that the text cannot end."""
        text = " ".join(self._visible(text).split()) or " "
        ticks = "`" * (1 + max(map(len, _TICKS.findall(text)), default=0))
        pad = " " if text.startswith("`") or text.endswith("`") else ""
        return f"{ticks}{pad}{text}{pad}{ticks}"


def _fenced(text: str, kind: str) -> str:
    """A block that the text cannot end: its fence is longer than any run of its sign in it."""
    fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(text)), default=0))
    return f"{fence}{kind}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}"


def _quoted(text: str) -> str:
    """A quotation: whatever is begun in it ends with it."""
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def _is_wild(text: str) -> bool:
    """Whether the text, as it is, could be taken for a part of the file or swallow the rest."""
    outside = []
    opened = ""
    for line in text.split("\n"):
        fence = _FENCE.match(line)
        if opened:
            mark = line.strip()
            if fence and set(mark) == {opened[0]} and len(mark) >= len(opened):
                opened = ""
        elif fence:
            opened = fence[1]
        else:
            outside.append(line)
    return bool(opened) or bool(_WILD.search("\n".join(outside)))


def _time(moment: datetime) -> str:
    return moment.astimezone().strftime("%Y-%m-%d %H:%M %z")
