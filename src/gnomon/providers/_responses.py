"""The events of OpenAI's Responses API, made into ours.

The answer is a list of items (reasoning, messages, function calls), each told of
by its place in the list, `output_index`; a message has parts of its own. Items of
kinds that are not ours, such as the calls of the vendor's own tools, become an
`UnknownPart` that holds the item as JSON text, so that it returns as it came.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from gnomon._complaint import complaint_from
from gnomon.providers._calls import ended_call, made_up_id
from gnomon.providers._converse import VendorFailure
from gnomon.providers._responses_wire import (
    ITEM,
    EventIn,
    ItemIn,
    ResponseIn,
    call_meta,
    pieces_of,
    read_event,
    read_item,
    read_kind,
    read_piece,
    read_response,
    text_in,
    text_meta,
    thinking_text,
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
)
from gnomon.types.messages import Meta, Text, Thinking, UnknownPart
from gnomon.types.requests import StopReason

__all__ = ["ResponsesDecoder"]

_Events: TypeAlias = Sequence[ProviderEvent]
_Place: TypeAlias = int | str | None


class _Block:
    """One of our blocks in the making. `place` and `part` are where the vendor's deltas say they belong."""

    __slots__ = ("call_id", "index", "kind", "name", "part", "pieces", "place")

    def __init__(self, index: int, kind: str, place: _Place, part: object = None) -> None:
        self.index = index
        self.kind = kind
        self.place = place
        self.part = part
        self.pieces: list[str] = []
        self.call_id = ""
        self.name = ""

    @property
    def text(self) -> str:
        return "".join(self.pieces)


_NO_BLOCK = _Block(-1, "none", -1)


