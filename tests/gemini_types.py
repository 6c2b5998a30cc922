"""The types of Google's own library, as the judge of what Gemini is sent.

The library has no type for a body as it goes over the wire; this one is made of its pieces,
each of which refuses a field that it does not know.
"""

from __future__ import annotations

from typing import Any

import msgspec
from google.genai import _common, types

__all__ = ["read_as_count", "read_as_gemini"]


class _Body(_common.BaseModel):
    contents: list[types.Content]
    tools: list[types.Tool] | None = None
    tool_config: types.ToolConfig | None = None
    system_instruction: types.Content | None = None
    generation_config: types.GenerationConfig | None = None
    safety_settings: list[types.SafetySetting] | None = None
    labels: dict[str, str] | None = None
    cached_content: str | None = None


class _Counted(_Body):
    model: str


class _Count(_common.BaseModel):
    generate_content_request: _Counted


def read_as_gemini(body: bytes) -> dict[str, Any]:
    """The body, read; fails when it has a field that the library does not know, or knows otherwise."""
    return _read(_Body, body)


def read_as_count(body: bytes) -> dict[str, Any]:
    return _read(_Count, body)


def _read(kind: type[_common.BaseModel], body: bytes) -> dict[str, Any]:
    sent = msgspec.json.decode(body)
    read = kind.model_validate_json(body)
    taken = read.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert _one_alphabet(taken) == _one_alphabet(sent), f"sent {sent}, of which the library knows {taken}"
    for content in sent.get("contents", ()):
        assert content["role"] in ("user", "model")
        assert content["parts"], "a turn without parts"
        for part in content["parts"]:
            assert len(part.keys() & _DATA) == 1, f"{part} holds one thing at a time"
    return sent


_DATA = {
    "text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode",
    "codeExecutionResult", "toolCall", "toolResponse",
}  # fmt: skip


def _one_alphabet(value: Any) -> Any:
    """Base64 is written in two alphabets, and the library answers in the other one."""
    if isinstance(value, str):
        return value.replace("+", "-").replace("/", "_")
    if isinstance(value, dict):
        return {name: _one_alphabet(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_one_alphabet(inner) for inner in value]
    return value
