"""Puts one request together: system prompt, tools, and the view that fits beside them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import AnyMessage, SystemMessage, ToolMessage

from agent_core.fit import CHARS_A_TOKEN, ceiling, fit, shown_chars
from agent_core.limits import Limits
from agent_core.offer import Offer, free_name, lookups_beside, offer
from agent_core.ports import Tool
from agent_core.recall import FIND_TOOLS, Lookup, Outcome, answer
from agent_core.select import Tokens, select
from agent_core.sent import with_line
from agent_core.view import SHOWN, Marks, View, as_shown, last_prompt, render
from context import PromptTooLong, Window, text_of

LEAST_LOOKUP, MOST_LOOKUP = 400, 4000  # characters of what a lookup gives at once


@dataclass(frozen=True, slots=True)
class Request:
    """What goes to the model, and what goes into the state because of it.

    `tokens` is the estimate of the whole. `notices` are for the user, said for the first time.
    """

    system: SystemMessage
    view: View
    offer: Offer
    tokens: int
    update: dict[str, Any]
    notices: tuple[str, ...] = ()

    @property
    def messages(self) -> list[AnyMessage]:
        return [self.system, *self.view.messages]

    def ending(self, line: str) -> Request:
        """The request with `line` behind its last message; the same without one."""
        if not line:
            return self
        return replace(self, view=replace(self.view, messages=with_line(self.view.messages, line)))


class Composer:
    """Composes the requests of all threads.

    `lookups` are the built-in tools that look things up, by the names that the model sees; `find`
    is the one that finds tools, which is among the tools of a set that is not whole.
    """

    def __init__(
        self, window: Window, system_prompt: str, limits: Limits, tool_names: Collection[str]
    ) -> None:
        self.window = window
        self.limits = limits
        self.system = SystemMessage(system_prompt)
        named = lookups_beside(tool_names)
        self.lookups: dict[str, Lookup] = {name: lookup for name, (lookup, _) in named.items()}
        self._own_names = {name: own for name, (_, own) in named.items()}
        self.find = replace(FIND_TOOLS, name=free_name(FIND_TOOLS.name, tool_names))
        self._offers: dict[tuple[Any, ...], Offer] = {}
        self._said: set[int] = set()

    def offer(self, tools: Sequence[Tool], *, lookup: bool) -> Offer:
        """The tools of a prompt; the same ones while tools and window are the same."""
        window = self.window
        key = (window.size, window.tool_scale, lookup, *(tool.name for tool in tools))
        if key not in self._offers:
            lookups = tuple(self.lookups.values()) if lookup else ()
            self._offers[key] = offer(tools, lookups, window, shorten=self.limits.shorten)
        return self._offers[key]

    @property
    def built_in(self) -> dict[str, Lookup]:
        """The tools that the graph answers itself, by the names that the model sees."""
        return {**self.lookups, self.find.name: self.find}

    def room(self, offered: Offer) -> int:
        """The tokens that messages may have beside the system prompt and the tools."""
        fixed = self.window.tokens([self.system]) + self.window.tool_tokens(offered.weight)
        return self.window.room(fixed)

    def marks(self, values: Mapping[str, Any]) -> Marks:
        """The marks of a thread; other strategies than "compact" know nothing of a summary."""
        marks = Marks.of(values)
        if self.limits.strategy == "compact":
            return marks
        return replace(marks, summary="", summary_upto="", facts=())

    def compose(
        self,
        values: Mapping[str, Any],
        tools: Sequence[Tool],
        *,
        part: float = 1.0,
        bare: bool = False,
    ) -> Request:
        """The request for the state `values`, its messages in `part` of the room.

        With `bare` there is no tool in it, not even to look something up. Raises `PromptTooLong`.
        """
        marks, messages = self.marks(values), values["messages"]
        had_lookup = has_lookup = bool(values.get("lookup"))
        while True:
            offered = self.offer(() if bare else tools, lookup=has_lookup and not bare)
            room = int(self.room(offered) * part)
            if room <= 0:
                raise PromptTooLong(self.window.size - room, self.window.size)
            chosen = select(messages, self.limits, self._shown_tokens(marks), room)
            fitted = fit(chosen, marks, self.limits, self.window, room)
            hides = fitted.view.hides or len(chosen) < len(messages)
            if has_lookup or not hides:
                break
            has_lookup = True
        update = fitted.marks.changes(marks)
        if has_lookup and not had_lookup:
            update["lookup"] = True
        tokens = fitted.tokens + self.window.room(0) - self.room(offered)
        notices = [*self._of_tools(offered), *_of_fold(fitted.folded)]
        prompt = messages[last_prompt(messages)].id or ""
        if prompt in fitted.marks.cuts and prompt not in marks.cuts:
            notices.append("The prompt is longer than the context: its middle is cut out.")
        return Request(self.system, fitted.view, offered, tokens, update, tuple(notices))

    def measure(self, values: Mapping[str, Any], tools: Sequence[Tool]) -> tuple[int, int]:
        """The tokens of the view as the marks are, and the room for it."""
        view = render(values["messages"], self.marks(values), self.limits)
        offered = self.offer(tools, lookup=bool(values.get("lookup")))
        return self.window.tokens(view.messages), self.room(offered)

    def result_tokens(self, values: Mapping[str, Any], tools: Sequence[Tool]) -> int:
        """The share of what a view may have that one tool result may take when it arrives."""
        offered = self.offer(tools, lookup=bool(values.get("lookup")))
        most = ceiling(self.room(offered), self.marks(values).steps)
        return int(most * self.limits.result_share)

    def look_up(
        self, name: str, args: Mapping[str, Any], values: Mapping[str, Any], most: int
    ) -> Outcome:
        """What the lookup that the model knows as `name` says, in about `most` tokens."""
        chars = min(max(most * CHARS_A_TOKEN, LEAST_LOOKUP), MOST_LOOKUP)
        return answer(self._own_names[name], args, values["messages"], chars)

    def clip(self, message: ToolMessage, tokens: int | None) -> None:
        """Write down in a new result how many characters of it are shown, if not all are."""
        chars = shown_chars(text_of(message.content), tokens, self.window.scale)
        if chars is not None and self.limits.strategy != "all":
            message.additional_kwargs[SHOWN] = chars

    def _shown_tokens(self, marks: Marks) -> Tokens:
        return lambda messages: self.window.tokens(as_shown(messages, marks, self.limits, {}))

    def _of_tools(self, offered: Offer) -> tuple[str, ...]:
        if not offered.left_out or id(offered) in self._said:
            return ()
        self._said.add(id(offered))
        count = offered.left_out + len(offered.functions)
        text = f"{offered.left_out} of {count} tools do not fit a third of the context: left out."
        return (text,)


def _of_fold(turns: int) -> tuple[str, ...]:
    """What the user is told of turns that were folded because a request did not fit."""
    if not turns:
        return ()
    which = "turn does" if turns == 1 else f"{turns} turns do"
    return (f"The oldest {which} not fit the context any more and can only be looked up.",)
