"""What a yes is marked over, what is asked about a call, and the results of calls not run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from langchain_core.messages import ToolMessage

from agent_core.ports import Run, Tool
from agent_core.reply import emit_result
from agent_core.turn import AGAIN, call_key, result_of

RESULT_LOST = "[it ran; its result was lost]"
NOT_ALLOWED = (
    "The user did not allow this call; it was not run. This is no failure: do not repeat it."
)
UNKNOWN_OUTCOME = (
    "The program was interrupted while this call ran. Whether it was carried out is unknown. "
    "It was not run again."
)


def granted_in(state: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the state that says what was allowed; a task carries it along."""
    return {
        "decisions": state.get("decisions", {}),
        "unknown": state.get("unknown", {}),
        "allowed": state.get("allowed", {}),
        "ran": state.get("ran", {}),
    }


def full_name(tool: Tool) -> str:
    """What a tool is called in rules: server and the server's own name."""
    return f"{tool.server}/{tool.original}"


def yes_to_call(
    call: Mapping[str, Any], tool: Tool, place: tuple[str, str], starts: int
) -> tuple[str, ...]:
    """What a yes to a call is marked over: it counts for the starts of it that were known."""
    args = json.dumps(call["args"], sort_keys=True)
    return ("run", *place, call["id"], full_name(tool), tool.identity, args, str(starts))


def yes_to_tool(tool: Tool, thread: str) -> tuple[str, ...]:
    """What a yes to a tool for the rest of the thread is marked over."""
    return ("allow", thread, full_name(tool), tool.identity)


def why_asked(
    call: Mapping[str, Any], granted: Mapping[str, Any]
) -> Literal["write", "unknown_outcome", "ran"]:
    """Why `call` is asked about, if it is."""
    if call_key(call) in granted["ran"]:
        return "ran"
    return "unknown_outcome" if call["id"] in granted["unknown"] else "write"


def question_of(call: Mapping[str, Any], tool: Tool, granted: Mapping[str, Any]) -> dict[str, Any]:
    """What a person is asked about `call`."""
    return {
        "call_id": call["id"],
        "name": call["name"],
        "server": tool.server,
        "tool": tool.original,
        "args": call["args"],
        "why": why_asked(call, granted),
        "repaired": call.get("repaired", ""),
    }


def without_tool(call: Mapping[str, Any], run: Run | None) -> ToolMessage:
    """The result of a call whose tool is not there (any more)."""
    if run and run.is_write and run.outcome is None:
        return not_allowed(call, "unknown_outcome", "")
    if run and run.outcome is not None and (run.is_write or run.result is not None):
        return result_of(call, run.result or RESULT_LOST, run.outcome)
    text = f"The tool {call['name']} is not there any more; its server may be down."
    return refusal(call, text, "error")


def refusal(call: Mapping[str, Any], text: str, outcome: str) -> ToolMessage:
    """The result of a call that is not run, which is said at once."""
    message = result_of(call, text, outcome)
    emit_result(message)
    return message


def repeated(call: Mapping[str, Any], text: str) -> ToolMessage:
    """The result of a call that is not run because the turn has it before."""
    message = refusal(call, text, "error")
    message.additional_kwargs[AGAIN] = True
    return message


def not_allowed(call: Mapping[str, Any], why: str, reason: str) -> ToolMessage:
    """The result of a call that a person did not allow, in words that a small model can follow."""
    if why == "unknown_outcome":
        return refusal(call, UNKNOWN_OUTCOME, "unknown")
    text = f"{NOT_ALLOWED} Reason: {reason}" if reason else NOT_ALLOWED
    return refusal(call, text, "denied")
