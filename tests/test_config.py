"""The configuration: where a value comes from, what a file may hold, what is said when it can't."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import pytest
from click.testing import CliRunner, Result
from hypothesis import assume, given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st

from local_agent.cli.config import config as config_command
from local_agent.config import (
    ContextSettings,
    Flags,
    Folders,
    ModelSettings,
    ServerSpec,
    Settings,
    load_settings,
    mask,
    normalize_base_url,
    resolve_command,
    secrets_of,
    show_url,
    shown,
    visible,
)
from local_agent.config.masking import PLAIN_WORDS
from local_agent.errors import USAGE, AgentError, ConfigError, UsageError

ROOT = Path(__file__).parent.parent
POSIX_ONLY = pytest.mark.skipif(sys.platform == "win32", reason="POSIX files")


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    """The user's folders, below this test's own."""
    return Folders(tmp_path / "config", tmp_path / "data", tmp_path / "log")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The working folder."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


class Loader:
    """Writes ./mcp_servers.toml and loads it."""

    def __init__(self, here: Path, folders: Folders) -> None:
        self.here, self.folders = here, folders
        self.file = here / "mcp_servers.toml"

    def __call__(
        self, text: str | bytes = "", env: dict[str, str] | None = None, **flags: object
    ) -> Settings:
        self.file.write_bytes(text.encode() if isinstance(text, str) else text)
        return load_settings(Flags(**flags), env or {}, self.here, self.folders)  # type: ignore[arg-type]

    def server(self, text: str, env: dict[str, str] | None = None) -> ServerSpec:
        """The one server of a file whose table [servers.x] is `text`."""
        return self(f"[servers.x]\n{text}", env).servers[0]

    def refused(self, text: str | bytes, env: dict[str, str] | None = None, **flags: object) -> str:
        """The error's text; it is one line, whatever the file holds."""
        with pytest.raises(AgentError) as caught:
            self(text, env, **flags)
        assert caught.value.exit_code == USAGE
        assert str(caught.value).isprintable()
        return str(caught.value).replace(str(self.file), "FILE")


@pytest.fixture
def load(here: Path, folders: Folders) -> Loader:
    """Loads a text as ./mcp_servers.toml."""
    return Loader(here, folders)


# --- sources -------------------------------------------------------------------------------------


def test_without_any_source_all_is_the_default(here: Path, folders: Folders) -> None:
    """No file, no variable, no flag: the contract's defaults, no server, the user's database."""
    settings = load_settings(Flags(), {}, here, folders)

    assert settings.model == ModelSettings()
    assert settings.context == ContextSettings()
    assert (settings.router.mode, settings.routes, settings.servers) == ("auto", (), ())
    assert (settings.config_path, settings.config_found) == (None, "none")
    assert settings.db == folders.data / "memory.db"
    assert settings.log_dir == folders.log
    assert (settings.thread, settings.max_steps, settings.timeout) == ("default", 12, None)
    assert settings.on_approval is None
    assert settings.ephemeral is False
    assert {origin.split(" ")[0] for origin in settings.origins.values()} == {"default"}


@pytest.mark.parametrize(
    ("key", "option", "variable", "in_file"),
    [
        ("model.base_url", "base_url", "AGENT_BASE_URL", True),
        ("model.name", "model", "AGENT_MODEL", True),
        ("model.api_key", None, "LM_API_TOKEN", True),
        ("thread", "thread", "AGENT_THREAD", False),
    ],
)
def test_flag_before_environment_before_file_before_default(
    load: Loader, key: str, option: str | None, variable: str, in_file: bool
) -> None:
    """Each source wins over the next one, and `origins` says which it was."""
    values = {name: f"http://{name}/v1" for name in ("flag", "env", "file")}
    text = f'[model]\n{key.removeprefix("model.")} = "{values["file"]}"' if in_file else ""
    env = {variable: values["env"]}

    def loaded(env: dict[str, str], **flags: object) -> tuple[object, str]:
        settings = load(text, env, **flags)
        owner = settings.model if "." in key else settings
        return getattr(owner, key.removeprefix("model.")), settings.origins[key]

    if option:
        assert loaded(env, **{option: values["flag"]}) == (
            values["flag"],
            "--" + option.replace("_", "-"),
        )
    assert loaded(env) == (values["env"], variable)
    if in_file:
        assert loaded({}) == (values["file"], str(load.file))
        assert loaded({variable: ""}) == (values["file"], str(load.file)), "empty is not set"
    text = ""
    assert loaded({})[1] == "default"


def test_an_overridden_text_of_the_file_need_not_be_filled_in(load: Loader) -> None:
    """A variable that only an overridden value needs may be missing."""
    text = '[model]\nbase_url = "${WHERE}"\napi_key = "${KEY}"'

    settings = load(text, {"LM_API_TOKEN": "tok"}, base_url="http://x:1/v1")

    assert (settings.model.base_url, settings.model.api_key) == ("http://x:1/v1", "tok")


