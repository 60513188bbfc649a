"""Encryption of what threads hold, as an option: a key from a text, values and texts by it.

The key of the user is stretched by scrypt with a salt that lies in the file, and used for
XChaCha20-Poly1305, whose random nonces are long enough for any number of values. (AES in EAX, which
LangGraph offers, takes five times as long for values as small as ours: a long thread has 10,000.)
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import secrets
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from local_agent.errors import ConfigError, StorageError
from local_agent.memory.raw import plain_value

NAME = "xchacha20"  # stands behind a value's type: "msgpack+xchacha20"
_PREFIX = "sealed:1:"  # of a text in a column of ours
_NONCE, _TAG, _SALT, _KEY = 24, 16, 16, 32  # bytes
# 32 MB and some 0.1 s at each start, for which a guess costs as much. OWASP's table of equals has
# n = 2**15 with p = 3; one third of it is what a start can take.
_COST = {"kdf": "scrypt", "n": 2**15, "r": 8, "p": 1}
_MOST = {"n": 2**20, "r": 16, "p": 16}  # of a file that asks for more memory than any machine has
_PROBE = b"local-agent"

TABLE = """
    CREATE TABLE IF NOT EXISTS agent_cipher (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        cost TEXT NOT NULL,
        salt BLOB NOT NULL,
        probe BLOB NOT NULL
    )
"""


class WrongKey(ValueError):
    """What was to be decrypted was encrypted by another key, or is damaged."""


@dataclass(frozen=True, slots=True, repr=False)
class Cipher:
    """Encrypts and decrypts with one key; LangGraph's protocol for a cipher."""

    key: bytes

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """The name of the cipher, and nonce, tag and text together."""
        from Crypto.Cipher import ChaCha20_Poly1305

        nonce = secrets.token_bytes(_NONCE)
        data, tag = ChaCha20_Poly1305.new(key=self.key, nonce=nonce).encrypt_and_digest(plaintext)
        return NAME, nonce + tag + data

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """What was encrypted. Raises WrongKey, also for the name of another cipher."""
        from Crypto.Cipher import ChaCha20_Poly1305

        if ciphername != NAME or len(ciphertext) < _NONCE + _TAG:
            raise WrongKey(f"it is not of the cipher {NAME}")
        nonce, rest = ciphertext[:_NONCE], ciphertext[_NONCE:]
        cipher = ChaCha20_Poly1305.new(key=self.key, nonce=nonce)
        try:
            return cipher.decrypt_and_verify(rest[_TAG:], rest[:_TAG])
        except ValueError as exc:
            raise WrongKey("it was encrypted with another key, or is damaged") from exc

    def seal(self, text: str) -> str:
        """A text for a column of ours."""
        data = self.encrypt(text.encode("utf-8", "replace"))[1]
        return _PREFIX + base64.b64encode(data).decode("ascii")

    def open(self, stored: str) -> str:
        """The text of a column; one that was never encrypted is as it is."""
        try:
            data = base64.b64decode(stored.removeprefix(_PREFIX), validate=True)
            return self.decrypt(NAME, data).decode("utf-8", "replace")
        except (WrongKey, binascii.Error):
            return stored


class Opened(sqlite3.Connection):
    """A connection that knows the cipher of its file; None where nothing in that is encrypted.

    `sealed(text)` and `opened(text)` in its statements are for columns that hold texts. Without a
    cipher the first changes nothing, and the second gives "" for what is encrypted.
    """

    cipher: Cipher | None = None

    def use(self, cipher: Cipher | None) -> None:
        """Read and write by that cipher from now on."""
        self.cipher = cipher
        self.create_function("sealed", 1, lambda text: _sealed(text, cipher))
        self.create_function("opened", 1, lambda stored: _opened(stored, cipher))

    def stored(self, kind: str, blob: bytes) -> tuple[str, bytes]:
        """Type and bytes of a stored value as they were before they were encrypted, if they were.

        Raises WrongKey.
        """
        name, _, ciphername = kind.partition("+")
        if not ciphername or self.cipher is None:
            return kind, blob
        return name, self.cipher.decrypt(ciphername, blob)


def _sealed(text: str | None, cipher: Cipher | None) -> str | None:
    return cipher.seal(text) if cipher and text else text


