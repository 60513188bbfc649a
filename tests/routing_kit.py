"""Tools of several servers and labelled prompts, for the tests and the benchmark of routing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage


@dataclass(frozen=True)
class FakeTool:
    """A tool that is only described."""

    name: str
    server: str
    read_only: bool = True
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict)
    identity: str = "kit"

    @property
    def original(self) -> str:
        return self.name

    async def __call__(self, args: Mapping[str, Any]) -> tuple[str, Any]:
        return f"{self.name} done", "success"


class Answering:
    """A model that gives one content, or raises it, and counts how often it was asked."""

    def __init__(self, content: str | Exception) -> None:
        self.content = content
        self.asked: list[Any] = []

    async def reply(self, messages: Any, **options: Any) -> AIMessage:
        self.asked.append((messages, options))
        if isinstance(self.content, Exception):
            raise self.content
        return AIMessage(self.content)


# server: (tool, description, arguments with their descriptions)
_SERVERS: Mapping[str, tuple[tuple[str, str, Mapping[str, str]], ...]] = {
    "git": (
        ("git_status", "Shows the working tree status", {"repo_path": ""}),
        ("git_diff", "Shows differences between branches or commits", {"target": ""}),
        ("git_log", "Shows the commit logs", {"max_count": "", "start_timestamp": ""}),
        ("git_commit", "Records changes to the repository", {"message": ""}),
        ("git_create_branch", "Creates a new branch from an optional base branch", {"branch": ""}),
        ("git_checkout", "Switches branches", {"branch_name": ""}),
    ),
    "files": (
        ("read_file", "Read the complete contents of a file", {"path": "", "head": ""}),
        ("write_file", "Create a new file or overwrite an existing one", {"path": "", "text": ""}),
        ("list_directory", "List files and folders in a directory", {"path": ""}),
        ("move_file", "Move or rename files and directories", {"source": "", "destination": ""}),
        ("search_files", "Search for files that match a pattern", {"pattern": ""}),
    ),
    "weather": (
        ("get_weather", "Current weather in a city: temperature, rain, wind", {"city": ""}),
        ("get_forecast", "Weather forecast for the next days", {"city": "", "days": ""}),
        ("get_air_quality", "Air quality and pollen in a city", {"city": ""}),
    ),
    "calendar": (
        ("list_events", "List the events and meetings of a day or week", {"from": "", "to": ""}),
        ("create_event", "Create a calendar event", {"title": "", "start": "", "attendees": ""}),
        ("delete_event", "Cancel an event", {"event_id": ""}),
        ("find_free_slot", "Find a free time slot for several people", {"people": ""}),
    ),
    "mail": (
        ("search_mail", "Search e-mails by sender, subject or words", {"query": ""}),
        ("read_mail", "Read one e-mail", {"mail_id": ""}),
        ("send_mail", "Send an e-mail", {"to": "", "subject": "", "body": ""}),
        ("archive_mail", "Archive an e-mail", {"mail_id": ""}),
    ),
    "shop": (
        ("search_products", "Search the products of the shop", {"query": "", "max_price": ""}),
        ("get_order", "Get an order with its state and shipping", {"order_id": ""}),
        ("list_orders", "List the orders of a customer", {"customer": ""}),
        ("refund_order", "Refund an order to the customer", {"order_id": "", "amount": ""}),
        ("get_customer", "Get a customer by name, e-mail or number", {"name": ""}),
    ),
    "maths": (
        ("calculate", "Calculate an arithmetic expression", {"expression": ""}),
        ("convert_units", "Convert between units of length, weight, currency", {"value": ""}),
        ("get_current_time", "Current time in a time zone", {"timezone": ""}),
    ),
}


def tools() -> list[FakeTool]:
    """The thirty tools, in order."""
    return [
        FakeTool(
            name,
            server,
            description=text,
            schema={
                "type": "object",
                "properties": {
                    arg: {"type": "string", **({"description": about} if about else {})}
                    for arg, about in arguments.items()
                },
            },
        )
        for server, listed in _SERVERS.items()
        for name, text, arguments in listed
    ]


def many(count: int) -> list[FakeTool]:
    """`count` tools: those thirty, again and again under other names."""
    kinds = tools()
    return [
        FakeTool(
            f"{kind.name}_{at // len(kinds)}" if at >= len(kinds) else kind.name,
            f"{kind.server}{at // len(kinds) or ''}",
            description=kind.description,
            schema=kind.schema,
        )
        for at, kind in ((at, kinds[at % len(kinds)]) for at in range(count))
    ]


@dataclass(frozen=True)
class Labelled:
    """A prompt with the route it needs ("general": no tool), behind an earlier exchange if any."""

    prompt: str
    route: str
    before: tuple[str, str, str] | None = None  # prompt, tool that was called, answer

    def messages(self) -> list[AnyMessage]:
        """The thread up to the prompt."""
        out: list[AnyMessage] = []
        if self.before:
            prompt, tool, answer = self.before
            out.append(HumanMessage(prompt, id="h0"))
            server = next(s for s, listed in _SERVERS.items() if any(t[0] == tool for t in listed))
            calls = [{"name": tool, "args": {}, "id": "c0"}]
            kwargs = {"route": server}
            out.append(AIMessage("", tool_calls=calls, id="a0", additional_kwargs=kwargs))
            out.append(AIMessage(answer, id="b0", additional_kwargs=kwargs))
        return [*out, HumanMessage(self.prompt, id="h1")]


_LOG = ("Show the last commit", "git_log", "The last commit is 'Fix the parser' by Ada.")
_RAIN = ("Is it raining in Oslo?", "get_weather", "Yes, it is raining in Oslo at 4 °C.")
_ORDER = ("Where is order 4711?", "get_order", "It was shipped on Monday. Shall I refund it?")
_MEET = ("What meetings do I have today?", "list_events", "One: Planning at 10:00.")

PROMPTS = (
    # no tool
    *(
        Labelled(text, "general")
        for text in (
            "Hello!",
            "Hi there, how are you?",
            "Thanks, that's all.",
            "Good morning!",
            "Thank you so much for your help!",
            "Danke, das war's.",
            "Merci beaucoup !",
            "你好",
            "Great, thanks!",
            "What is the capital of France?",
            "Who wrote Faust?",
            "Tell me a joke.",
            "Write a haiku about autumn.",
            "What is the meaning of 'serendipity'?",
            "Explain recursion to me in two sentences.",
            "How do you say 'good night' in Italian?",
            "What's your name?",
            "How many legs does a spider have?",
            "Why is the sky blue?",
            "Who painted the Mona Lisa?",
        )
    ),
    *(
        Labelled(text, "general", before)
        for text, before in (
            ("Thanks!", _LOG),
            ("What did I just ask you?", _LOG),
            ("Can you say that in German?", _RAIN),
            ("Summarize that in one sentence, please.", _LOG),
            ("ok, cool, bye", _MEET),
            ("What was my first question?", _MEET),
            ("Make it shorter please", _LOG),
        )
    ),
    # git
    *(
        Labelled(text, "git")
        for text in (
            "Show the last three commits",
            "What changed in this repository since yesterday?",
            "Which branch am I on? git status please",
            "Create a branch called feature/login",
            "Commit this with the message 'fix typo'",
            "Switch to the branch main",
            "Show me the diff between main and dev",
            "Is the working tree clean?",
            "Welche Commits gab es zuletzt?",
        )
    ),
    Labelled("And who made the one before?", "git", _LOG),
    Labelled("Show its diff", "git", _LOG),
    # files
    *(
        Labelled(text, "files")
        for text in (
            "Read the file notes.txt",
            "List the files in /tmp",
            "Rename report.md to report-old.md",
            "Which files match *.py?",
            "Write 'hello' into the file greeting.txt",
            "What's in the directory src?",
            "Move a.txt into the folder archive",
        )
    ),
    # weather
    *(
        Labelled(text, "weather")
        for text in (
            "What's the weather in Paris?",
            "Will it rain tomorrow in Hamburg?",
            "How warm is it in Rome?",
            "Forecast for Lima for three days",
            "How is the air quality in Delhi?",
            "What is the temperature in Cairo right now?",
            "Is the pollen count high in Bern?",
        )
    ),
    Labelled("And in Bergen?", "weather", _RAIN),
    Labelled("What about tomorrow?", "weather", _RAIN),
    Labelled("How windy is it there?", "weather", _RAIN),
    # calendar
    *(
        Labelled(text, "calendar")
        for text in (
            "What meetings do I have tomorrow?",
            "Create an event 'Dentist' on Friday at 9",
            "When are Ada and Bob both free this week?",
            "Cancel the planning meeting",
            "What's on my calendar next week?",
            "Find a free slot for me and Eve",
        )
    ),
    Labelled("Cancel it", "calendar", _MEET),
    # mail
    *(
        Labelled(text, "mail")
        for text in (
            "Did Carol send me an e-mail about the invoice?",
            "Send a mail to bob@example.com that I am late",
            "Archive the mail from the newsletter",
            "Read my newest e-mail",
            "Search my mails for 'contract'",
        )
    ),
    # shop
    *(
        Labelled(text, "shop")
        for text in (
            "What is the state of order 4711?",
            "Refund order 99 with 20 euros",
            "Which orders does customer Miller have?",
            "Find products under 50 euros",
            "Has my order been shipped?",
            "Get the customer with the number 12",
        )
    ),
    Labelled("yes please", "shop", _ORDER),
    Labelled("And the order before?", "shop", _ORDER),
    Labelled("Show the last three commits", "git", _ORDER),
    Labelled("What's the weather in Paris?", "weather", _LOG),
    Labelled("Read the file notes.txt", "files", _RAIN),
    # maths
    *(
        Labelled(text, "maths")
        for text in (
            "Calculate (15 + 27) / 6",
            "Convert 12 miles to kilometres",
            "What time is it in Tokyo?",
            "What is the current time in New York?",
            "How many pounds are 80 kg? Convert it.",
        )
    ),
)
