"""Which tool is meant by a name: the one that has it, or the only one that it can be read as."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from .tools import KnownTool, Wrong

_SHOWN = 12  # tool names listed to a model that asked for another
_SIGN = r"[\s_.:/-]"
# Behind a letter, or behind a digit with none after it: "1.5" is not "15", and "-1" not "1".
_SEPARATORS = re.compile(rf"(?<=[^\W\d_]){_SIGN}+|(?<=\d){_SIGN}+(?![\s_.:/\-\d])")
# Namespaces that models were trained to put before a name.
_NAMESPACES = re.compile(r"^(?:functions?|tools?|default_api|mcp|api)[.:/_-]+", re.I)
# What some leave behind a name: Kimi the number of the call, GPT-OSS the token of a channel.
_BEHIND = re.compile(r"(?::\d{1,3}|<\|.*)\Z", re.S)


def key(name: str) -> str:
    """A name without case and separators: `Read-File`, `readFile` and `read_file` are the same.

    Letters that only look alike stay apart, also where they have the same small letter.
    """
    bare = _SEPARATORS.sub("", name.strip())
    folded = bare.casefold()
    return folded if folded.isascii() == bare.isascii() else bare


def match(name: str, tools: Sequence[KnownTool]) -> KnownTool | None:
    """The tool that `name` means: by its very name, or the only one that fits but for case,
    separators and the server's name before it. None where no tool fits, or more than one."""
    exact = next((tool for tool in tools if tool.name == name), None)
    if exact is not None:
        return exact
    bare = _BEHIND.sub("", name.strip())
    wanted = {key(text) for text in (name, bare, _NAMESPACES.sub("", bare))} - {""}
    found = [tool for tool in tools if wanted & _keys(tool)]
    return found[0] if len(found) == 1 else None


def _keys(tool: KnownTool) -> set[str]:
    """What the tool may be called: its name, that on the server, each with the server before it."""
    names = (tool.name, tool.original)
    return {key(name) for name in names} | {key(f"{tool.server}_{name}") for name in names}


def unknown(name: str, tools: Sequence[KnownTool]) -> Wrong:
    """What the model reads when there is no tool `name`."""
    names = [tool.name for tool in tools]
    shown_name = " ".join(name.split())[:64]
    if not names:
        return Wrong(f"There is no tool {shown_name}, and no other now. Answer in words.")
    if not key(name):
        return Wrong("Your text has a tool call without the name of a tool; nothing was run.")
    if close := close_names(name, names):
        return Wrong(
            f"There is no tool {shown_name}; nothing was run. Did you mean "
            f"{' or '.join(close[:5])}? Call it by exactly that name."
        )
    shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    return Wrong(
        f"There is no tool {shown_name}; nothing was run. There are: {shown}. Use one or answer."
    )


def close_names(name: str, names: Sequence[str]) -> list[str]:
    """Those of `names` that are near to `name`, the nearest first."""
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    low = name.lower()
    for other in names:  # a prefix too many or too few is far by letters
        if other not in close and (other.lower() in low or low in other.lower()):
            close.append(other)
    return close
