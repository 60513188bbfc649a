"""The last turns of a document, as a document that begins with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from local_agent.transfer.document import Course, Document, Step, basis_keys


def last_turns(document: Document, count: int) -> Document:
    """The last `count` turns (1 or more); a shorter thread is given back as it is.

    The state at their beginning is kept whole, with a summary of what came before. Branches that
    were left before them are left out.
    """
    starts = [i for i, step in enumerate(document.steps) if step.is_start]
    if len(starts) <= count:
        return document
    first = starts[-count]
    gone, kept = document.steps[:first], document.steps[first:]
    dropped = len(document.messages_at(gone[-1].id))
    state: dict[str, Any] = {k: v for step in gone for k, v in step.state.items()}
    root = kept[0]
    kept = (
        replace(root, parent=None, keep=None, state={**state, **root.state}),
        *(_shifted(step, dropped) for step in kept[1:]),
    )
    known = {step.id for step in kept}
    branches: list[Course] = []
    for one in document.branches:
        steps = tuple(_shifted(step, dropped) for step in one.steps)
        if one.end in known or (steps and steps[0].parent in known):
            known |= {step.id for step in steps}
            branches.append(replace(one, steps=steps))
    left_out = document.left_out + len(starts) - count
    part = replace(document, steps=kept, branches=tuple(branches), left_out=left_out)
    keys = basis_keys(part.all_steps())
    return replace(part, bases={k: v for k, v in part.bases.items() if k in keys})


def _shifted(step: Step, dropped: int) -> Step:
    """A step whose list is shorter at the front by `dropped` messages."""
    return step if step.keep is None else replace(step, keep=max(step.keep - dropped, 0))
