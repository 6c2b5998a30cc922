"""How much a turn may use."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gnomon import Budget, Message, MessageCompleted, Response, TurnStarted, Usage
from gnomon.engine.budget import Meter
from gnomon.engine.turn import TurnState


class StoppedClock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime(2024, 1, 1, tzinfo=UTC)


class Turn:
    """A turn that answers, and the meter that watches it."""

    def __init__(self, budget: Budget, clock: StoppedClock | None = None) -> None:
        self.meter = Meter(budget, clock or StoppedClock())
        self.state = TurnState(TurnStarted("turn", "agent", "x"))

    def says(self, usage: Usage | None = None, *discarded: Usage, cost: float | None = 0.0) -> None:
        response = Response(
            message=Message.assistant("x"),
            stop_reason="tool_use",
            usage=usage or Usage(),
            discarded=discarded,
        )
        self.state.take(MessageCompleted("turn", "msg", response, cost))

    def reached(self) -> str | None:
        return self.meter.reached(self.state)


def test_a_turn_has_25_rounds_and_no_other_limit_unless_told() -> None:
    assert Budget() == Budget(rounds=25, tokens=None, seconds=None, cost=None)


@pytest.mark.parametrize("name", ["rounds", "tokens", "seconds", "cost"])
@pytest.mark.parametrize("limit", [0, -1])
def test_a_budget_that_allows_nothing_is_refused(name: str, limit: int) -> None:
    with pytest.raises(ValueError, match=f"a budget of {limit} {name} allows nothing"):
        Budget(**{name: limit})


def test_a_budget_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match="seconds"):
        Budget(seconds=float("nan"))


def test_rounds_are_reached_when_as_many_were_counted() -> None:
    turn = Turn(Budget(rounds=2))
    assert turn.reached() is None
    turn.says()
    assert (turn.state.rounds, turn.reached()) == (1, None)
    turn.says()
    assert (turn.state.rounds, turn.reached()) == (2, "rounds")


def test_tokens_count_every_class_once() -> None:
    turn = Turn(Budget(tokens=100))
    usage = Usage(
        input_tokens=50, output_tokens=20, cache_read_tokens=19, cache_write_tokens=10, reasoning_tokens=15
    )
    turn.says(usage)
    assert turn.reached() is None  # 99: what was thought is part of what was said
    turn.says(Usage(output_tokens=1))
    assert turn.reached() == "tokens"


def test_attempts_that_failed_are_paid_for() -> None:
    turn = Turn(Budget(tokens=10))
    turn.says(Usage(output_tokens=1), Usage(input_tokens=5), Usage(input_tokens=4))
    assert turn.reached() == "tokens"
    assert turn.state.usage == Usage(input_tokens=9, output_tokens=1)
    assert turn.state.rounds == 1


def test_usage_that_nobody_reported_is_unknown_and_not_zero() -> None:
    turn = Turn(Budget(tokens=1))
    turn.says()
    assert turn.state.usage == Usage()
    assert turn.state.usage.total_tokens is None
    assert turn.reached() is None


def test_seconds_are_measured_from_the_start_of_the_turn() -> None:
    clock = StoppedClock()
    turn = Turn(Budget(seconds=10), clock)
    clock.seconds += 9.5
    assert turn.reached() is None
    clock.seconds += 0.5
    assert turn.reached() == "seconds"


def test_without_limits_nothing_is_ever_reached() -> None:
    clock = StoppedClock()
    turn = Turn(Budget(rounds=None), clock)
    for _ in range(100):
        clock.seconds += 1e6
        turn.says(Usage(output_tokens=10**9))
    assert turn.reached() is None
    assert turn.state.rounds == 100


def test_a_cost_is_reached_by_the_sum_of_the_answers() -> None:
    turn = Turn(Budget(cost=0.3))
    turn.says(cost=0.1)
    turn.says(cost=0.1)
    assert turn.reached() is None
    turn.says(cost=0.1)
    assert turn.reached() == "cost", "0.1 + 0.1 + 0.1 is 0.3, as money is counted"


def test_a_cost_that_is_not_known_says_nothing() -> None:
    turn = Turn(Budget(cost=0.3))
    turn.says(cost=None)
    turn.says(cost=5.0)
    assert turn.reached() is None
