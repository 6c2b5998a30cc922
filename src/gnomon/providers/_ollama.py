"""The lines that Ollama's chat API streams, as our events.

A line brings a piece of text or thinking, or whole tool calls; the last one says why the answer
ended and what it took. There is one text and one thought in an answer, however they take turns:
that is how they are sent back.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from typing import TypeAlias, cast

import msgspec

from gnomon._complaint import complaint_from
from gnomon.providers._calls import ended_call, made_up_id
from gnomon.providers._converse import VendorFailure
from gnomon.types._media import media_type_of
from gnomon.types.events import (
    Finish,
    PartEnd,
    ProviderEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    UsageUpdate,
)
from gnomon.types.messages import Image, Meta, Part, Thinking, UnknownPart
from gnomon.types.requests import StopReason, Usage

__all__ = ["OllamaDecoder"]

_Events: TypeAlias = Sequence[ProviderEvent]


# --- the wire -----------------------------------------------------------------------
# What JSON brings has no cycles, so the garbage collector need not look at it.


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw()


class _Call(msgspec.Struct, gc=False):
    id: object = None
    function: _Function | None = None


class _Message(msgspec.Struct, gc=False):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[_Call] | None = None
    images: list[str] | None = None


class _Chunk(msgspec.Struct, gc=False):
    message: _Message | None = None
    done: bool | None = None
    error: object = None
    model: str | None = None
    done_reason: str | None = None
    prompt_eval_count: object = None
    prompt_eval_cached_count: object = None
    eval_count: object = None


_decode = msgspec.json.Decoder(_Chunk).decode
_HALF, _HALF_A_NUMBER = "Input data was truncated", "invalid number"  # as the decoder says it


# --- reading ------------------------------------------------------------------------


class OllamaDecoder:
    """The lines of one answer."""

    def __init__(self, vendor: str, model: str) -> None:
        self.done = False
        self._vendor = vendor
        self._model = model
        self._blocks = 0
        self._text = self._thinking = -1  # the block of each, once it is open
        self._thought: list[str] = []
        self._ids: set[str] = set()
        self._half = False

    def feed(self, data: bytes) -> _Events:
        try:
            chunk = _decode(data)
        except msgspec.ValidationError:
            return _odd(data)
        except msgspec.DecodeError as error:
            return self._unread(data, error)
        said = chunk.message
        if said is None or said.thinking or said.tool_calls or said.images or self._text < 0 or chunk.done:
            return self._events(chunk)
        if chunk.error is not None or self._half:
            return self._events(chunk)
        return (TextDelta(self._text, said.content),) if said.content else ()  # what a token costs

    def end(self) -> _Events:
        return ()

    def _events(self, chunk: _Chunk) -> _Events:
        if self._half:
            raise msgspec.DecodeError("the line before it breaks off")
        if chunk.error is not None:
            raise _complaint(chunk.error)
        out: list[ProviderEvent] = []
        if chunk.message is not None:
            self._take(chunk.message, out)
        if chunk.done:
            self._finish(chunk, out)
        return out

    def _unread(self, data: bytes, error: msgspec.DecodeError) -> _Events:
        """Half a line is where the bytes have ended, which is told as that; it is none if more comes."""
        said = str(error)
        half = said.startswith(_HALF) or (_HALF_A_NUMBER in said and not data.endswith(b"}"))
        if self._half or not half:
            raise error
        self._half = True
        return ()

    # One small function a kind of thing that comes. `out` is what has become of the line so far.

    def _take(self, said: _Message, out: list[ProviderEvent]) -> None:
        if said.thinking:
            self._think(said.thinking, out)
        if said.content:
            if self._text < 0:
                self._text = self._new_block()
            out.append(TextDelta(self._text, said.content))
        for image in said.images or ():
            out.append(PartEnd(self._new_block(), _picture(image)))
        for call in said.tool_calls or ():
            if call.function is not None:
                self._call(call.id, call.function, out)

    def _think(self, text: str, out: list[ProviderEvent]) -> None:
        if self._thinking < 0:
            self._thinking = self._new_block()
        self._thought.append(text)
        out.append(ThinkingDelta(self._thinking, text))

    def _call(self, given_id: object, function: _Function, out: list[ProviderEvent]) -> None:
        """Every entry is a whole call: an id that is in use already is none for this one (S3)."""
        name, arguments = function.name or "", _argument_text(function.arguments)
        is_new = isinstance(given_id, str) and given_id and given_id not in self._ids
        call_id = str(given_id) if is_new else made_up_id()
        self._ids.add(call_id)
        block = self._new_block()
        out.append(ToolCallStart(block, call_id, name))
        if arguments:
            out.append(ToolCallDelta(block, call_id, arguments))
        out.append(ToolCallEnd(block, ended_call(call_id, name, arguments, block)))

    def _finish(self, chunk: _Chunk, out: list[ProviderEvent]) -> None:
        self.done = True
        if self._thinking >= 0:
            thought = Thinking("".join(self._thought), provider=self._vendor, model=self._model)
            out.append(PartEnd(self._thinking, thought))
        usage = _usage(chunk)
        if usage is not None:
            out.append(UsageUpdate(usage))
        reason = chunk.done_reason or None
        stopped = _REASONS.get(reason, "other") if reason else "end_turn"
        out.append(Finish(stop_reason=stopped, raw_stop_reason=reason, model=chunk.model or None))

    def _new_block(self) -> int:
        self._blocks += 1
        return self._blocks - 1


# `load` and `unload` answer a request that says nothing.
_REASONS: dict[str, StopReason] = {"stop": "end_turn", "length": "max_tokens"}


def _odd(data: bytes) -> _Events:
    """No line of an answer: a complaint in a form of its own, or what cannot be read."""
    said: object = msgspec.json.decode(data)
    if isinstance(said, dict) and cast(Meta, said).get("error"):
        raise _complaint(cast(Meta, said)["error"])
    _decode(data)  # which says what is wrong with it
    return ()


def _complaint(error: object) -> VendorFailure:
    return VendorFailure(complaint_from({"error": error}))


def _argument_text(arguments: msgspec.Raw) -> str:
    """The object as it stands in the line; a few servers send it as a text."""
    text = bytes(arguments).decode()
    if text.startswith('"'):
        return msgspec.json.decode(text, type=str)
    return "" if text == "null" else text


def _picture(text: str) -> Part:
    try:
        data = b64decode(text, validate=True)
    except ValueError:
        return UnknownPart("ollama.image", {"data": text})
    return Image(data=data, media_type=media_type_of(data))


def _usage(chunk: _Chunk) -> Usage | None:
    """What came out of the cache is a part of the prompt, as Ollama counts it (U1)."""
    prompt, cached = _count(chunk.prompt_eval_count), _count(chunk.prompt_eval_cached_count)
    output = _count(chunk.eval_count)
    if prompt is None and cached is None and output is None:
        return None
    fresh = prompt if prompt is None or cached is None else max(0, prompt - cached)
    return Usage(input_tokens=fresh, output_tokens=output, cache_read_tokens=cached)


def _count(found: object) -> int | None:
    return found if type(found) is int else None
