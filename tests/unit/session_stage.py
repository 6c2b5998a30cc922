"""What tests of sessions share: a store that does as it is told, and ledgers that others have written."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Awaitable, Callable, Sequence
from types import ModuleType

from gnomon import Agent
from gnomon._payload import unpacked
from gnomon.errors import Conflict
from gnomon.storage.memory import MemoryStorage
from gnomon.types.codec import encode_event
from gnomon.types.events import (
    Claimed,
    LedgerEntry,
    MessageCompleted,
    MessageReceived,
    ModelStarted,
    TurnStarted,
)
from gnomon.types.messages import Message, ToolCall
from gnomon.types.records import LedgerEvent, SessionRecord, utc_now
from gnomon.types.requests import Response, Usage

__all__ = ["StagedStorage", "answered", "ledger_of", "loaded_again", "make_row", "opening", "write"]

Step = Callable[[], Awaitable[None]]


async def _nothing() -> None:
    pass


class StagedStorage(MemoryStorage):
    """A store with steps before its writes. Of events whose type is in `refused` it says that others
    were first, and shows nothing new."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[str] = set()
        self.refusals = self.appends = self.updates = self.closes = 0
        self.before_append: Step = _nothing
        self.before_update: Step = _nothing
        self.before_create: Step = _nothing

    async def append_events(self, events, *, checkpoint=None) -> None:
        self.appends += 1
        await self.before_append()
        if self.refused & {event.type for event in events}:
            self.refusals += 1
            await asyncio.sleep(0)
            raise Conflict("others were first")
        await super().append_events(events, checkpoint=checkpoint)

    async def update_session(self, session: SessionRecord) -> SessionRecord:
        self.updates += 1
        await self.before_update()
        return await super().update_session(session)

    async def create_session(self, session: SessionRecord) -> None:
        await self.before_create()
        await super().create_session(session)

    async def close(self) -> None:
        self.closes += 1
        await super().close()


async def ledger_of(store: MemoryStorage, session_id: str = "s") -> list[LedgerEntry]:
    page = await store.list_events(session_id, 0, 1_000)
    return [unpacked(event, {}) for event in page.items]


async def write(store: MemoryStorage, *entries: LedgerEntry, after: int = 0, session_id: str = "s") -> None:
    """What another process has written."""
    events = [
        LedgerEvent(
            session_id=session_id,
            seq=seq,
            id=f"{session_id}-{seq}",
            type=str(entry.__struct_config__.tag),
            payload=encode_event(entry),
            created_at=utc_now(),
        )
        for seq, entry in enumerate(entries, after + 1)
    ]
    await MemoryStorage.append_events(store, events)


async def make_row(store: MemoryStorage, *, agent: str = "agent", **fields: object) -> None:
    now = utc_now()
    await store.create_session(
        SessionRecord(id="s", agent_id=agent, created_at=now, updated_at=now, **{"runnable": True, **fields})
    )


def answered(*content: str | ToolCall, message_id: str = "m1", turn_id: str = "t1") -> MessageCompleted:
    called = any(isinstance(part, ToolCall) for part in content)
    response = Response(
        message=Message.assistant(*content),
        stop_reason="tool_use" if called else "end_turn",
        usage=Usage(input_tokens=3, output_tokens=2),
    )
    return MessageCompleted(turn_id, message_id, response)


def opening(agent: Agent, owner: str = "gone", **given: object) -> Sequence[LedgerEntry]:
    """A turn that a runner has begun, up to the question to the model."""
    return (
        MessageReceived("u1", Message.user("go")),
        Claimed(owner, 1),
        TurnStarted("t1", "agent", "m", **{"agent_hash": agent._definition.hash, "inputs": ("u1",), **given}),
        ModelStarted("t1", "m1", (1, 1)),
    )


def loaded_again(source: ModuleType) -> ModuleType:
    """The same code as another module: what it does when it is imported happens anew."""
    spec = importlib.util.spec_from_file_location(f"{source.__name__}_again", source.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
