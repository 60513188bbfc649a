"""The marks between which models write a tool call into their text, and where a reply ends."""

from __future__ import annotations

import re
from dataclasses import dataclass
from string import ascii_uppercase

_ATTRIBUTES = r"(?:\s[^<>]*)?"
_NAME = r"[A-Za-z_][\w.:/-]{0,127}"
_BAR = "[|｜]"  # DeepSeek writes the wide one


@dataclass(frozen=True, slots=True)
class Mark:
    """One way to write a call.

    `start` is what each opening begins with, in lower case: enough to hold text back for.
    `opening` and `closing` are patterns; a group `name` in the opening is the tool's name. Without
    a `closing` the call goes to the end of the reply.
    """

    start: str
    opening: str
    closing: str = ""


# Who writes it: Qwen, Hermes and many others; Qwen2.5-Coder; Llama; Claude and MiniMax; LM Studio's
# default; Mistral; Granite, LFM2, Gemma; Llama; DeepSeek; GPT-OSS; FunctionGemma.
MARKS = (
    Mark("<tool_calls", r"<tool_calls>", r"</tool_calls>"),
    Mark("<tool_call", rf"<tool_call{_ATTRIBUTES}>", r"</tool_call>"),
    Mark("<tools>", r"<tools>", r"</tools>"),
    Mark("<function=", rf"<function=(?P<name>{_NAME})>", r"</function>"),
    Mark("<function_calls>", r"<function_calls>", r"</function_calls>"),
    Mark("<function_call", rf"<function_call{_ATTRIBUTES}>", r"</function_call>"),
    Mark("<invoke", rf"<invoke\s+name\s*=\s*[\"'](?P<name>{_NAME})[\"']\s*>", r"</invoke>"),
    Mark("[tool_request]", r"\[TOOL_REQUEST\]", r"\[(?:END_|/)TOOL_REQUEST\]"),
    Mark("[tool_calls]", r"\[TOOL_CALLS\]", r"\[/TOOL_CALLS\]"),
    Mark(
        "<|tool_call",
        r"<\|tool_call(?:s|_start|s_start)?\|?>",
        r"<\|/tool_calls?\|?>|<\|tool_calls?_end\|>|</?tool_call\|>",
    ),
    Mark("<|python_tag|>", r"<\|python_tag\|>"),
    Mark("<｜tool▁calls", rf"<{_BAR}tool▁calls▁begin{_BAR}>", rf"<{_BAR}tool▁calls▁end{_BAR}>"),
    Mark("<｜tool▁call▁", rf"<{_BAR}tool▁call▁begin{_BAR}>", rf"<{_BAR}tool▁call▁end{_BAR}>"),
    Mark(
        "<|channel|>commentary to=",
        rf"(?:<\|start\|>assistant)?<\|channel\|>commentary to=(?:functions\.)?(?P<name>{_NAME})"
        r"\s*(?:<\|constrain\|>\s*\w+|json)?\s*<\|message\|>",
        r"<\|call\|>",
    ),
    Mark("<start_function_call>", r"<start_function_call>", r"<end_function_call>"),
)
# The keys that an object which is a call may begin with.
CALL_KEYS = (
    "name",
    "tool",
    "tool_name",
    "function",
    "function_name",
    "function_call",
    "tool_call",
    "tool_calls",
    "action",
    "type",
    "arguments",
    "parameters",
)
# Info strings of fences in which models put calls; other code is code.
_FENCES = "json json5 jsonc xml python call tool tool_call tool-call toolcall tool_calls tool_code"
CALL_FENCES = frozenset(["", *_FENCES.split(), "tool_use", "function", "function_call"])
_LOWER = {ord(letter): letter.lower() for letter in ascii_uppercase}
_QUOTES = "`\"'“‘«„‹"
# Tokens that end a reply and that some servers leave in its text.
_END_TOKENS = re.compile(
    r"(?:\s|</s>|<\|(?:im_end|eot_id|eom_id|endoftext|end_of_text|end|return|call)\|>"
    r"|<end_of_turn>|<eos>|<turn\|>|<｜end▁of▁sentence｜>)+\Z"
)


def without_end(text: str) -> str:
    """The text without white space and end tokens behind it."""
    return _END_TOKENS.sub("", text)


def is_quoted(line: str) -> bool:
    """Whether what follows `line`, the text before it on its line, is quoted: code or quotes."""
    return bool(line) and (line.count("`") % 2 == 1 or line[-1] in _QUOTES)


def lower(text: str) -> str:
    """`text` in lower case with each character in its place, which `str.lower` does not promise."""
    return text.translate(_LOWER)
