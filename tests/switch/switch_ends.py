"""Every provider that a conversation may come from or go to: how it is reached, and what its library says.

An end is a provider with a model and a way to ask: some providers have two. What its request must look
like is judged by the types of the vendor's own library, and by the stand-ins that know its documentation.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from anthropic.types.beta.message_create_params import MessageCreateParamsStreaming as BetaMessageCreateParams
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from mistralai.client.models import ChatCompletionStreamRequest
from ollama._types import ChatRequest
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import ValidationError

import azure_standin
import ollama_standin
from gemini_types import read_as_gemini
from gnomon.contracts.provider import Provider
from gnomon.providers import compatible
from gnomon.providers._local_process import Loaded, Wanted
from gnomon.providers._local_weights import BUNDLED
from gnomon.providers.anthropic import AnthropicProvider
from gnomon.providers.azure import AzureProvider
from gnomon.providers.gemini import GeminiProvider
from gnomon.providers.local import LocalProvider
from gnomon.providers.mistral import MistralProvider
from gnomon.providers.ollama import OllamaProvider
from gnomon.providers.openai import OpenAIProvider
from gnomon.testing import ReceivedRequest, Wire
from local_model import INSTALLED
from sdk_types import read_as

__all__ = ["ENDS", "End", "Form"]

_WIRES = Path(__file__).parent.parent / "wire"
_KEY = "key-of-the-switch-tests"

Form: TypeAlias = Literal["responses", "chat", "messages", "contents", "mistral", "ollama"]
"""The form of the bodies."""


class End(msgspec.Struct, frozen=True, kw_only=True):
    """A provider with a model. `other_model` is one that did not say what `model` said."""

    title: str
    provider: str
    model: str
    other_model: str
    form: Form
    wire: Wire
    connect: Callable[[str], Provider]
    check: Callable[[ReceivedRequest], None]
    is_here: bool = True

    def __str__(self) -> str:
        return self.title


# --- what the libraries say -----------------------------------------------------------


_MADE_UP = ("hologram", "hologram_call")
"""Kinds that `unknown_events` has made up: who sent them gets them back, and no library knows them."""


def _known(body: bytes) -> bytes:
    return msgspec.json.encode(_without_made_up(msgspec.json.decode(body)))


def _without_made_up(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_made_up(inner) for inner in value if not _is_made_up(inner)]
    if isinstance(value, dict):
        known = {name: inner for name, inner in value.items() if (name, inner) not in _MADE_UP_FIELDS}
        return {name: _without_made_up(inner) for name, inner in known.items()}
    return value


_MADE_UP_FIELDS = [
    ("phase", "aside"),
    ("priority", 9),
    ("caller", {"type": "dream_20301231", "tool_id": "x"}),
]


def _is_made_up(value: Any) -> bool:
    return isinstance(value, dict) and (value.get("type") in _MADE_UP or "hologram" in value)


def _as_responses(request: ReceivedRequest) -> None:
    read_as(ResponseCreateParamsStreaming, _known(request.body))


def _as_chat(request: ReceivedRequest) -> None:
    read_as(CompletionCreateParamsStreaming, request.body)


def _as_compatible(request: ReceivedRequest) -> None:
    """OpenAI's own form, but for what a server gets back as it sent it, and for llama.cpp's own settings."""
    body: dict[str, Any] = msgspec.json.decode(request.body)
    for name in ("top_k", "cache_prompt", "repeat_penalty", "repeat_last_n"):
        body.pop(name, None)
    for message in body["messages"]:
        for name in ("reasoning", "reasoning_content", "reasoning_details"):
            message.pop(name, None)
        for call in message.get("tool_calls", ()):
            call.pop("extra_content", None)
    read_as(CompletionCreateParamsStreaming, msgspec.json.encode(body))


def _as_azure(params: Any) -> Callable[[ReceivedRequest], None]:
    def check(request: ReceivedRequest) -> None:
        body = _known(request.body)
        read_as(params, body)
        azure_standin.check(request.method, request.path, body, request.headers)

    return check


def _as_messages(request: ReceivedRequest) -> None:
    """Blocks of features that are still being tried out are in types of their own."""
    body = _known(request.body)
    try:
        read_as(MessageCreateParamsStreaming, body)
    except ValidationError:
        read_as(BetaMessageCreateParams, body)


def _as_contents(request: ReceivedRequest) -> None:
    read_as_gemini(_known(request.body))


def _as_mistral(request: ReceivedRequest) -> None:
    read_as(ChatCompletionStreamRequest, request.body)


def _as_ollama(request: ReceivedRequest) -> None:
    ollama_standin.check(request.method, request.path, request.body)
    body: dict[str, Any] = msgspec.json.decode(request.body)
    for name in ("truncate", "shift"):  # only the server's own types have them
        body.pop(name, None)
    for tool in body.get("tools", ()):  # of a schema, the library reads a part
        del tool["function"]["parameters"]
    read_as(ChatRequest, msgspec.json.encode(body))


# --- how they are reached -------------------------------------------------------------


class _Process:
    """Stands where the process of a local model would, so that what it is sent can be read."""

    def __init__(self, wanted: Wanted, loaded: Loaded) -> None:
        self.wanted = wanted
        self.users = 1
        self.owner = os.getpid()
        self._loaded = loaded

    async def loaded(self, limit_s: float) -> Loaded:
        return self._loaded

    def is_gone(self) -> bool:
        return False

    def end(self) -> None:
        pass

    async def ended(self, limit_s: float) -> None:
        pass


def _local(*, tools: bool, images: bool) -> Callable[[str], Provider]:
    def connect(url: str) -> Provider:
        provider = LocalProvider()
        loaded = Loaded(address=url, tools=tools, images=images, audio=False, key=_KEY)
        provider._held[provider._wanted] = _Process(provider._wanted, loaded)  # type: ignore[assignment]
        return provider

    return connect


def _compatible(kind: type[compatible.CompatibleProvider]) -> End:
    return End(
        title=kind.name,
        provider=kind.name,
        model="some-model",
        other_model="another-model",
        form="chat",
        wire=Wire(_WIRES / "compatible"),
        connect=lambda url: kind(key=_KEY, base_url=url),
        check=_as_compatible,
    )


def _local_end(title: str, *, tools: bool, images: bool) -> End:
    return End(
        title=title,
        provider="local",
        model=BUNDLED,
        other_model=BUNDLED,  # another one would have to be a file
        form="chat",
        wire=Wire(_WIRES / "compatible"),
        connect=_local(tools=tools, images=images),
        check=_as_compatible,
        is_here=INSTALLED or os.environ.get("CI") == "true",
    )


_ALL = (
    End(
        title="openai",
        provider="openai",
        model="gpt-6.1-sol",
        other_model="gpt-6-sol",
        form="responses",
        wire=Wire(_WIRES / "openai"),
        connect=lambda url: OpenAIProvider(key=_KEY, base_url=url),
        check=_as_responses,
    ),
    End(
        title="openai by chat",
        provider="openai",
        model="gpt-6.1-sol",
        other_model="gpt-6-sol",
        form="chat",
        wire=Wire(_WIRES / "openai_chat"),
        connect=lambda url: OpenAIProvider(key=_KEY, base_url=url, api="chat"),
        check=_as_chat,
    ),
    End(
        title="azure",
        provider="azure",
        model="my-deployment",
        other_model="my-other-deployment",
        form="responses",
        wire=Wire(_WIRES / "azure"),
        connect=lambda url: AzureProvider(key=_KEY, endpoint=url),
        check=_as_azure(ResponseCreateParamsStreaming),
    ),
    End(
        title="azure by deployment",
        provider="azure",
        model="my-deployment",
        other_model="my-other-deployment",
        form="chat",
        wire=Wire(_WIRES / "azure_chat"),
        connect=lambda url: AzureProvider(key=_KEY, endpoint=url, api_version="2024-10-21"),
        check=_as_azure(CompletionCreateParamsStreaming),
    ),
    End(
        title="anthropic",
        provider="anthropic",
        model="claude-opus-5-5",
        other_model="claude-sonnet-5-5",
        form="messages",
        wire=Wire(_WIRES / "anthropic"),
        connect=lambda url: AnthropicProvider(key=_KEY, base_url=url),
        check=_as_messages,
    ),
    End(
        title="anthropic, an earlier model",
        provider="anthropic",
        model="claude-haiku-4-5",
        other_model="claude-sonnet-4-5",
        form="messages",
        wire=Wire(_WIRES / "anthropic"),
        connect=lambda url: AnthropicProvider(key=_KEY, base_url=url),
        check=_as_messages,
    ),
    End(
        title="gemini",
        provider="gemini",
        model="gemini-3.8-flash",
        other_model="gemini-3.1-pro",
        form="contents",
        wire=Wire(_WIRES / "gemini"),
        connect=lambda url: GeminiProvider(key=_KEY, base_url=url),
        check=_as_contents,
    ),
    End(
        title="gemini, an earlier model",
        provider="gemini",
        model="gemini-2.5-flash",
        other_model="gemini-2.5-pro",
        form="contents",
        wire=Wire(_WIRES / "gemini"),
        connect=lambda url: GeminiProvider(key=_KEY, base_url=url),
        check=_as_contents,
    ),
    End(
        title="mistral",
        provider="mistral",
        model="mistral-medium-latest",
        other_model="mistral-large-4",
        form="mistral",
        wire=Wire(_WIRES / "mistral"),
        connect=lambda url: MistralProvider(key=_KEY, base_url=url),
        check=_as_mistral,
    ),
    End(
        title="ollama",
        provider="ollama",
        model="qwen3",
        other_model="gemma4",
        form="ollama",
        wire=Wire(_WIRES / "ollama"),
        connect=lambda url: OllamaProvider(base_url=url),
        check=_as_ollama,
    ),
    _compatible(compatible.CompatibleProvider),
    _compatible(compatible.GroqProvider),
    _compatible(compatible.TogetherProvider),
    _compatible(compatible.DeepSeekProvider),
    _compatible(compatible.OpenRouterProvider),
    _compatible(compatible.FireworksProvider),
    _compatible(compatible.PerplexityProvider),
    _compatible(compatible.XAIProvider),
    _compatible(compatible.CerebrasProvider),
    _compatible(compatible.VLLMProvider),
    _compatible(compatible.LlamaCppProvider),
    _compatible(compatible.LMStudioProvider),
    _compatible(compatible.LiteLLMProvider),
    _local_end("local", tools=False, images=False),
    _local_end("local, with tools and eyes", tools=True, images=True),
)

ENDS: dict[str, End] = {end.title: end for end in _ALL}
