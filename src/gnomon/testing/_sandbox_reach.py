"""What a command gets to beside its own files: the network, and whoever listens on this machine (X2)."""

from __future__ import annotations

from gnomon.testing import _sandbox_programs as attack
from gnomon.testing._sandbox_host import Listeners
from gnomon.testing._sandbox_suite import SandboxSuite, attempts, expect_nothing
from gnomon.testing._suite import expect, expect_some, skip
from gnomon.types.steps import ExecLimits

__all__ = ["SandboxReach"]


class SandboxReach(SandboxSuite):
    """The part of the suite about the network."""

    async def test_there_is_no_way_to_the_network(self) -> None:
        """X2: no address can be reached, of this machine's either."""
        self.needs("network")
        async with self.open() as sandbox:
            expect_nothing("ways to elsewhere", await attempts(self, sandbox, attack.route))

    async def test_no_listener_of_the_host_is_reached(self) -> None:
        """X2: TCP and UDP, on loopback and on the address that others know."""
        self.needs("loopback", "network")
        async with self.open() as sandbox:
            with Listeners() as host:
                told = await attempts(self, sandbox, attack.connect, host.addresses, "", "")
                expect_nothing("reached by a command", told)
                expect_nothing("listeners of the host that were reached", host.reached())

    async def test_no_unix_socket_of_the_host_is_reached(self) -> None:
        """X2: neither one with a path nor an abstract one. A daemon's may be as good as root."""
        self.needs("unix_sockets")
        async with self.open() as sandbox:
            with Listeners() as host:
                told = await attempts(self, sandbox, attack.connect, [], host.path, host.abstract)
                expect_nothing("reached by a command", told)
                expect_nothing("sockets of the host that were reached", host.reached())

    async def test_the_network_is_there_for_the_command_that_may_have_it(self) -> None:
        """X2: for that one, and not for the next."""
        if not self.can_network:
            skip(self, "a network for commands (can_network)")
        async with self.open() as sandbox:
            with Listeners() as host:
                given = [host.addresses, "", ""]
                await attempts(self, sandbox, attack.connect, *given, limits=ExecLimits(network=True))
                expect_some("listeners that were reached by leave", host.reached())
                if "loopback" in self.holds:
                    await attempts(self, sandbox, attack.connect, *given)
                    expect("listeners that were reached without", [], host.reached())
