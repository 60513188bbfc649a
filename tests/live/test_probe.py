"""A probe of a real model: what its server can do is known for sure, whatever the model can.

The model is chosen as in `test_main_job`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.test_main_job import URL, WEIGHTS, find_spec
from tests.program_kit import Program, finish

pytestmark = [pytest.mark.live, pytest.mark.timeout(1200)]


def test_a_real_server_is_found_out(tmp_path: Path) -> None:
    """llama.cpp counts, says what it took, holds answers to a schema, and stops when told."""
    if not URL and not (WEIGHTS.is_file() and find_spec("xllamacpp")):
        pytest.skip("no model: LOCAL_AGENT_TEST_URL, or agent model pull and the extra embedded")
    program = Program(tmp_path, URL or "http://127.0.0.1:9/v1")
    model = [] if URL else ["--model", f"embedded:{WEIGHTS}"]
    argv = ["model", "probe", "--quick", "--timeout", "900", "--json"]
    done = finish(program.start(*model, *argv), seconds=1100)
    assert done.code == 0, done.err
    found = done.json["profile"]["findings"]
    assert (found["usage"], found["cached_tokens"], found["timings"]) == (True, True, True)
    assert found["structured"]["right"] == found["structured"]["of"]
    assert found["cancels"] is True
    assert found["reading"] > 0
    assert found["calls_as_text"]["of"] > 0
