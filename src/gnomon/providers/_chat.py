"""Chat Completions, as OpenAI and the many servers like it stream them: chunks in, our events out.

A delta of a tool call belongs to its id, else to its index, else to the call being
streamed, and a new id opens a new call (S4). What servers do differently is data
in `ChatQuirks`; what they all do now and then is read leniently for everybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, cast

import msgspec

from gnomon._complaint import Complaint, complaint_from
from gnomon.providers._calls import ended_call
from gnomon.providers._chat_calls import CallRouter, OpenCall
from gnomon.providers._chat_quirks import ChatQuirks
from gnomon.providers._chat_usage import usage_in
from gnomon.providers._converse import VendorFailure
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
from gnomon.types.messages import Meta, Text, Thinking, ToolCall
from gnomon.types.requests import StopReason, Usage

__all__ = ["ChatDecoder", "ChatQuirks"]


_OPENAI = ChatQuirks()


# --- the wire -------------------------------------------------------------------
# A field whose type servers disagree about is read as an object and looked at after. What JSON
# brings has no cycles, so the garbage collector need not look at it.


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: object = None


class _CallDelta(msgspec.Struct, gc=False):
    index: object = None
    id: object = None
    function: _Function | None = None
    extra_content: object = None


class _Delta(msgspec.Struct, gc=False):
    content: object = None
    tool_calls: list[_CallDelta] | None = None
    reasoning_content: object = None
    reasoning: object = None
    reasoning_details: object = None
    refusal: str | None = None
    function_call: _Function | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    index: object = 0
    finish_reason: str | None = None
    stop_reason: object = None
    error: object = None
    message: _Delta | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: object = None
    id: object = None
    model: object = None
    error: object = None
    x_groq: object = None


_decode = msgspec.json.Decoder(_Chunk).decode


# A chunk that brings text and nothing else that matters, as nearly all do: where one is read as
# this, there is nothing left to ask of it. Anything else is refused, and read as the above.

_Nothing: TypeAlias = Literal[""] | None


class _PureDelta(msgspec.Struct, gc=False):
    content: str
    tool_calls: None = None
    reasoning_content: _Nothing = None
    reasoning: _Nothing = None
    reasoning_details: None = None
    refusal: _Nothing = None
    function_call: None = None


class _PureChoice(msgspec.Struct, gc=False):
    delta: _PureDelta
    index: Literal[0] = 0
    finish_reason: _Nothing = None
    error: None = None


class _PureChunk(msgspec.Struct, gc=False):
    choices: tuple[_PureChoice]
    usage: None = None
    error: None = None
    x_groq: None = None


_decode_pure = msgspec.json.Decoder(_PureChunk).decode

_LAST = b"[DONE]"

_Events: TypeAlias = Sequence[ProviderEvent]


# --- reading --------------------------------------------------------------------


class ChatDecoder:
    """The chunks of one answer."""

    def __init__(self, vendor: str, model: str, quirks: ChatQuirks = _OPENAI) -> None:
        self.done = False
        self._vendor = vendor
        self._model = model
        self._quirks = quirks
        self._blocks = 0
        self._pure = False
        self._text = self._thinking = self._refusal = -1  # the block of each, once it is open
        self._thought: list[str] = []
        self._thought_in = ""
        self._details: list[Meta] = []
        self._refused: list[str] = []
        self._calls = CallRouter()
        self._usage: Usage | None = None
        self._finished: str | None = None
        self._met_stop = False
        self._id: str | None = None
        self._said_model: str | None = None

    def feed(self, data: bytes) -> _Events:
        pure = self._pure
        if pure:  # what a token costs
            try:
                text = _decode_pure(data).choices[0].delta.content
                return (TextDelta(self._text, text),) if text else ()
            except (msgspec.DecodeError, UnicodeError):
                self._pure = False
        if data == _LAST:
            return self._complete()
        try:
            chunk = _decode(data)
        except msgspec.ValidationError:
            return self._odd(data)
        events = self._events(chunk, data)
        if not pure and len(events) == 1 and self._text >= 0 and type(events[0]) is TextDelta:
            self._pure = events[0].index == self._text  # the next one may be read the short way
        return events

    def end(self) -> _Events:
        if self._quirks.needs_done or self._finished is None:
            return ()
        return self._complete()

    # One small function a kind of thing that comes. `out` is what has become of the chunk so far.

    def _odd(self, data: bytes) -> _Events:
        """Not a chunk: the mark of the end, or a complaint in a form of its own."""
        if data.strip() == _LAST:
            return self._complete()
        said: object = msgspec.json.decode(data)
        if isinstance(said, dict) and _is_complaint(cast(Meta, said)):
            raise VendorFailure(complaint_from(cast(object, said)))
        _decode(data)  # which says what is wrong with it
        return ()

    def _events(self, chunk: _Chunk, data: bytes) -> _Events:
        out: list[ProviderEvent] = []
        if chunk.error:
            raise VendorFailure(complaint_from({"error": chunk.error}), usage_in(chunk.usage))
        if self._id is None or self._said_model is None:
            self._note(chunk)
        for choice in chunk.choices or ():
            if choice.index == 0 or choice.index is None:
                self._choice(choice, out)
        if chunk.x_groq is not None:
            self._groq(chunk.x_groq, out)
        if chunk.usage is not None:
            self._count(chunk.usage, out)
        elif chunk.choices is None and chunk.x_groq is None:
            _complain_if_bare(data)
        return out

    def _note(self, chunk: _Chunk) -> None:
        if self._id is None and isinstance(chunk.id, str):
            self._id = chunk.id or None
        if self._said_model is None and isinstance(chunk.model, str):
            self._said_model = chunk.model or None

    def _choice(self, choice: _Choice, out: list[ProviderEvent]) -> None:
        if choice.error:
            raise VendorFailure(complaint_from({"error": choice.error}))
        delta = choice.delta
        if delta is None and self._blocks == 0:
            delta = choice.message  # the whole of it at once
        if delta is not None:
            self._delta(delta, out)
        if choice.finish_reason:
            self._finish(choice.finish_reason, choice.stop_reason)

    def _delta(self, delta: _Delta, out: list[ProviderEvent]) -> None:
        if delta.reasoning_content or delta.reasoning or delta.reasoning_details:
            self._think(delta, out)
        if delta.content:
            self._say(delta.content, out)
        if delta.refusal:
            self._refuse(delta.refusal, out)
        if delta.tool_calls:
            fresh = False
            for call in delta.tool_calls:
                self._call(call, out, fresh=fresh)
                fresh = fresh or bool(call.function and call.function.name)
        if delta.function_call is not None:  # the older form: one call, without an id
            self._call(_CallDelta(index=_OLD_FORM, function=delta.function_call), out, fresh=False)

    def _say(self, content: object, out: list[ProviderEvent]) -> None:
        if isinstance(content, str):
            if self._text < 0:
                self._text = self._new_block()
            out.append(TextDelta(self._text, content))
            return
        for part in _listed(content):
            if part.get("type") == "thinking":
                self._think_aloud(_text_in(part.get("thinking")), "content", out)
            elif text := _text_in(part.get("text")):
                self._say(text, out)

    def _refuse(self, text: str, out: list[ProviderEvent]) -> None:
        if self._refusal < 0:
            self._refusal = self._new_block()
        self._refused.append(text)
        out.append(TextDelta(self._refusal, text))

    def _think(self, delta: _Delta, out: list[ProviderEvent]) -> None:
        """One text, though some servers send it under two names at once."""
        details = _listed(delta.reasoning_details)
        for item in details:
            self._add_detail(item)
        if isinstance(delta.reasoning_content, str) and delta.reasoning_content:
            self._think_aloud(delta.reasoning_content, "reasoning_content", out)
        elif isinstance(delta.reasoning, str) and delta.reasoning:
            self._think_aloud(delta.reasoning, "reasoning", out)
        else:
            text = "".join(_text_in(item.get("text")) or _text_in(item.get("summary")) for item in details)
            self._think_aloud(text, "reasoning_details", out)

    def _think_aloud(self, text: str, field: str, out: list[ProviderEvent]) -> None:
        if self._thinking < 0 and (text or self._details):
            self._thinking = self._new_block()
            self._thought_in = field
        if text:
            self._thought.append(text)
            out.append(ThinkingDelta(self._thinking, text))

    def _add_detail(self, item: Meta) -> None:
        """Pieces of one detail become one again; anything that is no piece of the last stands by itself."""
        last = self._details[-1] if self._details else {}
        kind = item.get("type")
        word = _PIECES.get(str(kind), "")
        same = last.get("type") == kind and last.get("index") == item.get("index")
        if not (word and same and not last.get("signature")):
            self._details.append(dict(item))
            return
        for name, value in item.items():
            if name == word:
                last[word] = _text_in(last.get(word)) + _text_in(value)
            elif value is not None:
                last[name] = value

    def _call(self, delta: _CallDelta, out: list[ProviderEvent], *, fresh: bool) -> None:
        call_id = "" if delta.id in _NO_ID else str(delta.id)
        index = _whole_number(delta.index)
        function = delta.function or _Function()
        name, arguments = function.name or "", _argument_text(function.arguments)
        call = self._calls.route(call_id, index, name, fresh=fresh)
        if call is None:
            if not (call_id or name or arguments):
                return  # an empty delta is no call
            call = self._calls.open(call_id, index, self._new_block())
        self._calls.take(call, index)
        if name and not call.started and name != call.name:
            call.name += name
        if delta.extra_content is not None:
            call.meta = self._own(extra_content=delta.extra_content)
        if arguments:
            if not call.started:
                out.append(_started(call))
            call.pieces.append(arguments)
            out.append(ToolCallDelta(call.block, call.id, arguments))

    def _finish(self, reason: str, stop_reason: object) -> None:
        self._finished = reason
        self._met_stop = self._quirks.names_stop and isinstance(stop_reason, str) and bool(stop_reason)
        if reason == "error":
            raise VendorFailure(Complaint(message="the service broke the answer off", kind="server_error"))

    def _groq(self, said: object, out: list[ProviderEvent]) -> None:
        if not isinstance(said, dict):
            return
        fields = cast(Meta, said)
        if fields.get("error"):
            raise VendorFailure(complaint_from({"error": fields["error"]}))
        if fields.get("usage"):
            self._count(fields["usage"], out)

    def _count(self, said: object, out: list[ProviderEvent]) -> None:
        usage = usage_in(said)
        if usage is not None and usage != self._usage:
            self._usage = usage
            out.append(UsageUpdate(usage))

    def _complete(self) -> _Events:
        """Everything ends together: what comes late still finds its part open."""
        self.done = True
        reason = _stop_reason(self._finished, met_stop=self._met_stop, refused=bool(self._refused))
        out: list[ProviderEvent] = []
        if self._thinking >= 0:
            out.append(PartEnd(self._thinking, self._whole_thought()))
        if self._refusal >= 0:
            out.append(PartEnd(self._refusal, Text("".join(self._refused), meta={"refusal": True})))
        for call in self._calls.all:
            if not call.started:
                out.append(_started(call))
            out.append(ToolCallEnd(call.block, _whole_call(call, limited=reason == "max_tokens")))
        out.append(
            Finish(stop_reason=reason, id=self._id, raw_stop_reason=self._finished, model=self._said_model)
        )
        return out

    def _whole_thought(self) -> Thinking:
        meta: Meta = {"field": self._thought_in}
        if self._details:
            meta["reasoning_details"] = msgspec.json.encode(self._details).decode()
        return Thinking(
            "".join(self._thought),
            signature=self._of_details("signature"),
            redacted=self._of_details("data"),
            provider=self._vendor,
            model=self._model,
            meta=meta,
        )

    def _of_details(self, field: str) -> str | None:
        found = (_text_in(item.get(field)) for item in reversed(self._details))
        return next(filter(None, found), None)

    def _own(self, **fields: object) -> Meta:
        """Vendor data of a call, and whom it may go back to: a call does not say that itself."""
        kept: Meta = {name: msgspec.json.encode(value).decode() for name, value in fields.items()}
        return {"provider": self._vendor, "model": self._model, **kept}

    def _new_block(self) -> int:
        self._blocks += 1
        return self._blocks - 1


_OLD_FORM = -1
_LONGEST_INDEX = 10
_NO_ID = (None, "", "null")  # the word is what Mistral's own library takes for none
_PIECES = {"reasoning.text": "text", "reasoning.summary": "summary"}


def _complain_if_bare(data: bytes) -> None:
    """An object without choices is an error on some servers, and a sign of life on others."""
    said = cast(Meta, msgspec.json.decode(data))
    if _is_complaint(said):
        raise VendorFailure(complaint_from(said))


def _is_complaint(said: Meta) -> bool:
    if said.get("error") or "error" in (said.get("object"), said.get("type")):
        return True
    return "object" not in said and ("detail" in said or {"message", "code"} <= said.keys())


def _started(call: OpenCall) -> ToolCallStart:
    call.started = True
    return ToolCallStart(call.block, call.id, call.name)


def _whole_call(call: OpenCall, *, limited: bool) -> ToolCall:
    text = "".join(call.pieces)
    return ended_call(call.id, call.name, text, call.block, limited=limited, meta=call.meta)


def _argument_text(arguments: object) -> str:
    """A few servers send the arguments as an object."""
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else msgspec.json.encode(arguments).decode()


def _whole_number(index: object) -> object:
    """A few servers write a place as `"0"` or `0.0`."""
    if isinstance(index, str) and index.isdecimal() and len(index) < _LONGEST_INDEX:
        return int(index)
    return int(index) if isinstance(index, float) and index.is_integer() else index


def _listed(value: object) -> list[Meta]:
    """The objects of a list; no list has none."""
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast(Meta, item) for item in items if isinstance(item, dict)]


def _text_in(value: object) -> str:
    """A text, or the texts of a list of parts."""
    if isinstance(value, list):
        return "".join(_text_in(part.get("text")) for part in _listed(cast(object, value)))
    return value if isinstance(value, str) else ""


# --- how it ended ----------------------------------------------------------------

_REASONS: dict[str, StopReason] = {
    "stop": "end_turn",
    "eos": "end_turn",
    "eos_token": "end_turn",
    "end_turn": "end_turn",
    "stop_sequence": "stop_sequence",
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "model_length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "tool_use": "tool_use",
    "content_filter": "content_filter",
    "refusal": "refusal",
}


def _stop_reason(finished: str | None, *, met_stop: bool, refused: bool) -> StopReason:
    reason = _REASONS.get(finished or "", "other")
    if reason == "end_turn":
        return "refusal" if refused else "stop_sequence" if met_stop else reason
    return reason
