"""What in a conversation is of use to one model alone: signatures, and what is encrypted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from gnomon.types.messages import Part, Thinking, UnknownPart

__all__ = ["Secret", "secrets_in"]

# Where they stand in what vendors send: fields of theirs, and the names under which parts keep them.
_OF_THINKING = frozenset(
    {"signature", "redacted", "thoughtSignature", "thought_signature", "gemini_signature", "data"}
)
_ENCRYPTED = frozenset({"encrypted_content", "encrypted_index", "encrypted_stdout"})


class Secret(msgspec.Struct, frozen=True):
    name: str
    value: str
    of_thinking: bool
    """Else it is of a tool that the vendor ran: any model of that vendor may read it."""


def secrets_in(parts: Iterable[Part]) -> Iterator[Secret]:
    for part in parts:
        for name, value in _named_texts(msgspec.to_builtins(part)):
            if name in _ENCRYPTED:
                yield Secret(name, value, isinstance(part, Thinking))
            elif name in _OF_THINKING and not (name == "data" and not isinstance(part, Thinking)):
                yield Secret(name, value, not _is_of_a_service(part, name))


def _is_of_a_service(part: Part, name: str) -> bool:
    return isinstance(part, UnknownPart) and name not in ("thoughtSignature", "thought_signature")


def _named_texts(value: object) -> Iterator[tuple[str, str]]:
    """Every text under its name, at any depth, and inside of texts that are JSON themselves."""
    if isinstance(value, list | tuple):
        for inner in value:
            yield from _named_texts(inner)
    if not isinstance(value, dict):
        return
    for name, inner in value.items():
        if not isinstance(inner, str):
            yield from _named_texts(inner)
        elif inner[:1] in ("{", "["):
            yield from _named_texts(_read(inner))
        elif inner:
            yield str(name), inner


def _read(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
