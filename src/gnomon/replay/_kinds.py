"""The kinds of entries in a ledger: who writes them, and what a replay does with them."""

from __future__ import annotations

from typing import TypeGuard

from gnomon.engine.turn import REPAIR, Ended
from gnomon.types.events import (
    ApprovalDecided,
    CancelRequested,
    Compacted,
    Event,
    Guarded,
    LedgerEntry,
    MessageCompleted,
    MessageReceived,
    ModelStarted,
    QuestionAnswered,
    QuestionAsked,
    SubagentFinished,
    SubagentStarted,
    ToolFinished,
    ToolIntent,
    TurnFinished,
    TurnStarted,
    Unknown,
)

__all__ = ["ASKING", "AS_RECORDED", "CANCELLABLE", "DECISIONS", "FROM_AROUND", "OUTSIDE", "is_runners"]

_RUNNERS = (
    TurnStarted,
    ModelStarted,
    MessageCompleted,
    ToolIntent,
    ToolFinished,
    QuestionAsked,
    SubagentStarted,
    Ended,
)
DECISIONS = (TurnStarted, ModelStarted, ToolIntent, QuestionAsked, SubagentStarted, Ended)
"""What a runner comes to write by looking at all that stands before."""

CANCELLABLE = (ToolIntent, SubagentStarted, TurnFinished)
ASKING = (MessageReceived, ModelStarted)
"""What is not there where a turn was cancelled: the cancel comes at once, or while the model is asked."""

OUTSIDE = (MessageReceived, CancelRequested, QuestionAnswered, SubagentFinished)
"""What others write while a runner is at work, and what it then takes into account."""

FROM_AROUND = ("guardrail_tripped", "hook_failed")
"""What stands around the loop is not run again."""

AS_RECORDED: dict[type, str] = {
    Compacted: "the compaction is taken as it was recorded",
    Guarded: "what the guardrail did is taken as it was recorded",
    ApprovalDecided: "the approval is taken as it was decided",
    SubagentStarted: "the session of the sub-agent is not replayed; its result is taken as it was recorded",
    Unknown: "an event of a newer version is passed over",
}


def is_runners(entry: Event) -> TypeGuard[LedgerEntry]:
    """Whether the loop itself writes such an entry."""
    if isinstance(entry, MessageReceived):
        return entry.message_id.startswith(REPAIR)
    if isinstance(entry, QuestionAsked) and entry.path:  # of a sub-agent
        return False
    return isinstance(entry, _RUNNERS)
