"""What Google's Gemini API sends, chunk by chunk: each is a whole `GenerateContentResponse`.

Every field may be missing, and fields that are not known are passed over. What is only
needed at the end, or by few, is left as it came (`msgspec.Raw`).
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from gnomon.types.requests import Usage

__all__ = [
    "NULL",
    "BlobIn",
    "CandidateIn",
    "ChunkIn",
    "Fields",
    "FunctionCallIn",
    "PartIn",
    "PartialArgIn",
    "is_there",
    "read_blob",
    "read_chunk",
    "read_fields",
    "read_raw_parts",
    "usage_of",
]

Fields: TypeAlias = dict[str, msgspec.Raw]
"""An object whose values are left as they came."""


class PartialArgIn(msgspec.Struct, rename="camel"):
    """A piece of one argument; `null_value` is there when it has any text, if only `null`."""

    json_path: str = ""
    string_value: str | None = None
    number_value: msgspec.Raw = msgspec.Raw()
    bool_value: bool | None = None
    null_value: msgspec.Raw = msgspec.Raw()


class FunctionCallIn(msgspec.Struct, rename="camel"):
    id: str | None = None
    name: str | None = None
    args: msgspec.Raw = msgspec.Raw()
    partial_args: list[PartialArgIn] | None = None
    will_continue: bool | None = None


class BlobIn(msgspec.Struct, rename="camel"):
    mime_type: str = ""
    data: bytes = b""


class PartIn(msgspec.Struct, rename="camel"):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: FunctionCallIn | None = None
    inline_data: msgspec.Raw = msgspec.Raw()


class ContentIn(msgspec.Struct):
    parts: list[PartIn] | None = None


class CandidateIn(msgspec.Struct, rename="camel"):
    content: ContentIn | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    index: int | None = None
    citation_metadata: msgspec.Raw = msgspec.Raw()
    grounding_metadata: msgspec.Raw = msgspec.Raw()
    url_context_metadata: msgspec.Raw = msgspec.Raw()


class FeedbackIn(msgspec.Struct, rename="camel"):
    block_reason: str | None = None
    block_reason_message: str | None = None


class ChunkIn(msgspec.Struct, rename="camel"):
    candidates: list[CandidateIn] | None = None
    usage_metadata: msgspec.Raw = msgspec.Raw()
    prompt_feedback: FeedbackIn | None = None
    response_id: str | None = None
    model_version: str | None = None
    error: msgspec.Raw = msgspec.Raw()


NULL = msgspec.Raw(b"null")


def is_there(raw: msgspec.Raw) -> bool:
    """Whether a field that was left as it came says anything: what stands in between may write `null`."""
    return bool(raw) and raw != NULL


class _RawContent(msgspec.Struct):
    parts: list[msgspec.Raw] | None = None


class _RawCandidate(msgspec.Struct):
    content: _RawContent | None = None
    index: int | None = None


class _RawChunk(msgspec.Struct):
    candidates: list[_RawCandidate] | None = None


class _UsageIn(msgspec.Struct, rename="camel"):
    prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    total_token_count: int | None = None


read_chunk = msgspec.json.Decoder(ChunkIn).decode
read_blob = msgspec.json.Decoder(BlobIn).decode
read_fields = msgspec.json.Decoder(Fields).decode
_read_raw_chunk = msgspec.json.Decoder(_RawChunk).decode
_read_usage = msgspec.json.Decoder(_UsageIn).decode


def read_raw_parts(data: bytes) -> list[msgspec.Raw]:
    """The parts of the candidate that is read, each as it came."""
    for candidate in _read_raw_chunk(data).candidates or ():
        if not candidate.index:
            parts = candidate.content.parts if candidate.content is not None else None
            return [part.copy() for part in parts or ()]
    return []


def usage_of(said: msgspec.Raw) -> Usage | None:
    """The vendor's prompt includes what the cache gave, and what its own tools read comes on top.

    Its answer leaves the thoughts out; a total without room for them says that it does not.
    """
    counts = _read_usage(said)
    if counts == _UsageIn():
        return None
    cached, thoughts = counts.cached_content_token_count, counts.thoughts_token_count
    read = _sum(counts.prompt_token_count, counts.tool_use_prompt_token_count)
    answer = counts.candidates_token_count
    written = _sum(answer, thoughts)
    if thoughts and answer is not None and counts.total_token_count == _sum(read, answer):
        written = answer
    if read is not None and cached is not None and cached <= read:
        read -= cached
    return Usage(
        input_tokens=read, output_tokens=written, cache_read_tokens=cached, reasoning_tokens=thoughts
    )


def _sum(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
