"""A turn that was broken off by a crash: the line that says so, and the question what to do."""

from __future__ import annotations

from typing import Literal

from local_agent.events import Interrupted
from local_agent.ui.approval import Asker
from local_agent.ui.lines import one_line

PROMPT_CHARACTERS = 60
QUESTION = "Go on with it? Enter goes on · d discards it: "
_YES, _DISCARD = {"", "c", "y", "yes", "go on", "continue"}, {"d", "discard"}


def interrupted_line(turn: Interrupted) -> str:
    """`The last turn was interrupted while the model answered: "fix the tests in…"`."""
    match turn.doing:
        case "model":
            doing = " while the model answered"
        case "tools":
            tools = " and ".join(map(one_line, turn.tools))
            doing = f" while {tools} ran"
            if turn.may_have_run:
                doing += ", which may have been carried out"
        case _:
            doing = " between two steps"
    start = one_line(" ".join(turn.prompt.split()))
    if len(start) > PROMPT_CHARACTERS:
        start = f"{start[: PROMPT_CHARACTERS - 1]}…"
    return f'The last turn was interrupted{doing}: "{start}"'


async def ask_to_go_on(turn: Interrupted, prompt: Asker) -> Literal["go on", "discard"] | None:
    """What becomes of the turn; None when Ctrl-C or the end of the input left it undecided.

    Other text is no answer: it is asked again. Keys typed before the question don't count.
    """
    prompt.discard_typed()
    prompt.write(f"{interrupted_line(turn)}\n")
    while True:
        try:
            answer = await prompt.answer(QUESTION)
        except KeyboardInterrupt:
            return None
        if answer is None:
            return None
        word = answer.strip().lower()
        if word in _YES:
            return "go on"
        if word in _DISCARD:
            return "discard"
