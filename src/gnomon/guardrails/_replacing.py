"""What a guardrail found in a text, and the text without it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from gnomon.types.steps import GuardrailResult

__all__ = ["Found", "mended", "replaced", "stopped"]

_BEFORE_A_VALUE, _AFTER_A_VALUE = ":,[", ",]}"
_NEAR = 64
_NAMED = 5


class Found(NamedTuple):
    """Where something stands in a text, what it is called in a sentence, and what is put in its place."""

    start: int
    end: int
    what: str
    mark: str


def stopped(found: Sequence[Found]) -> GuardrailResult:
    """The verdict, and nothing to go on with."""
    return GuardrailResult(False, _reason(found)) if found else GuardrailResult(True)


def mended(
    found: Sequence[Found], instead: str | None, look: Callable[[str], Sequence[Found]]
) -> GuardrailResult:
    """The verdict with a replacement. One that would not pass itself is none, and so the turn stops."""
    if instead is not None and look(instead):
        instead = None
    return GuardrailResult(False, _reason(found), instead)


def replaced(text: str, found: Iterable[Found]) -> str:
    """The text with a mark for each; JSON stays JSON, where a bare number is taken out of it."""
    places = list(found)
    plain = _with_marks(text, places, _plain)
    if _is_json(text) and not _is_json(plain):
        return _with_marks(text, places, _quoted)
    return plain


def _reason(found: Sequence[Found]) -> str:
    """Each kind once, in the order in which they stand in the text."""
    kinds = list(dict.fromkeys(each.what for each in found))
    if len(kinds) > _NAMED:
        kinds[_NAMED:] = [f"{len(kinds) - _NAMED} more"]
    listed = ", ".join(kinds[:-1]) + (" and " if kinds[1:] else "") + kinds[-1]
    return f"{listed} {'were' if kinds[1:] else 'was'} found"


def _with_marks(text: str, places: Sequence[Found], mark: Callable[[str, Found], str]) -> str:
    pieces: list[str] = []
    at = 0
    for place in places:
        pieces += [text[at : place.start], mark(text, place)]
        at = place.end
    return "".join([*pieces, text[at:]])


def _plain(_: str, place: Found) -> str:
    return place.mark


def _quoted(text: str, place: Found) -> str:
    before = text[max(place.start - _NEAR, 0) : place.start].rstrip()[-1:]
    after = text[place.end : place.end + _NEAR].lstrip()[:1]
    is_bare = before in _BEFORE_A_VALUE and after in _AFTER_A_VALUE
    return f'"{place.mark}"' if is_bare else place.mark


def _is_json(text: str) -> bool:
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True
