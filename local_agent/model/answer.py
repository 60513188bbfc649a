"""Puts one answer together out of the pieces of its stream, however a server bends the format."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import AIMessage
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata

from .failures import ServerSaid
from .holding import Holder
from .thinking import Kind, ThinkSplitter

# Of llama.cpp's timings: tokens taken from the cache, read, written, and milliseconds for both.
_TIMINGS = ("cache_n", "prompt_n", "predicted_n", "prompt_ms", "predicted_ms")

_LIMITS = ("max_tokens", "model_length", "max_output_tokens")  # "length" in other words

OnDelta = Callable[[Literal["text", "thinking"], str], None]


@dataclass(slots=True)
class RawCall:
    """A tool call as it came: nothing parsed, nothing made up."""

    name: str = ""
    id: str = ""
    args: str = ""

    def is_whole(self) -> bool:
        """Whether the argument text is complete JSON."""
        try:
            json.loads(self.args)
        except ValueError:
            return False
        return True


class Answer:
    """Collects chunks (plain dicts); `message()` is the whole when `finish` is set.

    `names` are those of the tools: text that may be a call of one is not told to `on_delta`.
    """

    def __init__(
        self,
        on_delta: OnDelta | None = None,
        *,
        opens_thinking: bool = False,
        names: Sequence[str] = (),
    ) -> None:
        self.finish: str | None = None
        self.model = ""
        self.started = False
        self.calls: list[RawCall] = []
        self._tell = on_delta or (lambda kind, text: None)
        self._split = ThinkSplitter(opens_thinking)
        self._names = names
        self._holder = self._new_holder()
        self._reasoning = ""
        self._by_index: dict[int, RawCall] = {}
        self._usage: Mapping[str, Any] = {}
        self._timings: Mapping[str, Any] = {}

    @property
    def text(self) -> str:
        """The text of the answer so far, without reasoning."""
        return self._split.text

    @property
    def closed_only(self) -> bool:
        """Whether reasoning was closed that was never opened: the template opens it."""
        return self._split.closed_only

    def _new_holder(self) -> Holder:
        return Holder(lambda text: self._tell("text", text), self._names)

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Take a chunk. Raises ServerSaid for an error in the place of one."""
        choices = chunk.get("choices")
        if chunk.get("error") or (choices is None and isinstance(chunk.get("message"), str)):
            raise ServerSaid(chunk.get("error") or chunk["message"])
        if isinstance(chunk.get("model"), str):
            self.model = chunk["model"]
        for name in ("usage", "timings"):
            if isinstance(chunk.get(name), Mapping):
                setattr(self, f"_{name}", chunk[name])
        if not isinstance(choices, list) or not choices:
            return
        choice = choices[0]
        if not isinstance(choice, Mapping):
            return
        delta = choice.get("delta") or choice.get("message") or {}
        if isinstance(delta, Mapping):
            self._add_delta(delta)
        if choice.get("finish_reason"):
            finish = str(choice["finish_reason"])
            self.finish = "length" if finish in _LIMITS else finish

    def _add_delta(self, delta: Mapping[str, Any]) -> None:
        for key in ("reasoning_content", "reasoning"):
            thought = delta.get(key)
            if isinstance(thought, str) and thought:
                self.started = True
                self._reasoning += thought
                self._tell("thinking", thought)
                break  # some servers send both names with the same text
        content = delta.get("content")
        if isinstance(content, list):
            content = "".join(part.get("text") or "" for part in content if isinstance(part, dict))
        if isinstance(content, str) and content:
            self.started = True
            closed_only = self._split.closed_only
            pieces = self._split.feed(_clean(content))
            if self._split.closed_only != closed_only:  # what is held was reasoning, too
                self._holder = self._new_holder()
            self._pass_on(pieces)
        for entry in delta.get("tool_calls") or []:
            if isinstance(entry, Mapping):
                self.started = True
                self._add_call(entry)

    def _pass_on(self, pieces: Sequence[tuple[Kind, str]]) -> None:
        for kind, text in pieces:
            if kind == "thinking":
                self._tell(kind, text)
            else:
                self._holder.feed(text)

    def _add_call(self, entry: Mapping[str, Any]) -> None:
        function = entry.get("function")
        function = function if isinstance(function, Mapping) else {}
        name, call_id = str(function.get("name") or ""), str(entry.get("id") or "")
        args = function.get("arguments")
        if args is not None and not isinstance(args, str):
            args = json.dumps(args, ensure_ascii=False)  # some servers send the object itself
        call = self._call_for(entry.get("index"), name, call_id, args or "")
        call.name = call.name or name
        call.id = call.id or call_id
        call.args += args or ""

    def _call_for(self, index: Any, name: str, call_id: str, args: str) -> RawCall:
        """The call that a piece continues, or a new one.

        Pieces belong together by index; without one by id, then to the last call. One index may
        be used for two calls: another id, another name, or arguments behind whole ones.
        """
        known = self._by_index.get(index) if isinstance(index, int) else self._by_id(call_id)
        if known is None and not isinstance(index, int) and not call_id and not name:
            known = self.calls[-1] if self.calls else None
        if known is not None:
            other_id = bool(call_id and known.id and call_id != known.id)
            other_name = bool(name and known.name and name != known.name)
            again = bool(name and args and known.name == name and known.is_whole())
            if not (other_id or other_name or again):
                return known
        call = RawCall()
        self.calls.append(call)
        if isinstance(index, int):
            self._by_index[index] = call
        return call

    def _by_id(self, call_id: str) -> RawCall | None:
        return next((call for call in self.calls if call_id and call.id == call_id), None)

    def end(self) -> None:
        """The stream is over: give out what was kept back."""
        self._pass_on(self._split.finish(whole=self.finish == "stop"))

    def message(self) -> AIMessage:
        """The answer. Its calls are raw, in `additional_kwargs["raw_tool_calls"]`.

        Text that was not told because it may be a call is in `additional_kwargs["unshown"]` too.
        The id is ours: servers give the same one twice, and equal ids overwrite each other in a
        thread. `response_metadata` has finish_reason, model_name, and, where the server sent
        them, timings; only_thinking where there is reasoning and nothing else.
        """
        metadata: dict[str, Any] = {"finish_reason": self.finish, "model_name": self.model}
        if self._timings:
            metadata["timings"] = {k: self._timings[k] for k in _TIMINGS if k in self._timings}
        if (self._reasoning or self._split.thinking) and not self.text.strip() and not self.calls:
            metadata["only_thinking"] = True
        raw = [{"id": c.id, "name": c.name, "args": c.args} for c in self.calls]
        kwargs: dict[str, Any] = {"raw_tool_calls": raw} if raw else {}
        if unshown := self._holder.rest():
            kwargs["unshown"] = unshown
        return AIMessage(
            content=self.text,
            id=str(uuid.uuid4()),
            additional_kwargs=kwargs,
            response_metadata=metadata,
            usage_metadata=usage_of(self._usage),
        )


def usage_of(usage: Mapping[str, Any]) -> UsageMetadata | None:
    """The token counts of an answer; None where the server gave none, or only zeros."""
    read, written = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    if not read and not written:
        return None
    result = UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)
    details = usage.get("prompt_tokens_details")
    if isinstance(details, Mapping) and isinstance(details.get("cached_tokens"), int):
        result["input_token_details"] = InputTokenDetails(cache_read=details["cached_tokens"])
    return result


def _count(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) and value > 0 else 0


def _clean(text: str) -> str:
    """Half surrogate pairs can be neither stored nor sent."""
    return text.encode("utf-8", "replace").decode("utf-8")
