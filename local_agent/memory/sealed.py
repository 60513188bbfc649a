"""Values as they are stored: read strictly, and where there is a key encrypted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from local_agent.memory.crypt import Cipher, WrongKey
from local_agent.memory.faults import Unreadable
from local_agent.memory.serializer import StrictSerializer


class SealedSerializer(EncryptedSerializer):
    """Encrypts what is written, and reads strictly what was decrypted, or was never encrypted."""

    def __init__(self, cipher: Cipher, path: Path | str) -> None:
        super().__init__(cipher, StrictSerializer(path))
        self._path = path

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        try:
            return super().loads_typed(data)
        except WrongKey as exc:
            raise Unreadable(f"A value in {self._path} cannot be decrypted: {exc}.") from exc


def serializer(path: Path | str, cipher: Cipher | None) -> SerializerProtocol:
    """What reads and writes the values of the database at `path`."""
    return StrictSerializer(path) if cipher is None else SealedSerializer(cipher, path)
