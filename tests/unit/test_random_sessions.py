"""A session comes to the same, be it read from its first event or from a checkpoint."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest
from random_sessions import RandomSession

from gnomon.engine.fold import Fold
from gnomon.engine.ledger import Ledger
from gnomon.storage.memory import MemoryStorage
from gnomon.types.events import Compacted, TurnCancelled, TurnFailed, TurnFinished
from gnomon.types.requests import add_usage

SOAK = os.environ.get("GNOMON_SOAK") == "1"
SEED = int(os.environ.get("GNOMON_TEST_SEED") or 1)
SESSIONS = 3_000 if SOAK else 60

_OF_CALLS = (
    *("results", "intents", "questions", "answers", "requests", "decisions", "subagents", "finished"),
    *("told", "guarded", "calls"),
)
_OF_TURN = ("asking", "is_paused", "rounds", "repairs", "usage", "cost", "agent_hash")


def known(fold: Fold) -> dict[str, Any]:
    """All that anybody asks a fold for."""
    turn = fold.open_turn
    found: dict[str, Any] = {
        "messages": list(fold.messages),
        "places": list(fold.places),
        "waiting": {at: (each.seq, each.received.message) for at, each in fold.waiting.items()},
        "turn": None if turn is None else (turn.id, *(getattr(turn, part) for part in _OF_TURN)),
        # Of calls that all have their results nobody asks again: the model is asked by now.
        "calls": turn and turn.asking is None and [getattr(turn, part) for part in _OF_CALLS],
    }
    for name in ("seq", "view_start", "owner", "epoch", "usage", "cost", "recent", "cancel", "rules"):
        found[name] = getattr(fold, name)
    return found


@pytest.mark.parametrize("seed", range(SEED * 100_000, SEED * 100_000 + SESSIONS))
async def test_a_checkpoint_and_the_whole_log_give_the_same_session(seed: int) -> None:
    store, chance = MemoryStorage(), random.Random(seed)
    live = Ledger(store, "s")
    async for _ in RandomSession(live, seed).turns(6):
        if chance.random() < 0.1:
            await live.checkpoint()
        if chance.random() < 0.3:
            await expect_same(store, live)
    await live.checkpoint()
    await expect_same(store, live)
    await expect_spent(store, live.fold)


async def expect_same(store: MemoryStorage, live: Ledger) -> None:
    opened, read = await Ledger.open(store, "s"), Ledger(store, "s")
    await read.refresh()
    assert known(read.fold) == known(live.fold), "read from its first event"
    assert known(opened.fold) == known(live.fold), "opened from its checkpoint"


async def expect_spent(store: MemoryStorage, fold: Fold) -> None:
    """What turns used in all, and what was used between them."""
    spent = [
        read.entry
        for read in await Ledger(store, "s").refresh()
        if isinstance(read.entry, TurnFinished | TurnFailed | TurnCancelled)
        or (isinstance(read.entry, Compacted) and not read.entry.turn_id)
    ]
    assert fold.usage == add_usage([each.usage for each in spent])
    assert fold.cost == sum(each.cost or 0.0 for each in spent)
