"""How much a turn may use."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gnomon import Budget, Message, Response, Usage
from gnomon.engine.budget import Meter


class StoppedClock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime(2024, 1, 1, tzinfo=UTC)


def response(usage: Usage | None = None, *discarded: Usage) -> Response:
    return Response(
        message=Message.assistant("x"), stop_reason="tool_use", usage=usage or Usage(), discarded=discarded
    )


def test_a_turn_has_25_rounds_and_no_other_limit_unless_told() -> None:
    assert Budget() == Budget(rounds=25, tokens=None, seconds=None)


@pytest.mark.parametrize("name", ["rounds", "tokens", "seconds"])
@pytest.mark.parametrize("limit", [0, -1])
def test_a_budget_that_allows_nothing_is_refused(name: str, limit: int) -> None:
    with pytest.raises(ValueError, match=f"a budget of {limit} {name} allows nothing"):
        Budget(**{name: limit})


def test_a_budget_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match="seconds"):
        Budget(seconds=float("nan"))


def test_rounds_are_reached_when_as_many_were_counted() -> None:
    meter = Meter(Budget(rounds=2), StoppedClock())
    assert meter.reached() is None
    meter.count(response())
    assert (meter.rounds, meter.reached()) == (1, None)
    meter.count(response())
    assert (meter.rounds, meter.reached()) == (2, "rounds")


def test_tokens_count_every_class_once() -> None:
    meter = Meter(Budget(tokens=100), StoppedClock())
    usage = Usage(
        input_tokens=50, output_tokens=20, cache_read_tokens=19, cache_write_tokens=10, reasoning_tokens=15
    )
    meter.count(response(usage))
    assert meter.reached() is None  # 99: what was thought is part of what was said
    meter.count(response(Usage(output_tokens=1)))
    assert meter.reached() == "tokens"


def test_attempts_that_failed_are_paid_for() -> None:
    meter = Meter(Budget(tokens=10), StoppedClock())
    meter.count(response(Usage(output_tokens=1), Usage(input_tokens=5), Usage(input_tokens=4)))
    assert meter.reached() == "tokens"
    assert meter.usage == Usage(input_tokens=9, output_tokens=1)
    assert meter.rounds == 1


def test_usage_that_nobody_reported_is_unknown_and_not_zero() -> None:
    meter = Meter(Budget(tokens=1), StoppedClock())
    meter.count(response())
    assert meter.usage == Usage()
    assert meter.usage.total_tokens is None
    assert meter.reached() is None


def test_seconds_are_measured_from_the_start_of_the_turn() -> None:
    clock = StoppedClock()
    meter = Meter(Budget(seconds=10), clock)
    clock.seconds += 9.5
    assert meter.reached() is None
    clock.seconds += 0.5
    assert meter.reached() == "seconds"


def test_without_limits_nothing_is_ever_reached() -> None:
    clock = StoppedClock()
    meter = Meter(Budget(rounds=None), clock)
    for _ in range(100):
        clock.seconds += 1e6
        meter.count(response(Usage(output_tokens=10**9)))
    assert meter.reached() is None
    assert meter.rounds == 100
