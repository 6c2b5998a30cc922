"""What is done for a session once it rests, while nobody waits for it: its audit chain, and its spans.

All of it follows from the ledger. What is lost with the process is made up for when the session
is next taken from a runner that died.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from gnomon._begun import BrokenOff, Overdue, within
from gnomon.engine.ledger import Ledger, Read
from gnomon.session._audit_rows import is_told
from gnomon.session._auditing import audited, refused
from gnomon.session._family import Kin
from gnomon.types.events import TurnCancelled, TurnFailed, TurnFinished, TurnStarted

if TYPE_CHECKING:
    from gnomon.contracts.storage import Storage
    from gnomon.tracing.exporter import Parent, Tracing

__all__ = ["Chores", "Observing", "concerns"]

log = logging.getLogger("gnomon.session")

_REMEMBERED = 1_000
LIMIT_S = 60.0
"""How long the audit chain is written at a time; what is left is for the next."""
_CLOSING_S = 10.0
_GRACE_S = 1.0


class Observing(msgspec.Struct, frozen=True):
    """What an agent wants to be kept of its sessions besides their ledgers."""

    audit: bool = True
    tracing: Tracing | None = None


class Chores:
    """One after another for each session; different sessions are seen to side by side."""

    def __init__(self, observing: Observing, storage: Callable[[], Awaitable[Storage]]) -> None:
        self.observing = observing
        self._storage = storage
        self._is_closed = False
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._parents: OrderedDict[str, Parent] = OrderedDict()

    @property
    def wanted(self) -> bool:
        return self.observing.audit or self.observing.tracing is not None

    def note_sender(self, message_id: str) -> None:
        """The spans of the turn that answers this message go where its sender is now."""
        tracing = self.observing.tracing
        if tracing is None or tracing.exporter is None:
            return
        try:
            self._parents[message_id] = tracing.exporter.here()
        except Exception as error:  # noqa: BLE001 - a message is never lost for what is told of it
            name = type(tracing.exporter).__name__
            log.warning("%s does not say where the sender is: %s: %s", name, type(error).__name__, error)
            return
        while len(self._parents) > _REMEMBERED:
            self._parents.popitem(last=False)

    def add(self, ledger: Ledger, reads: Sequence[Read], kin: Kin | None, *, was_lost: bool) -> None:
        """See to what has happened; `was_lost` is said of a session whose runner before had died."""
        if self._is_closed:  # of a reader that came back when everything was let go of
            return
        before = self._tasks.get(ledger.session_id)
        work = self._after(before, ledger, tuple(reads), kin, was_lost)
        task = self._tasks[ledger.session_id] = asyncio.ensure_future(work)
        task.add_done_callback(lambda done: self._done(ledger.session_id, done))

    def _done(self, session_id: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(session_id) is task:
            del self._tasks[session_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("what was to be kept of session %s was not: %r", session_id, error)

    async def _after(
        self,
        before: asyncio.Task[None] | None,
        ledger: Ledger,
        reads: Sequence[Read],
        kin: Kin | None,
        was_lost: bool,
    ) -> None:
        if before is not None:
            await asyncio.wait({before})
        storage = await self._storage()
        if self.observing.audit:
            await self._audit(storage, ledger.session_id, None if was_lost else reads)
        if self.observing.tracing is not None:
            await self._trace(storage, self.observing.tracing, ledger, reads, kin, was_lost)

    async def _audit(self, storage: Storage, session_id: str, reads: Sequence[Read] | None) -> None:
        try:
            await within(audited(storage, session_id, reads), LIMIT_S)
        except Overdue:
            log.warning("the audit chain of session %s was not written within %g s", session_id, LIMIT_S)
        except BrokenOff as error:
            log.warning("the audit chain of session %s was not written: %s", session_id, error)

    async def _trace(
        self,
        storage: Storage,
        tracing: Tracing,
        ledger: Ledger,
        reads: Sequence[Read],
        kin: Kin | None,
        was_lost: bool,
    ) -> None:
        from gnomon.session._tracing import rebuild, write_traces
        from gnomon.tracing.exporter import Tracing

        if kin is not None:  # the spans of the turn above take these with them
            tracing = Tracing(content=tracing.content)
        if was_lost:
            try:
                await rebuild(storage, ledger.session_id, tracing)
            except Exception as error:  # noqa: BLE001 - a turn is never lost for what is told of it
                log.warning("the spans of session %s were not made: %s", ledger.session_id, error)
            return
        for turn_id, start in _ended(reads, ledger):
            parent = self._parent(ledger, turn_id)
            await write_traces(storage, ledger.session_id, turn_id, tracing, after_seq=start, parent=parent)

    def _parent(self, ledger: Ledger, turn_id: str) -> Parent | None:
        turn = ledger.fold.turn
        inputs = turn.started.inputs if turn is not None and turn.id == turn_id else ()
        return next((self._parents[at] for at in inputs if at in self._parents), None)

    async def tell_refusal(self, session_id: str, approval_id: str, by: str, why: str) -> None:
        """An answer that did not count leaves its row all the same."""
        if self.observing.audit:
            await refused(await self._storage(), session_id, approval_id, by, why)

    async def close(self) -> None:
        """What is under way is waited for, but not for ever."""
        self._is_closed = True
        if self._tasks:
            _, late = await asyncio.wait(set(self._tasks.values()), timeout=_CLOSING_S)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=_GRACE_S)


def concerns(read: Read) -> bool:
    """Whether something is to be kept of an event, or of the turn that it begins or ends."""
    turns = (TurnStarted, TurnFinished, TurnFailed, TurnCancelled)
    return isinstance(read.entry, turns) or is_told(read.entry)


def _ended(reads: Sequence[Read], ledger: Ledger) -> list[tuple[str, int]]:
    """The turns that have ended, and the place before the first event that belongs to each."""
    started: dict[str, int] = {}
    ended: list[tuple[str, int]] = []
    turn = ledger.fold.turn
    for read in reads:
        if isinstance(read.entry, TurnStarted):
            started[read.entry.turn_id] = read.seq
        elif isinstance(read.entry, TurnFinished | TurnFailed | TurnCancelled):
            turn_id = read.entry.turn_id
            known = turn.seq if turn is not None and turn.id == turn_id else 0
            first = started.get(turn_id, known)
            taken = ledger.fold.taken.values() if turn is not None and turn.id == turn_id else ()
            ended.append((turn_id, max(min((first, *taken)) - 1, 0)))
    return ended
