"""How soon the prompt is there, against importing the libraries that a turn needs.

usage: python benchmarks/start.py [--rounds N]
Both are processes of this run, started in turns, each timed from its start; the median counts. The
prompt is the one of the interactive chat in a pseudo terminal (not on Windows), with the sample
configuration. Exit 1 when the prompt takes more than a fifth of the imports.
"""

from __future__ import annotations

import argparse
import os
import pty
import select
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IMPORTS = "import langgraph, langchain_openai, langchain_mcp_adapters"
LIMIT = 1 / 5


def prompt_seconds(folder: Path) -> float:
    """Seconds from the start of `agent` to its prompt."""
    code = "from local_agent.cli import main; main()"
    argv = ["--config", str(ROOT / "mcp_servers.toml"), "--db", str(folder / "memory.db")]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
    env.pop("NO_COLOR", None)
    parent, child = pty.openpty()
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", code, *argv],
        stdin=child,
        stdout=child,
        stderr=child,
        env=env,
        start_new_session=True,
    )
    os.close(child)
    try:
        seen = b""
        while b">" not in seen:
            if not select.select([parent], [], [], 60)[0]:
                raise SystemExit(f"no prompt within a minute: {seen!r}")
            seen += os.read(parent, 65536)
        return time.perf_counter() - started
    finally:
        process.kill()
        process.wait()
        os.close(parent)


def import_seconds() -> float:
    """Seconds of a Python process that imports the libraries."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", IMPORTS], check=True)
    return time.perf_counter() - started


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        prompt_seconds(Path(folder))
        import_seconds()  # both once for a warm disk
        pairs = [(prompt_seconds(Path(folder)), import_seconds()) for _ in range(rounds)]
    prompt = statistics.median(p for p, _ in pairs)
    imports = statistics.median(i for _, i in pairs)
    print(f"prompt   {prompt * 1000:7.0f} ms")
    print(f"imports  {imports * 1000:7.0f} ms")
    print(f"ratio    {prompt / imports:7.3f}  (limit {LIMIT:.3f})")
    return 0 if prompt / imports <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
