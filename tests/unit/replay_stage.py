"""What tests of replays share: tools that count, ledgers, and ledgers with something changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from gnomon import Agent, AskUser, tool
from gnomon.engine.ledger import Read
from gnomon.replay import Recording, Replay, read_store, replay
from gnomon.session.local import LocalSession
from gnomon.types.events import Claimed, Event, LedgerEntry, MessageReceived, ModelStarted, TurnStarted
from gnomon.types.messages import Message
from gnomon.types.records import utc_now

__all__ = ["Tools", "changed", "edited", "opening", "recorded", "replayed_same", "taped", "without"]


class Tools:
    """Tools that count how often they really ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []

        @tool(read_only=True)
        def weather(city: str) -> str:
            """The weather of a city."""
            self.ran.append(f"weather {city}")
            return f"rain in {city}"

        @tool
        def book(room: int) -> str:
            """Book a room."""
            self.ran.append(f"book {room}")
            return "booked"

        @tool
        def permit() -> str:
            """Ask a person."""
            self.ran.append("permit")
            raise AskUser("May I?", options=("yes", "no"))

        self.weather, self.book, self.permit = weather, book, permit

    @property
    def all(self) -> list[object]:
        return [self.weather, self.book, self.permit]


def opening(agent: Agent, **given: object) -> Sequence[LedgerEntry]:
    """A turn that a runner has begun, up to the question to the model."""
    told = {"agent_hash": agent._definition.hash, "inputs": ("u1",), **given}
    return (
        MessageReceived("u1", Message.user("go")),
        Claimed("gone", 1),
        TurnStarted("t1", "agent", agent._definition.model, **told),
        ModelStarted("t1", "m1", (1, 1)),
    )


async def recorded(session: LocalSession[object]) -> Recording:
    return await read_store(await session._runtime.storage(), session.id)


async def replayed_same(session: LocalSession[object], agent: Agent | None = None) -> Replay:
    """The replay of a session that goes as it went; the ledger of it has not changed by that."""
    before = await recorded(session)
    found = await replay(session, agent=agent)
    found.check()
    assert await recorded(session) == before
    return found


def taped(*entries: Event, first: int = 1) -> Recording:
    """A recording of these entries."""
    return Recording("s", tuple(Read(seq, entry, utc_now()) for seq, entry in enumerate(entries, first)))


def edited(recording: Recording, change: Callable[[Event], Event]) -> Recording:
    """The same with entries changed."""
    return taped(*(change(read.entry) for read in recording.events))


def without(recording: Recording, kind: type, nth: int = 0) -> Recording:
    """The same without one entry of that kind."""
    entries: Sequence[Event] = [read.entry for read in recording.events]
    place = [at for at, entry in enumerate(entries) if isinstance(entry, kind)][nth]
    return taped(*entries[:place], *entries[place + 1 :])


def changed(entry: Event, **fields: object) -> Event:
    return msgspec.structs.replace(entry, **fields)
