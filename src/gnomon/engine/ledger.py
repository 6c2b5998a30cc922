"""The ledger of one session: append, claim, fold, checkpoint, read.

Nothing is true of a session but what stands here. Whoever writes has read to the
end first: an append that collides reads what is new, asks whether it may still
write, and tries again at the new end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from typing import NamedTuple, Self

import msgspec

from gnomon._payload import PLAIN, Packed, blobs_named, packed, unpacked
from gnomon.contracts.storage import (
    Storage,
    SupportsBlobs,
    SupportsOwners,
    SupportsWatch,
    read_events,
)
from gnomon.engine.clock import Clock, SystemClock
from gnomon.engine.fold import Fold, Snapshot
from gnomon.engine.ids import new_id
from gnomon.errors import Conflict, NotFound, Superseded
from gnomon.stream import PullStream
from gnomon.types.codec import encode_event
from gnomon.types.events import (
    Claimed,
    Event,
    LedgerEntry,
    MessageReceived,
    Released,
    ToolFinished,
)
from gnomon.types.records import Checkpoint, LedgerEvent, SessionRecord, SessionState, Time

__all__ = ["Ledger", "Read"]

_POLL_S = 0.25
_TRIES = 1_000
_SAVE_EVERY = 50


class Read(NamedTuple):
    """An entry with its place in the ledger."""

    seq: int
    entry: Event


class Ledger:
    """One session's ledger, read up to `fold.seq`.

    Anybody may append what comes from outside: a message, an approval, a cancel. A
    runner claims the session first; from then on its appends hold only as long as
    nobody else has claimed it, and raise `Superseded` after that.
    """

    def __init__(self, storage: Storage, session_id: str, *, clock: Clock | None = None) -> None:
        self.session_id = session_id
        self.fold = Fold()
        self._storage = storage
        # Asked once: whether a protocol is kept is a costly question, and an append is a hot path.
        self._blobs = storage if isinstance(storage, SupportsBlobs) else None
        self._owners = storage if isinstance(storage, SupportsOwners) else None
        self._clock = clock or SystemClock()
        self._claim: Claimed | None = None
        self._writing = asyncio.Lock()
        self._saved_seq, self._saved_start = 0, self.fold.view_start

    @classmethod
    async def open(cls, storage: Storage, session_id: str, *, clock: Clock | None = None) -> Self:
        """The ledger, read from its latest checkpoint's view on, to its end."""
        ledger = cls(storage, session_id, clock=clock)
        snapshot, seq = await ledger._saved()
        if snapshot is not None:
            ledger.fold = Fold(snapshot, seq)
            ledger._saved_seq, ledger._saved_start = seq, ledger.fold.view_start
        await ledger.refresh()
        if ledger.fold.seq < seq:  # of a log that is not there any more: what is there counts
            ledger = cls(storage, session_id, clock=clock)
            await ledger.refresh()
        return ledger

    async def _saved(self) -> tuple[Snapshot | None, int]:
        """The ledger's own checkpoint: others of the session say nothing of the fold."""
        found = await self._storage.get_checkpoint(self.session_id)
        if found is None or found.session_id != self.session_id:
            return None, 0
        return _snapshot(found), found.seq

    @property
    def claim_held(self) -> Claimed | None:
        """Our claim, as long as we know of no later one."""
        return None if self._is_superseded() else self._claim

    # --- reading

    async def refresh(self) -> list[Read]:
        """What is new since the last look, taken into the fold."""
        async with self._writing:
            return await self._read_new()

    async def _read_new(self) -> list[Read]:
        new: list[Read] = []
        async with read_events(self._storage, self.session_id, after_seq=self.fold.seq) as events:
            async for event in events:
                entry = await self._entry(event)
                self.fold.take(event.seq, entry)
                new.append(Read(event.seq, entry))
        return new

    def watch(self, after_seq: int = 0) -> PullStream[Read]:
        """What stands after that place, and then what is appended, by anybody."""
        return PullStream(self._watched(after_seq))

    async def _watched(self, after_seq: int) -> AsyncGenerator[Read, None]:
        if isinstance(self._storage, SupportsWatch):
            async with self._storage.watch(self.session_id, after_seq) as events:
                async for event in events:
                    yield Read(event.seq, await self._entry(event))
                    after_seq = event.seq
        while True:  # a store that cannot tell is asked again and again
            async with read_events(self._storage, self.session_id, after_seq=after_seq) as events:
                async for event in events:
                    yield Read(event.seq, await self._entry(event))
                    after_seq = event.seq
            await asyncio.sleep(_POLL_S)

    async def _entry(self, event: LedgerEvent) -> Event:
        blobs: dict[str, bytes] = {}
        for digest in blobs_named(event):
            found = await self._blobs.get_blob(digest) if self._blobs is not None else None
            if found is not None:
                blobs[digest] = found
        return unpacked(event, blobs)

    # --- writing

    async def append(self, *entries: LedgerEntry) -> int:
        """Add the entries as one, and give the ledger's new end. What was appended before is left out.

        A message with an id that was seen, and a result of a call that has one, are not
        added again.
        """
        async with self._writing:
            for _ in range(_TRIES):
                self._check_claim()
                new = [entry for entry in _without_twins(entries) if not self._has(entry)]
                if not new or await self._append(new):
                    return self.fold.seq
        raise Conflict(f"session {self.session_id!r} is written by too many at once")

    async def _append(self, entries: Sequence[LedgerEntry]) -> bool:
        """`False` when somebody else was first; what they wrote has then been read."""
        events = [await self._event(at, entry) for at, entry in enumerate(entries, self.fold.seq + 1)]
        point = self._checkpoint() if self._is_due() else None
        try:
            await self._storage.append_events(events, checkpoint=point)
        except Conflict:
            await self._catch_up()
            return False
        if point is not None:
            self._saved_seq, self._saved_start = point.seq, self.fold.view_start
        for event, entry in zip(events, entries, strict=True):
            self.fold.take(event.seq, entry)
        return True

    async def _event(self, seq: int, entry: LedgerEntry) -> LedgerEvent:
        """The entry as it is stored. What is large is stored first: no event names what is not there."""
        kept = await self._packed(entry)
        return LedgerEvent(
            session_id=self.session_id,
            seq=seq,
            id=new_id("evt"),
            type=_type_of(entry),
            payload=kept.payload,
            created_at=self._clock.now(),
            version=kept.version,
        )

    async def _packed(self, entry: LedgerEntry) -> Packed:
        """What is large goes into blobs, where the store has them."""
        if self._blobs is None:
            return Packed(encode_event(entry), PLAIN)
        kept = packed(entry)
        for content in kept.blobs:
            await self._blobs.put_blob(content)
        return kept

    async def _catch_up(self) -> None:
        before = self.fold.seq
        if await self._read_new() or before == 0:
            return
        last = await self._storage.list_events(self.session_id, before - 1, 1)
        if not last.items:
            raise NotFound(f"the ledger of session {self.session_id!r} is gone: the session was deleted")

    def _has(self, entry: LedgerEntry) -> bool:
        """Whoever writes at the end has read to it, and so knows what is there already."""
        if isinstance(entry, MessageReceived):
            return entry.message_id in self.fold.recent
        if isinstance(entry, ToolFinished):
            return self.fold.has_result(entry.result.call_id)
        return False

    # --- who may run the session

    async def claim(self, owner: str, *, take_over: bool = False) -> int:
        """Become the runner, and give the epoch of the claim.

        `Conflict` while another that is alive has the session, unless a person says `take_over`.
        """
        async with self._writing:
            await self._read_new()
            for _ in range(_TRIES):
                await self._check_free(owner, take_over)
                claim = Claimed(owner, self.fold.epoch + 1)
                if await self._append([claim]):
                    self._claim = claim
                    return claim.epoch
        raise Conflict(f"session {self.session_id!r} is written by too many at once")

    async def release(self) -> None:
        """Let go of the session; nothing happens when it is not ours any more."""
        claim = self._claim
        if claim is None:
            return
        # When the store is away the claim stays: it can be released again, and is checked until then.
        with suppress(Superseded):
            await self.append(Released(claim.owner, claim.epoch))
        self._claim = None

    async def _check_free(self, owner: str, take_over: bool) -> None:
        holder = self.fold.owner
        if holder is None or holder == owner or take_over:
            return
        if self._owners is None or await self._owners.is_held(holder):
            hint = "it runs there; to take it away from that runner, say take_over"
            raise Conflict(f"session {self.session_id!r} is held by {holder!r}", hint=hint)

    def _is_superseded(self) -> bool:
        claim = self._claim
        return claim is not None and (self.fold.owner, self.fold.epoch) != (claim.owner, claim.epoch)

    def _check_claim(self) -> None:
        """Once superseded, a runner stays so until it claims anew or lets go: it must not end up a sender."""
        if self._is_superseded():
            holder = self.fold.owner or "nobody"
            raise Superseded(
                f"session {self.session_id!r} was taken over by {holder} (epoch {self.fold.epoch})"
            )

    # --- what is derived

    async def checkpoint(self) -> None:
        """Save where to open the session from; appends do so by themselves now and then."""
        async with self._writing:
            _, saved = await self._saved()
            if saved <= self.fold.seq:  # one who has read less must not put the start back
                point = self._checkpoint()
                await self._storage.save_checkpoint(point)
                self._saved_seq, self._saved_start = point.seq, self.fold.view_start

    def _checkpoint(self) -> Checkpoint:
        """One a session: it is derived, and safe to lose."""
        return Checkpoint(
            id=self.session_id,
            session_id=self.session_id,
            seq=self.fold.seq,
            created_at=self._clock.now(),
            state=self.fold.state(),
        )

    def _is_due(self) -> bool:
        """After a number of events, and as soon as the view starts elsewhere."""
        return self.fold.seq - self._saved_seq >= _SAVE_EVERY or self.fold.view_start != self._saved_start

    async def project(
        self, status: SessionState, *, runnable: bool = False, wake_at: Time | None = None
    ) -> SessionRecord:
        """Write the session's row as the ledger stands; a row that knows more of it is left alone."""
        for _ in range(_TRIES):
            row = await self._storage.get_session(self.session_id)
            if row is None:
                raise NotFound(f"there is no session {self.session_id!r}")
            if row.last_seq > self.fold.seq:
                return row
            changed = msgspec.structs.replace(
                row,
                status=status,
                runnable=runnable,
                wake_at=wake_at,
                last_seq=self.fold.seq,
                updated_at=self._clock.now(),
            )
            try:
                return await self._storage.update_session(changed)
            except Conflict:
                continue
        raise Conflict(f"the row of session {self.session_id!r} is written by too many at once")


def _without_twins(entries: Sequence[LedgerEntry]) -> list[LedgerEntry]:
    """A message that stands twice among them is one."""
    seen: set[str] = set()
    kept: list[LedgerEntry] = []
    for entry in entries:
        if isinstance(entry, MessageReceived):
            if entry.message_id in seen:
                continue
            seen.add(entry.message_id)
        kept.append(entry)
    return kept


def _snapshot(checkpoint: Checkpoint) -> Snapshot | None:
    """`None` for one that this code cannot read: the ledger has everything."""
    try:
        found = msgspec.convert(checkpoint.state, Snapshot)
    except msgspec.ValidationError:
        return None
    return found if found.version == Snapshot().version else None


def _type_of(entry: LedgerEntry) -> str:
    return str(entry.__struct_config__.tag)
