"""What is a command of the chat, and what is a prompt."""

from __future__ import annotations

import pytest

from local_agent.ui.commands import COMMANDS, BadCommand, Command, help_text, parse


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("/help", Command("help")),
        ("/thread  my work ", Command("thread", "my work")),
        ("/new", Command("new")),
        ("/HELP", Command("help")),
        ("/exit", Command("quit")),
        ("quit", Command("quit")),
        (" exit ", Command("quit")),
    ],
)
def test_commands(line: str, command: Command) -> None:
    """A slash and a known word, with its argument; quit and exit also without the slash."""
    assert parse(line) == command


@pytest.mark.parametrize(
    "line",
    [
        "/etc/hosts what is this",
        "/usr/bin",
        "/",
        "//",
        "/ help",
        "/5 of it",
        " /help",
        "/help\nand more",
        "quit smoking",
        "hello",
        "",
    ],
)
def test_prompts(line: str) -> None:
    """Paths, several lines and what begins with a space go to the model."""
    assert parse(line) is None


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("/threds", "Did you mean /threads?"),
        ("/zzzz", "/help lists"),
        ("/thread", "needs a NAME"),
        ("/servers now", "takes nothing"),
    ],
)
def test_mistakes_get_one_line(line: str, part: str) -> None:
    """An unknown command names the nearest one; a wrong use is said, and nothing is sent."""
    result = parse(line)
    assert isinstance(result, BadCommand)
    assert part in result.message
    assert "\n" not in result.message


def test_help_lists_each_command_once() -> None:
    """Help comes from the list of commands."""
    names = [row.split()[0] for row in help_text().splitlines()[:-1]]
    assert names == [f"/{spec.name}" for spec in COMMANDS]
