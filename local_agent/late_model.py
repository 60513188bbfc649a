"""The model as a run holds it: connected when it is first needed, or the embedded one started."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage

from context import UNKNOWN_CONTEXT, Window
from local_agent.config import ModelSettings, Settings
from local_agent.errors import ContextOverflow, ModelUnreachable, TurnTimeout
from local_agent.model import ChatModel, connect_model

Say = Callable[[str, str], None]  # text, level: "info" or "warning"
Connect = Callable[[], Awaitable[ChatModel]]


class LateModel:
    """The model, connected when it is first needed and again after it was unreachable.

    `limit` bounds connecting, in seconds. Raises at `connect` what `connect_model` raises: the
    chat can start, and be typed at, before there is a model server.
    """

    overflow = ContextOverflow

    def __init__(
        self,
        connect: Callable[[], Awaitable[ChatModel]],
        window: Window,
        say: Say,
        limit: float | None = None,
    ) -> None:
        self._connect = connect
        self._window = window
        self._say = say
        self._limit = limit
        self._model: ChatModel | None = None
        self._lock = asyncio.Lock()

    @property
    def name(self) -> str:
        return self._model.name if self._model else ""

    async def connect(self) -> ChatModel:
        """Connect if that has not been done; tells the window the context length."""
        async with self._lock:
            if self._model is None:
                try:
                    async with asyncio.timeout(self._limit):
                        self._model = await self._connect()
                except TimeoutError as exc:
                    raise TurnTimeout(f"No model answered within {self._limit:g} seconds.") from exc
                if self._model.context_length is None:
                    text = (
                        f"The server does not say how long its context is; {UNKNOWN_CONTEXT} "
                        "tokens are assumed. Set context_length in [model] if it is longer."
                    )
                    self._say(text, "warning")
                self._window.context_length = self._model.context_length or UNKNOWN_CONTEXT
                self._model.limit_reply(self._window.reply)
            return self._model

    async def reply(self, messages: Sequence[AnyMessage], **options: Any) -> AIMessage:
        model = await self.connect()
        try:
            return await model.reply(messages, **options)
        except ContextOverflow as exc:
            # The model may have been loaded anew, with another context, since it was asked.
            if exc.context_length is None:
                self._window.context_length = await model.refresh() or self._window.context_length
            raise


async def connect_chat(settings: Settings, stack: AsyncExitStack, say: Say) -> ChatModel:
    """Connect to the model server, or start the embedded one; what is opened closes with `stack`.

    The embedded one is started where it is asked for, and where nothing answers at the default
    address and its weights are here. Raises `ModelError` and `ConfigError`.
    """
    model = settings.model
    if model.name == "embedded":
        from local_agent.embedded import resolve_embedded

        return await _start(resolve_embedded(model), settings, stack, say)
    try:
        return await _connect(model, settings, stack, say)
    except ModelUnreachable as exc:
        weights = _instead(settings)
        if weights is None:
            raise
        say(f"{exc.message} Using the embedded model instead.", "warning")
        return await _start(weights, settings, stack, say)


def _instead(settings: Settings) -> Path | None:
    """The weights to use when nothing answers: only where no other model was ever asked for."""
    from importlib.util import find_spec

    from local_agent.weights import default_weights

    model = settings.model
    named = model.name or model.base_url != ModelSettings().base_url
    if named or find_spec("xllamacpp") is None:
        return None
    return Path(model.embedded) if model.embedded else default_weights()


async def _connect(
    model: ModelSettings, settings: Settings, stack: AsyncExitStack, say: Say
) -> ChatModel:
    chat = await connect_model(
        model, timeout=settings.timeout, on_notice=lambda text: say(text, "warning")
    )
    return await stack.enter_async_context(chat)


async def _start(weights: Path, settings: Settings, stack: AsyncExitStack, say: Say) -> ChatModel:
    from local_agent.embedded import start_embedded

    model = settings.model
    key = secrets.token_urlsafe()  # others on this machine can reach the port too
    say(f"Starting the embedded model {weights.name}.", "info")
    base_url = await stack.enter_async_context(
        start_embedded(
            weights,
            context_length=model.context_length,
            log_dir=None if settings.ephemeral else settings.log_dir,
            on_progress=lambda text: say(text, "info"),
            api_key=key,
        )
    )
    started = replace(model, base_url=base_url, name="", api_key=key, context_length=None)
    return await _connect(started, settings, stack, say)
