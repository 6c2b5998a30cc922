"""What a driver promises, as checks that anybody's driver can run."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TypeAlias

from gnomon.contracts.driver import Cancelled, Driver, Idle, Outcome, Suspended, Yield
from gnomon.testing._session_patience import Gate, beside, until, within
from gnomon.testing._suite import Contract, expect, expect_some, skip
from gnomon.testing._watch import Watch, settle

__all__ = ["DriverContract"]

_Segment: TypeAlias = Callable[[str, str], Awaitable[Outcome]]
_Key: TypeAlias = tuple[str, str]

_DELAY = timedelta(seconds=0.3)


class DriverContract(Contract[Driver]):
    """The suite of `Driver`.

        class TestAcme(DriverContract):
            @asynccontextmanager
            async def open(self):
                driver = AcmeDriver(…)
                yield driver
                await driver.close()

    With `abandon`, the suite also checks that a session whose runner died is run again.
    """

    async def abandon(self, driver: Driver) -> tuple[str, str] | None:
        """Leave a session behind as a runner that died would; its tenant and id, or `None` if you cannot."""
        return None

    # --- wakes

    async def test_a_wake_leads_to_a_run_of_that_session(self) -> None:
        """With the tenant and the id that the wake named."""
        async with self._serving() as (driver, runs):
            await driver.wake("acme", "s", 1)
            await runs.reach("acme", "s", 1)
            expect("what was run", {("acme", "s"): 1}, dict(runs.counts))

    async def test_a_wake_before_anybody_serves_is_not_lost(self) -> None:
        """`wake` returned, so it cannot get lost any more."""
        runs = _Runs()
        async with self.open() as driver:
            for number in range(5):
                await driver.wake("default", f"s{number}", 1)
            async with _served(driver, runs):
                for number in range(5):
                    await runs.reach("default", f"s{number}", 1)

    async def test_a_wake_between_two_serves_is_not_lost(self) -> None:
        """A driver that stopped serving still takes wakes, for whoever serves next."""
        runs = _Runs()
        async with self.open() as driver:
            async with _served(driver, runs):
                await driver.wake("default", "a", 1)
                await runs.reach("default", "a", 1)
            await driver.wake("default", "b", 1)
            expect("what ran while nobody served", 0, runs.counts["default", "b"])
            async with _served(driver, runs):
                await runs.reach("default", "b", 1)

    async def test_many_wakes_at_once_all_lead_to_a_run(self) -> None:
        """A hundred sessions, woken side by side."""
        async with self._serving() as (driver, runs):
            await asyncio.gather(*(driver.wake("default", f"s{at}", 1) for at in range(100)))
            for at in range(100):
                await runs.reach("default", f"s{at}", 1)

    async def test_the_same_wake_again_does_nothing(self) -> None:
        """By tenant, session and reason: before the run, during it, and after it."""
        gate = Gate()
        async with self.open() as driver:
            runs = _Runs(lambda tenant, session_id: _held(gate, session_id == "s"))
            await driver.wake("default", "s", 7)
            await driver.wake("default", "s", 7)
            async with _served(driver, runs):
                await gate.reached("the first run")
                await driver.wake("default", "s", 7)
                gate.open()
                await runs.ended("default", "s", 1)
                await driver.wake("default", "s", 7)
                await _marked(driver, runs)
                expect("runs of the session", 1, runs.counts["default", "s"])

    async def test_wakes_that_differ_in_one_thing_are_two_wakes(self) -> None:
        """Another tenant, another session or another reason is another wake."""
        async with self._serving() as (driver, runs):
            await driver.wake("one", "s", 1)
            await runs.ended("one", "s", 1)
            for tenant, session_id, reason in (("two", "s", 1), ("one", "t", 1), ("one", "s", 2)):
                before = runs.counts[tenant, session_id]
                await driver.wake(tenant, session_id, reason)
                await runs.reach(tenant, session_id, before + 1)

    async def test_a_wake_during_a_run_leads_to_another_run(self) -> None:
        """What it was about may have come too late for the run that is under way."""
        gate = Gate()
        async with self._serving(lambda tenant, session_id: _held(gate, session_id == "s")) as (driver, runs):
            await driver.wake("default", "s", 1)
            await gate.reached("the first run")
            await driver.wake("default", "s", 2)
            gate.open()
            await runs.reach("default", "s", 2)

    async def test_a_delayed_wake_does_not_run_earlier(self) -> None:
        """Not before its time, though soon after it; and others are not held up by it."""
        loop = asyncio.get_running_loop()
        async with self._serving() as (driver, runs):
            woken_at = loop.time()
            await driver.wake("default", "later", 1, _DELAY)
            await driver.wake("default", "now", 1)
            await runs.reach("default", "now", 1)
            expect("runs before the time", 0, runs.counts["default", "later"])
            await runs.reach("default", "later", 1)
            waited_s = runs.started_at["default", "later"] - woken_at
            expect(f"it ran after its delay ({waited_s:.3f} s)", True, waited_s >= _DELAY.total_seconds())

    async def test_a_delayed_wake_before_anybody_serves_keeps_its_time(self) -> None:
        """The delay counts from the wake."""
        loop, runs = asyncio.get_running_loop(), _Runs()
        async with self.open() as driver:
            woken_at = loop.time()
            await driver.wake("default", "later", 1, _DELAY)
            async with _served(driver, runs):
                await runs.reach("default", "later", 1)
            waited_s = runs.started_at["default", "later"] - woken_at
            expect(f"it ran after its delay ({waited_s:.3f} s)", True, waited_s >= _DELAY.total_seconds())

    async def test_what_is_to_run_later_is_not_lost_when_nobody_serves_meanwhile(self) -> None:
        """A wake with a delay, a segment that failed, and one that was cut off: the next serve has them."""
        gate, failed = Gate(), list[str]()

        async def segment(tenant: str, session_id: str) -> Outcome:
            if session_id == "broken" and not failed:
                failed.append(session_id)
                raise RuntimeError("a segment of the suite fails")
            return await _held(gate, session_id == "cut-off")

        runs = _Runs(segment)
        async with self.open() as driver:
            async with _served(driver, runs):
                await driver.wake("default", "later", 1, _DELAY)
                await driver.wake("default", "cut-off", 1)
                await driver.wake("default", "broken", 1)
                await gate.reached("the segment that is cut off")
                await runs.ended("default", "broken", 1)
            before, later = Counter(runs.counts), runs.counts["default", "later"]
            gate.open()
            async with _served(driver, runs):
                await runs.reach("default", "later", max(later, 1))
                await runs.reach("default", "cut-off", before["default", "cut-off"] + 1)
                await runs.reach("default", "broken", 2)

    # --- what a segment says

    async def test_a_segment_that_yields_is_run_again(self) -> None:
        """As often as it says so, and no more often."""
        left = Counter({("default", "s"): 3})

        async def segment(tenant: str, session_id: str) -> Outcome:
            left[tenant, session_id] -= 1
            return Yield() if left[tenant, session_id] > 0 else Idle()

        async with self._serving(segment) as (driver, runs):
            await driver.wake("default", "s", 1)
            await runs.reach("default", "s", 3)
            await _marked(driver, runs)
            expect("runs of the session", 3, runs.counts["default", "s"])

    async def test_a_segment_that_is_idle_suspended_or_cancelled_is_left_alone(self) -> None:
        """Until it is woken again, which then leads to another run."""
        outcomes: dict[str, Outcome] = {"a": Idle(), "b": Suspended(), "c": Cancelled()}

        async def segment(tenant: str, session_id: str) -> Outcome:
            return outcomes.get(session_id, Idle())

        async with self._serving(segment) as (driver, runs):
            for session_id in outcomes:
                await driver.wake("default", session_id, 1)
                await runs.ended("default", session_id, 1)
            await _marked(driver, runs)
            for session_id in outcomes:
                expect(f"runs of {session_id}", 1, runs.counts["default", session_id])
                await driver.wake("default", session_id, 2)
                await runs.reach("default", session_id, 2)

    async def test_a_segment_that_raises_is_run_again_and_stops_nobody(self) -> None:
        """Without another wake; and what is woken in the meantime is run."""
        fails = {"s"}

        async def segment(tenant: str, session_id: str) -> Outcome:
            if session_id in fails:
                fails.discard(session_id)
                raise RuntimeError("a segment of the suite fails")
            return Idle()

        async with self._serving(segment) as (driver, runs):
            await driver.wake("default", "s", 1)
            await runs.ended("default", "s", 1)
            await driver.wake("default", "other", 1)
            await runs.reach("default", "other", 1)
            await runs.reach("default", "s", 2)
            await runs.ended("default", "s", 2)

    async def test_a_segment_that_raises_is_run_later_and_not_at_once(self) -> None:
        """One that always fails is not run as fast as the machine goes."""

        async def segment(tenant: str, session_id: str) -> Outcome:
            if session_id == "broken":
                raise RuntimeError("a segment of the suite fails, always")
            return Idle()

        async with self._serving(segment) as (driver, runs):
            await driver.wake("default", "broken", 1)
            await runs.ended("default", "broken", 1)
            for at in range(20):
                await driver.wake("default", f"s{at}", 1)
                await runs.ended("default", f"s{at}", 1)
            expect("it was run at most twice beside 20 others", True, runs.counts["default", "broken"] <= 2)

    async def test_a_segment_that_takes_long_is_in_nobodys_way(self) -> None:
        """Segments run side by side: a session may wait for a model for minutes."""
        gate = Gate()
        async with self._serving(lambda tenant, session_id: _held(gate, session_id == "long")) as (
            driver,
            runs,
        ):
            await driver.wake("default", "long", 1)
            await gate.reached("the long segment")
            for at in range(5):
                await driver.wake("default", f"s{at}", 1)
                await runs.ended("default", f"s{at}", 1)
            gate.open()
            await runs.ended("default", "long", 1)

    # --- the end

    async def test_serve_goes_on_until_it_is_cancelled(self) -> None:
        """Also when there is nothing to do; and then the cancel passes through."""
        async with self.open() as driver:
            serving = asyncio.ensure_future(driver.serve(_Runs()))
            await settle()
            expect("serve has ended by itself", False, serving.done())
            serving.cancel()
            await asyncio.wait({serving}, timeout=10)
            expect("serve was cancelled", True, serving.cancelled())

    async def test_a_cancelled_serve_lets_running_segments_stop(self) -> None:
        """They are told, they have their time to clean up, and only then serve ends."""
        gate, stopped = Gate(), list[str]()

        async def segment(tenant: str, session_id: str) -> Outcome:
            try:
                await gate.wait()
            finally:
                await settle()  # what a segment does at its end takes a while
                stopped.append(session_id)
            return Idle()

        async with self.open() as driver:
            with Watch() as watch:
                async with _served(driver, _Runs(segment)):
                    for session_id in ("a", "b", "c"):
                        await driver.wake("default", session_id, 1)
                    await until("three segments", lambda: gate.arrivals == 3)
                expect("segments that had stopped when serve had", ["a", "b", "c"], sorted(stopped))
            expect("tasks left by serve", [], await watch.running())

    async def test_a_cancelled_serve_leaves_no_task(self) -> None:
        """With wakes that wait for their time, segments that failed, and some that are done."""

        async def segment(tenant: str, session_id: str) -> Outcome:
            if session_id == "broken":
                raise RuntimeError("a segment of the suite fails")
            return Idle()

        async with self.open() as driver:
            with Watch() as watch:
                runs = _Runs(segment)
                async with _served(driver, runs):
                    await driver.wake("default", "much-later", 1, timedelta(hours=1))
                    await driver.wake("default", "broken", 1)
                    await driver.wake("default", "s", 1)
                    await runs.ended("default", "broken", 1)
                    await runs.ended("default", "s", 1)
            expect("tasks left by serve", [], await watch.running())

    async def test_close_may_be_called_twice(self) -> None:
        """Before anything was served, and after."""
        async with self.open() as driver:
            await driver.close()
            await driver.close()
        async with self.open() as driver:
            runs = _Runs()
            async with _served(driver, runs):
                await driver.wake("default", "s", 1)
                await runs.ended("default", "s", 1)
            await driver.close()
            await driver.close()

    # --- those that nobody wakes

    async def test_a_session_whose_runner_died_is_run_without_a_wake(self) -> None:
        """Nobody is there to wake it: whoever knew of it is dead."""
        runs = _Runs()
        async with self.open() as driver:
            left = await self.abandon(driver)
            tenant, session_id = left or skip(self, "a way to leave a session as a dead runner would")
            async with _served(driver, runs):
                await runs.reach(tenant, session_id, 1)
        expect_some("runs of the session", runs.counts[tenant, session_id])

    # --- what they share

    @asynccontextmanager
    async def _serving(self, segment: _Segment | None = None) -> AsyncGenerator[tuple[Driver, _Runs], None]:
        runs = _Runs(segment)
        async with self.open() as driver, _served(driver, runs):
            yield driver, runs


class _Runs:
    """The segments as the suite runs them: what was run how often, and what has ended."""

    def __init__(self, segment: _Segment | None = None) -> None:
        self.counts: Counter[_Key] = Counter()
        self.ends: Counter[_Key] = Counter()
        self.started_at: dict[_Key, float] = {}
        self._segment = segment

    async def __call__(self, tenant: str, session_id: str) -> Outcome:
        self.counts[tenant, session_id] += 1
        self.started_at[tenant, session_id] = asyncio.get_running_loop().time()
        try:
            return await self._segment(tenant, session_id) if self._segment is not None else Idle()
        finally:
            self.ends[tenant, session_id] += 1

    async def reach(self, tenant: str, session_id: str, count: int) -> None:
        """Wait until it was run that often."""
        what = f"run {count} of session {session_id!r} of tenant {tenant!r}"
        await until(what, lambda: self.counts[tenant, session_id] >= count)

    async def ended(self, tenant: str, session_id: str, count: int) -> None:
        """Wait until that many runs of it are over."""
        what = f"the end of run {count} of session {session_id!r} of tenant {tenant!r}"
        await until(what, lambda: self.ends[tenant, session_id] >= count)


@asynccontextmanager
async def _served(driver: Driver, runs: _Runs) -> AsyncGenerator[None, None]:
    async with beside(driver.serve(runs)) as serving:
        yield
        if serving.done() and not serving.cancelled():
            raise AssertionError(
                f"serve: expected to go on until cancelled, ended with {serving.exception()!r}"
            )
        serving.cancel()
        await within("the end of a cancelled serve", asyncio.wait({serving}))


async def _held(gate: Gate, held: bool) -> Outcome:
    if held:
        await gate.wait()
    return Idle()


async def _marked(driver: Driver, runs: _Runs) -> None:
    """When others that were woken later have run, what was to run before them has had its chance."""
    for at in range(3):
        await driver.wake("default", f"marker-{at}", 1)
        await runs.ended("default", f"marker-{at}", 1)
    await settle()
