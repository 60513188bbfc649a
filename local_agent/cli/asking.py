"""Asks the person at the terminal, in the middle of a turn."""

from __future__ import annotations

from local_agent.cli.turns import Decide
from local_agent.events import ApprovalRequested, Decisions
from local_agent.ui.approval import ask
from local_agent.ui.prompt import ChatPrompt
from local_agent.ui.terminal import TerminalRenderer


def asking(prompt: ChatPrompt, renderer: object) -> Decide:
    """Ask at the terminal; what shows that the program works stands still meanwhile."""

    async def decide(approval: ApprovalRequested) -> Decisions | None:
        if isinstance(renderer, TerminalRenderer):
            renderer.end_turn()
        try:
            return await ask(approval, prompt)
        finally:
            if isinstance(renderer, TerminalRenderer):
                renderer.begin_turn()

    return decide
