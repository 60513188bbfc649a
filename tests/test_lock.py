"""One process per thread: refused while held, free after the end and after a kill."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from local_agent.errors import StorageError, ThreadError
from local_agent.lock import thread_lock

HOLD = """
import pathlib, sys
from local_agent.lock import thread_lock
with thread_lock(pathlib.Path(sys.argv[1]), sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(db: Path, thread: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the thread until it is killed or its input ends."""
    command = [sys.executable, "-c", HOLD, str(db), thread]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_d02_a_second_process_is_refused(tmp_path: Path) -> None:
    """D02: the message names the thread and the process that has it; other threads are free."""
    db = tmp_path / "memory.db"
    with holder(db, "work") as process:
        expected = rf"^thread 'work' is open in another agent \(pid {process.pid}\)"
        with pytest.raises(ThreadError, match=expected), thread_lock(db, "work"):
            pass
        with thread_lock(db, "other"):
            pass
        with thread_lock(tmp_path / "other.db", "work"):
            pass


def test_d02_free_after_kill(tmp_path: Path) -> None:
    """D02: kill -9 frees the thread; the file it leaves is taken over."""
    db = tmp_path / "memory.db"
    with holder(db, "work") as process:
        process.kill()
        process.wait()
    assert len(list((tmp_path / "memory.db.files" / "locks").iterdir())) == 1
    with thread_lock(db, "work"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_free_after_the_end(tmp_path: Path) -> None:
    """A holder that ends leaves no file."""
    db = tmp_path / "memory.db"
    with holder(db, "work") as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait() == 0
    assert list(tmp_path.iterdir()) == []


def test_free_after_an_error(tmp_path: Path) -> None:
    """An exception in the block frees the thread."""
    db = tmp_path / "memory.db"
    with pytest.raises(KeyboardInterrupt), thread_lock(db, "work"):
        raise KeyboardInterrupt
    with thread_lock(db, "work"):
        pass


def test_held_in_the_same_process(tmp_path: Path) -> None:
    """Two sessions of one process exclude each other too; the first keeps what it has."""
    db = tmp_path / "memory.db"
    with thread_lock(db, "work"):
        for _ in range(2):
            with (
                pytest.raises(ThreadError, match=rf"\(pid {os.getpid()}\)"),
                thread_lock(db, "work"),
            ):
                pass


def test_a_child_of_a_killed_holder_does_not_keep_the_lock(tmp_path: Path) -> None:
    """A tool server that outlives the killed agent does not hold its thread."""
    db = tmp_path / "memory.db"
    code = f"""
import os, pathlib, subprocess, sys
from local_agent.lock import thread_lock
with thread_lock(pathlib.Path({str(db)!r}), "work"):
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=0)
    print(child.pid, flush=True)
    os._exit(9)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) > 0
        process.wait()
        with thread_lock(db, "work"):
            pass
        assert process.stdin is not None
        process.stdin.close()


@pytest.mark.parametrize("thread", ["a/b", "..", "ä" * 200, "CON", "x\ud800", "a" * 200])
def test_any_name(tmp_path: Path, thread: str) -> None:
    """Names that no file could have are locked like others."""
    with thread_lock(tmp_path / "memory.db", thread):
        (path,) = (tmp_path / "memory.db.files" / "locks").iterdir()
        assert len(path.name) < 100
    assert list(tmp_path.iterdir()) == []


def test_files_of_others_stay(tmp_path: Path) -> None:
    """The folder stays while something else lies in it."""
    image = tmp_path / "memory.db.files" / "image.png"
    image.parent.mkdir()
    image.touch()
    with thread_lock(tmp_path / "memory.db", "work"):
        pass
    assert [p.name for p in image.parent.iterdir()] == ["image.png"]


def test_many_processes_take_turns(tmp_path: Path) -> None:
    """Holders that come and go at once never hold the same thread together."""
    code = f"""
import os, pathlib, time
from local_agent.errors import ThreadError
from local_agent.lock import thread_lock
inside, got = pathlib.Path({str(tmp_path / "inside")!r}), 0
while got < 10:
    try:
        with thread_lock(pathlib.Path({str(tmp_path / "memory.db")!r}), "work"):
            os.close(os.open(inside, os.O_CREAT | os.O_EXCL))
            inside.unlink()
            got += 1
    except ThreadError:
        pass
"""
    processes = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="an open file cannot be removed there")
def test_a_file_that_was_removed_before_it_was_locked(tmp_path: Path) -> None:
    """A holder that leaves while we open the file takes it away: the new one is locked."""
    code = f"""
import fcntl, pathlib
from local_agent.lock import thread_lock
locks = pathlib.Path({str(tmp_path / "memory.db.files" / "locks")!r})
real, removed = fcntl.flock, []
def flock(fd, operation):
    if not removed:
        removed.extend(locks.iterdir())
        removed[0].unlink()
    real(fd, operation)
fcntl.flock = flock
with thread_lock(pathlib.Path({str(tmp_path / "memory.db")!r}), "work"):
    assert list(locks.iterdir()) == removed
"""
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """A file in the place of the folder is one clear error."""
    (tmp_path / "memory.db.files").touch()
    with (
        pytest.raises(StorageError, match="cannot be used"),
        thread_lock(tmp_path / "memory.db", "work"),
    ):
        pass
