"""A server process as a pair of message streams, ended for certain when the context is left.

In place of the SDK's `stdio_client`, which gives no hold on the process: a start that is given up
would wait two seconds for a server that does not look at its input, a line with a lone surrogate
would be lost and its call never answered, and children of a server that exited would stay.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, cast

import anyio
from anyio.abc import Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCMessage
from pydantic import ValidationError

from local_agent.config import ServerSpec, resolve_command
from local_agent.errors import ServerError
from local_agent.mcp_client.server_log import ServerLog
from local_agent.mcp_client.text import storable_value

EOF_PATIENCE = 1.5
"""Seconds a server has to end by itself once its input is closed (MCP: first close stdin)."""
TERM_PATIENCE = 1.0
"""Seconds between SIGTERM and SIGKILL; together under 3 s, as long as a person waits for `quit`."""

EXIT_PATIENCE = 0.3
"""Seconds between the end of a server's output and its exit."""

ReadStream = MemoryObjectReceiveStream[SessionMessage | Exception]
WriteStream = MemoryObjectSendStream[SessionMessage]


@asynccontextmanager
async def open_stdio(
    spec: ServerSpec, log: ServerLog
) -> AsyncIterator[tuple[ReadStream, WriteStream]]:
    """Start the process and yield its streams. Left by an error, it is ended without patience.

    Raises ServerError when the command cannot be started.
    """
    stderr, drained = log.open_pipe()
    try:
        process = await _start(spec, stderr)
    finally:
        stderr.close()
    received, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, to_send = anyio.create_memory_object_stream[SessionMessage](0)
    pumps = [
        asyncio.create_task(_read(process, received, log)),
        asyncio.create_task(_write(process, to_send)),
    ]
    patience = 0.0
    try:
        yield incoming, outgoing
        patience = EOF_PATIENCE
    finally:
        try:
            if pumps[0].done():  # it ended by itself: let it be so, for the sake of its exit code
                patience = max(patience, EXIT_PATIENCE)
            await _end(process, patience)
        finally:
            kill_group(process)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            for stream in (received, incoming, outgoing, to_send):
                stream.close()
            log.exit_code = process.returncode
            # A grandchild of another process group may hold the pipe: do not wait for ever.
            await asyncio.to_thread(drained.wait, 0.5)


async def _start(spec: ServerSpec, stderr: IO[bytes]) -> Process:
    environment = {**get_default_environment(), **spec.env}
    if spec.cwd and not Path(spec.cwd).is_dir():
        raise ServerError(f"its working folder {spec.cwd} does not exist")
    command = resolve_command(spec.command, environment.get("PATH"))
    try:
        if sys.platform == "win32":
            from mcp.os.win32.utilities import create_windows_process

            started = await create_windows_process(
                command, list(spec.args), environment, stderr, spec.cwd or None
            )
            return cast(Process, started)
        return await anyio.open_process(
            [command, *spec.args],
            env=environment,
            stderr=stderr,
            cwd=spec.cwd or None,
            start_new_session=True,  # Ctrl-C at our terminal is not meant for servers
        )
    except FileNotFoundError as exc:
        what = "arguments go into args" if " " in spec.command else "install it, or give its path"
        raise ServerError(f"its command {spec.command} was not found: {what}") from exc
    except PermissionError as exc:
        what = "is a folder" if Path(command).is_dir() else "may not be executed"
        raise ServerError(f"its command {spec.command} {what}") from exc
    except (OSError, ValueError) as exc:
        raise ServerError(f"its command {spec.command} could not be started: {exc}") from exc


async def _read(
    process: Process, received: MemoryObjectSendStream[SessionMessage | Exception], log: ServerLog
) -> None:
    """Hand on each message of the server's stdout; what is none goes to the log."""
    assert process.stdout is not None
    pieces: list[bytes] = []
    with received, suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        async for chunk in process.stdout:
            *lines, rest = chunk.split(b"\n")
            if lines:
                lines[0] = b"".join([*pieces, lines[0]])
                pieces = []
            pieces.append(rest)
            for line in lines:
                message = parse_message(line)
                if message is not None:
                    await received.send(SessionMessage(message))
                elif line.strip():
                    log.note("not a message: " + line[:500].decode("utf-8", "replace"))


def parse_message(line: bytes) -> JSONRPCMessage | None:
    """Read one line as a JSON-RPC message; None when it is none.

    The SDK's parser refuses lone surrogates, which servers do send: those are read again.
    """
    try:
        return JSONRPCMessage.model_validate_json(line)
    except ValidationError:
        pass
    try:
        value = json.loads(line.decode("utf-8", "replace"))
        return JSONRPCMessage.model_validate(storable_value(value))
    except (ValueError, RecursionError):
        return None


async def _write(process: Process, to_send: MemoryObjectReceiveStream[SessionMessage]) -> None:
    assert process.stdin is not None
    with to_send, suppress(OSError, anyio.ClosedResourceError, anyio.BrokenResourceError):
        async for item in to_send:
            text = item.message.model_dump_json(by_alias=True, exclude_none=True)
            await process.stdin.send(text.encode("utf-8", "replace") + b"\n")


async def _end(process: Process, patience: float) -> None:
    """Close its input, then SIGTERM, then SIGKILL, to all of its process group."""
    assert process.stdin is not None
    with suppress(OSError, anyio.ClosedResourceError, anyio.BrokenResourceError):
        await process.stdin.aclose()
    if patience and await _gone(process, patience):
        return
    if sys.platform == "win32":
        from mcp.os.win32.utilities import terminate_windows_process_tree

        await terminate_windows_process_tree(process, TERM_PATIENCE)
        return
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGTERM)
    if await _gone(process, TERM_PATIENCE if patience else TERM_PATIENCE / 4):
        return
    kill_group(process)
    await _gone(process, TERM_PATIENCE)


async def _gone(process: Process, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await process.wait()
    except TimeoutError:
        return process.returncode is not None
    return True


def kill_group(process: Process) -> None:
    """End at once what is left of the server and its children."""
    if sys.platform == "win32":
        with suppress(OSError):
            process.kill()
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
