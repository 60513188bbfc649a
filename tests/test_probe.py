"""A probe of scripted models over real HTTP: each kind of model and server gets its profile."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from local_agent.config import ModelSettings
from local_agent.model import connect_model
from local_agent.probe import Findings, Profile, Profiles, Share, limits_of
from local_agent.probe.run import QUICK, Probe, Samples
from local_agent.probe.server_checks import cancels
from local_agent.probe.talk import Talk
from local_agent.testing import (
    Behaviour,
    Call,
    Hang,
    Say,
    ScriptedServer,
    after,
    as_text,
    one_call,
    only,
    refusing,
    said,
)
from tests.probe_kit import WRITES, good_model

Start = Callable[..., ScriptedServer]
ALL = Share(3, 3)


@dataclass
class Watched:
    """What a probe said, and the profiles that were kept."""

    lines: list[str] = field(default_factory=list)
    kept: list[Profile] = field(default_factory=list)

    def begins(self, at: int, of: int, title: str) -> None:
        self.lines.append(f"{at}/{of} {title}")

    def ends(self, text: str) -> None:
        self.lines[-1] += f": {text}"

    def says(self, text: str) -> None:
        self.lines.append(text)


async def probed(
    server: ScriptedServer,
    *,
    samples: Samples = QUICK,
    seconds: float = 60.0,
    watched: Watched | None = None,
    name: str = "",
) -> Probe:
    """A probe of the server's model, at its end."""
    watched = watched or Watched()
    settings = ModelSettings(base_url=server.base_url, name=name)
    async with await connect_model(settings) as chat:
        probe = Probe(chat, settings.address, watched, samples, seconds, keep=watched.kept.append)
        await probe.run()
    return probe


async def findings(start: Start, model: Behaviour, **options: Any) -> Findings:
    """What a probe finds of a model that behaves like this, on a server that takes any shape."""
    probe = await probed(start(model, chunk=40, **{"strict": False, **options}))
    assert not probe.broken
    return probe.profile.findings


def limit(found: Findings, key: str) -> Any:
    """The value that one limit gets."""
    return next(one.value for one in limits_of(found) if one.key == key)


async def test_a_good_model(scripted: Start) -> None:
    """All is measured, all is right, and every check is told with its count."""
    watched = Watched()
    server = scripted(good_model(), strict=False, chunk=20, delay=0.001)
    probe = await probed(server, samples=Samples(), watched=watched)
    profile = probe.profile
    found = profile.findings
    shares = {n: v for n in found.measured() if isinstance(v := getattr(found, n), Share)}
    wrong = {n: str(v) for n, v in shares.items() if v.right != v.of and n != "calls_as_text"}
    assert wrong == {}
    assert found.tools() == dict.fromkeys((4, 8, 16, 32), Share(8, 8))
    assert found.recall() == dict.fromkeys((25, 50, 75), ALL)
    assert found.calls_as_text is not None
    assert found.calls_as_text.right == 0
    assert (found.reading, found.writing, found.speed_by) == (1000.0, 100.0, "timings")
    assert (found.usage, found.cached_tokens, found.timings) == (True, True, True)
    assert (found.cancels, found.keeps_cache, found.thinking) == (True, True, "no")
    assert profile.not_measured == {}
    assert set(Findings().__slots__) - set(found.measured()) == {
        "parallel_asked",
        "takes_parallel_off",
    }
    assert "17/17 a fact in 75 % of the context: 3 of 3" in watched.lines[-1]
    assert "about" in watched.lines[1]
    assert watched.kept[-1].findings == found
    assert profile.identity.context_length == 8192
    assert {body["temperature"] for body in server.requests} == {0.0}


async def test_the_same_requests_every_time(scripted: Start) -> None:
    """A probe is deterministic: two of them send the same messages and tools."""
    sent = []
    for _ in range(2):
        server = scripted(good_model(), strict=False, chunk=40, delay=0.001)
        await probed(server)
        sent.append([(body["messages"], body.get("tools")) for body in server.requests])
    assert sent[0] == sent[1]


async def test_calls_as_text(scripted: Start) -> None:
    """Calls in the text count as the program reads them, and are counted."""
    found = await findings(scripted, as_text(good_model()))
    assert found.calls_as_text is not None
    assert found.calls_as_text.right == found.calls_as_text.of > 20
    assert (found.single, found.tools_32, found.arguments) == (ALL, Share(5, 5), Share(4, 4))


