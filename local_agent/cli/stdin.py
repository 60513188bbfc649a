"""Standard input that is no terminal: whole, or a prompt a line; it never blocks the end."""

from __future__ import annotations

import asyncio
import codecs
import os
import sys
import threading
from collections.abc import AsyncIterator

from local_agent.errors import UsageError

FIRST_BYTE_SECONDS = 1.0  # how long `-p` waits for a pipe that nobody may ever write to
LARGEST = 16 * 1024 * 1024  # bytes; far more than any model reads
_BLOCK = 64 * 1024
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_WIDE = tuple(mark for mark, name in _BOMS if name != "utf-8-sig")


def decode(data: bytes) -> str:
    """Text in the encoding its byte order mark names, else UTF-8; line ends become newlines."""
    encoding = next((name for mark, name in _BOMS if data.startswith(mark)), "utf-8")
    text = data.decode(encoding, errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


class _Blocks:
    """What can be read from `source`, block by block, then b"".

    A read cannot be cancelled, so it is done in a daemon thread; it runs ahead by 16 blocks. It
    reads from the descriptor: who waits in `sys.stdin` holds a lock that the exit of Python needs.
    """

    def __init__(self, source: int) -> None:
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._places = threading.Semaphore(16)
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, args=(source, loop), daemon=True).start()

    def _read(self, source: int, loop: asyncio.AbstractEventLoop) -> None:
        block = b"-"
        while block:
            self._places.acquire()
            try:
                block = os.read(source, _BLOCK)
            except OSError:
                block = b""
            try:
                loop.call_soon_threadsafe(self._queue.put_nowait, block)
            except RuntimeError:  # the loop is closed: nobody wants the rest
                return

    async def get(self) -> bytes:
        block = await self._queue.get()
        self._places.release()
        return block


def _source() -> int | None:
    return sys.stdin.fileno() if sys.stdin is not None else None


async def read_all() -> tuple[str, bool]:
    """All of standard input, and whether anything or its end came within the first second.

    Raises `UsageError` when it is larger than 16 MiB.
    """
    source = _source()
    if source is None:
        return "", True
    blocks = _Blocks(source)
    try:
        block = await asyncio.wait_for(blocks.get(), FIRST_BYTE_SECONDS)
    except TimeoutError:
        return "", False
    return decode(await _rest(blocks, block)), True


async def read_whole() -> str:
    """All of standard input, however long it takes to come. Raises `UsageError` over 16 MiB."""
    source = _source()
    if source is None:
        return ""
    blocks = _Blocks(source)
    return decode(await _rest(blocks, await blocks.get()))


async def _rest(blocks: _Blocks, block: bytes) -> bytes:
    data = bytearray()
    while block:
        data += block
        _check_size(data)
        block = await blocks.get()
    return bytes(data)


def _check_size(data: bytes | bytearray) -> None:
    if len(data) > LARGEST:
        raise UsageError(
            f"Standard input is larger than {LARGEST // 1024 // 1024} MiB.",
            "No model reads that much: send the part that matters.",
        )


async def read_prompts() -> AsyncIterator[str]:
    """A prompt for each line, as they come; blank lines are skipped, `quit` or `exit` ends.

    Raises `UsageError` for a line of more than 16 MiB.
    """
    source = _source()
    if source is None:
        return
    async for line in _lines(_Blocks(source)):
        text = line.strip()
        if text in ("quit", "exit"):
            return
        if text:
            yield text


async def _lines(blocks: _Blocks) -> AsyncIterator[str]:
    block = await blocks.get()
    rest = bytearray(block)
    while block and any(len(rest) < len(mark) and mark.startswith(rest) for mark, _ in _BOMS):
        block = await blocks.get()
        rest += block
    # Lines can be cut from UTF-8 as they come; other encodings are read to the end.
    by_line = not rest.startswith(_WIDE)
    while block:
        if by_line:
            *lines, rest = rest.split(b"\n")
            for line in lines:
                yield decode(bytes(line))
        _check_size(rest)
        block = await blocks.get()
        rest += block
    for text in decode(bytes(rest)).split("\n"):
        yield text
