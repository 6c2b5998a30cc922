"""What a tool promises, as checks that anybody's tool can run."""

from __future__ import annotations

from gnomon.testing._tool_lookup import ToolLookup
from gnomon.testing._tool_powers import ToolPowers
from gnomon.testing._tool_progress import ToolStreaming
from gnomon.testing._tool_running import ToolRunning
from gnomon.testing._tool_words import ToolWords

__all__ = ["ToolContract"]


class ToolContract(ToolWords, ToolRunning, ToolPowers, ToolStreaming, ToolLookup):
    """The suite of `Tool` and of what a tool may offer beside: T1 to T5.

        class TestRefund(ToolContract):
            arguments = '{"order": "A17"}'
            answer = "refunded"
            invalid = {'{"order": 17}': "order"}
            failing = '{"order": "none"}'

            @asynccontextmanager
            async def open(self):
                self.bank = Bank()
                yield refund_through(self.bank)

            def effects(self):
                return len(self.bank.refunds)

    `open` gives a fresh tool. With `effects` the suite sees what a call has done,
    and so whether a key is kept to and whether `lookup` tells the truth; `slow`
    shows whether a call that takes long can be ended, and leaves the event loop to
    others; `steps` whether a stream that was closed has stopped. A check that needs
    what a tool does not offer is skipped, and says so.
    """
