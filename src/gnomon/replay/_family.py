"""The sub-agents of a session that is replayed: none works, and how each ended is in the ledger."""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.engine.budget import Budget
from gnomon.engine.subagents import MAX_DEPTH, TOO_DEEP, Task
from gnomon.replay._tape import Tape
from gnomon.types.events import SubagentStarted, ToolFinished

__all__ = ["RecordedFamily"]


class RecordedFamily:
    """As deep as the session was, as far as that can be told from what it was refused."""

    def __init__(self, tape: Tape) -> None:
        refused = (
            read.entry.result.text.startswith(TOO_DEEP)
            for read in tape.events
            if isinstance(read.entry, ToolFinished) and read.entry.result.status == "error"
        )
        self.depth = MAX_DEPTH if any(refused) else 0

    async def start(self, started: SubagentStarted, task: Task, budget: Budget) -> None:
        """It has worked before."""

    async def cancel(self, session_ids: Sequence[str], reason: str) -> None:
        """Nobody works."""
