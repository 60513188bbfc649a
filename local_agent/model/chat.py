"""The chat model: one request, one whole answer or one error of ours; streams on the way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, cast

import httpx2
import openai
from langchain_core.messages import AIMessage, BaseMessage

from local_agent.config import ModelSettings
from local_agent.errors import AgentError, ContextOverflow, ModelError

from .answer import Answer, OnDelta
from .discovery import LOAD_PAUSE, LOAD_WAIT, Notify, ServerKind, choose, discover
from .failures import ServerSaid, broken, said_by, translate
from .template import STRICTEST, USUAL, Form, stricter
from .wire import READ_TIMEOUT, WireModel, http_client, timeouts

_CLIENT_ERRORS = (
    openai.OpenAIError,
    httpx2.HTTPError,
    ServerSaid,
    json.JSONDecodeError,
    UnicodeDecodeError,
)
REFUSED_PAUSES = (0.2, 0.5)  # seconds before another try at a port where nothing listens

_NO_SYNC_CLIENT = object()  # ChatOpenAI builds a second client unless it is given one


async def connect_model(
    settings: ModelSettings,
    *,
    timeout: float | None = None,
    reply_tokens: int | None = None,
    on_notice: Notify | None = None,
) -> ChatModel:
    """Find the model that `settings` mean and connect to it.

    timeout: seconds that a turn may take; no wait for a piece of an answer is longer.
    reply_tokens: the most tokens of one answer; None leaves it to the server.
    on_notice: is told what the user should know, one line each.

    Raises ModelUnreachable, ModelNotLoaded, ConfigError (several loaded and none named).
    """
    model = ChatModel(settings, timeout=timeout, reply_tokens=reply_tokens, on_notice=on_notice)
    try:
        await model.refresh()
    except BaseException:
        await model.aclose()
        raise
    return model


class ChatModel:
    """A model behind an OpenAI-compatible server; close it with `aclose` or `async with`.

    `name` is what requests ask for, `context_length` what it is loaded with in tokens (None:
    unknown), `server_kind` what the server was found to be, `notices` what was told so far,
    `details` what tells this model from another of its name, `form` how messages are sent: the
    usual way until the model's template refuses it.

    `parallel_calls` is what requests with tools say about several calls in one reply, None:
    nothing. Without `json_schema` a request that is held to a schema is refused here: this server
    would not hold it.
    """

    overflow: type[Exception] = ContextOverflow

    def __init__(
        self,
        settings: ModelSettings,
        *,
        timeout: float | None = None,
        reply_tokens: int | None = None,
        on_notice: Notify | None = None,
    ) -> None:
        self.name = settings.name
        self.context_length = settings.context_length
        self.server_kind: ServerKind = "other"
        self.details: Mapping[str, int | str] = {}
        self.parallel_calls: bool | None = settings.parallel_calls
        self.json_schema = settings.json_schema
        self.notices: list[str] = []
        self.on_notice = on_notice
        self.on_found: Callable[[], None] | None = None  # told when the model was asked for anew
        self.form = STRICTEST if settings.strict_template is True else USUAL
        self._settings = settings
        self._read_timeout = timeout or READ_TIMEOUT
        self._reply_tokens = reply_tokens
        self._opens_thinking = False
        self._http = http_client(
            settings.base_url, settings.api_key, read_timeout=self._read_timeout
        )
        self._wire: WireModel | None = None

    @property
    def address(self) -> str:
        """Where its server is, as it may be shown."""
        return self._settings.address

    async def __aenter__(self) -> ChatModel:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def refresh(self) -> int | None:
        """Ask the server again for model and context; the context length (None: unknown).

        For the start, after a model change and after an overflow. Raises as `connect_model`.
        """
        found = await discover(self._settings, self._notify)
        model = choose(found, self._settings)
        self.server_kind = found.kind
        self.name, self.details = model.name, model.details
        self.context_length = self._settings.context_length or model.context_length
        self._wire = None
        if self._settings.name and found.kind == "llama.cpp" and not found.named(model.name):
            served = ", ".join(known.name for known in found.models)
            self._notify(f"Asked for {model.name}; the server has {served}.")
        if self.on_found:
            self.on_found()
        return self.context_length

    def limit_reply(self, tokens: int) -> None:
        """Bound every further answer to `tokens`."""
        self._reply_tokens = tokens
        self._wire = None

    async def reply(
        self,
        messages: Sequence[BaseMessage],
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        tool_choice: str | None = None,
        response_format: Mapping[str, Any] | None = None,
        on_delta: OnDelta | None = None,
    ) -> AIMessage:
        """Send `messages` and return the whole answer.

        tools: OpenAI function objects, sent in this order. tool_choice: none, auto, required.
        response_format: as in the OpenAI format; the content is then the JSON text.
        on_delta: called with each piece of text and of reasoning as it comes.

        The calls of the answer are unparsed, in `additional_kwargs["raw_tool_calls"]`; see
        `repair`. Text that may be a call is not told to `on_delta`; it is in ["unshown"] too.
        Reasoning is in no part of it. Cancelling closes the connection, which stops
        the server. Nothing is sent twice once a byte of an answer has come.

        Raises ContextOverflow, StreamBroken, ModelTimeout, ModelUnreachable, ModelNotLoaded,
        ModelError.
        """
        if response_format and not self.json_schema:
            raise ModelError(
                "Answers of this model are not held to a schema (json_schema = false)."
            )
        options = _options(tools, tool_choice, response_format, self.parallel_calls)
        form = self.form
        while True:
            answer = Answer(
                on_delta,
                opens_thinking=self._opens_thinking and not response_format,
                names=[str(tool["function"]["name"]) for tool in tools],
            )
            try:
                async with aclosing(self._pieces(messages, options, form)) as pieces:
                    async for piece in pieces:
                        answer.add(piece)
                answer.end()
                break
            except _CLIENT_ERRORS as exc:
                answer.end()
                error = self._translate(exc, answer)
                another = None if answer.started else self._stricter(form, exc, error)
                if another is None:
                    raise error from exc
                form = another
        self._keep_form(form)
        if answer.finish is None:
            raise broken("the stream ended early", answer.text)
        self._opens_thinking = self._opens_thinking or answer.closed_only
        self._check_name(answer.model)
        if self.context_length is None and self.server_kind == "lmstudio":
            with suppress(AgentError):  # loaded by this request; the context is known only now
                await self.refresh()
        return answer.message()

    async def send(self, body: Mapping[str, Any]) -> tuple[int, Any]:
        """Send one request as it stands, not streamed; the status and the JSON of the answer.

        For shapes that `reply` never sends. The model is filled in. Raises ModelUnreachable and
        ModelTimeout.
        """
        url = self._settings.base_url.rstrip("/") + "/chat/completions"
        return await self._plain("POST", url, {"model": self.name, **body})

    async def look(self, path: str) -> Any:
        """The JSON that the server has at `path` beside its /v1; None where it has not."""
        root = self._settings.base_url.rstrip("/").removesuffix("/v1")
        status, body = await self._plain("GET", root + path)
        return body if status == 200 else None

    async def _plain(self, method: str, url: str, body: Any = None) -> tuple[int, Any]:
        try:
            response = await self._http.request(method, url, json=body)
        except httpx2.HTTPError as exc:
            raise self._translate(exc, Answer()) from exc
        try:
            return response.status_code, response.json()
        except ValueError:
            return response.status_code, None

    async def _pieces(
        self, messages: Sequence[BaseMessage], options: Mapping[str, Any], form: Form
    ) -> AsyncGenerator[Mapping[str, Any], None]:
        """The chunks of one answer; tries again only where no answer can have begun."""
        pauses = list(REFUSED_PAUSES)
        waited = 0.0
        while True:
            try:
                async with aclosing(self._client().pieces(messages, form, **options)) as pieces:
                    async for piece in pieces:
                        yield piece
                return
            except openai.APIConnectionError as exc:
                if not isinstance(exc.__cause__, httpx2.ConnectError) or not pauses:
                    raise
                await asyncio.sleep(pauses.pop(0))
            except openai.InternalServerError as exc:
                loading = exc.status_code == 503 and "loading" in exc.response.text.lower()
                if not loading or waited >= LOAD_WAIT:
                    raise
                if not waited:
                    self._notify("The model server is loading its model.")
                waited += LOAD_PAUSE
                await asyncio.sleep(LOAD_PAUSE)

    def _client(self) -> WireModel:
        if self._wire is None:
            settings = self._settings
            self._wire = WireModel(
                model=self.name,
                base_url=settings.base_url,
                api_key=cast(Any, settings.api_key or "none"),
                temperature=settings.temperature,
                max_completion_tokens=self._reply_tokens,
                timeout=timeouts(self._read_timeout),
                max_retries=0,
                stream_usage=True,
                stream_chunk_timeout=None,  # counts the reading of the prompt too
                use_responses_api=False,  # some names would switch to another API
                output_version=None,
                openai_proxy=None,
                client=_NO_SYNC_CLIENT,
                http_async_client=self._http,
                http_socket_options=(),
            )
        return self._wire

    def _translate(self, exc: Exception, answer: Answer) -> ModelError:
        return translate(
            exc,
            base_url=self._settings.address,
            timeout=self._read_timeout,
            secrets=(self._settings.api_key, *self._settings.secrets),
            partial=answer.text,
            started=answer.started,
        )

    def _stricter(self, form: Form, exc: Exception, error: ModelError) -> Form | None:
        """The form to try after the template refused `form`; None where that is not what failed."""
        if self._settings.strict_template != "auto" or type(error) is not ModelError:
            return None
        return stricter(form, said_by(exc))

    def _keep_form(self, form: Form) -> None:
        """Send all that follows in the form that was taken, so that prompts begin as before."""
        if form != self.form:
            self.form = form
            self._notify("The model's chat template is strict: messages go in a form it takes.")

    def _check_name(self, served: str) -> None:
        """Say once that another model answers than the one asked for."""
        if served and self.name and _bare(served) != _bare(self.name):
            self._notify(f"Asked for {self.name}; the answers come from {served}.")

    def _notify(self, text: str) -> None:
        if text in self.notices:
            return
        self.notices.append(text)
        if self.on_notice:
            self.on_notice(text)


def _options(
    tools: Sequence[Mapping[str, Any]],
    tool_choice: str | None,
    response_format: Mapping[str, Any] | None,
    parallel_calls: bool | None,
) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if tools:
        options["tools"] = [dict(tool) for tool in tools]
        if parallel_calls is not None:
            options["parallel_tool_calls"] = parallel_calls
        if tool_choice:  # without tools it is refused; as an object LM Studio refuses it
            options["tool_choice"] = tool_choice
    if response_format:
        options["response_format"] = dict(response_format)
    return options


def _bare(name: str) -> str:
    """A model name without folder, file ending, instance number and case."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1].casefold().removesuffix(".gguf")
    stem, colon, number = last.rpartition(":")
    return stem if colon and number.isdigit() else last
