"""The tools that a model chooses from while it is probed, and a prompt for each.

Nothing of them is ever run. They stand in an order in which related ones come one after the other,
so that the right one has neighbours that could be taken for it; a shorter list is the beginning of
a longer one, so that a server has read it already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ProbeTool:
    """A tool as a prompt and the repair need it. `prompts` can be met by it alone."""

    name: str
    description: str
    schema: Mapping[str, Any]
    prompts: tuple[str, ...] = field(default=())
    server: str = "probe"

    @property
    def original(self) -> str:
        return self.name

    @property
    def function(self) -> dict[str, Any]:
        """The tool as the chat API takes it."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.schema),
        }
        return {"type": "function", "function": function}


def make(name: str, description: str, parameters: str, *prompts: str) -> ProbeTool:
    """A tool. `parameters` is like "city, days:integer, note?": strings, unless said otherwise."""
    properties: dict[str, Any] = {}
    required = []
    for part in filter(None, parameters.split(", ")):
        field_name, _, kind = part.removesuffix("?").partition(":")
        properties[field_name] = {"type": kind or "string"}
        if not part.endswith("?"):
            required.append(field_name)
    schema = {"type": "object", "properties": properties, "required": required}
    return ProbeTool(name, description, schema, prompts)


WEATHER = make(
    "get_weather",
    "The weather in a city now.",
    "city",
    "What is the weather in Oslo?",
    "Is it raining in Lisbon right now?",
    "How warm is it in Cairo at the moment?",
    "Do I need an umbrella in Dublin now?",
)

TOOLS: Sequence[ProbeTool] = (
    WEATHER,
    make(
        "get_forecast",
        "The weather forecast for a city on coming days.",
        "city, days:integer",
        "What will the weather in Rome be over the next 5 days?",
        "Will it snow in Helsinki in the coming 3 days?",
    ),
    make(
        "get_time",
        "The current time in a city.",
        "city",
        "What time is it in Tokyo?",
        "Is it already past noon in Lima? I need the clock time there.",
    ),
    make(
        "convert_currency",
        "Convert an amount of money at today's rate.",
        "amount:number, from_currency, to_currency",
        "How much is 250 EUR in USD?",
        "Change 40 pounds (GBP) into yen (JPY).",
    ),
    make("read_file", "The text of a file.", "path", "Show me what is in the file notes.txt."),
    make(
        "write_file",
        "Write a text into a file.",
        "path, text",
        "Put the text 'hello' into a new file hello.txt.",
    ),
    make(
        "list_folder",
        "The names of the files in a folder.",
        "path",
        "Which files are in the folder photos?",
    ),
    make("delete_file", "Delete a file.", "path", "Remove the file old.log from the disk."),
    make(
        "search_files",
        "Find files whose text has a word.",
        "word",
        "Find all files that mention 'invoice'.",
    ),
    make(
        "send_mail",
        "Send an e-mail.",
        "to, subject, text",
        "Mail ada@example.org with the subject Lunch: shall we eat at noon?",
    ),
    make(
        "list_mails",
        "The newest e-mails of a folder.",
        "folder, count:integer",
        "Show the 5 newest e-mails in my inbox.",
    ),
    make(
        "search_mails",
        "Find e-mails by words in them.",
        "query",
        "Find e-mails that mention the train tickets.",
    ),
    make(
        "create_event",
        "Put an event into the calendar.",
        "title, date, time",
        "Add 'Dentist' to my calendar on 2027-03-09 at 10:00.",
    ),
    make(
        "list_events",
        "The events of a day in the calendar.",
        "date",
        "What is in my calendar on 2027-03-09?",
    ),
    make(
        "add_reminder",
        "Remind of something at a time.",
        "text, time",
        "Remind me to call Bob at 18:00.",
    ),
    make("add_task", "Add a task to the to-do list.", "title", "Add 'buy milk' to my to-do list."),
    make("list_tasks", "The open tasks of the to-do list.", "", "What is left on my to-do list?"),
    make(
        "translate",
        "Translate a text into a language.",
        "text, language",
        "Translate 'good morning' into Polish.",
    ),
    make(
        "define_word",
        "The dictionary entry of a word.",
        "word",
        "Look up 'petrichor' in the dictionary.",
    ),
    make(
        "search_web",
        "Search the web.",
        "query",
        "Search the web for reviews of the Fairphone 6.",
    ),
    make(
        "open_page",
        "The text of a web page.",
        "url",
        "Read the page https://example.org/news to me.",
    ),
    make(
        "find_route",
        "The way from one place to another.",
        "start, end",
        "How do I get from Bern to Geneva?",
    ),
    make(
        "find_place",
        "Places of a kind near somewhere.",
        "kind, near",
        "Find a pharmacy near the main station in Vienna.",
    ),
    make(
        "train_departures",
        "The next trains that leave a station.",
        "station",
        "Which trains leave Utrecht next?",
    ),
    make("play_music", "Play a song or an artist.", "name", "Play something by Nina Simone."),
    make("stop_music", "Stop the music.", "", "Stop the music, please."),
    make(
        "set_volume",
        "Set the loudness of the speaker in per cent.",
        "percent:integer",
        "Turn the speaker to 30 per cent.",
    ),
    make(
        "set_light",
        "Switch the light of a room on or off.",
        "room, on:boolean",
        "Switch the light in the kitchen on.",
    ),
    make(
        "set_heating",
        "Set the temperature of a room.",
        "room, degrees:number",
        "Heat the bathroom to 22 degrees.",
    ),
    make(
        "run_query",
        "Run an SQL query on the database.",
        "sql",
        "Run this on the database: SELECT count(*) FROM orders",
    ),
    make(
        "git_log",
        "The last commits of a repository.",
        "count:integer",
        "Show the last 3 commits of the repository.",
    ),
    make(
        "git_status",
        "What is changed in the working tree of a repository.",
        "",
        "Has anything changed in the working tree since the last commit?",
    ),
)


def choices(count: int, samples: int) -> list[tuple[str, str]]:
    """(prompt, name of the right tool) for `samples` choices among the first `count` tools.

    The right ones are spread over the whole list, its first and last among them.
    """
    spread = max(samples - 1, 1)
    places = [round(at * (count - 1) / spread) for at in range(samples)]
    used: dict[int, int] = {}
    chosen = []
    for place in places:
        prompts = TOOLS[place].prompts
        turn = used[place] = used.get(place, -1) + 1
        chosen.append((prompts[turn % len(prompts)], TOOLS[place].name))
    return chosen
