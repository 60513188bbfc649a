"""The marks between which models write a tool call into their text, and where a reply ends."""

from __future__ import annotations

import re
from dataclasses import dataclass
from string import ascii_uppercase

_ATTRIBUTES = r"(?:\s[^<>]*)?"
_NAME = r"[A-Za-z_][\w.:/-]{0,127}"
_BAR = "[|｜]"  # DeepSeek writes the wide one
GAP = r"(?:▁|\\?_| )"  # between the words of its tokens, as they come out of some files
# GPT-OSS: who is spoken to stands behind the channel or, rarely, before it.
_START = r"(?:<\|start\|>assistant)?"
_TO = rf"to=(?:functions\.)?(?P<name>{_NAME})"
_MESSAGE = r"\s*(?:<\|constrain\|>\s*\w+|json|code)?\s*<\|message\|>"


@dataclass(frozen=True, slots=True)
class Mark:
    """One way to write a call.

    `start` is what each opening begins with, in lower case: enough to hold text back for.
    `opening` and `closing` are patterns; a group `name` in the opening is the tool's name. Without
    a `closing` the call goes to the end of the reply. keyed: what is between them is a list of
    `{"tool": {arguments}}`. plain: it is made of words that any text may have, so that it counts
    only with a tool that there is. speaks: a sentence may stand behind it, by its documentation.
    """

    start: str
    opening: str
    closing: str = ""
    keyed: bool = False
    plain: bool = False
    speaks: bool = False


# What ReAct prompts and their kin put before the name of a tool and before its arguments, with the
# signs of Markdown around them.
LABELS = (
    *("action", "call", "tool", "function", "tool call", "tool name", "tool to use"),
    *("function call", "function name", "function to use"),
)
_MARKDOWN = r"[ \t]{0,8}[*_#]{0,4}[ \t]{0,4}"
_LABEL = (
    rf"^{_MARKDOWN}(?:action|call|(?:tool|function)(?:[ _](?:call|name|to[ _]use))?)"
    r"[*_]{0,4}[ \t]{0,4}:[ \t]{0,4}[*_]{0,4}[ \t]{0,4}"
)
# Arguments that are no JSON are only looked at where the label is that of ReAct: a list of tools
# has "Arguments: path", too.
_ARGS_LABEL = (
    rf"{_MARKDOWN}(?:action[ _]input[*_]*[ \t]*:[ \t]*[*_]*"
    r"|(?:(?:action|tool|function)[ _])?(?:input|arguments|args|parameters|params)[*_]*[ \t]*:"
    r"[ \t]*[*_]*(?=\s*(?:`{1,3}\w*\s*)?(?:\{|\Z)))"
)
_OBSERVATION = rf"\n{_MARKDOWN}Observation[*_]*[ \t]*:?[*_]*"