def test_where_the_file_and_the_database_are(tmp_path: Path, here: Path, folders: Folders) -> None:
    """--config, AGENT_CONFIG, the working folder, the user's folder; the database beside it."""
    places = {"flag": tmp_path / "a", "environment": tmp_path / "b", "folder": here}
    for folder in (*places.values(), folders.config):
        folder.mkdir(exist_ok=True)
        (folder / "mcp_servers.toml").write_text("")
    flags = Flags(config="../a/mcp_servers.toml")
    env = {"AGENT_CONFIG": str(places["environment"] / "mcp_servers.toml")}

    def found(flags: Flags, env: dict[str, str]) -> tuple[str, Path | None, Path]:
        settings = load_settings(flags, env, here, folders)
        return settings.config_found, settings.config_path, settings.db

    for flags_, env_, name in ((flags, env, "flag"), (Flags(), env, "environment")):
        expected = places[name] / "mcp_servers.toml"
        assert found(flags_, env_) == (name, expected, places[name] / "memory.db")
    assert found(Flags(), {})[::2] == ("folder", here / "memory.db")
    (here / "mcp_servers.toml").unlink()
    users = folders.config / "mcp_servers.toml"
    assert found(Flags(), {}) == ("user", users, folders.data / "memory.db")
    assert found(Flags(config=str(users)), {}) == ("flag", users, folders.data / "memory.db")
    assert found(Flags(db="x/my.db"), {"AGENT_DB": "other.db"})[2] == here / "x" / "my.db"
    assert found(Flags(), {"AGENT_DB": "other.db"})[2] == here / "other.db"


def test_the_working_folder_may_be_the_users_own(folders: Folders) -> None:
    """Started inside the user's configuration folder, the file there is the user's own."""
    folders.config.mkdir()
    (folders.config / "mcp_servers.toml").write_text("")

    settings = load_settings(Flags(), {}, folders.config, folders)

    assert (settings.config_found, settings.db) == ("user", folders.data / "memory.db")


def test_history_is_forgotten_with_the_database(load: Loader, here: Path) -> None:
    """The prompt history lies in the folder that is deleted with the database."""
    assert load().history_file.parent == here / "memory.db.files"


def test_weights_are_found_from_where_they_are_named(load: Loader, here: Path) -> None:
    """embedded: in the file is relative to it, `embedded:PATH` of an option to the folder."""
    settings = load('[model]\nembedded = "w/a.gguf"', model="embedded")
    assert settings.model.name == "embedded"
    assert settings.model.embedded == str(here / "w" / "a.gguf")

    settings = load('[model]\nembedded = "w/a.gguf"', model="embedded:b.gguf")
    assert (settings.model.name, settings.model.embedded) == ("embedded", str(here / "b.gguf"))
    assert settings.origins["model.embedded"] == "--model"

    (here / "sub").mkdir()
    (here / "sub" / "c.toml").write_text('[model]\nname = "embedded:c.gguf"')
    flags = Flags(config="sub/c.toml")
    assert load_settings(flags, {}, here, load.folders).model.embedded == str(
        here / "sub" / "c.gguf"
    )
    in_env = load_settings(flags, {"AGENT_MODEL": "embedded:d.gguf"}, here, load.folders)
    assert in_env.model.embedded == str(here / "d.gguf")


# --- options -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"thread": ""}, "no character"),
        ({"thread": "x" * 201}, "201 characters"),
        ({"thread": "a\nb"}, "control characters"),
        ({"thread": "a\x9bb"}, "control characters"),
        ({"thread": "a\udcffb"}, "control characters"),
        ({"db": "postgres://u:TESTSECRET@h/db"}, "not in this version yet"),
        ({"db": ""}, "path of a file"),
        ({"db": ":memory:"}, "--ephemeral"),
        ({"config": ""}, "--config is empty"),
        ({"max_steps": 0}, "at least 1"),
        ({"timeout": 0.0}, "above 0"),
        ({"timeout": float("nan")}, "above 0"),
        ({"timeout": float("inf")}, "above 0"),
        ({"on_approval": "maybe"}, "ask, park, deny or allow"),
        ({"base_url": "ftp://x"}, "http://"),
        ({"model": "embedded:"}, "names no file"),
        ({"model": "a\x1b[2J"}, "control characters"),
        ({"route": "a\n"}, "control characters"),
    ],
)
def test_an_option_that_cannot_be_is_a_usage_error(
    load: Loader, flags: dict[str, Any], said: str
) -> None:
    """One line that names the option; exit code 2."""
    with pytest.raises(UsageError) as caught:
        load("", **flags)

    text = str(caught.value)
    assert said in text
    assert "--" + next(iter(flags)).replace("_", "-") in text
    assert text.isprintable()
    assert "TESTSECRET" not in text


@pytest.mark.parametrize("name", ["x", "x" * 200, "Grüße 你好 🙂", "a/b c", "; rm -rf /", "None"])
def test_any_printable_text_is_a_thread_name(load: Loader, name: str) -> None:
    """1 to 200 characters without control characters are taken as they are."""
    assert load("", thread=name).thread == name
    assert load("", {"AGENT_THREAD": name}).thread == name


