"""The wheel: all modules are in it, and the program runs from another folder."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.process
def test_the_wheel_runs_in_a_clean_environment(tmp_path: Path) -> None:
    """Built, installed beside nothing but what it needs, `agent --version` works anywhere."""
    pip("wheel", "--no-deps", "--no-build-isolation", "-w", tmp_path, _copy_of_sources(tmp_path))
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {path.name for path in ROOT.glob("*.py")} <= names
    modules = {str(p.relative_to(ROOT)) for p in (ROOT / "local_agent").rglob("*.py")}
    assert modules <= names
    assert {"local_agent/py.typed", "local_agent/chat_template.jinja"} <= names

    env = tmp_path / "env"
    venv.create(env, with_pip=False)
    scripts = env / ("Scripts" if sys.platform == "win32" else "bin")
    pip("--python", env, "install", "--no-deps", "--no-index", wheel)
    # The libraries are those of this environment; ours comes out of the wheel.
    site = next(env.rglob("site-packages"))
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    done = subprocess.run(
        [str(scripts / "agent"), "--version"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.startswith("agent "), done.stderr


def pip(*options: object) -> None:
    """Run pip; its output is what a failure shows."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "-q", *map(str, options)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def _copy_of_sources(tmp_path: Path) -> Path:
    """The files that git knows: a build in the tree would leave its folders there."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    target = tmp_path / "sources"
    for name in filter(None, listed.stdout.split("\0")):
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_file():
            path.write_bytes((ROOT / name).read_bytes())
    return target
