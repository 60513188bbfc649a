"""An MCP server over stdio whose tools and results stand in a TOML file; run as a script.

JSON of the same shape is read too, where the file is named so.
Keeps nothing: a call has the same result whatever was called before.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Mapping
from typing import Any

Table = dict[str, Any]
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def load(path: str) -> Table:
    """The file, with the schema of each tool read."""
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib doubles the start time
        world: Table = json.load(file) if path.endswith(".json") else tomllib.load(file)
    for tool in world.get("tool", []):
        tool["schema"] = json.loads(tool["schema"])
    return world


def describe(tool: Table) -> Table:
    """The tool as `tools/list` has it."""
    described = {
        "name": tool["name"],
        "description": tool.get("description", ""),
        "inputSchema": tool["schema"],
    }
    if tool.get("read"):
        described["annotations"] = {"readOnlyHint": True}
    return described


def call(tool: Table, args: Table) -> tuple[str, bool]:
    """The text of a call, and whether it is an error: of the first result whose `when` fits."""
    if wrong := misfit(tool["schema"], args):
        return wrong, True
    found = next((r for r in tool.get("result", []) if fits(r.get("when", {}), args)), tool)
    key = "text" if "text" in found else "error"
    return fill(str(found.get(key, "ok")), args), key == "error" and "error" in found


def misfit(schema: Table, args: Table) -> str:
    """What is wrong with the arguments; empty where they can be used."""
    properties = schema.get("properties", {})
    for name in schema.get("required", []):
        if name not in args:
            return f"Input validation error: '{name}' is a required property"
    for name, value in args.items():
        kinds = _TYPES.get(str(properties.get(name, {}).get("type")), ())
        is_flag = isinstance(value, bool) and bool not in kinds
        if kinds and (is_flag or not isinstance(value, kinds)):
            return f"Input validation error: {value!r} is not of type {properties[name]['type']!r}"
        allowed = properties.get(name, {}).get("enum")
        if allowed and value not in allowed:
            return f"Input validation error: {value!r} is not one of {allowed}"
    return ""


def fits(when: Mapping[str, Any], args: Table) -> bool:
    """Whether the arguments are those of a result: equal, or with { contains = "text" } in them."""
    return all(_same(wanted, args.get(name)) for name, wanted in when.items())


def _same(wanted: Any, value: Any) -> bool:
    if isinstance(wanted, dict):
        return str(wanted["contains"]).casefold() in str(value).casefold()
    if isinstance(wanted, str):
        return isinstance(value, str) and wanted.casefold() == value.strip().casefold()
    return type(wanted) is type(value) and bool(wanted == value)


def fill(text: str, args: Table) -> str:
    """The text with `{name}` replaced by that argument."""
    for name, value in args.items():
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        text = text.replace("{" + name + "}", shown)
    return text.lstrip("\n")


def answer(world: Table, method: str, params: Table) -> Table | None:
    """The result of a request; None for a method that is not there."""
    tools = {tool["name"]: tool for tool in world.get("tool", [])}
    if method == "initialize":
        return {
            "protocolVersion": params.get("protocolVersion", "2025-06-18"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": world["name"], "version": "1"},
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": [describe(tool) for tool in tools.values()]}
    if method == "tools/call" and params.get("name") in tools:
        text, is_error = call(tools[params["name"]], params.get("arguments") or {})
        return {"content": [{"type": "text", "text": text}], "isError": is_error}
    return None


def main(path: str) -> None:
    """Answer requests line by line until stdin ends."""
    world = load(path)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        result = answer(world, message["method"], message.get("params") or {})
        reply: Table = {"jsonrpc": "2.0", "id": message["id"]}
        if result is None:
            reply["error"] = {"code": -32601, "message": f"no method {message['method']}"}
        else:
            reply["result"] = result
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
