"""How much one turn may use, and how much it has used."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal, TypeAlias

import msgspec

from gnomon.engine.clock import Clock
from gnomon.types.requests import Response, Usage, add_usage

__all__ = ["Budget", "Limit", "Meter"]

Limit: TypeAlias = Literal["rounds", "tokens", "seconds"]


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one turn; `None` is no limit. A round is one call of the model.

    All are checked before a call: reaching one ends the turn with what there is.
    """

    rounds: int | None = 25
    tokens: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("rounds", "tokens", "seconds"):
            limit: float | None = getattr(self, name)
            if limit is not None and not limit > 0:  # so that NaN is refused too
                raise ValueError(
                    f"a budget of {limit} {name} allows nothing: give a positive number, or None"
                )


class Meter:
    """What a turn has used so far."""

    def __init__(self, budget: Budget, clock: Clock) -> None:
        self._budget = budget
        self._clock = clock
        self._started = clock.monotonic()
        self.usage = Usage()
        self.rounds = 0
        self._cost: Decimal | None = Decimal(0)

    @property
    def cost(self) -> float | None:
        """In US dollars; `None` when a part of it has no known price."""
        return None if self._cost is None or not self.rounds else float(self._cost)

    def count(self, response: Response, cost: Decimal | None = None) -> None:
        """One more round. Attempts that failed on the way to it were paid for too."""
        self.rounds += 1
        self._cost = None if self._cost is None or cost is None else self._cost + cost
        self.usage = add_usage((self.usage, *response.discarded, response.usage))

    def reached(self) -> Limit | None:
        """The limit that forbids another call, if there is one."""
        budget = self._budget
        if budget.rounds is not None and self.rounds >= budget.rounds:
            return "rounds"
        if budget.tokens is not None and (self.usage.total_tokens or 0) >= budget.tokens:
            return "tokens"
        if budget.seconds is not None and self._clock.monotonic() - self._started >= budget.seconds:
            return "seconds"
        return None
