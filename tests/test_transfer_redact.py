"""--redact: what has the shape of a secret is replaced everywhere, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base.id import uuid6

from local_agent.transfer.document import Course, Document, Step
from local_agent.transfer.json_form import to_json
from local_agent.transfer.redact import Redactor, redacted

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc=\n-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"


def clean(*texts: Any) -> list[Any]:
    redactor = Redactor()
    for text in texts:
        redactor.look(text)
    once = [redactor.clean(text) for text in texts]
    again = Redactor()
    for text in once:
        again.look(text)
    assert (again.found, [again.clean(text) for text in once]) == ({}, once)
    return once


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("key sk-proj-abcdefghijklmnop1234 end", "key [redacted openai-key 1] end"),
        ("sk-ant-" + "api03-abcDEF" * 2, "[redacted anthropic-key 1]"),
        ("ghp_" + "a1B2" * 9, "[redacted github-token 1]"),
        ("github_pat_" + "a1B2_" * 10, "[redacted github-token 1]"),
        ("glpat-" + "x1" * 10, "[redacted gitlab-token 1]"),
        ("AKIAIOSFODNN7EXAMPLE", "[redacted aws-key 1]"),
        ("AIza" + "Sy_-5" * 7, "[redacted google-key 1]"),
        ("xoxb-123456789012-abcdef", "[redacted slack-token 1]"),
        ("sk_live_" + "4eC39" * 5, "[redacted stripe-key 1]"),
        ("hf_" + "aBc12" * 7, "[redacted huggingface-token 1]"),
        ("npm_" + "a1B2" * 9, "[redacted npm-token 1]"),
        ("12345678:AA" + "x" * 33, "[redacted telegram-token 1]"),
        (PEM, "[redacted private-key 1]"),
        (json.dumps({"pem": PEM}), '{"pem": "[redacted private-key 1]"}'),
        (f"token {JWT}.", "token [redacted jwt 1]."),
        ("Authorization: Bearer abc.def-1234", "Authorization: Bearer [redacted bearer-token 1]"),
        ("Basic dXNlcjpwYXNzd29yZA==", "Basic [redacted basic-login 1]"),
        ("postgres://bob:hunter2@db/x", "postgres://bob:[redacted url-password 1]@db/x"),
        ("redis://:p4ss@host", "redis://:[redacted url-password 1]@host"),
        ("OPENAI_API_KEY=abc123", "OPENAI_API_KEY=[redacted secret 1]"),
        ("export DB_PASSWORD='a b c d'", "export DB_PASSWORD='[redacted secret 1]'"),
        ('{"api_key": "q1w2e3"}', '{"api_key": "[redacted secret 1]"}'),
        (r"{\"password\": \"p4ss w0rd\"}", r"{\"password\": \"[redacted secret 1]\"}"),
        ("client_secret: s3cr3t", "client_secret: [redacted secret 1]"),
        ("tool --token abcd1234 x", "tool --token [redacted secret 1] x"),
        ("my passphrase = correct-horse", "my passphrase = [redacted secret 1]"),
    ],
)
def test_each_known_shape(text: str, expected: str) -> None:
    """The secret goes and what stands around it stays; cleaned text has nothing more to clean."""
    assert clean(text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens: 8192, input_tokens=1234, token_count = 55555",
        "api_key = os.environ.get('X'), token = settings[0]",
        "token=${TOKEN} password: <your password> secret: ***",
        "a basic understanding of bearers and passwords",
        "password: none, token: true, secret: required",
        "https://example.com/a:b@c is no login, nor is mailto:bob@example.com",
        "risk-free task-management sk-short",
        "commit 3f4bb72dbf5c4ffc9c10b22f99ba1159, id 1f1ec91e-0157-61a8-bfff-4dedb09ed6a8",
        "The token ring was a network. The secret of it: rings.",
    ],
)
def test_what_is_no_secret(text: str) -> None:
    """Counts, names of variables, look-ups, prose, hashes and ids stay."""
    assert clean(text) == [text]


def test_a_secret_is_taken_out_wherever_it_stands() -> None:
    """Once known it goes everywhere, by the same placeholder; a plain word only in its place."""
    assert clean("db://u:hunter2x@h", "it is hunter2x!", "password: hello", "hello there") == [
        "db://u:[redacted url-password 1]@h",
        "it is [redacted url-password 1]!",
        "password: [redacted secret 1]",
        "hello there",
    ]


def test_arguments_by_their_names() -> None:
    """In arguments and results of JSON the key says what the value is, at any depth."""
    value = {"env": {"DB_PASSWORD": "a b", "USER": "bob"}, "headers": {"Cookie": "session"}}
    assert clean(value, {"password": "p4ss w0rd"}, {"x": "p4ss w0rd"}) == [
        {
            "env": {"DB_PASSWORD": "a b", "USER": "bob"},  # three characters hide nothing
            "headers": {"Cookie": "[redacted secret 1]"},
        },
        {"password": "[redacted secret 2]"},
        {"x": "[redacted secret 2]"},
    ]


def document(secret: str) -> Document:
    """A thread with the same secret in every place that has a text."""
    ids = [str(uuid6()) for _ in range(3)]
    call = {"name": "run", "args": {"env": [{"k": f"K={secret}"}]}, "id": "c", "type": "tool_call"}
    messages = (
        HumanMessage(f"use {secret}", id="1"),
        AIMessage(
            [{"type": "text", "text": secret}],
            id="2",
            tool_calls=[call],
            additional_kwargs={"error": secret},
            response_metadata={"x": [secret]},
        ),
        ToolMessage(f"ok {secret}", id="3", tool_call_id="c", artifact={"a": secret}),
    )
    start = Step(ids[0], None, is_start=True)
    state = {"summary": f"S {secret}", "facts": [secret], "cuts": {"1": 2}}
    step = Step(ids[1], ids[0], added=messages, state=state)
    left = Step(ids[2], ids[0], added=(HumanMessage(secret, id="4"),))
    now = datetime.now(UTC)
    branch = Course(ids[2], (left,), now, 1, 1, f"prompt {secret}", "rewind")
    return Document(f"name {secret}", f"T {secret}", now, (start, step), (branch,), parent=secret)


def test_no_part_of_a_document_is_left_out() -> None:
    """Titles, names, arguments, results, metadata, summary, branches: not one copy stays."""
    secret = "sk-proj-abcdefghijklmnop1234"
    whole = document(secret)
    text = json.dumps(to_json(whole)[0])
    assert text.count(secret) == 14
    part, count = redacted(whole)
    assert count == 1
    cleaned = json.dumps(to_json(part)[0])
    assert secret not in cleaned
    assert cleaned == text.replace(secret, "[redacted openai-key 1]")
    assert redacted(whole)[0] == part
    assert whole == replace(whole)  # the original is not changed
    assert text == json.dumps(to_json(whole)[0])


def test_secrets_of_the_configuration() -> None:
    """Values that are known to be secrets go whatever their shape."""
    part, count = redacted(document("plain words of mine"), ["plain words of mine", "x"])
    assert count == 1
    assert "plain words" not in json.dumps(to_json(part)[0])


@pytest.mark.parametrize(
    "text",
    [
        "a-b." * 200_000,
        "token-" * 150_000,
        "eyJ-" * 200_000,
        "--token-" * 100_000,
        "password " * 100_000,
        "x://" * 200_000,
        "-----BEGIN PRIVATE KEY-----" * 2_000,
        'token="' * 100_000,
    ],
)
def test_long_texts_of_beginnings(text: str) -> None:
    """A text made to have many beginnings of a secret costs no more than its length."""
    redactor = Redactor()
    redactor.look(text)
    redactor.clean(text)


@given(texts=st.lists(st.text(max_size=60), max_size=4))
def test_any_text(texts: list[str]) -> None:
    """Nothing fails, and cleaning again changes nothing."""
    redactor = Redactor()
    redactor.look(texts)
    once = redactor.clean(texts)
    assert redactor.clean(once) == once
