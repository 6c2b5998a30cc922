"""The recorded ledger as the journal of a loop that runs again.

What the loop writes is compared with what stands next, and what stands next is taken in: so the fold
is always that of the recording. What came from outside comes again, at the same place.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import TypeAlias

from gnomon.engine.fold import Fold
from gnomon.engine.loop import Loop
from gnomon.engine.turn import Ended
from gnomon.replay._kinds import (
    AS_RECORDED,
    ASKING,
    CANCELLABLE,
    DECISIONS,
    FROM_AROUND,
    OUTSIDE,
    is_runners,
)
from gnomon.replay._matching import Mismatch, mismatch
from gnomon.replay.recording import Recording
from gnomon.replay.report import Skipped
from gnomon.types.events import (
    Claimed,
    Event,
    Guarded,
    LedgerEntry,
    MessageCompleted,
    ModelStarted,
    QuestionAnswered,
    Released,
    ToolFinished,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)
from gnomon.types.records import utc_now

__all__ = ["Stopped", "Tape"]

Finds: TypeAlias = Callable[[Mismatch, int], None]

_LONG_S = 1e9


class Stopped(Exception):
    """The turn is not replayed any further."""


class Tape:
    """A journal that knows what comes next. `finds` is told where the loop goes another way."""

    is_shared = True
    is_lost = False
    user_id = ""
    loop: Loop | None = None

    def __init__(self, recording: Recording, finds: Finds) -> None:
        self.session_id = recording.session_id
        self.fold = Fold()
        self.proved_at = math.inf
        self.events = recording.events
        self.at = 0
        """The first event that was not taken in, but for those that came early."""
        self.turn = self.round = 0
        self.rounds = 0
        self.is_stopped = False
        self.skipped: list[Skipped] = []
        self.moved = asyncio.Event()
        self._finds = finds
        self._early: set[int] = set()
        self._full: dict[str, str] = {}
        self._guarded: set[str] = set()
        """The calls of the last message of whose results a guardrail has let pass something else."""
        self._now: datetime = utc_now()
        self._elapsed_s = 0.0

    # --- what stands ahead

    def ahead(self, start: int | None = None) -> Iterator[tuple[int, Event]]:
        """What was not taken in yet, with its place."""
        for at in range(self.at if start is None else start, len(self.events)):
            if at not in self._early:
                yield at, self.events[at].entry

    def _of_runner(self, start: int | None = None) -> Iterator[tuple[int, LedgerEntry]]:
        for at, entry in self.ahead(start):
            if is_runners(entry):
                yield at, entry

    def next_of_runner(self, start: int | None = None) -> tuple[int, LedgerEntry] | None:
        """What a runner wrote next."""
        return next(self._of_runner(start), None)

    def claimed_before(self, place: int) -> int:
        """The place after the claim of whoever wrote at that place; the place itself, where there is none."""
        claims = (at for at in range(place - 1, self.at - 1, -1) if self._is_claim(at))
        return next(claims, place - 1) + 1

    def _is_claim(self, place: int) -> bool:
        return isinstance(self.events[place].entry, Claimed)

    def ended_at(self, place: int) -> TurnCancelled | TurnFailed | None:
        """What cuts the turn short there, with a result for each call that is open."""
        for _, entry in self._of_runner(place):
            if isinstance(entry, TurnCancelled | TurnFailed):
                return entry
            if not isinstance(entry, ToolFinished) or entry.result.status not in ("cancelled", "interrupted"):
                return None
        return None

    def cancelled_at(self, place: int) -> TurnCancelled | None:
        ended = self.ended_at(place)
        return ended if isinstance(ended, TurnCancelled) else None

    @property
    def is_in_turn(self) -> bool:
        """Whether the recorded turn goes on from here."""
        found = self.next_of_runner()
        return found is not None and not isinstance(found[1], TurnStarted)

    def is_next(self, place: int) -> bool:
        """Whether nothing of the runner stands before that place."""
        found = self.next_of_runner()
        return found is None or found[0] >= place

    async def until_next(self, place: int) -> None:
        """Until all before that place is written, or has come about beside what waits here."""
        while not self.is_next(place):
            before = [entry for at, entry in self._of_runner() if at < place]
            results = [entry.result.call_id for entry in before if isinstance(entry, ToolFinished)]
            if len(results) == len(before) and self.loop is not None:
                if self.loop.ended_calls.issuperset(results):
                    return
                await asyncio.sleep(0)
            else:
                self.moved.clear()
                await self.moved.wait()

    # --- going on

    def take(self) -> None:
        """The next event, whatever it is."""
        read, at = self.events[self.at], self.at
        self.at += 1
        if at in self._early:
            self._early.discard(at)
            return
        self._note(read.entry, read.seq)
        if not isinstance(read.entry, Claimed | Released):  # who ran it then does not run it now
            self.fold.take(read.seq, read.entry, read.at)
        self._now = read.at
        self.moved.set()

    def _note(self, entry: Event, seq: int) -> None:
        if isinstance(entry, ToolFinished) and entry.full:
            self._full[entry.result.call_id] = entry.full
        elif isinstance(entry, MessageCompleted):
            self.rounds += not self.is_stopped
            self._guarded.clear()
        elif isinstance(entry, ModelStarted):
            asking = self.fold.turn.asking if self.fold.turn is not None else None
            if asking is None or asking.message_id != entry.message_id:
                self.round += 1
        elif isinstance(entry, Guarded) and entry.position == "tool_results":
            self._guarded.add(entry.call_id)
        if (what := AS_RECORDED.get(type(entry))) is not None:
            self.skip(what, seq)

    def skip(self, what: str, seq: int) -> None:
        self.skipped.append(Skipped(turn=self.turn, seq=seq, what=what))

    def take_to(self, place: int) -> None:
        while self.at < place:
            self.take()

    def admit(self, limit: int) -> bool:
        """What came from outside before that place comes now; whether anything did."""
        before = len(self._early)
        for at, entry in self.ahead():
            if at >= limit:
                break
            if isinstance(entry, OUTSIDE) and not is_runners(entry) and self._is_awaited(entry):
                self._early.add(at)
                self.fold.take(self.events[at].seq, entry, self.events[at].at)
        return len(self._early) > before

    def _is_awaited(self, entry: Event) -> bool:
        """An answer counts for nothing before its question."""
        turn = self.fold.turn
        return not isinstance(entry, QuestionAnswered) or (turn is not None and turn.is_awaited(entry))

    def stop(self, found: Mismatch, seq: int) -> None:
        """The loop goes another way here: that is told, and the turn ends."""
        if not self.is_stopped:
            self.is_stopped = True
            self._finds(found, seq)

    def give_up(self, what: str, seq: int) -> None:
        """The rest of the turn is what no loop can do again."""
        self.is_stopped = True
        self.skip(what, seq)

    # --- what the loop writes

    async def try_append(self, entries: Sequence[LedgerEntry], after: int) -> bool:
        if self.is_stopped:
            raise Stopped
        written = [entry for entry in entries if is_runners(entry)]
        coming = list(islice(self._of_runner(), len(written)))
        if coming and self.admit(coming[-1][0]):
            return False
        for entry, (place, _) in zip(written, coming, strict=False):
            ended = self.cancelled_at(place) if isinstance(entry, CANCELLABLE) else None
            if ended is not None:  # by what is not in the ledger
                self.cancel(ended.reason)
                return False
        for entry in entries:
            if isinstance(entry, Claimed):
                self.fold.owner, self.fold.epoch = entry.owner, entry.epoch
        for entry in written:
            self._match(entry)
        return True

    def _match(self, entry: LedgerEntry) -> None:
        found = self.next_of_runner()
        if found is None:  # the recording ends here, in the midst of a turn
            self.is_stopped = True
            raise Stopped
        place, expected = found
        if isinstance(entry, ASKING) and self.cancelled_at(place) is not None:
            return  # the cancel comes while the model is asked
        if (later := self._heard_later(entry, expected)) is not None:
            self._take_early(later)
            return
        self.take_to(place)
        wrong = mismatch(entry, expected, self._call_of(entry, expected))
        if wrong is not None and not self._is_guarded(entry, expected):
            ended = self.ended_at(place)
            if isinstance(ended, TurnFailed) and (expected is not ended or ended.error.code in FROM_AROUND):
                self.give_up(f"the turn was ended by {ended.error.code!r}", self.events[place].seq)
            self.stop(wrong, self.events[place].seq)
            raise Stopped
        self.take()

    def _heard_later(self, entry: LedgerEntry, expected: LedgerEntry) -> int | None:
        """Where the same result stands when the runner heard of sub-agents that ended one after another."""
        turn = self.fold.turn
        if turn is None or not isinstance(entry, ToolFinished) or not isinstance(expected, ToolFinished):
            return None
        call_id, next_id = entry.result.call_id, expected.result.call_id
        if call_id == next_id or None in (turn.finished_of(call_id), turn.finished_of(next_id)):
            return None
        for place, other in self._of_runner():
            if not isinstance(other, ToolFinished):
                return None
            if other.result.call_id == call_id:
                return place if mismatch(entry, other, "") is None else None
        return None

    def _take_early(self, place: int) -> None:
        read = self.events[place]
        self._early.add(place)
        self._note(read.entry, read.seq)
        self.fold.take(read.seq, read.entry, read.at)

    def _is_guarded(self, entry: LedgerEntry, expected: LedgerEntry) -> bool:
        """Whether both are the result of one call, which is not as it was given: a guardrail is not asked."""
        if not isinstance(entry, ToolFinished) or not isinstance(expected, ToolFinished):
            return False
        call_id = entry.result.call_id
        return call_id == expected.result.call_id and call_id in self._guarded

    def _call_of(self, *entries: LedgerEntry) -> str:
        """The name of the call that is spoken of, where one is."""
        names = {call.id: call.name for call in self.fold.open_calls}
        for entry in entries:
            call_id = (
                entry.result.call_id if isinstance(entry, ToolFinished) else getattr(entry, "call_id", "")
            )
            if call_id in names:
                return names[call_id]
        return ""

    def note(self, facts: Sequence[LedgerEntry]) -> None:
        """Nothing is known before it is compared."""

    async def check_free(self, owner: str, *, take_over: bool = False) -> None:
        """It is nobody else's."""

    async def prove(self) -> None:
        """It is ours."""

    async def full_output(self, call_id: str) -> str | None:
        return self._full.get(call_id)

    # --- what becomes of a step that did not end by itself

    def leave(self) -> None:
        """The runner was lost here, or the recording ends: another goes on, if one does."""
        assert self.loop is not None
        self.loop.planner.is_leaving = True
        self.loop.interrupt.set()

    def cancel(self, reason: str) -> None:
        """The turn was cancelled here: by what was written, or by a reader that left."""
        assert self.loop is not None
        ending = (at for at, entry in self.ahead() if isinstance(entry, Ended))
        self.admit(next(ending))
        self.loop.look()
        if not self.loop.interrupt.is_set:
            self.loop.cancel(reason)

    # --- the clock of the recording

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._elapsed_s

    def let_time_pass(self) -> None:
        """Time stands still, but in a step after which the time of its turn was up."""
        coming = (entry for _, entry in self._of_runner() if isinstance(entry, DECISIONS))
        match next(coming, None):
            case TurnFinished(stop="seconds"):
                self._elapsed_s += _LONG_S
            case _:
                pass
