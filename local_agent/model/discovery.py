"""Asks a model server what it has loaded, with which context, each kind by its own endpoints."""

from __future__ import annotations

import asyncio
import difflib
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import httpx2

from local_agent.config import ModelSettings
from local_agent.errors import ConfigError, ModelNotLoaded, ModelTimeout

from .failures import LOAD, from_status, translate, unreachable, wrong_path
from .wire import http_client

ServerKind = Literal["lmstudio", "llama.cpp", "other"]
Notify = Callable[[str], None]

ASK_TIMEOUT = 10.0  # seconds for a question that no model has to think about
LOAD_WAIT = 120.0  # seconds for a server that says it is loading its model
LOAD_PAUSE = 0.5  # seconds between two looks at it


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model the server knows. `context_length` is what it is loaded with, in tokens.

    `loaded` is None where the server does not say; `key` is the name of the files behind an
    instance, where it has one of its own. `details` are what else tells it from another of its
    name, where the server says it: the size of its file in bytes, its quantization, a hash of its
    chat template, how many requests it takes at once.
    """

    name: str
    loaded: bool | None = None
    context_length: int | None = None
    max_context_length: int | None = None
    key: str = ""
    details: Mapping[str, int | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    """What answers at the address."""

    kind: ServerKind
    models: tuple[ModelInfo, ...]

    @property
    def loaded(self) -> tuple[ModelInfo, ...]:
        """The models that can answer now; all of them where the server does not say."""
        return tuple(model for model in self.models if model.loaded is not False)

    def named(self, name: str) -> ModelInfo | None:
        """The model of that name, a loaded one first."""
        fits = [model for model in self.models if name in (model.name, model.key)]
        return next((model for model in fits if model.loaded), fits[0] if fits else None)


async def discover(settings: ModelSettings, on_notice: Notify | None = None) -> Found:
    """Ask the server at `settings.base_url`; wait while it says that it is loading its model.

    Raises ModelUnreachable, ModelTimeout, ModelNotLoaded, or ModelError for anything that is no
    OpenAI-compatible server.
    """
    async with http_client(settings.base_url, settings.api_key, read_timeout=ASK_TIMEOUT) as client:
        asked = _Asker(client, settings, on_notice or (lambda text: None))
        for path, read in (
            ("/api/v1/models", _lmstudio_v1),
            ("/api/v0/models", _lmstudio_v0),
        ):
            body = await asked.optional(path)
            models = read(body)
            if models is not None:
                return Found("lmstudio", models)
        models = _openai(await asked.required())
        props = await asked.optional("/props")
        return _with_props(models, props)


async def list_models(settings: ModelSettings) -> Sequence[ModelInfo]:
    """The models of the server, loaded ones first. Raises as `discover`."""
    found = await discover(settings)
    return sorted(found.models, key=lambda model: model.loaded is False)


def choose(found: Found, settings: ModelSettings) -> ModelInfo:
    """The model to talk to: the named one, or the one that is loaded.

    A name the server does not list is used as it stands: some serve whatever name they are asked
    for; not LM Studio. Raises ConfigError if several are loaded and none is named,
    ModelNotLoaded if none is.
    """
    if settings.name:
        named = found.named(settings.name)
        if named is None and found.kind == "lmstudio":  # it lists all that it could load
            names = ", ".join(model.name for model in found.models) or "none"
            near = difflib.get_close_matches(settings.name, names.split(", "), n=1)
            raise ConfigError(
                f"There is no model '{settings.name}' at {settings.address}; there are: {names}.",
                f"Did you mean {near[0]}?" if near else "Name one of them.",
            )
        return named or ModelInfo(settings.name)
    loaded = found.loaded
    if len(loaded) > 1:
        # A server that lists all it has without saying what each is for.
        chat = tuple(model for model in loaded if "embed" not in model.name.lower())
        loaded = chat if len(chat) == 1 else loaded
    if len(loaded) > 1:
        names = ", ".join(model.name for model in loaded)
        raise ConfigError(
            f"The model server at {settings.address} has several models: {names}.",
            "Name one: --model NAME, AGENT_MODEL, or name in [model].",
        )
    if not loaded:
        raise ModelNotLoaded(f"No model is loaded at {settings.address}.", LOAD)
    return loaded[0]


@dataclass(slots=True)
class _Asker:
    client: httpx2.AsyncClient
    settings: ModelSettings
    tell: Notify

    @property
    def _root(self) -> str:
        return self.settings.base_url.rstrip("/").removesuffix("/v1")

    async def optional(self, path: str) -> Any:
        """The JSON at a path that only some servers have; None where this one has not."""
        status, body = await self._get(self._root + path)
        return body if status == 200 else None

    async def required(self) -> Any:
        """The JSON of /models, which every server has."""
        base_url = self.settings.address
        status, body = await self._get(self.settings.base_url.rstrip("/") + "/models")
        if status == 200 and isinstance(body, Mapping) and not body.get("error"):
            return body
        if status == 404 or (status == 200 and not isinstance(body, Mapping)):
            raise wrong_path(base_url)
        secrets = (self.settings.api_key, *self.settings.secrets)
        raise from_status(status, body, base_url=base_url, secrets=secrets)

    async def _get(self, url: str) -> tuple[int, Any]:
        base_url = self.settings.address
        waited = 0.0
        while True:
            try:
                response = await self.client.get(url)
            except httpx2.ConnectError as exc:
                raise unreachable(base_url) from exc
            except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
                raise translate(exc, base_url=base_url, timeout=ASK_TIMEOUT) from exc
            if response.status_code != 503 or "loading" not in response.text.lower():
                break
            if waited >= LOAD_WAIT:
                raise ModelTimeout(
                    f"The model server at {base_url} is still loading its model after "
                    f"{LOAD_WAIT:g} s.",
                    "Wait until it is ready, or load a smaller one.",
                )
            if not waited:
                self.tell(f"The model server at {base_url} is loading its model.")
            await asyncio.sleep(LOAD_PAUSE)
            waited += LOAD_PAUSE
        try:
            return response.status_code, response.json()
        except ValueError:
            return response.status_code, None


def _rows(body: Any, key: str) -> list[Mapping[str, Any]]:
    rows = body.get(key) if isinstance(body, Mapping) else None
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def _lmstudio_v1(body: Any) -> tuple[ModelInfo, ...] | None:
    """LM Studio 0.4 and newer: `models[].loaded_instances[].config.context_length`."""
    if not isinstance(body, Mapping) or not isinstance(body.get("models"), list):
        return None
    models = []
    for row in _rows(body, "models"):
        if row.get("type") == "embedding":
            continue
        key, longest = str(row.get("key", "")), _number(row.get("max_context_length"))
        details = _lmstudio_details(row)
        instances = _rows(row, "loaded_instances")
        for instance in instances:
            config = instance.get("config") or {}
            length = _number(config.get("context_length"))
            slots = _number(config.get("parallel"))
            told = {**details, "slots": slots} if slots else details
            name = str(instance.get("id", key))
            models.append(ModelInfo(name, True, length, longest, key, told))
        if not instances:
            models.append(ModelInfo(key, False, None, longest, key, details))
    return tuple(models)


def _lmstudio_details(row: Mapping[str, Any]) -> dict[str, int | str]:
    quantization = row.get("quantization")
    named = quantization.get("name") if isinstance(quantization, Mapping) else quantization
    return _told(size=_number(row.get("size_bytes")), quantization=named)


def _told(**details: Any) -> dict[str, int | str]:
    """The details that were said, as plain values."""
    return {name: value for name, value in details.items() if isinstance(value, int | str)}


def _lmstudio_v0(body: Any) -> tuple[ModelInfo, ...] | None:
    """LM Studio before 0.4: `data[].state` and `loaded_context_length`."""
    rows = _rows(body, "data")
    if not rows or not all("state" in row for row in rows):
        return None
    return tuple(
        ModelInfo(
            str(row.get("id", "")),
            row["state"] == "loaded",
            _number(row.get("loaded_context_length")),
            _number(row.get("max_context_length")),
            details=_lmstudio_details(row),
        )
        for row in rows
        if row.get("type") != "embeddings"
    )


def _openai(body: Any) -> tuple[ModelInfo, ...]:
    """`/v1/models`, with what llama.cpp adds: `meta.n_ctx`, and `status` with several models."""
    models = []
    for row in _rows(body, "data"):
        meta = row.get("meta")
        meta = meta if isinstance(meta, Mapping) else {}
        status = row.get("status")
        loaded = status.get("value") == "loaded" if isinstance(status, Mapping) else None
        length, longest = _number(meta.get("n_ctx")), _number(meta.get("n_ctx_train"))
        details = _told(size=_number(meta.get("size")))
        name = str(row.get("id", ""))
        models.append(ModelInfo(name, loaded, length, longest, details=details))
    return tuple(models)


def _with_props(models: tuple[ModelInfo, ...], props: Any) -> Found:
    """llama.cpp's `/props` has the context of a slot, which is the one that counts."""
    defaults = props.get("default_generation_settings") if isinstance(props, Mapping) else None
    if not isinstance(defaults, Mapping):
        from_meta = any(model.context_length for model in models)
        return Found("llama.cpp" if from_meta else "other", models)
    length = _number(defaults.get("n_ctx"))
    if len(models) == 1 and length:
        template = props.get("chat_template")
        hashed = hashlib.sha256(template.encode()).hexdigest()[:12] if template else None
        told = _told(template=hashed, slots=_number(props.get("total_slots")))
        details = {**models[0].details, **told}
        only = replace(models[0], loaded=True, context_length=length, details=details)
        models = (only,)
    return Found("llama.cpp", models)
