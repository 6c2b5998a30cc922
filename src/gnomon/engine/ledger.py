"""The ledger of one session: append, claim, fold, checkpoint, read.

Nothing is true of a session but what stands here. Whoever writes has read to the
end first: an append that collides reads what is new, asks whether it may still
write, and tries again at the new end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cache
from typing import NamedTuple, Self, cast

import msgspec

from gnomon._payload import PLAIN, Packed, blobs_named, packed, unpacked
from gnomon.contracts.storage import (
    Storage,
    SupportsBlobs,
    SupportsOwners,
    SupportsWatch,
    read_events,
)
from gnomon.engine.clock import Clock, SystemClock, ageing
from gnomon.engine.fold import VERSION, Fold, Snapshot
from gnomon.engine.ids import new_id
from gnomon.engine.journal import TRIES, crowded
from gnomon.errors import Conflict, InvalidInput, NotFound, Superseded
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
from gnomon.types.messages import Meta
from gnomon.types.records import Checkpoint, LedgerEvent, SessionRecord, SessionState, Time

__all__ = ["Ledger", "Read", "read_entry"]

_POLL_S = 0.25
_SAVE_EVERY = 50
_COPIED = 200
_PAGE = 1_000
_NO_BLOBS: dict[str, bytes] = {}


class Read(NamedTuple):
    """An entry with its place in the ledger, and when it was written."""

    seq: int
    entry: Event
    at: datetime


async def read_entry(event: LedgerEvent, store: SupportsBlobs | None) -> Event:
    """What an event holds, with what is kept aside of it."""
    if event.version == PLAIN:
        return unpacked(event, _NO_BLOBS)
    blobs: dict[str, bytes] = {}
    for digest in blobs_named(event):
        found = await store.get_blob(digest) if store is not None else None
        if found is not None:
            blobs[digest] = found
    return unpacked(event, blobs)


class Ledger:
    """One session's ledger, read up to `fold.seq`.

    Anybody may append what comes from outside: a message, an approval, a cancel. A
    runner claims the session first; from then on its appends hold only as long as
    nobody else has claimed it, and raise `Superseded` after that.
    """

    is_shared = True

    def __init__(self, storage: Storage, session_id: str, *, clock: Clock | None = None) -> None:
        self.session_id = session_id
        self.user_id = ""
        self._knows_user = False
        self.fold = Fold()
        self._storage = storage
        has_blobs, knows_owners = _powers(type(storage))
        self._blobs = cast(SupportsBlobs, storage) if has_blobs else None
        self._owners = cast(SupportsOwners, storage) if knows_owners else None
        self._clock = clock or SystemClock()
        self._claim: Claimed | None = None
        self._row: SessionRecord | None = None
        self._followers: list[Callable[[Read], None]] = []
        self.proved_at = 0.0
        """When an append last showed that the session is ours, by `ageing`."""
        self.is_unsure = False
        """Whether the last append was broken off: it may stand, and the fold not know of it."""
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
            await ledger._read_waiting(snapshot)
        await ledger.refresh()
        if ledger.fold.seq < seq:  # of a log that is not there any more: what is there counts
            ledger = cls(storage, session_id, clock=clock)
            await ledger.refresh()
        return ledger

    async def _saved(self) -> tuple[Snapshot | None, int]:
        """The ledger's own checkpoint: others of the session say nothing of the fold."""
        try:
            found = await self._storage.get_checkpoint(self.session_id)
        except InvalidInput:
            await self.row()  # which says it of the session, whose id it is
            raise
        if found is None or found.session_id != self.session_id:
            return None, 0
        return _snapshot(found), found.seq

    async def _read_waiting(self, snapshot: Snapshot) -> None:
        """The messages that came before the view starts, and wait or were taken since."""
        for seq in sorted({*snapshot.waiting.values(), *snapshot.early}):
            if seq < snapshot.view_start:
                entry = await self._entry_at(seq)
                if isinstance(entry, MessageReceived):
                    self.fold.wait(seq, entry)

    @property
    def claim_held(self) -> Claimed | None:
        """Our claim, as long as we know of no later one."""
        return None if self._is_superseded() else self._claim

    @property
    def is_lost(self) -> bool:
        """Whether another runner has taken the session that was ours, as far as is known."""
        return self._is_superseded()

    # --- reading

    async def refresh(self) -> list[Read]:
        """What is new since the last look, taken into the fold."""
        async with self._writing:
            return await self._read_new()

    async def _read_new(self) -> list[Read]:
        new: list[Read] = []
        after, cursor = self.fold.seq, None
        while True:
            page = await self._storage.list_events(self.session_id, after, _PAGE, cursor=cursor)
            await self._read_page(page.items, new)
            cursor = page.next
            if cursor is None:
                return new

    async def _read_page(self, events: Sequence[LedgerEvent], new: list[Read]) -> None:
        """Take them in; `new` gets those that were read whole."""
        at = self.fold.skim(events)
        while at < len(events):
            event = events[at]
            entry = await self._entry(event)
            if isinstance(entry, Claimed | Released):
                self._row = None  # whoever wrote that has written the row too
            self._take(event.seq, entry, event.created_at)
            new.append(Read(event.seq, entry, event.created_at))
            at = self.fold.skim(events, at + 1)

    def _take(self, seq: int, entry: Event, at: datetime) -> None:
        self.fold.take(seq, entry, at)
        for follower in self._followers:
            follower(Read(seq, entry, at))

    @contextmanager
    def following(self, follower: Callable[[Read], None]) -> Generator[None, None, None]:
        """Have each event told that is read or written here, as soon as it is known."""
        self._followers.append(follower)
        try:
            yield
        finally:
            self._followers.remove(follower)

    def watch(self, after_seq: int = 0) -> PullStream[Read]:
        """What stands after that place, and then what is appended, by anybody."""
        return PullStream(self._watched(after_seq))

    async def _watched(self, after_seq: int) -> AsyncGenerator[Read, None]:
        if isinstance(self._storage, SupportsWatch):
            async with self._storage.watch(self.session_id, after_seq) as events:
                async for event in events:
                    yield Read(event.seq, await self._entry(event), event.created_at)
                    after_seq = event.seq
        while True:  # a store that cannot tell is asked again and again
            async with read_events(self._storage, self.session_id, after_seq=after_seq) as events:
                async for event in events:
                    yield Read(event.seq, await self._entry(event), event.created_at)
                    after_seq = event.seq
            await asyncio.sleep(_POLL_S)

    async def _entry_at(self, seq: int) -> Event | None:
        """What stands at that place; `None` where it was pruned."""
        page = await self._storage.list_events(self.session_id, seq - 1, 1)
        return await self._entry(page.items[0]) if page.items and page.items[0].seq == seq else None

    async def _entry(self, event: LedgerEvent) -> Event:
        return await read_entry(event, self._blobs)

    # --- writing

    async def append(self, *entries: LedgerEntry) -> int:
        """Add the entries as one, and give the ledger's new end. What was appended before is left out.

        A message with an id that was seen, and a result of a call that has one, are not
        added again.
        """
        return await self._added(entries, as_runner=True)

    async def receive(self, *entries: LedgerEntry) -> int:
        """The same for what comes from outside: a message, an answer, a cancel. It needs no claim."""
        return await self._added(entries, as_runner=False)

    async def _added(self, entries: Sequence[LedgerEntry], *, as_runner: bool) -> int:
        async with self._writing:
            for _ in range(TRIES):
                if as_runner:
                    self._check_claim()
                new = [entry for entry in _without_twins(entries) if not self._has(entry)]
                if not new or await self._append(new):
                    return self.fold.seq
        raise crowded(self.session_id)

    async def try_append(self, entries: Sequence[LedgerEntry], after: int) -> bool:
        """Add the entries as one, after that place. `False`: others were first, and are in the fold.

        A `Claimed` among them is a claim of ours; whether the session is free was asked before.
        """
        async with self._writing:
            claim = next((entry for entry in entries if isinstance(entry, Claimed)), None)
            if claim is None:
                self._check_claim()
            began_at = ageing(self._clock)  # whoever sleeps after it has written has proved nothing since
            if self.fold.seq != after or not await self._append(entries):
                return False
            self._claim = claim or self._claim
            self.proved_at = began_at
            return True

    def note(self, facts: Sequence[LedgerEntry]) -> None:
        """Nothing is known before it is written: others may write in between."""

    async def try_receive(self, entries: Sequence[LedgerEntry], after: int) -> bool:
        """The same for what comes from outside, which needs no claim."""
        async with self._writing:
            return self.fold.seq == after and await self._append(entries)

    async def copy_from(self, session_id: str, end: int) -> None:
        """Begin this ledger, which is empty, with the events of another up to that place."""
        async with self._writing:
            seq = 0
            while seq < end:
                page = await self._storage.list_events(session_id, seq, min(_COPIED, end - seq))
                if not page.items:
                    raise NotFound(f"the ledger of session {session_id!r} has no event {seq + 1}")
                copied = [
                    msgspec.structs.replace(event, session_id=self.session_id, id=new_id("evt"))
                    for event in page.items
                ]
                await self._storage.append_events(copied)
                seq = copied[-1].seq
            await self._read_new()

    async def _append(self, entries: Sequence[LedgerEntry]) -> bool:
        """`False` when somebody else was first; what they wrote has then been read."""
        now = self._clock.now()
        stored = zip(entries, await self._packed(entries), strict=True)
        events = [self._event(at, *each, now) for at, each in enumerate(stored, self.fold.seq + 1)]
        point = self._checkpoint() if self._is_due() else None
        try:
            await self._storage.append_events(events, checkpoint=point)
        except Conflict:
            await self._catch_up()
            self.is_unsure = False
            return False
        except BaseException:
            self.is_unsure = True
            raise
        self.is_unsure = False
        if point is not None:
            self._saved_seq, self._saved_start = point.seq, self.fold.view_start
        for event, entry in zip(events, entries, strict=True):
            self._take(event.seq, entry, now)
        return True

    def _event(self, seq: int, entry: LedgerEntry, kept: Packed, now: datetime) -> LedgerEvent:
        return LedgerEvent(
            session_id=self.session_id,
            seq=seq,
            id=new_id("evt"),
            type=_type_of(entry),
            payload=kept.payload,
            created_at=now,
            version=kept.version,
        )

    async def _packed(self, entries: Sequence[LedgerEntry]) -> list[Packed]:
        """The entries as they are stored. What is large is stored first: no event names what is not there."""
        blobs = self._blobs
        if blobs is None:
            return [Packed(encode_event(entry), PLAIN) for entry in entries]
        kept = [packed(entry) for entry in entries]
        for each in kept:
            for content in each.blobs:
                await blobs.put_blob(content)
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
        return isinstance(entry, MessageReceived | ToolFinished) and self.fold.has(entry)

    # --- who may run the session

    async def claim(self, owner: str, *, take_over: bool = False) -> int:
        """Become the runner, and give the epoch of the claim.

        `Conflict` while another that is alive has the session, unless a person says `take_over`.
        """
        async with self._writing:
            await self._read_new()
            for _ in range(TRIES):
                await self.check_free(owner, take_over=take_over)
                claim = Claimed(owner, self.fold.epoch + 1)
                if await self._append([claim]):
                    self._claim = claim
                    return claim.epoch
        raise crowded(self.session_id)

    async def release(self) -> None:
        """Let go of the session; nothing happens when it is not ours any more."""
        claim = self._claim
        if claim is None:
            return
        # When the store is away the claim stays: it can be released again, and is checked until then.
        with suppress(Superseded):
            await self.append(Released(claim.owner, claim.epoch))
        self._claim = None

    async def check_free(self, owner: str, *, take_over: bool = False) -> None:
        """`Conflict` while another that is alive has the session, unless a person says `take_over`."""
        holder = self.fold.owner
        if holder is None or holder == owner or take_over:
            return
        if self._owners is None or await self._owners.is_held(holder):
            hint = "it runs there; to take it away from that runner, say take_over"
            raise Conflict(f"session {self.session_id!r} is held by {holder!r}", hint=hint)

    async def prove(self) -> None:
        """Look whether the session is still ours; `Superseded` when it is not."""
        began_at = ageing(self._clock)
        await self.refresh()
        self._check_claim()
        self.proved_at = began_at

    async def full_output(self, call_id: str) -> str | None:
        """The whole text of a result that was cut."""
        seq = self.fold.cut.get(call_id)
        if seq is None:
            return None
        entry = await self._entry_at(seq)
        return entry.full if isinstance(entry, ToolFinished) else None

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
            if saved > self.fold.seq:
                return  # one who has read less must not put the start back
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

    async def create(self, row: SessionRecord) -> None:
        """Make the session's row. `Conflict` when there is one."""
        await self._storage.create_session(row)
        self._row = row
        self.know_user(row.user_id)

    @property
    def known_row(self) -> SessionRecord | None:
        """The session's row as it was last seen here."""
        return self._row

    async def row(self) -> SessionRecord | None:
        """The session's row as it is stored."""
        self._row = await self._storage.get_session(self.session_id)
        if self._row is not None:
            self.know_user(self._row.user_id)
        return self._row

    def know_user(self, user_id: str) -> None:
        """Whose the session is. It stays so, and is not looked up again when the row is."""
        self.user_id, self._knows_user = user_id, True

    async def whose(self) -> str | None:
        """The user whose session it is, empty for nobody's; `None` while it has no row to say so."""
        if not self._knows_user:
            await self.row()
        return self.user_id if self._knows_user else None

    async def project(
        self,
        status: SessionState,
        *,
        runnable: bool = False,
        owner: str | None = None,
        wake_at: datetime | None = None,
    ) -> SessionRecord:
        """Write the session's row as the ledger stands; a row that knows more of it is left alone.

        `owner` is who runs it, for whoever looks for sessions that nobody runs; `wake_at` is when to look
        at one that waits. A time that lies ahead stays: whoever set it may be about to write to the ledger.
        """
        now = self._clock.now()

        def projected(row: SessionRecord) -> SessionRecord | None:
            if row.last_seq > self.fold.seq:
                return None
            times = [each for each in (row.wake_at, wake_at) if each is not None and each > now]
            ahead = min(times, default=None)
            return msgspec.structs.replace(
                row,
                status=status,
                runnable=runnable,
                wake_at=ahead,
                metadata=_with_owner(row.metadata, owner),
                last_seq=self.fold.seq,
                updated_at=now,
            )

        return await self._changed_row(projected)

    async def announce(self, wake_at: Time) -> SessionRecord:
        """Have the row say when to look at the session, however much of the ledger the row knows."""

        def announced(row: SessionRecord) -> SessionRecord:
            if row.status == "closed":
                raise Conflict(f"session {self.session_id!r} is closed", hint="start another, or fork it")
            return msgspec.structs.replace(row, wake_at=wake_at, updated_at=self._clock.now())

        return await self._changed_row(announced)

    async def _changed_row(self, change: Callable[[SessionRecord], SessionRecord | None]) -> SessionRecord:
        """The row as it was changed, or as it is where there is nothing to change."""
        for _ in range(TRIES):
            row = self._row or await self.row()
            if row is None:
                raise NotFound(f"there is no session {self.session_id!r}")
            changed = change(row)
            if changed is None:
                return row
            self._row = None  # until it is known what became of the change
            with suppress(Conflict):
                self._row = await self._storage.update_session(changed)
                return self._row
        raise Conflict(f"the row of session {self.session_id!r} is written by too many at once")


@cache
def _powers(kind: type) -> tuple[bool, bool]:
    """Asked once a kind: whether a protocol is kept is a costly question, and sessions come and go."""
    return issubclass(kind, SupportsBlobs), issubclass(kind, SupportsOwners)


def _with_owner(metadata: Meta, owner: str | None) -> Meta:
    if metadata.get("owner") == owner:
        return metadata
    others = {key: value for key, value in metadata.items() if key != "owner"}
    return others if owner is None else {**others, "owner": owner}


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
    return found if found.version == VERSION else None


def _type_of(entry: LedgerEntry) -> str:
    return str(entry.__struct_config__.tag)
