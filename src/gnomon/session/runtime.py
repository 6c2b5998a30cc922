"""What runs the sessions of one agent in this process: one owner, one driver, one bus for deltas."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from weakref import WeakValueDictionary

from gnomon.contracts.driver import Idle, Outcome, Suspended
from gnomon.contracts.storage import Storage, SupportsOwners
from gnomon.drivers.embedded import EmbeddedDriver
from gnomon.engine.clock import Clock
from gnomon.engine.definition import Definition
from gnomon.engine.ids import new_id
from gnomon.engine.ledger import Ledger, Read
from gnomon.engine.live import Bus, Channel
from gnomon.engine.loop import Loop
from gnomon.engine.plan import has_work, wakes_at
from gnomon.engine.subagents import ENDED, members
from gnomon.errors import Conflict, StorageError, Superseded
from gnomon.session._asked import Asked
from gnomon.session._attending import Attending
from gnomon.session._brought import Brought, telling
from gnomon.session._chores import Chores, Observing
from gnomon.session._family import Household, Kin, is_wanted, kin_of, report
from gnomon.session._footing import Footing
from gnomon.session._lookout import Lookout
from gnomon.session._members import Members
from gnomon.session._rows import Rows
from gnomon.session._sockets import LiveServer
from gnomon.session._times import LOST_WAKE
from gnomon.types.events import CancelRequested, LedgerEntry, Released
from gnomon.types.messages import Message
from gnomon.types.records import SessionRecord

__all__ = ["LOST_WAKE", "TENANT", "Runtime"]

log = logging.getLogger("gnomon.session")

TENANT = "default"
_GRACE_S = 10.0
_READER_GRACE_S = 0.5
_TITLE_CHARS = 80
_NO_METADATA: Mapping[str, object] = {}
_UNDECIDED_S = 0.01
_AGAIN_S = 0.25
"""Between two looks at a session that somebody here waits for, and that is another's for now."""


