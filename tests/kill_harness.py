"""Kills the program at random moments of random conversations, and checks that nothing is lost.

    python tests/kill_harness.py [--seed S] [--kills N] [--length N]

Each conversation is one thread: a scripted model server that refuses what a strict provider
refuses, with a context so small that turns are folded and summarised, a real MCP server that notes
each write it makes by a token of its own, and one process after the other, by `-p`, a pipe,
`agent approvals` or a pseudo terminal. All that is chosen at random comes from the seed; the moment
of a kill also depends on the machine.

After each kill the servers have ended and the file is sound. After each turn that ends, each
result and answer that had been shown is in the thread once, all that was there before is there
unchanged, each write was made at most once unless a person asked for it again, none without leave,
and no request was refused. What there was is counted, and in what the kills fell.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from local_agent.testing import ScriptedServer
from local_agent.threads import pending_approvals
from tests.graph_kit import ScriptedModel, open_session
from tests.kill_judge import Known, Wrong, check
from tests.kill_script import SUMMARY, WRITES, Script
from tests.program_kit import Program, server_table
from tests.servers.mcp_kit import is_alive

HAS_TERMINALS = sys.platform != "win32"
SERVER = Path(__file__).with_name("servers") / "kill_server.py"
THREAD = "t"
CONTEXTS = (2048, 2048, 3072, 4096)  # tokens, by turns: some turns with long results fill them
PATIENCE = 600.0  # seconds; a run that takes longer hangs, also on a busy machine
ENOUGH = 12  # runs that a conversation may go on after its kills, to have had everything
APPROVAL, AGAIN = "n REASON:", "Run it again?"
GO_ON = "Go on with it? Enter goes on · d discards it:"

# What a kill can fall in.
PHASES = (
    "start",  # before the run asked the model for anything
    "model",  # while it waits for a reply
    "router",
    "summary",
    "read",
    "write",
    "parallel",  # while one of several reads of a step runs
    "approval",  # while something waits for a yes, and nothing else is done
    "between",  # anywhere else
)
# What is to be in the conversations.
EVERYTHING = (
    "reads",
    "writes",
    "parallel calls",
    "approvals",
    "routes",
    "compactions",
    "folded turns",
    "summaries",
)
# When kills are to come: in a phase, or after the start, a model call, a write, something shown.
CARDS = ("start", "asked", "shown", "noted", "noted")
CARDS += tuple(f"in {phase}" for phase in PHASES[1:-1])


@dataclass(slots=True)
class Moment:
    """When to kill: `delay` seconds after the `count`-th thing of a kind that a run does."""

    kind: str  # of CARDS
    count: int
    delay: float
    since: float | None = None

    def is_due(self, before: Look, now: Look) -> bool:
        """Whether it has come, between a look at the start of the run and one now."""
        if self.since is None:
            lasted = now.seconds - before.seconds
            if self.kind.startswith("in "):
                is_early = self.kind == "in approval" and now.asked == before.asked
                has_come = self.kind[3:] == now.phase and not (is_early and lasted < 8 * self.delay)
            else:
                has_come = {
                    "start": lasted > 8 * self.delay,
                    "asked": now.asked - before.asked >= self.count,
                    "noted": now.noted > before.noted,
                    "shown": now.shown - before.shown > 60 * self.count,
                }[self.kind]
            self.since = now.seconds if has_come else None
        return self.since is not None and now.seconds - self.since >= self.delay


@dataclass(frozen=True, slots=True)
class Look:
    """What a run has done so far: seconds, model calls, bytes noted and shown, and what it does."""

    seconds: float
    asked: int
    noted: int
    shown: int
    phase: str


@dataclass
class Told:
    """What there was in conversations, and in what their kills fell."""

    kills: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Told) -> Told:
        return Told(self.kills + other.kills, self.seen + other.seen)

    def __str__(self) -> str:
        kills = ", ".join(f"{count} in {phase}" for phase, count in self.kills.most_common())
        seen = ", ".join(f"{count} {what}" for what, count in self.seen.most_common())
        return f"{self.kills.total()} kills: {kills}\n{seen}"


class Conversation:
    """One thread in `folder`, its servers, and what is known of it."""

    def __init__(self, folder: Path, seed: str) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.script = Script(seed)
        self.known = Known(self.script.made, self.script.heard)
        self.told = Told()
        self.turn = 0
        number = int(seed.rpartition(".")[2] or 0)
        self.is_routed = number % 2 == 0
        context = CONTEXTS[number % len(CONTEXTS)]
        self.server = ScriptedServer(self.script, context_length=context, delay=0.001)
        self.notes, self.calls = folder / "notes.txt", folder / "calls.txt"
        files = (("NOTE_FILE", self.notes), ("CALL_FILE", self.calls))
        variables = ", ".join(f'{name} = "{path.as_posix()}"' for name, path in files)
        arguments = ["-I", "-S", str(SERVER)]
        tools = server_table("kit", sys.executable, arguments, f"env = {{ {variables} }}")
        router = '[router]\nmode = "model"\n' if self.is_routed else ""
        self.program = Program(folder, self.server.base_url, servers=router + tools)
        self.codes = {0, 3}  # with which a run may end
        self._cards: list[str] = []
        self._calls_before = 0  # bytes of the file of calls at the start of the run
        self._marks: dict[str, set[str]] = {}  # of the view, what was seen of each

    # -- runs -------------------------------------------------------------------------------------

    def prompt(self) -> str:
        self.turn += 1
        return f"go on with number {self.turn} [p{self.turn}]"

    def kill_once(self) -> None:
        """Start runs until one was killed before its end, and see what that left."""
        while True:
            if not self._cards:
                self._cards = [one for one in CARDS if self.is_routed or one != "in router"]
                self.chance.shuffle(self._cards)
            card = self._cards.pop()
            if any(self._run_to_kill(card) for _ in range(2)):
                break
        self._check_file()

    def go_on(self) -> None:
        """A run that is left to end, and all checks on what is then in the thread."""
        asked = self.script.asked
        mode = self.chance.choice(("allow", "allow", "deny"))
        args = ["--on-approval", mode, "--output", "stream-json", "-p", self.prompt()]
        code = self._run(args, None)
        check(code == 0, f"exit code {code} of the run that goes on")
        check(self.script.asked > asked, "the model was not asked")

    def complete(self) -> None:
        """Go on until everything was in the conversation, or for long enough."""
        for _ in range(ENOUGH):
            missing = self.missing()
            if not missing:
                return
            if "approvals" in missing:
                self._run(["--on-approval", "park", "-p", self.prompt()], None)
            else:
                prompts = [self.prompt() for _ in range(4)]
                self._run(["--on-approval", "allow", "-q"], None, "\n".join(prompts))

    def missing(self) -> list[str]:
        """What was not in the conversation."""
        return [
            what
            for what in EVERYTHING
            if not self.told.seen[what] and (self.is_routed or what != "routes")
        ]

    def _run_to_kill(self, card: str) -> bool:
        """One run of some kind that is to be killed; False if it ended before."""
        chance, moment = self.chance, self._moment(card)
        waiting, is_chat = self._waiting(), self.chance.random() < 0.2
        if HAS_TERMINALS and (is_chat or (card == "in approval" and chance.random() < 0.5)):
            return self._chat(moment)
        if waiting and card != "in summary" and chance.random() < 0.7:
            return self._decide(waiting, moment)
        mode = chance.choice(("park", "park", "allow", "allow", "allow", "deny"))
        count = 1 if chance.random() < 0.7 else chance.choice((2, 3))
        if card in ("noted", "in write", "in read", "in parallel"):
            mode, count = "allow", 3
        elif card == "in summary":
            mode, count = "allow", 5
        elif card == "in approval":
            mode = "park"
        output = chance.choice(("text", "text", "json", "stream-json"))
        args = ["--on-approval", mode, "--output", output]
        prompts = [self.prompt() for _ in range(count)]
        if count > 1:
            return self._run(args, moment, "\n".join(prompts)) is None
        return self._run([*args, "-p", *prompts], moment) is None

    def _decide(self, waiting: Sequence[Mapping[str, Any]], moment: Moment) -> bool:
        """`agent approvals approve` or `deny` of what waits; whether it was killed."""
        verb = self.chance.choice(("approve", "approve", "deny"))
        for call in waiting:
            if verb == "approve":
                self.known.permit(call["args"]["token"], call["why"] == "unknown_outcome")
            elif call["why"] == "write":
                self.known.refused.add(call["args"]["token"])
        args = ["approvals", verb, str(waiting[0]["id"])]
        return self._run(args, moment, thread=False) is None

    def _run(
        self,
        args: Sequence[str],
        moment: Moment | None,
        stdin: str = "",
        *,
        thread: bool = True,
    ) -> int | None:
        """One run without a terminal: its exit code, None if it was killed at the `moment`."""
        known = self.known
        if "allow" in args:
            known.refused -= {call["args"]["token"] for call in self._waiting()}
        if "deny" in args and thread:
            waits = [call for call in self._waiting() if call["why"] == "write"]
            known.refused |= {call["args"]["token"] for call in waits}
        given, out, err = (self.program.folder / name for name in ("in", "out", "err"))
        given.write_text(stdin, encoding="utf-8")
        options = ["--thread", THREAD] if thread else []
        with given.open() as source, out.open("wb") as out_file, err.open("wb") as err_file:
            process = self.program.start(
                *args, *options, stdin=source, stdout=out_file, stderr=err_file
            )
            code = self._wait(process, moment, lambda: out.stat().st_size + err.stat().st_size)
        if "allow" in args:
            known.allowed |= set(self.script.made)
        for path in (out, err):
            text = path.read_text("utf-8", "replace")
            known.note_shown(text.rpartition("\n")[0])  # whole lines
        self._after_run(code)
        return code

    def _chat(self, moment: Moment) -> bool:
        """A chat in a terminal, with a person who answers what is asked."""
        from tests.chat_kit import AGENT
        from tests.pty_driver import PtyProgram

        argv = [str(AGENT), "--config", str(self.program.config), "--thread", THREAD]
        environment = {**self.program.env, "TERM": "xterm-256color"}
        person = Person(self, self.chance.choice((1, 2)))
        with PtyProgram(argv, environment, 100, 50, self.program.work) as program:
            code = self._wait(
                program.process,
                moment,
                lambda: len(program.raw),
                lambda: person.look(program),
            )
            program.wait()
            text = program.unwrapped
        results = [line for line in text.splitlines() if line.startswith("←")]
        self.known.note_shown("\n".join([*results, *re.findall(r"done a\d+\.\n>", text)]))
        self._after_run(code)
        return code is None

    # -- the kill ---------------------------------------------------------------------------------

    def _moment(self, card: str) -> Moment:
        """When the next run is to be killed."""
        longest = 0.1 if card.startswith(("in ", "noted")) else 0.25  # within a slow write
        return Moment(card, self.chance.choice((1, 1, 2, 3)), self.chance.uniform(0, longest))

    def _wait(
        self,
        process: subprocess.Popen[bytes],
        moment: Moment | None,
        written: Callable[[], int],
        tick: Callable[[], None] = lambda: None,
    ) -> int | None:
        """The exit code, None if the process was killed. `written`: bytes that it has shown."""
        started, asked = time.monotonic(), self.script.asked
        self.script.forget_busy()
        self._calls_before = _size(self.calls)

        def look() -> Look:
            seconds = time.monotonic() - started
            phase = self._phase(seconds, self.script.asked > asked, moment)
            return Look(seconds, self.script.asked, _size(self.notes), written(), phase)

        before = look()
        while process.poll() is None:
            if time.monotonic() - started > PATIENCE:
                process.kill()
                raise Wrong("a run does not end")
            tick()
            if moment is not None and moment.is_due(before, now := look()):
                idle = now.phase in ("start", "between") and now.shown > before.shown
                self.told.kills["approval" if idle and self._waiting() else now.phase] += 1
                if self.strike(process):
                    return None
                moment = None
            time.sleep(0.004)
        check(process.returncode in self.codes, f"exit code {process.returncode}")
        return process.returncode

    def strike(self, process: subprocess.Popen[bytes]) -> bool:
        """What is done to the program at the moment; whether that has ended it."""
        children = _children(process.pid)
        process.kill()
        process.wait()
        self._check_gone(children)
        return True

    def _phase(self, seconds: float, has_asked: bool, moment: Moment | None) -> str:
        """What the run does now."""
        if busy := self.script.busy:
            return busy
        made, started, running = self.script.made, set[str](), set[str]()
        for line in self._called():
            (running.add if line[0] == "+" else running.discard)(line[1:])
            started.add(line[1:])
        if any(made[token].tool in WRITES for token in running):
            return "write"
        if running:
            steps = {made[token].step for token in running}
            reads = [one for one in started if made[one].tool not in WRITES]
            return "parallel" if sum(made[one].step in steps for one in reads) > 1 else "read"
        is_asked = moment is not None and moment.kind == "in approval" and self._waiting()
        return "approval" if is_asked else "between" if has_asked else "start"

    def _called(self) -> list[str]:
        """The lines that the calls of this run have left."""
        if _size(self.calls) <= self._calls_before:
            return []
        with self.calls.open(encoding="utf-8") as file:
            file.seek(self._calls_before)
            return [line.strip() for line in file if line.endswith("\n")]

    def _check_gone(self, children: Sequence[int]) -> None:
        end = time.monotonic() + PATIENCE
        while any(map(is_alive, children)):
            check(time.monotonic() < end, "a server outlives the program")
            time.sleep(0.02)

    # -- what is known ----------------------------------------------------------------------------

    def _noted(self) -> list[str]:
        return self.notes.read_text("utf-8").split() if self.notes.exists() else []

    def _waiting(self) -> list[dict[str, Any]]:
        """The calls that wait for a yes, each with the id of its approval."""
        found = pending_approvals(self.program.db)
        return [{**call, "id": one.id} for one in found for call in one.value["calls"]]

    def said(self, text: str) -> str:
        """What is wrong, and how to see it again."""
        kills = self.told.kills.total()
        again = f"python tests/kill_harness.py --seed {self.seed} --kills {kills + 1}"
        err = self.program.folder / "err"
        last = err.read_text("utf-8", "replace")[-2000:] if err.exists() else ""
        return f"{text} (turn {self.turn}; again: {again})\n{last}"

    # -- checks -----------------------------------------------------------------------------------

    def _check_file(self) -> None:
        if not self.program.db.exists():
            return
        with contextlib.closing(sqlite3.connect(self.program.db)) as conn:
            (found,) = conn.execute("PRAGMA integrity_check").fetchone()
        check(found == "ok", found)

    def _after_run(self, code: int | None) -> None:
        """The checks that hold after any run; those on the thread where its turns have ended."""
        self.known.check_writes(self._noted())
        for reason, _ in self.server.refused:
            raise Wrong(f"the model server refused a request: {reason}")
        waiting = self._waiting()
        self.told.seen["approvals"] += len(waiting)
        self._count()
        if code in (0, 3) and not waiting:
            self._check_file()
            values = asyncio.run(self._values())
            self.known.check_thread(values.get("messages", []), self._noted())
            self._count_marks(values)

    async def _values(self) -> dict[str, Any]:
        db = self.program.db
        async with open_session(db, ScriptedModel([]), [], thread=THREAD) as session:
            check(not await session.is_unfinished(), "the turn did not end")
            return await session.values()

    def _count(self) -> None:
        """Count what the calls of this run were, and what there was in all."""
        seen, made = self.told.seen, self.script.made
        running: set[str] = set()
        for line in self._called():
            token, is_read = line[1:], made[line[1:]].tool not in WRITES
            if line[0] == "-":
                running.discard(token)
                continue
            seen["reads" if is_read else "writes"] += 1
            if is_read:
                seen["parallel calls"] += len(running) > 0
                running.add(token)
        known = self.known
        totals = {
            "prompts": self.turn,
            "model calls": self.script.asked,
            "routes": self.script.asked_for["router"],
            "requests for a summary": self.script.asked_for["summary"],
            "results shown": len(known.results),
            "answers shown": len(known.answers),
        }
        seen.update({what: count - seen[what] for what, count in totals.items()})

    def _count_marks(self, values: Mapping[str, Any]) -> None:
        """Count the steps that have made the view shorter, as far as they were seen."""
        summary = str(values.get("summary", ""))
        stubs = f"{values.get('compacted_upto', '')} {values.get('stubbed_upto', '')}"
        now = {
            "compactions": stubs.strip(),
            "folded turns": values.get("summary_upto", ""),
            "summaries": summary if summary.startswith(SUMMARY) else "",
        }
        for what, mark in now.items():
            marks = self._marks.setdefault(what, set())
            marks |= {mark} - {""}
            self.told.seen[what] = len(marks)


@dataclass(slots=True)
class Person:
    """Types at a chat: `prompts` prompts, and an answer to each question, after some thought."""

    conversation: Conversation
    prompts: int
    seen: int = -1
    answers_at: float = 0.0

    def look(self, program: Any) -> None:
        """Answer what stands at the end of the screen, once."""
        now = time.monotonic()
        if len(program.raw) != self.seen:
            self.seen = len(program.raw)
            self.answers_at = now + self.conversation.chance.uniform(0.02, 0.2)
        elif self.answers_at and now >= self.answers_at:
            self.answers_at = 0.0
            self._act(program)

    def _act(self, program: Any) -> None:
        text = program.unwrapped
        conversation, chance = self.conversation, self.conversation.chance
        last = text.splitlines()[-1] if text else ""
        if last.startswith("Go on with it?") and last.endswith(GO_ON[-10:]):
            is_discarded = chance.random() < 0.4
            conversation.told.seen["discarded turns"] += is_discarded
            program.send("d\r" if is_discarded else "\r")
        elif last.endswith(APPROVAL):
            self._answer(program, text, last.startswith(AGAIN))
        elif re.match(r"> *(go on with number .*)?$", last) and "Loaded" in text:
            if self.prompts:
                self.prompts -= 1
                program.send("\x15" + conversation.prompt() + "\r")
            elif last == ">":
                program.send("\x04")
            else:
                program.send("\x15")

    def _answer(self, program: Any, text: str, is_again: bool) -> None:
        conversation, chance = self.conversation, self.conversation.chance
        token = re.findall(r'token: "(k\d+)"', text)[-1]
        answer = chance.choice(("y", "y", "n", "n not now", "a"))
        conversation.told.seen["approvals"] += 1
        if answer in ("y", "a"):
            conversation.known.permit(token, is_again)
            if answer == "a":
                conversation.known.always.add(conversation.script.made[token].tool)
        elif not is_again:
            conversation.known.refused.add(token)
        program.send(f"{answer}\r")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _children(pid: int) -> list[int]:
    """The processes that `pid` has started and that run; none where the system does not tell."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = stat.read_text().rpartition(")")[2].split()[1]
            if int(parent) == pid:
                found.append(int(stat.parent.name))
    return found