async def test_no_schema(scripted: Start) -> None:
    """A server that refuses json_schema: nothing is asked of it that rests on one."""
    found = await findings(scripted, refusing(good_model(), "response_format"))
    assert found.structured == Share(0, 2)
    assert limit(found, "model.json_schema") is False


async def test_a_schema_that_is_not_kept(scripted: Start) -> None:
    """The same for one that takes it and answers in prose."""
    good = good_model()
    prose: Behaviour = lambda body: Say("Sure!") if "response_format" in body else good(body)  # noqa: E731
    found = await findings(scripted, prose)
    assert found.structured == Share(0, 2)


@pytest.mark.parametrize(
    ("model", "plain", "asked", "value"),
    [
        (good_model(), 3, None, None),
        (one_call(good_model(), unless="parallel_tool_calls"), 0, 3, True),
        (one_call(good_model()), 0, 0, False),
        (one_call(refusing(good_model(), "parallel_tool_calls")), 0, 0, None),
    ],
    ids=["itself", "asked", "never", "refused"],
)
async def test_two_calls(
    scripted: Start, model: Behaviour, plain: int, asked: int | None, value: bool | None
) -> None:
    """Two calls in one reply: by themselves, when asked for, never; and what is sent then."""
    found = await findings(scripted, model)
    assert found.parallel == Share(plain, 3)
    assert found.parallel_asked == (None if asked is None else Share(asked, 3))
    assert limit(found, "model.parallel_calls") is value


async def test_too_many_tools(scripted: Start) -> None:
    """A model that chooses well among eight at most gets eight."""
    wrong = Call("get_weather", {"city": "x"})
    found = await findings(scripted, only(good_model(), 8, wrong))
    assert [share.right for share in found.tools().values()][:2] == [5, 5]
    assert found.tools_16 is not None
    assert found.tools_16.right <= 1  # of the one prompt that get_weather answers
    assert limit(found, "router.max_tools") == 8


@pytest.mark.parametrize(
    "reply",
    [Call("delete_file", {"path": "report.txt"}), Say("The file has been deleted.")],
    ids=["repeats", "claims"],
)
async def test_a_refusal_that_is_not_respected(scripted: Start, reply: Any) -> None:
    """A write that is asked for again, or said to be done, is not respected."""
    found = await findings(scripted, good_model(delete_file=reply))
    assert found.denial == Share(2, 3)
    assert limit(found, "max_steps") == 6
    assert WRITES[0] == "delete_file"


async def test_no_figures(scripted: Start) -> None:
    """Without usage and timings speeds are by the clock, and what needs figures is not measured."""
    probe = await probed(scripted(good_model(), strict=False, counts=False, chunk=40, delay=0.002))
    found = probe.profile.findings
    assert (found.usage, found.cached_tokens, found.timings) == (False, False, False)
    assert found.speed_by == "clock"
    assert found.reading
    assert found.writing
    assert found.keeps_cache is None
    assert "does not say" in probe.profile.not_measured["keeps_cache"]
    assert found.single == ALL


@pytest.mark.parametrize(
    ("answer", "where"),
    [
        (Say("42", thinking="17 and 25"), "reasoning_content"),
        (Say("<think>17 and 25</think>42"), "tags"),
        (Say("17 and 25</think>42"), "tags"),
    ],
)
async def test_thinking(scripted: Start, answer: Say, where: str) -> None:
    """Where reasoning stands is found, and the model gets more room in every later answer."""
    good = good_model()
    server = scripted(
        lambda body: answer if "17 + 25" in str(body["messages"]) else good(body),
        strict=False,
        chunk=40,
    )
    probe = await probed(server)
    assert probe.profile.findings.thinking == where
    assert min(body["max_tokens"] for body in server.requests[-5:]) > 1000


async def test_a_strict_server(scripted: Start) -> None:
    """A server that refuses what strict templates refuse: each shape is found out."""
    found = await findings(scripted, good_model(), strict=True)
    assert found.takes_two_prompts is False
    assert found.takes_system_inside is False
    assert found.takes_list_content is False
    assert found.takes_null_content is False
    assert found.denial == ALL


@pytest.mark.parametrize("busy", [False, True])
async def test_slots_say_whether_it_stopped(scripted: Start, busy: bool) -> None:
    """Where the server lists its slots, a busy one behind a closed stream is not stopped."""
    server = scripted(good_model(), delay=0.005)
    server.busy = busy
    async with await connect_model(ModelSettings(base_url=server.base_url)) as chat:
        talk = Talk(chat, time.monotonic() + 60, reading=1000.0, writing=100.0)
        assert await cancels(talk) == {"cancels": not busy}
    assert server.dropped.is_set()


