"""kill -9 at random moments of random conversations: nothing shown is lost, nothing runs twice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kill_harness import harness

pytestmark = pytest.mark.process


@pytest.mark.timeout(600)
def test_killed_at_random_moments(tmp_path: Path) -> None:
    """20 kills in two conversations; a failure names its seed."""
    print(harness(tmp_path, os.urandom(3).hex(), 20))


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_killed_at_random_moments_for_long(tmp_path: Path) -> None:
    """200 kills in ten conversations."""
    print(harness(tmp_path, os.urandom(3).hex(), 200, 20))
