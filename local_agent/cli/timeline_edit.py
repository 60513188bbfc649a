"""What `agent threads edit` does: puts a correction in, and runs the turn on from there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from local_agent.app import App, open_app
from local_agent.cli.batch import Shown, decider
from local_agent.cli.opening import exit_code, only
from local_agent.cli.options import Place, Run
from local_agent.cli.timeline_show import open_timeline
from local_agent.cli.timeline_text import kept_line, moved_lines, moved_object
from local_agent.errors import OK, AgentError, UsageError
from local_agent.events import TurnFinished
from local_agent.memory.heads import config_of
from local_agent.routing import check_route
from local_agent.timeline import Moved, Timeline
from local_agent.timeline.edits import (
    check_fields,
    edit_call,
    edit_prompt,
    edit_result,
    edit_state,
    waiting_call,
)


@dataclass(frozen=True, slots=True)
class Change:
    """One correction: `name` is the handle or turn, `text` or `values` what it becomes."""

    what: Literal["result", "prompt", "call", "state"]
    name: str = ""
    text: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)


async def put_in(place: Place, thread: str, change: Change, as_json: bool, given: str) -> list[str]:
    """Only put the correction in; what there is to say."""
    async with open_timeline(place, thread, hold=thread) as timeline:
        await timeline.head()
        moved = await _edited(timeline, change)
    if as_json:
        return [json.dumps(moved_object(moved, thread))]
    return moved_lines(moved, thread, given)


async def run_edit(run: Run, change: Change) -> int:
    """Put the correction in and run the turn on; returns the exit code, as `-p` does.

    Raises `AgentError` for what goes wrong before, except where the output is JSON.
    """
    shown, thread = Shown(run), run.settings.thread
    try:
        async with open_app(run.settings, shown.say) as app, app.session(thread) as session:
            timeline = Timeline(app.graph, app.memory, thread)
            await timeline.head()
            await _check(app, timeline, change)
            if change.what != "call":  # what is asked again needs no model
                await app.model.connect()
            moved = await _edited(timeline, change)
            if moved.branch:
                shown.say(kept_line(moved.branch, thread, run.given), "info")
            if not moved.is_open:
                return OK
            asked = await session.pending()
            events = only(asked) if asked else session.proceed()
            decide = decider(run, shown.renderer)
            return exit_code(await shown.turn(session, events, decide, run.settings.timeout))
    except AgentError as exc:
        if run.output == "text":
            raise
        shown.renderer.show(TurnFinished(thread, "", "", "error", error=str(exc)))
        return exc.exit_code


async def _check(app: App, timeline: Timeline, change: Change) -> None:
    """Raises `UsageError` for values that the program itself knows to be wrong."""
    if change.what == "state":
        check_fields(change.values)
        if "route" in change.values:
            check_route(app.routes, change.values["route"])
    if change.what != "call":
        return
    state = await app.graph.aget_state(config_of(timeline.thread))
    call = waiting_call(state.values.get("messages", []), change.name)
    tool = next((one for one in app.servers.tools if call and one.name == call["name"]), None)
    if tool is not None and (wrong := _wrong(tool.schema, change.values)):
        raise UsageError(f"The tool '{tool.name}' does not take that: {wrong}.")


def _wrong(schema: Mapping[str, Any], args: Mapping[str, Any]) -> str:
    """What the schema says against the arguments; nothing where it cannot be used."""
    from jsonschema.exceptions import SchemaError, best_match  # type: ignore[import-untyped]
    from jsonschema.validators import validator_for  # type: ignore[import-untyped]
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    try:
        kind = validator_for(dict(schema))
        kind.check_schema(dict(schema))
        # With a registry of its own, so that nothing that the schema names is fetched.
        found = best_match(kind(dict(schema), registry=Registry()).iter_errors(dict(args)))
    except (SchemaError, Unresolvable):
        return ""
    if found is None:
        return ""
    where = ".".join(map(str, found.absolute_path))
    return f"{where}: {found.message}" if where else str(found.message)


async def _edited(timeline: Timeline, change: Change) -> Moved:
    if change.what == "result":
        return await edit_result(timeline, change.name, change.text)
    if change.what == "prompt":
        return await edit_prompt(timeline, int(change.name), change.text)
    if change.what == "call":
        return await edit_call(timeline, change.name, change.values)
    return await edit_state(timeline, change.values)
