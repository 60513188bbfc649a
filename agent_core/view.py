"""The view: the stored messages as a model call gets them, by marks that are stored beside them.

    [system, tools] + [summary and facts, in the first kept prompt]
                    + [messages after it, older results as stubs] + [this turn]

A server reads everything anew behind the first byte that changed. So nothing here is decided by a
measure that moves: the same messages and marks give the same view, and more messages behind them
leave what was before as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from agent_core.clip_text import head_and_tail
from agent_core.cut import clipped, cut
from agent_core.fold import fence
from agent_core.limits import Limits
from agent_core.mend import mend
from context import old_end, stub, text_of

LAST_CALL = "[No further tool calls in this turn: answer now from what is known.]"
NO_TOOL = "[No tool is needed for this. Answer directly.]"
SAID = "[You made this call again: its result is above. Answer from it.]"
EMPTY = "[Your reply was empty. Answer now.]"
SHOWN = "shown"  # of a result's additional_kwargs: the characters it is shown in, if it has more
LEFT_OUT = 0  # the cut of a message whose calls are left out with their results
REPEATED = -1  # the same, where they say what is said above them: nothing is hidden by that
MADE_AGAIN = "+"  # behind the id of a result among the nudged: it has `SAID` behind it
NOT_SHOWN = "The earlier turns are not shown; they can be searched."
BLOCK = "summary"  # among the cuts: the text before the first prompt
Kind = Literal["stub", "clipped", "cut"]


@dataclass(frozen=True, slots=True)
class Marks:
    """What is decided of how earlier messages are shown; the fields of the state of these names.

    `stubbed_upto` is like `compacted_upto`, but for results of any turn. `cuts` has the characters
    a message is cut to, `LEFT_OUT` or `REPEATED` where it is not shown with its results, and under
    the id with "#" how many calls of it are. `nudged` are the results with `LAST_CALL` behind
    them, the prompts with `NO_TOOL`, and with `MADE_AGAIN` the results with `SAID`. `steps` counts
    how often the view was made shorter.
    """

    summary: str = ""
    summary_upto: str = ""
    facts: Sequence[str] = ()
    compacted_upto: str = ""
    stubbed_upto: str = ""
    pinned: Sequence[str] = ()
    cuts: Mapping[str, int] = field(default_factory=dict)
    nudged: Sequence[str] = ()
    steps: int = 0

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Marks:
        """The marks in the values of a state; what is missing there is empty."""
        return cls(**{f.name: values[f.name] for f in fields(cls) if values.get(f.name)})

    def all(self) -> dict[str, Any]:
        """The marks as plain JSON values by their names."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}

    def after(self, before: Marks) -> Marks:
        """These marks as one step behind `before`, where they are not the same."""
        return self if self == before else replace(self, steps=before.steps + 1)

    def changes(self, before: Marks) -> dict[str, Any]:
        """What has to be written into a state that has the marks `before`."""
        old = before.all()
        return {name: new for name, new in self.all().items() if new != old[name]}


def _plain(value: Any) -> Any:
    if isinstance(value, str | int):
        return value
    return dict(value) if isinstance(value, Mapping) else list(value)


@dataclass(frozen=True, slots=True)
class View:
    """The messages of a request without the system prompt, and what was done to them.

    `kinds` says by message id what is not shown whole; `block` is the text that stands before the
    first prompt; `hides` whether anything of the thread is not shown.
    """

    messages: list[AnyMessage]
    kinds: Mapping[str, Kind]
    block: str
    hides: bool


def since(messages: Sequence[AnyMessage], upto: str) -> Sequence[AnyMessage]:
    """The messages behind the one with the id `upto`, all where it is not there.

    Looked for from the end: that costs what is kept and not what the thread has.
    """
    if upto:
        for at in range(len(messages) - 1, -1, -1):
            if messages[at].id == upto:
                return messages[at + 1 :]
    return messages


def last_prompt(messages: Sequence[AnyMessage]) -> int:
    """The index of the last prompt; 0 where there is none."""
    for at in range(len(messages) - 1, -1, -1):
        if isinstance(messages[at], HumanMessage):
            return at
    return 0


def render(messages: Sequence[AnyMessage], marks: Marks, limits: Limits) -> View:
    """The stored `messages` as the marks say."""
    kept = since(messages, marks.summary_upto)
    kinds: dict[str, Kind] = {}
    shown = mend(as_shown(kept, marks, limits, kinds))
    block = _block(messages, kept, marks)
    if block and shown and isinstance(first := shown[0], HumanMessage):
        content = f"{block}{text_of(first.content)}"
        shown[0] = first.model_copy(update={"content": content})
    return View(shown, kinds, block, bool(kinds) or len(kept) < len(messages))


