"""HTTP to model services: one exchange, its time limits, and what can go wrong with it.

A provider posts a body and takes the events of the reply in batches, as they
arrive; leaving the block closes the connection, whatever happened:

    async with http.post("/chat", body) as reply:
        while (batch := await reply.batch()) is not None:
            for data in batch:
                …
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TypeVar, cast
from urllib.parse import urlsplit

import msgspec

from gnomon._complaint import Complaint, complaint_from, complaint_in, retry_after_in
from gnomon._sse import LineReader, SSEReader
from gnomon._status import failure
from gnomon._token import TokenSource
from gnomon._transport import STALE_S, Incoming, Limits, Outgoing, Transport
from gnomon.errors import (
    BadReply,
    ConfigError,
    IdleTimeout,
    ProviderError,
    ProviderTimeout,
    TotalTimeout,
    scrub,
)

__all__ = ["HTTP", "Exchange", "Limits", "Reply"]

_T = TypeVar("_T")

SETTLE_S = 0.02
"""How long the end of a reply may take after its last event, for the connection to be used again."""

_ERROR_S = 5.0  # for the words of an error; whoever waits for it waits to try again
_SHORTEST_SECRET = 8
_LONGEST_SECRET = 10_000
_MOST_ERROR_BYTES = 256 * 1024
_MOST_WHOLE_BYTES = 64 * 1024 * 1024


# --- one vendor ---------------------------------------------------------------


class HTTP:
    """The way to one vendor: its address, what every request carries, and its limits."""

    streams_lines = False
    """Whether answers are lines of JSON, also where something in between does not call them so."""

    def __init__(
        self,
        base_url: str,
        *,
        vendor: str,
        headers: Mapping[str, str] | None = None,
        secrets: tuple[str, ...] = (),
        token: TokenSource | None = None,
        authorised: bool = False,
        limits: Limits | None = None,
        proxy: str | None = None,
        ca: str | None = None,
        transport: Transport | None = None,
    ) -> None:
        self.vendor = vendor
        self.base_url = checked_url(base_url, vendor)
        self.limits = limits or Limits()
        self.authorised = authorised
        """Whether requests carry what the vendor knows its customers by: a key, a token, a header for it."""
        self._headers = {"content-type": "application/json", "accept": "application/json", **(headers or {})}
        self._headers.setdefault("user-agent", "gnomon")
        # "none" or "x", as a local server is content with, is no secret, and is a part of other words.
        self._secrets = tuple(secret for secret in secrets if len(secret) >= _SHORTEST_SECRET)
        self._token = token
        self._proxy = proxy
        self._ca = ca
        self._transport = transport

    def post(self, path: str, body: bytes, *, model: str | None = None) -> Exchange:
        """An exchange whose reply is a stream of events."""
        return Exchange(self, self._outgoing("POST", path, body), model)

    async def get_as(self, path: str, kind: type[_T]) -> _T:
        """A reply as a whole, read as this type."""
        async with Exchange(self, self._outgoing("GET", path, b""), None) as reply:
            return reply.read_as(await reply.whole(), kind)

    async def close(self) -> None:
        """Let go of the connections. May be called twice, and the next request opens new ones."""
        if self._transport is not None:
            await self._transport.close()

    @property
    def transport(self) -> Transport:
        if self._transport is None:
            from gnomon._aiohttp import AiohttpTransport  # slow to import: at the first request

            self._transport = AiohttpTransport()
        return self._transport

    def without_secrets(self, text: str) -> str:
        recent = self._token.recent if self._token else ()
        for secret in (*self._secrets, *(token for token in recent if len(token) >= _SHORTEST_SECRET)):
            text = text.replace(secret, "[redacted]")
        return text

    def quoted(self, text: str, most: int) -> str:
        """Its beginning. Secrets go first: half a secret is not recognised any more."""
        return scrub(self.without_secrets(text[: most + _LONGEST_SECRET]))[:most]

    def request_id_in(self, headers: Mapping[str, str]) -> str | None:
        """By any of the names that vendors give it."""
        names = (
            "apim-request-id",
            "mistral-correlation-id",
            "x-request-id",
            "request-id",
            "x-goog-request-id",
        )
        found = next((headers[name] for name in names if headers.get(name)), None)
        return found and self.without_secrets(found)

    def failed(
        self,
        complaint: Complaint,
        *,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        model: str | None = None,
    ) -> ProviderError:
        """The error for what a reply, or an event inside it, complains of."""
        said = headers or {}
        clean = msgspec.structs.replace(
            complaint,
            message=self.without_secrets(complaint.message),
            code=complaint.code and self.without_secrets(complaint.code),
            kind=complaint.kind and self.without_secrets(complaint.kind),
            request_id=complaint.request_id and self.without_secrets(complaint.request_id),
        )
        return failure(
            self.vendor,
            clean,
            status=status,
            request_id=self.request_id_in(said),
            retry_after=retry_after_in(said),
            model=model,
        )

    def open(self, call: Outgoing) -> Awaitable[Incoming]:
        """Send it, first with a token that holds now where the key is one that has to be fetched."""
        return self.transport.open(call) if self._token is None else self._open_with(self._token, call)

    async def _open_with(self, token: TokenSource, call: Outgoing) -> Incoming:
        name, value = await token.header(call.limits.connect_s)
        return await self.transport.open(msgspec.structs.replace(call, headers={**call.headers, name: value}))

    def _outgoing(self, method: str, path: str, body: bytes) -> Outgoing:
        return Outgoing(
            method=method,
            url=self.base_url + path,
            headers=self._headers,
            body=body,
            limits=self.limits,
            proxy=self._proxy,
            ca=self._ca,
        )


def checked_url(text: str, vendor: str) -> str:
    """The base URL without its last slash; a clear error when it is none."""
    shown = text.rpartition("@")[2].partition("?")[0]  # a password stands before it, a signature after
    if not _is_address(text):
        raise ConfigError(
            f"base_url {shown!r} of provider {vendor!r} is not a web address",
            hint="write it with its scheme, such as http://127.0.0.1:8080/v1",
        )
    if "@" in urlsplit(text).netloc:
        raise ConfigError(
            f"base_url {shown!r} of provider {vendor!r} holds a name or a password",
            hint='set it as a header: headers = { authorization = "Basic …" }',
        )
    if "?" in text or "#" in text:
        raise ConfigError(
            f"base_url {shown!r} of provider {vendor!r} holds more than an address: a path is put behind it",
            hint="leave out what follows the ? or the #",
        )
    return text.rstrip("/")


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return usable and text.isprintable() and " " not in text  # which the splitting passes over


# --- one exchange -------------------------------------------------------------


class Exchange:
    """Sends when it is entered, and lets go of the connection when it is left."""

    __slots__ = ("_call", "_http", "_model", "_reply")

    def __init__(self, http: HTTP, call: Outgoing, model: str | None) -> None:
        self._http = http
        self._call = call
        self._model = model
        self._reply: Reply | None = None

    async def __aenter__(self) -> Reply:
        limits = self._call.limits
        deadline = asyncio.get_running_loop().time() + limits.total_s
        try:
            if limits.total_s > 2 * limits.connect_s + limits.first_byte_s + STALE_S:
                incoming = await self._http.open(self._call)  # their limits come first
            else:
                incoming = await self._opened_by(deadline)
        except ProviderError as error:
            raise _named(error, self._http.vendor) from error.__cause__
        reply = self._reply = Reply(self._http, incoming, deadline, self._model)
        if not 200 <= incoming.status < 300:
            try:
                raise await reply.refusal()
            finally:
                reply.abort()
        return reply

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._reply is None:
            return
        try:
            if kind is None and not self._reply.is_over():
                await self._reply.settle()
        finally:
            self._reply.abort()

    async def _opened_by(self, deadline: float) -> Incoming:
        try:
            async with asyncio.timeout_at(deadline):
                return await self._http.open(self._call)
        except TimeoutError:
            raise TotalTimeout(f"no answer within {self._call.limits.total_s:g} s") from None


def _named(error: ProviderError, vendor: str) -> ProviderError:
    error.vendor = error.vendor or vendor
    return error


class Reply:
    """The answer as it comes: events in batches, under the limits on silence and on the whole."""

    def __init__(self, http: HTTP, incoming: Incoming, deadline: float, model: str | None) -> None:
        self.status = incoming.status
        self.headers = incoming.headers
        self._http = http
        self._model = model
        self._incoming = incoming
        self._reader: SSEReader | LineReader | None = None
        self._ended = False
        self._loop = asyncio.get_running_loop()
        self._deadline = deadline
        self._idle_s = http.limits.idle_s
        self._waiting_since = 0.0  # zero: nobody waits
        self._late: ProviderTimeout | None = None
        self._timer = self._loop.call_at(
            min(self._loop.time() + self._idle_s, deadline), self._look_at_the_time
        )

    @property
    def request_id(self) -> str | None:
        return self._http.request_id_in(self.headers)

    async def batch(self) -> list[bytes] | None:
        """The data of the events that came together, one at least; `None` at the end."""
        while piece := await self._read():
            if self._reader is None:
                label = self.headers.get("content-type", "").lower()
                self._reader = _reader_for(label, piece, lines=self._http.streams_lines)
                if self._reader is None:
                    raise await self._no_stream(piece)
            if found := self._reader.feed(piece):
                return found
        if isinstance(self._reader, LineReader) and (last := self._reader.end()):
            return last
        return None

    async def whole(self, most_bytes: int = _MOST_WHOLE_BYTES) -> bytes:
        """The body, or as much of it as may be."""
        pieces: list[bytes] = []
        await self._collect(pieces, most_bytes)
        return b"".join(pieces)[:most_bytes]

    async def _collect(self, pieces: list[bytes], most_bytes: int) -> None:
        """Into a list of the caller's: what has come is there also when the rest fails."""
        size = 0
        while size < most_bytes and (piece := await self._read()):
            pieces.append(piece)
            size += len(piece)

    def read_as(self, body: bytes, kind: type[_T]) -> _T:
        """The body as this type, or the error that says whose answer it is not."""
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise self._not_an_answer(f"the answer cannot be read: {error}") from error

    def failed(self, complaint: Complaint) -> ProviderError:
        """The error for a complaint that came inside the answer."""
        return self._http.failed(complaint, headers=self.headers, model=self._model)

    def unreadable(self, data: bytes, cause: Exception) -> ProviderError:
        """The error for an event that is not what the vendor's API says."""
        shown = self._http.quoted(data[: 120 + 4 * _LONGEST_SECRET].decode(errors="replace"), 120)
        return BadReply(
            f"an event of the answer cannot be read: {cause}; it begins {shown!r}",
            vendor=self._http.vendor,
            request_id=self.request_id,
            retryable=True,  # bytes that were mangled once need not be the next time
        )

    async def refusal(self) -> ProviderError:
        """The error for a status that is none of success."""
        pieces: list[bytes] = []
        with suppress(ProviderError, TimeoutError):  # the status, and what has come, say enough
            async with asyncio.timeout(_ERROR_S):
                await self._collect(pieces, _MOST_ERROR_BYTES)
        body = b"".join(pieces)
        if self.status < 400:
            return self._not_an_answer(f"status {self.status} leads to {self.headers.get('location')!r}")
        return self._http.failed(
            complaint_in(body), status=self.status, headers=self.headers, model=self._model
        )

    def is_over(self) -> bool:
        """Whether the end has come, so that the connection can be used again."""
        if not self._ended:
            self._ended = self._incoming.is_at_end()
        return self._ended

    async def settle(self) -> None:
        """Read the end that follows the last event."""
        self._timer.cancel()
        try:
            async with asyncio.timeout(SETTLE_S):
                while await self._read():
                    pass
        except (TimeoutError, ProviderError):
            pass

    def abort(self) -> None:
        self._timer.cancel()
        if not self._ended:
            self._ended = True
            self._incoming.abort()

    async def _read(self) -> bytes:
        if self._late is not None:
            raise self._late
        self._waiting_since = self._loop.time()
        try:
            piece = await self._incoming.read()
        except ProviderError as error:
            error.request_id = error.request_id or self.request_id
            raise _named(error, self._http.vendor) from error.__cause__
        finally:
            self._waiting_since = 0.0
        if not piece:
            self._ended = True
        return piece

    def _look_at_the_time(self) -> None:
        """One timer for both limits, and none of it to be set again for each piece that comes."""
        now = self._loop.time()
        waiting_until = (self._waiting_since or now) + self._idle_s
        if now >= self._deadline:
            self._give_up(TotalTimeout(f"the answer took longer than {self._http.limits.total_s:g} s"))
        elif self._waiting_since and now >= waiting_until:
            self._give_up(IdleTimeout(f"the answer fell silent for {self._idle_s:g} s"))
        else:
            self._timer = self._loop.call_at(min(waiting_until, self._deadline), self._look_at_the_time)

    def _give_up(self, error: ProviderTimeout) -> None:
        self._late = error
        error.vendor, error.request_id = self._http.vendor, self.request_id
        self._incoming.abort(error)

    async def _no_stream(self, first: bytes) -> ProviderError:
        body = first + await self.whole(_MOST_ERROR_BYTES)
        label = self.headers.get("content-type", "")
        try:
            said: object = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            words = self._http.quoted(complaint_in(body).message, 200)
            return self._not_an_answer(f"the service sent {label or 'something'} that says {words!r}")
        if isinstance(said, Mapping) and _is_complaint(cast("Mapping[str, object]", said)):
            return self.failed(complaint_from(cast(object, said)))
        return self._not_an_answer(f"the service sent one piece of {label or 'JSON'} instead of a stream")

    def _not_an_answer(self, what: str) -> ProviderError:
        return BadReply(
            self._http.without_secrets(what),
            vendor=self._http.vendor,
            status=self.status,
            request_id=self.request_id,
            hint=f"is {self._http.base_url} the right base_url?",
        )


def _reader_for(label: str, first: bytes, *, lines: bool = False) -> SSEReader | LineReader | None:
    """By the content where the label is not plain: a page or an object is no stream of events."""
    if label.startswith("text/event-stream"):
        return SSEReader()
    if "ndjson" in label or "jsonl" in label or "json-seq" in label:
        return LineReader()
    if lines and label.partition(";")[0].strip() in _VAGUE:
        return LineReader()
    return None if first.lstrip()[:1] in (b"{", b"[", b"<") else SSEReader()


_VAGUE = ("", "text/plain", "application/octet-stream")


def _is_complaint(said: Mapping[str, object]) -> bool:
    return "error" in said or "error" in (said.get("object"), said.get("type"))
