"""Checks of what a file says, each naming the place: types, sizes, characters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from local_agent.errors import TransferError

T = TypeVar("T")
_TYPES = {dict: "an object", list: "a list", str: "a text", int: "a whole number", bool: "a truth"}
LONGEST_ID = 256  # characters; ours have 32 or 36


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file, for messages: `steps[3].messages[0]`."""

    name: str = ""

    def __getitem__(self, key: int | str) -> Place:
        if isinstance(key, int):
            return Place(f"{self.name}[{key}]")
        return Place(f"{self.name}.{key}" if self.name else key)

    def wrong(self, what: str) -> TransferError:
        """The error that says `what` of this place."""
        return TransferError(f"{self.name or 'It'} {what}.")

    def of(self, value: Any, kind: type[T]) -> T:
        """`value`, which must be of `kind`; a truth value is no number."""
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.wrong(f"must be {_TYPES[kind]}")
        return value

    def get(self, table: Mapping[str, Any], key: str, kind: type[T], default: T) -> T:
        """The value of a key that may be missing."""
        return self[key].of(table[key], kind) if key in table else default

    def need(self, table: Mapping[str, Any], key: str, kind: type[T]) -> T:
        """The value of a key that must be there."""
        if key not in table:
            raise self.wrong(f'has no "{key}"')
        return self[key].of(table[key], kind)

    def texts(self, value: Any) -> list[str]:
        """A list of texts."""
        items: list[Any] = self.of(value, list)
        return [self[i].of(item, str) for i, item in enumerate(items)]

    def known(self, table: Mapping[str, Any], keys: Sequence[str]) -> None:
        """No other keys than these: what is not understood would be lost without a word."""
        odd = next((key for key in table if key not in keys), None)
        if odd is not None:
            raise self.wrong(f'has the unknown key "{odd[:40]}"')

    def ident(self, value: Any) -> str:
        """An id: a text of a sensible length without control characters."""
        text = self.of(value, str)
        if not 0 < len(text) <= LONGEST_ID or not text.isprintable():
            raise self.wrong("is no id")
        return text
