"""A model service."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from typing import Protocol, runtime_checkable

from gnomon.stream import Stream
from gnomon.types.events import ProviderEvent
from gnomon.types.messages import Message, ToolDef
from gnomon.types.requests import Request, Response

__all__ = ["Provider", "SupportsModels", "SupportsTokenCount"]


class Provider(ABC):
    """A model service that answers a request with a stream of events.

    Stable since 0.1.

    An implementation writes `events`, one async generator; `stream` and
    `complete` are derived from it, so the two ways of asking cannot drift apart.

    - `name` must be the registry's name and `model` the model that is asked
      when a request names none.
    - `events` must read from the network only as fast as it is asked (S1).
    - `events` must yield, for each tool call, one `ToolCallStart`, its deltas and
      one `ToolCallEnd`, under an id unique in the response, made up when the
      vendor gives none (S3, S4).
    - `ToolCallEnd` must carry complete JSON text, `{}` for none, or a call marked
      truncated (S5).
    - `events` must yield `Finish` last and end without waiting for the connection
      to close, or raise one `ProviderError`; ending without either is taken as
      `StreamCut` (S6, S16).
    - closing the generator must close the connection; no task, socket or file may
      be left (S7).
    - a time limit or a task group must not be held open across a `yield`: the reader
      may ask for each event from another task.
    - connect, first byte, silence between chunks and the whole must each have a
      limit, and each must raise its own `ProviderTimeout` (S8).
    - signatures and vendor data must return byte for byte to the vendor and model
      that made them, and must be dropped or turned into text, with a
      `StreamWarning`, for another (S9).
    - bytes may be split anywhere, also inside a character, a line end or a JSON
      token, and lines may be long; that must make no difference (S10).
    - an unknown vendor event or field must not fail the stream (S11).
    - errors must say vendor, status and request id, and must not contain a key (S12).
    - what the vendor cannot carry must be moved, rewritten or refused with a
      `StreamWarning` or an error, never in silence (S13).
    - images and audio, by URL or by value, must really be sent where the vendor
      takes them (S14).
    - a provider that falls back on others must choose by error class, must give each
      its own model, and after the first visible event may start again only behind
      an `AttemptDiscarded` (S15).
    - a status, or an error inside a stream that began well, must become the one
      error class that stands for it, and a provider may be told to retry nothing
      itself (S17).
    - usage must be a snapshot in classes that do not overlap; what was not
      reported must be `None` (U1 to U3).
    - `close` must be safe to call twice.
    """

    name: str
    model: str

    @abstractmethod
    def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        """The answer to one request, event by event; `Finish` is the last."""

    def stream(self, request: Request) -> Stream:
        """The answer as a checked stream. Nothing is asked before the first event is."""
        return Stream(self.events(request), provider=self.name, model=request.model or self.model)

    async def complete(self, request: Request) -> Response:
        """The answer as a whole: the stream, folded."""
        async with self.stream(request) as stream:
            async for _ in stream:
                pass
            return stream.response

    async def close(self) -> None:  # noqa: B027 - most providers hold nothing open
        """Let go of pooled connections."""


@runtime_checkable
class SupportsModels(Protocol):
    """A provider that can say which models it serves."""

    async def list_models(self) -> tuple[str, ...]: ...


@runtime_checkable
class SupportsTokenCount(Protocol):
    """A provider whose vendor counts tokens of a prompt exactly."""

    async def count_tokens(self, messages: tuple[Message, ...], tools: tuple[ToolDef, ...]) -> int: ...
