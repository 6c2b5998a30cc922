"""The events of Anthropic's Messages API, made into ours.

A message is a list of blocks: each is opened, comes in pieces, and is closed. Blocks
of the vendor's own tools, and of kinds that nobody knows yet, become an `UnknownPart`
that holds the block as JSON text, so that it returns as it came.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from gnomon._complaint import complaint_from
from gnomon.providers._calls import ended_call, is_complete_json, made_up_id
from gnomon.providers._converse import VendorFailure
from gnomon.providers._messages_wire import (
    DeltaIn,
    EventIn,
    Fields,
    StartIn,
    UsageIn,
    read_event,
    read_fallback,
    read_fields,
    read_kind,
    read_kind_of_event,
    read_raw_delta,
    read_start,
    usage_of,
)
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
from gnomon.types.messages import Meta, Text, Thinking, UnknownPart
from gnomon.types.requests import StopReason

__all__ = ["CALL_META", "CITATIONS_META", "SERVICE_KIND", "MessagesDecoder"]

SERVICE_KIND = "anthropic."
"""What the `kind` of a block of the vendor's own begins with; its type follows."""
CITATIONS_META = "anthropic_citations"
CALL_META = "anthropic_call"
"""In `meta`: JSON text that goes back with the part."""

_Events: TypeAlias = Sequence[ProviderEvent]

_STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "end_turn",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_use",
    "refusal": "refusal",
}
# A call that ends with one of these before it has arguments may have been cut off.
_CUT_OFF = frozenset({"max_tokens", "model_context_window_exceeded", "refusal"})
_OURS = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})
_DELTAS = frozenset({"text_delta", "thinking_delta", "signature_delta", "input_json_delta"})