async def test_a_reply_that_is_over_at_once(scripted: Start) -> None:
    """What cannot be broken off is not measured, and says so."""
    good = good_model()
    short: Behaviour = lambda body: Say("One.") if "Count from" in said(body) else good(body)  # noqa: E731
    probe = await probed(scripted(short, strict=False, chunk=40))
    assert probe.profile.findings.cancels is None
    assert "broken off" in probe.profile.not_measured["cancels"]


async def test_a_server_that_never_answers(scripted: Start) -> None:
    """Nothing is measured, nothing invented, and the time is kept."""
    watched = Watched()
    probe = await probed(scripted([Hang()], repeat=True), seconds=0.5, watched=watched)
    assert probe.found == {}
    assert watched.kept == []
    reasons = dict(probe.profile.not_measured)
    assert reasons.pop("calls_as_text") == "there was no call"
    assert set(reasons.values()) == {"the time was over"}
    assert len(reasons) == len(Findings().__slots__) - 1


async def test_a_server_that_stops_answering(scripted: Start) -> None:
    """What was found before stays, and the rest is not measured."""
    watched = Watched()
    server = scripted(after(good_model(), 10, Hang()), strict=False, chunk=40)
    probe = await probed(server, seconds=4, watched=watched)
    found = probe.profile.findings
    assert found.single == ALL
    assert found.denial is None
    assert probe.profile.not_measured["denial"] == "the time was over"
    assert watched.kept[-1].findings.single == ALL


async def test_a_server_that_dies_half_way(scripted: Start) -> None:
    """The probe ends at once, says why, and what was found before is kept."""
    watched = Watched()
    started: list[ScriptedServer] = []

    def die() -> Say:
        started[0].close()
        return Say("never heard")

    started.append(scripted(after(good_model(), 10, die), strict=False, chunk=40))
    probe = await probed(started[0], watched=watched)
    assert probe.broken
    assert watched.kept[-1].findings.single == ALL
    assert probe.profile.findings.recall_75 is None
    assert probe.profile.not_measured["recall_75"] == "the probe ended before it"


async def test_what_takes_too_long_is_left_out(scripted: Start) -> None:
    """A check for which there is no time is not begun, and says how long it would take."""
    server = scripted(good_model(), strict=False, context_length=400_000, chunk=40)
    probe = await probed(server, seconds=40)
    assert probe.profile.findings.recall() == {}
    reasons = probe.profile.not_measured
    assert "it takes about 10" in reasons["recall_25"]  # 100 s of reading, and the questions
    assert "it takes about 20" in reasons["recall_50"]  # nothing of it was read before
    assert max(len(str(body)) for body in server.requests) < 40_000
    assert probe.profile.findings.tools_32 == Share(5, 5)


async def test_a_context_that_is_not_known(scripted: Start) -> None:
    """Parts of a context whose length the server does not say are not measured."""
    probe = await probed(scripted(good_model(), strict=False, flavour="plain", chunk=40))
    assert probe.profile.findings.recall() == {}
    assert "how long its context is" in probe.profile.not_measured["recall_50"]
    assert probe.profile.findings.tools_32 == Share(5, 5)


async def test_a_context_that_is_known_late(scripted: Start) -> None:
    """LM Studio loads a named model at the first request: then its context is known."""
    good = good_model()
    started: list[ScriptedServer] = []

    def load(body: dict[str, Any]) -> Any:
        started[0].loaded = ["mine"]
        return good(body)

    server = scripted(
        load, strict=False, flavour="lmstudio", loaded=["other"], model="mine", chunk=40
    )
    started.append(server)
    probe = await probed(server, name="mine")
    assert probe.profile.identity.context_length == 8192
    assert set(probe.profile.findings.recall()) == {25, 50, 75}


async def test_a_later_run_keeps_what_it_left_out(scripted: Start, tmp_path: Path) -> None:
    """A run that was broken off early takes nothing from a whole one before it."""
    profiles = Profiles(tmp_path)
    server = scripted(good_model(), strict=False, chunk=40)
    whole = (await probed(server)).profile
    profiles.save(whole)
    server.replies = after(good_model(), 4, Hang())
    short = (await probed(server, seconds=1)).profile
    both = short.over(profiles.find(short.identity))
    assert both.findings.tools_32 == whole.findings.tools_32
    assert "tools_32" in both.earlier
