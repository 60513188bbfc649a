"""How long `agent threads list` takes with many threads in a large file.

    python benchmarks/threads_list.py [--quick] [--threads N] [--megabytes N]

Builds a file of 1,000 threads and about 1 GB (--quick: 100 MB), its rows as large and as mixed as
those of real turns. Prints the command's own time, which is that of the process without what
`agent --version` takes too, with the file in the system's cache and without it, and the ratio of
the listing to the bare SQL in one process. Exit 1 when that is over its limit.
"""

from __future__ import annotations

import argparse
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import median

from langgraph.checkpoint.base.id import uuid6

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from local_agent.memory.connection import open_plain, transact
from local_agent.memory.entries import note_others
from local_agent.memory.tables import THREAD_COLUMNS, now
from local_agent.threads import list_threads

LIMIT = 2.0  # of the listing to the bare SQL
STEPS = 8  # checkpoints of a turn, as the agent's graph makes them with one tool call
TURN_BYTES = 29_000  # of the file, for one of these turns
RUNS = 15
BARE = f"SELECT {THREAD_COLUMNS} FROM agent_threads ORDER BY updated DESC"
TABLES = """
    CREATE TABLE checkpoints (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '',
        checkpoint_id TEXT NOT NULL, parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB,
        metadata BLOB, PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));
    CREATE TABLE writes (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '',
        checkpoint_id TEXT NOT NULL, task_id TEXT NOT NULL, task_path TEXT NOT NULL DEFAULT '',
        idx INTEGER NOT NULL, channel TEXT NOT NULL, type TEXT, value BLOB,
        PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx));
"""


def build(path: Path, threads: int, size: float) -> None:
    """Write about `size` bytes of turns, one by one on threads taken by chance."""
    chance = random.Random(1)
    names = [n % threads for n in range(max(threads, int(size / TURN_BYTES)))]
    chance.shuffle(names)
    with closing(open_plain(path, 15)) as conn:
        conn.execute("PRAGMA synchronous=OFF")
        conn.executescript(TABLES)
        for start in range(0, len(names), 50):
            some = names[start : start + 50]
            transact(conn, lambda conn, some=some: [_turn(conn, n) for n in some])
        transact(conn, note_others)
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _turn(conn: sqlite3.Connection, number: int) -> None:
    thread, parent = f"thread {number}", None
    for step in range(STEPS):
        checkpoint = str(uuid6())
        row = (thread, "", checkpoint, parent, "msgpack", os.urandom(1000), os.urandom(300))
        conn.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        parent = checkpoint
        for i in range(2):
            value = os.urandom(6000 if (step, i) == (3, 0) else 100)
            write = (thread, "", checkpoint, str(uuid.uuid4()), "", i, "c", "msgpack", value)
            conn.execute("INSERT INTO writes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", write)
    conn.execute(
        "INSERT INTO agent_threads (thread, title, created, updated, messages, turns, model)"
        " VALUES (:thread, :title, :now, :now, 8, 2, 'a-model-7b')"
        " ON CONFLICT DO UPDATE SET updated = :now",
        {"thread": thread, "title": f"a first prompt of some length, {number}", "now": now()},
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a file of 100 MB")
    parser.add_argument("--threads", type=int, default=1000)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--file", type=Path, help="use this file, made if it is missing")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = args.file or Path(folder) / "memory.db"
        if not path.exists():
            build(path, args.threads, 1e6 * (100 if args.quick else args.megabytes))
        print(f"{path.stat().st_size / 1e6:,.0f} MB, {len(list_threads(path)):,} threads")
        for name, prepare in (("warm", lambda path: None), ("cold", drop_from_cache)):
            wall, used = own_time(path, prepare)
            print(
                f"{name}: agent threads list takes {wall:.0f} ms of its own,"
                f" {used:.0f} of them of the processor"
            )
        return 0 if compare(path) else 1


def own_time(path: Path, prepare: Callable[[Path], None]) -> tuple[float, float]:
    """Milliseconds of the listing beyond those of --version: by the clock, and of the processor.

    Medians of runs in turn. The second says what it takes on a computer that does nothing else.
    """
    listed, empty = [], []
    for _ in range(RUNS):
        prepare(path)
        listed.append(run("threads", "list", "--db", str(path)))
        empty.append(run("--version"))
    wall, used = (median(r[i] for r in listed) - median(r[i] for r in empty) for i in (0, 1))
    return wall, used


def run(*args: str) -> tuple[float, float]:
    program = Path(sys.executable).with_name("agent")
    before, start = of_processor(), time.perf_counter()
    subprocess.run([program, *args], check=True, capture_output=True)
    return 1000 * (time.perf_counter() - start), 1000 * (of_processor() - before)


def of_processor() -> float:
    """Seconds of the processor that ended processes of this one have taken."""
    times = os.times()
    return times.children_user + times.children_system


def drop_from_cache(path: Path) -> None:
    """Let the system forget what it has read of the file, where it can be asked to."""
    if hasattr(os, "posix_fadvise"):
        with path.open("rb") as file:
            os.fdatasync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def compare(path: Path) -> bool:
    """Print the ratio of the listing to the bare SQL, both with opening and closing the file."""
    good = True
    for name, prepare in (("warm", lambda path: None), ("cold", drop_from_cache)):
        ours, bare = [], []
        for _ in range(RUNS):
            prepare(path)
            ours.append(timed(lambda: list_threads(path)))
            prepare(path)
            bare.append(timed(lambda: bare_sql(path)))
        ratio = median(ours) / median(bare)
        print(
            f"{name}: listing {median(ours):.1f} ms, bare SQL {median(bare):.1f} ms:"
            f" {ratio:.2f}  (limit {LIMIT})"
        )
        good = good and ratio <= LIMIT
    return good


def bare_sql(path: Path) -> None:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True)) as conn:
        conn.execute(BARE).fetchall()


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)


if __name__ == "__main__":
    sys.exit(main())
