"""One conversation on its way to fitting a budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from gnomon.compactors._counting import sizes
from gnomon.compactors._marks import left_out, note
from gnomon.compactors._plan import Layout, Plan
from gnomon.compactors._shorten import LEAST_CHARS, longest_result, shortened_results
from gnomon.contracts.counter import TokenCounter
from gnomon.errors import ContextTooLong
from gnomon.types.messages import Message

__all__ = ["Fitting"]

_TRIES = 8
"""Estimates are of single messages; a counter may find that they come to more together."""


class Fitting:
    """A conversation and its budget. Every message is measured once, when that is needed at all."""

    def __init__(self, messages: Sequence[Message], budget: int, counter: TokenCounter) -> None:
        self.messages = tuple(messages)
        self.budget = budget
        self._counter = counter
        self._tokens = counter.count_messages(self.messages)

    @property
    def fits(self) -> bool:
        return self._tokens <= self.budget

    def count(self, messages: Sequence[Message]) -> int:
        return self._counter.count_messages(messages)

    def layout(self, *, summaries: bool) -> Layout:
        return Layout(self.messages, self._sizes, summaries=summaries)

    @cached_property
    def _sizes(self) -> list[int]:
        return sizes(self.messages, self._counter)

    def joined(self, plan: Plan, stand_in: Callable[[int], Message]) -> tuple[Message, ...]:
        """What stays, and before the tail what stands in for the rest."""
        gone = left_out(plan.dropped(self.messages))
        between = (stand_in(gone),) if gone else ()
        return (*plan.head(self.messages), *between, *plan.tail(self.messages))

    def truncated(self, share: float, why: str = "") -> tuple[Message, ...]:
        """Without its oldest exchanges: a share of the budget is filled, or more for the last exchange."""
        layout = self.layout(summaries=True)
        around = self.count((note(len(self.messages), why),))
        limit, most = int(self.budget * share) - around, self.budget - around
        for _ in range(_TRIES):
            plan = layout.plan(limit, most)
            if plan is None:
                break
            found = self.joined(plan, lambda gone: note(gone, why))
            over = self.count(found) - self.budget
            if over <= 0:
                return found
            limit, most = limit - over, most - over
        return self._shortened(layout.least(), why)

    def _shortened(self, plan: Plan, why: str) -> tuple[Message, ...]:
        """The least that may stay, its tool results as long as there is room for."""
        whole = self.joined(plan, lambda gone: note(gone, why))
        head = whole[: len(whole) - len(plan.tail(self.messages))]

        def made(chars: int) -> tuple[Message, ...]:
            return (*head, *shortened_results(plan.tail(self.messages), chars))

        low, high = LEAST_CHARS, longest_result(plan.tail(self.messages)) + 1
        if self.count(made(low)) > self.budget:
            raise self._too_long(self.count(made(low)))
        while high - low > max(1, low // 32):
            middle = (low + high) // 2
            if self.count(made(middle)) <= self.budget:
                low = middle
            else:
                high = middle
        return made(low)

    def _too_long(self, least: int) -> ContextTooLong:
        return ContextTooLong(
            f"the conversation of {self._tokens} tokens cannot be made to fit: "
            f"what must stay comes to {least}, and the budget is {self.budget}",
            hint="shorten the instructions or the message, or use a model with a larger window",
        )
