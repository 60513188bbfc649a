"""One process per thread: a lock that the operating system frees when its process ends."""

from __future__ import annotations

import errno
import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from local_agent.errors import StorageError, ThreadError

if sys.platform == "win32":
    import msvcrt

    _FAR = 0x7FFF0000  # beyond what is written, because Windows also keeps readers out

    def _take(fd: int) -> None:
        os.lseek(fd, _FAR, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        os.lseek(fd, 0, os.SEEK_SET)

else:
    import fcntl

    def _take(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


TRIES = 100
_HELD = (errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK, errno.EDEADLK)


@contextmanager
def thread_lock(db_path: Path, thread: str) -> Iterator[None]:
    """Hold `thread` of the database at `db_path` for this process.

    Raises ThreadError if another holder has it, with its process id; StorageError if the file for
    it cannot be made. That file lies in `memory.db.files/locks` and is removed at the end; one
    that a killed process left is taken over.
    """
    real = db_path.resolve()
    folder = real.with_name(real.name + ".files") / "locks"
    path = folder / f"{hashlib.sha256(thread.encode('utf-8', 'surrogatepass')).hexdigest()}.lock"
    fd = _lock(path, thread)
    try:
        try:
            os.ftruncate(fd, 0)
            os.write(fd, str(os.getpid()).encode())
        except OSError as exc:
            raise _unusable(path, exc) from exc
        yield
    finally:
        _release(fd, path)


def _lock(path: Path, thread: str) -> int:
    """The descriptor of the locked file. Tries again where a leaving holder removed it."""
    for attempt in range(TRIES):
        try:
            for folder in (path.parent.parent, path.parent):  # the mode is the last one's only
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as exc:
            if isinstance(exc, FileNotFoundError | FileExistsError) and attempt + 1 < TRIES:
                continue  # a leaving holder removed the folder between two steps
            raise _unusable(path, exc) from exc
        try:
            _take(fd)
        except OSError as exc:
            holder = _holder(fd)
            os.close(fd)
            if exc.errno not in _HELD:
                raise _unusable(path, exc) from exc
            raise ThreadError(
                f"thread '{_shown(thread)}' is open in another agent{holder}",
                "End it there, or choose another with --thread.",
            ) from exc
        if _is_same(fd, path):
            return fd
        os.close(fd)
    raise StorageError(f"The lock of thread '{_shown(thread)}' changes hands all the time.")


def _unusable(path: Path, exc: OSError) -> StorageError:
    if exc.errno == errno.ENOSPC:
        return StorageError(f"The disk is full: {path.parent}.", "Free some space and try again.")
    return StorageError(
        f"{path.parent} cannot be used: {exc.strerror or exc}.",
        "Check the rights of the folder, or use another database with --db.",
    )


def _is_same(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except OSError:
        return False


def _holder(fd: int) -> str:
    with suppress(OSError, ValueError):
        os.lseek(fd, 0, os.SEEK_SET)
        return f" (pid {int(os.read(fd, 32))})"
    return ""


def _shown(thread: str) -> str:
    return "".join(c if c.isprintable() else "�" for c in thread)


def _release(fd: int, path: Path) -> None:
    if sys.platform == "win32":  # an open file cannot be removed there
        os.close(fd)
        _remove(path)
    else:  # removed while it is locked, so that nobody else holds the file of this name
        _remove(path)
        os.close(fd)


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
    for folder in (path.parent, path.parent.parent):
        with suppress(OSError):  # not empty: others use it
            folder.rmdir()
