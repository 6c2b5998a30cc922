"""What was lost and what was changed on the way, and whether that matters."""

from __future__ import annotations

from itertools import islice
from typing import Literal

from gnomon.providers._schema.reading import Pointer

__all__ = ["Notes"]

# A hostile schema must not make a list of sentences that is larger than itself.
_MOST_SENTENCES = 100
_LONGEST_STEP = 40


class Notes:
    """Sentences, each said once and in the order in which things were met."""

    def __init__(self) -> None:
        self._lost: dict[str, None] = {}
        self._changed: dict[str, None] = {}
        self.exact = True
        self.sound = True

    @property
    def lost(self) -> tuple[str, ...]:
        return _some(self._lost)

    @property
    def changed(self) -> tuple[str, ...]:
        return _some(self._changed)

    def lose(self, steps: Pointer, what: str) -> None:
        self._lost[_sentence(steps, what)] = None
        self.exact = self.sound = False

    def change(self, steps: Pointer, what: str, meaning: Literal["same", "narrower", "other"]) -> None:
        """A change. "narrower": what fits now did fit before, and not the other way round."""
        self._changed[_sentence(steps, what)] = None
        self.exact = self.exact and meaning == "same"
        self.sound = self.sound and meaning != "other"


def _sentence(steps: Pointer, what: str) -> str:
    short = (step if len(step) <= _LONGEST_STEP else step[:_LONGEST_STEP] + "…" for step in steps)
    return f"{'/'.join(short) or 'at the top'}: {what}"


def _some(sentences: dict[str, None]) -> tuple[str, ...]:
    said = tuple(islice(sentences, _MOST_SENTENCES))
    more = len(sentences) - len(said)
    return (*said, f"and {more} more of this kind") if more else said
