"""What the parts of the suite of `Session` share: what a back end fills in, and the stage of a check."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

from gnomon.contracts.provider import Provider
from gnomon.contracts.session import Input, Session, SessionReader, SupportsStream
from gnomon.contracts.tool import Tool
from gnomon.providers.scripted import Script, ScriptedProvider
from gnomon.testing._session_audit import Ended, answered, ends, is_at_rest, unsound
from gnomon.testing._session_patience import PATIENCE_S, until, until_found, within
from gnomon.testing._suite import Contract, expect, skip
from gnomon.types.events import (
    Error,
    LedgerEntry,
    Live,
    MessageReceived,
    SessionEvent,
    ToolFinished,
    ToolProgress,
    Unknown,
)
from gnomon.types.messages import Content, ToolResult
from gnomon.types.records import SessionState
from gnomon.types.steps import Turn

__all__ = [
    "Answering",
    "Bench",
    "Forking",
    "Resuming",
    "SessionSuite",
    "Stage",
    "is_stored",
    "next_event",
    "read_until",
]


class Bench(Protocol):
    """One runtime with its store, as a check needs it."""

    def session(self, id: str) -> Session:
        """That session, as this runtime sees it: another object at every call."""
        ...

    def another(
        self, provider: Provider, *, tools: Sequence[Tool] = (), **agent_options: object
    ) -> AbstractAsyncContextManager[Bench]:
        """A second runtime on the same store, as another process would have; gone with the block."""
        ...

    async def ledger(self, id: str) -> list[LedgerEntry]:
        """What stands in the store, read from there and from nowhere else."""
        ...

    async def write(self, id: str, entries: Sequence[LedgerEntry]) -> None:
        """Make a session with this ledger, as a runtime that died has left it."""
        ...


@runtime_checkable
class Answering(Protocol):
    """A session that takes a person's answer for a call that waits."""

    async def answer(
        self, content: Content, /, *, call_id: str | None = None, run_again: bool = False
    ) -> object: ...


@runtime_checkable
class Resuming(Protocol):
    """A session that can be told to go on with what is open."""

    async def resume(self, *, take_over: bool = False) -> object: ...


@runtime_checkable
class Forking(Protocol):
    """A session of which another can be made that begins in the same way."""

    async def fork(self, at: int | None = None) -> Session: ...


class SessionSuite(Contract[Bench]):
    """What a back end tells of itself: `open` alone."""

    limit_s: ClassVar[float] = 120.0

    def open(  # pyright: ignore[reportIncompatibleMethodOverride] - a session needs an agent
        self, provider: Provider, *, tools: Sequence[Tool] = (), **agent_options: object
    ) -> AbstractAsyncContextManager[Bench]:
        """A runtime with an agent of this provider and these tools, on a store of its own."""
        raise NotImplementedError(f"{type(self).__name__} does not fill in open(provider, tools=…)")

    @asynccontextmanager
    async def staged(
        self, script: Script | ScriptedProvider, *, tools: Sequence[Tool] = (), **agent_options: object
    ) -> AsyncGenerator[Stage, None]:
        """A runtime whose model follows the script; at the end all of it must have been asked for."""
        provider = script if isinstance(script, ScriptedProvider) else ScriptedProvider(script)
        opened = self.open(provider, tools=tools, **agent_options)
        async with opened as bench, _playing(self, bench, provider) as stage:
            yield stage


@asynccontextmanager
async def _playing(
    suite: SessionSuite, bench: Bench, provider: ScriptedProvider
) -> AsyncGenerator[Stage, None]:
    stage = Stage(suite, bench, provider)
    try:
        yield stage
        await stage.expect_sound()
    except BaseException as error:
        _tell_what_the_model_saw(provider, error)
        raise
    finally:
        await stage.close()
    provider.assert_finished()


def _tell_what_the_model_saw(provider: ScriptedProvider, error: BaseException) -> None:
    """What a script complains of is swallowed by a turn that fails; it is the better explanation."""
    try:
        provider.assert_finished()
    except AssertionError as complaint:
        error.add_note(f"the scripted model: {complaint}")


Look: TypeAlias = Callable[[list[LedgerEntry]], object]


