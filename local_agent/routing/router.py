"""The router: by words where they are clear, by the model where they are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.messages.ai import UsageMetadata

from agent_core.toolset import Choice, Quiet, ToolSet, toolset_in
from context import text_of

from . import manner
from .index import Match, query_words
from .question import RouterModel, ask
from .routes import ALL, GENERAL
from .shelf import Shelf

CLEAR = 0.5  # what a prompt must say of a route: a word of its own in a tool's description, say
LONG = 8_000  # characters of a conversation that is not to be read anew for a question
KEPT = 0.75  # of the best route's score: with that much the thread's own route is kept


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the words of a prompt say: that no tool is needed, which route is, or nothing clear."""

    kind: Literal["quiet", "tools", "unclear"]
    route: str = ""
    quiet: Quiet = ""
    matches: Sequence[Match] = field(default=())


@dataclass(slots=True)
class Router:
    """Chooses a turn's route and its tools.

    `fixed` (from --route or /route) wins. While all tools fit a prompt it has them all, and the
    words only say whether one is needed. Mode "off" never says that none is; "words" asks no model
    and lets tools be where nothing is clear; "model" asks for every prompt.
    """

    shelf: Shelf
    model: RouterModel
    mode: str = "auto"
    fixed: str = ""

    async def __call__(self, messages: Sequence[AnyMessage], values: Mapping[str, Any]) -> Choice:
        shelf, descriptions = self.shelf, self.shelf.routes.descriptions
        if self.fixed:
            return Choice(self.fixed, self._fixed_set(messages, values))
        if not descriptions or self.mode == "off":
            matches = shelf.index.search(query_words(_newest(messages)))
            return Choice(ALL, shelf.set_for(ALL, matches, values))
        verdict = self.judge(messages, values)
        usage: UsageMetadata | None = None
        if self._must_ask(verdict, values):
            name, usage = await ask(self.model, descriptions, messages)
            if name == GENERAL:
                verdict = Verdict("quiet", quiet="said")
            elif name:
                verdict = Verdict("tools", name, matches=verdict.matches)
        return self._choice(verdict, values, usage)

    def _must_ask(self, verdict: Verdict, values: Mapping[str, Any]) -> bool:
        """Whether the model is asked: not where a long conversation would be read anew for it.

        A server with one slot forgets it for the question. The tools that are there stay, and the
        model can find others.
        """
        if self.mode == "model":
            return True
        if self.mode != "auto" or verdict.kind != "unclear" or self.shelf.is_whole:
            return False
        return not self.shelf.names(values) or not _is_long(values.get("messages", ()))

    def _fixed_set(self, messages: Sequence[AnyMessage], values: Mapping[str, Any]) -> ToolSet:
        matches = self.shelf.index.search(query_words(_newest(messages)))
        return self.shelf.set_for(self.fixed, matches, values, reach=self.fixed)

    def _choice(
        self, verdict: Verdict, values: Mapping[str, Any], usage: UsageMetadata | None
    ) -> Choice:
        if verdict.kind == "quiet":
            # Tools that are in the prompt stay, so that it begins as before. Where none are yet,
            # the first answer comes soon, and they are read when they are needed: once either way.
            kept = toolset_in(values) if self.shelf.names(values) else {"route": GENERAL}
            return Choice(GENERAL, kept, verdict.quiet, usage)
        route = verdict.route or _route_before(values, ALL)
        if route not in self.shelf.routes.tools or route == GENERAL:
            route = ALL
        if verdict.kind == "unclear" and self.shelf.names(values) and not self.shelf.is_whole:
            return Choice(route, toolset_in(values), "", usage)
        toolset = self.shelf.set_for(route, verdict.matches, values)
        return Choice(ALL if self.shelf.is_whole else route, toolset, "", usage)

    # -- what the words say -----------------------------------------------------------------------

    def judge(self, messages: Sequence[AnyMessage], values: Mapping[str, Any]) -> Verdict:
        """What the newest prompt says by its words alone."""
        index, prompt, answer = self.shelf.index, _newest(messages), _answer_before(messages)
        if manner.is_small_talk(prompt, manner.asks(answer)):
            is_sure = not (answer and manner.agrees(prompt))
            return Verdict("quiet", quiet="sure" if is_sure else "likely")
        query = query_words(prompt)
        matches, topics = index.search(query), index.topics(query)
        is_clear = max(topics.values(), default=0.0) >= CLEAR
        if answer and manner.is_about_said(prompt) and not is_clear:
            return Verdict("quiet", quiet="said")
        rest = "" if manner.is_sum(prompt) and not is_clear else manner.is_known(prompt)
        # Told to a question it is an answer, and what was asked for goes on.
        if rest is None and not is_clear and not manner.asks(answer) and manner.is_told(prompt):
            rest = ""
        if rest is not None:
            touched = index.topics(query_words(rest))
            if max(touched.values(), default=0.0) < CLEAR:
                return Verdict("quiet", quiet="likely")
            return Verdict("unclear", self._best(topics, matches, values), matches=matches)
        if is_clear:
            return Verdict("tools", self._best(topics, matches, values), matches=matches)
        if answer and manner.is_continuation(prompt):
            return self._continued(messages, values)
        return Verdict("unclear", matches=matches)

    def _continued(self, messages: Sequence[AnyMessage], values: Mapping[str, Any]) -> Verdict:
        """A prompt that leans on the turn before it: as that one was."""
        route = _route_before(values, "")
        if route == GENERAL:  # "go on" may mean what was offered; where all tools fit, they stay
            offers = self.shelf.is_whole or manner.asks(_answer_before(messages))
            return Verdict("unclear") if offers else Verdict("quiet", quiet="said")
        matches = self.shelf.index.search(query_words(_prompt_before(messages)))
        return Verdict("tools", route, matches=matches)

    def _best(
        self, topics: Mapping[str, float], matches: Sequence[Match], values: Mapping[str, Any]
    ) -> str:
        """The route that is said most of, of equal ones that with the best tool; the thread's own
        one where nearly as much is said of it."""
        if not topics:
            return ALL
        places = {match.name: at for at, match in enumerate(matches)}

        def worth(route: str) -> tuple[float, int]:
            first = min(
                (places.get(n, len(places)) for n in self.shelf.routes.tools[route]), default=0
            )
            return topics[route], -first

        best, own = max(topics, key=worth), _route_before(values, "")
        return own if topics.get(own, 0.0) >= topics[best] * KEPT else best

    # -- in the middle of a turn ------------------------------------------------------------------

    async def with_tools(
        self, messages: Sequence[AnyMessage], values: Mapping[str, Any], called: Sequence[str]
    ) -> Choice:
        """The choice for a turn that turned out to need a tool, the `called` ones in it.

        Where neither they nor the words say which, and not all have room, the model is asked.
        """
        query = query_words(_newest(messages))
        matches, topics = self.shelf.index.search(query), self.shelf.index.topics(query)
        route, usage = self._best(topics, matches, values) if topics else "", None
        if called:
            route = self.shelf.routes.of(called[0])
            best = 1.0 + max((match.score for match in matches), default=0.0)
            empty = frozenset[str]()
            matches = [*(Match(name, best, empty, empty) for name in called), *matches]
        elif not topics and self._must_ask(Verdict("unclear"), values):
            name, usage = await ask(self.model, self.shelf.routes.descriptions, messages)
            route = "" if name == GENERAL else name
        return self._choice(Verdict("tools", route, matches=matches), values, usage)

    def find(self, query: str) -> tuple[str, Sequence[str]]:
        """What `find_tools` says to a query, and the names of what it found."""
        return self.shelf.find(query, self.fixed or ALL)

    def widen(self, values: Mapping[str, Any], names: Sequence[str]) -> ToolSet:
        """The thread's set with `names` in it."""
        return self.shelf.widen(values, names)


def _is_long(messages: Sequence[AnyMessage]) -> bool:
    chars = 0
    for message in reversed(messages):
        chars += len(text_of(message.content))
        if chars > LONG:
            return True
    return False


def _newest(messages: Sequence[AnyMessage]) -> str:
    return next((text_of(m.content) for m in reversed(messages) if _is_prompt(m)), "")


def _prompt_before(messages: Sequence[AnyMessage]) -> str:
    prompts = (text_of(m.content) for m in reversed(messages) if _is_prompt(m))
    next(prompts, "")
    return next(prompts, "")


def _answer_before(messages: Sequence[AnyMessage]) -> str:
    """The answer of the turn before; empty where there is none."""
    for message in reversed(messages):
        if isinstance(message, AIMessage) and not message.tool_calls:
            return text_of(message.content)
    return ""


def _is_prompt(message: AnyMessage) -> bool:
    return isinstance(message, HumanMessage)


def _route_before(values: Mapping[str, Any], default: str) -> str:
    """The route of the turn before, which the state still has."""
    return str(values.get("route") or default)
