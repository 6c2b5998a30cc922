"""What was learned of all models: a bounded number of fits, by model and by family, and how they are kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from math import isfinite, sqrt
from threading import Lock

import msgspec

from gnomon.counters._fit import Features, Fit, begun, start
from gnomon.counters._vendors import FAMILIES, family_of

__all__ = ["VERSION", "Learned", "NotReadable"]

VERSION = 1
"""Of the state: to be raised when a fit of old would mean something else."""


_WIDEST = 1e6
"""No family is as unsure of anything."""

_ROUNDED, _TINY = 1.001, 1e-6
"""What writing a state with few digits may have added."""


_EVERY_ONE, _THEN_EVERY = 32, 16
"""Reports of a model that are all learned from, and how many there are to one after that: by then each
tells little, and to learn from it costs as much as a small answer does."""
_SURPRISE = 0.1
"""Of the tokens: who is as far off as that looks at every report again."""


class NotReadable(ValueError):
    """Why a state cannot be used."""


class _Line(msgspec.Struct, frozen=True, array_like=True):
    """A fit as it is written: of the spread, which is symmetric, one half."""

    reports: int
    worths: list[float]
    half: list[float]


class _State(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    models: dict[str, _Line]
    families: dict[str, _Line]


class _Version(msgspec.Struct, frozen=True):
    version: int


class Learned:
    """Fits by model. A model that nobody has reported of is worth what others of its family are."""

    def __init__(self, models_kept: int) -> None:
        self._kept = models_kept
        self._models: OrderedDict[str, Fit] = OrderedDict()
        self._families: dict[str, Fit] = {}
        self._lock = Lock()
        self._to_come: dict[str, int] = {}
        """Reports of a model that will still be learned from, each of them; below zero, those passed over."""

    def is_due(self, model: str) -> bool:
        """Whether one more report of this model is worth its cost."""
        known = self._models.get(model)
        if known is None:
            return True
        left = self._to_come.get(model, _EVERY_ONE - known.reports)
        self._to_come[model] = left - 1
        return left > 0 or left % _THEN_EVERY == 1

    def fit(self, model: str) -> Fit:
        return self._models.get(model) or self._family(model)

    def _family(self, model: str) -> Fit:
        family = family_of(model)
        return self._families.get(family.name) or start(family)

    def report(self, model: str, features: Features, tokens: int) -> None:
        family = family_of(model)
        with self._lock:
            of_family = self._family(model)
            of_model = self._models.get(model) or begun(family, of_family.worths)
            if abs(of_model.tokens(features) - tokens) > _SURPRISE * tokens:
                self._to_come[model] = _EVERY_ONE
            self._models[model] = of_model.learned(features, tokens, family)
            self._models.move_to_end(model)
            self._families[family.name] = of_family.learned(features, tokens, family)
            self._drop()

    def _drop(self) -> None:
        while len(self._models) > self._kept:
            gone, _ = self._models.popitem(last=False)
            self._to_come.pop(gone, None)

    def models(self) -> tuple[str, ...]:
        """Those that are known, the one reported last at the end."""
        return tuple(self._models)

    # --- kept from one process to the next ----------------------------------------

    def write(self) -> bytes:
        with self._lock:
            models = {name: _line(fit) for name, fit in self._models.items()}
            families = {name: _line(fit) for name, fit in self._families.items()}
        return msgspec.json.encode(_State(version=VERSION, models=models, families=families))

    def read(self, state: bytes) -> None:
        """Take over what others have learned, where they know more. `NotReadable` leaves all as it was."""
        read = _decoded(state)
        models = {name: _fit(line) for name, line in read.models.items()}
        families = {name: _fit(line) for name, line in read.families.items() if name in FAMILIES}
        with self._lock:
            # Ours at the end: where there are too many, those of others go first.
            self._models = OrderedDict(_joined(models, self._models))
            self._families = _joined(families, self._families)
            self._drop()


def _joined(theirs: dict[str, Fit], ours: Mapping[str, Fit]) -> dict[str, Fit]:
    """Of what both know, the one with more reports."""
    joined = {name: fit for name, fit in theirs.items() if name not in ours}
    for name, fit in ours.items():
        other = theirs.get(name, fit)
        joined[name] = other if fit.reports < other.reports else fit
    return joined


def _decoded(state: bytes) -> _State:
    try:
        version = msgspec.json.decode(state, type=_Version).version
        if version != VERSION:
            raise NotReadable(f"it is of version {version}, and this is version {VERSION}")
        return msgspec.json.decode(state, type=_State)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotReadable(str(error)) from error


def _line(fit: Fit) -> _Line:
    half = [_short(value) for at, row in enumerate(fit.spread) for value in row[: at + 1]]
    return _Line(fit.reports, [_short(worth) for worth in fit.worths], half)


def _short(value: float) -> float:
    return float(f"{value:.7g}")


def _fit(line: _Line) -> Fit:
    size = len(start(family_of("")).worths)
    if len(line.worths) != size or len(line.half) != size * (size + 1) // 2 or line.reports < 0:
        raise NotReadable("it holds another number of values")
    if not all(map(isfinite, (*line.worths, *line.half))):
        raise NotReadable("it holds what is no number")
    rows = [line.half[at * (at + 1) // 2 : (at + 1) * (at + 2) // 2] for at in range(size)]
    spread = tuple(tuple(rows[max(a, b)][min(a, b)] for b in range(size)) for a in range(size))
    if not _is_sound(spread):
        raise NotReadable("it holds a spread that is none")
    return Fit(worths=tuple(line.worths), spread=spread, reports=line.reports).bounded()


def _is_sound(spread: Sequence[Sequence[float]]) -> bool:
    """No two worths hang together more closely than each with itself."""
    own = [row[at] for at, row in enumerate(spread)]
    if not all(0 <= one <= _WIDEST for one in own):
        return False
    doubts = [sqrt(one) for one in own]
    return all(
        abs(shared) <= doubts[a] * doubts[b] * _ROUNDED + _TINY
        for a, row in enumerate(spread)
        for b, shared in enumerate(row)
    )