def test_options_without_variables(load: Loader) -> None:
    """Steps, time limit, approval, route and ephemeral come from the command line alone."""
    settings = load("", max_steps=3, timeout=2.5, on_approval="deny", route="git", ephemeral=True)

    assert (settings.max_steps, settings.timeout, settings.on_approval) == (3, 2.5, "deny")
    assert (settings.route, settings.ephemeral) == ("git", True)
    assert settings.origins["on_approval"] == "--on-approval"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://127.0.0.1:1234/v1", "http://127.0.0.1:1234/v1"),
        ("http://127.0.0.1:1234/v1/", "http://127.0.0.1:1234/v1"),
        ("http://127.0.0.1:1234", "http://127.0.0.1:1234/v1"),
        ("http://127.0.0.1:1234/", "http://127.0.0.1:1234/v1"),
        (" http://h:1/v1\n", "http://h:1/v1"),
        ("HTTP://h:1", "http://h:1/v1"),
        ("127.0.0.1:1234", "http://127.0.0.1:1234/v1"),
        ("localhost:8080/v1", "http://localhost:8080/v1"),
        ("192.168.1.5:1234", "http://192.168.1.5:1234/v1"),
        ("[::1]:1234", "http://[::1]:1234/v1"),
        ("http://h:1/v1/chat/completions", "http://h:1/v1"),
        ("http://h:1/v1/models", "http://h:1/v1"),
        ("https://host/openai/v3/", "https://host/openai/v3"),
        ("https://u:p@host/v1", "https://u:p@host/v1"),
    ],
)
def test_base_url_is_brought_into_form(given: str, expected: str) -> None:
    """What is meant beyond doubt is put right, and stays so when put right again."""
    assert normalize_base_url(given) == (expected, "")
    assert normalize_base_url(expected) == (expected, "")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "empty"),
        ("api.example.org/v1", "does not begin with http"),  # http there would be in the open
        ("8.8.8.8:1234", "does not begin with http"),
        ("http//127.0.0.1:1234", "does not begin with http"),
        ("file:///etc/passwd", "does not begin with http"),
        ("http://", "names no host"),
        ("http://h:port/v1", "cannot be read"),
        ("http://h:99999/v1", "cannot be read"),
        ("http://h:0/v1", "port 0"),
        ("http://[::1/v1", "cannot be read"),
        ("http://h h/v1", "white space"),
        ("http://h\x1b/v1", "white space or control"),
        ("http://h/v1?key=1", "? or #"),
        ("http://h/v1#x", "? or #"),
    ],
)
def test_base_url_that_cannot_be(load: Loader, given: str, said: str) -> None:
    """What could mean something else is said, with the source and without the address."""
    url, wrong = normalize_base_url(given)

    assert url == ""
    assert said in wrong
    if given:
        assert "AGENT_BASE_URL" in load.refused("", {"AGENT_BASE_URL": given})


# --- the file ------------------------------------------------------------------------------------

FULL = """
[model]
base_url = "http://10.0.0.1:1/v1"
name = "qwen"
temperature = 1
context_length = 4096
api_key = "k"
[context]
strategy = "compact"
step = "turn"
keep_turns = 3
keep_chars = 10
max_tokens = 4096
reply_reserve = 512
[router]
mode = "off"
[repair]
calls = "native"
constrained = false
[routes.repo]
description = "a repository"
tools = ["git_*"]
[routes.bare]
[servers.one]
command = "prog"
args = ["-x"]
env = { A = "b" }
cwd = "sub"
enabled_tools = ["a*"]
disabled_tools = ["ab"]
read = ["a"]
write = ["b"]
startup_timeout_sec = 1
tool_timeout_sec = 2.5
enabled = false
[servers.two]
url = "http://h/mcp"
headers = { X-Key = "v" }
[servers.three]
url = "http://h/sse"
transport = "sse"
"""


