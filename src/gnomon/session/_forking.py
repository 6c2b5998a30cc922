"""A copy of a session up to some place, which goes its own way from there."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gnomon.engine.definition import Definition
from gnomon.engine.fold import Fold
from gnomon.engine.ids import new_id
from gnomon.engine.ledger import Ledger
from gnomon.engine.plan import cancelling
from gnomon.engine.turn import REPAIR
from gnomon.errors import Conflict
from gnomon.session._auditing import forked_from
from gnomon.session.runtime import Runtime
from gnomon.types.events import Claimed, Guarded, LedgerEntry, Released, TurnCancelled, TurnStarted
from gnomon.types.messages import Message

__all__ = ["forked"]

_FORKED = "forked here"


async def forked(runtime: Runtime, session_id: str, source: Ledger, end: int) -> Ledger:
    """The ledger of a new session with the events of another up to that place, and nothing open in it."""
    storage = await runtime.storage()
    ledger = await runtime.ledger(session_id)
    if ledger.fold.seq:
        raise Conflict(f"session {session_id!r} is there already", hint="fork into another id")
    old = await storage.get_session(source.session_id)
    title, kept, user_id = (old.title, old.metadata, old.user_id) if old is not None else ("", {}, "")
    kept = {key: value for key, value in kept.items() if key != "owner"}
    # Nobody is to find it before it is whole: what is open in the midst of it would be gone on with.
    row = runtime.new_row(session_id, Message.user(title), is_runnable=False, metadata=kept, user_id=user_id)
    await ledger.create(row)
    await ledger.copy_from(source.session_id, end)
    if runtime.chores.observing.audit:
        await forked_from(storage, session_id, source.session_id, end)
    guarded = await _guarded(ledger.fold, runtime.agent)
    await ledger.receive(*_ended_here(ledger.fold, runtime.agent, runtime.owner, guarded))
    await ledger.project("idle", runnable=False)
    return ledger


async def _guarded(fold: Fold, agent: Definition) -> list[Guarded]:
    """What guardrails have against the messages that wait: they have not been looked at."""
    if agent.guards is None or not agent.guards.input:
        return []
    waiting = [(at, each.received.message) for at, each in fold.waiting.items()]
    return [found for at, message in waiting for found in await agent.guards.message(at, message)]


def _ended_here(
    fold: Fold, agent: Definition, owner: str, guarded: Sequence[Guarded] = ()
) -> list[LedgerEntry]:
    """What ends that which is open in a copy; the claim on it is of the session it was copied from."""
    turn, epoch = fold.open_turn, fold.epoch + 1
    waiting = tuple(at for at in fold.waiting if not at.startswith(REPAIR))
    if turn is None and fold.owner is None and not waiting:
        return []
    ending = cancelling(turn, _FORKED, agent) if turn is not None else ()
    return [Claimed(owner, epoch), *ending, *_unanswered(waiting, agent, guarded), Released(owner, epoch)]


def _unanswered(
    waiting: tuple[str, ...], agent: Definition, guarded: Sequence[Guarded]
) -> tuple[LedgerEntry, ...]:
    """Messages that waited are part of the conversation; the session they were sent to answers them."""
    if not waiting:
        return ()
    turn_id = new_id("turn")
    started = TurnStarted(turn_id, agent.name, agent.model, agent.hash, inputs=waiting)
    against = (msgspec.structs.replace(each, turn_id=turn_id) for each in guarded)
    return (started, *against, TurnCancelled(turn_id, _FORKED, cost=0.0))
