"""The user's own editor: what it leaves is the new text, and its file is gone."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from local_agent.errors import UsageError
from local_agent.ui.editor import edited


def editor(folder: Path, code: str) -> dict[str, str]:
    """An environment whose editor runs `code`, `path` being the file; it notes the file's name."""
    script = folder / "editor with a space.py"
    script.write_text(
        "import pathlib, sys\npath = pathlib.Path(sys.argv[-1])\n"
        f"pathlib.Path({str(folder / 'seen')!r}).write_text(str(path))\n{code}\n",
        encoding="utf-8",
    )
    return {"EDITOR": shlex.join([sys.executable, str(script)])}


@pytest.mark.parametrize(
    ("before", "code", "after"),
    [
        ("one", "path.write_text('two')", "two"),
        ("one", "path.write_text('two\\n')", "two"),
        ("one\n", "path.write_text('two\\n')", "two\n"),
        ("one", "path.write_text('')", ""),
        ("one", "", None),
        ("one", "path.write_text('one\\n')", None),
        ("a\r\nbä", "path.write_bytes(path.read_bytes() + b'!')", "a\r\nbä!"),
        ("x", "path.write_bytes(b'\\xff')", "\N{REPLACEMENT CHARACTER}"),
    ],
)
async def test_what_it_leaves(tmp_path: Path, before: str, code: str, after: str | None) -> None:
    """Its text, without the line end that editors add; None where nothing was changed."""
    assert await edited(before, editor(tmp_path, code)) == after
    assert not Path((tmp_path / "seen").read_text()).exists()


async def test_visual_comes_first(tmp_path: Path) -> None:
    """As everywhere: $VISUAL before $EDITOR."""
    environ = editor(tmp_path, "path.write_text('two')")
    assert await edited("one", {"VISUAL": environ["EDITOR"], "EDITOR": "no-such-program"}) == "two"


async def test_an_editor_that_fails(tmp_path: Path) -> None:
    """It cannot be started, or ends with an error: one line, and nothing was changed."""
    with pytest.raises(UsageError, match="'no-such-program' cannot be started"):
        await edited("one", {"EDITOR": "no-such-program -x"})
    with pytest.raises(UsageError, match="ended with 3; nothing was changed"):
        await edited("one", editor(tmp_path, "path.write_text('two'); sys.exit(3)"))
    assert not Path((tmp_path / "seen").read_text()).exists()
    with pytest.raises(UsageError, match="There is no editor"):
        await edited("one", {"EDITOR": "", "PATH": str(tmp_path)})
