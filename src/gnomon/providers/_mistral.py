"""Mistral's answers: Chat Completions whose content may be a list of chunks.

While the model thinks, a delta is a list with a `thinking` chunk; then one list closes the
thought and begins the answer; after that come plain strings. References stand between texts.
https://docs.mistral.ai/studio/conversations/reasoning and …/citations
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Literal, TypeAlias, cast

import msgspec

from gnomon.providers._chat import ChatDecoder
from gnomon.types.events import PartEnd, ProviderEvent, TextDelta, ThinkingDelta
from gnomon.types.messages import Meta, Text, Thinking

__all__ = ["CHUNKS_META", "MistralDecoder"]

CHUNKS_META = "mistral_chunks"
"""Under this name a part keeps the chunks it was made of, where they are more than text."""

_Kind: TypeAlias = Literal["text", "thinking"]


class _Block:
    """What is being said or thought. A piece is a text, or a chunk of another kind, as it came."""

    __slots__ = ("index", "kind", "pieces", "signature")

    def __init__(self, kind: _Kind, index: int) -> None:
        self.kind = kind
        self.index = index
        self.pieces: list[str | Meta] = []
        self.signature: str | None = None

    @property
    def text(self) -> str:
        return "".join(piece for piece in self.pieces if isinstance(piece, str))

    def meta(self) -> Meta:
        if all(isinstance(piece, str) for piece in self.pieces):
            return {}
        return {CHUNKS_META: msgspec.json.encode(_chunks(self.pieces)).decode()}


class MistralDecoder(ChatDecoder):
    """The chunks of one answer. A thought after a text, or a text after a thought, is a new part."""

    def __init__(self, vendor: str, model: str) -> None:
        super().__init__(vendor, model)
        self._open: _Block | None = None

    def feed(self, data: bytes) -> Sequence[ProviderEvent]:
        pure = self._pure
        events = super().feed(data)
        if pure and self._pure and events and self._open is not None:
            # It went the short way, past `_say`; a reference may yet want to know what it refers to.
            self._open.pieces.append(cast(TextDelta, events[0]).text)
        return events

    def _say(self, content: object, out: list[ProviderEvent]) -> None:
        if isinstance(content, str):
            self._add(self._block("text", out), content, out)
            return
        for chunk in _listed(content):
            match chunk.get("type"):
                case "thinking":
                    self._think_on(chunk, out)
                case "reference":
                    self._block("text", out).pieces.append(chunk)
                case _:
                    if isinstance(text := chunk.get("text"), str):
                        self._add(self._block("text", out), text, out)

    def _think_on(self, chunk: Meta, out: list[ProviderEvent]) -> None:
        inner = chunk.get("thinking")
        pieces: list[Meta] = [{"text": inner}] if isinstance(inner, str) else _listed(inner)
        signature = chunk.get("signature")
        if not (signature or any(piece.get("text") != "" for piece in pieces)):
            return  # it only says that the thought is closed
        block = self._block("thinking", out)
        for piece in pieces:
            if isinstance(text := piece.get("text"), str):
                self._add(block, text, out)
            else:
                block.pieces.append(piece)
        if isinstance(signature, str):
            block.signature = signature

    def _add(self, block: _Block, text: str, out: list[ProviderEvent]) -> None:
        if text:
            block.pieces.append(text)
            delta = TextDelta if block.kind == "text" else ThinkingDelta
            out.append(delta(block.index, text))

    def _block(self, kind: _Kind, out: list[ProviderEvent]) -> _Block:
        """The one that is open, if it is of this kind; else that one ends, and another begins."""
        if self._open is None or self._open.kind != kind:
            self._end_block(out)
            self._open = _Block(kind, self._new_block())
            self._text = self._open.index  # of a thought, it is never that of a text
        return self._open

    def _end_block(self, out: list[ProviderEvent]) -> None:
        block, self._open = self._open, None
        if block is None:
            return
        meta = block.meta()
        if block.kind == "thinking":
            thought = Thinking(
                block.text, signature=block.signature, provider=self._vendor, model=self._model, meta=meta
            )
            out.append(PartEnd(block.index, thought))
        elif meta:
            out.append(PartEnd(block.index, Text(block.text, meta=meta)))

    def _complete(self) -> Sequence[ProviderEvent]:
        out: list[ProviderEvent] = []
        self._end_block(out)
        return [*out, *super()._complete()]


def _chunks(pieces: list[str | Meta]) -> list[Meta]:
    """Chunks as the vendor writes them: texts that follow one another are one."""
    made: list[Meta] = []
    for is_text, group in groupby(pieces, lambda piece: isinstance(piece, str)):
        if is_text:
            made.append({"type": "text", "text": "".join(cast("list[str]", list(group)))})
        else:
            made += cast("list[Meta]", list(group))
    return made


def _listed(value: object) -> list[Meta]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast(Meta, item) for item in items if isinstance(item, dict)]
