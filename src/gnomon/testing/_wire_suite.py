"""What every check of a wire stands on: a provider, and behind it a server that plays the replies."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from random import Random
from typing import ClassVar

import msgspec

from gnomon.contracts.provider import Provider
from gnomon.testing._faults import Cut, Fault
from gnomon.testing._fixtures import Fixture, Wire
from gnomon.testing._outcome import Outcome, outcome_of
from gnomon.testing._player import Player
from gnomon.testing._scenarios import SCENARIOS, scenario_request
from gnomon.testing._server import FaultServer, ReceivedRequest
from gnomon.testing._suite import skip
from gnomon.testing.provider import ProviderContract
from gnomon.types.requests import Request

__all__ = ["SOAK", "Link", "WireLimits", "WireSuite"]

SOAK = os.environ.get("GNOMON_SOAK") == "1"
"""Whether to try everything; otherwise a sample is taken, by the seed in `GNOMON_TEST_SEED`."""

_SCENARIOS = {"failure": "server_error"}


class WireLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long a provider may wait; `None` leaves it to the provider."""

    connect_s: float | None = None
    first_byte_s: float | None = None
    idle_s: float | None = None
    total_s: float | None = None


class Link:
    """A provider at one end, a server at the other."""

    def __init__(self, suite: WireSuite, provider: Provider, server: FaultServer, player: Player) -> None:
        self._suite = suite
        self._player = player
        self.provider = provider
        self.server = server

    def carry(self, fault: Fault) -> None:
        """What happens to the replies from now on."""
        self._player.fault = fault

    async def ask(
        self, fixture: Fixture, fault: Fault | None = None, request: Request | None = None
    ) -> Outcome:
        self.carry(fault or Fault())
        return await outcome_of(self.provider, request or self._suite.request_for(fixture))

    @property
    def last(self) -> ReceivedRequest:
        """What was sent last."""
        return self.server.requests[-1]


class WireSuite(ProviderContract):
    """Fills in `open`: what is left to the back end is `wire` and `connect`."""

    limit_s: ClassVar[float] = 900.0 if SOAK else 60.0

    wire: ClassVar[Wire]
    """The replies to play."""

    def connect(self, url: str, limits: WireLimits) -> Provider:
        """A provider, with `self.key` for its key, that asks the service at this address."""
        raise NotImplementedError(
            f"{type(self).__name__} does not fill in connect(): it gives the provider to check"
        )

    def check_request(self, request: ReceivedRequest) -> None:
        """Look at each request that the server gets; raise when the service would not take it."""

    def request(self, scenario: str) -> Request | None:
        """The request that brings a reply of the wire: its model names it."""
        name = _SCENARIOS.get(scenario, scenario)
        if name not in self.wire:
            return None
        request = scenario_request(_kind_of(self.wire[name]))
        return request and msgspec.structs.replace(request, model=f"fixture-{name}")

    def request_for(self, fixture: Fixture) -> Request:
        request = self.request(fixture.name)
        return request if request is not None else skip(self, repr(fixture.name))

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Provider, None]:
        async with self.serving(obedient=True) as link:
            yield link.provider

    @asynccontextmanager
    async def serving(
        self,
        limits: WireLimits | None = None,
        *,
        obedient: bool = False,
    ) -> AsyncGenerator[Link, None]:
        player = Player(self.wire, self.key, self.check_request, obedient=obedient)
        async with FaultServer(player) as server:
            provider = self.connect(server.url, limits or WireLimits())
            try:
                yield Link(self, provider, server, player)
            except BaseException as error:
                _expect_no_problem(server, error)
                raise
            finally:
                await provider.close()
            _expect_no_problem(server)
            if not await server.until_alone():
                raise AssertionError(f"connections open after close(): expected 0, found {server.alive}")

    def named(self, *names: str) -> list[Fixture]:
        """Those of the replies that the wire has; the check is skipped when there are none."""
        found = [self.wire[name] for name in names if name in self.wire]
        return found or skip(self, " or ".join(map(repr, names)))

    async def shown_after(self, link: Link, fixture: Fixture) -> list[int]:
        """How many events of ours each event of the vendor brings it to."""
        shown: list[int] = []
        for boundary in fixture.inner_boundaries:
            shown.append(len((await link.ask(fixture, Cut(boundary, "ended"))).events))
        return shown

    def random(self, what: str) -> Random:
        """Chance, repeatable where a seed is given."""
        seed = os.environ.get("GNOMON_TEST_SEED")
        return Random(f"{seed} {what}" if seed else None)  # noqa: S311 - it chooses examples


def _expect_no_problem(server: FaultServer, error: BaseException | None = None) -> None:
    if server.problems:
        raise AssertionError(server.problems[0]) from error


def _kind_of(fixture: Fixture) -> str:
    """The scenario that the reply fits best."""
    if fixture.name in SCENARIOS:
        return fixture.name
    kinds = {str(part.get("type")) for part in fixture.answer.parts} if fixture.answer else set[str]()
    return "tools" if "tool_call" in kinds else "thinking" if "thinking" in kinds else "text"
