"""What a hook promises, as checks that anybody's hook can run."""

from __future__ import annotations

import asyncio
import gc
import logging
import tracemalloc
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import cast

import msgspec

from gnomon.contracts.hook import Hook, Step, SupportsAround
from gnomon.errors import BadRequest, GnomonError, ProviderError
from gnomon.stream import PullStream
from gnomon.testing._hook_steps import (
    SECRET,
    Inside,
    around,
    drive,
    ended,
    model_events,
    model_step,
    steps,
    tool_events,
    tool_step,
    wrapped,
)
from gnomon.testing._suite import Contract, expect, skip
from gnomon.testing._watch import Watch
from gnomon.types.events import Error, RunEvent
from gnomon.types.requests import Spent
from gnomon.types.steps import HookEvent

__all__ = ["HookContract"]

_SIDE_BY_SIDE = 200
_WARM_UP, _STEPS = 2_500, 10_000
_ROOM_BYTES = 1_000_000
"""A hundred bytes a step: less than anything that could be kept of one."""

_PATIENCE_S = 10.0
_FAILED = Error("overloaded", "the service is busy", retryable=True)
_CANCELLED = Error("cancelled", "it was cancelled")


class HookContract(Contract[Hook]):
    """The suite of `Hook`, and of `SupportsAround` where it is offered.

        class TestAcme(HookContract):
            @asynccontextmanager
            async def open(self):
                yield AcmeHook()

    `open` must give one that lets a plain step pass as it is, by itself: no limit in it is reached by ten
    thousand steps, and what it remembers is bounded by a thousand of anything.
    """

    # --- before and after

    async def test_it_is_a_hook(self) -> None:
        async with self.open() as hook:
            expect("whether it has before and after", True, isinstance(cast(object, hook), Hook))

    async def test_every_kind_of_step_is_taken_before_and_after(self) -> None:
        """However it ended: well, with an error, cancelled, or with nothing to show."""
        async with self.open() as hook:
            for number, error in enumerate((None, _FAILED, _CANCELLED)):
                for event in steps(number):
                    await hook.before(event)
                    await hook.after(ended(event, error=error))
            for event, events in ((model_step(9), model_events(9)), (tool_step(9), tool_events(9))):
                await hook.before(event)
                await hook.after(ended(event, events[-1]))

    async def test_an_after_without_its_before_is_taken(self) -> None:
        """One whose process died is gone on with by another, which has seen no beginning."""
        async with self.open() as hook:
            for event in steps():
                await hook.after(ended(event))
                await hook.after(ended(event, error=_FAILED))

    async def test_a_before_without_its_after_is_taken(self) -> None:
        """What never ended is in nobody's way."""
        async with self.open() as hook:
            for event in (*steps(), *steps(), *steps(1)):
                await hook.before(event)
            await hook.after(ended(model_step(1), model_events(1)[-1]))

    async def test_the_event_is_not_changed(self) -> None:
        """Nor anything in it, but for its notes."""
        async with self.open() as hook:
            for number, event in enumerate(steps()):
                shown = _shown(event)
                await _whole(hook, event, number)
                expect(f"a {event.kind} step", shown, _shown(event))

    async def test_notes_of_others_stay(self) -> None:
        """The room is shared by all hooks of a step."""
        note = object()
        async with self.open() as hook:
            for number, event in enumerate(steps()):
                event.notes["somebody.else"] = note
                await _whole(hook, event, number)
                expect(f"a note in a {event.kind} step", note, event.notes.get("somebody.else"))

    # --- several

    async def test_steps_at_the_same_time_do_not_mix(self) -> None:
        """Two hundred of them: each gets its own events, and they are called for once."""
        async with self.open() as hook:
            inside = [Inside(model_events(number)) for number in range(_SIDE_BY_SIDE)]
            work = [drive(hook, model_step(number), inside[number]) for number in range(_SIDE_BY_SIDE)]
            found = await asyncio.gather(*work)
        wrong = [number for number, events in enumerate(found) if events != [*model_events(number)]]
        expect("steps that got something else", [], wrong)
        expect("how often each was called for", {1}, {len(each.calls) for each in inside})

    async def test_two_of_a_kind_do_not_disturb_one_another(self) -> None:
        """One around the other, on the same steps."""
        async with self.open() as outer, self.open() as inner:
            for event, events in ((model_step(), model_events()), (tool_step(), tool_events())):
                inside = Inside(events)
                await inner.before(event)
                found = await drive(outer, event, wrapped(inner, inside))
                await inner.after(ended(event, events[-1]))
                expect(f"the events of a {event.kind} step", [*events], found)
                expect(f"calls of the {event.kind} step", 1, len(inside.calls))

    async def test_memory_is_bounded(self) -> None:
        """Ten thousand steps of as many sessions, half of which never end."""
        async with self.open() as hook:
            with _tracing():
                await _many(hook, range(_WARM_UP))
                before = _held()
                await _many(hook, range(_WARM_UP, _WARM_UP + _STEPS))
                grown = _held() - before
        expect(f"whether {grown} bytes more after {_STEPS} steps are few", True, grown < _ROOM_BYTES)

    async def test_no_secret_is_logged(self) -> None:
        """Whatever stands in questions, answers, arguments, results and errors."""
        async with self.open() as hook:
            with _logged() as records:
                await _whole(hook, model_step(text=f"my key is {SECRET}"), 0, text=SECRET)
                await _whole(hook, tool_step(arguments=f'{{"token": "{SECRET}"}}'), 0, text=SECRET)
                for event in steps():
                    await hook.before(event)
                    await hook.after(ended(event, error=Error("x", f"key {SECRET}", hint=f"not {SECRET}")))
        told = [f"{each.getMessage()} {vars(each)!r}" for each in records]
        expect("lines with a secret", [], [line for line in told if SECRET in line])

    # --- around a step

    async def test_a_plain_step_passes_as_it_is(self) -> None:
        """The same events, one end, one call with what was asked; nothing is left open."""
        async with self.open() as hook:
            self._expect_around(hook)
            for event, events in ((model_step(), model_events()), (tool_step(), tool_events())):
                inside = Inside(events)
                expect(f"the events of a {event.kind} step", [*events], await drive(hook, event, inside))
                expect("what was called for", [_shown(event)], [_shown(each) for each in inside.calls])
                expect("streams left open", 0, inside.left_open)

    async def test_a_stream_that_is_left_early_is_closed(self) -> None:
        """In the middle of an answer, and no task goes on."""
        async with self.open() as hook:
            self._expect_around(hook)
            for event, events in ((model_step(), model_events()), (tool_step(), tool_events())):
                inside = Inside(events[:1], hangs=True)
                with Watch() as watch:
                    async with await around(hook, event, inside) as stream:
                        first = await anext(aiter(stream))
                    expect("the first event", events[0], first)
                    expect("streams left open", 0, inside.left_open)
                expect("what is left", [], await watch.left())

    async def test_a_stream_that_is_never_read_is_closed(self) -> None:
        """If the step was begun at all."""
        async with self.open() as hook:
            self._expect_around(hook)
            inside = Inside(model_events())
            stream = await around(hook, model_step(), inside)
            await stream.aclose()
            await stream.aclose()
            expect("streams left open", 0, inside.left_open)

    async def test_an_event_is_given_when_it_is_there(self) -> None:
        """And not with the whole answer."""
        async with self.open() as hook:
            self._expect_around(hook)
            for event, events in ((model_step(), model_events()), (tool_step(), tool_events())):
                inside = Inside(events[:1], hangs=True)
                async with await around(hook, event, inside) as stream:
                    async with asyncio.timeout(_PATIENCE_S):
                        expect("the first event", events[0], await anext(aiter(stream)))

    async def test_a_reader_that_is_cancelled_leaves_nothing_behind(self) -> None:
        """It ends at once, as cancelled, in the middle of an answer that does not go on."""
        async with self.open() as hook:
            self._expect_around(hook)
            for event, events in ((model_step(), model_events()), (tool_step(), tool_events())):
                inside = Inside(events[:1], hangs=True)
                with Watch() as watch:
                    expect("how it ended", "cancelled", await _cancelled(hook, event, inside))
                    expect("streams left open", 0, inside.left_open)
                expect("what is left", [], await watch.left())

    async def test_a_cancellation_while_the_step_begins_comes_through(self) -> None:
        """A call that gives no stream is not waited for either."""
        async with self.open() as hook:
            self._expect_around(hook)
            with Watch() as watch:
                expect("how it ended", "cancelled", await _cancelled(hook, model_step(), Inside(hangs=True)))
            expect("what is left", [], await watch.left())

    async def test_the_error_of_a_step_comes_out_as_it_is(self) -> None:
        """Of its class, with what was spent: before anything was shown, or after that."""
        async with self.open() as hook:
            self._expect_around(hook)
            for shown in (0, 1):
                error = BadRequest("no such thing")
                error.spent = (Spent(input_tokens=11, provider="suite", model="model"),)
                inside = Inside(model_events()[:shown], error=error)
                raised = await _raised(hook, model_step(shown), inside)
                expect("the error", error, raised)
                expect("what was spent", 11, _tokens(raised))
                expect("streams left open", 0, inside.left_open)
            expect("the step after it", [*model_events(5)], await _drive_plain(hook, 5))

    def _expect_around(self, hook: Hook) -> None:
        if not isinstance(hook, SupportsAround):
            skip(self, "SupportsAround")