def test_every_key_of_the_file_is_read(load: Loader, here: Path) -> None:
    """All keys of the contract land in the settings."""
    settings = load(FULL)

    assert settings.model == ModelSettings(
        "http://10.0.0.1:1/v1", "qwen", 1.0, 4096, "k", secrets=("k",)
    )
    assert settings.context == ContextSettings(
        strategy="compact",
        step="turn",
        keep_turns=3,
        keep_chars=10,
        max_tokens=4096,
        reply_reserve=512,
    )
    assert settings.router.mode == "off"
    assert (settings.repair.calls, settings.repair.constrained) == ("native", False)
    repo, bare = settings.routes
    assert (repo.name, repo.description, repo.tools) == ("repo", "a repository", ("git_*",))
    assert (bare.name, bare.description, bare.tools) == ("bare", "", ())
    one, two, three = settings.servers
    assert one == ServerSpec(
        name="one",
        command="prog",
        args=("-x",),
        env={"A": "b"},
        cwd=str(here / "sub"),
        enabled_tools=("a*",),
        disabled_tools=("ab",),
        read=("a",),
        write=("b",),
        startup_timeout_sec=1,
        tool_timeout_sec=2.5,
        enabled=False,
        secrets=("b",),
    )
    assert two == ServerSpec(
        "two", url="http://h/mcp", transport="http", headers={"X-Key": "v"}, secrets=("v",)
    )
    assert three.transport == "sse"
    assert settings.origins["servers.one.cwd"] == str(load.file)
    assert settings.origins["servers.two.enabled"] == "default"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[modle]", 'Unknown key "modle" in FILE. Did you mean "model"?'),
        ("[mcpServers.x]", 'Did you mean "servers"?'),
        ("[model]\nbaseurl = 1", 'Unknown key "baseurl" in [model] of FILE. Did you mean'),
        ("[context]\nkeep_turn = 1", 'Did you mean "keep_turns"?'),
        (
            "[router]\nqqq = 1",
            'Unknown key "qqq" in [router] of FILE. Known: mode, max_tools, shorten.',
        ),
        ("[routes.a]\ntool = []", '"tool" in [routes.a] of FILE. Did you mean "tools"?'),
        (
            '[servers.git]\ncomand = "x"',
            'Unknown key "comand" in [servers.git] of FILE. Did you mean "command"?',
        ),
        ('[servers.x]\ncommand="a"\n"\\u001b[2J" = 1', '"\\u001b[2J" in [servers.x]'),
        ("[servers.'a b']\ncommand='x'", 'The name "a b" in [servers]'),
        ("[servers.'']\ncommand='x'", 'The name "" in [servers]'),
        (f"[servers.{'a' * 65}]\ncommand='x'", "1 to 64"),
        ("[routes.'a/b']", 'The name "a/b" in [routes]'),
        ("model = 1", "model in FILE must be a table, written [model], not a whole number."),
        ("[servers]\ngit = 1", "servers.git in FILE must be a table, written [servers.git]"),
        ("[[servers]]", "servers in FILE must be a table, written [servers], not a list"),
    ],
)
def test_unknown_names_are_named_with_the_nearest_known(load: Loader, text: str, said: str) -> None:
    """A key nobody knows is an error at every level, never passed over."""
    assert said in load.refused(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[model]\nname = 3", "model.name in FILE must be a string without control"),
        ("[model]\napi_key = 987654321", "model.api_key in FILE must be a string, not a whole"),
        ('[model]\ntemperature = "hot"', 'must be a number from 0 to 2, not "hot".'),
        ("[model]\ntemperature = true", "from 0 to 2, not true or false."),
        ("[model]\ntemperature = nan", "from 0 to 2, not nan."),
        ("[model]\ncontext_length = 0", "at least 256, not 0."),
        ("[model]\ncontext_length = 4096.0", "a whole number of at least 256, not 4096.0."),
        ("[context]\nkeep_turns = -1", "context.keep_turns in FILE must be a whole number of"),
        ("[context]\nkeep_turns = true", "at least 0, not true or false."),
        ('[context]\nstep = "fast"', 'must be "cache" or "turn", not "fast".'),
        ("[context]\nstrategy = []", 'or "all", not a list.'),
        ("[context]\nmax_tokens=512\nreply_reserve=512", "less than max_tokens (512)"),
        ('[repair]\ncalls = "some"', '"all", "native" or "exact", not "some".'),
        ("[repair]\nconstrained = 1", "repair.constrained in FILE must be true or false"),
        ('[router]\nmode = "on"', '"auto", "words", "model" or "off", not "on".'),
        ('[routes.a]\ntools = "git_*"', "routes.a.tools in FILE must be a list of strings"),
        ("[routes.a]\ntools = ['x', 1]", "not a list with a whole number in it."),
        ("[servers.x]\ncommand=['a']", "servers.x.command in FILE must be a string, not a list."),
        ("[servers.x]\ncommand='a'\nenv={PORT=8080}", "where PORT is a whole number."),
        ("[servers.x]\ncommand='a'\nenabled=1", "must be true or false, not a whole number."),
        ("[servers.x]\ncommand='a'\ntool_timeout_sec=0", "above 0 and at most 86400, not 0."),
        ("[servers.x]\ncommand='a'\nargs=2020-01-01", "not a date or time."),
    ],
)
def test_a_wrong_type_names_key_expected_and_got(load: Loader, text: str, said: str) -> None:
    """One line with the key, what it takes and what it found; no value that may be a secret."""
    refused = load.refused(text)

    assert said in refused
    assert "987654321" not in refused


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[servers.x]\nargs=[]", "[servers.x] in FILE has neither command nor url."),
        ("[servers.x]\ncommand='a'\nurl='http://h'", "has both command and url."),
        ("[servers.x]\ncommand=' '", "has an empty command."),
        ("[servers.x]\nurl=''", "has an empty url."),
        ("[servers.x]\ncommand='a'\nheaders={A='b'}", "has headers, which does not go with"),
        ("[servers.x]\nurl='http://h'\nenv={A='b'}", "has env, which does not go with url."),
        ("[servers.x]\ncommand='a'\ntransport='sse'", 'transport = "sse" with command'),
        ("[servers.x]\nurl='http://h'\ntransport='stdio'", "With url it is http or sse."),
        ("[servers.x]\nurl='http://h'\nheaders={'A B'='c'}", 'header name that cannot be: "A B"'),
        ("[servers.x]\ncommand='a'\nenv={'A=B'='c'}", 'variable name that cannot be: "A=B"'),
    ],
)
def test_a_server_is_one_command_or_one_url(load: Loader, text: str, said: str) -> None:
    """A table that fits neither kind of server is an error that names it."""
    assert said in load.refused(text)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[[approval]]\ntool='git/*'", "[approval]"),
    ],
)
def test_words_of_later_versions_are_not_believed_to_work(
    load: Loader, text: str, what: str
) -> None:
    """A reserved word is known, and refused with a kind line."""
    assert f"{what} in FILE is not in this version yet." in load.refused(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "high_water = 1.5",
            "context.high_water in FILE must be a number from 0.3 to 1.0, not",
        ),
        ("low_water = 0", "context.low_water in FILE must be a number from 0.05 to 0.9, not 0"),
        ("result_share = true", "context.result_share in FILE must be a number from 0.05 to"),
        ("last_messages = 0", "context.last_messages in FILE must be a whole number of at least 1"),
        ("trim_tokens = 9000", "context.trim_tokens in FILE must be at most max_tokens (8192)."),
        ("summary = 1", "context.summary in FILE must be true or false"),
        ("summary_tokens = 5", "context.summary_tokens in FILE must be a whole number of at least"),
        (
            "high_water = 0.5\nlow_water = 0.5",
            "context.low_water in FILE must be less than high_water (0.5).",
        ),
        ('strategy = "summary"', 'context.strategy in FILE must be "compact", "trim", "last" or'),
    ],
)
def test_the_numbers_of_the_context_are_checked(load: Loader, text: str, said: str) -> None:
    """A share, a length or a choice that cannot be is an error that says what can."""
    assert said in load.refused(f"[context]\n{text}")


