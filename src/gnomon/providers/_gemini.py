"""The chunks of Google's Gemini API, made into our events.

An answer is a list of parts, and a text comes as many, one piece each. They become one part;
a piece with a thought signature ends it, and where that piece begins is kept, because it has
to return as it was. Parts of other kinds become an `UnknownPart` that holds them as JSON text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from gnomon._complaint import complaint_from
from gnomon.providers._calls import ended_call, made_up_id
from gnomon.providers._converse import VendorFailure
from gnomon.providers._gemini_args import PartialArgs
from gnomon.providers._gemini_wire import (
    NULL,
    CandidateIn,
    ChunkIn,
    FunctionCallIn,
    PartIn,
    is_there,
    read_blob,
    read_chunk,
    read_fields,
    read_raw_parts,
    usage_of,
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
from gnomon.types.messages import Audio, File, Image, Meta, Part, Text, Thinking, ToolCall, UnknownPart
from gnomon.types.requests import StopReason, Usage

__all__ = ["MODEL_META", "PART_KIND", "SIGNATURE_META", "SIGNED_META", "SOURCES", "GeminiDecoder"]

SIGNATURE_META = "gemini_signature"
MODEL_META = "gemini_model"
"""In `meta`: a thought signature as it came, and the model that was asked when it did."""
SIGNED_META = "gemini_signed_from"
"""In `meta`: where the piece begins that was signed; what stands before it came without a signature."""
PART_KIND = "gemini."
"""What the `kind` of a part of the vendor's own begins with; the name of its field follows."""
SOURCES = ("groundingMetadata", "citationMetadata", "urlContextMetadata")
"""What is said of an answer beside its parts: kept like a part, and never sent back."""

_Events: TypeAlias = list[ProviderEvent]

# https://ai.google.dev/api/generate-content#FinishReason; what is not here is "other".
_STOP_REASONS: dict[str, StopReason] = {
    "STOP": "end_turn",
    "MAX_TOKENS": "max_tokens",
    "CONTINUATION": "max_tokens",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "MODEL_ARMOR": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
}
_NOT_YET = frozenset({"", "FINISH_REASON_UNSPECIFIED"})
_NOT_BLOCKED = frozenset({"", "BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED"})
_BESIDE_DATA = frozenset({"thought", "thoughtSignature", "partMetadata", "videoMetadata", "mediaResolution"})


class _Call:
    """A call in the making; `whole` is its argument text where that came in one piece."""

    __slots__ = ("args", "id", "meta", "name", "number", "whole")

    def __init__(self, number: int, call_id: str, name: str) -> None:
        self.number = number
        self.id = call_id
        self.name = name
        self.meta: Meta = {}
        self.whole = ""
        self.args: PartialArgs | None = None


