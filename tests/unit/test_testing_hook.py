"""The suite of hooks: good ones pass every check, and each check has a fault that turns it red."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from unittest import SkipTest

import msgspec
import pytest

from gnomon.contracts.hook import Hook, Step, SupportsAround
from gnomon.errors import GnomonError, HookFailed
from gnomon.stream import PullStream
from gnomon.testing import Contract, HookContract
from gnomon.types.events import RunEvent
from gnomon.types.steps import HookEvent

RULES = Contract.__gnomon_contract__
CHECKS = [name for name in dir(HookContract) if name.startswith("test_")]
GUARD = "test_no_check_is_overridden"

log = logging.getLogger("tests.hooks")


# --- hooks that keep their word, and those that do not ----------------------------------


class Plain:
    """It keeps its word, and stands beside steps only."""

    async def before(self, event: HookEvent) -> None:
        event.notes["plain.seen"] = True

    async def after(self, event: HookEvent) -> None:
        event.notes.get("plain.seen")


class Passing(PullStream[RunEvent]):
    def __init__(self, behind: PullStream[RunEvent]) -> None:
        self.behind = behind
        super().__init__(self.read())

    async def read(self) -> AsyncGenerator[RunEvent, None]:
        async with self.behind as stream:
            async for event in stream:
                yield event

    async def aclose(self) -> None:
        await super().aclose()
        await self.behind.aclose()


class Good(Plain):
    """It stands around steps, and changes nothing."""

    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        return Passing(await call(event))


class OnlyAfter:
    async def after(self, event: HookEvent) -> None: ...


class ModelsOnly(Good):
    async def after(self, event: HookEvent) -> None:
        assert event.kind in ("model", "tool"), "it knows models only"


class WantsAnAnswer(Good):
    async def after(self, event: HookEvent) -> None:
        if event.kind == "model":
            assert event.response is not None, "there is no answer"


class WantsABeginning(Good):
    async def after(self, event: HookEvent) -> None:
        assert event.notes["plain.seen"]


class Counting(Good):
    """A step is begun once, and then ends."""

    def __init__(self) -> None:
        self.open: set[str] = set()

    async def before(self, event: HookEvent) -> None:
        await super().before(event)
        assert event.turn_id + event.kind not in self.open, "it is open already"
        self.open.add(event.turn_id + event.kind)

    async def after(self, event: HookEvent) -> None:
        self.open.discard(event.turn_id + event.kind)


class Writing(Good):
    async def before(self, event: HookEvent) -> None:
        if event.request is not None:
            event.request.metadata["seen"] = "yes"


class TidyingUp(Good):
    async def after(self, event: HookEvent) -> None:
        event.notes.clear()


class OneAtHand(Good):
    """It keeps the step under way in itself."""

    current: PullStream[RunEvent] | None = None

    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        self.current = await call(event)
        await asyncio.sleep(0)
        return Passing(self.current)


class OneNote(Good):
    """Two of it write the same note."""

    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        if "around" in event.notes:
            raise HookFailed("this step is under way")
        event.notes["around"] = True
        return await super().around(event, call)


class Hoarding(Good):
    def __init__(self) -> None:
        self.steps: dict[str, HookEvent] = {}

    async def before(self, event: HookEvent) -> None:
        self.steps[event.turn_id + event.kind] = event

    async def after(self, event: HookEvent) -> None:
        self.steps.pop(event.turn_id + event.kind, None)


class Talking(Good):
    async def after(self, event: HookEvent) -> None:
        log.info("done", extra={"event": event})


class TellingErrors(Good):
    async def after(self, event: HookEvent) -> None:
        if event.error is not None:
            log.debug("failed: %s", event.error.message)


class Twice(Good):
    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        await (await call(event)).aclose()
        return await call(event)


class Rewriting(Good):
    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        return await super().around(msgspec.structs.replace(event, attempt=9), call)


class WithoutItsEnd(Good):
    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        async def shortened(stream: PullStream[RunEvent]) -> AsyncGenerator[RunEvent, None]:
            async with stream:
                events = [event async for event in stream]
            for each in events[:-1]:
                yield each

        return PullStream(shortened(await call(event)))


class NotClosing(Good):
    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        async def read(stream: PullStream[RunEvent]) -> AsyncGenerator[RunEvent, None]:
            async for each in stream:
                yield each

        return PullStream(read(await call(event)))


class NotClosingUnread(Good):
    """What stands in a generator is not done when nobody begins to read it."""

    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        async def read(stream: PullStream[RunEvent]) -> AsyncGenerator[RunEvent, None]:
            async with stream:
                async for each in stream:
                    yield each

        return PullStream(read(await call(event)))


class Buffering(Good):
    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        async def read() -> AsyncGenerator[RunEvent, None]:
            async with await call(event) as stream:
                events = [each async for each in stream]
            for each in events:
                yield each

        return PullStream(read())


class Pumping(Good):
    """A task reads ahead, and nobody ends it."""

    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        queue: asyncio.Queue[RunEvent | None] = asyncio.Queue()

        async def pump() -> None:
            async with await call(event) as stream:
                async for each in stream:
                    await queue.put(each)
            await queue.put(None)

        async def read() -> AsyncGenerator[RunEvent, None]:
            self.pump = asyncio.create_task(pump())
            while (each := await queue.get()) is not None:
                yield each

        return PullStream(read())


class Stubborn(Good):
    """It takes the end of its reader for one more thing that may fail."""

    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        try:
            return Passing(await call(event))
        except asyncio.CancelledError:
            raise HookFailed("the step could not begin") from None


class StubbornInside(Good):
    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        async def read() -> AsyncGenerator[RunEvent, None]:
            with suppress(asyncio.CancelledError):
                async with await call(event) as stream:
                    async for each in stream:
                        yield each

        return PullStream(read())


class Translating(Good):
    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        async def read() -> AsyncGenerator[RunEvent, None]:
            try:
                async with await call(event) as stream:
                    async for each in stream:
                        yield each
            except GnomonError as error:
                raise HookFailed(str(error)) from error

        return PullStream(read())


class Forgetting(Good):
    """What was spent is lost on the way."""

    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        async def read() -> AsyncGenerator[RunEvent, None]:
            try:
                async with await call(event) as stream:
                    async for each in stream:
                        yield each
            except GnomonError as error:
                error.__dict__.pop("spent", None)
                raise

        return PullStream(read())


FAULTS: list[tuple[str, type[Any], str]] = [
    ("test_it_is_a_hook", OnlyAfter, "whether it has before and after"),
    ("test_every_kind_of_step_is_taken_before_and_after", ModelsOnly, "it knows models only"),
    ("test_every_kind_of_step_is_taken_before_and_after", WantsAnAnswer, "there is no answer"),
    ("test_an_after_without_its_before_is_taken", WantsABeginning, "plain.seen"),
    ("test_a_before_without_its_after_is_taken", Counting, "it is open already"),
    ("test_the_event_is_not_changed", Writing, "a model step: expected"),
    ("test_notes_of_others_stay", TidyingUp, "a note in a session step"),
    ("test_steps_at_the_same_time_do_not_mix", OneAtHand, "steps that got something else|already running"),
    ("test_steps_at_the_same_time_do_not_mix", Twice, "how often each was called for"),
    ("test_two_of_a_kind_do_not_disturb_one_another", OneNote, "this step is under way"),
    ("test_memory_is_bounded", Hoarding, "bytes more after 10000 steps"),
    ("test_no_secret_is_logged", Talking, "lines with a secret"),
    ("test_no_secret_is_logged", TellingErrors, "lines with a secret"),
    ("test_a_plain_step_passes_as_it_is", Twice, "what was called for"),
    ("test_a_plain_step_passes_as_it_is", Rewriting, "what was called for"),
    ("test_a_plain_step_passes_as_it_is", WithoutItsEnd, "the events of a model step"),
    ("test_a_stream_that_is_left_early_is_closed", NotClosing, "streams left open"),
    ("test_a_stream_that_is_left_early_is_closed", Pumping, "what is left|streams left open"),
    ("test_a_stream_that_is_never_read_is_closed", NotClosingUnread, "streams left open"),
    ("test_an_event_is_given_when_it_is_there", Buffering, "TimeoutError"),
    ("test_a_reader_that_is_cancelled_leaves_nothing_behind", StubbornInside, "how it ended"),
    ("test_a_reader_that_is_cancelled_leaves_nothing_behind", Pumping, "streams left open"),
    ("test_a_cancellation_while_the_step_begins_comes_through", Stubborn, "how it ended"),
    ("test_the_error_of_a_step_comes_out_as_it_is", Translating, "the error: expected BadRequest"),
    ("test_the_error_of_a_step_comes_out_as_it_is", Forgetting, "what was spent: expected 11"),
]


def run(make: type[Any], check: str) -> None:
    class Suite(HookContract):
        @asynccontextmanager
        async def open(self) -> AsyncIterator[Hook]:
            yield make()

    RULES.run(getattr(Suite(), check), 60.0)


@pytest.mark.parametrize("check", CHECKS)
def test_a_hook_that_keeps_its_word_passes(check: str) -> None:
    assert isinstance(Good(), Hook)
    assert isinstance(Good(), SupportsAround)
    run(Good, check)


def test_every_check_has_a_fault_that_it_finds() -> None:
    assert sorted({check for check, _, _ in FAULTS}) == sorted(set(CHECKS) - {GUARD})


@pytest.mark.parametrize(
    ("check", "make", "words"), FAULTS, ids=[f"{make.__name__}-{check[5:25]}" for check, make, _ in FAULTS]
)
def test_a_planted_fault_is_found(
    check: str, make: type[Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gnomon.testing.hook._PATIENCE_S", 0.3)
    with pytest.raises(Exception) as found:
        run(make, check)
    assert not isinstance(found.value, SkipTest)
    told = f"{type(found.value).__name__}: {found.value}"
    assert any(word in told for word in words.split("|")), told


def test_a_hook_that_stands_beside_steps_skips_the_checks_of_those_around() -> None:
    skipped = []
    for check in CHECKS:
        if check == "test_memory_is_bounded":
            continue  # it takes a while, and has nothing to do with it
        try:
            run(Plain, check)
        except SkipTest as why:
            skipped.append(str(why))
    assert skipped == ["Suite does not offer SupportsAround"] * 7


def test_what_is_logged_goes_on_as_before_after_the_check() -> None:
    root, ours = logging.getLogger(), logging.getLogger("gnomon")
    before = (root.level, ours.level, list(root.handlers))
    with pytest.raises(AssertionError):
        run(Talking, "test_no_secret_is_logged")
    assert (root.level, ours.level, list(root.handlers)) == before