def test_every_key_of_the_context_is_read(load: Loader) -> None:
    """What stands in the file is what the program goes by."""
    settings = load(
        '[context]\nstrategy = "last"\nhigh_water = 0.8\nlow_water = 0.3\nresult_share = 0.2\n'
        "last_messages = 8\ntrim_tokens = 1000\nsummary = false\nsummary_tokens = 200"
    )

    assert settings.context == ContextSettings(
        strategy="last",
        high_water=0.8,
        low_water=0.3,
        result_share=0.2,
        last_messages=8,
        trim_tokens=1000,
        summary=False,
        summary_tokens=200,
    )


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[model]\nname = ", "FILE line 2 is not valid TOML: Invalid value."),
        (b"[model]\nname = x\n", "FILE line 2 is not valid TOML"),
        (b'[model]\napi_key = "TESTSECRET\n', "FILE line 2 is not valid TOML"),
        (b"[model]\n[model]\n", "FILE line 2 is not valid TOML: Cannot declare ('model',) twice."),
        (b'a = 1\nb = "\xff"', "FILE line 2 is not UTF-8."),
        ("a = 1".encode("utf-16"), "FILE line 1 is not UTF-8."),
        (b"a = " + b"[" * 20_000, "FILE"),
        (b"a = " + b"9" * 20_000, "FILE"),
        (b"#" * 1_000_001, "larger than 1 MB"),
    ],
)
def test_a_file_that_is_no_toml(load: Loader, data: bytes, said: str) -> None:
    """One line with the file and the line, and nothing of the file's values."""
    refused = load.refused(data)

    assert said in refused
    assert "TESTSECRET" not in refused


def test_a_byte_order_mark_and_windows_line_ends_are_read(load: Loader) -> None:
    """What an editor on Windows saves is read like any other file."""
    settings = load(b'\xef\xbb\xbf[model]\r\nname = "m"\r\n')

    assert settings.model.name == "m"


def test_a_folder_or_a_missing_file_is_said(load: Loader, here: Path, folders: Folders) -> None:
    """A folder of that name, a named file that is not there: one line each."""
    (here / "sub").mkdir()
    for name, said in (("sub", "is a folder"), ("none.toml", "There is no configuration file")):
        for flags, env in ((Flags(config=name), {}), (Flags(), {"AGENT_CONFIG": name})):
            with pytest.raises(ConfigError, match=said):
                load_settings(flags, env, here, folders)
    (here / "mcp_servers.toml").mkdir()
    with pytest.raises(ConfigError, match="is a folder"):
        load_settings(Flags(), {}, here, folders)


@POSIX_ONLY
def test_a_dead_link_an_unreadable_file_and_a_pipe_are_said(here: Path, folders: Folders) -> None:
    """None of them counts as "no file", and a pipe that was only found is never waited for."""
    file = here / "mcp_servers.toml"
    file.symlink_to("nowhere")
    with pytest.raises(ConfigError, match="There is no configuration file"):
        load_settings(Flags(), {}, here, folders)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(ConfigError, match="not a plain file"):
        load_settings(Flags(), {}, here, folders)
    file.unlink()
    if os.geteuid() != 0:
        file.touch(mode=0)
        with pytest.raises(ConfigError, match="permission denied"):
            load_settings(Flags(), {}, here, folders)