class GeminiDecoder:
    """For one response. `provider` and `model` (the one asked for) are noted in what is signed."""

    def __init__(self, provider: str, model: str) -> None:
        self.done = False
        self._provider = provider
        self._model = model
        self._blocks = 0
        self._kind = ""  # of the block that is being streamed: "text", "thinking", or none
        self._number = -1
        self._pieces: list[str] = []
        self._call: _Call | None = None  # that waits for more, or for the reason why the answer ends
        self._ids: set[str] = set()
        self._sources: dict[tuple[str, str], None] = {}
        self._usage = msgspec.Raw()
        self._counted = False
        self._id: str | None = None
        self._answering: str | None = None

    def feed(self, data: bytes) -> Sequence[ProviderEvent]:
        chunk = read_chunk(data)
        usage, candidates = chunk.usage_metadata, chunk.candidates
        if usage and usage != NULL:
            self._usage = usage
        if self._kind == "text" and candidates:
            # Most of what comes is the next piece of a text, and nothing else.
            candidate = candidates[0]
            content = candidate.content
            if content is not None and candidate.finish_reason is None and len(candidates) == 1:
                parts = content.parts
                if parts is not None and len(parts) == 1:
                    part = parts[0]
                    text = part.text
                    if text and _is_plain(part) and not (candidate.index or _says_more(candidate, chunk)):
                        self._pieces.append(text)
                        return (TextDelta(self._number, text),)
        return self._taken(chunk, data)

    def end(self) -> Sequence[ProviderEvent]:
        return ()

    def _taken(self, chunk: ChunkIn, data: bytes) -> _Events:
        if is_there(chunk.error):
            raise VendorFailure(complaint_from(msgspec.json.decode(data)), self._spent())
        self._id = chunk.response_id or self._id
        self._answering = chunk.model_version or self._answering
        events: _Events = []
        # Others are there when somebody asks for several answers.
        candidate = next((one for one in chunk.candidates or () if not one.index), None)
        if candidate is not None:
            self._add(candidate, data, events)
        feedback = chunk.prompt_feedback
        if not self.done and feedback is not None and (feedback.block_reason or "") not in _NOT_BLOCKED:
            self._finish("content_filter", feedback.block_reason, feedback.block_reason_message, events)
        if not self._counted and not self.done and (usage := self._spent()) is not None:
            self._counted = True
            events.append(UsageUpdate(usage))
        return events

    def _add(self, candidate: CandidateIn, data: bytes, events: _Events) -> None:
        parts = (candidate.content and candidate.content.parts) or ()
        for place, part in enumerate(parts):
            self._part(part, place, data, events)
        self._note_sources(candidate)
        reason = candidate.finish_reason
        if reason is not None and reason not in _NOT_YET:
            self._finish(_STOP_REASONS.get(reason, "other"), reason, candidate.finish_message, events)

    # --- parts

    def _part(self, part: PartIn, place: int, data: bytes, events: _Events) -> None:
        if part.function_call is not None:
            self._called(part.function_call, part.thought_signature, events)
        elif part.text is not None:
            self._said(part, part.text, events)
        elif is_there(part.inline_data) and not part.thought:
            self._shown(part, events)
        else:
            self._unknown(read_raw_parts(data)[place], events)

    def _said(self, part: PartIn, text: str, events: _Events) -> None:
        kind = "thinking" if part.thought else "text"
        signature = part.thought_signature
        if not text and not signature:
            return
        if kind != self._kind:
            self._close(events)
            self._kind, self._number = kind, self._next()
        if text:
            self._pieces.append(text)
            events.append((ThinkingDelta if part.thought else TextDelta)(self._number, text))
        if signature:
            self._close(events, signature, len(text))

    def _shown(self, part: PartIn, events: _Events) -> None:
        blob = read_blob(part.inline_data)
        meta = self._signed(part.thought_signature)
        made = _media(blob.mime_type, blob.data, meta)
        self._close(events)
        events.append(PartEnd(self._next(), made))

    def _unknown(self, raw: msgspec.Raw, events: _Events) -> None:
        fields = {name: value for name, value in read_fields(raw).items() if is_there(value)}
        named = next((name for name in fields if name not in _BESIDE_DATA), None)
        if named is None and "thoughtSignature" not in fields:
            return  # an empty part says nothing
        self._close(events)
        kept: Meta = {"json": _json(fields), "model": self._model}
        events.append(PartEnd(self._next(), UnknownPart(PART_KIND + (named or "part"), kept)))

    def _next(self) -> int:
        self._blocks += 1
        return self._blocks - 1

    def _close(self, events: _Events, signature: str | None = None, signed: int = 0) -> None:
        """End the text, the thought or the call that was being streamed.

        A signature is that of its last piece, of so many characters.
        """
        if self._kind and (signature or self._kind == "thinking"):
            text = "".join(self._pieces)
            meta: Meta = {SIGNED_META: len(text) - signed} if signature and signed < len(text) else {}
            events.append(PartEnd(self._number, self._ended(text, signature, meta)))
        self._kind = ""
        self._pieces.clear()
        if self._call is not None:
            self._end_call(events)

    def _ended(self, text: str, signature: str | None, meta: Meta) -> Part:
        if self._kind == "thinking":
            return Thinking(text, signature, None, self._provider, self._model, meta)
        return Text(text, {**self._signed(signature), **meta})

    def _signed(self, signature: str | None) -> Meta:
        return {SIGNATURE_META: signature, MODEL_META: self._model} if signature else {}

    # --- calls

    def _called(self, said: FunctionCallIn, signature: str | None, events: _Events) -> None:
        call = self._call
        if call is None or not _continues(call, said):
            if not said.name:
                return  # the end of a call that has ended
            self._close(events)
            call = self._call = self._begun(said.name, said.id)
            events.append(ToolCallStart(call.number, call.id, call.name))
        if signature:
            call.meta = self._signed(signature)
        if _is_complete(call, said):
            self._end_call(events)

    def _begun(self, name: str, given: str | None) -> _Call:
        call_id = given if given and given not in self._ids else made_up_id()
        self._ids.add(call_id)
        return _Call(self._next(), call_id, name)

    def _end_call(self, events: _Events, *, cut_off: bool = False) -> None:
        call, self._call = self._call, None
        if call is None:
            return
        text = call.args.text if call.args is not None else call.whole
        if text:
            events.append(ToolCallDelta(call.number, call.id, text))
        if cut_off and call.args is not None:
            made = ToolCall(call.id, call.name, text, call.number, truncated=True, meta=call.meta)
        else:
            made = ended_call(call.id, call.name, text, call.number, limited=cut_off, meta=call.meta)
        events.append(ToolCallEnd(call.number, made))

    # --- the end

    def _finish(self, stop: StopReason, raw: str | None, said: str | None, events: _Events) -> None:
        if self._call is not None:
            self._end_call(events, cut_off=self._call.args is not None or raw != "STOP")
        self._close(events)
        for kind, text in self._sources:
            events.append(PartEnd(self._next(), UnknownPart(PART_KIND + kind, {"json": text})))
        if stop == "other" or (said and stop == "content_filter"):
            events.append(StreamWarning(_why(raw, said), f"finish_{(raw or '').lower()}"))
        usage = self._spent()
        if usage is not None:
            events.append(UsageUpdate(usage))
        self.done = True
        events.append(
            Finish(stop_reason=stop, id=self._id, raw_stop_reason=raw, usage=usage, model=self._answering)
        )

    def _note_sources(self, candidate: CandidateIn) -> None:
        found = (candidate.grounding_metadata, candidate.citation_metadata, candidate.url_context_metadata)
        for kind, raw in zip(SOURCES, found, strict=True):
            if raw and (text := _json(raw)) not in ("{}", "null"):
                self._sources[kind, text] = None

    def _spent(self) -> Usage | None:
        return usage_of(self._usage) if self._usage else None


