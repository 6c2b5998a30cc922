"""How many steps there were, how long they took and what they used."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from itertools import pairwise
from threading import Lock
from typing import ClassVar, cast

from gnomon.contracts.hook import Step
from gnomon.errors import ConfigError, MissingExtra
from gnomon.facts.catalogue import Catalogue
from gnomon.hooks._notes import retries
from gnomon.hooks._passing import Outcome, passing
from gnomon.hooks._prices import Item, items
from gnomon.hooks._series import Bounded, Counter, Histogram, Meter
from gnomon.stream import PullStream
from gnomon.types.events import RunEvent
from gnomon.types.records import utc_now
from gnomon.types.steps import HookEvent

__all__ = ["BUCKETS_S", "Meter", "MetricsHook"]

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_CLASSES = ("input", "output", "cache_read", "cache_write", "reasoning")


class MetricsHook:
    """Counts steps, and shows the counts as Prometheus reads them, or to OpenTelemetry.

    ```python
    metrics = MetricsHook()
    Agent("openai", hooks=[metrics])
    ```

    `metrics.text()` is what to answer a scraper with, as `MetricsHook.content_type`. With a `meter` of
    OpenTelemetry's, or with `opentelemetry=True` the process's own, the same is reported there.

    A name is a label as long as there are at most `names` of its kind; every further one is `other`. Costs
    are in US dollars, by the prices of the catalogue and those in `models`.
    """

    name = "metrics"
    content_type: ClassVar[str] = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(
        self,
        *,
        names: int = 100,
        buckets_s: Sequence[float] = BUCKETS_S,
        models: Mapping[str, Mapping[str, object]] | None = None,
        meter: Meter | None = None,
        opentelemetry: bool = False,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        _check(names, buckets_s)
        self._made = _Made(meter or (_meter() if opentelemetry else None), buckets_s)
        self._names = {kind: Bounded(names) for kind in ("model", "tool", "turn", "session")}
        self._outcomes = Bounded(names)
        self._catalogue = Catalogue(models)
        self._clock = clock
        self._now = now
        self._lock = Lock()  # a scraper is answered by another thread, as a rule
        self._note = f"metrics.{id(self)}"

    async def before(self, event: HookEvent) -> None:
        """Note the time."""
        event.notes[self._note] = self._clock()

    async def after(self, event: HookEvent) -> None:
        """Count the step, and how long it took."""
        started = event.notes.pop(self._note, None)
        with self._lock:
            kind, name = event.kind, self._names[event.kind](event.name)
            self._made.steps.add(1, kind, name, self._outcomes(_outcome(event)))
            if isinstance(started, int | float):
                self._made.durations.record(max(self._clock() - started, 0.0), kind, name)
            if again := retries(event):
                self._made.retries.add(again, kind, name)

    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        """The step as it is."""
        if event.kind != "model":
            return await call(event)
        started = self._clock()
        return await passing(
            event,
            call,
            ended=lambda outcome: self._end(event, outcome),
            began=lambda: self._begin(event, started),
        )

    def text(self) -> str:
        """All of it, in the text format of Prometheus."""
        with self._lock:
            lines = [line for each in self._made.all for line in each.lines()]
        return "\n".join([*lines, ""])

    def _begin(self, event: HookEvent, started: float) -> None:
        with self._lock:
            name = self._names["model"](event.name)
            self._made.first_events.record(max(self._clock() - started, 0.0), name)

    def _end(self, event: HookEvent, outcome: Outcome) -> None:
        used = items(outcome, self._catalogue, event.name, self._now())
        with self._lock:
            for item in used:
                self._count(item)

    def _count(self, item: Item) -> None:
        name = self._names["model"](item.model)
        for kind in _CLASSES:
            count: int | None = getattr(item.usage, f"{kind}_tokens")
            if count:
                self._made.tokens.add(count, name, kind)
        if item.cost is None:
            self._made.unpriced.add(1, name)
        else:
            self._made.costs.add(float(item.cost), name)


class _Made:
    """What is counted."""

    def __init__(self, meter: Meter | None, buckets_s: Sequence[float]) -> None:
        step = ("kind", "name")
        self.steps = Counter("gnomon.steps", "{step}", "Steps that ended.", (*step, "outcome"), meter)
        self.durations = Histogram("gnomon.step.duration", "How long steps took.", step, buckets_s, meter)
        self.first_events = Histogram(
            "gnomon.model.first_event", "Until a model began to answer.", ("name",), buckets_s, meter
        )
        self.tokens = Counter(
            "gnomon.tokens",
            "{token}",
            "Tokens used, also by attempts that failed; reasoning is a part of output.",
            ("name", "class"),
            meter,
        )
        self.costs = Counter("gnomon.cost.usd", "{USD}", "US dollars, of what has a price.", ("name",), meter)
        self.unpriced = Counter(
            "gnomon.unpriced", "{answer}", "Answers and attempts without a known price.", ("name",), meter
        )
        self.retries = Counter("gnomon.retries", "{retry}", "Steps that were done again.", step, meter)

    @property
    def all(self) -> tuple[Counter | Histogram, ...]:
        return (
            self.steps,
            self.durations,
            self.first_events,
            self.tokens,
            self.costs,
            self.unpriced,
            self.retries,
        )


def _outcome(event: HookEvent) -> str:
    if event.error is not None:
        return event.error.code
    return "ok" if event.result is None else event.result.status


def _meter() -> Meter:
    """The meter of this process; without an SDK it is one that does nothing."""
    try:
        api = import_module("opentelemetry.metrics")
    except ModuleNotFoundError as error:
        hint = "install it: pip install opentelemetry-sdk"
        raise MissingExtra("hook 'metrics' needs opentelemetry for that", hint=hint) from error
    return cast(Meter, api.get_meter("gnomon"))


def _check(names: int, buckets_s: Sequence[float]) -> None:
    if names < 1:
        raise ConfigError(f"names of hook 'metrics' is 1 or more, not {names}")
    if not buckets_s or not all(0 < bound < float("inf") for bound in buckets_s):
        raise ConfigError("buckets_s of hook 'metrics' are seconds above zero", hint="leave out +Inf")
    if not all(low < high for low, high in pairwise(buckets_s)):
        raise ConfigError("buckets_s of hook 'metrics' rise")
