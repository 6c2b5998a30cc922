"""The suites of kinds of hooks can fail: each check is turned red by a hook that breaks its promise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gnomon.contracts.hook import Hook, Step
from gnomon.errors import BudgetExceeded, GnomonError
from gnomon.stream import PullStream
from gnomon.testing import (
    CacheHookContract,
    Contract,
    CostHookContract,
    RateLimitHookContract,
    RetryHookContract,
)
from gnomon.types.events import AttemptDiscarded, RunEvent
from gnomon.types.steps import HookEvent


class Plain:
    """Lets every step pass."""

    async def before(self, event: HookEvent) -> None: ...

    async def after(self, event: HookEvent) -> None: ...

    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        return await call(event)


class Eager(Plain):
    """Tries everything again, at once, without a word; for ever, or twice."""

    def __init__(self, attempts: int = 3, *, tells: bool = False, first_error: bool = False) -> None:
        self._attempts = attempts
        self._tells = tells
        self._first = first_error

    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        return PullStream(self._events(event, call))

    async def _events(self, event: HookEvent, call: Step) -> AsyncGenerator[RunEvent, None]:
        errors: list[GnomonError] = []
        for _ in range(self._attempts):
            try:
                async with await call(event) as stream:
                    async for each in stream:
                        yield each
                return
            except GnomonError as error:
                errors.append(error)
                if self._tells:
                    yield AttemptDiscarded("again")
        raise errors[0 if self._first else -1]


class Loose(Plain):
    """Keeps what it was told first, whatever the question: errors, calls of tools and all."""

    def __init__(self, *, by_text: bool = True) -> None:
        self._kept: dict[str, list[RunEvent]] = {}
        self._by_text = by_text

    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        return PullStream(self._events(event, call))

    async def _events(self, event: HookEvent, call: Step) -> AsyncGenerator[RunEvent, None]:
        assert event.request is not None
        key = event.request.messages[0].text
        if key not in self._kept:
            async with await call(event) as stream:
                self._kept[key] = [each async for each in stream]
        for each in self._kept[key]:
            yield each


class Late(Plain):
    """Says that the budget is used up when the call has been made."""

    calls = 0

    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        stream = await call(event)
        self.calls += 1
        if self.calls > 1:
            await stream.aclose()
            raise BudgetExceeded("too late")
        return stream


class Counting(Plain):
    """Counts what came to something, and no more."""

    def __init__(self) -> None:
        self._left = 10

    async def after(self, event: HookEvent) -> None:
        self._left -= event.response is not None

    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        if self._left <= 0:
            await asyncio.Event().wait()
        return await call(event)


BROKEN: list[tuple[type[Contract[Hook]], str, Any]] = [
    (RetryHookContract, "test_what_fails_before_it_is_seen_is_tried_again_in_silence", Plain),
    (
        RetryHookContract,
        "test_what_fails_before_it_is_seen_is_tried_again_in_silence",
        lambda: Eager(tells=True),
    ),
    (RetryHookContract, "test_what_fails_after_it_was_seen_is_told_to_start_again", Eager),
    (RetryHookContract, "test_only_what_may_pass_is_tried_again", Eager),
    (RetryHookContract, "test_the_wait_that_the_service_asks_for_is_kept", Eager),
    (
        RetryHookContract,
        "test_it_gives_up_with_the_error_of_the_last_attempt",
        lambda: Eager(first_error=True),
    ),
    (RetryHookContract, "test_it_gives_up_with_the_error_of_the_last_attempt", lambda: Eager(100)),
    (CacheHookContract, "test_the_same_question_is_asked_once_and_answered_alike", Plain),
    (CacheHookContract, "test_what_is_asked_at_the_same_time_is_asked_once", Loose),
    (CacheHookContract, "test_the_whole_request_is_the_key", Loose),
    (CacheHookContract, "test_neither_errors_nor_calls_of_tools_are_kept", Loose),
    (RateLimitHookContract, "test_more_than_the_limit_has_to_wait", Plain),
    (RateLimitHookContract, "test_steps_that_fail_or_are_left_count_too", Counting),
    (CostHookContract, "test_a_budget_is_checked_before_the_call", Plain),
    (CostHookContract, "test_a_budget_is_checked_before_the_call", Late),
    (CostHookContract, "test_what_failed_attempts_used_counts", Plain),
]


@pytest.mark.parametrize(("suite", "check", "made"), BROKEN)
async def test_a_hook_that_breaks_its_promise_is_found(
    suite: type[Contract[Hook]], check: str, made: Any
) -> None:
    class Broken(suite):  # type: ignore[misc, valid-type]
        __test__ = False

        @asynccontextmanager
        async def open(self) -> AsyncGenerator[Hook, None]:
            yield made()

    with pytest.raises((AssertionError, GnomonError)):
        await getattr(Broken(), check)()


def test_every_check_is_broken_by_somebody() -> None:
    for suite in {suite for suite, _, _ in BROKEN}:
        checks = {name for name in vars(suite) if name.startswith("test_")}
        assert checks == {check for of, check, _ in BROKEN if of is suite}
