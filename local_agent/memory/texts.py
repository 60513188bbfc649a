"""What of a thread can be searched: its prompts, answers, results and calls, each as one text."""

from __future__ import annotations

import hashlib
import json
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from local_agent.memory.raw import text_in

IN_FULL = 50  # messages at the end of a thread whose texts are compared
PROMPT, ANSWER, RESULT, CALL = "prompt", "answer", "result", "call"


@dataclass(frozen=True, slots=True)
class Text:
    """A text of a thread. `handle` is that of the call it belongs to (`r7`), empty for the others.

    `turn` counts from 1; it is 0 for what stands before the first prompt.
    """

    kind: str
    handle: str
    turn: int
    text: str

    @property
    def digest(self) -> bytes:
        """Eight bytes that tell it from every other text at its place."""
        whole = "\0".join((self.kind, self.handle, str(self.turn), self.text))
        return hashlib.blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=8).digest()

    def packed(self) -> bytes:
        """The text as it is stored beside the index of words."""
        return zlib.compress(self.text.encode("utf-8", "surrogatepass"))


def unpacked(stored: bytes) -> str:
    """The text that was stored; nothing for what is none, so that it hides no other text."""
    try:
        return zlib.decompress(stored).decode("utf-8", "surrogatepass")
    except (zlib.error, ValueError, TypeError):
        return ""


def plain(message: Any) -> Mapping[str, Any]:
    """A message of LangChain as the mapping of its fields; one that is a mapping as it is."""
    if isinstance(message, Mapping):
        return message
    names = ("type", "id", "content", "tool_calls", "tool_call_id", "additional_kwargs")
    return {name: getattr(message, name, None) for name in names}


def marks_of(messages: Sequence[Any], *counts: int) -> list[str]:
    """Tells so many of the first messages, for each count: whether more were only added since.

    By their ids and lengths, and the last ones by their texts: a correction cuts off what came
    behind it, so nothing further back is replaced in its place. This takes 1 ms for 4,000 messages
    where a digest of all texts takes 10.
    """
    ids, contents = _ids_and_contents(messages)
    lengths = array("Q", map(len, contents))
    marks = []
    for count in counts:
        mark = hashlib.blake2b(lengths[:count].tobytes(), digest_size=12)
        last = repr(contents[max(0, count - IN_FULL) : count])
        mark.update("\0".join((*ids[:count], last)).encode("utf-8", "surrogatepass"))
        marks.append(mark.hexdigest())
    return marks


def _ids_and_contents(messages: Sequence[Any]) -> tuple[list[str], list[Any]]:
    try:
        return [m.id or "" for m in messages], [m.content for m in messages]
    except AttributeError:  # some are the fields alone
        fields = [plain(m) for m in messages]
        return [str(m.get("id") or "") for m in fields], [m.get("content") or "" for m in fields]


@dataclass(slots=True)
class Reader:
    """Takes the texts out of messages, in order; knows how many turns and calls came before."""

    turns: int = 0
    calls: int = 0
    _handles: dict[str, str] = field(default_factory=dict)

    def read(self, messages: Iterable[Any]) -> list[Text]:
        """The texts of the messages that come next."""
        return [text for message in messages for text in self._read(plain(message))]

    def _read(self, message: Mapping[str, Any]) -> Iterator[Text]:
        text = text_in(message)
        kwargs = message.get("additional_kwargs") or {}
        match message["type"]:
            case "human":
                self.turns += 1
                yield Text(PROMPT, "", self.turns, text)
            case "tool":
                handle = kwargs.get("handle") or self._handles.get(str(message.get("tool_call_id")))
                yield Text(RESULT, str(handle or ""), self.turns, text)
            case "ai":
                if text.strip():
                    yield Text(ANSWER, "", self.turns, text)
                self.calls = int(kwargs.get("first_call") or self.calls + 1) - 1
                for call in message.get("tool_calls") or []:
                    yield self._call(call)

    def _call(self, call: Mapping[str, Any]) -> Text:
        self.calls += 1
        handle = self._handles[str(call.get("id"))] = f"r{self.calls}"
        return Text(CALL, handle, self.turns, f"{call.get('name')} {_spelt(call.get('args'))}")


def _spelt(value: Any) -> str:
    """A JSON value as text to be found: strings as they are, without the escapes of JSON."""
    match value:
        case str():
            return value
        case Mapping():
            return ", ".join(f"{key}: {_spelt(item)}" for key, item in value.items())
        case list() | tuple():
            return ", ".join(map(_spelt, value))
        case _:
            return json.dumps(value, default=str)
