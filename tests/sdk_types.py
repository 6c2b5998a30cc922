"""The types of the vendors' own libraries, as the judge of what we send."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from pydantic import BaseModel, TypeAdapter

__all__ = ["read_as"]


@cache
def _adapter(params: Any) -> TypeAdapter[Any]:
    return TypeAdapter(params)


def read_as(params: Any, body: bytes) -> dict[str, Any]:
    """The body, read; fails when the type takes it not at all, or drops something it does not know."""
    sent = msgspec.json.decode(body)
    taken = _plain(_adapter(params).validate_python(sent))
    assert taken == sent, f"sent {sent}, of which the library knows {taken}"
    return sent


def _plain(value: Any) -> Any:
    """Pydantic reads an `Iterable` only when somebody does."""
    if isinstance(value, BaseModel):  # Anthropic takes its own answers back as they are
        value = value.model_dump(exclude_unset=True, by_alias=True)
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple) or type(value).__name__ == "ValidatorIterator":
        return [_plain(inner) for inner in value]
    return value