def _is_plain(part: PartIn) -> bool:
    return part.thought_signature is None and not part.thought and part.function_call is None


def _says_more(candidate: CandidateIn, chunk: ChunkIn) -> bool:
    """Whether something stands beside the parts."""
    sources = candidate.grounding_metadata or candidate.citation_metadata or candidate.url_context_metadata
    return bool(sources or chunk.error or chunk.prompt_feedback)


def _continues(call: _Call, said: FunctionCallIn) -> bool:
    """Whether it is more of a call that comes in pieces; the first has the name, and some say it again."""
    if call.args is None:
        return False
    return not said.name or (
        said.name == call.name and said.id in (None, call.id) and said.partial_args is not None
    )


def _is_complete(call: _Call, said: FunctionCallIn) -> bool:
    """Takes the arguments in. A call without any may be cut off by a limit: the next event tells."""
    if said.partial_args is None and not said.will_continue and call.args is None:
        call.whole = _json(said.args) if _is_object(said.args) else ""
        return bool(call.whole)
    call.args = call.args or PartialArgs()
    if _is_object(said.args):
        call.args.seed(said.args)
    for piece in said.partial_args or ():
        call.args.add(piece)
    return not said.will_continue


def _is_object(args: msgspec.Raw) -> bool:
    return bytes(args).startswith(b"{")


def _media(kind: str, data: bytes, meta: Meta) -> Part:
    if kind.startswith("image/"):
        return Image(data=data, media_type=kind, meta=meta)
    if kind.startswith("audio/"):
        return Audio(data=data, media_type=kind, meta=meta)
    return File(data=data, media_type=kind or None, meta=meta)


def _why(raw: str | None, said: str | None) -> str:
    return f"gemini ended the answer with {raw}" + (f": {said}" if said else "")


def _json(value: object) -> str:
    """As it came, but for the white space between the tokens."""
    return msgspec.json.format(msgspec.json.encode(value), indent=-1).decode()
