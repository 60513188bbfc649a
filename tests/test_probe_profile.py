"""Profiles as files: what is written is read again, and what cannot be used counts as not there."""

from __future__ import annotations

import json
import stat
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_agent.errors import StorageError
from local_agent.probe import Findings, Identity, Profile, Profiles, Share
from local_agent.probe.profile import from_json

IDENTITY = Identity("qwen-7b", "http://127.0.0.1:1234/v1", {"context_length": 8192, "size": 5})
FOUND = Findings(single=Share(4, 4), thinking="no", reading=38.5, usage=True, cancels=False)
PROFILE = Profile(IDENTITY, "2026-01-02T03:04:05+00:00", FOUND, {"denial": "the time was over"})


def values(name: str) -> st.SearchStrategy[Any]:
    """Values of a finding."""
    kind = str(next(f.type for f in fields(Findings) if f.name == name)).removesuffix(" | None")
    shares = st.integers(1, 99).flatmap(
        lambda of: st.builds(Share, st.integers(0, of), st.just(of))
    )
    kinds = {"Share": shares, "bool": st.booleans(), "str": st.text(max_size=9)}
    return st.none() | kinds.get(kind, st.floats(0.001, 1e6))


@given(st.fixed_dictionaries({f.name: values(f.name) for f in fields(Findings)}))
def test_a_profile_is_read_as_it_was_written(found: dict[str, Any]) -> None:
    """Through JSON and back nothing changes, and what was not measured is null."""
    profile = replace(PROFILE, findings=Findings(**found))
    text = json.dumps(profile.as_json())
    assert from_json(json.loads(text)) == profile
    assert all(json.loads(text)["findings"][k] is None for k, v in found.items() if v is None)


def test_store(tmp_path: Path) -> None:
    """A profile is found for its very model, by nobody else's eyes, and written over as a whole."""
    said: list[str] = []
    profiles = Profiles(tmp_path / "profiles", said.append)
    assert profiles.find(IDENTITY) is None
    assert profiles.newest(IDENTITY.address) is None
    path = profiles.save(PROFILE)
    assert profiles.find(IDENTITY) == PROFILE
    if sys.platform != "win32":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = replace(PROFILE, made_at="2026-01-03T03:04:05+00:00")
    assert profiles.save(again) == path
    assert profiles.find(IDENTITY) == again
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    assert said == []


def test_another_way_of_loading_has_its_own(tmp_path: Path) -> None:
    """Another context, file or server is another profile; each comes back with its own."""
    profiles = Profiles(tmp_path)
    profiles.save(PROFILE)
    short = replace(IDENTITY, details={"context_length": 4096, "size": 5})
    elsewhere = replace(IDENTITY, address="http://10.0.0.1:1234/v1")
    assert profiles.find(short) is None
    assert profiles.find(elsewhere) is None
    other = replace(PROFILE, identity=short)
    profiles.save(other)
    assert (profiles.find(short), profiles.find(IDENTITY)) == (other, PROFILE)
    assert profiles.newest(IDENTITY.address, "qwen-7b") in (PROFILE, other)
    assert profiles.newest(IDENTITY.address, "other") is None
    assert profiles.newest(elsewhere.address) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[]",
        lambda text: "[" * 100_000,
        lambda text: text.replace('"right": 4', '"right": 5'),
        lambda text: text.replace('"right": 4', '"right": "x"'),
        lambda text: text.replace('"usage": true', '"usage": 1'),
        lambda text: text.replace('"reading": 38.5', '"reading": -1'),
        lambda text: text.replace('"single"', '"unheard_of"'),
        lambda text: text.replace('"schema_version": 1', '"schema_version": "x"').replace(
            "qwen", "q"
        ),
    ],
)
def test_a_damaged_file_is_not_used(tmp_path: Path, change: Any) -> None:
    """It counts as not there, and one line says so."""
    said: list[str] = []
    profiles = Profiles(tmp_path, said.append)
    path = profiles.save(PROFILE)
    text = path.read_text("utf-8")
    assert change(text) != text
    path.write_text(change(text), "utf-8")
    assert profiles.find(IDENTITY) is None
    assert all("is damaged" in line and "\n" not in line for line in said)
    assert len(said) <= 1


def test_a_file_of_a_newer_version_is_not_used(tmp_path: Path) -> None:
    """It is left as it is, and one line says why."""
    said: list[str] = []
    profiles = Profiles(tmp_path, said.append)
    path = profiles.save(PROFILE)
    text = path.read_text("utf-8").replace('"schema_version": 1', '"schema_version": 2')
    path.write_text(text, "utf-8")
    assert profiles.find(IDENTITY) is None
    assert len(said) == 1
    assert "newer version" in said[0]
    assert path.read_text("utf-8") == text


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """Is an error of ours that says which."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="cannot be kept"):
        Profiles(tmp_path / "file" / "profiles").save(PROFILE)


def test_what_was_not_measured_again_stays() -> None:
    """A later run that leaves something out does not lose it, and says that it is older."""
    later = Profile(IDENTITY, "2026-02-01T00:00:00+00:00", Findings(single=Share(1, 4)))
    both = later.over(PROFILE)
    assert both.findings == replace(FOUND, single=Share(1, 4))
    assert both.made_at == later.made_at
    assert both.earlier == ("thinking", "reading", "usage", "cancels")
    assert later.over(None) == later