# Who writes it: Qwen, Hermes and many others; MiniMax, Seed and LongCat; Nemotron;
# Qwen2.5-Coder; Llama; Claude and DeepSeek; Glaive; LM Studio's default; Mistral; Granite, LFM2,
# Phi, Gemma; Kimi; Llama; DeepSeek; GPT-OSS; FunctionGemma; Command-R; InternLM; Doubao; Apertus;
# Functionary; Qwen-Agent; Cline; ReAct prompts.
MARKS = (
    Mark("<tool_calls", r"<tool_calls>", r"</tool_calls>"),
    Mark(
        "<tool_call",
        rf"<tool_call(?:\s+name\s*=\s*[\"'](?P<name>{_NAME})[\"'])?{_ATTRIBUTES}>",
        r"</tool_call>",
    ),
    Mark("<minimax:tool_call", r"<minimax:tool_call>", r"</minimax:tool_call>"),
    Mark("<seed:tool_call", r"<seed:tool_call>", r"</seed:tool_call>"),
    Mark("<longcat_tool_call", r"<longcat_tool_call>", r"</longcat_tool_call>"),
    Mark("<toolcall", r"<TOOLCALL>", r"</TOOLCALL>"),
    Mark("<tool_code", r"<tool_code>", r"</tool_code>"),
    Mark("<tools>", r"<tools>", r"</tools>"),
    Mark("<function=", rf"<function=(?P<name>{_NAME})(?:>|(?=\{{))", r"</function>"),
    Mark("<function_calls>", r"<function_calls>", r"</function_calls>"),
    Mark("<function_call", rf"<function_call{_ATTRIBUTES}>", r"</function_call>"),
    Mark("<functioncall>", r"<functioncall>", r"</functioncall>"),
    Mark("<invoke", rf"<invoke\s+name\s*=\s*[\"'](?P<name>{_NAME})[\"']\s*>", r"</invoke>"),
    Mark(
        "<｜dsml｜function_calls",
        rf"<{_BAR}DSML{_BAR}function_calls>",
        rf"</{_BAR}DSML{_BAR}function_calls>",
    ),
    Mark(
        "<｜dsml｜invoke",
        rf"<{_BAR}DSML{_BAR}invoke\s+name\s*=\s*[\"'](?P<name>{_NAME})[\"']\s*>",
        rf"</{_BAR}DSML{_BAR}invoke>",
    ),
    Mark("[tool_request]", r"\[TOOL_REQUEST\]", r"\[(?:END_|/)TOOL_REQUEST\]"),
    Mark("[tool_calls]", r"\[TOOL_CALLS\]", r"\[/TOOL_CALLS\]"),
    Mark(  # LFM2
        "<|tool_call_start|>",
        r"<\|tool_call_start\|>",
        r"<\|/tool_calls?\|?>|<\|tool_calls?_end\|>|</?tool_call\|>",
        speaks=True,
    ),
    Mark(
        "<|tool_call",
        r"<\|tool_call(?:s|_start|s_start)?\|?>",
        r"<\|/tool_calls?\|?>|<\|tool_calls?_end\|>|</?tool_call\|>",
    ),
    Mark(
        "<|tool_calls_section",
        r"<\|tool_calls_section_begin\|>",
        r"<\|tool_calls_section_end\|>",
    ),
    Mark("<|python_tag|>", r"<\|python_tag\|>"),
    Mark("<|python_start|>", r"<\|python_start\|>", r"<\|python_end\|>"),
    Mark(
        "<｜tool",
        rf"<{_BAR}tool{GAP}calls(?:{GAP}begin)?{_BAR}>",
        rf"<{_BAR}tool{GAP}calls{GAP}end{_BAR}>",
    ),
    Mark(
        "<｜tool",
        rf"<{_BAR}tool{GAP}call{GAP}begin{_BAR}>",
        rf"<{_BAR}tool{GAP}call{GAP}end{_BAR}>",
    ),
    Mark(
        "<|channel|>commentary to=",
        rf"{_START}<\|channel\|>commentary {_TO}{_MESSAGE}",
        r"<\|call\|>",
    ),
    Mark(
        "<|channel|>analysis to=",
        rf"{_START}<\|channel\|>analysis {_TO}{_MESSAGE}",
        r"<\|call\|>",
    ),
    Mark(
        "<|start|>assistant to=",
        rf"<\|start\|>assistant {_TO}\s*<\|channel\|>(?:commentary|analysis){_MESSAGE}",
        r"<\|call\|>",
    ),
    Mark("<start_function_call>", r"<start_function_call>", r"<end_function_call>"),
    Mark("<|start_action|>", r"<\|START_ACTION\|>", r"<\|END_ACTION\|>"),
    Mark("<|action_start|>", r"<\|action_start\|>\s*(?:<\|plugin\|>)?", r"<\|action_end\|>"),
    Mark("<|functioncallbegin|>", r"<\|FunctionCallBegin\|>", r"<\|FunctionCallEnd\|>"),
    Mark("<|tools_prefix|>", r"<\|tools_prefix\|>", r"<\|tools_suffix\|>", keyed=True),
    Mark("<tool name=", rf"<tool\s+name=[\"'](?P<name>{_NAME})[\"']\s*>", r"</tool>"),
    Mark("✿function✿", rf"✿FUNCTION✿\s*:\s*(?P<name>{_NAME})\s*\n\s*✿ARGS✿\s*:", r"✿RESULT✿\s*:?"),
    Mark("<use_mcp_tool>", r"<use_mcp_tool>", r"</use_mcp_tool>"),
    Mark(
        "action:",
        rf"{_LABEL}`?(?P<name>{_NAME})`?(?:\(\))?[ \t]*\r?\n\s*{_ARGS_LABEL}",
        _OBSERVATION,
        plain=True,
    ),
    Mark(  # also Gemma's, whose opening token a server took out
        "action:",
        rf"{_LABEL}`?(?={_NAME} ?[({{])",
        rf"`?(?:{_OBSERVATION}|<tool_call\|>|[ \t]*\Z)",
        plain=True,
    ),
    Mark(">>>", rf"^>>>(?P<name>{_NAME})\n(?=\{{)"),
)
# The keys that an object which is a call may begin with.
CALL_KEYS = (
    "thought",
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
_END_TOKEN = re.compile(
    r"(?:</s>|<\|(?:im_end|im_start|eot_id|eom_id|eot|endoftext|end_of_text|end_of_role|end"
    r"|return|call|observation|user|stop|END_OF_TURN_TOKEN|tool_response)\|>|<end_of_turn>|<eos>"
    r"|<turn\|>|<start_function_response>|\[\|endofturn\|\]|\[e~\[|<｜end▁of▁sentence｜>)\Z"
)
_END_LONGEST = 40  # characters of such a token


def without_end(text: str) -> str:
    """The text without white space and end tokens behind it."""
    text = text.rstrip()
    while found := _END_TOKEN.search(text, max(0, len(text) - _END_LONGEST)):
        text = text[: found.start()].rstrip()
    return text


def is_quoted(line: str) -> bool:
    """Whether what follows `line`, the text before it on its line, is quoted: code or quotes."""
    return bool(line) and (line.count("`") % 2 == 1 or line[-1] in _QUOTES)


def lower(text: str) -> str:
    """`text` in lower case with each character in its place, which `str.lower` does not promise."""
    return text.translate(_LOWER)
