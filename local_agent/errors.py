"""The one error tree: what went wrong, what to do next, and the exit code that follows.

    AgentError                 1   a command or a turn failed
    ├── UsageError             2   an option or argument that cannot be
    ├── ConfigError            2   the configuration file, the environment, trust
    ├── ServerError            1   an MCP server that cannot be used
    ├── ModelError             1   the model server, or what it answered
    │   ├── ModelUnreachable       nothing listens, or it went away
    │   ├── ModelNotLoaded         it listens, but has no model to answer with
    │   ├── ModelTimeout           it took longer than the set time
    │   │   └── TurnTimeout  124   that of --timeout, before the turn began
    │   ├── StreamBroken           the answer broke off; `partial` has what came
    │   └── ContextOverflow        the prompt is longer than the loaded context
    ├── StorageError           1   the database file
    ├── TransferError          1   a file that holds no thread, or cannot be written
    └── ThreadError            1   a thread that is open elsewhere or does not exist

Errors of libraries are translated where they come in (`raise ... from exc`) and printed once,
where the process ends. A tool that fails is not an error here: it is a message to the model.
"""

from __future__ import annotations

OK = 0
FAILED = 1
USAGE = 2
APPROVAL_WAITING = 3
STEP_LIMIT = 4
TIMEOUT = 124
INTERRUPTED = 130


class AgentError(Exception):
    """What happened, to what; `hint` says what to do next. Both are single lines."""

    exit_code = FAILED

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        if not self.hint:
            return self.message
        return f"{self.message}{'' if self.message.endswith(('.', '!', '?')) else '.'} {self.hint}"


class UsageError(AgentError):
    """An option or argument that cannot be."""

    exit_code = USAGE


class ConfigError(AgentError):
    """The configuration cannot be used as it stands."""

    exit_code = USAGE


class ServerError(AgentError):
    """An MCP server that cannot be used."""


class ModelError(AgentError):
    """The model server failed, or answered something that cannot be used."""


class ModelUnreachable(ModelError):
    """Nothing listens at the address, or the connection was lost before an answer."""


class ModelNotLoaded(ModelError):
    """The server listens, but has no model loaded that could answer."""


class ModelTimeout(ModelError):
    """No answer within the set time."""


class TurnTimeout(ModelTimeout):
    """The turn took longer than --timeout before the model was even there."""

    exit_code = TIMEOUT


class StreamBroken(ModelError):
    """The answer broke off before its end; `partial` is the text that had come."""

    def __init__(self, message: str, hint: str = "", *, partial: str = "") -> None:
        super().__init__(message, hint)
        self.partial = partial


class ContextOverflow(ModelError):
    """The prompt is longer than the loaded context. Numbers are tokens, None where not said."""

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        prompt_tokens: int | None = None,
        context_length: int | None = None,
    ) -> None:
        super().__init__(message, hint)
        self.prompt_tokens = prompt_tokens
        self.context_length = context_length


class StorageError(AgentError):
    """The database file cannot be used as it stands."""


class TransferError(AgentError):
    """A file that holds no thread, or that cannot be written."""


class ThreadError(AgentError):
    """The thread is open in another process, or there is none of that name."""
