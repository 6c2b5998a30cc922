"""`kill -9` at every write around a request for leave, its answer and the run: leave never leads to two runs,
and is never lost. With `GNOMON_SOAK=1` every point is tried, otherwise some, by `GNOMON_TEST_SEED`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from killing import STORES, Killing, Point, killing_on
from leave import check_leave

SOAK = os.environ.get("GNOMON_SOAK") == "1"
SEED = int(os.environ.get("GNOMON_TEST_SEED") or 1)
WRITES = 31
"""As often as one process writes at the least that runs it all and decides: audit rows may come together."""
POINTS = [(point, when) for point in range(1, WRITES + 4) for when in ("before", "after")]
DECISION = 3
"""The same of one that only decides; one write more, for the same reason."""
DECIDING = [(point, when) for point in range(1, DECISION + 2) for when in ("before", "after")]
CHANCE = random.Random(SEED)
CHOSEN = POINTS if SOAK else sorted(CHANCE.sample(POINTS, 5))
DECIDED = DECIDING if SOAK else sorted(CHANCE.sample(DECIDING, 3))

RUN: Point = (0, "", 0.0, "run")
DECIDE: Point = (0, "", 0.0, "decide")


@pytest.fixture(params=STORES)
def killing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Killing]:
    with killing_on(request.param, tmp_path, check_leave, "leave") as made:
        yield made


def test_what_one_process_asks_another_decides(killing: Killing) -> None:
    assert killing.run(RUN, DECIDE, RUN, DECIDE) == [False] * 4
    assert killing.counts["effects"] == killing.counts["leaves"] == 3


@pytest.mark.parametrize(("point", "when"), CHOSEN)
def test_whoever_asks_decides_and_runs_may_be_killed_at_any_write(
    killing: Killing, point: int, when: str
) -> None:
    killing.run((point, when, 0.0))
    killing.run((point, when, 0.0), (point // 2, when, 0.0))
    assert killing.counts["kills"] >= 2 or point > WRITES


@pytest.mark.parametrize(("point", "when"), DECIDED)
def test_whoever_decides_may_be_killed_at_any_write(killing: Killing, point: int, when: str) -> None:
    """Of the agent's own calls, and of its sub-agent's; then somebody goes on who knows of nothing."""
    assert killing.run(RUN, (point, when, 0.0, "decide"), last="serve")[-1] or point > DECISION
    assert killing.run(RUN, DECIDE, RUN, (point, when, 0.0, "decide"), last="serve")[-1] or point > DECISION
