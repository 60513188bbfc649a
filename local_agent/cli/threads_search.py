"""`agent threads search`: words and phrases in all that was said."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from local_agent.cli.options import (
    config_option,
    db_option,
    json_option,
    place_of,
    print_line,
    typed,
)
from local_agent.cli.threads import local_time
from local_agent.errors import UsageError
from local_agent.memory.excerpt import excerpt
from local_agent.memory.index import Hit
from local_agent.memory.words import PHRASES, Phrase, parse
from local_agent.threads.search import Found, search_threads
from local_agent.ui.lines import one_line
from local_agent.ui.marks import marked_line, marks_for

LIMIT = 20
LONGEST_QUERY = 1_000  # characters


@click.command()
@click.argument("query", nargs=-1, required=True)
@click.option("--thread", metavar="NAME", help="In this thread only.")
@click.option("--limit", type=click.IntRange(min=1), default=LIMIT, show_default=True, metavar="N")
@config_option
@db_option
@json_option
@click.pass_context
def search(
    ctx: click.Context,
    query: tuple[str, ...],
    thread: str | None,
    limit: int,
    config: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Find words and "phrases" in prompts, answers, tool calls and results.

    All of them must be in one text; word* finds what begins so.
    """
    text = typed(" ".join(query)) or ""
    phrases = phrases_of(text)
    place = place_of(ctx, config, db)
    found = search_threads(place.db, phrases, thread=typed(thread), limit=limit, key=place.key)
    if as_json:
        print_line(json.dumps(_as_object(text, found, phrases), indent=2, ensure_ascii=False))
        return
    for line in found_lines(found.hits, phrases, marks_for(sys.stdout, os.environ)):
        print_line(line)
    for note in notes_on(text, found, "--limit shows more."):
        click.echo(note, err=True)


def phrases_of(query: str) -> tuple[Phrase, ...]:
    """What `query` asks for. Raises UsageError where that is nothing, or too much."""
    phrases = parse(query[: LONGEST_QUERY + 1])
    if not phrases:
        raise UsageError(f"There is no word in '{one_line(query)}'.", "Give one to look for.")
    if len(phrases) > PHRASES or len(query) > LONGEST_QUERY:
        raise UsageError("That is too much to look for at once.", f"Give up to {PHRASES} words.")
    return phrases


def found_lines(
    hits: Sequence[Hit], phrases: Sequence[Phrase], marks: tuple[str, str]
) -> list[str]:
    """Two lines a result: where and when it was said and by whom; then the words, marked."""
    rows = []
    for hit in hits:
        who = f"{hit.kind} {hit.handle}".strip()
        place = f"{one_line(hit.thread)}  turn {hit.turn}  {local_time(hit.said)}  {who}"
        rows += [place, f"    {marked_line(excerpt(hit.text, phrases), marks).strip()}"]
    return rows


def notes_on(query: str, found: Found, more: str) -> list[str]:
    """What is to be said beside the results."""
    notes = list(found.notes)
    if not found.hits:
        notes.append(f"Nothing found for '{one_line(query)}'.")
    elif len(found.hits) < found.total:
        notes.append(f"{len(found.hits)} of {found.total} results; {more}")
    return notes


def _as_object(query: str, found: Found, phrases: Sequence[Phrase]) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "query": query,
        "total": found.total,
        "results": [
            {
                "thread": hit.thread,
                "turn": hit.turn,
                "time": hit.said.isoformat(),
                "kind": hit.kind,
                "handle": hit.handle or None,
                "score": -hit.rank or 0.0,
                "excerpt": [
                    {"text": text, "match": match} for text, match in excerpt(hit.text, phrases)
                ],
            }
            for hit in found.hits
        ],
        "notes": list(found.notes),
    }
