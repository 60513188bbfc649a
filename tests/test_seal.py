"""The key for approvals: made once, private, and what it marks cannot be made without it."""

from __future__ import annotations

import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from local_agent.errors import StorageError
from local_agent.seal import FILE_NAME, Seal, open_seal


def test_a_mark_holds_for_its_own_parts_and_key_only() -> None:
    """Other parts, other borders between parts and another key do not hold."""
    seal = Seal(b"k" * 32)
    mark = seal.sign("run", "a", "bc")

    assert seal.holds(mark, "run", "a", "bc")
    assert not seal.holds(mark, "run", "ab", "c")
    assert not seal.holds(mark, "run", "a")
    assert not Seal(b"x" * 32).holds(mark, "run", "a", "bc")
    assert not seal.holds("", "run", "a", "bc")
    assert not seal.holds("é", "run", "a", "bc")


def test_the_key_is_kept_and_private(tmp_path: Path) -> None:
    """The second opening has the key of the first; nobody else can read the file."""
    folder = tmp_path / "data"
    first, second = open_seal(folder), open_seal(folder)

    assert first == second
    if sys.platform != "win32":
        assert stat.S_IMODE((folder / FILE_NAME).stat().st_mode) == 0o600
    assert [path.name for path in folder.iterdir()] == [FILE_NAME]


def test_many_first_starts_at_once_agree(tmp_path: Path) -> None:
    """Side by side openings of a new folder all get one key."""
    with ThreadPoolExecutor(8) as pool:
        seals = list(pool.map(lambda _: open_seal(tmp_path / "data"), range(32)))

    assert len({seal.key for seal in seals}) == 1


def test_a_run_without_a_folder_writes_nothing(tmp_path: Path) -> None:
    """Without a folder each seal is its own."""
    assert open_seal(None) != open_seal(None)


def test_a_damaged_key_is_said(tmp_path: Path) -> None:
    """A key of another length is refused with the path and what to do."""
    (tmp_path / FILE_NAME).write_bytes(b"short")

    with pytest.raises(StorageError, match=r"damaged.*Delete it"):
        open_seal(tmp_path)


def test_a_folder_that_cannot_be_is_said(tmp_path: Path) -> None:
    """A file in the place of the folder is one line, no traceback."""
    (tmp_path / "data").write_text("x")

    with pytest.raises(StorageError, match="cannot be kept"):
        open_seal(tmp_path / "data")