# --- variables -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("${V}", "value"),
        ("a${V}b${V}", "avaluebvalue"),
        ("${V:-d}", "value"),
        ("${NONE:-d}", "d"),
        ("${NONE:-}", ""),
        ("${EMPTY}", ""),
        ("${EMPTY:-d}", "d"),
        ("$${V}", "${V}"),
        ("$V $ {V} 5$", "$V $ {V} 5$"),
        ("${V:-${V}}", None),
    ],
)
def test_variables_are_filled_in(load: Loader, template: str, expected: str | None) -> None:
    """${VAR} and ${VAR:-default}; $${ is a literal ${; what was filled in is not filled again."""
    env = {"V": "value", "EMPTY": "", "LOOP": "${V}"}

    spec = load.server(f"command='c'\nargs=['{template}']", env)

    if expected is None:
        assert "neither ${NAME} nor" in spec.problem
    else:
        assert (spec.args, spec.problem) == ((expected,), "")
    assert load.server("command='c'\nargs=['${LOOP}']", env).args == ("${V}",)


def test_variables_are_filled_in_everywhere(load: Loader, here: Path) -> None:
    """command, args, env, cwd, url and headers (M15)."""
    env = {"V": "value"}
    text = "command='${V}'\nargs=['${V}']\nenv={API_KEY='${V}'}\ncwd='${V}'"

    spec = load.server(text, env)

    assert (spec.command, spec.args, spec.env) == ("value", ("value",), {"API_KEY": "value"})
    assert spec.cwd == str(here / "value")
    spec = load.server("url='http://${V}/mcp'\nheaders={A='Bearer ${V}'}", env)
    assert (spec.url, spec.headers) == ("http://value/mcp", {"A": "Bearer value"})
    settings = load('[model]\napi_key="${V}"\nbase_url="http://${V}"', env)
    assert (settings.model.api_key, settings.model.base_url) == ("value", "http://value/v1")


@pytest.mark.parametrize(
    ("text", "env", "said"),
    [
        ("command='c'\nenv={A='${MY_KEY}'}", {}, "the variable MY_KEY is not set"),
        ("command='${A}'\nargs=['${B}','${A}']", {}, "the variables A, B are not set"),
        ("command='c'\nargs=['${A-b}']", {}, "a ${...} that is neither"),
        ("command='c'\nargs=['${A']", {}, "a ${...} that is neither"),
        ("command='${A}'", {"A": " "}, "its command is empty"),
        ("url='${A}'", {"A": "TESTSECRET"}, "its url does not begin with http"),
        ("url='http://${A}/'", {"A": ""}, "its url names no host"),
        ("url='http://h'\nheaders={A='${A}'}", {"A": "TESTSECRET\r\nX: y"}, "the header A has"),
        ("url='http://h'\nheaders={A='ü'}", {}, "not ASCII"),
        ("command='c'\nargs=[\"a\\u0000\"]", {}, "a NUL character"),
    ],
)
def test_one_bad_server_leaves_the_others(
    load: Loader, text: str, env: dict[str, str], said: str
) -> None:
    """What depends on a variable is that server's problem, named without its value (M15, D15)."""
    settings = load(f"[servers.x]\n{text}\n[servers.good]\ncommand='c'", env)

    bad, good = settings.servers
    assert said in bad.problem
    assert "TESTSECRET" not in bad.problem
    assert bad.problem.isprintable()
    assert good.problem == ""


def test_a_missing_variable_of_the_model_is_an_error(load: Loader) -> None:
    """Nothing runs without the model, so here it is an error that names key, file, variable."""
    said = load.refused('[model]\napi_key = "${MY_KEY}"')

    assert said == "model.api_key in FILE: the variable MY_KEY is not set."


# --- secrets (D15) -------------------------------------------------------------------------------

SECRET_FILE = """
[model]
api_key = "${KEY6}"
base_url = "http://user:TESTSECRET7@127.0.0.1:1/v1"
[servers.web]
url = "http://u:TESTSECRET4@host/?key=TESTSECRET5&b=TEST%20SECRET8"
headers = { Authorization = "Bearer TESTSECRET1", X-Short = "abc" }
[servers.local]
command = "prog"
args = ["--token", "TESTSECRET3", "--api-key=TESTSECRET9", "pg://u:TESTSECRET10@h/db", "--pin-key",
        "xyz", "-e", "DB_PASSWORD=TESTSECRET11", "-H", "Cookie: TESTSECRET12", "--verbose", "${V}"]
env = { API_KEY = "TESTSECRET2", MODE = "TESTSECRET14" }
"""


def test_nothing_secret_is_shown(load: Loader) -> None:
    """D15: of all places a secret can stand in, `config show` shows none."""
    settings = load(SECRET_FILE, {"KEY6": "TESTSECRET6", "V": "TESTSECRET13"})

    rows = list(shown(settings))
    text = json.dumps([[row.key, row.value] for row in rows]) + "\n".join(settings.outline)

    assert "TESTSECRET" not in text.replace("TEST%20SECRET", "TESTSECRET")
    assert "SECRET" not in repr(settings), "a log line may hold the settings"
    values = {row.key: row.value for row in rows}
    assert values["model.api_key"] == "***"
    assert values["model.base_url"] == "http://***@127.0.0.1:1/v1"
    assert values["servers.web.url"] == "http://***@host/?key=***&b=***"
    assert values["servers.web.headers"] == {"Authorization": "***", "X-Short": "***"}
    assert values["servers.local.env"] == {"API_KEY": "***", "MODE": "***"}
    args = values["servers.local.args"]
    assert args[:3] == ["--token", "***", "--api-key=***"]
    assert args[5] == "***", "a short one is hidden where it stands by itself"
    assert args[-2:] == ["--verbose", "***"]


