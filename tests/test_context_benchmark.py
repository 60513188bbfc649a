"""The benchmark of the view: that it counts right, and that its limits hold."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from benchmarks.context import TURNS, compare, measure
from benchmarks.context_bench import growth, plot
from benchmarks.context_bench.cache import ENDS, Refused, Slot, render, size, tally, tokens_of
from benchmarks.context_bench.conversation import conversation, functions, messages_of
from benchmarks.context_bench.material import LARGEST, MAKERS, SMALLEST
from benchmarks.context_bench.policies import (
    Summarise,
    everything,
    last_messages,
    published_compact,
    replay,
)
from benchmarks.context_bench.program import OURS, play
from benchmarks.context_bench.report import COMPACT, EVERYTHING, limits
from benchmarks.context_bench.server import agreement


def whole(messages: list[AnyMessage]) -> str:
    """A plain conversation as one text, written by hand as Qwen's template has it."""
    roles = {"system": "system", "human": "user", "ai": "assistant"}
    frames = [f"<|im_start|>{roles[m.type]}\n{m.content}<|im_end|>\n" for m in messages]
    return "".join(frames) + "<|im_start|>assistant\n"


def common_start(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def test_frames_count_as_the_whole_text() -> None:
    """Frames counted one by one give the tokens of the whole prompt."""
    rng = Random(3)
    texts = [make(rng, 700) for make in MAKERS.values()]
    messages: list[AnyMessage] = [SystemMessage("You are a test.")]
    for text in texts:
        messages += [HumanMessage(text), AIMessage(text[::-1])]
    assert sum(render(messages, ()), ()) == tokens_of(whole(messages))


def test_results_side_by_side_share_a_frame() -> None:
    """Calls, results and tools are written as the template writes them."""
    calls = [{"id": i, "name": "look", "args": {"n": i}, "type": "tool_call"} for i in "ab"]
    messages = [
        HumanMessage("q"),
        AIMessage("", tool_calls=calls),
        *(ToolMessage(f"r{i}", tool_call_id=i) for i in "ab"),
    ]
    frames = render(messages, ())
    assert len(frames) == 4
    assert frames[1] == tokens_of(
        '<|im_start|>assistant\n<tool_call>\n{"name": "look", "arguments": {"n": "a"}}\n'
        '</tool_call>\n<tool_call>\n{"name": "look", "arguments": {"n": "b"}}\n'
        "</tool_call><|im_end|>\n"
    )
    assert frames[2] == tokens_of(
        "<|im_start|>user\n<tool_response>\nra\n</tool_response>\n"
        "<tool_response>\nrb\n</tool_response><|im_end|>\n"
    )


def test_the_slot_holds_the_last_request_and_its_reply() -> None:
    """What follows the reply is read; another request drops all; an equal one costs one token."""
    slot = Slot()
    first: list[AnyMessage] = [SystemMessage("s"), HumanMessage("one two three")]
    reply = AIMessage("four five six")
    assert slot.send("turn", first, (), reply).cached == 0
    second = [*first, reply, HumanMessage("seven")]
    tail = tokens_of(f"<|im_end|>\n{whole([HumanMessage('seven')])}")
    assert slot.send("turn", second, (), AIMessage("x")).read == len(tail)
    assert slot.send("turn", second, (), AIMessage("x")).read == 1
    slot.send("summary", [HumanMessage("else")], (), AIMessage("x"))
    marks = len(tokens_of("<|im_start|>"))
    assert slot.send("turn", second, (), AIMessage("x")).cached == marks


def test_a_given_reply_is_read_where_the_server_did_not_write_it() -> None:
    """`keeps_replies` off: the reply is new to the server."""
    first: list[AnyMessage] = [HumanMessage("one")]
    reply = AIMessage("four five six")
    second = [*first, reply, HumanMessage("seven")]
    read = []
    for keeps in (True, False):
        slot = Slot(keeps_replies=keeps)
        slot.send("turn", first, (), reply)
        read.append(slot.send("turn", second, (), reply).read)
    assert read[1] - read[0] == len(tokens_of("four five six"))
    assert len(tokens_of("<|im_end|>\n")) == ENDS


def test_a_prompt_without_room_is_refused_and_forgets_nothing() -> None:
    """A refused request counts as sent and as an overflow, is not read, and leaves the slot."""
    slot = Slot(loaded=40)
    short: list[AnyMessage] = [HumanMessage("one")]
    slot.send("turn", short, (), AIMessage("x"))
    with pytest.raises(Refused):
        slot.send("turn", [HumanMessage("one " * 50)], (), AIMessage("x"))
    assert slot.send("turn", short, (), AIMessage("x")).read == 1
    counted = tally(slot.requests, 40, 10)
    assert (counted.overflows, counted.side_calls) == (1, 0)
    assert counted.read == slot.requests[0].tokens + 1


def test_the_conversation_is_real_and_the_same_each_time() -> None:
    """One seed, one conversation; results of 0.2 to 8 KB of each kind; JSON can be read."""
    turns = conversation(7, TURNS)
    assert turns == conversation(7, TURNS)
    assert turns != conversation(8, TURNS)
    calls = [call for turn in turns for step in turn.steps for call in step]
    assert {len([c for step in turn.steps for c in step]) for turn in turns} == {1, 2}
    assert {call.name for call in calls} == {f["function"]["name"] for f in functions()}
    sizes = [len(call.result.encode()) for call in calls]
    assert min(sizes) >= 0.75 * SMALLEST
    assert max(sizes) <= LARGEST
    assert max(sizes) > 0.9 * LARGEST
    assert all(json.loads(c.result)["items"] for c in calls if c.name == "call_api")
    assert len({turn.question for turn in turns}) == TURNS


def test_each_policy_counts_as_every_token_by_itself_says() -> None:
    """The fast count by frames is that of whole prompts, token by token, with replies kept."""
    turns = conversation(2, 8)
    for policy in (everything, published_compact, last_messages, Summarise()):
        slot = Recording()
        replay(turns, policy, slot)
        held: tuple[int, ...] = ()
        for request, (prompt, written) in zip(slot.requests, slot.seen, strict=True):
            assert request.cached == min(common_start(held, prompt), len(prompt) - 1)
            assert request.tokens == len(prompt)
            held = prompt + written


class Recording(Slot):
    """Keeps each prompt whole, with what the model wrote behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[tuple[int, ...], tuple[int, ...]]] = []

    def send(self, kind: str, messages: Any, tools: Any, reply: AIMessage) -> Any:
        prompt = sum(render(messages, tools), ())
        behind = sum(render([*messages, reply], tools)[:-1], ())
        self.seen.append((prompt, behind[len(prompt) : -ENDS]))
        return super().send(kind, messages, tools, reply)


def test_everything_is_the_floor() -> None:
    """Without a policy each token is read once: the last prompt less what the model wrote."""
    turns = conversation(4, 10)
    slot = Slot()
    replay(turns, everything, slot)
    written = sum(request.reply for request in slot.requests[:-1])
    openings = len(tokens_of("<|im_start|>assistant\n")) * (len(slot.requests) - 1)
    read = sum(request.read for request in slot.requests)
    assert read == slot.requests[-1].tokens - (written - openings)
    assert size(render(messages_of(turns)[:-1], ())) < slot.requests[-1].tokens


@pytest.mark.timeout(400)
def test_the_limits_hold(tmp_path: Path) -> None:
    """The quick form: our default on one seed, on 8,192 and on 4,096 tokens, all limits."""
    results = measure([1], TURNS, [next(iter(OURS))], workers=1)
    found = limits(results)
    assert len(found) == 10
    assert [limit for limit in found if not limit.holds] == []
    of = {(r.policy, r.loaded): r.tally for r in results}
    assert of[COMPACT, 8192].overflows > TURNS / 2  # what it is compared with does overflow
    assert of[EVERYTHING, 8192].prompts[-1] > 10 * of[EVERYTHING, 8192].prompts[0]
    plot.draw(results, tmp_path / "context.svg")
    drawn = (tmp_path / "context.svg").read_text(encoding="utf-8")
    assert drawn.count(COMPACT) == 2
    assert "<path" in drawn


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_thousand_turns_are_no_longer_than_a_hundred() -> None:
    """The limits on the prompt of the long form; those on times are for the benchmark."""
    grown = growth.measure(1)
    prompts = {text: holds for text, holds in grown.verdicts.items() if " ms" not in text}
    assert len(prompts) == 3
    assert all(prompts.values()), prompts


# -- against a server -----------------------------------------------------------------------------


class OneSlot(BaseHTTPRequestHandler):
    """A llama.cpp server with one slot and a template of its own, which counts characters."""

    held = ""

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer({"default_generation_settings": {"n_ctx": 8192}})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = f"{json.dumps(body.get('tools'))}\n{json.dumps(body['messages'])}"
        if self.path == "/apply-template":
            self._answer({"prompt": prompt})
            return
        tokens, held = tokens_of(prompt), tokens_of(OneSlot.held)
        OneSlot.held = prompt
        cached = min(common_start(held, tokens), len(tokens) - 1)
        self._answer({"timings": {"prompt_n": len(tokens) - cached, "cache_n": cached}})

    def _answer(self, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def one_slot() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), OneSlot)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()


def test_the_count_is_compared_with_a_server() -> None:
    """Each request goes to the server as it is counted; its own figures stand beside."""
    OneSlot.held = ""
    with one_slot() as url:
        found = agreement(compare(url, 4, 1, 4096))
    assert found.requests >= 8
    assert found.rendered == found.measured
    assert found.rendered_read == found.measured_read
    assert found.holds
    assert found.counted_read < found.counted


def test_a_wrong_answer_of_the_program_ends_the_benchmark() -> None:
    """A turn that does not end with its answer is an error, not a good number."""
    turns = conversation(1, 1)
    with pytest.raises(RuntimeError, match="turn 1 ended"):
        play(turns, Slot(loaded=200), next(iter(OURS)))
