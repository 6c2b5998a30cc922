"""Something that stands beside each step, or around it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias, runtime_checkable

from gnomon.stream import PullStream
from gnomon.types.events import RunEvent
from gnomon.types.steps import HookEvent

__all__ = ["Hook", "Step", "SupportsAround"]

Step: TypeAlias = Callable[[HookEvent], Awaitable[PullStream[RunEvent]]]
"""The rest of the way: the hooks further in, and the step itself.

What it gives is to be read to its end: of a model step that is `Done` with the whole
response, of a tool step `ToolFinished` with the result.
"""


@runtime_checkable
class Hook(Protocol):
    """Sees model calls, tool calls, turns and sessions, before and after.

    Stable since 0.1.

    - a chain must be an onion: the hook whose `before` ran first must have its
      `after` run last, and whoever had its `before` must get its `after` (H1).
    - every hook must get the `HookEvent`; `notes` is the same room in both calls.
      An exception in `before` or `after` must be logged, and must not break the
      turn; one that does not end is given up after a while, and named (H2).
    - `after` must get what `before` got, with how it ended: `response`, `result` or
      `error`, and `ended_at`.
    - a hook that retries must act on `error.retryable`, must honour `retry_after`,
      must spread its waits, must keep the deadline and must let a cancellation
      through; a stream may be retried before its first visible event, and after it
      only with an `AttemptDiscarded` in between (H3).
    - one that limits rates must count requests and tokens a minute, reserve before
      the call and settle after it; it may share its counts through a store (H4).
    - one that counts cost must price every response from its usage and must check
      budgets before the call; an unknown price must stay unknown (H5).
    - one that caches must be bounded in size and age, must ask once for what is
      asked for at the same time, must take the whole request as its key, must
      replay streams, and must not keep errors or tool calls unless told (H6).
    - one that measures must use a monotonic clock and histograms; it may show them
      as Prometheus text and to OpenTelemetry (H7).
    - one that logs must use the standard library's logging, with fields, secrets
      taken out, and bounded in size (H8).
    """

    async def before(self, event: HookEvent) -> None: ...

    async def after(self, event: HookEvent) -> None: ...


@runtime_checkable
class SupportsAround(Protocol):
    """A hook that can change a step, skip it or do it again: a call of the model, or of a tool.

    Stable since 0.1.

    - its events must end as those of the step do: with one `Done`, or one `ToolFinished`.
    - `around` must give the events of the step, those of `call` or its own. It may
      call `call` with a changed event, several times, or not at all.
    - it must close a stream of `call` that it does not give back.
    - an exception in it must break the step (H2).
    """

    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]: ...