def as_shown(
    kept: Sequence[AnyMessage], marks: Marks, limits: Limits, kinds: dict[str, Kind]
) -> list[AnyMessage]:
    """The `kept` messages one by one as the marks say; `kinds` takes what is not whole."""
    old = stub_end(kept, marks, limits)
    out: list[AnyMessage] = []
    skipping = False
    for at, message in enumerate(kept):
        if isinstance(message, ToolMessage):
            if not skipping:
                out.append(shown_result(message, at < old, marks, limits, kinds))
            continue
        message_id = message.id or ""
        cut_to = marks.cuts.get(message_id)
        skipping = cut_to in (LEFT_OUT, REPEATED)
        if not skipping:
            out.append(_other(message, marks, kinds))
        elif cut_to == LEFT_OUT:
            kinds[message_id] = "cut"
    return out


def stub_end(kept: Sequence[AnyMessage], marks: Marks, limits: Limits) -> int:
    """How many of the first `kept` messages have their results as stubs."""
    ends = [0]
    if limits.strategy == "compact":
        upto = None if limits.step == "turn" else marks.compacted_upto
        ends.append(0 if upto == "" else old_end(kept, limits.keep_turns, upto))
    if marks.stubbed_upto:
        ends.append(old_end(kept, 0, marks.stubbed_upto))
    return max(ends)


def shown_result(
    message: ToolMessage, is_old: bool, marks: Marks, limits: Limits, kinds: dict[str, Kind]
) -> AnyMessage:
    """A result as a stub, clipped, cut or whole; what it is not whole as is put into `kinds`."""
    shown: AnyMessage = message
    message_id, handle = message.id or "", message.additional_kwargs.get("handle", "")
    text = text_of(message.content)
    limit = marks.cuts.get(message_id)
    is_pinned = bool(handle) and handle in marks.pinned
    clip = None if is_pinned else message.additional_kwargs.get(SHOWN)
    chars = limits.keep_chars if limit is None else min(limits.keep_chars, limit)
    if is_old and not is_pinned and len(text) > chars:
        kinds[message_id] = "stub"
        shown = _with_tail(stub(message, chars), f" [{handle}]" if handle else "")
    elif limit is not None and len(text) > limit:
        kinds[message_id] = "cut"
        shown = _with_tail(cut(message, limit), _whole_as(handle))
    elif clip is not None and len(text) > clip:
        kinds[message_id] = "clipped"
        clip_text = message.model_copy(update={"content": clipped(text, clip)})
        shown = _with_tail(clip_text, _whole_as(handle))
    tail = f"\n\n{SAID}" if message_id + MADE_AGAIN in marks.nudged else ""
    tail += f"\n\n{LAST_CALL}" if message_id in marks.nudged else ""
    return _with_tail(shown, tail)


def _whole_as(handle: str) -> str:
    return f"\n[cut; the whole is {handle}]" if handle else ""


def _with_tail(message: AnyMessage, tail: str) -> AnyMessage:
    if not tail:
        return message
    return message.model_copy(update={"content": text_of(message.content) + tail})


def _other(message: AnyMessage, marks: Marks, kinds: dict[str, Kind]) -> AnyMessage:
    """A prompt, an answer or a message with calls."""
    message_id = message.id or ""
    calls = marks.cuts.get(f"{message_id}#")
    if calls is not None and isinstance(message, AIMessage):
        more = len(message.tool_calls) - calls
        text = f"{text_of(message.content)}\n[{more} more calls are not shown]".strip()
        update = {"content": text, "tool_calls": message.tool_calls[:calls]}
        kinds[message_id] = "cut"
        message = message.model_copy(update=update)
    chars = marks.cuts.get(message_id)
    if chars is not None:
        kinds[message_id] = "cut"
        message = cut(message, chars)
    is_nudged = isinstance(message, HumanMessage) and message_id in marks.nudged
    return _with_tail(message, f"\n\n{NO_TOOL}") if is_nudged else message


# -- what stands for the messages that are not shown ----------------------------------------------


def _block(messages: Sequence[AnyMessage], kept: Sequence[AnyMessage], marks: Marks) -> str:
    """The summary, the facts and the pinned results of the folded messages; empty without any."""
    folded = len(messages) - len(kept)
    pinned = _pinned(messages[:folded], marks.pinned) if marks.pinned and folded else ""
    if not (folded or marks.summary or marks.facts):
        return ""
    summary = marks.summary if marks.summary or marks.facts else NOT_SHOWN
    block = fence(summary, marks.facts) + pinned
    return head_and_tail(block, marks.cuts.get(BLOCK, len(block)))


def _pinned(folded: Sequence[AnyMessage], handles: Sequence[str]) -> str:
    """The pinned results among the folded messages, whole."""
    wanted = set(handles)
    found: dict[str, str] = {}
    for message in reversed(folded):
        if wanted.issubset(found):
            break
        handle = message.additional_kwargs.get("handle", "")
        if isinstance(message, ToolMessage) and handle in wanted:
            found[handle] = text_of(message.content)
    return "".join(f"[result {h}, kept whole]\n{found[h]}\n\n" for h in handles if h in found)
