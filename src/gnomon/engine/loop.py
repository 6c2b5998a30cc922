"""Ask, run tools, repeat, stop.

There is one loop. A blocking run is this one read to its end; a durable run is
this one with a ledger for its journal; a recovered run is this one, begun where
the journal ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import Protocol

from gnomon.contracts.tool import ToolContext
from gnomon.engine.budget import Meter
from gnomon.engine.calls import Batch, Calls
from gnomon.engine.clock import Clock
from gnomon.engine.definition import Definition
from gnomon.engine.instructions import instructions_for
from gnomon.engine.interrupt import Interrupt, Interrupted
from gnomon.engine.journal import Journal
from gnomon.engine.live import Attempt, Channel
from gnomon.engine.plan import Planner, Step
from gnomon.engine.speaking import Speaking
from gnomon.engine.turn import TurnState
from gnomon.errors import ProviderError, StorageError
from gnomon.types.events import (
    AttemptDiscarded,
    Claimed,
    Done,
    LedgerEntry,
    MessageReceived,
    Released,
    RunEvent,
    TurnFailed,
    TurnStarted,
)
from gnomon.types.requests import Request

__all__ = ["Attendant", "Loop"]

_UNSHOWN = (Claimed, Released, MessageReceived)
_GRACE_S = 5.0
_STALE_S = 1.0
"""A proof of ownership older than this is looked at again before the model is asked."""


class Attendant(Protocol):
    """Whoever sees to a session while it is run: its row, its owner, its place among others."""

    async def opened(self) -> None:
        """Before anything is claimed."""
        ...

    async def claimed(self) -> None:
        """Once the claim stands."""
        ...

    async def closed(self) -> None:
        """After everything was let go of, however it ended."""
        ...


class Loop:
    """One runner's time with a session: it claims it, goes on with what is open, and lets go of it.

    `opening` are messages that it brings along; `turns` is how many turns it may begin, and of one
    that it alone runs it raises the error. What is yielded has been recorded before, but for deltas.
    """

    def __init__(
        self,
        agent: Definition,
        journal: Journal,
        *,
        owner: str,
        clock: Clock,
        channel: Channel,
        opening: Sequence[LedgerEntry] = (),
        turns: int | None = None,
        turn_id: str | None = None,
        take_over: bool = False,
        attendant: Attendant | None = None,
    ) -> None:
        self._agent = agent
        self._journal = journal
        self._owner = owner
        self._clock = clock
        self._channel = channel
        self._facts: list[LedgerEntry] = list(opening)
        self._take_over = take_over
        self._raises = turns is not None
        self._cancels = turns is not None
        """Whether a reader that leaves ends the turn; a runner that is stopped only lets go of it."""
        self._attendant = attendant
        self._epoch: int | None = None
        self._state: TurnState | None = None
        self._batch = Batch((), (), "run")
        self._is_again = False
        self._books = agent.accounts.open(agent.model)
        self._system: str | None = None
        self._told = ""
        self.interrupt = Interrupt()
        self.planner = Planner(agent, turns=turns, turn_id=turn_id)
        self._calls = Calls(agent, journal, self.interrupt, channel)

    def cancel(self, reason: str = "") -> None:
        """End the turn that runs, now; what is open in it is answered and written down."""
        self.planner.is_cancelled, self.planner.reason = True, reason
        self.interrupt.set()

    def stop_soon(self) -> None:
        """Let go of the session at the next step, with the turn still open. A tool is waited for."""
        self.planner.is_leaving = True
        if self._state is not None and self._state.asking is not None:
            self.interrupt.set()

    def look(self) -> None:
        """Others may have written: a cancel that is to take effect now does."""
        asked = self._journal.fold.cancel
        if asked is not None and asked.mode == "now" and self._state is not None:
            self.interrupt.set()

    async def events(self) -> AsyncGenerator[RunEvent, None]:
        """Everything that happens, until there is nothing to do or a person has to act."""
        try:
            if self._attendant is not None:
                await self._attendant.opened()
            step, written = await self._commit()
            if self._attendant is not None:
                await self._attendant.claimed()
            while True:
                for entry in written:
                    if not isinstance(entry, _UNSHOWN):
                        yield entry
                if step.action in ("end", "wait"):
                    break
                if step.action == "ask":
                    async with aclosing(self._ask()) as events:
                        async for event in events:
                            yield event
                elif step.action == "call":
                    async with aclosing(self._call()) as events:
                        async for event in events:
                            yield event
                step, written = await self._commit()
        except (GeneratorExit, asyncio.CancelledError):
            await self._leave()
            raise
        finally:
            self._channel.end()
            await self._calls.end()
            if self._attendant is not None:
                await _patiently(asyncio.ensure_future(self._attendant.closed()))
        if self._raises and self.planner.failure is not None:
            raise self.planner.failure

    # --- writing

    async def _commit(self) -> tuple[Step, list[LedgerEntry]]:
        """Decide what comes next and write it down, with the facts that led there."""
        journal = self._journal
        while True:
            claim = await self._claimed() if self._epoch is None else None
            seen = journal.fold.seq
            step = self.planner.next(journal.fold, self._state, self._facts)
            entries = [*self._facts, *step.entries]
            if step.action == "call":
                step = self._batched(step, entries)
            if claim is not None:
                entries.insert(len(self._facts), claim)
            if step.action in ("end", "wait") and journal.is_shared:
                epoch = claim.epoch if claim is not None else self._epoch or 0
                entries.append(Released(self._owner, epoch))
            if not entries or await journal.try_append(entries, seen):
                self._take(entries, claim)
                return step, self._visible(entries)
            self.look()

    async def _claimed(self) -> Claimed | None:
        """Our claim, which goes on with the turn that is open; it holds once it is written."""
        fold = self._journal.fold
        await self._journal.check_free(self._owner, take_over=self._take_over)
        self.planner.begin(fold.epoch + 1, Meter(self._agent.budget, self._clock))
        self._state = fold.open_turn.copy() if fold.open_turn is not None else None
        self._calls.begin(self._state)
        return Claimed(self._owner, fold.epoch + 1) if self._journal.is_shared else None

    def _batched(self, step: Step, entries: list[LedgerEntry]) -> Step:
        """With the calls to be seen to, and what is to be written before."""
        assert self._state is not None
        self._batch = self._calls.next(self._state)
        entries += self._batch.entries
        return step if self._batch.kind != "answer" else Step(step.entries, "again")

    def _take(self, entries: Sequence[LedgerEntry], claim: Claimed | None) -> None:
        """What is written is known. The facts were known when they came about."""
        if claim is not None:
            self._epoch = claim.epoch
        elif self._epoch is None:
            self._epoch = 0
        for entry in entries[len(self._facts) :]:
            if isinstance(entry, TurnStarted):
                self._begin(entry)
            elif self._state is not None:
                self._is_again = self._state.asking is not None
                self._state.take(entry)
        self._facts = []

    def _begin(self, started: TurnStarted) -> None:
        self._state = TurnState(started, self._clock.now())
        self.interrupt.clear()
        self.planner.began(Meter(self._agent.budget, self._clock))

    def _visible(self, entries: list[LedgerEntry]) -> list[LedgerEntry]:
        """An error is raised where there is somebody to raise it to, and not told twice."""
        return [entry for entry in entries if not (self._raises and isinstance(entry, TurnFailed))]

    def _know(self, *facts: LedgerEntry) -> None:
        """What came about, and is to be written with the next step."""
        assert self._state is not None
        for fact in facts:
            self._state.take(fact)
        self._facts += facts

    # --- asking

    async def _ask(self) -> AsyncGenerator[RunEvent, None]:
        """The answer of the model, as it comes."""
        state, journal, interrupt = self._state, self._journal, self.interrupt
        assert state is not None
        assert state.asking is not None
        started = state.asking
        attempt = self._channel.begin(state.id, started.message_id, started.attempt, journal.fold.seq)
        speaking: Speaking | None = None
        try:
            request = await interrupt.wait(self._request(state))
            speaking = Speaking(started, request, self._books, self._clock)
            if self._is_again:
                discarded = AttemptDiscarded("the runner was lost before the answer was whole")
                self._channel.put(discarded)
                yield discarded
            async with self._agent.provider.stream(request) as answer:
                put, next_event = self._channel.put, answer.__anext__
                while True:
                    interrupt.enter()
                    try:
                        event = await next_event()
                    except StopAsyncIteration:
                        break
                    except asyncio.CancelledError:
                        if interrupt.is_ours():
                            raise Interrupted from None
                        raise
                    finally:
                        interrupt.leave()
                    if event.__class__ is not Done:
                        put(event)
                        yield event
                    if interrupt.is_set:
                        raise Interrupted
            self._know(speaking.completed(answer.response))
        except Interrupted:
            self._keep_partial(speaking, attempt)
        except (GeneratorExit, asyncio.CancelledError):
            self._keep_partial(speaking, attempt)
            raise
        except StorageError:
            raise
        except Exception as error:  # noqa: BLE001 - it ends the turn, and is raised or told from there
            self._fail(error)
        finally:
            self._channel.end()

    def _keep_partial(self, speaking: Speaking | None, attempt: Attempt) -> None:
        """A turn that is cut short keeps what was said and paid for."""
        if speaking is None or (self.planner.is_leaving and not self.planner.is_cancelled):
            return  # it will be asked again
        partial = speaking.partial(attempt.events)
        if partial is not None:
            self._know(partial)

    def _fail(self, error: Exception) -> None:
        assert self._state is not None
        self.planner.failure = error
        if isinstance(error, ProviderError) and error.spent:
            self._state.count(error.spent, self._books.cost_of(error.spent, self._clock.now()))

    async def _request(self, state: TurnState) -> Request:
        """The next question. Nobody is asked by a runner that may have lost the session."""
        if self._journal.is_shared and self._clock.monotonic() - self._journal.proved_at > _STALE_S:
            await self._journal.prove()
        if self._told != state.id:
            self._system, self._told = await self._instructions(state), state.id
        return self._agent.request(self._journal.fold.messages, self._system, self._calls.extra_tools)

    async def _instructions(self, state: TurnState) -> str | None:
        context: ToolContext = ToolContext(
            call_id="", session_id=self._journal.session_id, turn_id=state.id, deps=self._agent.deps
        )
        return await instructions_for(self._agent.instructions, context)

    # --- calling

    async def _call(self) -> AsyncGenerator[RunEvent, None]:
        """The calls of the batch, and what they report while they run."""
        assert self._state is not None
        try:
            async with aclosing(self._calls.run(self._state, self._batch)) as events:
                async for event in events:
                    yield event
        except Interrupted:
            await self._calls.stop()
        finally:
            self._know(*self._calls.taken())

    # --- leaving

    async def _leave(self) -> None:
        """Whoever read the run is gone, or the runner is stopped: what is known is written down."""
        if self._epoch is None or self._state is None or self._state.ended is not None:
            return
        await self._calls.stop()
        self._know(*self._calls.taken())
        if self._cancels:
            self.cancel("the reader left")
        self.planner.is_leaving = not self._cancels
        if not self._journal.is_shared:
            await self._commit()
            return
        await _patiently(asyncio.ensure_future(self._ended()))

    async def _ended(self) -> None:
        with suppress(StorageError):  # it stays open, and is found by whoever comes next
            self.planner.stop_after_this()
            while (await self._commit())[0].action not in ("end", "wait"):
                pass


async def _patiently(task: asyncio.Task[None]) -> None:
    """Wait for the end, also when told to hurry; but not for ever, since a store may hang."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _GRACE_S
    while not task.done() and loop.time() < deadline:
        with suppress(asyncio.CancelledError):
            await asyncio.wait({task}, timeout=deadline - loop.time())
