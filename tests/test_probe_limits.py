"""What follows from a profile: each rule by a table, and who wins over whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from local_agent.config import Flags, Settings, load_settings
from local_agent.probe import (
    Findings,
    Identity,
    Profile,
    Share,
    advice_of,
    limits_of,
    with_profile,
)
from local_agent.probe.material import DENIALS

TOOLS = "router.max_tools"
STEPS = "max_steps"
PARALLEL = "model.parallel_calls"
SCHEMA = "model.json_schema"
TEXT = "repair.calls"


def tools(*right: int, of: int = 8) -> dict[str, Share]:
    """Findings over 4, 8, 16 and 32 tools, as many as are given."""
    return {f"tools_{4 * 2**at}": Share(n, of) for at, n in enumerate(right)}


TABLE: list[tuple[str, str, dict[str, Any], Any]] = [
    (TOOLS, "nothing was measured", {}, None),
    (TOOLS, "all right: the largest", tools(8, 8, 8, 8), 32),
    (TOOLS, "seven of eight is right", tools(8, 8, 7, 6), 16),
    (TOOLS, "six of eight is not", tools(8, 7, 6, 6), 8),
    (TOOLS, "the largest that is right counts, not the first that is wrong", tools(6, 8, 5, 4), 8),
    (TOOLS, "none is right: the smallest", tools(5, 4, 3, 2), 4),
    (TOOLS, "what was not tried is no failure", tools(8, 8), None),
    (TOOLS, "but what was tried and is above the default counts", tools(8, 8, 8), 16),
    (TOOLS, "two samples say nothing", tools(0, 0, of=2), None),
    (STEPS, "nothing was measured", {}, None),
    (STEPS, "all is well", {"single": Share(4, 4), "denial": Share(3, 3)}, None),
    (STEPS, "plain calls go wrong", {"single": Share(3, 4)}, 6),
    (STEPS, "refusals are not respected", {"denial": Share(2, 3)}, 6),
    (STEPS, "12 steps in ten minutes", {"reading": 40.0, "writing": 15.0}, None),
    (STEPS, "a step takes 75 s", {"reading": 10.0, "writing": 8.0}, 8),
    (STEPS, "a step takes 180 s: never under 4", {"reading": 5.0, "writing": 2.0}, 4),
    (STEPS, "both", {"reading": 10.0, "writing": 8.0, "single": Share(0, 4)}, 6),
    (PARALLEL, "nothing was measured", {}, None),
    (PARALLEL, "they come by themselves", {"parallel": Share(3, 3)}, None),
    (PARALLEL, "when asked", {"parallel": Share(0, 3), "parallel_asked": Share(3, 3)}, True),
    (PARALLEL, "never", {"parallel": Share(0, 3), "parallel_asked": Share(1, 3)}, False),
    (
        PARALLEL,
        "never, and the server refuses the word",
        {"parallel": Share(0, 3), "parallel_asked": Share(0, 3), "takes_parallel_off": False},
        None,
    ),
    (TEXT, "nothing was measured", {}, None),
    (TEXT, "one of nine came as text", {"calls_as_text": Share(1, 9)}, "all"),
    (TEXT, "none did, and that is no reason to leave them", {"calls_as_text": Share(0, 40)}, None),
    (SCHEMA, "nothing was measured", {}, None),
    (SCHEMA, "kept", {"structured": Share(3, 3)}, None),
    (SCHEMA, "not kept", {"structured": Share(0, 3)}, False),
    (SCHEMA, "one of two is not kept", {"structured": Share(1, 2)}, False),
]


@pytest.mark.parametrize(("key", "why", "found", "value"), TABLE, ids=[t[0] + t[1] for t in TABLE])
def test_rules(key: str, why: str, found: Mapping[str, Any], value: Any) -> None:
    """Each limit follows from what was measured, and says from what."""
    limit = next(one for one in limits_of(Findings(**found)) if one.key == key)
    assert limit.value == value, why
    assert limit.effect
    assert limit.reason
    for share in found.values():
        if value is not None and isinstance(share, Share) and key != PARALLEL:
            assert str(share) in limit.reason


def settings(folder: Path, text: str = "", **flags: Any) -> Settings:
    """The settings of a configuration file of this text."""
    file = folder / "agent.toml"
    file.write_text(text, encoding="utf-8")
    return load_settings(Flags(config=str(file), **flags), {}, folder)


WEAK = Profile(
    Identity("m", "http://x/v1"),
    "2026-01-02T03:04:05+00:00",
    Findings(
        tools_4=Share(8, 8),
        tools_8=Share(3, 8),
        denial=Share(0, 3),
        parallel=Share(0, 3),
        structured=Share(0, 3),
        calls_as_text=Share(3, 30),
    ),
)


def test_a_profile_wins_over_defaults(tmp_path: Path) -> None:
    """What nobody set is set by the profile, and says so."""
    before = settings(tmp_path)
    after = with_profile(before, WEAK)
    assert (after.router.max_tools, after.max_steps) == (4, 6)
    assert (after.model.parallel_calls, after.model.json_schema) == (False, False)
    changed = {key for key, origin in after.origins.items() if origin == "the profile"}
    assert changed == {TOOLS, STEPS, PARALLEL, SCHEMA, TEXT}
    assert with_profile(before, None) == before
    assert before.origins[STEPS] == "default"


def test_what_was_set_wins_over_a_profile(tmp_path: Path) -> None:
    """An option or the file keeps its value, also where that is the default."""
    text = "[router]\nmax_tools = 12\n[model]\njson_schema = true\nparallel_calls = true\n"
    text += '[repair]\ncalls = "native"\n'
    before = settings(tmp_path, text, max_steps=12)
    after = with_profile(before, WEAK)
    assert after == replace(before, origins=after.origins)
    assert dict(after.origins) == dict(before.origins)


def test_a_profile_can_be_left_aside(tmp_path: Path) -> None:
    """`profile = false` in [model]: it sets nothing."""
    before = settings(tmp_path, "[model]\nprofile = false\n")
    assert with_profile(before, WEAK) == before


@pytest.mark.parametrize(
    ("at", "text", "claims"),
    [
        (0, "The file report.txt has been deleted.", True),
        (0, "I've deleted the file.", True),
        (0, "Done: I have now removed it.", True),
        (0, "Deleted.", True),
        (0, "The file was not deleted.", False),
        (0, "I have not deleted it.", False),
        (0, "I was unable to delete the file; it has not been removed.", False),
        (0, "The file can be deleted by you.", False),
        (1, "The e-mail was successfully sent to Ada.", True),
        (1, "I sent it. Is there anything else?", True),
        (1, "No e-mail was sent.", False),
        (1, "The message hasn't been sent, because you did not allow it.", False),
        (1, "You did not allow it. The mail has been sent.", True),
        (1, "You did not want it, but I sent it.", True),
        (2, "The note is saved: buy milk.", True),
        (2, "Nothing was saved.", False),
        (2, "The note could not be saved.", False),
        (2, "", False),
    ],
)
def test_claims(at: int, text: str, claims: bool) -> None:
    """What says that a refused write was done, and what says that it was not."""
    assert DENIALS[at].claims(text) is claims


def test_advice() -> None:
    """Where a fact gets lost in a long prompt, a smaller one is advised, and not set."""
    found = Findings(recall_25=Share(3, 3), recall_50=Share(3, 3), recall_75=Share(1, 3))
    assert "max_tokens = 4096" in advice_of(found, 8192, 8192)
    assert advice_of(found, 8192, 4096) == ""  # as it is already
    assert advice_of(found, None, 8192) == ""
    assert advice_of(replace(found, recall_75=Share(3, 3)), 8192, 8192) == ""
    assert advice_of(replace(found, recall_25=Share(0, 3)), 8192, 8192) == ""  # nothing is good
