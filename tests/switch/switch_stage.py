"""A provider at one end and a service that plays its replies at the other: what was sent, and warned of."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
from switch_ends import End

from gnomon.contracts.provider import Provider
from gnomon.testing import FaultServer, ReceivedRequest, ServerReply
from gnomon.testing._fixtures import Fixture
from gnomon.testing._outcome import outcome_of
from gnomon.types.events import StreamWarning
from gnomon.types.messages import ToolCall
from gnomon.types.requests import Request, Response

__all__ = ["Asked", "Stage", "on_stage"]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What went over the wire for a request, and what the reader of the stream was told."""

    received: ReceivedRequest | None
    warnings: tuple[StreamWarning, ...] = ()
    response: Response | None = None
    error: Exception | None = None


class Stage:
    """Asks, and has the service answer with the reply that the caller chose."""

    def __init__(self, end: End) -> None:
        self._end = end
        self._reply = ServerReply()
        self.server = FaultServer(lambda _: self._reply)
        self.provider: Provider

    async def ask(self, request: Request, fixture: Fixture | None = None) -> Asked:
        fixture = fixture or self._end.wire["text"]
        self._reply = _reply(fixture, _ids_in(request))
        before = len(self.server.requests)
        outcome = await outcome_of(self.provider, request)
        return Asked(
            received=self.server.requests[-1] if len(self.server.requests) > before else None,
            warnings=tuple(event for event in outcome.events if isinstance(event, StreamWarning)),
            response=outcome.response,
            error=outcome.error,
        )


@asynccontextmanager
async def on_stage(end: End, provider: Provider | None = None) -> AsyncGenerator[Stage, None]:
    stage = Stage(end)
    async with stage.server as server:
        stage.provider = provider or end.connect(server.url)
        try:
            yield stage
        finally:
            await stage.provider.close()
    assert not server.problems, server.problems[0]


# --- replies --------------------------------------------------------------------------


def _reply(fixture: Fixture, used: set[str]) -> ServerReply:
    """The reply, in which no call has an id that the conversation has already: no service does that."""
    body = fixture.body
    for call in fixture.called:
        given = call.get("id")
        if isinstance(given, str) and given in used:
            body = body.replace(given.encode(), _unused(given, used).encode())
    return ServerReply(
        status=fixture.status,
        reason=fixture.reason,
        headers=fixture.headers,
        body=body,
        framing="chunked" if fixture.is_stream else "length",
    )


def _unused(given: str, used: set[str]) -> str:
    """Of the same form: an id of nine characters stays one."""
    return next(made for number in range(100, 1000) if (made := f"{given[:-3]}{number}") not in used)


def _ids_in(request: Request) -> set[str]:
    return {part.id for message in request.messages for part in message.content if isinstance(part, ToolCall)}
