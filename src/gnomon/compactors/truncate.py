"""Leaves out the oldest exchanges, and says so."""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.compactors._counting import counter_of, share_of
from gnomon.compactors._fitting import Fitting
from gnomon.contracts.counter import TokenCounter
from gnomon.types.messages import Message

__all__ = ["TruncateCompactor"]


class TruncateCompactor:
    """Leaves out the oldest exchanges of a conversation that does not fit; asks nobody.

    What comes back: the system prompt, what the user said first, what the user said last, a note that says
    how many messages were left out, and the newest exchanges as they are. They fill the budget, or a share of
    it, `keep`, where whoever asks leaves no room for what comes next. An earlier summary and instructions
    that were given on the way stay where there is room. Where the last exchange alone is too long, the
    results of its tools are shortened. Where that does not help either, it raises `ContextTooLong`.
    """

    name = "truncate"

    def __init__(self, *, keep: float = 1.0, counter: TokenCounter | str | None = None) -> None:
        self._keep = share_of(keep)
        self._counter = counter_of(counter)

    async def compact(self, messages: Sequence[Message], budget: int) -> tuple[Message, ...]:
        """What the model is to see from now on."""
        fitting = Fitting(messages, budget, self._counter)
        return fitting.messages if fitting.fits else fitting.truncated(self._keep)
