"""`kill -9` at every write of a run of ten calls, and again at every write of its recovery.

Effects are counted in a file outside the store. No effect of a call that has its result is repeated, none of
a call of which nobody knows is repeated in silence, and every run ends. With `GNOMON_SOAK=1` every pair of
points is tried; otherwise some, by `GNOMON_TEST_SEED`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from killing import STORES, Killing, killing_on
from recorded_effects import check_run

SOAK = os.environ.get("GNOMON_SOAK") == "1"
SEED = int(os.environ.get("GNOMON_TEST_SEED") or 1)

WRITES = 26
"""How often a run that is not disturbed writes; a test of its own says so when that is no longer true."""
POINTS = [(point, when) for point in range(1, WRITES + 1) for when in ("before", "after")]
CHANCE = random.Random(SEED)
CHOSEN = POINTS if SOAK else sorted(CHANCE.sample(POINTS, 6))
LATER = 200 if SOAK else 2
"""How many points of the recovery are tried for each point of the run."""
MOMENTS = 150 if SOAK else 6


@pytest.fixture(params=STORES)
def killing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Killing]:
    with killing_on(request.param, tmp_path, check_run) as made:
        yield made


def test_a_run_that_nobody_kills_writes_as_often_as_is_counted_on_here(killing: Killing) -> None:
    # A row that collides with another writer's is written once more.
    assert killing.run((WRITES + 3, "before", 0.0)) == [False]
    assert killing.run((WRITES, "before", 0.0)) == [True]
    assert killing.counts["effects"] == 16  # eight calls of ten change something


@pytest.mark.parametrize(("point", "when"), CHOSEN)
def test_a_runner_that_is_killed_at_any_write_and_again_in_its_recovery_repeats_no_effect(
    killing: Killing, point: int, when: str
) -> None:
    assert killing.run((point, when, 0.0)) == [True]
    later = [(at, moment) for at in range(1, WRITES + 10) for moment in ("before", "after")]
    if not SOAK:
        later = random.Random(SEED * 100 + point).sample(later[: 2 * max(2, WRITES - point)], LATER)
    for at, moment in later:
        if not killing.run((point, when, 0.0), (at, moment, 0.0))[1] and SOAK:
            break  # the recovery has no more writes


def test_a_runner_that_is_killed_at_any_moment_repeats_no_effect(killing: Killing) -> None:
    """Not at a write, but in the midst of what comes of it; three runners in a row."""
    chance = random.Random(SEED)
    for _ in range(MOMENTS):
        points = [(chance.randint(1, WRITES), "during", chance.uniform(0, 0.008)) for _ in range(3)]
        killing.run(*points)
    assert killing.counts["kills"] > MOMENTS
