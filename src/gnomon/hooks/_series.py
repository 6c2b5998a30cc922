"""Counters and histograms, and how Prometheus reads them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

__all__ = ["Bounded", "Counter", "Histogram", "Meter"]


class _Adding(Protocol):
    def add(self, amount: float, attributes: Mapping[str, str]) -> None: ...


class _Recording(Protocol):
    def record(self, amount: float, attributes: Mapping[str, str]) -> None: ...


class Meter(Protocol):
    """What makes instruments: a meter of OpenTelemetry's."""

    def create_counter(self, name: str, unit: str = "", description: str = "") -> _Adding: ...

    def create_histogram(self, name: str, unit: str = "", description: str = "") -> _Recording: ...


class Counter:
    """A sum for each set of labels, which only grows."""

    def __init__(
        self, name: str, unit: str, about: str, labels: Sequence[str], meter: Meter | None = None
    ) -> None:
        self._name = _exposed(name, "_total")
        self._head = _head(self._name, about, "counter")
        self._labels = tuple(labels)
        self._sums: dict[tuple[str, ...], float] = {}
        self._instrument = None if meter is None else meter.create_counter(name, unit=unit, description=about)

    def add(self, amount: float, *values: str) -> None:
        self._sums[values] = self._sums.get(values, 0) + amount
        if self._instrument is not None:
            self._instrument.add(amount, dict(zip(self._labels, values, strict=True)))

    def lines(self) -> Iterator[str]:
        yield from self._head
        for values, total in self._sums.items():
            yield _line(self._name, zip(self._labels, values, strict=True), total)


class Histogram:
    """How often something took how long, for each set of labels."""

    def __init__(
        self,
        name: str,
        about: str,
        labels: Sequence[str],
        bounds: Sequence[float],
        meter: Meter | None = None,
    ) -> None:
        self._name = _exposed(name, "_seconds")
        self._head = _head(self._name, about, "histogram")
        self._labels = tuple(labels)
        self._bounds = tuple(bounds)
        self._series: dict[tuple[str, ...], _Buckets] = {}
        self._instrument = (
            None if meter is None else meter.create_histogram(name, unit="s", description=about)
        )

    def record(self, seconds: float, *values: str) -> None:
        found = self._series.get(values)
        if found is None:
            found = self._series[values] = _Buckets(len(self._bounds) + 1)
        found.counts[bisect_left(self._bounds, seconds)] += 1
        found.total += seconds
        if self._instrument is not None:
            self._instrument.record(seconds, dict(zip(self._labels, values, strict=True)))

    def lines(self) -> Iterator[str]:
        yield from self._head
        for values, buckets in self._series.items():
            labels = [*zip(self._labels, values, strict=True)]
            seen = 0
            for bound, count in zip((*map(_number, self._bounds), "+Inf"), buckets.counts, strict=True):
                seen += count
                yield _line(f"{self._name}_bucket", [*labels, ("le", bound)], seen)
            yield _line(f"{self._name}_sum", labels, buckets.total)
            yield _line(f"{self._name}_count", labels, seen)


class _Buckets:
    __slots__ = ("counts", "total")

    def __init__(self, size: int) -> None:
        self.counts = [0] * size
        self.total = 0.0


class Bounded:
    """Names, as long as they are few: every further one is `other`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def __call__(self, name: str) -> str:
        if name not in self._known:
            if len(self._known) >= self._most:
                return "other"
            self._known.add(name)
        return name


def _exposed(name: str, suffix: str) -> str:
    return name.replace(".", "_") + suffix


def _head(name: str, about: str, kind: str) -> tuple[str, str]:
    told = about.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {name} {told}", f"# TYPE {name} {kind}"


def _line(name: str, labels: Iterable[tuple[str, str]], value: float) -> str:
    inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
    return f"{name}{{{inside}}} {_number(value)}"


def _escaped(text: str) -> str:
    plain = text.encode("utf-8", "replace").decode()  # half a character cannot be sent
    return plain.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