# --- what is done with a hook ---------------------------------------------------------


async def _whole(hook: Hook, event: HookEvent, number: int, *, text: str = "") -> None:
    """A step from before to after, with its events where it has some."""
    if event.kind == "model":
        await drive(hook, event, Inside(model_events(number, text=text)))
    elif event.kind == "tool":
        await drive(hook, event, Inside(tool_events(number, text=text)))
    else:
        await hook.before(event)
        await hook.after(ended(event))


async def _drive_plain(hook: Hook, number: int) -> list[RunEvent]:
    return await drive(hook, model_step(number), Inside(model_events(number)))


async def _many(hook: Hook, numbers: Sequence[int]) -> None:
    for number in numbers:
        event = model_step(number)
        name = msgspec.structs.replace(event, name=f"suite:model-{number}")
        if number % 2:
            await hook.before(name)
        else:
            await drive(hook, name, Inside(model_events(number)))


async def _cancelled(hook: Hook, event: HookEvent, call: Step) -> str:
    """What becomes of a reader that is told to end while it waits."""
    waiting = asyncio.Event()

    async def read() -> None:
        waiting.set()
        stream: PullStream[RunEvent]
        async with await around(hook, event, call) as stream:
            async for _ in stream:
                pass

    task = asyncio.create_task(read())
    await waiting.wait()
    for _ in range(20):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task}, timeout=_PATIENCE_S)
    if not task.done():
        task.cancel()
        return "it goes on"
    if task.cancelled():
        return "cancelled"
    return f"with {task.exception()!r}"


