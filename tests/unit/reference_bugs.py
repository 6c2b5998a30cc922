"""The reference provider with one bug planted in each: what a suite of wires has to find."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import msgspec
from reference_http import EventReader, Exchange, Limits, Pool, Reply, put_away
from reference_provider import Answer, ReferenceProvider

from gnomon.errors import (
    BadReply,
    BadRequest,
    IdleTimeout,
    Overloaded,
    ProviderError,
    ProviderTimeout,
    StreamCut,
)
from gnomon.types.events import Finish, PartEnd, ProviderEvent, StreamWarning, ToolCallStart
from gnomon.types.messages import Part, Text, Thinking, ToolResult
from gnomon.types.requests import Request, Usage


def with_answer(answer: type[Answer]) -> type[ReferenceProvider]:
    return type(answer.__name__, (ReferenceProvider,), {"answers": answer})


def with_exchange(exchange: type[Exchange]) -> type[ReferenceProvider]:
    return type(exchange.__name__, (ReferenceProvider,), {"exchanges": exchange})


def with_reply(reply: type[Reply]) -> type[ReferenceProvider]:
    return with_exchange(type(reply.__name__, (Exchange,), {"replies": reply}))


def with_reader(reader: type[EventReader]) -> type[ReferenceProvider]:
    return with_reply(type(reader.__name__, (Reply,), {"readers": reader}))


# --- in making sense of an answer -------------------------------------------------


@with_answer
class RoutesByNumberOnly(Answer):
    def routed(self, said: dict[str, object]) -> ToolCallStart | None:
        return self.by_number.get(said.get("n"))


@with_answer
class SumsUsage(Answer):
    def counted(self, said: dict[str, int]) -> Usage:
        new, old = super().counted(said), self.usage or Usage()
        return Usage(
            input_tokens=(old.input_tokens or 0) + (new.input_tokens or 0),
            output_tokens=(old.output_tokens or 0) + (new.output_tokens or 0),
        )


@with_answer
class LosesSignature(Answer):
    def signed(self, signature: str) -> ProviderEvent:
        event = super().signed(signature)
        assert isinstance(event, PartEnd)
        return PartEnd(event.index, msgspec.structs.replace(event.part, signature=None))


@with_answer
class RefusesTheUnknown(Answer):
    def take(self, data: bytes) -> Iterator[ProviderEvent]:
        if b"wind" in data:
            raise BadReply("an unknown event", vendor="reference")
        yield from super().take(data)


@with_answer
class PassesOverWhatIsNoJSON(Answer):
    def take(self, data: bytes) -> Iterator[ProviderEvent]:
        with suppress(BadReply):
            yield from super().take(data)


@with_answer
class WaitsForTheCourtesy(Answer):
    """`[DONE]` is not promised."""

    held: Finish | None = None

    def take(self, data: bytes) -> Iterator[ProviderEvent]:
        if data == b"[DONE]":
            self.finish = self.held
        yield from super().take(data)
        if data != b"[DONE]" and self.finish is not None:
            self.held, self.finish = self.finish, None


class MixesAnswers(ReferenceProvider):
    def answer(self, reply: Reply, request: Request) -> Answer:
        self.shared = getattr(self, "shared", None) or super().answer(reply, request)
        return self.shared


# --- in reading bytes ---------------------------------------------------------------


@with_reader
class ReadsPieceByPiece(EventReader):
    """As if every piece were made of whole characters."""

    def feed(self, piece: bytes) -> list[bytes]:
        return super().feed(piece.decode(errors="replace").encode())


@with_reader
class KnowsNoCR(EventReader):
    def feed(self, piece: bytes) -> list[bytes]:
        *lines, last = b"".join([*self.rest, piece]).split(b"\n")
        self.rest = [last]
        found = [self.take(line.removesuffix(b"\r")) for line in lines]
        return [event for event in found if event is not None]


@with_reader
class ForgetsHalfALineEnd(EventReader):
    """The LF in the next piece is taken for a line of its own."""

    def feed(self, piece: bytes) -> list[bytes]:
        self.after_cr = False
        return super().feed(piece)


@with_reader
class WantsASpace(EventReader):
    def take(self, line: bytes) -> bytes | None:
        return super().take(line if line.startswith(b"data: ") or not line else b":")


@with_reader
class TakesOneLineOfData(EventReader):
    def take(self, line: bytes) -> bytes | None:
        event = super().take(line)
        self.data = self.data[-1:]
        return event


@with_reader
class LimitsLines(EventReader):
    def feed(self, piece: bytes) -> list[bytes]:
        if sum(map(len, self.rest)) > 2**20:
            raise BadReply("a line is too long", vendor="reference")
        return super().feed(piece)


@with_reply
class ForgetsToUnpack(Reply):
    def __init__(self, exchange: Exchange, head: bytes) -> None:
        super().__init__(exchange, head.replace(b"content-encoding: gzip", b"x: y"))


@with_reply
class TakesTheRestForAnEvent(Reply):
    """What the end of the bytes has cut off is given out as if it were whole."""

    async def events(self) -> AsyncGenerator[bytes, None]:
        reader = self.readers()
        with suppress(StreamCut):
            async for piece in self.body:
                for event in reader.feed(piece):
                    yield event
        for event in reader.feed(b"\n\n"):
            yield event


class TakesAnyEndForTheEnd(ReferenceProvider):
    def cut(self, answer: Answer) -> Finish:
        return Finish(stop_reason="end_turn", id=answer.id, model=answer.model, usage=answer.usage)


class TakesNothingForAnAnswer(ReferenceProvider):
    def cut(self, answer: Answer) -> Finish:
        return super().cut(answer) if answer.id else Finish(stop_reason="end_turn")


@with_exchange
class LetsErrorsOfTheSystemThrough(Exchange):
    async def read(self, reading: Awaitable[bytes], limit_s: float, error: type[ProviderTimeout]) -> bytes:
        return await self.within(reading, limit_s, error)


# --- in waiting -----------------------------------------------------------------------


def without_limit(name: str) -> type[ReferenceProvider]:
    """It was never built in."""

    class Patient(ReferenceProvider):
        def __init__(self, *, key: str, base_url: str, limits: Limits | None = None) -> None:
            limits = msgspec.structs.replace(limits or Limits(), **dict.fromkeys(name.split(), 300.0))
            super().__init__(key=key, base_url=base_url, limits=limits)

    return Patient


@with_exchange
class OneErrorForAllLimits(Exchange):
    async def within(self, waiting: Awaitable[bytes], limit_s: float, error: type[ProviderTimeout]) -> bytes:
        return await super().within(waiting, limit_s, ProviderTimeout)


@with_reply
class CountsTheReadersRest(Reply):
    """Its clock begins with the last bytes, whoever has been resting since."""

    since: float | None = None

    async def some(self, most: int, *, may_end: bool = False) -> bytes:
        piece = await super().some(most, may_end=may_end)
        self.since = time.monotonic()
        return piece

    async def waited(self, reading: Awaitable[bytes]) -> bytes:
        idle_s = self.exchange.pool.limits.idle_s
        rested_s = time.monotonic() - self.since if self.since else 0.0
        return await self.exchange.read(reading, max(0.001, idle_s - rested_s), IdleTimeout)


class WaitsForTheEndOfTheConnection(ReferenceProvider):
    async def release(self, exchange: Exchange) -> None:
        assert exchange.reply is not None
        await exchange.reply.rest()


class SaysOnlyThatItFailed(ReferenceProvider):
    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        try:
            async for event in super().events(request):
                yield event
        except Overloaded as error:
            raise Overloaded("it failed", vendor=self.name) from error


# --- in letting go --------------------------------------------------------------------


class LeakingPool(Pool):
    def __init__(self, pool: Pool) -> None:
        self.__dict__.update(pool.__dict__)
        self.leaked: list[asyncio.StreamWriter] = []

    async def close(self) -> None:
        await super().close()
        for writer in self.leaked:
            await put_away(writer)


class KeepsConnections(ReferenceProvider):
    """Until it is closed."""

    def exchange(self, body: bytes) -> Exchange:
        if not isinstance(self.pool, LeakingPool):
            self.pool = LeakingPool(self.pool)
        return super().exchange(body)

    @staticmethod
    def keep(exchange: Exchange) -> None:
        if exchange.connection is not None and isinstance(exchange.pool, LeakingPool):
            exchange.pool.leaked.append(exchange.connection[1])
            exchange.connection = None


class _Kept(Exchange):
    async def close(self) -> None:
        KeepsConnections.keep(self)
        await super().close()


class _KeptWhenCancelled(Exchange):
    async def close(self) -> None:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            KeepsConnections.keep(self)
        await super().close()


class LeaksConnections(KeepsConnections):
    exchanges = _Kept


class LeaksWhenCancelled(KeepsConnections):
    exchanges = _KeptWhenCancelled


class ClosesLate(ReferenceProvider):
    """Not before somebody ends it."""

    async def close(self) -> None:
        self.closing = asyncio.create_task(self.close_later())

    async def close_later(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await super().close()


class ConnectsAnew(ReferenceProvider):
    async def release(self, exchange: Exchange) -> None:
        pass


class _Greedy(Pool):
    async def take(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self.host, self.port, limit=2**30)


class ReadsAhead(ReferenceProvider):
    def __init__(self, *, key: str, base_url: str, limits: Limits | None = None) -> None:
        super().__init__(key=key, base_url=base_url, limits=limits)
        self.pool = _Greedy(base_url, self.name, limits or Limits())


# --- in telling errors apart -------------------------------------------------------------


class ShowsKey(ReferenceProvider):
    def clean(self, message: str) -> str:
        return message


class LogsKey(ReferenceProvider):
    def clean(self, message: str) -> str:
        logging.getLogger("reference").debug("the service says %s", message)
        return super().clean(message)


class PutsKeyInTheAddress(ReferenceProvider):
    def exchange(self, body: bytes) -> Exchange:
        return self.exchanges(self.pool, f"/answers?key={self.key}", {}, body)


class TakesAPageForAStream(ReferenceProvider):
    async def check(self, reply: Reply) -> None:
        if reply.status != 200:
            await super().check(reply)


class InsistsOnTheContentType(ReferenceProvider):
    async def check(self, reply: Reply) -> None:
        await super().check(reply)
        if not reply.headers["content-type"].startswith("text/event-stream"):
            raise BadReply("not an event stream", vendor=self.name)


class FollowsRedirects(ReferenceProvider):
    async def check(self, reply: Reply) -> None:
        if place := urlsplit(reply.headers.get("location", "")).port:
            _, writer = await asyncio.open_connection("127.0.0.1", place)
            await put_away(writer)
        await super().check(reply)


class KnowsFewStatuses(ReferenceProvider):
    def failure(
        self,
        code: str,
        message: str,
        request_id: str | None,
        status: int | None = None,
        after: float | None = None,
    ) -> ProviderError:
        if status == 403 and not code:
            return BadRequest(message, vendor=self.name, status=status)
        return super().failure(code, message, request_id, status, after)


@with_reply
class KnowsSecondsOnly(Reply):
    @property
    def retry_after(self) -> float | None:
        with suppress(ValueError):
            return float(self.headers.get("retry-after", ""))
        return None


# --- in what is sent -----------------------------------------------------------------------


class TouchesSignatures(ReferenceProvider):
    def part(self, part: Part, request: Request, warnings: list[str]) -> dict[str, object] | None:
        if isinstance(part, Thinking) and part.signature:
            part = msgspec.structs.replace(part, signature=part.signature.lower())
        return super().part(part, request, warnings)


class SendsThinkingToAnybody(ReferenceProvider):
    def is_own(self, part: Thinking, request: Request) -> bool:
        return True


class DropsThinkingInSilence(ReferenceProvider):
    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        async for event in super().events(request):
            if not isinstance(event, StreamWarning):
                yield event


class DropsSystemMessages(ReferenceProvider):
    def body(self, request: Request) -> tuple[dict[str, object], list[str]]:
        messages = tuple(message for message in request.messages if message.role != "system")
        return super().body(msgspec.structs.replace(request, messages=messages))


class DropsImagesOfTools(ReferenceProvider):
    def part(self, part: Part, request: Request, warnings: list[str]) -> dict[str, object] | None:
        if isinstance(part, ToolResult):
            part = msgspec.structs.replace(part, content=(Text(part.text),))
        return super().part(part, request, warnings)


class DropsToolChoice(ReferenceProvider):
    def body(self, request: Request) -> tuple[dict[str, object], list[str]]:
        return super().body(msgspec.structs.replace(request, tool_choice=None))


class ChangesTheModel(ReferenceProvider):
    def body(self, request: Request) -> tuple[dict[str, object], list[str]]:
        return super().body(msgspec.structs.replace(request, model="ref-small"))


@with_reply
class JoinsWhatCameTogether(Reply):
    """Which deltas there are is a matter of which bytes came together."""

    async def events(self) -> AsyncGenerator[bytes, None]:
        reader = self.readers()
        async for piece in self.body:
            texts, others = list[str](), list[bytes]()
            for event in reader.feed(piece):
                said = msgspec.json.decode(event) if event.startswith(b"{") else {}
                if said.get("t") == "text":
                    texts.append(said["s"])
                else:
                    others.append(event)
            if texts:
                others.insert(
                    1 if b"begin" in others[0] else 0, msgspec.json.encode({"t": "text", "s": "".join(texts)})
                )
            for event in others:
                yield event
