"""What is seen to before the model is asked: whether it may be shown the input, and whether it all fits."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from gnomon.engine.aside import Aside
from gnomon.engine.clock import Clock
from gnomon.engine.context import Context
from gnomon.engine.definition import Definition
from gnomon.engine.journal import Journal
from gnomon.engine.plan import Planner
from gnomon.engine.turn import REPAIR
from gnomon.errors import ContextTooLong, GnomonError
from gnomon.types.events import (
    Compacted,
    LedgerEntry,
    MessageCompleted,
    MessageReceived,
    ModelStarted,
    ToolFinished,
    TurnStarted,
)
from gnomon.types.messages import Message

__all__ = ["Prelude"]

log = logging.getLogger("gnomon.context")


class Prelude:
    """Of one runner. Nothing is written here: what is found out is written with the question."""

    _too_long: ContextTooLong | None = None
    _tried_at: int = -1
    _given_up: str = ""
    """The message for which the conversation was made shorter once, since it was too long."""

    def __init__(self, agent: Definition, journal: Journal, planner: Planner, clock: Clock) -> None:
        self._agent = agent
        self._journal = journal
        self._planner = planner
        self._clock = clock
        self.unpaid: list[Aside] = []
        """What was asked for shorter views that came to nothing, until a turn has paid for it."""

    def take_in(self, error: Exception, message_id: str) -> bool:
        """The model found the conversation too long: whether it is to be made shorter, once a message."""
        if not isinstance(error, ContextTooLong) or self._agent.context is None:
            return False
        if self._given_up == message_id:
            return False
        self._too_long, self._given_up = error, message_id
        return True

    def wants_compaction(self, entries: Sequence[LedgerEntry], facts: Sequence[LedgerEntry]) -> bool:
        """Whether money may be spent before the question is asked."""
        context = self._agent.context
        if context is None or self._tried_at == self._journal.fold.seq:
            return False
        if self._too_long is not None:
            return True
        new = [message for _, message in self._inputs(entries, facts)]
        known = _unwritten(facts) if self._journal.is_shared else []
        return bool(self._journal.fold.messages) and context.is_full(self._journal.fold, [*known, *new])

    async def check(self, entries: Sequence[LedgerEntry], facts: Sequence[LedgerEntry]) -> bool:
        """Look at what is new; whether the planner is to decide again."""
        guards = self._agent.guards
        if guards is None or not guards.input:
            return False
        guarded, is_changed = self._planner.guarded, False
        for message_id, message in self._inputs(entries, facts):
            if message_id not in guarded:
                guarded[message_id] = await guards.message(message_id, message)
                is_changed = is_changed or bool(guarded[message_id])
        return is_changed

    async def compact(
        self, entries: Sequence[LedgerEntry], facts: Sequence[LedgerEntry], turn_id: str
    ) -> Compacted | None:
        """The shorter view, to be written first; `None` where nothing came of it."""
        context = self._agent.context
        assert context is not None
        fold, too_long = self._journal.fold, self._too_long
        self._tried_at, self._too_long = fold.seq, None
        aside = Aside(self._agent, self._clock, self._journal, turn_id)
        new = [message for _, message in self._inputs(entries, facts)]
        reason = "budget" if too_long is None else "too_long"
        self.unpaid.append(aside)
        try:
            made = await context.compacted(fold, reason, aside, turn_id=turn_id, new=new)
        except GnomonError as error:
            return self._failed(error, too_long, context)
        if made is None:
            self._planner.failure = too_long or self._planner.failure
            return None
        self.unpaid.remove(aside)
        return aside.paid(made)

    def _failed(self, error: GnomonError, too_long: ContextTooLong | None, context: Context) -> None:
        """Without a shorter view the model is asked with the long one; unless it has refused that."""
        log.warning("the conversation was not made shorter: %s", error)
        if too_long is not None:
            too_long.hint = f"and {error.message}" if context.name in error.message else error.message
            self._planner.failure = too_long

    def _inputs(
        self, entries: Sequence[LedgerEntry], facts: Sequence[LedgerEntry]
    ) -> list[tuple[str, Message]]:
        """The messages that the model is about to be shown for the first time."""
        wanted = [
            message_id
            for entry in entries
            if isinstance(entry, TurnStarted | ModelStarted)
            for message_id in entry.inputs
            if not message_id.startswith(REPAIR)
        ]
        waiting = self._journal.fold.waiting
        known = {at: each.received.message for at, each in waiting.items()}
        known |= {entry.message_id: entry.message for entry in facts if isinstance(entry, MessageReceived)}
        return [(at, known[at]) for at in wanted if at in known]


def _unwritten(facts: Sequence[LedgerEntry]) -> list[Message]:
    """What the model would be shown besides, and the fold does not know yet."""
    said = [fact.response.message for fact in facts if isinstance(fact, MessageCompleted)]
    results = [fact.result for fact in facts if isinstance(fact, ToolFinished)]
    return [*said, Message.tool(*results)] if results else said
