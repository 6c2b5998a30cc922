"""What becomes of connections: closed when left, kept when read to the end, never read ahead."""

from __future__ import annotations

import asyncio
from itertools import cycle, islice

from gnomon.testing._faults import Flood, Split, Stalled
from gnomon.testing._fixtures import Fixture
from gnomon.testing._outcome import expect_expected, outcome_of
from gnomon.testing._suite import expect, skip
from gnomon.testing._watch import Watch
from gnomon.testing._wire_suite import Link, WireSuite

__all__ = ["WireConnections"]

_FLOOD_BYTES = 20 * 2**20
_MOST_AHEAD = 12 * 2**20  # a kernel may hold some megabytes on either side of a connection
_PATIENCE_S = 10.0


class WireConnections(WireSuite):
    """The part of the suite that counts connections."""

    async def test_leaving_early_closes_the_connection(self) -> None:
        """S7: at once, whatever the service would still have sent, and with it everything else."""
        async with self.serving() as link:
            for fixture in self.named("text", "tools"):
                for at, shown in await _places(self, link, fixture):
                    link.carry(Stalled(fixture.boundaries[at]))
                    with Watch() as watch:
                        await _leave_after(self, link, fixture, shown)
                    expect(f"{fixture.name}: left after event {shown}", [], await watch.left())
                    await _expect_closed(link, f"{fixture.name}: left after event {shown}")

    async def test_cancelling_closes_the_connection(self) -> None:
        """S7: while the head is waited for, and while the next event is."""
        async with self.serving() as link:
            for fixture in self.named("text", "tools"):
                for fault in (Stalled(None), Stalled(0), Stalled(fixture.boundaries[1])):
                    link.carry(fault)
                    reading = asyncio.create_task(outcome_of(link.provider, self.request_for(fixture)))
                    await link.server.until_asked(len(link.server.requests) + 1, _PATIENCE_S)
                    await asyncio.sleep(0.02)  # what the service does send arrives
                    reading.cancel()
                    await asyncio.wait({reading})
                    expect(f"{fixture.name}, {fault}: cancelled", True, reading.cancelled())
                    await _expect_closed(link, f"{fixture.name}, {fault}: cancelled")

    async def test_a_stream_read_to_its_end_leaves_the_connection_to_the_next(self) -> None:
        """Five requests, one after the other, over one connection."""
        fixture = self.named("text")[0]
        async with self.serving() as link:
            for _ in range(5):
                expect_expected(fixture.name, fixture, await link.ask(fixture))
            expect(f"{fixture.name}: connections of five requests", 1, link.server.opened)

    async def test_nothing_is_read_ahead_of_the_reader(self) -> None:
        """S1: a reader who rests holds up the service, beyond what a few buffers take."""
        fixture = self.named("text")[0]
        if not fixture.is_event_stream:
            skip(self, "server-sent events, which may hold any number of comments")
        async with self.serving() as link:
            at, shown = (await _places(self, link, fixture))[-1]
            flood = Flood(fixture.boundaries[at], _FLOOD_BYTES)
            link.carry(flood)
            async with link.provider.stream(self.request_for(fixture)) as stream:
                before = link.server.sent_bytes
                for _ in range(shown):
                    await anext(stream)
                ahead = await _settled(link) - before
                if ahead > _MOST_AHEAD:
                    raise AssertionError(f"{fixture.name}, {flood}: {ahead} were read while the reader rests")
                async for _ in stream:
                    pass
            taken = link.server.sent_bytes - before
            expect(f"{fixture.name}, {flood}: taken when it was read on", True, taken > _FLOOD_BYTES)

    async def test_twenty_requests_at_the_same_time_do_not_mix(self) -> None:
        """Each gets its own answer, while the pieces of all of them arrive in turn."""
        fixtures = list(islice(cycle(self.wire.answers()), 20))
        async with self.serving() as link:
            link.carry(Split(every=48))
            asking = [outcome_of(link.provider, self.request_for(fixture)) for fixture in fixtures]
            for fixture, outcome in zip(fixtures, await asyncio.gather(*asking), strict=True):
                expect_expected(f"{fixture.name}, beside 19 others", fixture, outcome)


async def _places(suite: WireSuite, link: Link, fixture: Fixture) -> list[tuple[int, int]]:
    """Some events of the vendor that show something, and how many of ours there are after each."""
    shown = await suite.shown_after(link, fixture)
    telling = [(at, count) for at, count in enumerate(shown) if count > (shown[at - 1] if at else 0)]
    return [telling[0], telling[len(telling) // 2], telling[-1]]


async def _leave_after(suite: WireSuite, link: Link, fixture: Fixture, count: int) -> None:
    async with link.provider.stream(suite.request_for(fixture)) as stream:
        for _ in range(count):
            await anext(stream)


async def _expect_closed(link: Link, what: str) -> None:
    if not await link.server.until_alone(1.0):
        raise AssertionError(f"{what}: expected the connection closed within a second, found it open")


async def _settled(link: Link) -> int:
    """The bytes that were taken, when no more are."""
    before, same = -1, 0
    async with asyncio.timeout(_PATIENCE_S):
        while same < 4:
            same = same + 1 if link.server.sent_bytes == before else 0
            before = link.server.sent_bytes
            await asyncio.sleep(0.05)
    return before
