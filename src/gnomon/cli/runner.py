"""The agent of a command: it runs the session that was asked for, and no other.

An agent of a program also takes up what others left in its store. A command that did so
would spend money on what nobody asked for, under another model and in another folder.
"""

from __future__ import annotations

import asyncio

import msgspec

from gnomon.agent import Agent
from gnomon.cli.kept import Kept
from gnomon.engine.ledger import Ledger
from gnomon.engine.plan import has_work
from gnomon.errors import Conflict
from gnomon.session.runtime import Runtime
from gnomon.types.messages import Message
from gnomon.types.records import SessionRecord

__all__ = ["CommandAgent"]


class CommandAgent(Agent[str]):
    """An agent whose sessions are run by whoever reads them. `kept` goes into the rows of new ones."""

    kept = Kept()

    async def ledger(self, session_id: str) -> Ledger:
        return await self._live().ledger(session_id)

    async def check_free(self, session_id: str) -> None:
        """`Conflict` while another process that is alive runs the session."""
        runtime = self._live()
        await (await runtime.ledger(session_id)).check_free(runtime.owner)

    async def run_turn(self, session_id: str, *, turns: int, take_over: bool = False) -> None:
        """Go on with what is open, and begin so many turns; raises what made the last one fail.

        Returns at once when there is nothing to do, or another that is alive runs the session.
        """
        runtime = self._live()
        ledger = await runtime.ledger(session_id)
        if not has_work(ledger.fold, runtime.agent):
            return
        try:
            async for _ in runtime.loop(ledger, turns=turns, take_over=take_over).events():
                pass
        except Conflict:
            if take_over:
                raise

    def is_running(self, session_id: str) -> bool:
        return session_id in self._live().loops

    def let_go(self, session_id: str) -> None:
        """Leave the session, with what is open in it as it is."""
        running = self._live().loops.get(session_id)
        if running is not None:
            running[0].stop_soon()

    def _live(self) -> Runtime:
        if self._runtime is None:
            made = _CommandRuntime(self._definition, self._store, self._clock, owns_store=self._owns_store)
            made.kept = self.kept
            self._runtime = made
        assert self._runtime.event_loop is asyncio.get_running_loop()
        return self._runtime


class _CommandRuntime(Runtime):
    kept = Kept()

    def new_row(
        self, session_id: str, message: Message, *, is_run_here: bool = False, is_runnable: bool = True
    ) -> SessionRecord:
        row = super().new_row(session_id, message, is_run_here=is_run_here, is_runnable=is_runnable)
        return msgspec.structs.replace(row, metadata={**self.kept.as_metadata(), **row.metadata})

    async def wake(self, session_id: str, reason_seq: int) -> None:
        """The command runs its session itself."""

    async def nudge(self, session_id: str) -> None:
        """The command runs its session itself."""