class _Block:
    """One block in the making. `number` is our index: the vendor's may be used twice by a server like it."""

    __slots__ = (
        "begun",
        "citations",
        "fields",
        "id",
        "kind",
        "name",
        "number",
        "pieces",
        "signature",
        "start",
    )

    def __init__(self, number: int, kind: str, start: StartIn) -> None:
        self.number = number
        self.kind = kind
        self.start = start
        self.pieces: list[str] = []
        self.begun = False  # whether anything but white space has come
        self.signature: list[str] = []
        self.citations: list[msgspec.Raw] = []
        self.fields: Fields = {}
        self.id = ""
        self.name = ""

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class MessagesDecoder:
    """For one response. `provider` and `model` (the one asked for) are noted in the thinking."""

    def __init__(self, provider: str, model: str) -> None:
        self.done = False
        self._provider = provider
        self._model = model
        self._open: dict[int, _Block] = {}  # by the vendor's index
        self._held: list[_Block] = []  # calls without arguments, until it is known why the answer ends
        self._blocks = 0
        self._ids: set[str] = set()
        self._at: int | None = -1  # the text block that is being streamed, kept at hand
        self._text = _Block(-1, "", StartIn())
        self._id: str | None = None
        self._answering: str | None = None
        self._usage = UsageIn()
        self._stop: str | None = None
        self._handlers: dict[str, Callable[[EventIn, bytes], _Events]] = {
            "content_block_start": self._opened,
            "content_block_stop": self._closed,
            "message_start": self._begun,
            "message_delta": self._ending,
            "message_stop": self._ended,
            "error": self._failed,
        }

    def feed(self, data: bytes) -> _Events:
        try:
            event = read_event(data)
        except msgspec.ValidationError as error:
            return self._unfitting(data, error)
        kind = event.type
        if kind == "content_block_delta":
            # Most of what comes is the next piece of a text.
            delta = event.delta
            if delta is None:
                return ()
            if event.index == self._at and delta.type == "text_delta" and delta.text is not None:
                self._text.pieces.append(delta.text)
                return (TextDelta(self._text.number, delta.text),)
            return self._continued(event.index or 0, delta, data)
        handler = self._handlers.get(kind or "")
        if handler is None and kind is None and b'"error"' in data:
            self._complain(data)
        return handler(event, data) if handler else ()

    def end(self) -> _Events:
        return ()

    def _unfitting(self, data: bytes, error: msgspec.ValidationError) -> _Events:
        """An event of another shape: passed over when it is of a kind that is not known either."""
        event = read_kind_of_event(data)
        if event.type == "error":
            self._complain(data)
        delta = event.delta.type if event.delta else ""
        if event.type in self._handlers or (event.type == "content_block_delta" and delta in _DELTAS):
            raise error
        return ()

    # --- the message

    def _begun(self, event: EventIn, data: bytes) -> _Events:
        if event.message is None:
            return ()
        self._id, self._answering = event.message.id, event.message.model
        return self._counted(event.message.usage)

    def _ending(self, event: EventIn, data: bytes) -> _Events:
        if event.delta is not None and event.delta.stop_reason is not None:
            self._stop = event.delta.stop_reason
        return (*self._all_closed(), *self._counted(event.usage))

    def _ended(self, event: EventIn, data: bytes) -> _Events:
        self.done = True
        finish = Finish(
            stop_reason=_STOP_REASONS.get(self._stop or "", "other"),
            id=self._id,
            raw_stop_reason=self._stop,
            usage=usage_of(self._usage),
            model=self._answering,
        )
        return (*self._all_closed(), *(self._call_ended(block) for block in self._held), finish)

    def _failed(self, event: EventIn, data: bytes) -> _Events:
        raise VendorFailure(complaint_from(msgspec.json.decode(data)))

    def _complain(self, data: bytes) -> None:
        """An error of another shape, or without its name, as what stands in between may send it."""
        said = msgspec.json.decode(data, type=dict[str, object])
        if said.get("error") or said.get("type") == "error":
            raise VendorFailure(complaint_from(said))

    def _counted(self, said: UsageIn | None) -> _Events:
        """Running totals: what is said replaces what was said, what is left out stays."""
        if said is None:
            return ()
        for name in UsageIn.__struct_fields__:
            count: object = getattr(said, name)
            if count is not None:
                setattr(self._usage, name, count)
        usage = usage_of(self._usage)
        return (UsageUpdate(usage),) if usage is not None else ()

    # --- its blocks

    def _opened(self, event: EventIn, data: bytes) -> _Events:
        raw, index = event.content_block, event.index or 0
        kind = read_kind(raw).type
        start = read_start(raw) if kind in _OURS else StartIn()
        before = self._block_closed(index) if index in self._open else ()
        block = self._open[index] = _Block(self._blocks, kind, start)
        self._blocks += 1
        match kind:
            case "text":
                return (*before, *self._text_opened(index, block))
            case "thinking":
                return (*before, *_thought(block, start.thinking or ""))
            case "tool_use":
                return (*before, self._call_opened(block, raw))
            case "redacted_thinking":
                return before
            case _:
                block.fields = read_fields(raw)
                if kind == "fallback":  # another model goes on from here
                    to = read_fallback(raw).to
                    self._answering = (to.model if to else None) or self._answering
                return before

    def _text_opened(self, index: int, block: _Block) -> _Events:
        self._at, self._text = index, block
        block.citations += block.start.citations or ()
        if not block.start.text:
            return ()
        block.pieces.append(block.start.text)
        return (TextDelta(block.number, block.start.text),)

    def _call_opened(self, block: _Block, raw: msgspec.Raw) -> ToolCallStart:
        given = block.start.id
        block.id = given if given and given not in self._ids else made_up_id()
        block.name = block.start.name or ""
        block.fields = read_fields(raw)
        self._ids.add(block.id)
        return ToolCallStart(block.number, block.id, block.name)

    def _continued(self, index: int, delta: DeltaIn, data: bytes) -> _Events:
        """A piece of a block that is not the text at hand."""
        block = self._open.get(index)
        if block is None:
            if delta.type != "text_delta":
                return ()
            block = self._open[index] = _Block(self._blocks, "text", StartIn())  # opened without a word
            self._blocks += 1
        kind, piece = block.kind, delta.type
        if kind == "tool_use":
            return _argued(block, delta.partial_json or "") if piece == "input_json_delta" else ()
        if kind == "thinking":
            return self._thought_on(block, delta)
        if kind == "text":
            return self._text_continued(index, block, delta, data)
        if piece == "input_json_delta":
            block.pieces.append(delta.partial_json or "")
        elif kind not in _OURS:
            said = read_raw_delta(data).delta
            block.fields.update({name: said[name].copy() for name in said if name != "type"})
        return ()

    def _text_continued(self, index: int, block: _Block, delta: DeltaIn, data: bytes) -> _Events:
        if delta.type == "text_delta":
            self._at, self._text = index, block
            block.pieces.append(delta.text or "")
            return (TextDelta(block.number, delta.text or ""),)
        if delta.type == "citations_delta" and (citation := read_raw_delta(data).delta.get("citation")):
            block.citations.append(citation.copy())
        return ()

    def _thought_on(self, block: _Block, delta: DeltaIn) -> _Events:
        if delta.type == "thinking_delta":
            return _thought(block, delta.thinking or "")
        if delta.type == "signature_delta":
            block.signature.append(delta.signature or "")
        return ()

    def _closed(self, event: EventIn, data: bytes) -> _Events:
        return self._block_closed(event.index or 0)

    def _all_closed(self) -> _Events:
        return tuple(event for index in list(self._open) for event in self._block_closed(index))

    def _block_closed(self, index: int) -> _Events:
        block = self._open.pop(index, None)
        if block is None:
            return ()
        if index == self._at:
            self._at = -1
        match block.kind:
            case "text":
                return self._text_closed(block)
            case "thinking" | "redacted_thinking":
                return (PartEnd(block.number, self._thinking(block)),)
            case "tool_use":
                return self._call_closed(block)
            case _:
                return (PartEnd(block.number, _service_part(block)),)

    def _text_closed(self, block: _Block) -> _Events:
        """The pieces say it all, unless there are sources to go with it."""
        if not block.citations:
            return ()
        meta: Meta = {CITATIONS_META: _json(block.citations)}
        return (PartEnd(block.number, Text(block.text, meta)),)

    def _thinking(self, block: _Block) -> Thinking:
        signature = "".join(block.signature) or block.start.signature or None
        redacted = block.start.data if block.kind == "redacted_thinking" else None
        return Thinking(block.text, signature, redacted, self._provider, self._model)

    def _call_closed(self, block: _Block) -> _Events:
        if block.text.strip():
            return (self._call_ended(block),)
        given = _json(block.start.input) if block.start.input else "{}"
        if given in ("{}", "null"):
            self._held.append(block)
            return ()
        block.pieces.clear()
        return (*_argued(block, given), self._call_ended(block))  # all of it came with the start

    def _call_ended(self, block: _Block) -> ToolCallEnd:
        cut_off = self._stop in _CUT_OFF and block.number == self._blocks - 1
        call = ended_call(
            block.id, block.name, block.text, block.number, limited=cut_off, meta=_call_meta(block)
        )
        return ToolCallEnd(block.number, call)


