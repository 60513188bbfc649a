"""Chat templates that refuse what the API allows: the form that is sent instead, over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from local_agent.config import ModelSettings
from local_agent.errors import ContextOverflow, ModelError
from local_agent.model import ChatModel
from local_agent.model.template import STRICTEST, USUAL, Form, refuses, stricter
from local_agent.testing import Fail, Reply, Say, ScriptedServer, overflow_reply

Body = dict[str, Any]
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
CALL = {"name": "look", "args": {"at": "the sky"}, "id": "call_0123456789"}
FIRST: list[BaseMessage] = [SystemMessage("Be brief."), HumanMessage("hi")]
LATER: list[BaseMessage] = [
    *FIRST,
    AIMessage("", tool_calls=[CALL]),
    ToolMessage("It is blue.", tool_call_id=CALL["id"]),
    AIMessage("Blue."),
    HumanMessage("thanks"),
]

# What servers say, as users reported it. llama.cpp wraps the template's own words like this.
_LLAMA = (
    "\n------------\nWhile executing CallExpression at line 189, column 32 in source:\n"
    "...== 0) %}↵            {{- raise_exception('HEAD...\n"
    "                                           ^\nError: Jinja Exception: WHOLE"
)
_LMSTUDIO = (
    'Error rendering prompt with jinja template: "WHOLE".\n\n'
    "This is usually an issue with the model's prompt template."
)
ALTERNATE = "Conversation roles must alternate user/assistant/user/assistant/..."
DEVSTRAL = (
    "After the optional system message, conversation roles must alternate user and assistant roles "
    "except for tool calls and results."
)
NO_SYSTEM = "System role not supported"
NO_TOOL = "Only user, system and assistant roles are supported!"


def refused(words: str, shape: str = "llama.cpp") -> Reply:
    if shape == "llama.cpp":
        message = _LLAMA.replace("HEAD", words[:35]).replace("WHOLE", words)
        return Fail(500, {"error": {"code": 500, "message": message, "type": "server_error"}})
    if shape == "lmstudio":
        return Fail(400, {"error": _LMSTUDIO.replace("WHOLE", words)})
    return Fail(200, {"error": {"message": words}})


def roles(body: Body) -> list[str]:
    return [message["role"] for message in body["messages"]]


def gemma(shape: str) -> Callable[[Body], Reply]:
    """A template that knows user and assistant, in turns."""

    def answer(body: Body) -> Reply:
        if "system" in roles(body):
            return refused(NO_SYSTEM, shape)
        wanted = [("user", "assistant")[at % 2] for at in range(len(body["messages"]))]
        return Say("ok") if roles(body) == wanted else refused(ALTERNATE, shape)

    return answer


def devstral(body: Body) -> Reply:
    """One that knows a system message and tools, and asks for short ids."""
    bare = [m for m in body["messages"] if m["role"] != "tool" and not m.get("tool_calls")]
    said = [m["role"] for m in bare]
    start = 1 if said[:1] == ["system"] else 0
    if any(role != ("user", "assistant")[at % 2] for at, role in enumerate(said[start:])):
        return refused(DEVSTRAL)
    if any(len(m.get("tool_call_id", "123456789")) != 9 for m in body["messages"]):
        return refused("Tool call IDs should be alphanumeric strings with length 9!")
    return Say("ok")


def ministral(body: Body) -> Reply:
    """One that knows no tools."""
    return refused(NO_TOOL) if "tool" in roles(body) else Say("ok")


async def sent(
    server: ScriptedServer, *threads: Sequence[BaseMessage], strict: Any = "auto"
) -> tuple[ChatModel, list[list[Body]]]:
    """Ask for a reply to each of the threads; the bodies that went out for each."""
    settings = ModelSettings(base_url=server.base_url, name=server.model, strict_template=strict)
    model, bodies = ChatModel(settings), []
    async with model:
        for thread in threads:
            before = len(server.requests)
            await model.reply(thread, tools=[TOOL])
            bodies.append(server.requests[before:])
    return model, bodies


@pytest.mark.parametrize("shape", ["llama.cpp", "lmstudio", "200"])
async def test_a_template_of_two_roles(shape: str) -> None:
    """L19: refused once, then all goes as user and assistant in turns, and no more is refused."""
    with ScriptedServer(gemma(shape)) as server:
        model, (first, later, again) = await sent(server, FIRST, LATER, LATER)

    assert [roles(body) for body in first] == [["system", "user"], ["user"]]
    assert first[-1]["messages"][0]["content"] == "Be brief.\n\nhi"
    assert len(later) <= 2
    assert roles(later[-1]) == ["user", "assistant"] * 2 + ["user"]
    assert len(again) == 1
    assert again[-1]["messages"] == later[-1]["messages"]
    assert model.form == STRICTEST
    assert len(model.notices) == 1


async def test_calls_and_results_as_texts() -> None:
    """A template without the role `tool` reads both as texts, the call as models write one."""
    with ScriptedServer(ministral) as server:
        _, (later,) = await sent(server, LATER)

    said = later[-1]["messages"]
    call = '<tool_call>\n{"name": "look", "arguments": {"at": "the sky"}}\n</tool_call>'
    assert [(m["role"], m["content"]) for m in said[1:3]] == [
        ("assistant", call),
        ("user", "[Result of look]\nIt is blue."),
    ]
    assert later[-1]["tools"] == [TOOL]


async def test_a_template_keeps_what_it_knows() -> None:
    """Where system message and tools are known they stay; ids become short, calls still match."""
    history = [*LATER[:5], HumanMessage("stop"), HumanMessage("go on")]
    with ScriptedServer(devstral, strict=False) as server:
        model, (bodies,) = await sent(server, history)

    said = bodies[-1]["messages"]
    assert roles(bodies[-1]) == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert said[-1]["content"] == "stop\n\ngo on"
    assert said[3]["tool_call_id"] == said[2]["tool_calls"][0]["id"]
    assert model.form == Form(system=True, tools=True)


async def test_the_form_can_be_set() -> None:
    """`strict_template`: true sends the strictest form at once, false never another one."""
    with ScriptedServer(gemma("llama.cpp")) as server:
        model, (bodies,) = await sent(server, LATER, strict=True)
        assert len(bodies) == 1
        assert model.notices == []
        with pytest.raises(ModelError, match="System role not supported"):
            await sent(server, LATER, strict=False)
        assert len(server.requests) == 2


async def test_what_no_form_helps_is_said() -> None:
    """A template that refuses everything: three requests at most, then its own words."""
    with ScriptedServer(lambda body: refused("Value is not callable: null")) as server:
        settings = ModelSettings(base_url=server.base_url, name=server.model)
        async with ChatModel(settings) as model:
            with pytest.raises(ModelError, match=r"Value is not callable.*template"):
                await model.reply(LATER, tools=[TOOL])
            assert model.form == USUAL
            assert len(server.requests) == 3


@pytest.mark.parametrize(
    "reply",
    [
        Fail(500, {"error": {"message": "CUDA error: out of memory"}}),
        Fail(400, {"error": {"message": "temperature must be a number"}}),
        overflow_reply("llama.cpp", 9000, 4096),
        Fail(500, {"error": {"message": "tools param requires --jinja flag"}}),
    ],
)
async def test_other_errors_are_not_sent_again(reply: Reply) -> None:
    """Only what the template says is met by another form."""
    with ScriptedServer(lambda body: reply) as server:
        with pytest.raises((ModelError, ContextOverflow)):
            await sent(server, FIRST)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("words", "form"),
    [
        (ALTERNATE, Form(tools=True)),
        (DEVSTRAL, Form(system=True, tools=True)),
        (NO_SYSTEM, Form(tools=True)),
        (NO_TOOL, Form()),
        ("Only user and assistant roles are supported!", Form()),
        ("Unexpected message role.", Form()),
        ("System message must be at the beginning.", Form(system=True, tools=True)),
        ("Unsupported value: 'messages[0].role' does not support 'system' with this model.", None),
        ("Invalid 'messages' in payload", None),
        ("jinja2.exceptions.TemplateError: System role not supported", Form(tools=True)),
        ("messages.1.content: null content is not allowed", None),
        ("messages: text content blocks must be non-empty", Form()),
        ("messages.2: content must not be empty", Form()),
    ],
)
def test_the_words_say_what_is_refused(words: str, form: Form | None) -> None:
    """As much of the usual form stays as the words allow; None here: just another form."""
    found = stricter(USUAL, words)

    assert refuses(words)
    assert found is not None
    assert form is None or found == form


TEXTS = st.text(max_size=8)
CALLS = st.lists(st.sampled_from(["look", "go"]), min_size=1, max_size=2)
HISTORIES = st.lists(
    st.one_of(
        st.builds(lambda t: [{"role": "system", "content": t}], TEXTS),
        st.builds(lambda t: [{"role": "user", "content": t}], TEXTS),
        st.builds(lambda t: [{"role": "assistant", "content": t}], TEXTS),
        st.builds(
            lambda names, text: [
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [
                        {"id": f"c{n}", "function": {"name": name, "arguments": "{}"}}
                        for n, name in enumerate(names)
                    ],
                },
                *(
                    {"role": "tool", "tool_call_id": f"c{n}", "content": text}
                    for n in range(len(names))
                ),
                {"role": "assistant", "content": text},
            ],
            CALLS,
            TEXTS,
        ),
    ),
    max_size=6,
).map(lambda parts: [message for part in parts for message in part])


@given(HISTORIES, st.booleans(), st.booleans())
def test_roles_alternate_in_every_strict_form(
    history: list[Body], system: bool, tools: bool
) -> None:
    """Whatever the history: one system message at most, user and assistant in turns, no text lost,
    and the history itself as it was."""
    before = json.dumps(history)
    shown = Form(system=system, tools=tools).applied(history)
    assert json.dumps(history) == before
    assert "system" not in [m["role"] for m in shown[1:]]
    assert system or "system" not in [m["role"] for m in shown]
    assert tools or not any(m["role"] == "tool" or m.get("tool_calls") for m in shown)
    said = [m for m in shown if m["role"] != "system"]
    for first, second in pairwise(said):
        assert first["role"] != second["role"] or "tool" in (first["role"], second["role"])
    assert not said or said[0]["role"] == "user"
    whole = "".join(str(m["content"]) for m in shown)
    assert all(str(m["content"]).strip() in whole for m in history)