class ResponsesDecoder:
    """For one response. `vendor` and `model` (the one asked for) are noted in the thinking."""

    def __init__(self, vendor: str, model: str) -> None:
        self.done = False
        self._vendor = vendor
        self._model = model
        self._texts: dict[tuple[_Place, _Place], _Block] = {}
        self._items: dict[_Place, _Block] = {}  # reasoning and calls, by place
        self._latest = _NO_BLOCK  # the text being streamed: the next delta for it needs no look-up
        self._ids: set[str] = set()
        self._opened = 0
        self._refused = False

    def feed(self, data: bytes) -> _Events:
        try:
            event = read_event(data)
        except msgspec.ValidationError:
            if read_kind(data).type in _KNOWN:
                raise
            return ()
        if event.type == "response.output_text.delta":
            block, delta = self._latest, event.delta
            place = event.output_index if event.output_index is not None else _place_of(event)
            if block.part != event.content_index or block.place != place:
                block = self._latest = self._text_at(place, event.content_index)
            if not isinstance(delta, str) or not delta:
                return ()
            block.pieces.append(delta)
            return (TextDelta(block.index, delta),)
        handler = _HANDLERS.get(event.type)
        if handler is not None:
            return handler(self, event)
        if event.type == "error" or (event.type is None and b'"error"' in data):
            self._complain(data, named=event.type is not None)
        return ()  # of a kind that is not known here

    def end(self) -> _Events:
        return ()

    def _complain(self, data: bytes, *, named: bool) -> None:
        """An error event; servers that resemble the vendor's, and what stands in between, do not name it."""
        said = _without_type(data)
        if named or said.get("error"):
            raise VendorFailure(complaint_from(said))

    # --- text ---

    def refused(self, event: EventIn) -> _Events:
        self._refused = True
        block = self._text_at(_place_of(event), event.content_index)
        return self._more_text(block, text_in(event.delta))

    def part_added(self, event: EventIn) -> _Events:
        """Opens the block, so that the order is that of the vendor's parts."""
        if read_piece(event.part).type in ("output_text", "refusal"):
            self._text_at(_place_of(event), event.content_index)
        return ()

    def _text_at(self, place: _Place, part: _Place) -> _Block:
        key = (place, part)
        block = self._texts.get(key)
        if block is None:
            block = self._texts[key] = self._open("text", place, part)
        return block

    def _more_text(self, block: _Block, text: str) -> _Events:
        if not text:
            return ()
        block.pieces.append(text)
        return (TextDelta(block.index, text),)

    def _message_done(self, place: _Place, item: ItemIn) -> _Events:
        events: list[ProviderEvent] = []
        for number, piece in enumerate(pieces_of(item.content)):
            if piece.type not in ("output_text", "refusal"):
                continue
            said = text_in(piece.refusal if piece.type == "refusal" else piece.text)
            self._refused = self._refused or piece.type == "refusal"
            block = self._text_at(place, number)
            events += self._more_text(block, said if not block.pieces else "")
            if block.pieces:
                events.append(PartEnd(block.index, Text(block.text, text_meta(item, piece))))
            del self._texts[place, number]
        self._latest = _NO_BLOCK
        return events

    # --- thinking ---

    def thought(self, event: EventIn) -> _Events:
        """A piece of a summary, or of the thinking itself; an empty line stands between two parts."""
        text, place = text_in(event.delta), _place_of(event)
        ended = self._end_open(place, limited=False)
        block = self._being_made(place, "thinking")
        if block is None:
            block = self._items[place] = self._open("thinking", place)
        if not text:
            return ended
        part = (event.type, event.summary_index, event.content_index)
        if block.pieces and block.part != part:
            text = "\n\n" + text
        block.part = part
        block.pieces.append(text)
        return (*ended, ThinkingDelta(block.index, text))

    def _thinking_done(self, place: _Place, item: ItemIn, raw: bytes) -> _Events:
        events: list[ProviderEvent] = [*self._end_open(place, limited=False)]
        block = self._being_made(place, "thinking") or self._open("thinking", place)
        self._items[place] = _NO_BLOCK
        signature = text_in(item.encrypted_content) or None
        if not block.pieces and (whole := thinking_text(item)):
            block.pieces.append(whole)
            events.append(ThinkingDelta(block.index, whole))
        if block.pieces or signature:
            # A line end between tokens is not the vendor's: an event may be written in several lines.
            kept = raw.replace(b"\n", b"").decode()
            part = Thinking(block.text, signature, None, self._vendor, self._model, {ITEM: kept})
            events.append(PartEnd(block.index, part))
        return events

    # --- calls ---

    def called(self, event: EventIn) -> _Events:
        block = self._being_made(_place_of(event), "call")
        # A call whose start was not told of comes whole at its end.
        return self._more_arguments(block, text_in(event.delta)) if block is not None else ()

    def arguments_done(self, event: EventIn) -> _Events:
        block = self._being_made(_place_of(event), "call")
        return self._rest_of_arguments(block, text_in(event.arguments)) if block is not None else ()

    def _call_started(self, place: _Place, item: ItemIn) -> _Events:
        block = self._items[place] = self._open("call", place)
        given = text_in(item.call_id)
        block.call_id = given if given and given not in self._ids else made_up_id()
        self._ids.add(block.call_id)
        block.name = text_in(item.name)
        return (ToolCallStart(block.index, block.call_id, block.name),)

    def _more_arguments(self, block: _Block, text: str) -> _Events:
        if not text:
            return ()
        block.pieces.append(text)
        return (ToolCallDelta(block.index, block.call_id, text),)

    def _rest_of_arguments(self, block: _Block, whole: str) -> _Events:
        """What no delta has brought. Where the deltas say something else, they count."""
        streamed = block.text
        return self._more_arguments(block, whole[len(streamed) :]) if whole.startswith(streamed) else ()

    def _call_done(self, place: _Place, item: ItemIn) -> _Events:
        events: list[ProviderEvent] = []
        if (block := self._being_made(place, "call")) is None:
            events += self._call_started(place, item)
            block = self._items[place]
        events += self._rest_of_arguments(block, text_in(item.arguments))
        events += self._end_call(block, limited=item.status == "incomplete", meta=call_meta(item))
        return events

    def _end_call(self, block: _Block, *, limited: bool, meta: Meta | None = None) -> _Events:
        self._items[block.place] = _NO_BLOCK
        call = ended_call(block.call_id, block.name, block.text, block.index, limited=limited, meta=meta)
        return (ToolCallEnd(block.index, call),)

    # --- items and the whole ---

    def item_added(self, event: EventIn) -> _Events:
        item, place = read_item(event.item), _place_of(event)
        if item.type == "function_call":
            return (*self._end_open(place, limited=False), *self._call_started(place, item))
        if item.type == "message":
            return ()
        events = self._end_open(place, limited=False)
        self._items[place] = self._open("thinking" if item.type == "reasoning" else "own", place)
        return events

    def item_done(self, event: EventIn) -> _Events:
        return self._item_done(_place_of(event), event.item)

    def _item_done(self, place: _Place, raw: msgspec.Raw) -> _Events:
        item = read_item(raw)
        if item.type == "message":
            return self._message_done(place, item)
        if item.type == "reasoning":
            return self._thinking_done(place, item, bytes(raw))
        if item.type == "function_call":
            return self._call_done(place, item)
        return self._own_done(place, item, bytes(raw))

    def _own_done(self, place: _Place, item: ItemIn, raw: bytes) -> _Events:
        """An item of the vendor's own: the reasoning before it is refused without it."""
        ended = self._end_open(place, limited=False)
        block = self._being_made(place, "own") or self._open("own", place)
        self._items[place] = _NO_BLOCK
        kept: Meta = {"json": raw.replace(b"\n", b"").decode()}
        return (*ended, PartEnd(block.index, UnknownPart(f"{self._vendor}.{text_in(item.type)}", kept)))

    def _end_open(self, place: _Place, *, limited: bool) -> _Events:
        """The call that was streamed to this place, if the vendor has not ended it: another takes it."""
        block = self._being_made(place, "call")
        return self._end_call(block, limited=limited) if block is not None else ()

    def completed(self, event: EventIn) -> _Events:
        response = read_response(event.response)
        return self._finished(response, "refusal" if self._refused else "end_turn", "completed")

    def incomplete(self, event: EventIn) -> _Events:
        response = read_response(event.response)
        reason = response.incomplete_details.reason if response.incomplete_details else None
        return self._finished(response, _STOPPED.get(reason or "", "other"), reason or "incomplete")

    def _finished(self, response: ResponseIn, stop: StopReason, raw_stop: str) -> _Events:
        events: list[ProviderEvent] = []
        if not self._opened:  # a server that streams nothing but the end
            for place, item in enumerate(response.output or ()):
                events += self._item_done(place, item)
            stop = "refusal" if stop == "end_turn" and self._refused else stop
        for place in tuple(self._items):
            events += self._end_open(place, limited=raw_stop != "completed")
        usage = usage_of(response.usage) if response.usage is not None else None
        self.done = True
        events.append(
            Finish(
                stop_reason=stop, id=response.id, raw_stop_reason=raw_stop, usage=usage, model=response.model
            )
        )
        return events

    def failed(self, event: EventIn) -> _Events:
        response = read_response(event.response)
        usage = usage_of(response.usage) if response.usage is not None else None
        raise VendorFailure(complaint_from(response.error), usage)

    def _being_made(self, place: _Place, kind: str) -> _Block | None:
        block = self._items.get(place, _NO_BLOCK)
        return block if block.kind == kind else None

    def _open(self, kind: str, place: _Place, part: object = None) -> _Block:
        block = _Block(self._opened, kind, place, part)
        self._opened += 1
        return block


