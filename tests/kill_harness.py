"""Kills the program at random moments of random conversations, and checks that nothing is lost.

    python tests/kill_harness.py [--seed S] [--kills N]

Each conversation is one thread: a scripted model server that refuses what a strict provider
refuses, a real MCP server that notes each write it makes by a token of its own, and one process
after the other, by `-p`, a pipe, `agent approvals` or a pseudo terminal. All that is chosen at
random comes from the seed; the moment of a kill also depends on the machine.

After each kill the servers have ended and the file is sound. After the run that goes on, each
result and answer that had been shown is in the thread once, each write was made at most once
unless a person asked for it again, none without leave, and no request was refused.
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

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from agent_core.turn import open_calls
from local_agent.testing import Call, Calls, Reply, Say, ScriptedServer
from local_agent.threads import pending_approvals
from tests.graph_kit import ScriptedModel, open_session
from tests.program_kit import Program, server_table
from tests.servers.kill_server import looked
from tests.servers.mcp_kit import is_alive

HAS_TERMINALS = sys.platform != "win32"
SERVER = Path(__file__).with_name("servers") / "kill_server.py"
THREAD = "t"
CONTEXTS = (2048, 3072, 4096)  # tokens: some turns with long results fill them
PATIENCE = 60.0  # seconds; a run that takes longer hangs
MARK = re.compile(r"\[p(\d+)\]\s*$")
CALL_ID = re.compile(r"c(\d+)_(\d+)_")
SHOWN_RESULT = re.compile(r"(?:saw|wrote|failed) (k\d+)")
SHOWN_ANSWER = re.compile(r"done (a\d+)\.")
KINDS = ["look"] * 3 + ["long"] * 2 + ["write"] * 2 + ["slow_write"] * 3 + ["slow_look", "fail"]
WRITES = ("write", "slow_write")
APPROVAL, AGAIN = "n REASON:", "Run it again?"
GO_ON = "Go on with it? Enter goes on · d discards it:"


@dataclass(frozen=True, slots=True)
class Made:
    """A call that the model made: its id, its tool, and the text that it gives."""

    id: str
    tool: str
    text: str


@dataclass(slots=True)
class Script:
    """The model: each turn is a plan of steps, each step some calls, then an answer.

    A reply that was asked for again has tokens of its own, so that what was lost is seen.
    """

    seed: str
    made: dict[str, Made] = field(default_factory=dict)
    asked: int = 0

    def __call__(self, body: Mapping[str, Any]) -> Reply:
        self.asked += 1
        place = self._place(body["messages"])
        if place is None:
            return Say("So far tokens were looked at and written; nothing is left to do.")
        turn, step = place
        chance = random.Random(f"{self.seed}:{turn}")
        plan = [self._kinds(chance) for _ in range(chance.choice((0, 1, 1, 2, 3)))]
        if step >= len(plan) or body.get("tool_choice") == "none" or not body.get("tools"):
            return Say(f"done a{self.asked}.")
        prefix = f"c{turn}_{step}_"
        return Calls([self._call(kind, prefix, n) for n, kind in enumerate(plan[step])])

    def _place(self, messages: Sequence[Mapping[str, Any]]) -> tuple[int, int] | None:
        """Turn and step that a request asks for; None for one that is about something else."""
        last = max(n for n, message in enumerate(messages) if message["role"] == "user")
        found = MARK.search(messages[last]["content"])
        if found is None:
            return None
        calls = [call for m in messages[last:] for call in m.get("tool_calls") or ()]
        steps = [int(match[2]) for call in calls if (match := CALL_ID.match(call["id"]))]
        return int(found[1]), max(steps, default=-1) + 1

    def _kinds(self, chance: random.Random) -> list[tuple[str, float]]:
        count = chance.choice((1, 1, 2, 3))
        return [(chance.choice(KINDS), chance.uniform(0.05, 0.4)) for _ in range(count)]

    def _call(self, kind: tuple[str, float], prefix: str, number: int) -> Call:
        name, seconds = kind
        token = f"k{self.asked * 10 + number}"
        args: dict[str, Any] = {"token": token}
        text = f"wrote {token}"
        if name in ("look", "long"):
            args["chars"] = int(seconds * (8000 if name == "long" else 300))
            text, name = looked(token, args["chars"]), "look"
        elif name == "fail":
            text = f"failed {token}"
        elif name != "write":
            args["seconds"] = round(seconds, 2)
        if name == "slow_look":
            text = looked(token, 0)
        self.made[token] = Made(prefix + token, name, text)
        return Call(name, args, prefix + token)


@dataclass(slots=True)
class Moment:
    """When to kill: `delay` seconds after the `count`-th thing of a kind that a run does."""

    kind: str  # "start", "asked" (the model), "noted" (a write), "shown" (something)
    count: int
    delay: float
    since: float | None = None

    def is_due(self, before: tuple[float, int, int, int], now: tuple[float, int, int, int]) -> bool:
        """`before` and `now`: seconds, model calls, writes and bytes shown."""
        if self.since is None:
            lasted, asked, noted, shown = (b - a for a, b in zip(before, now, strict=True))
            has_come = {
                "start": lasted > 8 * self.delay,
                "asked": asked >= self.count,
                "noted": noted > 0,
                "shown": shown > 60 * self.count,
            }
            self.since = now[0] if has_come[self.kind] else None
        return self.since is not None and now[0] - self.since >= self.delay


class Conversation:
    """One thread in `folder`, its servers, and what is known of it: shown, allowed, refused."""

    def __init__(self, folder: Path, seed: str) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.script = Script(seed)
        context = self.chance.choice(CONTEXTS)
        self.server = ScriptedServer(self.script, context_length=context, delay=0.001)
        notes = folder / "notes.txt"
        environment = f'env = {{ NOTE_FILE = "{notes.as_posix()}" }}'
        tools = server_table("kit", sys.executable, ["-I", "-S", str(SERVER)], environment)
        self.program = Program(folder, self.server.base_url, servers=tools)
        self.notes = notes
        self.turn = 0
        self.kills = 0
        self.results: set[str] = set()  # tokens of results that were shown
        self.answers: set[str] = set()
        self.allowed: set[str] = set()  # tokens of writes that may run
        self.refused: set[str] = set()
        self.always: set[str] = set()  # tools that a person allowed for the thread
        self.again: Counter[str] = Counter()  # how often a person asked for a write once more
        self.is_discarded = False  # some turn was, so that a read's result may be lost

    # -- runs -------------------------------------------------------------------------------------

    def prompt(self) -> str:
        self.turn += 1
        return f"go on with number {self.turn} [p{self.turn}]"

    def kill_once(self) -> None:
        """Start runs until one was killed before its end, and see what that left."""
        while not self._run_to_kill():
            pass
        self.kills += 1
        self._check_file()

    def go_on(self) -> None:
        """A run that is left to end, and all checks on what is then in the thread."""
        asked = self.script.asked
        mode = self.chance.choice(("allow", "allow", "deny"))
        args = ["--on-approval", mode, "--output", "stream-json", "-p", self.prompt()]
        code = self._run(args, None)
        assert code == 0, self.said(f"exit code {code} of the run that goes on")
        assert self.script.asked > asked
        for reason, _ in self.server.refused:
            raise AssertionError(self.said(f"the model server refused a request: {reason}"))
        self._check_file()
        self._check_thread(asyncio.run(self._messages()))

    def _run_to_kill(self) -> bool:
        """One run of some kind that is to be killed; False if it ended before."""
        waiting = self._waiting()
        if HAS_TERMINALS and self.chance.random() < 0.2:
            return self._chat()
        if waiting and self.chance.random() < 0.7:
            return self._decide(waiting)
        mode = self.chance.choice(("park", "park", "allow", "allow", "allow", "deny"))
        output = self.chance.choice(("text", "text", "json", "stream-json"))
        args = ["--on-approval", mode, "--output", output]
        if self.chance.random() < 0.3:
            prompts = [self.prompt() for _ in range(self.chance.choice((2, 3)))]
            return self._run(args, self._moment(), "\n".join(prompts)) is None
        return self._run([*args, "-p", self.prompt()], self._moment()) is None

    def _decide(self, waiting: Sequence[Mapping[str, Any]]) -> bool:
        """`agent approvals approve` or `deny` of what waits; whether it was killed."""
        verb = self.chance.choice(("approve", "approve", "deny"))
        for call in waiting:
            if verb == "approve":
                self.permit(call["args"]["token"], call["why"] == "unknown_outcome")
            elif call["why"] == "write":
                self.refused.add(call["args"]["token"])
        args = ["approvals", verb, str(waiting[0]["id"])]
        return self._run(args, self._moment(), thread=False) is None

    def _run(
        self,
        args: Sequence[str],
        moment: Moment | None,
        stdin: str = "",
        *,
        thread: bool = True,
    ) -> int | None:
        """One run without a terminal: its exit code, None if it was killed at the `moment`."""
        if "allow" in args:
            self.refused -= {call["args"]["token"] for call in self._waiting()}
        if "deny" in args and thread:
            waits = [call for call in self._waiting() if call["why"] == "write"]
            self.refused |= {call["args"]["token"] for call in waits}
        given, out, err = (self.program.folder / name for name in ("in", "out", "err"))
        given.write_text(stdin, encoding="utf-8")
        options = ["--thread", THREAD] if thread else []
        with given.open() as source, out.open("wb") as out_file, err.open("wb") as err_file:
            process = self.program.start(
                *args, *options, stdin=source, stdout=out_file, stderr=err_file
            )
            code = self._wait(process, moment, lambda: out.stat().st_size + err.stat().st_size)
        if "allow" in args:
            self.allowed |= set(self.script.made)
        for path in (out, err):
            text = path.read_text("utf-8", "replace")
            self._note_shown(text.rpartition("\n")[0])  # whole lines
        self._check_writes()
        return code

    def permit(self, token: str, is_again: bool) -> None:
        """A person said yes to a write; `is_again`: to one that may have run."""
        self.allowed.add(token)
        self.refused.discard(token)
        self.again[token] += is_again

    def _chat(self) -> bool:
        """A chat in a terminal, with a person who answers what is asked."""
        from tests.chat_kit import AGENT
        from tests.pty_driver import PtyProgram

        argv = [str(AGENT), "--config", str(self.program.config), "--thread", THREAD]
        environment = {**self.program.env, "TERM": "xterm-256color"}
        person = Person(self, self.chance.choice((1, 2)))
        with PtyProgram(argv, environment, 100, 50, self.program.work) as program:
            code = self._wait(
                program.process,
                self._moment(),
                lambda: len(program.raw),
                lambda: person.look(program),
            )
            program.wait()
            text = program.unwrapped
        results = [line for line in text.splitlines() if line.startswith("←")]
        self._note_shown("\n".join([*results, *re.findall(r"done a\d+\.\n>", text)]))
        self._check_writes()
        return code is None

    # -- the kill ---------------------------------------------------------------------------------

    def _moment(self) -> Moment:
        """When the next run is to be killed."""
        chance = self.chance
        kind = chance.choice(("start", "asked", "asked", "shown", "shown", *["noted"] * 4))
        longest = 0.1 if kind == "noted" else 0.25  # within a slow write
        return Moment(kind, chance.choice((1, 1, 2, 3)), chance.uniform(0, longest))

    def _wait(
        self,
        process: subprocess.Popen[bytes],
        moment: Moment | None,
        written: Callable[[], int],
        tick: Callable[[], None] = lambda: None,
    ) -> int | None:
        """The exit code, None if the process was killed. `written`: bytes that it has shown."""
        started = time.monotonic()

        def counts() -> tuple[float, int, int, int]:
            lasted = time.monotonic() - started
            return lasted, self.script.asked, len(self._noted()), written()

        before = counts()
        while process.poll() is None:
            assert time.monotonic() - started < PATIENCE, self.said("a run does not end")
            tick()
            if moment is not None and moment.is_due(before, counts()):
                children = _children(process.pid)
                process.kill()
                process.wait()
                self._check_gone(children)
                return None
            time.sleep(0.004)
        assert process.returncode in (0, 3), self.said(f"exit code {process.returncode}")
        return process.returncode

    def _check_gone(self, children: Sequence[int]) -> None:
        end = time.monotonic() + PATIENCE
        while any(map(is_alive, children)):
            assert time.monotonic() < end, self.said("a server outlives the program")
            time.sleep(0.02)

    # -- what is known ----------------------------------------------------------------------------

    def _note_shown(self, text: str) -> None:
        self.results |= set(SHOWN_RESULT.findall(text))
        self.answers |= set(SHOWN_ANSWER.findall(text))

    def _noted(self) -> list[str]:
        return self.notes.read_text("utf-8").split() if self.notes.exists() else []

    def _waiting(self) -> list[dict[str, Any]]:
        """The calls that wait for a yes, each with the id of its approval."""
        found = pending_approvals(self.program.db)
        return [{**call, "id": one.id} for one in found for call in one.value["calls"]]

    def said(self, text: str) -> str:
        """What is wrong, and how to see it again."""
        again = f"python tests/kill_harness.py --seed {self.seed} --kills {self.kills + 1}"
        err = self.program.folder / "err"
        last = err.read_text("utf-8", "replace")[-2000:] if err.exists() else ""
        return f"{text} (turn {self.turn}; again: {again})\n{last}"

    # -- checks -----------------------------------------------------------------------------------

    def _check_file(self) -> None:
        if not self.program.db.exists():
            return
        with contextlib.closing(sqlite3.connect(self.program.db)) as conn:
            (found,) = conn.execute("PRAGMA integrity_check").fetchone()
        assert found == "ok", self.said(found)

    def _check_writes(self) -> None:
        """Each write at most once, and none that nobody allowed."""
        for token, count in Counter(self._noted()).items():
            assert count <= 1 + self.again[token], self.said(f"{token} was written {count} times")
            tool = self.script.made[token].tool
            is_allowed = token in self.allowed or tool in self.always
            assert is_allowed, self.said(f"{token} was written unasked")
            assert token not in self.refused, self.said(f"{token} was written after a no")

    async def _messages(self) -> list[AnyMessage]:
        model, db = ScriptedModel([]), self.program.db
        async with open_session(db, model, [], thread=THREAD) as session:
            assert not await session.is_unfinished(), self.said("the turn did not end")
            return await session.messages()

    def _check_thread(self, messages: list[AnyMessage]) -> None:
        made, said = self.script.made, self.said
        ids = Counter(m.id for m in messages)
        assert set(ids.values()) <= {1}, said(f"a message is there twice: {ids.most_common(1)}")
        assert open_calls(messages)[1] == [], said("a call is open")
        prompts = Counter(m.content for m in messages if isinstance(m, HumanMessage))
        assert set(prompts.values()) <= {1}, said(f"twice: {prompts.most_common(1)}")
        answers = Counter(m.content for m in messages if isinstance(m, AIMessage))
        for answer in self.answers:
            assert answers[f"done {answer}."] == 1, said(f"the answer {answer} is lost or doubled")
        found = [m for m in messages if isinstance(m, ToolMessage)]
        results = {m.tool_call_id: m for m in found}
        assert len(results) == len(found), said("a call has two results")
        for token in self.results:
            result = results.get(made[token].id)
            assert result is not None, said(f"the result of {token} was shown and is lost")
            is_whole = made[token].text in str(result.content)
            is_lost = self.is_discarded and made[token].tool not in WRITES
            assert is_whole or is_lost, said(f"the result of {token} is another: {result.content}")
        noted = set(self._noted())
        for token, call in made.items():
            outcome = getattr(results.get(call.id), "additional_kwargs", {}).get("outcome")
            if call.tool in WRITES and outcome == "success":
                assert token in noted, said(f"{token} is said to be written and is not")
            if outcome == "denied":
                assert token not in noted, said(f"{token} was written and is said to be denied")


@dataclass(slots=True)
class Person:
    """Types at a chat: `prompts` prompts, and an answer to each question."""

    conversation: Conversation
    prompts: int
    seen: int = -1

    def look(self, program: Any) -> None:
        """Answer what stands at the end of the screen, once."""
        if len(program.raw) == self.seen:
            return
        self.seen = len(program.raw)
        text = program.unwrapped
        conversation, chance = self.conversation, self.conversation.chance
        last = text.splitlines()[-1] if text else ""
        if last.startswith("Go on with it?") and last.endswith(GO_ON[-10:]):
            if chance.random() < 0.3:
                conversation.is_discarded = True
                program.send("d\r")
            else:
                program.send("\r")
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
        if answer in ("y", "a"):
            conversation.permit(token, is_again)
            if answer == "a":
                conversation.always.add(conversation.script.made[token].tool)
        elif not is_again:
            conversation.refused.add(token)
        program.send(f"{answer}\r")


def _children(pid: int) -> list[int]:
    """The processes that `pid` has started and that run; none where the system does not tell."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = stat.read_text().rpartition(")")[2].split()[1]
            if int(parent) == pid:
                found.append(int(stat.parent.name))
    return found


