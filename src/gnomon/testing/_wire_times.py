"""How long a provider waits on a wire, and for what: each limit has its own error."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager

from gnomon.errors import ProviderError
from gnomon.testing._faults import Dripping, Held, Late, Stalled
from gnomon.testing._fixtures import Fixture
from gnomon.testing._outcome import expect_error, expect_expected, outcome_of
from gnomon.testing._suite import expect, expect_some, skip
from gnomon.testing._wire_suite import Link, WireLimits, WireSuite

__all__ = ["WireTimes"]

_SHORT_S = 0.25
_LONG_S = 20.0
_AT_ONCE_S = 0.45  # less than the half second for which `Stream` bears with a provider
_MOST_WAITING = 64


def _limits(
    *,
    connect_s: float = _LONG_S,
    first_byte_s: float = _LONG_S,
    idle_s: float = _LONG_S,
    total_s: float = _LONG_S,
) -> WireLimits:
    """One limit that is short, and the others so long that only this one can be reached."""
    return WireLimits(connect_s=connect_s, first_byte_s=first_byte_s, idle_s=idle_s, total_s=total_s)


class WireTimes(WireSuite):
    """The part of the suite that waits."""

    async def test_a_connection_that_is_not_made_in_time_is_a_connect_timeout(self) -> None:
        """S8: with a limit of its own."""
        request = self.request_for(self.named("text")[0])
        with _full_queue(self) as url:
            provider = self.connect(url, _limits(connect_s=_SHORT_S))
            try:
                outcome = await outcome_of(provider, request)
            finally:
                await provider.close()
        expect_error("a connection that is not taken", outcome, "connect_timeout", retryable=True)

    async def test_a_refused_connection_says_where_nobody_listens(self) -> None:
        """S12: an error to be tried again, that names host and port and says what to do."""
        request = self.request_for(self.named("text")[0])
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        provider = self.connect(f"http://127.0.0.1:{port}", WireLimits())
        try:
            error = (await outcome_of(provider, request)).error
        finally:
            await provider.close()
        if not isinstance(error, ProviderError) or not error.retryable:
            raise AssertionError(f"a refused connection: expected a retryable ProviderError, found {error!r}")
        if f"127.0.0.1:{port}" not in str(error):
            raise AssertionError(f"a refused connection: expected 127.0.0.1:{port} in it, found {error}")
        expect_some("a refused connection: the vendor", error.vendor)
        expect_some("a refused connection: the hint", error.hint)

    async def test_an_answer_that_does_not_begin_is_a_first_byte_timeout(self) -> None:
        """S8: connected, asked, and not even a head."""
        fixture = self.named("text")[0]
        async with self.serving(_limits(first_byte_s=_SHORT_S)) as link:
            outcome = await link.ask(fixture, Stalled(None))
            expect_error(f"{fixture.name}, {Stalled(None)}", outcome, "first_byte_timeout", retryable=True)
            await _expect_closed(link, fixture, Stalled(None))

    async def test_an_answer_that_falls_silent_is_an_idle_timeout(self) -> None:
        """S8: between two events, and in the middle of one."""
        fixture = self.named("text")[0]
        middle = _middle(fixture)
        async with self.serving(_limits(idle_s=_SHORT_S)) as link:
            for fault in (Stalled(middle), Stalled(middle + 5)):
                outcome = await link.ask(fixture, fault)
                expect_error(f"{fixture.name}, {fault}", outcome, "idle_timeout", retryable=True)
                await _expect_closed(link, fixture, fault)

    async def test_a_head_without_an_answer_is_a_timeout_too(self) -> None:
        """S8: the head is the first byte of the answer, or the answer has not begun: either is told."""
        fixture = self.named("text")[0]
        async with self.serving(_limits(first_byte_s=_SHORT_S, idle_s=_SHORT_S)) as link:
            outcome = await link.ask(fixture, Stalled(0))
            expect_error(f"{fixture.name}, {Stalled(0)}", outcome, "first_byte_timeout", "idle_timeout")

    async def test_an_answer_that_never_ends_is_a_total_timeout(self) -> None:
        """S8: a byte now and then keeps every other limit."""
        fixture = self.named("text")[0]
        async with self.serving(_limits(total_s=_SHORT_S)) as link:
            for fault in (Dripping(_middle(fixture)), Dripping(None)):
                outcome = await link.ask(fixture, fault)
                expect_error(f"{fixture.name}, {fault}", outcome, "total_timeout", retryable=True)
                await _expect_closed(link, fixture, fault)

    async def test_a_reader_who_rests_does_not_use_up_the_limit_of_silence(self) -> None:
        """S8: silence is the service's, counted while something is waited for."""
        fixture = self.named("text")[0]
        async with self.serving(_limits(idle_s=_SHORT_S)) as link:
            shown = (await self.shown_after(link, fixture))[len(fixture.boundaries) // 2 - 1]
            fault = Late(_middle(fixture), _SHORT_S * 2.2)
            link.carry(fault)
            count = 0
            async with link.provider.stream(self.request_for(fixture)) as stream:
                async for _ in stream:
                    count += 1
                    if count == shown:
                        await asyncio.sleep(_SHORT_S * 2)
            expect(f"{fixture.name}, {fault}: its end", "end_turn", stream.response.stop_reason)

    async def test_an_answer_ends_with_its_last_event_not_with_the_connection(self) -> None:
        """S16: a service may keep the connection open for as long as it likes."""
        async with self.serving() as link:
            for fixture in self.named("text", "tools", "thinking"):
                started = time.monotonic()
                outcome = await link.ask(fixture, Held())
                took = time.monotonic() - started
                expect_expected(f"{fixture.name}, {Held()}", fixture, outcome)
                if took > _AT_ONCE_S:
                    raise AssertionError(
                        f"{fixture.name}, {Held()}: expected Done at once, found {took:.2f} s"
                    )


def _middle(fixture: Fixture) -> int:
    return fixture.boundaries[len(fixture.boundaries) // 2 - 1]


async def _expect_closed(link: Link, fixture: Fixture, fault: Stalled | Dripping) -> None:
    if not await link.server.until_alone():
        raise AssertionError(f"{fixture.name}, {fault}: expected the connection closed within a second")


@contextmanager
def _full_queue(suite: object) -> Generator[str, None, None]:
    """The address of a listener that takes nobody in, and whose queue is full."""
    with ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(_MOST_WAITING):
            waiting = sockets.enter_context(socket.socket())
            waiting.settimeout(0.1)
            try:
                waiting.connect(listener.getsockname())
            except OSError:  # it is not let in, so nobody is
                break
        else:
            skip(suite, f"this: the system completes {_MOST_WAITING} connections that nobody takes")
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
