"""A list of words that may not be said."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice

from gnomon.contracts.guardrail import Position, Window
from gnomon.errors import ConfigError
from gnomon.guardrails._choices import OnMatch, chosen, named, standing
from gnomon.guardrails._folding import HIDDEN, is_veiled, unveiled
from gnomon.guardrails._replacing import Found, mended, replaced, stopped
from gnomon.guardrails._terms import Shape, Terms
from gnomon.types.steps import GuardrailResult

__all__ = ["BlocklistGuardrail"]

_TITLE = "guardrail 'blocklist'"
_MARK = "***"
_VEIL = Found(0, 0, "a run of unseen characters", "")


class BlocklistGuardrail:
    """Stops, or stars out, the terms of a list: whole words, however they are written.

    Case, accents, full-width and look-alike letters and characters that cannot be seen make no
    difference. A term may have several words, and signs in it. In scripts without spaces between
    words it is found anywhere. A letter with more than six unseen characters behind it counts as
    a match, too, since it hides what comes next.
    """

    def __init__(
        self,
        terms: Sequence[str],
        *,
        on_match: OnMatch = "stop",
        positions: Collection[Position] = ("input", "output"),
        name: str = "blocklist",
    ) -> None:
        chosen(_TITLE, "on_match", [on_match], ("stop", "redact"))
        shapes = _shapes(terms)
        self._terms = Terms(shapes)
        self._total = len(shapes)
        self._on_match = on_match
        self._name = named(_TITLE, name)
        self._positions = standing(_TITLE, positions)
        self._view = Window(max(HIDDEN + 2, *(shape.size for shape in shapes)))
        if on_match == "redact" and self._found(_MARK):
            raise ConfigError(f"{_TITLE}: {_MARK!r} is a term, and what others are replaced by")

    @property
    def name(self) -> str:
        return self._name

    @property
    def positions(self) -> frozenset[Position]:
        return self._positions

    @property
    def view(self) -> Window:
        """As long as the longest term can be made by whoever wants to hide it."""
        return self._view

    async def check(self, content: str) -> GuardrailResult:
        found = self._found(content)
        if not found or self._on_match == "stop":
            return stopped(found)
        text, places = content, found
        if _VEIL in found:
            text = unveiled(content)
            places = self._places(text)
        return mended(found, replaced(text, places), self._found)

    def _found(self, text: str) -> list[Found]:
        if not self._terms.may_be_in(text):
            return []
        hidden = [_VEIL] if is_veiled(text) else []
        return hidden + self._places(text)

    def _places(self, text: str) -> list[Found]:
        """All of them; to stop, one is enough."""
        places = islice(self._terms.places(text), 1 if self._on_match == "stop" else None)
        return [Found(start, end, f"term {number} of {self._total}", _MARK) for start, end, number in places]


def _shapes(terms: Sequence[str]) -> list[Shape]:
    if isinstance(terms, str) or not terms:
        raise ConfigError(f"{_TITLE}: terms is {terms!r}", hint="a list of words, with at least one in it")
    return [_shape(term) for term in terms]


def _shape(term: str) -> Shape:
    shape = Shape.of(term)
    if not shape.words and not shape.gaps[0]:
        raise ConfigError(f"{_TITLE}: the term {term!r} has nothing in it to be found")
    return shape
