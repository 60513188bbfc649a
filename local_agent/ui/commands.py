"""The commands of the chat, declared once; help and completion come from this list."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """A command as it is declared. `args` is "" (none), "NAME" (needed) or "[NAME]" (optional)."""

    name: str
    args: str
    help: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command as it was typed; `arg` is the rest of the line, stripped."""

    name: str
    arg: str = ""


@dataclass(frozen=True, slots=True)
class BadCommand:
    """A line that is meant as a command and cannot be one; `message` is one line for the user."""

    message: str


COMMANDS = (
    CommandSpec("help", "", "list these commands"),
    CommandSpec("new", "[NAME]", "start a new conversation"),
    CommandSpec("thread", "NAME", "go to the thread NAME, or start it"),
    CommandSpec("threads", "", "list the saved threads"),
    CommandSpec("tools", "[NAME]", "list the tools, or show all of one"),
    CommandSpec("servers", "", "list the MCP servers and their state"),
    CommandSpec("route", "[NAME]", "show the routes, or keep this thread on one"),
    CommandSpec("model", "", "show the model and its context length"),
    CommandSpec("retry", "", "send the last prompt again"),
    CommandSpec("rewind", "[N]", "list the turns, or go back to before turn N"),
    CommandSpec("undo", "", "take back the last turn"),
    CommandSpec("redo", "", "bring it back, until you say something"),
    CommandSpec("fork", "NEW [TURN]", "go on in a copy, of all turns or those up to TURN"),
    CommandSpec("edit", "RESULT", "correct a result (r7) in the editor and go on from there"),
    CommandSpec("show", "RESULT", "show a result (r7) whole"),
    CommandSpec("state", "", "show what the thread's state holds"),
    CommandSpec("context", "", "show what fills the prompt, and what of it is new"),
    CommandSpec("compact", "[preview|undo]", "shorten the prompt now; --purge forgets for good"),
    CommandSpec("summary", "[edit]", "show the summary of folded turns, or change it"),
    CommandSpec("pin", "[RESULT] [off]", "keep a result (r7) whole in the prompt"),
    CommandSpec("search", "QUERY", 'find words and "phrases" in all threads'),
    CommandSpec("rename", "NEW", "give this thread another name"),
    CommandSpec("delete", "NAME", "delete a thread; asks first"),
    CommandSpec("prune", "[N]", "drop branches and the way back to all but the last N turns"),
    CommandSpec("export", "[FILE]", "write this thread to a file (.md to read, .json whole)"),
    CommandSpec("import", "FILE", "make a thread of a file and go to it"),
    CommandSpec("quit", "", "leave (also: quit, exit, Ctrl-D)"),
)
_BY_NAME = {spec.name: spec for spec in COMMANDS}
_WORD = re.compile(r"/[A-Za-z][A-Za-z_-]*")


def parse(line: str) -> Command | BadCommand | None:
    """The command that `line` is, or None for a prompt.

    `quit` and `exit` alone leave. A command's first word is a slash and letters without a further
    slash, so that a path ("/etc/hosts what is this") is a prompt; so is every line that begins
    with a space or has more than one line.
    """
    if line.strip() in {"quit", "exit"}:
        return Command("quit")
    stripped = line.rstrip()
    word, _, rest = stripped.partition(" ")
    if "\n" in stripped or _WORD.fullmatch(word) is None:
        return None
    name, arg = word[1:].lower(), rest.strip()
    spec = _BY_NAME.get("quit" if name == "exit" else name)
    if spec is None:
        return BadCommand(_unknown(word))
    if not spec.args and arg:
        return BadCommand(f"/{spec.name} takes nothing after it.")
    if spec.args and not spec.args.startswith("[") and not arg:
        return BadCommand(f"/{spec.name} needs a {spec.args}.")
    return Command(spec.name, arg)


def help_text() -> str:
    """All commands, one a line, then the keys of the prompt."""
    shown = [(f"/{spec.name} {spec.args}".rstrip(), spec.help) for spec in COMMANDS]
    width = max(len(usage) for usage, _ in shown)
    rows = [f"{usage:<{width}}  {text}" for usage, text in shown]
    rows.append("Alt-Enter: new line. Ctrl-C: stop the turn. A space before / sends it as text.")
    return "\n".join(rows)


def _unknown(word: str) -> str:
    near = difflib.get_close_matches(word[1:].lower(), _BY_NAME, n=1, cutoff=0.5)
    hint = f"Did you mean /{near[0]}?" if near else "/help lists the commands."
    return f"There is no command {word}. {hint} (A space before it sends it as text.)"
