"""What a provider promises that speaks HTTP, as checks that anybody's provider can run."""

from __future__ import annotations

from gnomon.testing._wire_connections import WireConnections
from gnomon.testing._wire_errors import WireErrors
from gnomon.testing._wire_replies import WireReplies
from gnomon.testing._wire_sending import WireSending
from gnomon.testing._wire_times import WireTimes

__all__ = ["WireContract"]


class WireContract(WireReplies, WireTimes, WireConnections, WireErrors, WireSending):
    """The suite of a `Provider` that speaks HTTP, beside all of `ProviderContract`.

        class TestAcme(WireContract):
            wire = Wire("tests/wire/acme")

            def connect(self, url, limits):
                return AcmeProvider(key=self.key, base_url=url, idle_s=limits.idle_s, …)

    A server on this machine plays the replies of the wire, sound and broken. Which
    one a request is for, its model says: `fixture-text` brings `text.http`. So the
    model has to be sent as it is, in the address or in the body.

    With `GNOMON_SOAK=1` every split and cut is tried in place of a sample.
    """
