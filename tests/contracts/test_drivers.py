"""The drivers keep what a driver promises."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from gnomon.contracts.driver import Driver, Idle, Outcome
from gnomon.drivers.embedded import EmbeddedDriver
from gnomon.testing.driver import DriverContract
from gnomon.types.records import SessionRecord, utc_now


class TestEmbedded(DriverContract):
    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Driver, None]:
        self._left: list[tuple[str, SessionRecord]] = []
        driver = EmbeddedDriver(self._look, look_s=0.05)
        yield driver
        await driver.close()

    async def abandon(self, driver: Driver) -> tuple[str, str]:
        now = utc_now()
        row = SessionRecord(id="left", created_at=now, updated_at=now, status="running", runnable=True)
        self._left.append(("acme", row))
        return "acme", row.id

    async def _look(self) -> list[tuple[str, SessionRecord]]:
        """What the driver looks for is found in the store by whoever makes it: see the sessions' suite."""
        return self._left


async def test_a_session_that_is_cancelled_from_within_is_tried_again_but_not_at_once() -> None:
    driver, tried, done = EmbeddedDriver(), 0, asyncio.Event()

    async def run_segment(tenant: str, session_id: str) -> Outcome:
        nonlocal tried
        tried += 1
        if tried < 3:
            raise asyncio.CancelledError
        done.set()
        return Idle()

    serving = asyncio.ensure_future(driver.serve(run_segment))
    await driver.wake("acme", "s", 1)
    await asyncio.sleep(0.1)
    assert tried == 1
    async with asyncio.timeout(5):
        await done.wait()
    await driver.close()
    await serving