def _thought(block: _Block, text: str) -> _Events:
    if not text:
        return ()
    block.pieces.append(text)
    return (ThinkingDelta(block.number, text),)


def _argued(block: _Block, text: str) -> _Events:
    """The next piece; white space waits, since with nothing after it there are no arguments."""
    if not text:
        return ()
    block.pieces.append(text)
    if not block.begun:
        if text.isspace():
            return ()
        block.begun = True
        text = block.text
    return (ToolCallDelta(block.number, block.id, text),)


def _call_meta(block: _Block) -> Meta | None:
    """What else the vendor says of a call and wants back, such as who made it: not always the model."""
    known = ("type", "id", "name", "input")
    more = {name: value for name, value in block.fields.items() if name not in known}
    if _json(more.get("caller")) == '{"type":"direct"}':
        del more["caller"]
    return {CALL_META: _json(more)} if more else None


def _service_part(block: _Block) -> UnknownPart:
    text = block.text.strip()
    kept: Meta = {}
    if text and is_complete_json(text):
        block.fields["input"] = msgspec.Raw(text.encode())
    elif text:
        kept["cut_off"] = text  # by a limit: the call has no result, so it never goes back
    return UnknownPart(SERVICE_KIND + block.kind, {"json": _json(block.fields), **kept})


def _json(value: object) -> str:
    """As it came, but for the white space between the tokens."""
    return msgspec.json.format(msgspec.json.encode(value), indent=-1).decode()
