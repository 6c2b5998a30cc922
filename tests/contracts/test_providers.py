"""Every provider keeps its word: one small class each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from gnomon.contracts.provider import Provider
from gnomon.errors import Overloaded
from gnomon.providers.demo import DemoProvider
from gnomon.testing import Line, ProviderContract, ScriptedProvider, calls, fails, says
from gnomon.types.messages import Message
from gnomon.types.requests import OneTool, Request


class TestDemo(ProviderContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Provider]:
        yield DemoProvider()

    def request(self, scenario: str) -> Request | None:
        if scenario == "failure":
            return Request(messages=(Message.user("Hello"),), model="no-such-model")
        return super().request(scenario)


class TestDemoSlow(TestDemo):
    """It waits before each event, as if for a network; here the wait is a short one."""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Provider]:
        yield DemoProvider("slow", sleep=_one_round)


class TestDemoFlaky(ProviderContract):
    """It fails before it has said anything; the other scenarios ask it for a sound model."""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Provider]:
        yield DemoProvider("flaky")

    def request(self, scenario: str) -> Request | None:
        request = super().request("text" if scenario == "failure" else scenario)
        assert request is not None
        return request if scenario == "failure" else msgspec.structs.replace(request, model="demo")


class TestDemoFlakyTheSecondTime(TestDemoFlaky):
    """It breaks off in the middle of the text."""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Provider]:
        provider = DemoProvider("flaky")
        request = self.request("failure")
        assert request is not None
        with pytest.raises(Overloaded):
            await provider.complete(request)
        yield provider


class TestScripted(ProviderContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Provider]:
        yield ScriptedProvider(_answer)

    def request(self, scenario: str) -> Request | None:
        if scenario == "failure":
            return Request(messages=(Message.user("Fail."),))
        return super().request(scenario)


class TestScriptedThatWaits(TestScripted):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Provider]:
        yield ScriptedProvider(_answer, delay_s=1.0, sleep=_one_round)


async def _one_round(seconds: float) -> None:
    await asyncio.sleep(0)


def _answer(request: Request) -> Line:
    """As a well-behaved model would: it calls the tools that it has to call."""
    if request.messages[-1].text == "Fail.":
        return fails(Overloaded("busy", vendor="scripted", status=529))
    if isinstance(request.tool_choice, OneTool):
        return calls(request.tool_choice.name)
    if request.tools and request.tool_choice == "required":
        first, *others = request.tools
        line = calls(first.name, city="Paris")
        for tool in others:
            line = line.calling(tool.name, expression="12 * 7")
        return line
    return says("Hello, and good day to you.", thinking="They want to be greeted.", signature="c2lnbmVk")
