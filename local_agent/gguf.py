"""What the header of a GGUF file says of the model in it; reads some kilobytes, never the weights.

Format: github.com/ggml-org/ggml/blob/master/docs/gguf.md. Magic, version, number of tensors,
number of pairs, then the pairs: key, type, value, all little-endian.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from local_agent.errors import ConfigError

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q"}
_SCALARS[12] = "d"
_STRING, _ARRAY = 8, 9
_LONGEST = 1_000_000  # bytes of a string; more is a damaged file, and would be read into memory

Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Header:
    """`name` as the makers call the model, "" if unsaid; `context_length` in tokens, as trained."""

    name: str = ""
    context_length: int | None = None


def read_header(path: Path) -> Header:
    """Read the header of `path`. A damaged one gives what was readable: llama.cpp says the rest.

    Raises ConfigError if there is no such file, it cannot be read, or it is no GGUF file.
    """
    try:
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                raise ConfigError(
                    f"{path} is not a GGUF model file.",
                    "Name a file that ends in .gguf, or run: agent model pull",
                )
            pairs = _read_pairs(file)
    except FileNotFoundError as exc:
        raise ConfigError(
            f"There is no model file {path}.", "Name one that is there, or run: agent model pull"
        ) from exc
    except OSError as exc:
        raise ConfigError(f"The model file {path} cannot be read: {exc.strerror}.") from exc
    name = pairs.get("general.basename") or pairs.get("general.name") or ""
    trained = pairs.get(f"{pairs.get('general.architecture')}.context_length")
    return Header(str(name), trained if isinstance(trained, int) and trained > 0 else None)


def _read_pairs(file: BinaryIO) -> dict[str, Value]:
    """The pairs before the vocabulary, which is megabytes long and comes behind what we need."""
    pairs: dict[str, Value] = {}
    try:
        _, _, count = struct.unpack("<IQQ", file.read(20))
        for _ in range(count):
            key = _read_string(file)
            (kind,) = struct.unpack("<I", file.read(4))
            if kind == _STRING:
                pairs[key] = _read_string(file)
            elif kind == _ARRAY and not key.startswith("tokenizer."):
                _skip_array(file)
            elif kind in _SCALARS:
                form = "<" + _SCALARS[kind]
                (pairs[key],) = struct.unpack(form, file.read(struct.calcsize(form)))
            else:
                break
    except (struct.error, ValueError, OverflowError):
        pass
    return pairs


def _skip_array(file: BinaryIO) -> None:
    kind, count = struct.unpack("<IQ", file.read(12))
    if kind in _SCALARS:
        file.seek(count * struct.calcsize(_SCALARS[kind]), 1)
        return
    if kind != _STRING or count > _LONGEST:
        raise ValueError(kind)
    for _ in range(count):
        _read_string(file)


def _read_string(file: BinaryIO) -> str:
    (length,) = struct.unpack("<Q", file.read(8))
    if length > _LONGEST:
        raise ValueError(length)
    return file.read(length).decode("utf-8", "replace")