@pytest.mark.parametrize("number", range(1, 15))
def test_every_secret_is_masked_in_running_text(load: Loader, number: int) -> None:
    """D15: `secrets_of` holds each of them, so that `mask` finds it in an error of a library."""
    settings = load(SECRET_FILE, {"KEY6": "TESTSECRET6", "V": "TESTSECRET13"})
    secret = "TEST SECRET8" if number == 8 else f"TESTSECRET{number}"

    assert mask(f"GET <{secret}> failed", secrets_of(settings)) == "GET <***> failed"


def test_basic_login_of_an_address_is_masked(load: Loader) -> None:
    """D15: user and password of a url also as the header that HTTP makes of them."""
    spec = load.server("url='http://joe:pass%20word@h/mcp'")
    coded = base64.b64encode(b"joe:pass word").decode()

    assert mask(f"Authorization: Basic {coded}", spec.secrets) == "Authorization: Basic ***"
    assert mask("joe said hi", spec.secrets) == "joe said hi"
    assert load.server("url='http://TESTSECRET@h/mcp'").secrets == ("TESTSECRET",)


def test_where_the_home_folder_is_is_no_secret(load: Loader) -> None:
    """${HOME} in an argument must not turn every path on the screen into ***."""
    env = {"HOME": "/home/someone"}

    spec = load.server("command='c'\nargs=['${HOME}/notes']\nenv={HOME='${HOME}'}", env)

    assert spec.args == ("/home/someone/notes",)
    assert spec.secrets == ()


@settings_of_hypothesis(max_examples=60, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=4, max_size=30), st.text())
def test_mask_finds_a_secret_in_each_of_its_forms(secret: str, around: str) -> None:
    """Plain, url-encoded with hex digits in either case, in JSON, in base64: none is left."""
    assume(secret.casefold() not in PLAIN_WORDS)  # left alone on purpose: see the next test
    encoded = quote(secret, safe="")
    forms = [secret, encoded, re.sub("%..", lambda hexed: hexed[0].lower(), encoded)]
    forms += [json.dumps(secret)[1:-1], base64.b64encode(secret.encode()).decode()]

    for form in forms:
        masked = mask(f"{around}<{form}>", (secret,))

        assert f"<{form}>" not in masked
        assert "***" in masked


def test_a_key_in_the_path_of_the_models_address_is_masked(load: Loader) -> None:
    """Filled-in variables of [model] are secrets, but not the host, which errors must name."""
    text = '[model]\nbase_url = "http://${HOSTNAME}:1/${KEY}/v1"'

    model = load(text, {"HOSTNAME": "machine", "KEY": "TESTSECRET"}).model

    assert model.secrets == ("TESTSECRET",)


@pytest.mark.parametrize(
    ("text", "secrets", "expected"),
    [
        ("abcdef abc", ("abc", ""), "abcdef abc"),
        ("abcdefgh abcd", ("abcd", "abcdefgh"), "*** ***"),
        ("is true", ("true",), "is true"),
        ("a.b.c.d axbxcxd", ("a.b.c.d",), "*** axbxcxd"),
        ("x", (), "x"),
    ],
)
def test_mask_is_careful(text: str, secrets: tuple[str, ...], expected: str) -> None:
    """The longest goes first; short values and plain words stay; nothing is read as a pattern."""
    assert mask(text, secrets) == expected


def test_visible_writes_out_what_nobody_sees() -> None:
    """Escape sequences, line ends and changes of direction; letters of any script stay."""
    assert visible("a\x1b[31m\n\u202eb\u200b\u00a0") == "a\\u001b[31m\\n\\u202eb\\u200b\\u00a0"
    assert visible("Grüße 你好 → 🙂") == "Grüße 你好 → 🙂"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h/mcp", "http://h/mcp"),
        ("http://u@h:1/p?a=b&c", "http://***@h:1/p?a=***&***"),
        ("http://[bad", "***"),
    ],
)
def test_show_url(url: str, expected: str) -> None:
    """An address keeps what finds it, and loses what opens it."""
    assert show_url(url) == expected


# --- commands ------------------------------------------------------------------------------------


def program(folder: Path, name: str) -> Path:
    """An executable file."""
    folder.mkdir(exist_ok=True)
    file = folder / (f"{name}.exe" if sys.platform == "win32" else name)
    file.write_text("")
    file.chmod(0o755)
    return file


def test_a_program_beside_python_comes_first(tmp_path: Path) -> None:
    """Installed together with the agent it is found when PATH does not lead there."""
    other = program(tmp_path / "bin", "mcp-server-time")

    found = Path(resolve_command("mcp-server-time", ""))

    if found.name == "mcp-server-time" and not found.is_absolute():
        pytest.skip("the sample servers are not installed here")
    assert found.parent == Path(sys.executable).parent
    assert Path(resolve_command("mcp-server-time", str(other.parent))) == found


