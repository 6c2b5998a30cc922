"""The same promises, kept by the real services. Needs keys, and leave to spend: `make live`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from gnomon import registry
from gnomon.contracts.provider import Provider
from gnomon.testing import ProviderContract
from gnomon.types.requests import Request


def needs(variable: str) -> pytest.MarkDecorator:
    if os.environ.get("GNOMON_LIVE") != "1":
        return pytest.mark.skip(reason="real services cost money: `make live` asks them")
    return pytest.mark.skipif(not os.environ.get(variable), reason=f"{variable} is not set")


class Live(ProviderContract):
    """A real service: its answers differ from one time to the next, and take their time."""

    __test__ = False
    name = ""
    repeatable = False
    limit_s = 300.0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Provider]:
        provider = registry.provider(self.name)
        try:
            yield provider
        finally:
            await provider.close()

    def request(self, scenario: str) -> Request | None:
        if scenario == "failure":
            request = super().request("text")
            assert request is not None
            return msgspec.structs.replace(request, model="no-such-model-of-anybody")
        return super().request(scenario)


@needs("OPENAI_API_KEY")
class TestOpenAI(Live):
    __test__ = True
    name = "openai"


@needs("OPENAI_API_KEY")
class TestOpenAIChat(Live):
    __test__ = True
    name = "openai"

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Provider]:
        provider = registry.provider("openai", {"api": "chat"})
        try:
            yield provider
        finally:
            await provider.close()


@needs("ANTHROPIC_API_KEY")
class TestAnthropic(Live):
    __test__ = True
    name = "anthropic"


@needs("GEMINI_API_KEY")
class TestGemini(Live):
    __test__ = True
    name = "gemini"


@needs("MISTRAL_API_KEY")
class TestMistral(Live):
    __test__ = True
    name = "mistral"


@needs("AZURE_OPENAI_DEPLOYMENT")
class TestAzure(Live):
    """With a key and an endpoint in the usual variables, and a deployment of your own."""

    __test__ = True
    name = f"azure:{os.environ.get('AZURE_OPENAI_DEPLOYMENT', '')}"


@needs("OLLAMA_MODEL")
class TestOllama(Live):
    """A model that the server of `OLLAMA_HOST` has; it must take tools."""

    __test__ = True
    name = f"ollama:{os.environ.get('OLLAMA_MODEL', '')}"


@needs("DEEPSEEK_API_KEY")
class TestDeepSeek(Live):
    __test__ = True
    name = "deepseek"


@needs("OPENROUTER_API_KEY")
class TestOpenRouter(Live):
    __test__ = True
    name = "openrouter"


@needs("GROQ_API_KEY")
class TestGroq(Live):
    __test__ = True
    name = "groq"
