"""A sub-agent of a session, from outside: what it does, what it comes to, and how to end it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from gnomon.contracts.session import Input
from gnomon.contracts.storage import Storage, read_events
from gnomon.engine.answer import Answer
from gnomon.engine.fold import Fold
from gnomon.engine.ledger import Ledger
from gnomon.errors import Conflict
from gnomon.session._family import ended_as, kin_of
from gnomon.session._reader import Reader
from gnomon.types.codec import decode_event
from gnomon.types.events import SubagentStarted
from gnomon.types.steps import SessionStatus, SubagentResult

if TYPE_CHECKING:
    from gnomon.session.local import LocalSession
    from gnomon.session.runtime import Runtime

__all__ = ["LocalSubagent", "started_after"]

_LOOK_S = 0.1
_STARTED = str(SubagentStarted.__struct_config__.tag)


class LocalSubagent:
    """One that a session has started. Looking at it holds nothing open, and it works on by itself."""

    def __init__(
        self,
        above: Runtime,
        parent_id: str,
        runtime: Runtime,
        session: LocalSession[object],
        started: SubagentStarted,
    ) -> None:
        self._above = above
        self._parent_id = parent_id
        self._runtime = runtime
        self._session = session
        self._started = started

    @property
    def id(self) -> str:
        """That of its session."""
        return self._session.id

    @property
    def name(self) -> str:
        """That of the agent who works there."""
        return self._started.name

    @property
    def call_id(self) -> str:
        """The call that it sees to."""
        return self._started.call_id

    @property
    def status(self) -> SessionStatus:
        """How it stands, as far as it was read here; `refresh` reads on."""
        return self._session.status

    async def refresh(self) -> SessionStatus:
        """How it stands now."""
        return await self._session.refresh()

    def events(self, after: int = 0) -> Reader:
        """What happened after that place, and then what happens."""
        return self._session.events(after)

    async def send(self, input: Input) -> str:
        """Tell it more while it works: its turn takes it in. `Conflict` when it has ended."""
        ledger = await self._runtime.ledger(self.id)
        if _has_ended(ledger.fold):
            raise Conflict(
                f"the sub-agent {self.id!r} has ended", hint="its result stands: wait() gives it again"
            )
        return await self._session.send(input, when_busy="steer")

    async def wait(self) -> SubagentResult:
        """What it came to, when it has ended. One whose runner died is gone on with.

        It may wait for leave: that is asked for, and given, at the root.
        """
        ledger = await self._runtime.ledger(self.id)
        news = asyncio.Event()
        with ledger.following(lambda _: news.set()):
            if not _has_ended(ledger.fold):
                self._above.look_at(self._parent_id)  # which also starts it, where that was never done
            while not _has_ended(ledger.fold):
                if not ledger.fold.seq and await self._is_given_up(ledger):
                    return SubagentResult(id=self.id, status="cancelled", cost=0.0)
                await self._news(ledger, news)
        return await _result(ledger, self._runtime.agent.answer)

    async def _is_given_up(self, ledger: Ledger) -> bool:
        """Whether it was named, and the turn above it ended before it was started."""
        above = await self._above.ledger(self._parent_id)
        await above.refresh()
        turn = above.fold.open_turn
        running = turn.running_subagents if turn is not None else ()
        if self.id in above.fold.left or any(each.session_id == self.id for each in running):
            return False
        await ledger.refresh()
        return not ledger.fold.seq

    async def _news(self, ledger: Ledger, news: asyncio.Event) -> None:
        """Until something is written here; what another process writes is looked for."""
        self._runtime.check_open()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_S):
                await news.wait()
        if not news.is_set():
            await ledger.refresh()
        news.clear()

    async def cancel(self) -> None:
        """End what it does: whoever asked for it is told so, and goes on. Nothing when it has ended."""
        await self._session.cancel(reason="the sub-agent was cancelled")


async def started_after(storage: Storage, session_id: str, after: int) -> list[SubagentStarted]:
    """The sub-agents that a session has started since that place in its ledger."""
    found: dict[str, SubagentStarted] = {}
    async with read_events(storage, session_id, after_seq=after) as events:
        async for event in events:
            entry = decode_event(event.payload) if event.type == _STARTED else None
            if isinstance(entry, SubagentStarted):
                found.setdefault(entry.session_id, entry)
    return list(found.values())


def _has_ended(fold: Fold) -> bool:
    return fold.turn is not None and fold.turn.ended is not None and not fold.waiting


async def _result(ledger: Ledger, answer: Answer | None) -> SubagentResult:
    fold, kin = ledger.fold, await kin_of(ledger)
    turn = fold.turn
    turn_id = kin.turn if kin is not None else ""
    finished = ended_as(fold, ledger.session_id, turn_id, answer)
    assert turn is not None
    assert finished is not None
    began, ended = turn.started_at, turn.ended_at
    return SubagentResult(
        id=ledger.session_id,
        status=finished.status,
        output=finished.output,
        messages=tuple(turn.messages),
        usage=finished.usage,
        cost=finished.cost,
        error=finished.error,
        duration_s=(ended - began).total_seconds() if began is not None and ended is not None else 0.0,
    )
