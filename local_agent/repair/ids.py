"""The ids of the calls of one message: none empty, none twice, the same each time."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

_LENGTH = 9  # Mistral's templates take exactly nine letters or digits
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"


def unique_ids(message_id: str, given: Sequence[str]) -> list[str]:
    """The id of each call: the server's, or one of ours where it is empty or taken."""
    taken, used = set(given), set[str]()
    ids = []
    for number, call_id in enumerate(given):
        salt = 0
        while not call_id.strip() or call_id in used:
            call_id = _own_id(f"{message_id}/{number}/{salt}")
            call_id = "" if call_id in taken else call_id
            salt += 1
        used.add(call_id)
        ids.append(call_id)
    return ids


def _own_id(seed: str) -> str:
    number = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big")
    digits = []
    for _ in range(_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(digits)