class Stage:
    """One runtime in a check: its sessions, its model, and what its ledgers say."""

    def __init__(self, suite: SessionSuite, bench: Bench, provider: ScriptedProvider) -> None:
        self.bench = bench
        self.provider = provider
        self._suite = suite
        self._sessions: list[Session] = []
        self._ids: set[str] = set()

    # --- its sessions

    def session(self, id: str = "s") -> Session:
        """A new object for that session; it is closed with the stage."""
        session = self.bench.session(id)
        self.keep(session)
        return session

    def keep(self, session: Session) -> None:
        """Close this one with the stage, and judge its ledger too."""
        self._sessions.append(session)
        self._ids.add(session.id)

    def answering(self, session: Session) -> Answering:
        return session if isinstance(session, Answering) else skip(self._suite, "answers to questions")

    def resuming(self, session: Session) -> Resuming:
        return session if isinstance(session, Resuming) else skip(self._suite, "to be told to go on")

    def forking(self, session: Session) -> Forking:
        return session if isinstance(session, Forking) else skip(self._suite, "forks")

    def streaming(self, session: Session) -> SupportsStream:
        return session if isinstance(session, SupportsStream) else skip(self._suite, "turns one at a time")

    async def turn(self, session: Session, input: Input) -> Turn[object]:
        """Send, and wait for what comes of it."""
        await within("the end of send", session.send(input))
        return await self.result(session)

    async def result(self, session: Session) -> Turn[object]:
        return await within("the result of the turn", session.turn_result())

    async def state(self, session: Session, wanted: SessionState) -> None:
        """Wait until the session says that it is in that state."""
        what = f"status.state {wanted!r} of session {session.id!r}"
        await until(what, lambda: session.status.state == wanted)

    # --- another runtime

    @asynccontextmanager
    async def another(
        self, script: Script | ScriptedProvider, *, tools: Sequence[Tool] = (), **agent_options: object
    ) -> AsyncGenerator[Stage, None]:
        """The second of two runtimes, with a model and tools of its own."""
        provider = script if isinstance(script, ScriptedProvider) else ScriptedProvider(script)
        opened = self.bench.another(provider, tools=tools, **agent_options)
        async with opened as bench, _playing(self._suite, bench, provider) as stage:
            yield stage

    # --- what is in the store

    async def ledger(self, id: str = "s") -> list[LedgerEntry]:
        return await self.bench.ledger(id)

    async def until_ledger(self, what: str, look: Look, id: str = "s") -> list[LedgerEntry]:
        """The ledger, as soon as the look finds something in it."""

        async def found() -> list[LedgerEntry]:
            ledger = await self.ledger(id)
            return ledger if look(ledger) else []

        try:
            return await until_found(what, found)
        except AssertionError as error:
            names = [type(entry).__name__ for entry in await self.ledger(id)]
            raise AssertionError(f"{what}: it did not come within {PATIENCE_S:g} s; found {names}") from error

    async def over(self, turns: int, id: str = "s") -> list[LedgerEntry]:
        """The ledger, when that many turns have ended and nobody holds the session."""

        def look(ledger: list[LedgerEntry]) -> bool:
            return len(ends(ledger)) >= turns and is_at_rest(ledger)

        return await self.until_ledger(f"the end of {turns} turn(s)", look, id)

    async def all_answered(self, sent: Sequence[str], id: str = "s") -> list[LedgerEntry]:
        """The ledger, when turns have taken all these messages and are over."""

        def look(ledger: list[LedgerEntry]) -> bool:
            return set(sent) <= set(answered(ledger)) and is_at_rest(ledger)

        return await self.until_ledger(f"an answer to each of {len(sent)} messages", look, id)

    async def received(self, id: str = "s") -> list[str]:
        """The texts of the messages that have come, in order."""
        return [entry.message.text for entry in await self.ledger(id) if isinstance(entry, MessageReceived)]

    async def results(self, id: str = "s") -> dict[str, ToolResult]:
        """What became of each call, by the name of its tool."""
        entries = [entry for entry in await self.ledger(id) if isinstance(entry, ToolFinished)]
        return {entry.result.name: entry.result for entry in entries}

    async def last_end(self, id: str = "s") -> Ended:
        return ends(await self.ledger(id))[-1]

    async def expect_sound(self) -> None:
        for id in sorted(self._ids):
            expect(f"what is wrong with the ledger of {id!r}", [], unsound(await self.ledger(id)))

    async def close(self) -> None:
        for session in self._sessions:
            await within("the end of close", session.close())


# --- reading ---------------------------------------------------------------------------------


def is_stored(event: SessionEvent) -> bool:
    """Whether an event that was shown stands in the ledger too."""
    return not isinstance(event, Live | ToolProgress | Error | Unknown)


async def read_until(
    reader: SessionReader, done: Callable[[SessionEvent], object], limit_s: float = PATIENCE_S
) -> list[SessionEvent]:
    """What is read up to the first event that will do, which is the last of them."""
    seen: list[SessionEvent] = []
    try:
        async with asyncio.timeout(limit_s):  # not in a task of its own: whoever reads also leaves
            while not seen or not done(seen[-1]):
                seen.append(await reader.__anext__())
    except TimeoutError as error:
        names = [type(event).__name__ for event in seen]
        raise AssertionError(f"what is read for did not come within {limit_s:g} s; read: {names}") from error
    return seen


async def next_event(reader: SessionReader) -> SessionEvent:
    return (await read_until(reader, lambda event: True))[-1]
