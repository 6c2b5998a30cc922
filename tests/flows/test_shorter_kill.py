"""`kill -9` at every write of a turn that makes its conversation shorter, and while the summary is asked for:
either nothing has changed, and whoever goes on makes it shorter, or it is as it was made.
With `GNOMON_SOAK=1` every point is tried, otherwise some, by `GNOMON_TEST_SEED`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from killing import STORES, Killing, Point, killing_on
from shorter import check_shorter

SOAK = os.environ.get("GNOMON_SOAK") == "1"
SEED = int(os.environ.get("GNOMON_TEST_SEED") or 1)
WRITES = 6
POINTS = [(point, when) for point in range(1, WRITES + 1) for when in ("before", "after")]
CHOSEN = POINTS if SOAK else sorted(random.Random(SEED).sample(POINTS, 4))

FILL: Point = (0, "", 0.0, "fill")


@pytest.fixture(params=STORES)
def killing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Killing]:
    with killing_on(request.param, tmp_path, check_shorter, "shorter") as made:
        yield made


@pytest.mark.parametrize(("point", "when"), CHOSEN)
def test_a_turn_that_makes_its_conversation_shorter_may_be_killed_at_any_write(
    killing: Killing, point: int, when: str
) -> None:
    assert killing.run(FILL, (point, when, 0.0))[-1]
    assert killing.counts["compactions"] == 1


def test_a_turn_may_be_killed_while_its_summary_is_asked_for(killing: Killing) -> None:
    asking: Point = (0, "", 0.0, "ask")
    assert killing.run(FILL, asking, asking) == [False, True, True]
    assert killing.counts["compactions"] == 1
    assert killing.counts["summaries again"] == 2
