"""Asking a provider, in all the ways in which the suite does: to the end, in part, beside others, in vain."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Protocol, Self

import msgspec

from gnomon.contracts.provider import Provider
from gnomon.errors import ContractError, GnomonError
from gnomon.testing._suite import skip
from gnomon.testing._watch import Watch
from gnomon.types.events import StreamEvent
from gnomon.types.messages import Message, ToolResult
from gnomon.types.requests import Request, Response

__all__ = [
    "Log",
    "Suite",
    "accepted",
    "answer",
    "asked",
    "failure",
    "left_by_cancelling",
    "left_by_leaving",
    "next_round",
    "offered",
    "read",
    "read_slowly",
    "running_between_events",
    "spread",
]

# Leaving is tried at every event of a stream of this length, and here and there in a longer one.
_MOST_POSITIONS = 64


class Suite(Protocol):
    """What is needed of the suite."""

    def open(self) -> AbstractAsyncContextManager[Provider]: ...
    def request(self, scenario: str) -> Request | None: ...


# --- what there is to ask -----------------------------------------------------


def asked(suite: Suite, scenario: str) -> Request:
    """The request of a scenario; the check is skipped when the provider does not offer it."""
    request = suite.request(scenario)
    return request if request is not None else skip(suite, repr(scenario))


def offered(suite: Suite, *scenarios: str) -> list[tuple[str, Request]]:
    """Those of the scenarios that the provider offers; the check is skipped when there are none."""
    requests = [(scenario, suite.request(scenario)) for scenario in scenarios]
    found = [(scenario, request) for scenario, request in requests if request is not None]
    return found or skip(suite, " or ".join(map(repr, scenarios)))


def next_round(request: Request, response: Response) -> Request:
    """The same conversation, with the answer and a result for each of its calls."""
    results = [ToolResult.of(call, "42") for call in response.tool_calls]
    answered = (Message.tool(*results),) if results else (Message.user("Please use the tools again."),)
    return msgspec.structs.replace(request, messages=(*request.messages, response.message, *answered))


# --- to the end ---------------------------------------------------------------


async def answer(suite: Suite, request: Request) -> list[StreamEvent]:
    """The events that a fresh provider gives."""
    async with suite.open() as provider:
        return await read(provider, request)


async def read(provider: Provider, request: Request) -> list[StreamEvent]:
    async with provider.stream(request) as stream:
        return [event async for event in stream]


async def read_slowly(provider: Provider, request: Request) -> Response:
    """Others get their turn after each event."""
    async with provider.stream(request) as stream:
        async for _ in stream:
            await asyncio.sleep(0)
        return stream.response


async def accepted(suite: Suite, request: Request) -> Response | None:
    """The response, or `None` when the request was refused with an error of ours."""
    async with suite.open() as provider:
        try:
            return await provider.complete(request)
        except GnomonError as error:
            if error.retryable or isinstance(error, ContractError):
                raise
            return None


async def failure(provider: Provider, request: Request) -> tuple[Exception, list[StreamEvent]]:
    """What it raises, and the events before."""
    events: list[StreamEvent] = []
    try:
        async with provider.stream(request) as stream:
            async for event in stream:
                events.append(event)
    except Exception as error:  # noqa: BLE001 - which one it is, is what the check asks
        return error, events
    raise AssertionError(f"failure: expected a ProviderError, found {len(events)} events and no error")


# --- in part ------------------------------------------------------------------


def spread(length: int) -> Sequence[int]:
    """Every place in a stream from before its first event to after its last, or enough of them."""
    step = max(1, -(-length // _MOST_POSITIONS))
    return [*range(0, length, step), length]


async def left_by_leaving(suite: Suite, request: Request, position: int) -> list[str]:
    async with suite.open() as provider:
        with Watch() as watch:
            async with provider.stream(request) as stream:
                await _take(stream, position)
        return await watch.left()


async def left_by_cancelling(
    suite: Suite, request: Request, position: int, *, resting: bool
) -> tuple[str, list[str]]:
    """How the reader ended, and what was left."""
    async with suite.open() as provider:
        with Watch() as watch:
            end = await _cancelled(provider, request, position, resting=resting)
        return end, await watch.left()


async def running_between_events(suite: Suite, request: Request) -> list[list[str]]:
    """After each event, what goes on while nobody asks for the next."""
    async with suite.open() as provider:
        with Watch() as watch:
            async with provider.stream(request) as stream:
                return [await watch.running() async for _ in stream]


async def _take(stream: AsyncIterable[object], count: int) -> None:
    if count:
        async for _ in stream:
            count -= 1
            if not count:
                return


async def _cancelled(provider: Provider, request: Request, position: int, *, resting: bool) -> str:
    """How a reader ends that is cancelled after so many events, at rest or on its way to the next."""
    reached = asyncio.Event()

    async def reading() -> None:
        async with provider.stream(request) as stream:
            await _take(stream, position)
            reached.set()
            if resting:
                await asyncio.Event().wait()
            await _take(stream, -1)

    reader, arrival = asyncio.create_task(reading()), asyncio.create_task(reached.wait())
    await asyncio.wait({reader, arrival}, return_when=asyncio.FIRST_COMPLETED)
    through = reader.done()  # a stream that never waits cannot be cancelled on its way
    reader.cancel()
    arrival.cancel()
    await asyncio.wait({reader, arrival})
    return _end_of(reader, through)


def _end_of(reader: asyncio.Task[None], through: bool) -> str:
    if reader.cancelled():
        return "CancelledError"
    error = reader.exception()
    if error is not None:
        return repr(error)
    return "CancelledError" if through else "its last event, as if it had not been cancelled"


# --- in vain ------------------------------------------------------------------


class Log(logging.Handler):
    """Everything that is logged in its block, at any level."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())

    def __enter__(self) -> Self:
        root = logging.getLogger()
        self._level = root.level
        root.addHandler(self)
        root.setLevel(logging.DEBUG)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        logging.getLogger().setLevel(self._level)
        logging.getLogger().removeHandler(self)
