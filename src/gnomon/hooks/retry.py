"""A step that failed for a while is done again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from math import inf
from random import uniform

from gnomon.contracts.hook import Step
from gnomon.errors import ConfigError, GnomonError
from gnomon.hooks._retrying import NOTED, Attempt, Course, Policy
from gnomon.stream import PullStream
from gnomon.types.events import Done, RunEvent, ToolFinished
from gnomon.types.steps import HookEvent

__all__ = ["RetryHook"]

_FAILED = ("error", "timeout")


class RetryHook:
    """Asks the model again when an error says that it may pass (`error.retryable`).

    ```python
    Agent("openai", hooks=[RetryHook(attempts=5, deadline_s=60)])
    ```

    It waits for a random part of `base_s`, which doubles up to `cap_s`; or for as long as the service
    asks and a part of `base_s` more, however long that is. No attempt begins later than `deadline_s`
    after the first one began: what would have to wait longer is raised at once.

    As long as nothing of an answer was shown this happens in silence. After that `AttemptDiscarded` says
    that it starts again; with `mid_stream=False` the error is raised instead. What failed attempts have
    used is in `response.discarded`, or in `spent` of the error.

    `tools` names those that may run twice for one call without harm: such a call is made again
    when its result is an error or it took too long. No other tool is.
    """

    name = "retry"

    def __init__(
        self,
        *,
        attempts: int = 4,
        deadline_s: float | None = 120.0,
        base_s: float = 0.5,
        cap_s: float = 30.0,
        mid_stream: bool = True,
        tools: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: Callable[[float, float], float] = uniform,
    ) -> None:
        if attempts < 1:
            raise ConfigError(f"attempts of hook 'retry' is 1 or more, not {attempts}")
        if isinstance(tools, str):
            raise ConfigError("tools of hook 'retry' is a list of names", hint=f"write [{tools!r}]")
        _check(deadline_s=deadline_s or 0.0, base_s=base_s, cap_s=cap_s)
        self._policy = Policy(
            attempts=attempts,
            deadline_s=inf if deadline_s is None else deadline_s,
            base_s=base_s,
            cap_s=cap_s,
            clock=clock,
            jitter=jitter,
        )
        self._mid_stream = mid_stream
        self._tools = frozenset(tools)
        self._sleep = sleep

    async def before(self, event: HookEvent) -> None:
        """It has nothing to see to."""

    async def after(self, event: HookEvent) -> None:
        """It has nothing to see to."""

    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        """The events of the step, or of the attempt that came to something."""
        if event.kind == "model":
            return PullStream(self._answered(Course(event, self._policy), call))
        if event.kind == "tool" and event.name in self._tools:
            return PullStream(self._called(Course(event, self._policy), call))
        return await call(event)

    async def _answered(self, course: Course, call: Step) -> AsyncGenerator[RunEvent, None]:
        while True:
            attempt = Attempt(course)
            try:
                async with await call(course.shown_event()) as stream:
                    async for event in stream:
                        # This is what a token costs: nearly all events are of a kind that is shown.
                        if event.__class__ in NOTED and not attempt.is_due(event):
                            continue
                        if not attempt.is_shown:
                            for held in attempt.begin_to_show():
                                yield held
                        yield attempt.completed(event) if isinstance(event, Done) else event
                return
            except GnomonError as error:
                wait_s = self._wait_s(course, attempt, error)
                if wait_s is None:
                    course.give_up(error)
                    raise
                discarded = attempt.discarded(error)
            if discarded is not None:
                yield discarded
            await self._again(course, wait_s)

    def _wait_s(self, course: Course, attempt: Attempt, error: GnomonError) -> float | None:
        """Until the next attempt. An answer that was complete is not asked for again."""
        may = error.retryable and not attempt.is_over and (self._mid_stream or not attempt.is_shown)
        return course.wait_s(error) if may else None

    async def _called(self, course: Course, call: Step) -> AsyncGenerator[RunEvent, None]:
        while True:
            failed: ToolFinished | None = None
            wait_s: float | None = None
            try:
                async with await call(course.shown_event()) as stream:
                    async for event in stream:
                        if isinstance(event, ToolFinished) and event.result.status in _FAILED:
                            failed = event
                            break
                        yield event
            except GnomonError as error:
                wait_s = course.wait_s(error) if error.retryable else None
                if wait_s is None:
                    raise
            else:
                if failed is None:
                    return
                wait_s = course.wait_s()
                if wait_s is None:
                    yield failed
                    return
            await self._again(course, wait_s)

    async def _again(self, course: Course, wait_s: float) -> None:
        """The connection of the attempt before is closed by now: nothing is held while it waits."""
        await self._sleep(wait_s)
        course.next()


def _check(**numbers: float) -> None:
    for name, value in numbers.items():
        if not 0 <= value < inf:
            raise ConfigError(f"{name} of hook 'retry' is a number from zero on, not {value!r}")
