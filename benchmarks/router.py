"""What choosing the tools of a prompt by words takes, against looking at each tool's text.

    python benchmarks/router.py [--tools 100] [--prompts 400]

Prints the time a prompt takes, the part of them that needs no model call, and how many times
faster the index is than a bare scan for the prompt's words through all texts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from context import Window
from local_agent.routing import Router, Shelf, routes_of
from local_agent.routing.words import words
from tests.routing_kit import PROMPTS, Answering, Labelled, many


def scanned(texts: list[str], prompt: str) -> int:
    """The bare way: each word of the prompt looked for in the text of each tool."""
    wanted = words(prompt)
    return max(sum(text.count(word) for word in wanted) for text in texts)


async def measure(count: int, rounds: int) -> dict[str, float]:
    """Milliseconds a prompt, by the router and by a scan, and the share without a model call."""
    tools = many(count)
    model = Answering("")
    begin = time.perf_counter()
    router = Router(Shelf(routes_of((), tools), tools, Window(8192), 12), model)
    built = time.perf_counter() - begin
    states = [_state(labelled) for labelled in PROMPTS]
    for values in states:  # the first look at a text costs more
        await router(values["messages"], values)
    model.asked.clear()
    begin = time.perf_counter()
    for at in range(rounds):
        values = states[at % len(states)]
        await router(values["messages"], values)
    routed = (time.perf_counter() - begin) / rounds
    texts = [
        f"{t.name} {t.server} {t.description} {json.dumps(t.schema)}".casefold() for t in tools
    ]
    begin = time.perf_counter()
    for at in range(rounds):
        scanned(texts, PROMPTS[at % len(PROMPTS)].prompt)
    bare = (time.perf_counter() - begin) / rounds
    return {
        "build_ms": built * 1000,
        "router_ms": routed * 1000,
        "scan_ms": bare * 1000,
        "ratio": bare / routed,
        "no_model_call": 1 - len(model.asked) / rounds,
    }


def _state(labelled: Labelled) -> dict[str, object]:
    messages = labelled.messages()
    return {"messages": messages, "route": "git" if labelled.before else ""}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tools", type=int, default=100)
    parser.add_argument("--prompts", type=int, default=400)
    args = parser.parse_args()
    found = asyncio.run(measure(args.tools, args.prompts))
    print(f"{args.tools} tools, index built in {found['build_ms']:.1f} ms")
    print(f"router {found['router_ms']:.3f} ms a prompt, bare scan {found['scan_ms']:.3f} ms")
    print(f"ratio (scan / router): {found['ratio']:.2f}")
    print(f"prompts that need no model call: {100 * found['no_model_call']:.0f} %")


if __name__ == "__main__":
    main()
