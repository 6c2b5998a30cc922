"""A shorter view that somebody asks for between two turns, and what it cost, also when nothing came of it."""

from __future__ import annotations

import logging

from gnomon.engine.aside import Aside
from gnomon.engine.context import Context
from gnomon.engine.journal import TRIES, crowded
from gnomon.engine.ledger import Ledger
from gnomon.errors import Conflict, GnomonError
from gnomon.types.events import Compacted

__all__ = ["compact"]

log = logging.getLogger("gnomon.context")


async def compact(ledger: Ledger, context: Context, aside: Aside) -> Compacted | None:
    """Make the view shorter, for good; `None` where it cannot be. What it cost counts in any case."""
    compacted = None
    try:
        compacted = await _shortened(ledger, context, aside)
    finally:
        if compacted is None and not aside.is_free:
            await _paid_for_nothing(ledger, context, aside)
    return compacted


async def _shortened(ledger: Ledger, context: Context, aside: Aside) -> Compacted | None:
    for _ in range(TRIES):
        if ledger.fold.open_turn is not None:
            raise Conflict(
                f"session {ledger.session_id!r} has an open turn", hint="wait for its end, or cancel it"
            )
        seen = ledger.fold.seq
        made = await context.compacted(ledger.fold, "asked", aside)
        if made is None:
            return None
        compacted = aside.paid(made)
        if await ledger.try_receive((compacted,), seen):
            return compacted
        await ledger.refresh()
    raise crowded(ledger.session_id)


async def _paid_for_nothing(ledger: Ledger, context: Context, aside: Aside) -> None:
    """Write down what was spent, with the view as it is. That it was not must not hide why there is none."""
    try:
        for _ in range(TRIES):
            await ledger.refresh()
            if ledger.fold.open_turn is not None:  # nobody but its runner compacts in a turn
                break
            spent = aside.paid(context.unchanged(ledger.fold))
            if await ledger.try_receive((spent,), ledger.fold.seq):
                return
    except GnomonError as error:
        log.warning("what was spent could not be written: %s", error)
        return
    log.warning("what was asked for a shorter view of %s is not counted: it is busy", ledger.session_id)
