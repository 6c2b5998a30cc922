"""A small provider on a wire of its own, written to be plain: what the suite of wires is tried on.

It asks `POST /answers` and reads an event stream of JSON objects, told apart by `t`: `begin`, `text`,
`think`, `sign`, `redacted`, `call`, `calls`, `usage`, `error`, and `end`, which is the final one; a
`[DONE]` after it is a courtesy. Every step that a provider can get wrong is a method of its own.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from secrets import token_hex

import msgspec
from reference_http import Exchange, Limits, Pool, Reply

from gnomon.contracts.provider import Provider
from gnomon.errors import (
    BadReply,
    BadRequest,
    ContextTooLong,
    ModelNotFound,
    Overloaded,
    ProviderError,
    RateLimited,
    StreamCut,
    Unauthorized,
)
from gnomon.types.events import (
    Finish,
    PartEnd,
    ProviderEvent,
    StreamWarning,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    UsageUpdate,
)
from gnomon.types.messages import Part, Text, Thinking, ToolCall, ToolResult, UnknownPart
from gnomon.types.requests import Request, StopReason, Usage

_STOPS: dict[str, StopReason] = {
    "stop": "end_turn",
    "calls": "tool_use",
    "limit": "max_tokens",
    "sequence": "stop_sequence",
    "filter": "content_filter",
    "refusal": "refusal",
}
_BY_CODE: dict[str, type[ProviderError]] = {
    "bad_key": Unauthorized,
    "not_yours": Unauthorized,
    "no_model": ModelNotFound,
    "bad_field": BadRequest,
    "too_long": ContextTooLong,
    "slow_down": RateLimited,
    "no_credit": RateLimited,
    "failed": Overloaded,
    "busy": Overloaded,
}
_BY_STATUS: dict[int, type[ProviderError]] = {
    401: Unauthorized,
    403: Unauthorized,
    404: ModelNotFound,
    408: Overloaded,
    413: ContextTooLong,
    429: RateLimited,
}


class ReferenceProvider(Provider):
    name = "reference"
    exchanges: type[Exchange] = Exchange
    answers: type[Answer]

    def __init__(self, *, key: str, base_url: str, limits: Limits | None = None) -> None:
        self.model = "ref-large"
        self.key = key
        self.pool = Pool(base_url, self.name, limits or Limits())

    async def close(self) -> None:
        await self.pool.close()

    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        body, warnings = self.body(request)
        for warning in warnings:
            yield StreamWarning(warning)
        exchange = self.exchange(msgspec.json.encode(body))
        try:
            reply = await exchange.ask()
            await self.check(reply)
            answer = self.answer(reply, request)
            async with aclosing(reply.events()) as events:
                async for data in events:
                    for event in answer.take(data):
                        yield event
                    if answer.finish is not None:
                        yield answer.finish
                        await self.release(exchange)
                        return
            yield self.cut(answer)
        finally:
            await exchange.close()

    def cut(self, answer: Answer) -> Finish:
        raise StreamCut("the stream ended before its end event", vendor=self.name)

    async def release(self, exchange: Exchange) -> None:
        await exchange.release()

    def exchange(self, body: bytes) -> Exchange:
        headers = {"authorization": f"Bearer {self.key}", "content-type": "application/json"}
        return self.exchanges(self.pool, "/answers", headers, body)

    def answer(self, reply: Reply, request: Request) -> Answer:
        return self.answers(self, request.model or self.model, reply.request_id)

    # --- what goes wrong

    async def check(self, reply: Reply) -> None:
        kind = reply.headers.get("content-type", "")
        if reply.status == 200 and "html" not in kind and "json" not in kind:
            return
        body = await reply.rest()
        error = _error_in(body)
        if 300 <= reply.status < 400 or (reply.status == 200 and error is None):
            raise BadReply(f"not an answer: {kind or 'no content'}", vendor=self.name, status=reply.status)
        code, message = error or ("", body.decode(errors="replace")[:200] or reply.reason)
        raise self.failure(code, message, reply.request_id, reply.status, reply.retry_after)

    def failure(
        self,
        code: str,
        message: str,
        request_id: str | None,
        status: int | None = None,
        after: float | None = None,
    ) -> ProviderError:
        by_status = _BY_STATUS.get(status or 0, Overloaded if (status or 500) >= 500 else BadRequest)
        return _BY_CODE.get(code, by_status)(
            self.clean(message),
            vendor=self.name,
            status=status,
            vendor_code=code or None,
            request_id=request_id,
            retry_after=after,
            retryable=False if code == "no_credit" else None,
        )

    def clean(self, message: str) -> str:
        return message.replace(self.key, "[your key]")

    # --- what is sent

    def body(self, request: Request) -> tuple[dict[str, object], list[str]]:
        warnings: list[str] = []
        body: dict[str, object] = {
            name: msgspec.to_builtins(getattr(request, name))
            for name in request.__struct_fields__
            if name != "messages" and getattr(request, name) not in (None, (), {})
        }
        body["model"] = request.model or self.model
        body["messages"] = [
            {
                "role": message.role,
                "name": message.name,
                "content": self.parts(message.content, request, warnings),
            }
            for message in request.messages
        ]
        return body, warnings

    def parts(self, parts: tuple[Part, ...], request: Request, warnings: list[str]) -> list[object]:
        sent = [self.part(part, request, warnings) for part in parts]
        return [part for part in sent if part is not None]

    def part(self, part: Part, request: Request, warnings: list[str]) -> dict[str, object] | None:
        match part:
            case Text():
                return {"kind": "text", "text": part.text}
            case Thinking():
                if self.is_own(part, request):
                    return {"kind": "think", "signature": part.signature, "redacted": part.redacted}
                warnings.append("thinking of another model was left out")
                return None
            case ToolCall():
                return {"kind": "call", "id": part.id, "name": part.name, "args": part.arguments}
            case ToolResult():
                inner = self.parts(part.content, request, warnings)
                return {"kind": "result", "id": part.call_id, "status": part.status, "content": inner}
            case UnknownPart():
                warnings.append(f"a part of kind {part.kind!r} was left out")
                return None
            case _:
                data = base64.b64encode(part.data).decode() if part.data else None
                return {"kind": "media", "type": part.media_type, "data": data, "url": part.url}

    def is_own(self, part: Thinking, request: Request) -> bool:
        return part.provider == self.name and part.model == (request.model or self.model)


class Answer:
    """One answer in the making: what the wire says, as events of ours."""

    def __init__(self, provider: ReferenceProvider, model: str, request_id: str | None) -> None:
        self.provider = provider
        self.asked = model
        self.request_id = request_id
        self.finish: Finish | None = None
        self.usage: Usage | None = None
        self.id = self.model = ""
        self.blocks: list[list[str]] = []
        self.open = ""  # what the last block is
        self.calls: dict[str, ToolCallStart] = {}
        self.by_number: dict[object, ToolCallStart] = {}

    def take(self, data: bytes) -> Iterator[ProviderEvent]:
        if data == b"[DONE]":
            return
        try:
            said = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise BadReply(f"data that is no JSON: {error}", vendor=self.provider.name) from error
        match said.get("t"):
            case "begin":
                self.id, self.model = said["id"], said["model"]
            case "text":
                yield TextDelta(self.block("text", said["s"]), said["s"])
            case "think":
                yield ThinkingDelta(self.block("think", said["s"]), said["s"])
            case "sign":
                yield self.signed(said["signature"])
            case "redacted":
                self.open = ""
                part = Thinking(redacted=said["data"], provider=self.provider.name, model=self.asked)
                yield PartEnd(self.block("redacted", ""), part)
            case "call":
                yield from self.call(said)
            case "calls":
                for call in said["calls"]:
                    yield from self.call(call)
            case "usage":
                self.usage = self.counted(said)
                yield UsageUpdate(self.usage)
            case "error":
                raise self.provider.failure(said["code"], said["message"], self.request_id)
            case "end":
                yield from self.ended(said["why"])
            case _:
                pass  # of a kind that came later than this reader

    def block(self, kind: str, text: str) -> int:
        if self.open != kind:
            self.open = kind
            self.blocks.append([])
        self.blocks[-1].append(text)
        return len(self.blocks) - 1

    def signed(self, signature: str) -> ProviderEvent:
        index, self.open = len(self.blocks) - 1, ""
        text = "".join(self.blocks[index])
        return PartEnd(index, Thinking(text, signature, provider=self.provider.name, model=self.asked))

    def counted(self, said: dict[str, int]) -> Usage:
        names = {"read": "input_tokens", "written": "output_tokens", "cached": "cache_read_tokens"}
        names["thought"] = "reasoning_tokens"
        return Usage(**{name: said[key] for key, name in names.items() if key in said})

    def call(self, said: dict[str, object]) -> Iterator[ProviderEvent]:
        start = self.routed(said)
        if start is None:
            call_id = str(said.get("id") or f"call_{token_hex(8)}")
            self.open = ""
            start = ToolCallStart(self.block("call", ""), call_id, str(said["name"]))
            self.open = ""
            self.calls[call_id] = start
            yield start
        self.by_number[said.get("n")] = start
        if text := str(said.get("args") or ""):
            self.blocks[start.index].append(text)
            yield ToolCallDelta(start.index, start.id, text)

    def routed(self, said: dict[str, object]) -> ToolCallStart | None:
        """The call that a delta belongs to: by its id, else by its number; a new name is a new call."""
        if said.get("id"):
            return self.calls.get(str(said["id"]))
        return None if said.get("name") else self.by_number.get(said.get("n"))

    def ended(self, why: str) -> Iterator[ProviderEvent]:
        for start in self.calls.values():
            text = "".join(self.blocks[start.index])
            truncated = not _is_json(text) if text else why == "limit"
            arguments = text if text or truncated else "{}"
            yield ToolCallEnd(
                start.index, ToolCall(start.id, start.name, arguments, start.index, truncated=truncated)
            )
        self.finish = Finish(
            stop_reason=_STOPS.get(why, "other"),
            raw_stop_reason=why,
            id=self.id,
            model=self.model,
            usage=self.usage,
        )


ReferenceProvider.answers = Answer


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return True


def _error_in(body: bytes) -> tuple[str, str] | None:
    try:
        error = msgspec.json.decode(body)["error"]
        return str(error["code"]), str(error["message"])
    except (msgspec.DecodeError, UnicodeError, KeyError, TypeError):
        return None
