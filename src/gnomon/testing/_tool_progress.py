"""Tools that report while they work: progress, then one result, then nothing (T2)."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TypeAlias

from gnomon.contracts.tool import SupportsProgress, Tool
from gnomon.errors import GnomonError, InvalidArguments, ToolFailed
from gnomon.testing._suite import expect, expect_some, skip
from gnomon.testing._tool_running import LONGEST_GAP_S, longest_gap_s
from gnomon.testing._tool_suite import ROUNDS, Asked, ToolSuite, call, ended_after, expect_answer, refusal_of
from gnomon.testing._watch import Watch
from gnomon.types.codec import encode_event
from gnomon.types.events import ToolProgress
from gnomon.types.messages import ToolResult

__all__ = ["ToolStreaming"]

_Step: TypeAlias = ToolProgress | ToolResult


class ToolStreaming(ToolSuite):
    """The part of the suite about `SupportsProgress`."""

    async def test_a_stream_is_progress_and_then_one_result(self) -> None:
        """T2: and nothing after it; each step says whose call it is."""
        async with self.open() as tool:
            *steps, last = await _read(self, _streaming(self, tool))
        expect("the last of the stream", "ToolResult", type(last).__name__)
        expect("what came before it", {"ToolProgress"}, {type(step).__name__ for step in (*steps, _SOME)})
        places = {(step.turn_id, step.call_id) for step in steps if isinstance(step, ToolProgress)}
        expect("whose progress it is", {("turn_1", "call_1")}, places | {("turn_1", "call_1")})
        expect("the id in the result", "call_1", getattr(last, "call_id", None))
        for step in steps:
            if isinstance(step, ToolProgress):
                encode_event(step)

    async def test_the_result_of_a_stream_is_that_of_the_call(self) -> None:
        """T2: whoever reads no progress misses nothing else."""
        async with self.open() as tool:
            last = (await _read(self, _streaming(self, tool)))[-1]
        async with self.open() as tool:
            result = await call(self, tool)
        assert isinstance(last, ToolResult)
        expect_answer(self, "the result of the stream", last)
        if self.repeatable:
            expect("the result of the stream, beside that of the call", result, last)

    async def test_a_stream_is_refused_and_fails_as_a_call_does(self) -> None:
        """T1: before any progress, and before anything is done."""
        wrong: dict[str, type[GnomonError]] = dict.fromkeys(("[]", *self.invalid), InvalidArguments)
        if self.failing is not None:
            wrong[self.failing] = ToolFailed
        for text, kind in wrong.items():
            async with self.open() as tool:
                steps, error = await _failed(self, _streaming(self, tool), text)
                expect_some("what the model is told", refusal_of(f"a stream of {text[:200]}", error, kind))
                if kind is InvalidArguments:
                    expect(f"progress of {text[:200]}", 0, steps)
                    expect(f"effects of {text[:200]}", 0, self.effects_so_far())

    async def test_closing_a_stream_stops_the_work(self) -> None:
        """After each of its steps, and before the first; a step under way in a thread may end."""
        async with self.open() as tool:
            length = len(await _read(self, _streaming(self, tool)))
        for position in range(length):
            async with self.open() as tool:
                with Watch() as watch:
                    await _take(self, _streaming(self, tool), position)
                    left = await watch.left()
                expect(f"closed after {position} steps, left behind", [], left)
                await _expect_rest(self, f"closed after {position} steps")
                if not position:
                    expect("effects of a stream that nobody read", 0, self.effects_so_far())

    async def test_a_reader_that_is_cancelled_stops_the_work(self) -> None:
        """At whatever moment; and the next call is served."""
        for rounds in ROUNDS:
            async with self.open() as tool:
                with Watch() as watch:
                    end = await ended_after(
                        asyncio.ensure_future(_read(self, _streaming(self, tool))), rounds
                    )
                    left = await watch.left()
                expect(f"cancelled after {rounds} turns, the reader ended with", "CancelledError", end)
                expect(f"cancelled after {rounds} turns, left behind", [], left)
                await _expect_rest(self, f"cancelled after {rounds} turns")
                expect_answer(self, "the call after it", await call(self, tool, "after"))

    async def test_the_loop_goes_on_while_a_stream_is_read(self) -> None:
        """T4: code that blocks does not run on the event loop."""
        async with self.open() as tool:
            stream = _streaming(self, tool)
            arguments = self.slow if self.slow is not None else skip(self, "a call that takes long")
            gap_s = await longest_gap_s(lambda: _read(self, stream, arguments), watched_s=0.3)
            await _expect_rest(self, "cut off in the middle")
        if gap_s > LONGEST_GAP_S:
            raise AssertionError(
                f"expected a loop that goes on, found one that stood still for {gap_s:.2f} s"
            )


_SOME = ToolProgress("", "", ())


def _streaming(suite: ToolSuite, tool: Tool) -> SupportsProgress:
    return tool if isinstance(tool, SupportsProgress) else skip(suite, "SupportsProgress")


async def _read(suite: ToolSuite, tool: SupportsProgress, arguments: str | None = None) -> list[_Step]:
    asked = Asked(suite)
    text = suite.arguments if arguments is None else arguments
    try:
        async with aclosing(tool.execute_stream(text, asked)) as stream:
            return [step async for step in stream]
    finally:
        asked.is_over = True


async def _take(suite: ToolSuite, tool: SupportsProgress, count: int) -> None:
    async with aclosing(tool.execute_stream(suite.arguments, Asked(suite))) as stream:
        for _ in range(count):
            await anext(stream)


async def _failed(suite: ToolSuite, tool: SupportsProgress, text: str) -> tuple[int, Exception | None]:
    """How many steps there were before it failed, and how it did."""
    steps = 0
    try:
        async with aclosing(tool.execute_stream(text, Asked(suite))) as stream:
            async for _ in stream:
                steps += 1
    except Exception as error:  # noqa: BLE001 - which one it is, is what the check asks
        return steps, error
    return steps, None


async def _expect_rest(suite: ToolSuite, what: str) -> None:
    """Nothing more is done, but for the one step that a thread may have been in."""
    before = suite.steps()
    if before is None:
        return
    await asyncio.sleep(0.05)
    after = suite.steps()
    if after is None or after > before + 1:
        raise AssertionError(f"{what}: expected no further work after step {before}, found step {after}")