def _opened(stored: str | None, cipher: Cipher | None) -> str | None:
    if stored is None or not stored.startswith(_PREFIX):
        return stored
    return cipher.open(stored) if cipher else ""


def is_sealed(stored: str) -> bool:
    """Whether a text is stored encrypted."""
    return stored.startswith(_PREFIX)


def bytes_of(conn: sqlite3.Connection) -> Callable[[str, bytes], bytes]:
    """What gives the bytes of a stored value, by its type: those in which its texts stand."""

    def read(kind: str, blob: bytes) -> bytes:
        try:
            return conn.stored(kind, blob)[1] if isinstance(conn, Opened) else blob
        except WrongKey:
            return b""

    return read


def plain_of(conn: sqlite3.Connection) -> Callable[[str, bytes | None], Any]:
    """As `raw.plain_value`, for the values of a file that may be encrypted."""

    def plain(kind: str, blob: bytes | None) -> Any:
        if blob is None or not isinstance(conn, Opened):
            return plain_value(kind, blob)
        try:
            return plain_value(*conn.stored(kind, blob))
        except WrongKey:
            return None

    return plain


def read_cipher(conn: sqlite3.Connection, path: Path | str, key: str) -> Cipher | None:
    """The cipher of an open database; None where nothing in it is encrypted.

    Raises StorageError where there is no key for what is, or another one.
    """
    has = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'agent_cipher'"
    if conn.execute(has).fetchone() is None:
        return None
    row = conn.execute("SELECT cost, salt, probe FROM agent_cipher").fetchone()
    if row is None:
        return None
    if not key:
        raise StorageError(
            f"{path} is encrypted, and no key is set.",
            "Set [memory] key in the configuration to the one it was made with.",
        )
    cipher = Cipher(_derived(key, *_checked(row, path)))
    try:
        cipher.decrypt(NAME, row[2])
    except WrongKey as exc:
        raise StorageError(
            f"The key of [memory] is not the one that {path} was made with.",
            "Set that one, or use another file with --db.",
        ) from exc
    return cipher


def begin_cipher(conn: sqlite3.Connection, path: Path | str, key: str) -> Cipher:
    """The cipher of a database that is encrypted from now on, inside the caller's transaction.

    Another process may have begun it just before, with this key or another.
    """
    conn.execute(TABLE)
    if (found := read_cipher(conn, path, key)) is not None:
        return found
    salt, cost = secrets.token_bytes(_SALT), json.dumps(_COST)
    cipher = Cipher(_derived(key, cost, salt))
    probe = cipher.encrypt(_PROBE)[1]
    conn.execute("INSERT INTO agent_cipher VALUES (1, ?, ?, ?)", (cost, salt, probe))
    return cipher


def check_installed() -> None:
    """Raise ConfigError where the library is not there."""
    try:
        import Crypto.Cipher.ChaCha20_Poly1305  # noqa: F401
    except ImportError as exc:
        raise ConfigError(
            "[memory] key needs the package pycryptodome, which is not installed.",
            "Install the extra: pip install 'local-agent[encrypt]'",
        ) from exc


def _checked(row: tuple[Any, Any, Any], path: Path | str) -> tuple[str, bytes]:
    """Cost and salt, unless the file asks for what no file of ours does."""
    try:
        cost = json.loads(row[0])
        fine = cost["kdf"] == "scrypt" and all(0 < int(cost[k]) <= _MOST[k] for k in _MOST)
        if fine and isinstance(row[1], bytes) and isinstance(row[2], bytes):
            return row[0], row[1]
    except (ValueError, TypeError, KeyError):
        pass
    raise StorageError(f"What {path} says of its encryption is damaged.", "Restore a copy of it.")


@lru_cache(maxsize=4)
def _derived(key: str, cost: str, salt: bytes) -> bytes:
    """The key of 32 bytes for a text; kept, because a command may open the file twice."""
    check_installed()
    set_to = json.loads(cost)
    n, r, p = int(set_to["n"]), int(set_to["r"]), int(set_to["p"])
    memory = 128 * r * (n + p + 2) * 2
    return hashlib.scrypt(key.encode(), salt=salt, n=n, r=r, p=p, maxmem=memory, dklen=_KEY)
