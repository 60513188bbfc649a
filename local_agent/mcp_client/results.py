"""Results of MCP tools as one text: blocks joined, data written to files, nothing kept twice.

Works on the raw JSON of the result: a block of a kind that this version does not know must not
cost the rest of an answer, least of all that of a write that has already run.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import mimetypes
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from local_agent.mcp_client.text import one_line, storable

NOTHING = "(the tool returned nothing)"
NO_REASON = "(the tool reported an error without saying which)"


def has_data(result: Mapping[str, Any]) -> bool:
    """Tell whether flattening this result writes files."""
    return any(
        isinstance(block, Mapping) and block.get("type") in ("image", "audio", "resource")
        for block in _blocks(result)
    )


def flatten(result: Mapping[str, Any], files_dir: Callable[[], Path]) -> tuple[str, bool]:
    """Give (text for the model, is_error) of a `tools/call` result as it came over the wire.

    Text blocks are joined by newlines; structured content is given as JSON when there is no text.
    Images, audio and blobs go to `files_dir()` under a name made of their content.
    """
    is_error = result.get("isError") is True
    parts: list[str] = []
    has_text = False
    for block in _blocks(result):
        text, is_text = _block(block, files_dir)
        has_text = has_text or (is_text and bool(text.strip()))
        if text:
            parts.append(text)
    structured = result.get("structuredContent")
    if structured is not None and not has_text:
        parts.append(json.dumps(structured, ensure_ascii=False, default=str))
    text = storable("\n".join(parts))
    return text if text.strip() else (NO_REASON if is_error else NOTHING), is_error


def _blocks(result: Mapping[str, Any]) -> list[Any]:
    content = result.get("content")
    return content if isinstance(content, list) else []


def _block(block: Any, files_dir: Callable[[], Path]) -> tuple[str, bool]:
    if not isinstance(block, Mapping):
        return str(block), True
    match block.get("type"):
        case "text":
            return str(block.get("text") or ""), True
        case "image" | "audio" as kind:
            return _file_line(kind, block.get("data"), block.get("mimeType"), files_dir), False
        case "resource_link":
            return _link_line(block), False
        case "resource":
            resource = block.get("resource")
            resource = resource if isinstance(resource, Mapping) else {}
            if isinstance(resource.get("text"), str):
                return resource["text"], True
            mime = resource.get("mimeType")
            kind = "image" if str(mime).startswith("image/") else "file"
            return _file_line(kind, resource.get("blob"), mime, files_dir), False
        case other:
            return f"[content of an unknown kind: {one_line(str(other), 40)}]", False


def _link_line(block: Mapping[str, Any]) -> str:
    parts = [str(block.get(key)) for key in ("title", "name") if block.get(key)][:1]
    parts.append(str(block.get("uri", "")))
    if block.get("mimeType"):
        parts.append(str(block["mimeType"]))
    if isinstance(block.get("size"), int):
        parts.append(f"{block['size']} bytes")
    return f"[resource: {', '.join(one_line(part) for part in parts)}]"


def _file_line(kind: str, data: Any, mime: Any, files_dir: Callable[[], Path]) -> str:
    mime = one_line(str(mime or "application/octet-stream"), 80)
    try:
        content = base64.b64decode(str(data or ""), validate=False)
    except (binascii.Error, ValueError):
        return f"[{kind}: {mime}, could not be decoded]"
    try:
        path = _write(content, mime, files_dir())
    except OSError as exc:
        return f"[{kind}: {mime}, {len(content)} bytes, not saved: {exc.strerror or exc}]"
    return f"[{kind}: {path}, {mime}, {len(content)} bytes]"


def _write(content: bytes, mime: str, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    suffix = mimetypes.guess_extension(mime.partition(";")[0].strip().lower()) or ".bin"
    path = folder / f"{hashlib.sha256(content).hexdigest()[:32]}{suffix}"
    if not path.exists():
        # Written beside and renamed: a crash must not leave half a file under a content's name.
        part = path.with_name(f".{path.name}.{os.getpid()}")
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        part.replace(path)
    return path
