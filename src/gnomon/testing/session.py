"""What a session promises, as checks that anybody's session can run."""

from __future__ import annotations

from gnomon.testing._session_approving import SessionApproving
from gnomon.testing._session_around import SessionAround
from gnomon.testing._session_definitions import SessionDefinitions
from gnomon.testing._session_mending import SessionMending
from gnomon.testing._session_reading import SessionReading
from gnomon.testing._session_recovery import SessionRecovery
from gnomon.testing._session_sending import SessionSending
from gnomon.testing._session_sharing import SessionSharing
from gnomon.testing._session_state import SessionState
from gnomon.testing._session_streaming import SessionStreaming
from gnomon.testing._session_suite import Bench
from gnomon.testing._session_turns import SessionTurns
from gnomon.testing._session_waiting import SessionWaiting

__all__ = ["Bench", "SessionContract"]


class SessionContract(
    SessionSending,
    SessionTurns,
    SessionMending,
    SessionReading,
    SessionStreaming,
    SessionState,
    SessionSharing,
    SessionRecovery,
    SessionWaiting,
    SessionApproving,
    SessionAround,
    SessionDefinitions,
):
    """The suite of `Session`: Y1 to Y3 and Y5, and L1 to L6, H1, H2, G1, G2 and C3 as far as it shows them.

        class TestAcme(SessionContract):
            @asynccontextmanager
            async def open(self, provider, *, tools=(), **agent_options):
                async with fresh_store() as store:
                    agent = AcmeAgent(provider, tools=tools, store=store, **agent_options)
                    yield AcmeBench(agent, store)
                    await agent.close()

    `open` gives a `Bench`: a runtime whose agent has that provider and those tools,
    on a store that is empty. Through it the suite gets sessions, a second runtime
    on the same store, and what stands in the store. The model is always a
    `ScriptedProvider`, which insists on one result for every call. At its end a
    check also judges every ledger it has touched.

    Sessions that take answers, give leave, can be compacted, told to go on, forked, or give
    their turns one at a time are checked for that too: `answer`, `approve`, `compact`, `resume`,
    `fork`, `stream`. A check that needs one of them is skipped where it is not offered, and says so.
    """