async def _raised(hook: Hook, event: HookEvent, call: Step) -> BaseException | None:
    try:
        await drive(hook, event, call)
    except (GnomonError, AssertionError) as error:
        return error
    return None


def _tokens(error: BaseException | None) -> int:
    spent = error.spent if isinstance(error, ProviderError) else ()
    return sum(each.input_tokens or 0 for each in spent)


def _shown(event: HookEvent) -> bytes:
    """All of an event but the notes, which are for hooks to write in."""
    return msgspec.json.encode(msgspec.structs.replace(event, notes={}))


@contextmanager
def _tracing() -> Generator[None]:
    is_ours = not tracemalloc.is_tracing()
    if is_ours:
        tracemalloc.start()
    try:
        yield
    finally:
        if is_ours:
            tracemalloc.stop()


def _held() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@contextmanager
def _logged() -> Generator[list[logging.LogRecord]]:
    """Everything that is logged anywhere, of any level."""
    records: list[logging.LogRecord] = []

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    root, ours, handler = logging.getLogger(), logging.getLogger("gnomon"), Keeping()
    levels = root.level, ours.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    ours.setLevel(logging.DEBUG)
    try:
        yield records
    finally:
        root.removeHandler(handler)
        root.setLevel(levels[0])
        ours.setLevel(levels[1])
