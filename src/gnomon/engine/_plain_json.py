"""JSON text as a person reads it: nothing hides behind an escape, or behind the same name given twice."""

from __future__ import annotations

import re

import msgspec

__all__ = ["is_json", "says_twice", "unescaped"]

_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")


def unescaped(text: str) -> str:
    """The text, be it whole or not, with the letters that stand for themselves."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)


def says_twice(text: str) -> bool:
    """Whether an object in it gives a name twice, so that only the last of the two counts."""
    import json  # msgspec keeps the last of two, and tells nobody

    is_double = False

    def noted(pairs: list[tuple[str, object]]) -> None:
        nonlocal is_double
        is_double = is_double or len({name for name, _ in pairs}) < len(pairs)

    try:
        json.loads(text, object_pairs_hook=noted)
    except (ValueError, RecursionError):
        return True  # nobody knows
    return is_double


def is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False
    return True
