"""What a policy for the view costs: tokens sent, and tokens that a server has to read anew.

    python benchmarks/context.py [--quick] [--seeds N] [--json FILE] [--plot FILE]
    python benchmarks/context.py --long
    python benchmarks/context.py --server http://127.0.0.1:8080 [--turns N] [--loaded N]

One conversation of 100 turns is played under six policies. Each turn is a question, one or two
tool calls (side by side or one after the other) with results of 0.2 to 8 KB, and an answer; logs,
tables, JSON, code, diffs, pages and notes, all from the seed. Questions, calls, results and answers
are the same under each policy: only what is sent before each model call differs. Ours goes through
the program: its graph, on a SQLite file, with a model that gives the scripted replies and counts
each request as it comes, side calls and retries too. The others are plain functions on messages.

    everything           all messages; without an end to the context this is the floor
    compact every turn   `compact(messages)` as published: older results as stubs, at each turn anew
    last 20 messages     no result without its call
    summarise at 8       a summary in place of the older messages, as middlewares do it
    ours                 the default: results clipped, stubs and summaries in steps
    ours, no summary     the same for a model that writes none: facts are kept by rule

The model of the cache, to be argued with:

- The server has one slot. It keeps the tokens of the last request, of any kind, and of the reply to
  it. Of the next request, the longest common prefix is taken from there; all behind it is read.
  So a summary or a routing call drops the conversation, and the prompt after it is read again from
  where the two differ. (A llama.cpp with `--cache-ram` puts a dropped prompt into main memory and
  may take it back; this makes side calls cheaper than counted here.)
- A reply that is sent back as it was written is not read again, but for its end mark. That flatters
  each policy alike. A reply that comes back in another form, such as a tool call that the template
  writes differently, would be read again; with Qwen's template it is the same.
- At least one token of a prompt is computed, because the next one is drawn from it.
- Tokens are those of Qwen 2.5's vocabulary over Qwen's chat template: system prompt with the tools,
  then a frame for each message. A frame's marks are tokens of their own, so frames are counted one
  by one. The program estimates tokens by its own rule; here it is judged by the real ones, and it
  learns from `usage` as it would from a server.
- The floor is every new token once: `everything` on a server without end. What is clipped or
  left out is not read, so a policy can be below it.
- A policy that is over the context length is counted on as if there were room. A real server would
  refuse it or cut its head off; `overflows` says how often: requests that leave less room than the
  reply reserve. Ours is refused where the prompt leaves no room at all, as a server would.
- Writing is not counted, but for side calls: `written aside` is what the model wrote in them.
- The scripted model never asks again for what a policy hides. With ours that would cost a call of
  `read_result`; with the others the tool would have to run again.
- `turn 100 / 1` and the limits on the prompt take the largest request of a turn, side calls left
  out; `largest`, `sent`, `read anew` and `overflows` have the side calls in. That turn 100 is no
  larger than the largest of turns 20 to 40 is more than "it does not grow": under a level ceiling
  one turn in 22 is larger than 21 others by chance. Ours has a ceiling that falls with each step.

`--server` plays ours against a real llama.cpp server, shorter, and compares the count with what it
says it read. Its own replies are thrown away, so that the conversation is always the same; so they
are not in its cache either, and the count leaves them out there too. Start the server for this
alone, with `--parallel 1`. Two counts are printed: over the prompt as the server's own
`/apply-template` renders it, which must agree within a tenth in sums, and over Qwen's template,
which the other forms use and another model may not have.

`--long` plays 1,000 turns on 8,192 tokens, through the program. What must hold:

- At 1,000 turns the prompt is no larger than at 100: the largest prompt of turns 991 to 1,000 is at
  most the largest of turns 91 to 100, and none beyond turn 100 is larger than the largest before.
- Preparing the view takes our own code under 10 ms a turn, median and mean, on the wall clock: the
  look whether a step is due, the step where it is (the model's own time left out), the clips of the
  results and a view for each model call. 100 turns around turn 100 and the last 100, each once.
- It grows no faster than the log of the turns: the mean of the last 100 over that of the 100 around
  turn 100 is at most log 1000 / log 100.

Exit code 1 when a limit does not hold. All limits are on token counts, but for those of `--long`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.context_bench import growth, plot, server
from benchmarks.context_bench.cache import Slot, tally
from benchmarks.context_bench.conversation import conversation
from benchmarks.context_bench.policies import (
    Policy,
    Summarise,
    everything,
    last_messages,
    published_compact,
    replay,
)
from benchmarks.context_bench.program import OURS, Job, play, play_job
from benchmarks.context_bench.report import (
    COMPACT,
    EVERYTHING,
    LAST,
    SUMMARISE,
    Limit,
    Result,
    as_json,
    limits,
    tables,
    verdicts,
)
from context import Window

TURNS = 100
LOADED = (8192, 4096)
SEEDS = 5
SERVER_TURNS, SERVER_SCALE = 30, 0.35  # what a laptop reads in a quarter of an hour


def others(seed: int, turns: int) -> Iterator[Result]:
    """The policies that ours is compared with; what they send is the same for each length."""
    policies: dict[str, Policy] = {
        EVERYTHING: everything,
        COMPACT: published_compact,
        LAST: last_messages,
        SUMMARISE: Summarise(),
    }
    talk = conversation(seed, turns)
    for name, policy in policies.items():
        slot = Slot()
        replay(talk, policy, slot)
        for loaded in LOADED:
            reserve = Window(loaded).reply
            counted = tally(slot.requests, loaded, reserve)
            yield Result(seed, loaded, reserve, name, False, counted)


def ours(jobs: Sequence[Job], workers: int) -> Iterator[Result]:
    """Each of our settings, in as many processes as `workers`."""
    if workers <= 1:
        yield from map(play_job, jobs)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(play_job, jobs)


def measure(seeds: Sequence[int], turns: int, names: Sequence[str], workers: int) -> list[Result]:
    """Every policy on every seed and length, ordered by length, seed and policy."""
    jobs = [Job(seed, turns, loaded, name) for seed in seeds for loaded in LOADED for name in names]
    results = [result for seed in seeds for result in others(seed, turns)]
    results += ours(jobs, workers)
    return sorted(results, key=lambda r: (LOADED.index(r.loaded), r.seed))


def compare(url: str, turns: int, seed: int, loaded: int | None) -> list[server.Measured]:
    """Ours against the server at `url`, which may have a longer context than `loaded`."""
    with server.open_client(url) as client:
        length = min(loaded or 1_000_000, server.context_of(client))
        slot = server.ServerSlot(length, keeps_replies=False, client=client, say=progress)
        play(conversation(seed, turns, scale=SERVER_SCALE), slot, next(iter(OURS)))
    return slot.measured


def progress(text: str) -> None:
    """Say on stderr how far a long run is."""
    print(text, file=sys.stderr, flush=True)


def save(path: Path | None, counts: Mapping[str, object]) -> None:
    """Write the counts as JSON, if they are wanted."""
    if path:
        text = json.dumps({"schema_version": 1, **counts}, indent=1)
        path.write_text(text + "\n", encoding="utf-8")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").split("\n\n")[0],
        epilog="The head of this file explains the model of the cache.",
    )
    parser.add_argument("--quick", action="store_true", help="one seed, our default alone")
    parser.add_argument("--seeds", type=int, default=SEEDS, metavar="N", help="seeds 1 to N")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all counts there")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw an SVG there")
    parser.add_argument("--long", action="store_true", help="1,000 turns, and what a view costs")
    parser.add_argument(
        "--server", metavar="URL", help="check the count against a llama.cpp server"
    )
    parser.add_argument("--turns", type=int, default=SERVER_TURNS, help="turns with --server")
    parser.add_argument("--loaded", type=int, help="at most this context with --server")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    if args.server:
        measured = compare(args.server, args.turns, 1, args.loaded)
        agreed = server.agreement(measured)
        print(*server.lines(next(iter(OURS)), args.turns, agreed), sep="\n")
        save(args.json, {"requests": [asdict(one) for one in measured]})
        return 0 if agreed.holds else 1
    if args.long:
        grown = growth.measure(1)
        print(*growth.lines(grown), sep="\n")
        return 0 if grown.holds else 1
    seeds = range(1, 2 if args.quick else args.seeds + 1)
    names = list(OURS)[: 1 if args.quick else None]
    results = measure(seeds, TURNS, names, args.jobs)
    found_limits: list[Limit] = limits(results)
    print(*tables(results), *verdicts(found_limits), sep="\n")
    save(args.json, as_json(results, found_limits, {"turns": TURNS}))
    if args.plot:
        try:
            plot.draw(results, args.plot)
        except ImportError:
            print(plot.MISSING, file=sys.stderr)
    return 0 if all(limit.holds for limit in found_limits) else 1


if __name__ == "__main__":
    sys.exit(main())
