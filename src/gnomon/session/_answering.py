"""An answer to a question, looked at before it is written: one of several is to be one of them."""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.errors import InvalidInput
from gnomon.types.events import QuestionAsked
from gnomon.types.messages import Part, Text

__all__ = ["fitting"]


def fitting(asked: QuestionAsked, given: tuple[Part, ...]) -> tuple[Part, ...]:
    """The answer as it is written down; where there are options it is of these, in their own words."""
    if not asked.options or not given:
        return given
    chosen = [_option(asked.options, part) for part in given]
    if len(chosen) > 1 and not asked.multiple:
        raise InvalidInput(f"one answer is to be chosen, and {len(chosen)} were given", hint=_hint(asked))
    # One line an option: a reader of texts would run several parts together.
    return (Text("\n".join(dict.fromkeys(chosen))),)


def _option(options: Sequence[str], part: Part) -> str:
    if not isinstance(part, Text):
        raise InvalidInput(f"a {type(part).__name__} is no answer here", hint=_known(options))
    wanted = part.text.strip()
    close = [option for option in options if option.strip().casefold() == wanted.casefold()]
    exact = [option for option in options if option.strip() == wanted]
    if len(found := exact or close) != 1:
        shown = wanted if len(wanted) <= 80 else f"{wanted[:80]}…"
        raise InvalidInput(f"{shown!r} is not one of the answers to choose from", hint=_known(options))
    return found[0]


def _hint(asked: QuestionAsked) -> str:
    return f"choose one of: {', '.join(map(repr, asked.options))}"


def _known(options: Sequence[str]) -> str:
    return f"they are: {', '.join(map(repr, options))}"