def test_a_program_on_the_path_and_one_that_is_nowhere(tmp_path: Path) -> None:
    """PATH is searched in order (M15); an unknown command comes back as it is (M06)."""
    first, second = program(tmp_path / "a", "tool-x"), program(tmp_path / "b", "tool-x")
    path = os.pathsep.join(str(file.parent) for file in (first, second))

    assert resolve_command("tool-x", path) == str(first)
    assert resolve_command("tool-y", path) == "tool-y"
    assert resolve_command(str(second), path) == str(second)
    assert resolve_command("", path) == ""


def test_python_means_the_users_own(tmp_path: Path) -> None:
    """`python` is looked for on PATH before the agent's own environment."""
    own = program(tmp_path / "bin", "python")

    assert resolve_command("python", str(own.parent)) == str(own)
    assert Path(resolve_command("python", "")).is_file()


def test_the_working_folder_is_never_searched(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cloned folder cannot bring a program of a trusted name, nor one that is a folder."""
    program(here, "tool-x")
    program(here / "relative", "tool-x")
    (here / "bin" / "tool-z").mkdir(parents=True)
    monkeypatch.chdir(here)

    assert resolve_command("tool-x", os.pathsep.join(["", "."])) == "tool-x"
    assert resolve_command("tool-x", "relative") == "tool-x"
    assert resolve_command("tool-z", str(here / "bin")) == "tool-z"


# --- the sample and the command line -------------------------------------------------------------


def test_the_sample_is_the_contracts_default(here: Path, folders: Folders) -> None:
    """The shipped file sets nothing but defaults, and names the two sample servers."""
    flags = Flags(config=str(ROOT / "mcp_servers.toml"))

    settings = load_settings(flags, {}, here, folders)

    assert settings.model == ModelSettings()
    assert settings.context == ContextSettings()
    assert settings.router.mode == "auto"
    assert [route.name for route in settings.routes] == ["git", "time"]
    time, git = settings.servers
    assert time == ServerSpec("time", command="mcp-server-time")
    assert git == ServerSpec("git", command="mcp-server-git", args=("--repository", "."))


def test_every_commented_key_of_the_sample_is_a_true_one(load: Loader) -> None:
    """The comments of the sample work when their sign is taken off, and show the defaults."""
    lines = (ROOT / "mcp_servers.toml").read_text(encoding="utf-8").splitlines()
    keys = [line[2:] if line.startswith(("# [", "# url", "# headers")) else line for line in lines]
    for at, line in enumerate(keys):
        if line.startswith("# ") and " = " in line and at > 3:
            keys[at] = line[2:]

    settings = load(
        "\n".join(keys), {"TOKEN": "x", "LM_API_TOKEN": "y", "AGENT_KEY": "long enough"}
    )

    assert [server.name for server in settings.servers] == ["time", "git", "example"]
    git = settings.servers[1]
    assert (git.startup_timeout_sec, git.tool_timeout_sec, git.enabled) == (10, 60, True)
    assert git.read == ("git_branch",)


@pytest.fixture
def run(here: Path, monkeypatch: pytest.MonkeyPatch, own_folders: Path) -> Callable[..., Result]:
    """Runs `agent config ...` in the working folder."""
    monkeypatch.chdir(here)
    root = click.Group()
    root.add_command(config_command)
    return lambda *args: CliRunner().invoke(root, ["config", *args])


def test_config_show_as_text_and_json(run: Callable[..., Result], load: Loader) -> None:
    """Every value with its origin; --json is one object with the same."""
    load('[model]\nname = "m"\napi_key = "TESTSECRET"\n[servers.x]\ncommand = "c"')

    text, data = run("show").output, json.loads(run("show", "--json").output)

    line = next(line for line in text.splitlines() if line.startswith("model.name"))
    assert line.split() == ["model.name", "=", '"m"', "#", str(load.file)]
    assert "NOT TRUSTED YET" in text.splitlines()[0]
    assert data["schema_version"] == 1
    assert data["config"] == {
        "path": str(load.file),
        "origin": "the working folder",
        "trusted": False,
    }
    assert data["values"]["model.name"] == {"value": "m", "origin": str(load.file)}
    assert data["values"]["servers.x.enabled"] == {"value": True, "origin": "default"}
    assert "TESTSECRET" not in text + json.dumps(data)
    assert len(text.splitlines()) == 1 + len(data["values"])


def test_config_path_also_with_a_broken_file(run: Callable[..., Result], load: Loader) -> None:
    """The four places, one a line; the file's content does not matter."""
    load.file.write_text("= broken")
    here = load.here

    lines = [line.split(maxsplit=1) for line in run("path", "--db", "x.db").output.splitlines()]

    assert [name for name, _ in lines] == ["config", "db", "logs", "history"]
    assert lines[0][1] == f"{load.file} (the working folder)"
    assert lines[1][1] == str(here / "x.db")
    assert lines[3][1] == str(here / "x.db.files" / "prompt_history")
    load.file.unlink()
    assert run("path").output.startswith("config   none (neither ")


def test_importing_the_configuration_loads_no_large_library() -> None:
    """`agent config` and the prompt come up without LangChain, openai and mcp."""
    code = (
        "import sys, local_agent.config, local_agent.trust, local_agent.cli.config\n"
        "big = ('langchain', 'langgraph', 'openai', 'mcp', 'pydantic', 'httpx')\n"
        "print([n for n in sys.modules if n.startswith(big)])"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"
