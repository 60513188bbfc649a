"""The command line: `main` is the console script, `run` the same without ending the process."""

from local_agent.cli.main import main, run

__all__ = ["main", "run"]
