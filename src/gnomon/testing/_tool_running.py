"""How a call runs: beside others and beside the loop, to its end and not to its end (T4, T5)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

from gnomon.contracts.tool import SupportsEffects, Tool
from gnomon.errors import ToolFailed
from gnomon.testing._suite import expect, expect_some, skip
from gnomon.testing._tool_suite import (
    ROUNDS,
    Asked,
    ToolSuite,
    call,
    cut_off,
    ended_after,
    error_of,
    expect_answer,
    refusal_of,
)
from gnomon.testing._watch import Watch
from gnomon.types.codec import encode_message
from gnomon.types.messages import Message, ToolResult

__all__ = ["LONGEST_GAP_S", "ToolRunning", "longest_gap_s"]

_MANY = 200
_MOST_THREADS = 100
"""How many threads that many calls may have at a time, whoever's pool it is."""

LONGEST_GAP_S = 0.7
"""A slow call takes a second or more: a loop that stands still so long stands still because of it."""

_SOON_S = 0.7
"""How long a call may take to end after it was cancelled."""


class ToolRunning(ToolSuite):
    """The part of the suite about calls that run."""

    async def test_the_result_answers_the_call(self) -> None:
        """It carries the id of the context, and can be written down."""
        async with self.open() as tool:
            for call_id in ("call_1", "another"):
                result = await call(self, tool, call_id)
                expect("what came", "ToolResult", type(result).__name__)
                expect("the id in the result", call_id, result.call_id)
                expect_answer(self, "the result", result)
                encode_message(Message.tool(result))

    async def test_calls_at_the_same_time_do_not_mix(self) -> None:
        """Each has the result it would have had alone, under its own id."""
        async with self.open() as tool:
            alone = await call(self, tool, "alone")
        async with self.open() as tool:
            together = await asyncio.gather(*(call(self, tool, f"call_{at}") for at in range(20)))
        expect("the ids", [f"call_{at}" for at in range(20)], [result.call_id for result in together])
        for result in together:
            expect_answer(self, "a result beside others", result)
            if self.repeatable and self.effects() is None:
                expect("a result beside others", alone.content, result.content)

    async def test_a_call_of_a_read_only_tool_changes_nothing(self) -> None:
        """Such calls run side by side, and run again after a crash."""
        async with self.open() as tool:
            if not tool.read_only:
                skip(self, "a tool that only reads")
            before = self.counted()
            for attempt in (1, 2):
                await call(self, tool, attempt=attempt)
            expect("effects of a tool that only reads", before, self.counted())

    async def test_a_failure_that_the_tool_knows_is_told_to_the_model(self) -> None:
        """By `ToolFailed`, in words; and the next call is served."""
        if self.failing is None:
            skip(self, "a call that fails")
        async with self.open() as tool:
            error = await error_of(self, tool, self.failing)
            expect_some("what the model is told", refusal_of("a call that fails", error, ToolFailed).strip())
            expect_answer(self, "the call after it", await call(self, tool))

    # --- not to the end

    async def test_a_cancellation_is_let_through_and_leaves_nothing_behind(self) -> None:
        """At whatever moment; and the next call is served."""
        for rounds in ROUNDS:
            async with self.open() as tool:
                with Watch() as watch:
                    running = asyncio.ensure_future(call(self, tool))
                    end = await ended_after(running, rounds)
                    left = await watch.left()
                expect(f"cancelled after {rounds} turns, the call ended with", "CancelledError", end)
                expect(f"cancelled after {rounds} turns, left behind", [], left)
                expect_answer(self, "the call after it", await call(self, tool, "after"))

    async def test_a_call_that_takes_long_ends_when_it_is_cancelled(self) -> None:
        """T3: the caller ends it after its timeout, and that is not a matter of the tool's good will."""
        async with self.open() as tool:
            with Watch() as watch:
                end, took_s = await _cut_short(self, tool, after_s=0.1)
                left = await watch.left()
            expect("a slow call that is cancelled ends with", "CancelledError", end)
            expect("left behind by a slow call", [], left)
            if took_s > _SOON_S:
                raise AssertionError(
                    f"expected a slow call to end at once, found that it took {took_s:.2f} s"
                )
            expect_answer(self, "the call after it", await call(self, tool, "after"))

    # --- beside the loop

    async def test_the_loop_goes_on_while_a_call_runs(self) -> None:
        """T4: code that blocks does not run on the event loop."""
        async with self.open() as tool:
            gap_s = await longest_gap_s(lambda: _slow_call(self, tool), watched_s=0.3)
        if gap_s > LONGEST_GAP_S:
            raise AssertionError(
                f"expected a loop that goes on, found one that stood still for {gap_s:.2f} s"
            )

    async def test_many_calls_have_a_bounded_number_of_threads(self) -> None:
        """T4: and none of them stays when its work is done."""
        async with self.open() as tool:
            before = threading.active_count()
            running = [asyncio.ensure_future(_slow_call(self, tool, f"call_{at}")) for at in range(_MANY)]
            await asyncio.sleep(0.3)
            found = threading.active_count() - before
            for task in running:
                task.cancel()
            await asyncio.wait(running)
            if found > _MOST_THREADS:
                raise AssertionError(
                    f"{_MANY} calls at a time: expected at most {_MOST_THREADS} threads, found {found}"
                )
            expect_answer(self, "the call after them", await call(self, tool, "after"))

    async def test_a_call_that_waits_for_its_place_says_so_on_the_loop(self) -> None:
        """The time limit begins when it has one: a timer that was held is started again."""
        async with self.open() as tool:
            asked = Asked(self)
            await tool.execute(self.arguments, asked)
        if not asked.timers:
            skip(self, "a call that waits for its place")
        expect("the timer, when the call has worked, runs", True, asked.timers[-1][0])
        loop = {threading.get_ident()}
        expect("the threads that turned the timer", loop, {thread for _, thread in asked.timers})

    # --- once more

    async def test_an_idempotent_tool_has_its_effect_once_under_one_key(self) -> None:
        """T5: the same key may be seen again after a crash, with another attempt."""
        async with self.open() as tool:
            _idempotent(self, tool)
            await call(self, tool, key="one")
            expect("effects of one call", 1, self.counted())
            again = await call(self, tool, key="one", attempt=2)
            expect("effects of the same call, twice", 1, self.counted())
            expect_answer(self, "the second result", again)
            await call(self, tool, "call_2", key="two")
            expect("effects of two calls", 2, self.counted())

    async def test_a_call_that_was_cut_off_and_runs_again_has_its_effect_once(self) -> None:
        """T5: at whatever moment it was cut off."""
        for rounds in ROUNDS:
            async with self.open() as tool:
                _idempotent(self, tool)
                await cut_off(self, tool, rounds)
                again = await call(self, tool, key="one", attempt=2)
                expect_answer(self, f"cut off after {rounds} turns, the second result", again)
                expect(f"cut off after {rounds} turns and run again, effects", 1, self.counted())