_HANDLERS: dict[str | None, Callable[[ResponsesDecoder, EventIn], _Events]] = {
    "response.refusal.delta": ResponsesDecoder.refused,
    "response.content_part.added": ResponsesDecoder.part_added,
    "response.reasoning_summary_text.delta": ResponsesDecoder.thought,
    "response.reasoning_text.delta": ResponsesDecoder.thought,
    "response.function_call_arguments.delta": ResponsesDecoder.called,
    "response.function_call_arguments.done": ResponsesDecoder.arguments_done,
    "response.output_item.added": ResponsesDecoder.item_added,
    "response.output_item.done": ResponsesDecoder.item_done,
    "response.completed": ResponsesDecoder.completed,
    "response.incomplete": ResponsesDecoder.incomplete,
    "response.failed": ResponsesDecoder.failed,
}

_KNOWN = {"response.output_text.delta", *_HANDLERS}

_STOPPED: dict[str, StopReason] = {"max_output_tokens": "max_tokens", "content_filter": "content_filter"}


def _place_of(event: EventIn) -> _Place:
    """Where the item stands; its id, from a server that does not number them, as llama.cpp does not."""
    if event.output_index is not None:
        return event.output_index
    return text_in(event.item_id) or text_in(read_item(event.item).id) or 0


def _without_type(data: bytes) -> dict[str, object]:
    """An error event. Its fields stand beside its type, which then names no error, or in `error`."""
    said = msgspec.json.decode(data, type=dict[str, object])
    return {name: value for name, value in said.items() if name != "type"}
