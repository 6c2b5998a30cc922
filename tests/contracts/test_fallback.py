"""The fallback keeps its word: as the first answers, as the second does, and over a real wire."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from copy import copy

import msgspec
from test_anthropic import TestAnthropic as AnthropicSuite
from test_providers import TestScripted as ScriptedSuite

from gnomon.contracts.provider import Provider
from gnomon.errors import Overloaded
from gnomon.providers.fallback import FallbackProvider
from gnomon.testing import Line, ScriptedProvider, WireLimits, fails
from gnomon.types.events import ProviderEvent
from gnomon.types.requests import Request


def _busy(request: Request) -> Line:
    return fails(Overloaded("busy", vendor="first", status=529))


class TestFallbackOnTheSecond(ScriptedSuite):
    """The first never answers."""

    answers_as = "scripted"

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Provider]:
        async with super().open() as second:
            yield FallbackProvider(
                providers=[ScriptedProvider(_busy, name="first"), second],
                retries=1,
                wait_s=0.0,
                failures=1000,
            )


class _AsAsked(Provider):
    """A fallback whose one member answers with the model that the suite asks for, which is its fixture."""

    name = "fallback"

    def __init__(self, member: Provider) -> None:
        self._member = member
        self.model = member.model

    def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        member = copy(self._member)
        member.model = request.model or member.model
        asked = msgspec.structs.replace(request, model=None)
        return FallbackProvider(providers=[member], retries=0, failures=1000).events(asked)

    async def close(self) -> None:
        await self._member.close()


class TestFallbackOverHTTP(AnthropicSuite):
    """Everything that holds for a provider holds for it behind a fallback: limits, cuts, errors, keys."""

    answers_as = "anthropic"

    def connect(self, url: str, limits: WireLimits) -> Provider:
        return _AsAsked(super().connect(url, limits))


del AnthropicSuite, ScriptedSuite  # they run where they stand