def talk(folder: Path, seed: str, kills: int) -> Conversation:
    """A conversation that is killed so often; raises AssertionError at the first thing wrong."""
    conversation = Conversation(folder, seed)
    with conversation.server:
        while conversation.kills < kills:
            conversation.kill_once()
            if conversation.chance.random() < 0.75:
                conversation.go_on()
        conversation.go_on()
    return conversation


def harness(folder: Path, seed: str, kills: int, length: int = 10) -> str:
    """`kills` in conversations of `length` kills, two at a time; what there was, in one line."""
    seeds = [f"{seed}.{n}" for n in range(-(-kills // length))]
    print(f"seeds: {' '.join(seeds)}", flush=True)
    with ThreadPoolExecutor(2) as pool:
        each = [pool.submit(talk, folder / one, one, min(length, kills)) for one in seeds]
        talked = [one.result() for one in each]
    return (
        f"{sum(t.kills for t in talked)} kills, {sum(t.turn for t in talked)} prompts,"
        f" {sum(t.script.asked for t in talked)} model calls,"
        f" {sum(len(t._noted()) for t in talked)} writes, {sum(len(t.results) for t in talked)}"
        f" results and {sum(len(t.answers) for t in talked)} answers shown"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", default=os.urandom(3).hex())
    parser.add_argument("--kills", type=int, default=20)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if "." in args.seed:
            (Path(folder) / "one").mkdir()
            talked = talk(Path(folder) / "one", args.seed, args.kills)
            print(f"{talked.kills} kills, {talked.turn} prompts")
        else:
            print(harness(Path(folder), args.seed, args.kills))


if __name__ == "__main__":
    main()
