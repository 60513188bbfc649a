"""A disk that gets full at random moments of random conversations: nothing is worse than before."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.kill_harness import Conversation
from tests.kill_judge import Wrong, check
from tests.test_faults import posix, small_disk

pytestmark = [pytest.mark.process, posix, pytest.mark.timeout(1800)]
MOMENTS = ("start", "asked", "shown", "noted", "in model", "in read", "in write", "in parallel")


class Struck(Conversation):
    """A conversation on a disk of its own, which is filled to the last byte when it is struck."""

    def __init__(self, folder: Path, seed: str, disk: Path) -> None:
        super().__init__(folder, seed)
        self.program.db = disk / "memory.db"
        self.program.env["AGENT_DB"] = str(self.program.db)
        self.filler = disk / "filler"
        self.codes = {0, 1, 3}

    def strike(self, process: subprocess.Popen[bytes]) -> bool:
        with contextlib.suppress(OSError), self.filler.open("wb", buffering=0) as file:
            for size in (1 << 16, 1 << 10, 1):
                with contextlib.suppress(OSError):
                    while file.write(b"x" * size) == size:
                        pass
        return False

    def fill_once(self, moment: str) -> None:
        """A run in which the disk gets full, and what it says; then there is room again."""
        answers = set(self.known.answers)
        prompts = [self.prompt() for _ in range(3)]
        args = ["--on-approval", "allow", "--output", self.chance.choice(("text", "stream-json"))]
        code = self._run(args, self._moment(moment), "\n".join(prompts))
        err = (self.program.folder / "err").read_text("utf-8", "replace")
        self.known.answers = answers  # an answer is shown also where it could not be saved
        check("Traceback" not in err, "a traceback")
        errors = [line for line in err.splitlines() if line.startswith("error:")]
        check(code == 0 or "stream-json" in args or len(errors) == 1, f"{code} with {errors}")
        check(not errors or "disk is full" in errors[-1], f"another error: {errors}")

    def _wait(self, *args: Any) -> int | None:
        try:
            return super()._wait(*args)
        finally:
            self.filler.unlink(missing_ok=True)


def fill(folder: Path, seed: str, moments: tuple[str, ...]) -> Struck:
    """One conversation in which the disk gets full at these moments, and has room again."""
    folder.mkdir()
    with small_disk(20_000) as disk:
        talked = Struck(folder, seed, disk)
        with talked.server:
            try:
                for moment in moments:
                    talked.fill_once(moment)
                    talked.go_on()
            except Wrong as exc:
                raise Wrong(talked.said(str(exc))) from exc
    return talked


def test_a_disk_that_gets_full(tmp_path: Path) -> None:
    """Whatever the program does then: no write runs twice, what was saved stays, the rest goes on.

    The run says one line; with room again the thread goes on, and each result that was shown is
    there.
    """
    talked = fill(tmp_path / "one", f"{os.urandom(3).hex()}.1", ("in write", "in parallel"))
    print(talked.told)
    assert talked.told.kills.total() == 2


@pytest.mark.slow
@pytest.mark.parametrize("number", range(4))
def test_a_disk_that_gets_full_for_long(tmp_path: Path, number: int) -> None:
    """The same at more moments, with and without a router."""
    talked = fill(tmp_path / "one", f"{os.urandom(3).hex()}.{number}", MOMENTS)
    print(talked.told)
    assert talked.told.kills.total() > len(MOMENTS) // 2
