"""What each thing in a prompt is worth to one model, learned from the counts that its service reports.

A prompt is a few numbers (`Features`), and its tokens are their sum, each times a worth. What a
worth is at first, and how sure one is of it, comes from what vendors publish; every report
moves those that could explain the difference, the unsure ones most (recursive least squares,
which is ridge regression one row at a time).

Two things keep it sound. A report far outside of what was thought possible moves it no further
than one at the edge would: a service may have added a prompt of its own. And a worth has bounds
above zero: whatever was learned, more is never counted as less.
"""

from __future__ import annotations

from math import sqrt
from typing import TypeAlias

import msgspec

from gnomon.counters._vendors import Family

__all__ = ["Features", "Fit", "Worths", "begun", "start"]

Features: TypeAlias = tuple[float, ...]
"""What a prompt holds, in the order of `Family`'s worths."""

Worths: TypeAlias = tuple[float, ...]
Spread: TypeAlias = tuple[tuple[float, ...], ...]

_BOUNDS: dict[str, tuple[float, float]] = {
    "text": (0.4, 2.5),
    "other_text": (0.25, 4.0),
    "media": (0.1, 10.0),
    "schema": (0.1, 4.0),
    "output_schema": (0.01, 4.0),
    "message": (0.0, 40.0),
    "exchange": (0.0, 120.0),
    "tool": (0.0, 150.0),
    "any_tools": (0.0, 1500.0),
    "any_output": (0.0, 1500.0),
    "request": (0.0, 400.0),
}
"""What each thing is worth at least and at most: text, media and schemas never nothing."""

_NOISE = 0.06
"""What no weights of characters explain: as a share of the tokens, and in tokens."""
_NOISE_TOKENS = 2.0

_OUTLIER = 3.0
"""Deviations beyond which a report is cut down."""

_REOPENED = 0.001
"""Of its first doubt, a worth gets so much back with every report: services change under a name."""


class Fit(msgspec.Struct, frozen=True, array_like=True):
    """What is known of one model: the worths, how they hang together, and how many reports made them."""

    worths: Worths
    spread: Spread
    reports: int = 0

    def tokens(self, features: Features) -> float:
        return sum(map(float.__mul__, self.worths, features))

    def bounded(self) -> Fit:
        """The same within the bounds, for one that came from elsewhere."""
        return Fit(worths=_bounded(list(self.worths)), spread=self.spread, reports=self.reports)

    def learned(self, features: Features, tokens: int, family: Family) -> Fit:
        """With one more report."""
        leaning = [sum(map(float.__mul__, row, features)) for row in self.spread]
        unsure = sum(map(float.__mul__, leaning, features))
        if unsure < 0:  # rounding has made nonsense of the spread: to be unsure of all again is sound
            return begun(family, self.worths).learned(features, tokens, family)
        thought = self.tokens(features)
        variance = unsure + (_NOISE * max(tokens, thought)) ** 2 + _NOISE_TOKENS**2
        edge = _OUTLIER * sqrt(variance)
        missed = min(edge, max(-edge, tokens - thought))
        return Fit(
            worths=_bounded(
                [at + lean / variance * missed for at, lean in zip(self.worths, leaning, strict=True)]
            ),
            spread=_narrowed(self.spread, leaning, variance, family),
            reports=self.reports + 1,
        )


def start(family: Family) -> Fit:
    """Before any report."""
    return begun(family, tuple(worth for worth, _ in family.worths))


def begun(family: Family, worths: Worths) -> Fit:
    """Unsure of it all: for a new model, that begins where its family has got to."""
    doubts = [doubt**2 for _, doubt in family.worths]
    size = range(len(doubts))
    spread = tuple(tuple(doubts[row] if row == column else 0.0 for column in size) for row in size)
    return Fit(worths=worths, spread=spread)


def _bounded(worths: list[float]) -> Worths:
    bounds = _BOUNDS.values()
    return tuple(min(most, max(least, at)) for at, (least, most) in zip(worths, bounds, strict=True))


def _narrowed(spread: Spread, leaning: list[float], variance: float, family: Family) -> Spread:
    made: list[tuple[float, ...]] = []
    for at, row in enumerate(spread):
        doubt = family.worths[at][1] ** 2
        share = leaning[at] / variance
        if not share and row[at] >= doubt:  # a prompt without images says nothing of them
            made.append(row)
            continue
        new = [was - share * lean for was, lean in zip(row, leaning, strict=True)]
        new[at] = min(doubt, new[at] + _REOPENED * doubt)
        made.append(tuple(new))
    return tuple(made)
