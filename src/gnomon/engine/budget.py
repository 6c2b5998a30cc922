"""How much one turn may use, and how much it has used."""

from __future__ import annotations

from typing import Literal, TypeAlias, cast

import msgspec

from gnomon.engine.clock import Clock
from gnomon.engine.turn import TurnState
from gnomon.types.events import BudgetWarning

__all__ = ["Budget", "Limit", "Meter"]

_NEAR = 0.8
"""How much of a limit is used when it is told that it is near."""

Limit: TypeAlias = Literal["rounds", "tokens", "seconds", "cost"]


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one turn; `None` is no limit. A round is one call of the model.

    `cost` is in US dollars; while a price is unknown it cannot be checked, and says nothing. `seconds` are
    those in which the turn runs, not those in which it waits for a person. All are checked before a
    call of the model: reaching one ends the turn with what there is.
    """

    rounds: int | None = 25
    tokens: int | None = None
    seconds: float | None = None
    cost: float | None = None

    def __post_init__(self) -> None:
        for name in ("rounds", "tokens", "seconds", "cost"):
            limit = cast(object, getattr(self, name))
            if limit is None:
                continue
            kind = int if name in ("rounds", "tokens") else int | float
            if isinstance(limit, bool) or not isinstance(limit, kind):
                what = "a whole number" if kind is int else "a number"
                raise TypeError(f"a budget of {name} is {what}, not {type(limit).__name__}")
            if not limit > 0:  # so that NaN is refused too
                raise ValueError(
                    f"a budget of {limit} {name} allows nothing: give a positive number, or None"
                )


class Meter:
    """Whether a turn may go on, by what it has used."""

    def __init__(self, budget: Budget, clock: Clock) -> None:
        self._budget = budget
        self._clock = clock
        self._started = 0.0
        self.start()

    def start(self) -> None:
        """The time of a turn begins now."""
        if self._budget.seconds is not None:
            self._started = self._clock.monotonic()

    @property
    def seconds_left(self) -> float | None:
        """How long the turn may still run; `None` where there is no limit."""
        limit = self._budget.seconds
        return None if limit is None else limit - (self._clock.monotonic() - self._started)

    def near(self, turn: TurnState) -> list[BudgetWarning]:
        """The limits that little is left of, and that nobody was warned of in this turn."""
        budget = self._budget
        used: dict[Limit, tuple[float, float | None]] = {
            "rounds": (turn.rounds, budget.rounds),
            "tokens": (turn.usage.total_tokens or 0, budget.tokens),
            "cost": (float(turn.cost or 0), budget.cost),
            "seconds": (self._clock.monotonic() - self._started if budget.seconds else 0.0, budget.seconds),
        }
        return [
            BudgetWarning(turn.id, kind, spent, limit)
            for kind, (spent, limit) in used.items()
            if limit is not None and spent >= _NEAR * limit and kind not in turn.warned
        ]

    def reached(self, turn: TurnState) -> Limit | None:
        """The limit that forbids another call, if there is one."""
        budget = self._budget
        if budget.rounds is not None and turn.rounds >= budget.rounds:
            return "rounds"
        if budget.tokens is not None and (turn.usage.total_tokens or 0) >= budget.tokens:
            return "tokens"
        if budget.cost is not None and turn.cost is not None and turn.cost >= budget.cost:
            return "cost"
        if budget.seconds is not None and self._clock.monotonic() - self._started >= budget.seconds:
            return "seconds"
        return None