class Runtime:
    """The sessions of one agent on one store, as far as this process has to do with them.

    Everything starts when it is first needed. The store is closed with the runtime when `owns_store`;
    `left` is one that nobody has closed in an event loop that is over. One that does not `adopt` runs what
    is asked of it alone, and takes up nothing else that it finds.
    """

    def __init__(
        self,
        agent: Definition,
        store: Callable[[], Storage],
        clock: Clock,
        *,
        owns_store: bool,
        left: Storage | None = None,
        adopts: bool = True,
        above: Runtime | None = None,
        observing: Observing | None = None,
    ) -> None:
        self.agent = agent
        self.adopts = adopts
        self.asked = Asked()
        self.clock = clock
        self.owner = new_id("run")
        self.bus = Bus()
        self.loops: dict[str, tuple[Loop, Ledger]] = {}
        """The sessions that are run here."""
        self._footing = Footing(
            agent.name, store, self.owner, LiveServer(self.bus, self.owner), owns_store=owns_store, left=left
        )
        self._closing: asyncio.Future[None] | None = None
        self._ledgers: WeakValueDictionary[str, Ledger] = WeakValueDictionary()
        self._opening: dict[str, asyncio.Future[Ledger]] = {}
        self._brought: dict[str, list[Brought]] = {}
        self._driver = EmbeddedDriver(self._unattended)
        self._serving: asyncio.Task[None] | None = None
        self.lookout = Lookout(self.loops)
        self.chores = Chores(observing or Observing(), self._footing.kept)
        self.rows = Rows(lambda fold: has_work(fold, agent, clock.now()), wakes_at)
        self.family = Members(self, above)
        self.event_loop = asyncio.get_running_loop()
        self.is_closing = False

    # --- what must be there first

    async def storage(self) -> Storage:
        """The store, with its tables."""
        return await self._footing.storage()

    def check_open(self) -> None:
        self._footing.check_open()

    @property
    def left_open(self) -> Storage | None:
        """A store of its own that nobody has closed."""
        return self._footing.left_open

    async def hold(self) -> None:
        """Be known as alive, before the first session is claimed."""
        await self._footing.hold()

    # --- ledgers

    async def ledger(self, session_id: str, *, refresh: bool = True) -> Ledger:
        """The ledger of a session, read to its end; one for everybody here who has to do with it.

        Whoever only writes need not `refresh`: an append finds out by itself.
        """
        found = self._ledgers.get(session_id)
        if found is not None:
            if refresh:
                await found.refresh()
            return found
        opening = self._opening.get(session_id)
        if opening is None:
            opening = self._opening[session_id] = asyncio.ensure_future(self._open(session_id))
            opening.add_done_callback(_heard)  # whoever waited for it may have left
        return await asyncio.shield(opening)

    async def _open(self, session_id: str) -> Ledger:
        try:
            ledger = await Ledger.open(await self.storage(), session_id, clock=self.clock)
            self._ledgers[session_id] = ledger
            return ledger
        finally:
            del self._opening[session_id]

    async def new_ledger(self, session_id: str) -> Ledger:
        """The ledger of a session that nobody knows yet."""
        storage = await self.storage()
        if session_id in self._ledgers or session_id in self._opening:
            return await self.ledger(session_id)
        ledger = self._ledgers[session_id] = Ledger(storage, session_id, clock=self.clock)
        return ledger

    def new_row(
        self,
        session_id: str,
        message: Message,
        *,
        is_run_here: bool = False,
        is_runnable: bool = True,
        metadata: Mapping[str, object] = _NO_METADATA,
        user_id: str = "",
    ) -> SessionRecord:
        """The row of a new session, which is about to have something to do."""
        now = self.clock.now()
        title = " ".join(message.text.split())[:_TITLE_CHARS]
        return SessionRecord(
            id=session_id,
            agent_id=self.agent.name,
            user_id=user_id,
            title=title,
            status="running" if is_run_here else "idle",
            metadata={**metadata, "owner": self.owner} if is_run_here else {**metadata},
            runnable=is_runnable,
            created_at=now,
            updated_at=now,
        )

    # --- running sessions

    def loop(
        self,
        ledger: Ledger,
        *,
        opening: Sequence[LedgerEntry] = (),
        turns: int | None = None,
        turn_id: str | None = None,
        take_over: bool = False,
        row: SessionRecord | None = None,
        kin: Kin | None = None,
    ) -> Loop:
        """A runner for the session, which is known here while it runs. `kin` says whose work it does."""
        attending = Attending(self, ledger, row, kin, is_driven=turns is None and not take_over)
        made = Loop(
            self.agent,
            ledger,
            owner=self.owner,
            clock=self.clock,
            channel=self.channel(ledger.session_id),
            opening=opening,
            turns=turns,
            turn_id=turn_id,
            take_over=take_over,
            attendant=attending,
            family=Household(self, ledger.session_id, kin),
            budget=kin.budget if kin is not None else None,
        )
        attending.loop = made
        return made

    def channel(self, session_id: str) -> Channel:
        return self.bus.channel(session_id)

    async def wake(self, session_id: str, reason_seq: int) -> None:
        """Have the session run here, unless somebody alive runs it."""
        self.serve()
        await self._driver.wake(TENANT, session_id, reason_seq)

    async def nudge(self, session_id: str) -> None:
        """The same, for no other reason than that somebody waits for it."""
        self.look_at(session_id)

    def look_at(self, session_id: str, delay_s: float = 0.0) -> None:
        self.serve()
        self._driver.look_at(TENANT, session_id, delay_s)

    def begin(self, session_id: str, brought: Brought) -> None:
        """Have the session run, with a message that is yet to be written."""
        self._brought.setdefault(session_id, []).append(brought)
        self.look_at(session_id)

    def is_at_work_on(self, session_id: str) -> bool:
        """Whether the session is run here, or about to be: what is brought now would wait for the end."""
        return session_id in self.loops or self._driver.is_running(TENANT, session_id)

    def serve(self) -> None:
        """Run what is woken, and what is found in the store with nobody to run it."""
        if self._serving is None and not self.is_closing:
            self._serving = asyncio.ensure_future(self._driver.serve(self.run_segment))

    async def served(self) -> None:
        """Until the serving ends. Who closes the agent cancels nobody who waits here."""
        if self._serving is not None:
            await asyncio.wait({self._serving})
            if not self._serving.cancelled():
                self._serving.result()

    def want(self, session_id: str, message_id: str) -> None:
        """Have that message answered, also where nothing is run that nobody asked for."""
        if not self.adopts:
            self.asked.add(session_id, message_id)

    async def run_segment(self, tenant: str, session_id: str, *, take_over: bool = False) -> Outcome:
        """Go on with a session until there is nothing to do, or a person has to act."""
        if take_over:
            await self._decided(session_id)
        # Whoever takes over may be broken off; what was brought is the driver's to write.
        brought = [] if take_over else self._brought.pop(session_id, [])
        try:
            with telling(brought, self._ledgers.get(session_id)):
                ledger = await self.ledger(session_id, refresh=False)
                runner = await self.family.runner_of(ledger)
                if runner is not None and runner is not self:
                    await self._hand_over(runner, ledger, brought, take_over)
                elif session_id in self.loops:
                    await self._receive(ledger, brought)
                else:
                    await self._segment(ledger, brought, take_over)
        except BaseException:
            if take_over:  # it may be ours by now, and then nobody else goes on with it
                self.look_at(session_id)
            raise
        if not self.adopts and self.asked.is_waited_for(ledger) and not self.is_closing:
            self.look_at(session_id, _AGAIN_S)
        return Suspended() if ledger.fold.open_turn is not None else Idle()

    async def _hand_over(
        self, runner: Runtime, ledger: Ledger, brought: Sequence[Brought], take_over: bool
    ) -> None:
        """The session is a sub-agent's: it is for that one to go on with."""
        await self._receive(ledger, brought)
        if take_over:
            await runner.run_segment(TENANT, ledger.session_id, take_over=True)
        else:
            runner.look_at(ledger.session_id)

    async def _decided(self, session_id: str) -> None:
        """Until a runner that has begun here has the session, or has found that it is another's."""
        while (running := self.loops.get(session_id)) and running[1].fold.owner != self.owner:  # noqa: ASYNC110 - of a claim nobody is told
            await asyncio.sleep(_UNDECIDED_S)

    def _has_work(self, ledger: Ledger) -> bool:
        fold = ledger.fold
        is_ours = self.adopts or fold.open_turn is not None or self.asked.may_begin(ledger)
        return is_ours and has_work(fold, self.agent, self.clock.now())

    async def _segment(self, ledger: Ledger, brought: Sequence[Brought], take_over: bool) -> None:
        if not brought and (ledger.is_unsure or not self._has_work(ledger)):
            await ledger.refresh()
        if brought or self._has_work(ledger):
            await self._run(ledger, brought, take_over)
        else:
            await self._settle(ledger)

    async def _run(self, ledger: Ledger, brought: Sequence[Brought], take_over: bool) -> None:
        row = next((each.row for each in brought if each.row is not None), None)
        opening = [each.received for each in brought]
        kin = await kin_of(ledger)
        if kin is not None and not await self._is_wanted(kin):
            await ledger.receive(CancelRequested("now", ENDED))
        loop = self.loop(ledger, opening=opening, take_over=take_over, row=row, kin=kin)

        def check(_: Read | None = None) -> None:
            if not self.adopts and not self.asked.may_begin(ledger):
                loop.planner.stop_after_this()

        check()
        try:
            with ledger.following(check):
                async for _ in loop.events():
                    pass
        except Superseded as lost:
            log.warning("%s; this runner has stopped", lost)
            await self._receive(ledger, brought)
        except Conflict:
            if take_over or not self._is_run(ledger):
                raise
            await self._receive(ledger, brought)
        except StorageError as error:
            self.asked.tell(ledger.session_id, error)
            raise

    async def _receive(self, ledger: Ledger, brought: Sequence[Brought]) -> None:
        """What was brought along is written for another to read; unless it stands already."""
        if brought:
            await ledger.receive(*(each.received for each in brought))
            if ledger.session_id in self.loops:
                self.loops[ledger.session_id][0].look()
            else:
                self.look_at(ledger.session_id)

    def _is_run(self, ledger: Ledger) -> bool:
        """Whether another that is alive runs it, as far as is known, and so reads what was sent."""
        return ledger.session_id in self.loops or ledger.fold.owner not in (None, self.owner)

    async def _settle(self, ledger: Ledger) -> None:
        """The row as the ledger stands, when there is nothing to do."""
        holder, seq = ledger.fold.owner, ledger.fold.seq
        if holder is not None:  # a run that was broken off when all but this was written
            with suppress(Conflict):
                await ledger.check_free(self.owner)
                if ledger.session_id not in self.loops:
                    await ledger.try_receive([Released(holder, ledger.fold.epoch)], seq)
        kin = await kin_of(ledger)
        if ledger.fold.open_turn is not None and ledger.fold.open_turn.running_subagents:
            await Household(self, ledger.session_id, kin).see_to(ledger.fold.open_turn)
        if ledger.fold.left:  # whoever ended their turn may have been lost before it told them
            await Household(self, ledger.session_id, kin).cancel(ledger.fold.left, ENDED)
        if kin is not None:  # whoever ran it may have been lost before it told of the end
            await report(self, ledger, kin)
        row = await ledger.row()
        if row is None or (ledger.fold.seq == 0 and row.created_at + LOST_WAKE > self.clock.now()):
            return  # somebody is about to send the first message
        is_late = row.runnable or row.wake_at is not None or row.status == "running"
        if is_late and ledger.fold.owner is None:
            self.rows.settle(ledger)

    async def _is_wanted(self, kin: Kin) -> bool:
        return is_wanted((await self.ledger(kin.parent)).fold, kin)

    def below(self, agent: Definition, storage: Storage) -> Runtime:
        """What runs the sessions of one that works for this agent."""
        return Runtime(
            agent,
            lambda: storage,
            self.clock,
            owns_store=False,
            adopts=self.adopts,
            above=self,
            observing=self.chores.observing,
        )

    async def _unattended(self) -> list[tuple[str, SessionRecord]]:
        """The sessions of this agent that have something to do, and that nobody alive runs."""
        found: list[tuple[str, SessionRecord]] = []
        if not self.adopts:
            return found
        storage = await self.storage()
        for agent in members(self.agent):
            (await self.family.member(agent)).serve()
        cursor: str | None = None
        while True:
            page = await storage.list_runnable(self.clock.now(), 200, cursor=cursor)
            for row in page.items:
                if row.agent_id == self.agent.name and not await self._is_attended(storage, row):
                    found.append((TENANT, row))
            cursor = page.next
            if cursor is None:
                return found

    async def _is_attended(self, storage: Storage, row: SessionRecord) -> bool:
        owner = row.metadata.get("owner")
        if row.id in self.loops:
            return True
        if not isinstance(owner, str) or owner == self.owner or not isinstance(storage, SupportsOwners):
            return False
        return await storage.is_held(owner)

    # --- the end

    async def close(self) -> None:
        """Let go of everything. Turns that run stay open in the ledger; a tool with effects is waited for."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self.is_closing = True
        await self._wait_for_loops()
        await self.family.close()
        self._footing.is_closed = True
        self.asked.tell_all(RuntimeError(f"the agent {self.agent.name!r} is closed"))
        await self._driver.close()
        if self._serving is not None:
            self._serving.cancel()
            with suppress(asyncio.CancelledError):
                await self._serving
        await self.lookout.close()
        await self.rows.close()
        await self.chores.close()
        await self._footing.close(self._opening.values())

    async def _wait_for_loops(self) -> None:
        """For a while; and not for long for those whose readers do not come back for more."""
        now = self.event_loop.time
        end, reader_end = now() + _GRACE_S, now() + _READER_GRACE_S
        while self.loops and now() < min(end, reader_end):
            for loop, _ in tuple(self.loops.values()):
                loop.stop_soon()  # again and again: what it does may have changed since
            if any(loop.is_under_way for loop, _ in self.loops.values()):
                reader_end = now() + _READER_GRACE_S
            await asyncio.sleep(0.01)


def _heard(ended: asyncio.Future[Ledger]) -> None:
    """Its error is not told a second time, by the loop."""
    if not ended.cancelled():
        ended.exception()
