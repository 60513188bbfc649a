"""The command line: `main` is the console script, `run` the same without ending the process."""

from __future__ import annotations

import sys

from local_agent.errors import INTERRUPTED


def main(argv: list[str] | None = None) -> None:
    """Run the program and end the process with its exit code; no traceback reaches the user."""
    sys.exit(run(sys.argv[1:] if argv is None else argv))


def run(argv: list[str]) -> int:
    """Run the command line `argv` (without the program's name); returns the exit code."""
    try:  # a Ctrl-C while the modules load, too
        from local_agent.cli.program import run as run_program

        return run_program(argv)
    except KeyboardInterrupt:
        return INTERRUPTED


__all__ = ["main", "run"]
