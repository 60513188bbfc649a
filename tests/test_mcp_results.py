"""Results as the one text that the model reads."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.servers.mcp_kit import opened, stdio_spec, tool

DATA = b"\x89PNG not really"
ENCODED = base64.b64encode(DATA).decode()


def block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


RESULTS: list[tuple[dict[str, Any], tuple[str, str]]] = [
    ({"isError": True, "content": [block("no such file")]}, ("no such file", "error")),
    (
        {"isError": True, "content": []},
        ("(the tool reported an error without saying which)", "error"),
    ),
    (
        {"isError": True, "content": [], "structuredContent": {"code": "RATE", "retry": 30}},
        ('{"code": "RATE", "retry": 30}', "error"),
    ),
    ({"content": [], "structuredContent": {"total": 7}}, ('{"total": 7}', "success")),
    ({"content": []}, ("(the tool returned nothing)", "success")),
    ({}, ("(the tool returned nothing)", "success")),
    (
        {"content": [block("a"), block("b")], "structuredContent": {"result": "a b"}},
        ("a\nb", "success"),
    ),
    (
        {
            "content": [
                {"type": "resource_link", "uri": "file:///x", "name": "x", "mimeType": "text/css"},
                {"type": "resource", "resource": {"uri": "file:///y", "text": "inside"}},
                {"type": "hologram", "data": 1},
            ]
        },
        (
            "[resource: x, file:///x, text/css]\ninside\n[content of an unknown kind: hologram]",
            "success",
        ),
    ),
    ({"content": [block("a\ud800b\x00")]}, ("a\ufffdb\ufffd", "success")),
]


async def test_results_reach_the_model_as_text(tmp_path: Path) -> None:
    """M19: text, error, structured content alone, nothing, links, odd characters: none is lost."""
    async with opened([stdio_spec("a")], tmp_path) as servers:
        given = [await tool(servers, "give")({"result": result}) for result, _ in RESULTS]
        error = await tool(servers, "give")({})

        assert await tool(servers, "whoami")({}) == ("a", "success")

    # An argument with a lone surrogate is cleaned on its way out: see the next test for results.
    assert given == [expected for _, expected in RESULTS]
    assert error == ("Server a answered: 'result'.", "error")
    json.dumps(given).encode()


async def test_a_lone_surrogate_from_a_server_is_replaced(tmp_path: Path) -> None:
    """What the server writes as \\ud800 in its JSON arrives, in a form that can be stored."""
    settings = {"name": "x\ud800y"}
    async with opened([stdio_spec("a", settings)], tmp_path) as servers:
        assert await tool(servers, "whoami")({}) == ("x\ufffdy", "success")


async def test_data_goes_to_files(tmp_path: Path) -> None:
    """Images, audio and blobs become a file by their content and a line with path, type, size."""
    result = {
        "content": [
            block("look:"),
            {"type": "image", "data": ENCODED, "mimeType": "image/png"},
            {"type": "audio", "data": ENCODED, "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "x:y", "blob": ENCODED}},
            {"type": "image", "data": "###", "mimeType": "image/png"},
        ]
    }
    async with opened([stdio_spec("a")], tmp_path) as servers:
        first = await tool(servers, "give")({"result": result})
        second = await tool(servers, "give")({"result": result})

    lines = first[0].splitlines()
    files = sorted((tmp_path / "files").iterdir())
    assert first == second
    assert lines[0] == "look:"
    image = next(path for path in files if path.suffix == ".png" and path.read_bytes() == DATA)
    assert lines[1] == f"[image: {image}, image/png, {len(DATA)} bytes]"
    assert lines[2].startswith("[audio: ")
    assert lines[3].endswith(f"application/octet-stream, {len(DATA)} bytes]")
    assert ENCODED not in first[0]
    if os.name != "nt":
        assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


async def test_secrets_are_masked_in_errors(tmp_path: Path) -> None:
    """D15: a server that repeats its key in an error does not bring it to the model."""
    result = {"isError": True, "content": [block("key TESTSECRET2 is invalid")]}
    async with opened([stdio_spec("a", secrets=("TESTSECRET2",))], tmp_path) as servers:
        assert await tool(servers, "give")({"result": result}) == ("key *** is invalid", "error")


@pytest.mark.parametrize("size", [3_000_000])
async def test_a_large_result_arrives_whole(tmp_path: Path, size: int) -> None:
    """A line of some megabytes is one message."""
    result = {"content": [block("x" * size)]}
    async with opened([stdio_spec("a")], tmp_path) as servers:
        text, _ = await tool(servers, "give")({"result": result})

    assert len(text) == size
