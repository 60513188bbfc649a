"""What the graph is handed: its collaborators as protocols, so that it imports none of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.messages.ai import UsageMetadata


class Described(Protocol):
    """What a prompt says of a tool, and `original`, what its server calls it."""

    @property
    def name(self) -> str: ...
    @property
    def server(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def schema(self) -> Mapping[str, Any]: ...
    @property
    def original(self) -> str: ...


class Tool(Described, Protocol):
    """A tool as the graph needs it; calling it never raises but for a cancellation.

    `identity` is of the very server behind `server`: another program or address has another one.
    """

    @property
    def identity(self) -> str: ...
    @property
    def read_only(self) -> bool: ...

    async def __call__(
        self, args: Mapping[str, Any]
    ) -> tuple[str, Literal["success", "error"]]: ...


class Model(Protocol):
    """A chat model. `overflow` is what it raises when the prompt is longer than its context."""

    @property
    def overflow(self) -> type[Exception]: ...

    async def reply(
        self,
        messages: Sequence[AnyMessage],
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        tool_choice: str | None = None,
        response_format: Mapping[str, Any] | None = None,
        on_delta: Callable[[Literal["text", "thinking"], str], None] | None = None,
    ) -> AIMessage: ...


class Run(Protocol):
    """What the journal knows of a call: `outcome` is None while it was started and not ended.

    `starts` counts how often it was begun, `result` is the text it ended with, if that was kept;
    `is_write` is what the tool was when it ran, whatever it says of itself now.
    """

    @property
    def outcome(self) -> str | None: ...
    @property
    def result(self) -> str | None: ...
    @property
    def starts(self) -> int: ...
    @property
    def is_write(self) -> bool: ...


class Journal(Protocol):
    """Which calls were started and which ended, on disk before and after each."""

    async def begin(
        self, thread: str, message_id: str, call_id: str, tool: str, is_write: bool
    ) -> None: ...

    async def end(
        self, thread: str, message_id: str, call_id: str, outcome: str, result: str | None = None
    ) -> None: ...

    async def find(self, thread: str, message_id: str, call_id: str) -> Run | None: ...


class Seal(Protocol):
    """Marks what a person allowed; a yes that is read back from disk counts only with its mark."""

    def sign(self, *parts: str) -> str: ...

    def holds(self, mark: str, *parts: str) -> bool: ...


class Choice(Protocol):
    """What a router decided; see `agent_core.toolset.Choice`."""

    @property
    def route(self) -> str: ...
    @property
    def toolset(self) -> Mapping[str, Any]: ...
    @property
    def quiet(self) -> str: ...
    @property
    def usage(self) -> UsageMetadata | None: ...


class Router(Protocol):
    """Chooses the route of a turn and the tools of its prompt; `values` are those of the state."""

    async def __call__(
        self, messages: Sequence[AnyMessage], values: Mapping[str, Any]
    ) -> Choice: ...

    async def with_tools(
        self, messages: Sequence[AnyMessage], values: Mapping[str, Any], called: Sequence[str]
    ) -> Choice:
        """The choice for a turn that turned out to need tools, the `called` ones among them."""

    def find(self, query: str) -> tuple[str, Sequence[str]]:
        """What `find_tools` answers, and the names of the tools it found, best first."""

    def widen(self, values: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any]:
        """The thread's set of tools with `names` in it."""


Policy = Callable[[Tool, Mapping[str, Any], Sequence[str]], Literal["allow", "ask", "deny"]]


class Repair(Protocol):
    """Makes calls out of what a reply has as such; `history` is what the model had read."""

    def __call__(
        self, reply: AIMessage, tools: Sequence[Described], history: Sequence[AnyMessage] = ()
    ) -> AIMessage: ...
