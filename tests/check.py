"""Runs all checks: lint, format, types, tests; `--long` and options of pytest are passed on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STEPS = (
    ("lint", ["ruff", "check", "."]),
    ("format", ["ruff", "format", "--check", "."]),
    ("types", ["mypy"]),
)


def main(options: list[str]) -> int:
    """Run each step, stopping at the first that fails; returns its exit code."""
    for name, command in STEPS:
        print(f"== {name}", flush=True)
        code = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, check=False).returncode
        if code:
            return code
    print("== tests", flush=True)
    # Most tests wait for processes more than they compute: one worker more than there are cores.
    # Some take a minute, most nothing: a worker that is done takes over from the others.
    workers = ["-n", str((os.cpu_count() or 1) + 1), "--dist", "worksteal"]
    pytest = [sys.executable, "-m", "pytest", "-q", *workers, *options]
    return subprocess.run(pytest, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