def _idempotent(suite: ToolSuite, tool: Tool) -> None:
    if not isinstance(tool, SupportsEffects) or not tool.idempotent or tool.read_only:
        skip(suite, "an idempotent tool with effects")
    suite.counted()


# --- calls that take long -----------------------------------------------------------


async def _slow_call(suite: ToolSuite, tool: Tool, call_id: str = "call_1") -> ToolResult:
    """The slow call, whose context says when nobody waits any more."""
    arguments = suite.slow if suite.slow is not None else skip(suite, "a call that takes long")
    asked = Asked(suite, call_id)
    try:
        return await tool.execute(arguments, asked)
    finally:
        asked.is_over = True


async def _cut_short(suite: ToolSuite, tool: Tool, after_s: float) -> tuple[str, float]:
    """How the slow call ended, and how long after it was cancelled."""
    running = asyncio.ensure_future(_slow_call(suite, tool))
    await asyncio.wait({running}, timeout=after_s)
    if running.done() and not running.cancelled():
        running.result()
        raise AssertionError(f"the slow call: expected one that takes a second, found one of {after_s} s")
    cancelled = time.monotonic()
    end = await ended_after(running, 0)
    return end, time.monotonic() - cancelled


async def longest_gap_s(work: Callable[[], Awaitable[object]], watched_s: float) -> float:
    """The longest time in which nothing else ran on the loop, from the start of the work to its end."""
    running = asyncio.ensure_future(work())
    longest, last = 0.0, time.monotonic()
    until = last + watched_s
    while time.monotonic() < until and not running.done():
        await asyncio.sleep(0.005)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    running.cancel()
    await asyncio.wait({running})
    if not running.cancelled():
        running.result()
    return longest