def talk(folder: Path, seed: str, kills: int, often: float = 0.2) -> Conversation:
    """A conversation that is killed so often, and goes on until everything was in it.

    After a kill it goes on with the probability `often`; else the next kill comes at once. Raises
    `Wrong` at the first thing wrong.
    """
    folder.mkdir(parents=True, exist_ok=True)
    conversation = Conversation(folder, seed)
    with conversation.server:
        try:
            while conversation.told.kills.total() < kills:
                conversation.kill_once()
                if conversation.chance.random() < often:
                    conversation.go_on()
            conversation.go_on()
            conversation.complete()
        except Wrong as exc:
            raise Wrong(conversation.said(str(exc))) from exc
    return conversation


def harness(folder: Path, seed: str, kills: int, length: int = 10, often: float = 0.2) -> Told:
    """`kills` in conversations of `length` kills, two at a time; what there was in all.

    Raises `Wrong` where something was not in a conversation at all.
    """
    seeds = [f"{seed}.{n}" for n in range(-(-kills // length))]
    print(f"seeds: {' '.join(seeds)}", flush=True)

    def one(name: str) -> Told:
        talked = talk(folder / name, name, min(length, kills), often)
        print(f"{name}: {talked.told}", flush=True)
        missing = talked.missing()
        check(not missing, f"{name}: there were no {' and no '.join(missing)}")
        return talked.told

    with ThreadPoolExecutor(2) as pool:
        each = [pool.submit(one, name) for name in seeds]
    return sum((told.result() for told in each), Told())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", default=os.urandom(3).hex())
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--length", type=int, default=10, help="kills of a conversation")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "." in args.seed:
            print(talk(folder / "one", args.seed, args.kills).told)
        else:
            print(harness(folder, args.seed, args.kills, args.length))


if __name__ == "__main__":
    main()
