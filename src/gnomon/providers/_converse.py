"""One exchange with a vendor, as events: what all providers over HTTP have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Protocol

import msgspec

from gnomon._complaint import Complaint
from gnomon._http import HTTP
from gnomon.contracts.provider import Provider
from gnomon.errors import BadRequest, StreamCut
from gnomon.types.events import ProviderEvent, StreamWarning, UsageUpdate
from gnomon.types.requests import Request, Usage

__all__ = ["Asked", "Decoder", "HTTPProvider", "VendorFailure", "converse"]


class VendorFailure(Exception):
    """A decoder found a complaint inside the stream; `converse` makes the typed error of it.

    `usage` is what the failed answer cost, where the vendor says so.
    """

    def __init__(self, complaint: Complaint, usage: Usage | None = None) -> None:
        super().__init__(complaint.message)
        self.complaint = complaint
        self.usage = usage


class Decoder(Protocol):
    """The vendor's events, made into ours, for one response."""

    done: bool
    """Whether `Finish` has been given: what follows on the wire is not read."""

    def feed(self, data: bytes) -> Sequence[ProviderEvent]:
        """What one event of the wire comes to. Raises `VendorFailure` for a complaint."""
        ...

    def end(self) -> Sequence[ProviderEvent]:
        """The bytes have ended before `done`: nothing, unless what came is an answer all the same."""
        ...


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A request in the vendor's words, and what reads the answer."""

    path: str
    body: bytes
    decoder: Decoder
    model: str | None = None
    warnings: tuple[StreamWarning, ...] = ()


class HTTPProvider(Provider):
    """A provider that is one way to a vendor, and the words to ask in."""

    _http: HTTP

    @abstractmethod
    def _ask(self, request: Request) -> Asked:
        """The request in the vendor's words; what is missing or cannot be sent is an error here."""

    def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        return converse(self._http, lambda: self._ask(request))

    async def close(self) -> None:
        await self._http.close()


async def converse(http: HTTP, ask: Callable[[], Asked]) -> AsyncGenerator[ProviderEvent, None]:
    """Ask, and give the events as they come; the connection is let go of on every way out."""
    asked = _in_words(http, ask)
    for warning in asked.warnings:
        yield warning
    decoder = asked.decoder
    feed = decoder.feed
    async with http.post(asked.path, asked.body, model=asked.model) as reply:
        data = b""
        try:
            while (batch := await reply.batch()) is not None:
                for data in batch:
                    for event in feed(data):
                        yield event
                    if decoder.done:
                        return
            for event in decoder.end():
                yield event
        except VendorFailure as failure:
            if failure.usage is not None:
                yield UsageUpdate(failure.usage)
            raise reply.failed(failure.complaint) from None
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise reply.unreadable(data, error) from error
        if not decoder.done:
            raise StreamCut(
                "the answer ended before it was complete", vendor=http.vendor, request_id=reply.request_id
            )


def _in_words(http: HTTP, ask: Callable[[], Asked]) -> Asked:
    try:
        return ask()
    except UnicodeEncodeError as error:  # a tool that lists files may give names that are no Unicode
        raise BadRequest(
            f"a text cannot be sent: it holds half a character ({error.reason})", vendor=http.vendor
        ) from None
