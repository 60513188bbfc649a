"""The count against a real llama.cpp server: its template, and what it says it read and kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2
from langchain_core.messages import AIMessage, AnyMessage, convert_to_openai_messages

from benchmarks.context_bench.cache import Frame, Refused, Request, Slot, common, tokens_of

MOST = 0.10  # part by which the count may be off
PATIENCE = 1800.0  # seconds for one request; a laptop reads some 50 tokens a second


@dataclass(frozen=True, slots=True)
class Measured:
    """One request in tokens: as counted, as counted over the server's rendering, as measured."""

    kind: str
    counted: Request
    rendered: int
    rendered_read: int
    prompt_n: int
    cache_n: int


@dataclass(slots=True)
class ServerSlot(Slot):
    """A slot that sends each request to a real server too, and notes what that says of it.

    The server is asked for one token and that is thrown away: the conversation goes on with the
    given reply, so that it is the same each time. One sampled token is never computed, so the
    server's cache holds the prompt and nothing else, and `keeps_replies` must be off. `say` is told
    of each request: a run takes a quarter of an hour.
    """

    client: httpx2.Client = field(kw_only=True)
    say: Callable[[str], None] = field(kw_only=True)
    measured: list[Measured] = field(default_factory=list)
    _rendered: Frame = ()

    def send(
        self,
        kind: str,
        messages: Sequence[AnyMessage],
        tools: Sequence[Mapping[str, Any]],
        reply: AIMessage,
    ) -> Request:
        # Named, because a dataclass with slots is another class than the one `super()` means.
        counted = Slot.send(self, kind, messages, tools, reply)
        body: dict[str, Any] = {"messages": convert_to_openai_messages(list(messages))}
        if tools:
            body["tools"] = list(tools)
        rendered = tokens_of(self._post("/apply-template", body)["prompt"])
        read = len(rendered) - min(common([self._rendered], [rendered]), len(rendered) - 1)
        self._rendered = rendered
        options = {"max_tokens": 1, "temperature": 0, "cache_prompt": True}
        timings = self._post("/v1/chat/completions", {**body, **options})["timings"]
        numbers = (len(rendered), read, timings["prompt_n"], timings["cache_n"])
        self.measured.append(Measured(kind, counted, *numbers))
        self.say(
            f"turn {self.turn}, {kind}: {len(rendered):,} tokens, read anew"
            f" {read:,} counted, {timings['prompt_n']:,} measured"
        )
        total = timings["prompt_n"] + timings["cache_n"]
        return Request(self.turn, kind, total, timings["cache_n"], counted.reply)

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        answer = self.client.post(path, json=body)
        if answer.status_code == 400 and "exceed_context_size" in answer.text:
            error = answer.json()["error"]
            raise Refused(error["n_prompt_tokens"], error["n_ctx"])
        answer.raise_for_status()
        return answer.json()


def open_client(url: str) -> httpx2.Client:
    """A client for the server at `url`, with or without /v1 at its end."""
    base = url.rstrip("/").removesuffix("/v1")
    return httpx2.Client(base_url=base, timeout=PATIENCE, trust_env=False)


def context_of(client: httpx2.Client) -> int:
    """The context length that the server has loaded, in tokens."""
    answer = client.get("/props")
    answer.raise_for_status()
    return int(answer.json()["default_generation_settings"]["n_ctx"])


@dataclass(frozen=True, slots=True)
class Agreement:
    """Sums over a conversation, in tokens, and by what part each count is off."""

    requests: int
    counted: int
    counted_read: int
    rendered: int
    rendered_read: int
    measured: int
    measured_read: int

    @property
    def off(self) -> float:
        """The count over the server's own rendering against what the server read."""
        return abs(self.rendered_read / self.measured_read - 1)

    @property
    def off_canonical(self) -> float:
        """The count over our rendering, which may differ from the server's template."""
        return abs(self.counted_read / self.measured_read - 1)

    @property
    def holds(self) -> bool:
        return self.off <= MOST


def agreement(measured: Sequence[Measured]) -> Agreement:
    """Add up what was counted and what was measured."""
    return Agreement(
        requests=len(measured),
        counted=sum(m.counted.tokens for m in measured),
        counted_read=sum(m.counted.read for m in measured),
        rendered=sum(m.rendered for m in measured),
        rendered_read=sum(m.rendered_read for m in measured),
        measured=sum(m.prompt_n + m.cache_n for m in measured),
        measured_read=sum(m.prompt_n for m in measured),
    )


def lines(name: str, turns: int, found: Agreement) -> Iterator[str]:
    """The comparison as it is printed."""
    yield f"{name}: {turns} turns, {found.requests} requests"
    yield f"  {'':<36}{'prompts':>12}{'read anew':>12}"
    rows = (
        ("counted, Qwen's own template", found.counted, found.counted_read),
        ("counted, as /apply-template renders", found.rendered, found.rendered_read),
        ("measured by the server's timings", found.measured, found.measured_read),
    )
    for text, sent, read in rows:
        yield f"  {text:<36}{sent:>12,}{read:>12,}"
    said = "yes" if found.holds else "NO "
    yield f"  {said} as rendered, read anew is off by {found.off:.1%} (at most {MOST:.0%})"
    yield f"      over Qwen's own template it is off by {found.off_canonical:.1%}"
